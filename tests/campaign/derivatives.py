"""Derivatives of solvers by costs, compared with the solution."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from grid_cut_helpers import arcs_of
from helpers import to_numpy, x64

from campaign.judges import Judge
from campaign.problems import Batch
from jaxmatch import Status


class Differentiated(NamedTuple):
    """A result, and the derivative of the sum of costs by each argument that is a cost."""

    result: Any
    gradient: dict[str, np.ndarray]

    @property
    def status(self) -> np.ndarray:
        return self.result.status


@lru_cache(maxsize=64)
def _differentiated(function: Any, value: str, names: tuple[str, ...], by: tuple[str, ...],
                    options: tuple[tuple[str, Any], ...]) -> Any:  # fmt: skip
    def run(*arrays: Any) -> Differentiated:
        given = dict(zip(names, arrays, strict=True))

        def total(costs: dict[str, Any]) -> tuple[Any, Any]:
            res = function(**(given | costs), **dict(options))
            worth = jnp.where(res.status == Status.OPTIMAL, getattr(res, value), 0)
            return worth.sum(), res

        costs = {name: given[name] for name in by}
        gradient, res = jax.grad(total, has_aux=True)(costs)
        return Differentiated(res, gradient)

    return jax.jit(run)


def with_gradient(
    function: Callable[..., Any], *by: str, value: str = "cost"
) -> Callable[[Batch], Any]:
    """The result, with the derivative by those of the arguments `by` that the batch has."""

    def solve(batch: Batch) -> Differentiated:
        with x64(batch.wide):
            there = tuple(name for name in by if name in batch.arrays)
            program = _differentiated(function, value, tuple(batch.arrays), there,
                                      tuple(sorted(batch.options.items())))  # fmt: skip
            return to_numpy(program(*map(jnp.asarray, batch.arrays.values())))

    return solve


def pairs_of(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    """The derivative of an assignment's cost: 1 for pairs, and for the gate of a row without."""
    m = batch.arrays["cost"].shape[-1]
    free = res.col4row < 0
    if "row_mask" in batch.arrays:
        free &= batch.arrays["row_mask"]
    pairs = res.col4row[..., None] == np.arange(m)
    return {"cost": pairs, "unmatched_cost": free}


def plan_of(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    plan = np.zeros(batch.arrays["cost"].shape, res.mass.dtype)
    problem, place = np.nonzero(res.rows >= 0)
    pairs = res.rows[problem, place], res.cols[problem, place]
    np.add.at(plan, (problem, *pairs), res.mass[problem, place])
    return {"cost": plan}


def edges_of(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    """The same of sparse costs: 1 for the edges of pairs, and for what stays without a pair."""
    given = batch.arrays
    place = np.arange(given["col_ind"].shape[1])
    row = (place[None, None] >= given["row_ptr"][:, 1:, None]).sum(1)
    exists = row < res.col4row.shape[1]
    own = np.take_along_axis(res.col4row, np.where(exists, row, 0), 1)
    found = {"cost": exists & (own == given["col_ind"])}
    for name, pairs, mask in (
        ("unmatched_cost", res.col4row, "row_mask"),
        ("unmatched_col_cost", res.row4col, "col_mask"),
    ):
        found[name] = (pairs < 0) & given.get(mask, True)
    return found


def arcs_across(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    """The derivative of a flow's value: 1 for the edges of its cut."""
    side = res.source_side
    ends = (batch.known[name] for name in ("senders", "receivers"))
    tail, head = (np.take_along_axis(side, x, 1) for x in ends)
    # A flow without bound has no derivative: zero.
    return {"capacity": tail & ~head & np.isfinite(res.value)[:, None]}


def cut_of_grid(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    side = res.source_side
    across = np.zeros(batch.arrays["pairwise"].shape)
    for k, one in enumerate(side):
        tail, head, _, entry = arcs_of(across[k], batch.options["connectivity"])
        np.add.at(across[k].reshape(-1), entry, one.ravel()[tail] & ~one.ravel()[head])
    return {"source_capacity": ~side, "sink_capacity": side, "pairwise": across}


def critical_pair(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    """The derivative of a bottleneck: 1 at the first pair, by rows, whose cost it is."""
    cost = batch.arrays["cost"]
    pairs = res.col4row[..., None] == np.arange(cost.shape[-1])
    at = (pairs & (cost == res.bottleneck[:, None, None])).reshape(batch.count, -1)
    first = (np.cumsum(at, 1) == 1) & at
    return {"cost": first.reshape(cost.shape)}


def derivative_is(judge: Judge, expected: Callable[[Batch, Any], dict[str, np.ndarray]]) -> Judge:
    """The judge of results, and that derivatives are those expected; of failures, zero."""

    def judged(batch: Batch, res: Differentiated, twin: bool) -> dict[int, str]:
        wrong = judge(batch, res.result, twin)
        want = expected(batch, res.result)
        for name, found in res.gradient.items():
            optimal = (res.status == Status.OPTIMAL).reshape(-1, *(1,) * (found.ndim - 1))
            truth = np.where(optimal, want[name], 0).astype(found.dtype)
            differ = (found != truth).reshape(batch.count, -1).any(1)
            for k in np.flatnonzero(differ):
                wrong.setdefault(int(k), f"derivative by {name} {found[k].tolist()}")
        return wrong

    return judged
