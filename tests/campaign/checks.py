"""Results with what the `check_*` functions say of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign import judges, networks
from campaign.calls import WIDER, Solver, bipartite_matching, call, on_graph, one_by_one
from campaign.calls import sparse_assignment as sparse
from campaign.problems import Batch


def with_checked_gap(
    solve: Callable[[Batch], Any],
    check: Callable[[Batch], Any],
    hidden: Callable[[Batch, Any], np.ndarray] | None = None,
) -> Callable[[Batch], Any]:
    """What the check proves in place of the solver's gap; -1 where it finds no solution.

    `check` is called as a solver, with the result among the arrays. `hidden` is what its gap does
    not count, as documented.
    """

    def solve_and_check(batch: Batch) -> Any:
        res = solve(batch)
        found = check(dataclasses.replace(
            batch, arrays={k: x for k, x in batch.arrays.items() if k != "warm_start"}
            | {"result": res}))  # fmt: skip
        unseen = 0 if hidden is None else hidden(batch, res)
        gap = np.where(found.valid, found.gap + unseen, -1)
        return res.replace(gap=np.where(res.status == 0, gap, res.gap).astype(res.gap.dtype))

    return solve_and_check


def _rounded_distances(batch: Batch, res: Any) -> np.ndarray:
    """XLA rounds distances in its own way, in the last digit."""
    return 2 * float(np.finfo(batch.arrays["x"].dtype).eps) * np.abs(res.cost, dtype=np.float64)


def _denormal_distances(batch: Batch, res: Any) -> np.ndarray:
    """XLA reads denormal numbers as zero: the distances, for all of the mass."""
    supply = batch.arrays["supply"].astype(np.float64)
    return 4 * float(np.finfo(batch.arrays["x"].dtype).tiny) * supply.sum(-1)


class Checked(NamedTuple):
    """A result, and whether a check says that it is optimal."""

    result: Any
    optimal: np.ndarray

    @property
    def status(self) -> np.ndarray:
        return self.result.status


Check = Callable[[Batch, Any], Any]


def with_check(solve: Callable[[Batch], Any], check: Check) -> Callable[[Batch], Any]:
    def solve_and_check(batch: Batch) -> Checked:
        res = solve(batch)
        return Checked(res, np.asarray(check(batch, res).optimal))

    return solve_and_check


def agrees(judge: judges.Judge, check: Check, value: str) -> judges.Judge:
    """That a check proves all right results. The results of other problems, it must not prove
    where their value is another."""

    def judged(batch: Batch, res: Checked, twin: bool) -> dict[int, str]:
        wrong = judge(batch, res.result, twin)
        solved = res.status == jm.Status.OPTIMAL
        for k in np.flatnonzero(solved != res.optimal):
            wrong.setdefault(int(k), f"status {res.status[k]}, but the check says {res.optimal[k]}")
        if batch.count < 2:
            return wrong
        others = jax.tree.map(lambda x: np.roll(x, 1, 0), res.result)
        worth = getattr(res.result, value)
        same = np.isclose(worth, np.roll(worth, 1), rtol=1e-3, atol=0)
        for k in np.flatnonzero(np.asarray(check(batch, others).optimal) & ~(solved & same)):
            wrong.setdefault(int(k), "the check proves the result of another problem")
        return wrong

    return judged


def _call_check(check: Callable[..., Any], name: str) -> Callable[[Batch, Any], Any]:
    """A check of the batch's arguments and of the result, which is the argument `name`."""

    def run(batch: Batch, res: Any) -> Any:
        arrays = {k: x for k, x in batch.arrays.items() if k != "warm_start"} | {name: res}
        kept = {k: x for k, x in batch.options.items() if k != "init"}
        return call(check, True)(dataclasses.replace(batch, arrays=arrays, options=kept))

    return run


@lru_cache(maxsize=64)
def _network_check(check: Any, edges: Any) -> Any:
    network = networks.network_of(edges)
    return jax.jit(lambda c, res: check(network, c, 0, edges[2] - 1, res))


def _of_network(check: Any) -> Callable[[Batch, Any], Any]:
    def run(batch: Batch, res: Any) -> Any:
        with x64(batch.wide):
            program = _network_check(check, batch.options["edges"])
            return to_numpy(program(batch.arrays["capacity"], res))

    return run


def _cut_judge(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    return judges.cut_near_the_sink(batch, networks.as_flow(batch, res), twin)


def solvers() -> dict[str, Solver]:
    seldom: dict[str, Any] = {"compiled": True, "dtypes": WIDER}
    small: dict[str, Any] = seldom | {"size": 100}
    points: dict[str, Any] = {"dtypes": ("float32", "float64"), "size": 30, "compiled": True,
                              "forms": ("usual",)}  # fmt: skip
    dense, masses = judges.assignment, judges.transport
    assignment = with_checked_gap(call(jm.solve_assignment), call(jm.check_assignment, True))
    capacities = with_checked_gap(call(jm.solve_capacitated_assignment),
                                  call(jm.check_capacitated_assignment, True))  # fmt: skip
    found: dict[str, Solver] = {
        "assignment checked": Solver("dense", assignment, dense, **seldom),
        "capacities checked": Solver("capacities", capacities, dense, **seldom),
        "sparse checked": Solver(
            "sparse", with_checked_gap(call(sparse),
                                       call(on_graph(jm.check_sparse_assignment), True)), dense,
            forms=("usual", "empty", "malformed"), **seldom),
        "transport checked": Solver(
            "transport", with_checked_gap(call(jm.solve_transport), call(jm.check_transport, True)),
            masses, **small),
        "points checked": Solver(
            "points", with_checked_gap(one_by_one(jm.solve_assignment_points),
                                       one_by_one(jm.check_assignment_points),
                                       _rounded_distances), dense, **points),
        "points of masses checked": Solver(
            "points of masses",
            with_checked_gap(call(jm.solve_transport_points, True),
                             call(jm.check_transport_points, True), _denormal_distances),
            masses, **points),
    }  # fmt: skip
    flow, cut = _of_network(jm.check_flow), _of_network(jm.check_minimum_cut)
    matching = _call_check(on_graph(jm.check_matching), "result")
    bottleneck = _call_check(jm.check_bottleneck, "result")
    grid = _call_check(jm.check_grid_cut, "cut")
    graphs: dict[str, Any] = {"forms": ("usual", "empty", "malformed"), "size": 300,
                              "families": ("small", "empty", "malformed")}  # fmt: skip
    return found | {
        "flow checked": Solver("flow", with_check(networks.flow(), flow),
                               agrees(judges.flow, flow, "value"), **small),
        "minimum cut checked": Solver("flow", with_check(networks.cut, cut),
                                      agrees(_cut_judge, cut, "value"), **small),
        "matching checked": Solver("matching", with_check(call(bipartite_matching), matching),
                                   agrees(judges.matching, matching, "cardinality"), ("int32",),
                                   compiled=True, **graphs),
        "bottleneck checked": Solver(
            "ungated", with_check(call(jm.bottleneck_assignment, True), bottleneck),
            agrees(judges.bottleneck, bottleneck, "bottleneck"), **small),
        "grid cut checked": Solver("grid", with_check(call(jm.grid_cut), grid),
                                   agrees(judges.cut, grid, "value"), **small),
    }  # fmt: skip
