"""Assignments with capacities and a limit for each pair, as transport with limits.

A dummy column takes the unused capacities of rows, and a dummy row those of columns. How much the
dummy row brings to a column is limited, too: to the capacity minus the minimum.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jaxmatch._assignment.capacity import Units, by_transport, with_dummies
from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._transport.limited import Flows, solve_limited
from jaxmatch._transport.problem import TransportProblem


_NO_LIMIT = 2**31 - 1
# Greater sums of capacities are an error, so that masses of dummies fit into int32.
_MOST_UNITS = 2.0**30


def by_limited_transport(
    flows: Flows, problem: CapacityProblem, *, as_plan: bool, maximize: bool
) -> CapacitatedAssignment | Transport:
    """Solves a batch by minimum-cost flows."""
    solve = partial(solve_limited, flows, maximize=maximize)
    balanced = partial(_with_limited_dummies, maximize=maximize)
    with np.errstate(all="ignore"):
        return by_transport(solve, balanced, problem, as_plan=as_plan)


def _with_limited_dummies(
    problem: CapacityProblem, units: Units, *, maximize: bool
) -> tuple[TransportProblem, Bool[Array, "..."]]:
    """The balanced transport problem, and whether its masses do not fit."""
    xp, own = module_of(problem.transport.supply), problem.transport
    assert isinstance(own, TransportProblem)
    assert own.limit is not None
    without = problem._replace(col_minimum=None), units._replace(least=None)
    balanced, _ = with_dummies(*without, maximize=maximize)
    assert balanced.moved is not None
    too_many = _is_too_large(units.rows) | _is_too_large(units.cols)
    moved = balanced.moved[..., None]

    def with_last(x: Array, other: Array) -> Array:
        """The masses x, and what the dummy supplies or takes: what of `other` does not move."""
        return xp.concatenate([x, other.sum(-1, dtype=np.int32, keepdims=True) - moved], -1)

    def endless(like: Any) -> Any:
        return xp.full_like(like, _NO_LIMIT)

    *batch, n, _ = own.limit.shape
    last = endless(units.cols) if units.least is None else units.cols - units.least
    corner = xp.zeros((*batch, 1), np.int32)  # all of one side is matched
    corner = corner if problem.unmatched_cost is None else endless(corner)
    last = xp.concatenate([last, corner], -1)
    limit = xp.concatenate([own.limit, xp.full((*batch, n, 1), _NO_LIMIT, np.int32)], -1)
    limit = xp.concatenate([limit, last[..., None, :]], -2)
    problem_of_units = balanced._replace(
        supply=with_last(units.rows, units.cols),
        demand=with_last(units.cols, units.rows),
        moved=None,
        limit=limit,
    )
    return problem_of_units, too_many


def _is_too_large(x: Int[Array, "... k"]) -> Bool[Array, "..."]:
    """Whether the sum does not fit. A sum of floats tells, as one of int32 may wrap around."""
    return x.astype(np.float32).sum(-1) > _MOST_UNITS
