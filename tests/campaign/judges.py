"""What must be true of the results of each subject; an anomaly is a problem's number and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import bottleneck_helpers
import flow_hostile
import grid_cut_hostile
import jax
import k_best_truth
import numpy as np
import transport_truth

from campaign.exactly import flat
from campaign.families import INTEGERS
from campaign.problems import Batch
from campaign.truths import judge, overflow, priced
from jaxmatch import Status


Judge = Callable[[Batch, Any, bool], dict[int, str]]


def costs_of(batch: Batch) -> np.ndarray:
    """As matrices, also of points and of graphs."""
    return batch.known["cost"] if "cost" in batch.known else batch.arrays["cost"]


def assignment(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    problem = priced(batch, costs_of(batch))
    overflow(problem, batch, 4, 1 << 61)
    for k in np.flatnonzero(batch.known.get("hurt", np.zeros(batch.count, bool))):
        problem.failures[k] = {Status.INVALID_GRAPH}
        problem.allowed[k] = set()
    if "radius" in batch.arrays:  # points must be finite
        finite = [np.isfinite(flat(batch.arrays[x]).astype(float)).all(1) for x in "xy"]
        for k in np.flatnonzero(~(finite[0] & finite[1])):
            problem.failures[k] = {Status.INVALID_COST}
    if "col_capacity" in batch.arrays:
        _minima(problem, batch)
    return judge(batch, problem, res, twin)


def _minima(problem: Any, batch: Batch) -> None:
    """Minima above capacities, or above the rows in sum, leave no assignment."""
    rows = problem.price.shape[1]
    if "col_minimum" in batch.arrays and batch.dtype in INTEGERS:
        # What outweighs all costs must fit their dtype.
        size = np.abs(flat(problem.price).astype(object)).max(1, initial=0)
        for k in np.flatnonzero(size * 4 >= np.iinfo(batch.dtype).max):
            problem.allowed[k].add(Status.OVERFLOW)
    for k in np.flatnonzero((problem.least > problem.most).any(1) | (problem.least.sum(1) > rows)):
        if not problem.failures[k]:
            problem.failures[k] = {Status.INFEASIBLE}
        else:
            problem.allowed[k].add(Status.INFEASIBLE)


def each(one: Callable[[Batch, Any, int, bool], None]) -> Judge:
    """Of a function that asserts what must be true of one problem."""

    def every(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
        wrong = {}
        for k in range(batch.count):
            try:
                one(batch, jax.tree.map(lambda x: x[k], res), k, twin)  # noqa: B023
            except (AssertionError, ArithmeticError, ValueError) as error:
                wrong[k] = " ".join(f"{type(error).__name__} {error}".split())[:200]
        return wrong

    return every


def _invalid_cost(batch: Batch, k: int) -> bool:
    """Of costs to minimise: NaN or minus infinity where neither row nor column is masked."""
    cost = batch.sign * costs_of(batch)[k].astype(np.float64)
    n, m = cost.shape
    rows, cols = (
        batch.arrays[name][k] if name in batch.arrays else np.ones(size, bool)
        for name, size in (("row_mask", n), ("col_mask", m))
    )
    used = cost[np.ix_(rows, cols)]
    r = batch.sign * batch.arrays["unmatched_cost"][k].astype(float)[rows] if (
        "unmatched_cost" in batch.arrays) else np.zeros(0)  # fmt: skip
    return bool(any(np.isnan(x).any() or (x == -np.inf).any() for x in (used, r)))


def _masks(batch: Batch, k: int) -> dict[str, Any]:
    return {x: batch.arrays[x][k] for x in ("row_mask", "col_mask") if x in batch.arrays}


def _sums_are_exact(cost: np.ndarray, dtype: np.dtype) -> bool:
    """What the twins of solvers document: whole numbers, as small as floats can add."""
    x = cost[np.isfinite(cost)].astype(np.float64)
    most = 2.0**23 if dtype == np.float32 else 2.0**52
    return bool((x == np.round(x)).all() and (np.abs(x) * len(cost) < most).all())


@each
def k_best(batch: Batch, res: Any, k: int, twin: bool) -> None:
    cost, maximize = batch.arrays["cost"][k], batch.sign < 0
    if _invalid_cost(batch, k):
        assert res.status == Status.INVALID_COST and res.count == 0
        return
    if res.status == Status.OVERFLOW and batch.dtype == "int64":
        assert np.abs(cost.astype(object)).max() * 6 > 2**56
        return
    if twin and not _sums_are_exact(cost, res.cost.dtype):
        # Then a list may differ from the true one by as much as its gap says.
        assert res.status == Status.INFEASIBLE or (res.gap >= 0 and res.count > 0)
        return
    k_best_truth.assert_true(cost, res, maximize=maximize, **_masks(batch, k))


@each
def bottleneck(batch: Batch, res: Any, k: int, twin: bool) -> None:
    cost, maximize, masks = batch.arrays["cost"][k], batch.sign < 0, _masks(batch, k)
    if _invalid_cost(batch, k):
        return bottleneck_helpers.assert_failed(res, Status.INVALID_COST)
    cost = cost.astype(np.float64) if cost.dtype.kind not in "iuf" else cost
    used = cost
    if masks:
        used = cost[np.ix_(masks["row_mask"], masks["col_mask"])]
    best = bottleneck_helpers.brute_force(used, maximize)
    if best is None:
        return bottleneck_helpers.assert_failed(res, Status.INFEASIBLE)
    bottleneck_helpers.assert_proved(cost, res, maximize=maximize, **masks)
    if len(best):
        own = bottleneck_helpers.own_costs(cost, res, maximize)
        size = len(best) if batch.options.get("lexicographic") else 1
        assert np.array_equal(own[:size], best[:size]), f"{own}, not {best}"


def matching(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    """A cover of as many vertices as there are pairs proves the maximum (König)."""
    there, wrong = batch.known["there"], {}
    count, n, m = there.shape
    hurt = batch.known.get("hurt", np.zeros(count, bool))
    bad = np.where(hurt, res.status != Status.INVALID_GRAPH, res.status != Status.OPTIMAL)
    for k in np.flatnonzero(bad):
        wrong[int(k)] = f"status {res.status[k]}"
    own, at = res.col4row, np.arange(n)
    pairs = np.zeros((count, n, m), bool)
    for k in np.flatnonzero(~bad & ~hurt):
        try:
            assert (own[k] >= -1).all() and (own[k] < m).all(), f"col4row {own[k]}"
            used = own[k] >= 0
            pairs[k, at[used], own[k][used]] = True
            assert (pairs[k] <= there[k]).all() and (pairs[k].sum(0) <= 1).all(), "no matching"
            back = np.full(m, -1)
            back[own[k][used]] = at[used]
            assert np.array_equal(back, res.row4col[k]), "row4col"
            rows, cols = res.row_cover[k], res.col_cover[k]
            assert not there[k][np.ix_(~rows, ~cols)].any(), "an edge is not covered"
            assert rows.sum() + cols.sum() == used.sum() == res.cardinality[k], "cardinality"
        except AssertionError as error:
            wrong[int(k)] = str(error)
    return wrong


@each
def transport(batch: Batch, res: Any, k: int, twin: bool) -> None:
    one = {name: x[k] for name, x in batch.arrays.items() if name not in ("x", "y", "cost")}
    cost, a, b = costs_of(batch)[k], one.pop("supply"), one.pop("demand")
    failures, sums = set(), []
    for x, mask in ((a, "row_mask"), (b, "col_mask")):
        x = x[one[mask]] if mask in one else x
        sums.append(x.sum())
        if not np.isfinite(x.astype(float)).all() or (x < 0).any():
            failures.add(Status.INVALID_MASS)
    if _invalid_cost(batch, k):
        failures.add(Status.INVALID_COST)
    if "partial" in one and Status.INVALID_MASS not in failures:
        if one["partial"] > min(sums):
            failures.add(Status.UNBALANCED)
    elif "unmatched_cost" not in one and Status.INVALID_MASS not in failures:
        if sums[0] != sums[1]:  # sums of the generator are exact
            failures.add(Status.UNBALANCED)
    if failures:
        if Status.INVALID_MASS in failures:
            failures.add(Status.UNBALANCED)
        assert res.status in failures, f"status {res.status}, not {sorted(map(int, failures))}"
        return transport_truth.assert_failed(res)
    if res.status == Status.OVERFLOW and cost.dtype.kind == "i":
        numbers = np.concatenate([cost.ravel(), np.ravel(one.get("unmatched_cost", 0))])
        size = max(int(np.abs(numbers.astype(object)).max(initial=0)), 1)
        room = size * 2 * (min(cost.shape) + 2) > 2**59
        assert room or "partial" in one, f"OVERFLOW of costs up to {size}"
        return
    transport_truth.assert_true(cost, a, b, res, maximize=batch.sign < 0, **one)


def _invalid_capacity(x: np.ndarray) -> bool:
    x = x.astype(np.float64)
    return bool((np.isnan(x) | (x < 0)).any())


@each
def flow(batch: Batch, res: Any, k: int, twin: bool) -> None:
    capacity, known = batch.arrays["capacity"][k], {x: y[k] for x, y in batch.known.items()}
    if known.get("hurt", False):
        assert res.status == Status.INVALID_GRAPH, f"status {res.status} of a malformed network"
        return
    if _invalid_capacity(capacity):
        assert res.status == Status.INVALID_CAPACITY, f"status {res.status}"
        return
    edges = known["senders"], known["receivers"], capacity.astype(res.flow.dtype)
    found = res.value, res.flow, res.source_side, res.status
    flow_hostile.assert_right(*found, edges, int(known["nodes"]))


def cut_near_the_sink(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    """As the cut near the source of the network with all edges and nodes reversed."""
    last = batch.known["nodes"][:, None] - 1
    known = batch.known | {"senders": last - batch.known["receivers"]}
    known["receivers"] = last - batch.known["senders"]
    return flow(dataclasses.replace(batch, known=known), res, twin)


@each
def cut(batch: Batch, res: Any, k: int, twin: bool) -> None:
    names = ("source_capacity", "sink_capacity", "pairwise")
    given = [batch.arrays[name][k] for name in names]
    inside = given[2][batch.known["inside"][k]]
    if any(_invalid_capacity(x) for x in (*given[:2], inside)):
        assert res.status == Status.INVALID_CAPACITY, f"status {res.status}"
        return
    if given[0].dtype.kind not in "if" or given[0].dtype.itemsize == 2:
        given = [x.astype(np.float32) for x in given]
    most = np.iinfo(res.value.dtype).max if given[0].dtype.kind == "i" else None
    found = res.value, res.source_side, res.status
    grid_cut_hostile.assert_right(*found, tuple(given), batch.options["connectivity"], most=most)
