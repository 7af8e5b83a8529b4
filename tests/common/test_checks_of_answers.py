"""`optimal` of checks: True for optimal answers, False for worse ones. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxmatch as jm


Rng = np.random.Generator


def squared(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def boxes(rng: Rng, n: int, m: int) -> np.ndarray:
    """Distances of boxes and their generalised IoU, as detectors match by."""
    a, b = (rng.random((k, 4)) for k in (n, m))
    for x in (a, b):
        x[:, 2:] = x[:, :2] + 0.1 + 0.3 * x[:, 2:]
    low, high = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    both = np.clip(high - low, 0, None).prod(-1)
    area = [(x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b)]
    either = area[0][:, None] + area[1] - both
    low, high = np.minimum(a[:, None, :2], b[:, :2]), np.maximum(a[:, None, 2:], b[:, 2:])
    hull = (high - low).prod(-1)
    return 5 * np.abs(a[:, None] - b).sum(-1) - 2 * (both / either - (hull - either) / hull)


def clusters(rng: Rng, n: int, m: int) -> np.ndarray:
    centre = rng.random((5, 3))
    x, y = (centre[rng.integers(0, 5, k)] + 0.01 * rng.normal(size=(k, 3)) for k in (n, m))
    return squared(x, y)


def tracks(rng: Rng, n: int, m: int) -> np.ndarray:
    """Points that hardly moved: duals are far greater than the costs that are matched."""
    x = rng.random((max(n, m), 2))
    return squared(x[:n], (x + 1e-4 * rng.normal(size=x.shape))[:m])


def forbidden(rng: Rng, n: int, m: int) -> np.ndarray:
    cost = np.where(rng.random((n, m)) < 0.5, np.inf, rng.random((n, m)))
    cost[np.arange(min(n, m)), np.arange(min(n, m))] = rng.random(min(n, m))
    return cost


FAMILIES: dict[str, Callable[[Rng, int, int], np.ndarray]] = {
    "random": lambda rng, n, m: rng.random((n, m)),
    "squared distances": lambda rng, n, m: squared(rng.random((n, 3)), rng.random((m, 3))),
    "boxes": boxes,
    "clusters": clusters,
    "tracks": tracks,
    "a large offset": lambda rng, n, m: 1e9 + rng.random((n, m)),
    "a column with a large offset": lambda rng, n, m: (
        20 * rng.random((n, m)) + 1e9 * (np.arange(m) == 0)
    ),
    "forbidden pairs": forbidden,
    "1e18 for forbidden": lambda rng, n, m: np.minimum(forbidden(rng, n, m), 1e18),
    "all magnitudes": lambda rng, n, m: 10 ** rng.uniform(-8, 4, (n, m)),
}
DTYPES = ("bfloat16", "float16", "float32", "float64")


def worse(cost: np.ndarray, res: Any, least: float) -> Any:
    """The result with two columns swapped so that it costs more by at least `least`, or None."""
    n, m = cost.shape
    own = np.asarray(res.col4row)
    c = cost[:, own]
    with np.errstate(invalid="ignore"):
        more = c + c.T - np.diag(c)[:, None] - np.diag(c)
    more = np.where((more >= least) & np.isfinite(more), more, np.inf)
    i, j = np.unravel_index(more.argmin(), more.shape)
    if more[i, j] == np.inf:
        return None
    col4row, row4col = own.copy(), np.full(m, -1, np.int32)
    col4row[[i, j]] = own[[j, i]]
    row4col[col4row] = np.arange(n)
    return res.replace(col4row=col4row, row4col=row4col)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_assignments_are_told_from_worse_ones(family, dtype):
    rng = np.random.default_rng(0)
    for (n, m), maximize in [((60, 60), False), ((40, 60), False), ((50, 50), True)]:
        with np.errstate(over="ignore"):
            cost = FAMILIES[family](rng, n, m).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
        if not maximize and dtype == "float16" and not np.isfinite(cost).any(1).all():
            continue
        given = -cost if maximize else cost
        res = jm.solve_assignment(given, maximize=maximize)
        if res.status != jm.Status.OPTIMAL:  # beyond the range of the dtype
            assert dtype == "float16"
            continue
        check = jm.check_assignment(given, res, maximize=maximize)
        assert check.valid and check.optimal, check
        own = cost.astype(float)[np.arange(n), np.asarray(res.col4row)]
        for rate in (1e-3, 2e-5):
            other = worse(cost.astype(float), res, rate * np.abs(own).sum())
            assert other is None or not jm.check_assignment(given, other, maximize=maximize).optimal


@pytest.mark.parametrize("bits", [20, 30, 50])
def test_gaps_of_integers_are_exact(bits):
    rng = np.random.default_rng(bits)
    cost = rng.integers(0, 2**bits, (50, 50))
    res = jm.solve_assignment(cost)
    check = jm.check_assignment(cost, res)
    assert check.optimal and check.gap == 0
    other = worse(cost.astype(float), res, 1)
    col = np.arange(50), other.col4row
    more = int(cost[col].sum()) - int(cost[np.arange(50), res.col4row].sum())
    check = jm.check_assignment(cost, other)
    assert check.valid and not check.optimal and more <= int(check.gap) <= more * (1 + 1e-12) + 1


@pytest.mark.parametrize("options", ["masks", "unmatched_cost"])
def test_optimal_with_masks_and_unmatched_costs(options):
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64"):
        cost = squared(rng.random((60, 3)), rng.random((50, 3))).astype(dtype)
        given: dict[str, Any] = {"unmatched_cost": np.array(0.01, dtype)}
        if options == "masks":
            given = {"row_mask": rng.random(60) < 0.6, "col_mask": rng.random(50) < 0.6}
        res = jm.solve_assignment(cost, **given)
        assert jm.check_assignment(cost, res, **given).optimal


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", ["random", "squared distances", "boxes", "clusters"])
def test_optimal_plans_and_capacities(family, dtype):
    rng = np.random.default_rng(4)
    n, m = 30, 40
    cost = FAMILIES[family](rng, n, m).astype(dtype)
    supply, demand = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    price = np.median(cost)
    for options in ({}, {"partial": 0.5}, {"unmatched_cost": price}):
        res = jm.solve_transport(cost, supply, demand, **options)
        check = jm.check_transport(cost, supply, demand, res, **options)
        assert check.valid and check.optimal, (options, check)
        # Other columns of the same masses.
        order = np.argsort(demand)
        swapped = res.replace(cols=np.argsort(order)[res.cols] * (res.cols >= 0) - (res.cols < 0))
        assert not jm.check_transport(cost, supply, demand, swapped, **options).optimal
    for options in ({"col_capacity": 2}, {"row_capacity": 3, "col_capacity": 2}):
        res = jm.solve_capacitated_assignment(cost, **options)
        assert jm.check_capacitated_assignment(cost, res, **options).optimal


def test_a_plan_that_loses_a_tiny_mass_is_invalid():
    supply, demand = np.array([1.0, 1e-17]), np.array([0.5, 0.5])
    rows, cols, mass = np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0.5, 0.5, 1e-17])
    cost = np.eye(2)
    plan = jm.Transport.empty((2, 2)).replace(
        rows=rows, cols=cols, mass=mass, col_dual=np.zeros(2), row_dual=np.zeros(2)
    )
    assert jm.check_transport(cost, supply, demand, plan).valid
    lost = plan.replace(rows=np.array([0, 0, -1]), cols=np.array([0, 1, -1]), mass=mass * [1, 1, 0])
    assert not jm.check_transport(cost, supply, demand, lost).valid


def heavy_tails(rng: Rng) -> tuple[Any, ...]:
    """Duals of plans lie on a grid, which the greatest cost makes coarse."""
    cost, ones = np.exp(3 * rng.normal(size=(20, 20))).astype(np.float32), np.ones(20, np.int32)
    return cost, ones, ones, {"unmatched_cost": np.float32(0.3)}


def part_of_floats(rng: Rng) -> tuple[Any, ...]:
    a, b = rng.random((2, 20)).astype(np.float32)
    cost = rng.normal(size=(20, 20)).astype(np.float32)
    cost[rng.random((20, 20)) < 0.3] = np.inf
    return cost, a, b, {"partial": np.float32(1.5)}


def part_of_tails(rng: Rng) -> tuple[Any, ...]:
    """Masses down to 1e-130 and 1e-30 of the total: what stays of them is not on the grid."""
    a, b = np.exp(-300 * np.linspace(0, 1, 20) ** 2), 10 ** rng.uniform(-30, 0, 20)
    return rng.random((20, 20)), a / a.sum(), b / b.sum(), {"partial": 0.5}


def exchanged(cost: np.ndarray, res: Any) -> Any:
    """The plan with the columns of some mass of its two greatest entries exchanged."""
    rows, cols, mass = (np.asarray(x) for x in (res.rows, res.cols, res.mass))
    (i, j), (p, q) = ((int(x[at]) for x in (rows, cols)) for at in mass.argsort()[-2:])
    more = cost[i, q] + cost[p, j] - cost[i, j] - cost[p, q]
    if i == p or j == q or not 1e-3 < more < np.inf:
        return None
    plan = np.asarray(res.todense())
    least = min(plan[i, j], plan[p, q])
    step = least if mass.dtype.kind == "i" else mass.dtype.type(2**-7) * least
    plan[[i, p, i, p], [j, q, q, j]] += np.array([-1, -1, 1, 1], mass.dtype) * step
    rows, cols = np.nonzero(plan)
    return res.replace(rows=rows, cols=cols, mass=plan[rows, cols])


@pytest.mark.parametrize(
    "problem, unproved", [(heavy_tails, 0), (part_of_floats, 0), (part_of_tails, 3)]
)
def test_optimal_plans_of_a_part(problem, unproved):
    """Of 20; a few gaps of tails exceed their tolerance by half."""
    for seed in range(20):
        cost, a, b, given = problem(np.random.default_rng(seed))
        res = jm.solve_transport(cost, a, b, **given)
        check = jm.check_transport(cost, a, b, res, **given)
        unproved -= not check.optimal
        assert check.valid and unproved >= 0, (seed, check)
        worse = exchanged(cost, res)
        if worse is not None:
            check = jm.check_transport(cost, a, b, worse, **given)
            assert check.valid and not check.optimal, (seed, check)


def test_capacities_of_heavy_tails():
    for seed in range(20):
        cost = np.exp(3 * np.random.default_rng(seed).normal(size=(30, 18))).astype(np.float32)
        given = {"col_capacity": np.full(18, 3)}
        res = jm.solve_capacitated_assignment(cost, **given)
        assert jm.check_capacitated_assignment(cost, res, **given).optimal


def test_lists_and_points_are_proved_in_float32():
    rng = np.random.default_rng(5)
    x, y = (rng.random((40, 3)).astype(np.float32) for _ in range(2))
    listed = jm.k_best_assignments(squared(x, y), 4)
    assert jm.check_k_best(squared(x, y), listed).optimal
    for metric in ("sqeuclidean", "euclidean", "l1", "cosine"):
        res = jm.solve_assignment_points(x, y, metric=metric)
        assert jm.check_assignment_points(x, y, res, metric=metric).optimal


@pytest.mark.cpu
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_integers_that_are_worse_by_two_are_not_optimal(array):
    """Although their sum has more digits than float32, in which JAX's results hold duals."""
    n = 40
    cost = array((10**6 - np.eye(n)).astype(np.int32))
    res = jm.solve_assignment(cost)
    assert jm.check_assignment(cost, res).optimal
    swapped = array(np.r_[1, 0, 2:n].astype(np.int32))
    worse = res.replace(col4row=swapped, row4col=swapped)
    check = jm.check_assignment(cost, worse)
    assert check.valid and not check.optimal and check.gap == 2
