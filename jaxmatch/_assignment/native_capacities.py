"""Calls of the native targets for assignment problems with capacities, outside of a trace."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._common.result import CapacitatedAssignment, Transport, result_float
from jaxmatch._common.typing import ArrayLike
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._transport.point_problem import PointProblem


# The capacities of rows and of columns and the minima, as the caller gave them.
Given = tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None]

_PLAN = ("rows", "cols", "mass")
_ASSIGNMENT = ("col4row", "col_count")
_NUMBERS = ("cost", "row_dual", "col_dual", "gap", "status")


def capacities(
    problem: CapacityProblem, given: Given, *, as_plan: bool, **attributes: Any
) -> CapacitatedAssignment | Transport:
    """Solves every problem of the batch in one native call. All arrays are NumPy arrays.

    Where possible, the operands are the caller's own arrays: then `jaxmatch._ffi.repeated` can
    repeat the native call alone.
    """
    own = problem.transport
    if isinstance(own, PointProblem):
        target, first = "jaxmatch_capacities_points", [own.x, own.y]
    else:
        target, first = "jaxmatch_capacities", [own.cost]
    amounts = {
        "row_capacity": _amount(given[0], own.supply, 1),
        "col_capacity": _amount(given[1], own.demand, 1),
        "col_minimum": _amount(given[2], problem.col_minimum, -1),
    }
    optional = {name: x for name, (x, _) in amounts.items()}
    optional |= {"row_mask": own.row_mask, "col_mask": own.col_mask}
    optional |= {"unmatched_cost": problem.unmatched_cost, "col_dual": own.col_dual}
    operands = [x for x in optional.values() if x is not None]
    n, m = own.supply.shape[-1], own.demand.shape[-1]
    parts = 1 if problem.col_minimum is None else 2
    out = native_call(
        target,
        [*first, *operands],
        _results(n, m, parts, as_plan, result_float()),
        core_dims=[*(2 for _ in first), *(1 for _ in operands)],
        present=names_of(**optional),
        as_plan=as_plan,
        **{name: each for name, (_, each) in amounts.items()},
        **attributes,
    )
    kind, names = (Transport, _PLAN) if as_plan else (CapacitatedAssignment, _ASSIGNMENT)
    return kind(**dict(zip((*names, *_NUMBERS), out, strict=True)))


def _amount(given: Any, expanded: Any, absent: int) -> tuple[Any, int]:
    """Capacities or minima as an operand, or None and the one number for all rows or columns.

    `given`: as the caller gave them. `expanded`: the same, converted to an operand. `absent`: the
    number if none are given.
    """
    if given is None:
        return None, absent
    if type(given) is int:
        return None, min(max(given, 0 if absent < 0 else -1), 2**31 - 1)
    is_wide = isinstance(given, np.ndarray) and given.dtype == np.int64
    return given if is_wide and given.shape == expanded.shape else expanded, absent


@lru_cache(maxsize=4096)
def _results(n: int, m: int, parts: int, as_plan: bool, real: np.dtype) -> tuple[Result, ...]:
    index, entries = np.dtype(np.int32), max(n + m * parts - 1, 0)
    pairs = [Result((size,), index) for size in ([entries] * 3 if as_plan else [n, m])]
    numbers = [Result(shape, real) for shape in ((), (n,), (m,), ())]
    return (*pairs, *numbers, Result((), index))
