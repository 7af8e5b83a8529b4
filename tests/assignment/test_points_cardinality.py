"""Points within a radius: as many pairs as possible, or columns that stay at a cost, too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from point_costs import distances
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from jaxmatch import Status


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


def costs(x, y, radius, metric):
    """All costs, +inf beyond the radius."""
    x, y = x.astype(float), y.astype(float)
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, y))
    found = distances(x, y, metric)
    return np.where(found <= (radius**2 if metric == "sqeuclidean" else radius), found, np.inf)


def most_pairs(cost):
    """The number of pairs, and the least cost of so many: a missing pair costs more than all."""
    exists = np.isfinite(cost)
    whole = np.where(exists, cost, 1 + 4 * cost[exists].sum())
    pairs = linear_sum_assignment(whole)
    return exists[pairs].sum(), whole[pairs][exists[pairs]].sum()


def of_both_sides(cost, of_row, of_col):
    (n, m), never = cost.shape, 1e6
    whole = np.full((n + m, m + n), never)
    whole[:n, :m] = np.where(np.isfinite(cost), cost, never)
    np.fill_diagonal(whole[:n, m:], of_row)
    np.fill_diagonal(whole[n:, :m], of_col)
    whole[n:, m:] = 0
    return whole[linear_sum_assignment(whole)].sum()


def drawn(rng, dtype):
    n, m = rng.integers(1, 30, 2)
    dims = rng.integers(1, 5)
    x, y = (rng.normal(size=(k, dims)).astype(dtype) for k in (n, m))
    masks = {}
    if rng.random() < 0.5:
        masks = {"row_mask": rng.random(n) < 0.8, "col_mask": rng.random(m) < 0.8}
    return x, y, float(rng.choice([0.1, 0.3, 1.0, 3.0])), masks


def masked(cost, masks):
    rows, cols = (masks.get(x, np.ones(k, bool)) for x, k in zip(MASKS, cost.shape, strict=True))
    return np.where(rows[:, None] & cols, cost, np.inf), rows, cols


MASKS = ("row_mask", "col_mask")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_most_pairs(metric, dtype):
    rng = np.random.default_rng(1)
    for k in range(20):
        x, y, radius, masks = drawn(rng, dtype)
        count, least = most_pairs(masked(costs(x, y, radius, metric), masks)[0])
        given = (jnp.asarray(x), jnp.asarray(y)) if k % 2 and dtype == np.float32 else (x, y)
        how = {"radius": radius, "metric": metric, "cardinality": "maximum", **masks}
        res = jm.solve_assignment_points(*given, **how)
        assert res.status == Status.OPTIMAL and isinstance(res.cost, type(given[0]))
        assert (np.asarray(res.col4row) >= 0).sum() == count
        assert res.cost == pytest.approx(least, rel=1e-5, abs=1e-5)
        assert jm.check_assignment_points(*given, res, **how).optimal


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_both_sides(metric, dtype):
    rng = np.random.default_rng(2)
    for k in range(20):
        x, y, radius, masks = drawn(rng, dtype)
        of_row, of_col = (rng.normal(0.4, 1, len(p)).astype(dtype) for p in (x, y))
        cost, rows, cols = masked(costs(x, y, radius, metric), masks)
        least = of_both_sides(cost, np.where(rows, of_row, 0), np.where(cols, of_col, 0))
        given = (jnp.asarray(x), jnp.asarray(y)) if k % 2 and dtype == np.float32 else (x, y)
        how = {"radius": radius, "metric": metric, **masks}
        how |= {"unmatched_cost": of_row, "unmatched_col_cost": of_col}
        res = jm.solve_assignment_points(*given, **how)
        assert res.status == Status.OPTIMAL
        assert res.cost == pytest.approx(least, rel=1e-4, abs=1e-4)
        assert jm.check_assignment_points(*given, res, **how).optimal


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["maximum", "both sides"])
def test_programs(kind, wide):
    """In a program the matrix of all pairs is solved; masks are traced, and there is a gradient."""
    with x64(wide):
        rng = np.random.default_rng(3)
        x, y = (rng.integers(0, 200, (k, 2)) / 32 for k in (11, 14))
        x, y = (jnp.asarray(p, jnp.float64 if wide else jnp.float32) for p in (x, y))
        prices = {"unmatched_cost": 0.5, "unmatched_col_cost": 0.25}
        how = {"radius": 1.2, **({"cardinality": "maximum"} if kind == "maximum" else prices)}
        here = jm.solve_assignment_points(x, y, **how)
        for method in ("auto", "xla"):
            solve = jax.jit(lambda x, y: jm.solve_assignment_points(x, y, method=method, **how))  # noqa: B023
            res = solve(x, y)
            assert res.cost == pytest.approx(float(here.cost), rel=1e-6)
            traced = jax.jit(lambda r: jm.check_assignment_points(x, y, r, **how))
            for claim in (res, here):
                assert jm.check_assignment_points(x, y, claim, **how).optimal
                assert traced(claim).optimal
        many = jax.vmap(lambda x: jm.solve_assignment_points(x, y, **how).cost)(jnp.stack([x, x]))
        assert (many == res.cost).all()
        slope = jax.grad(lambda x: jm.solve_assignment_points(x, y, **how).cost)(x)
        pairs = np.asarray(here.col4row)
        apart = 2 * (np.asarray(x) - np.asarray(y)[pairs]) * (pairs >= 0)[:, None]
        np.testing.assert_allclose(slope, apart, rtol=1e-5)


def test_gradients_of_prices():
    rng = np.random.default_rng(4)
    x, y = (jnp.asarray(rng.random((k, 2)), jnp.float32) for k in (9, 12))
    given = jnp.full(9, 0.03), jnp.full(12, 0.02)

    def value(r, s):
        how = {"unmatched_cost": r, "unmatched_col_cost": s}
        return jm.solve_assignment_points(x, y, radius=0.4, **how)

    slopes = jax.grad(lambda *x: value(*x).cost, (0, 1))(*given)
    res = value(*given)
    for slope, pairs in zip(slopes, (res.col4row, res.row4col), strict=True):
        assert (slope == (pairs < 0).astype(slope.dtype)).all() and slope.any()


def test_wrong_results():
    x, y = np.array([[0.0], [1.0]]), np.array([[0.9], [2.1]])
    how = {"radius": 1.5, "cardinality": "maximum"}
    res = jm.solve_assignment_points(x, y, **how)
    assert (res.col4row == [0, 1]).all() and jm.check_assignment_points(x, y, res, **how).optimal
    one = res.replace(col4row=np.array([-1, 0]), row4col=np.array([1, -1]))
    few = jm.check_assignment_points(x, y, one, **how)
    assert few.valid and not few.optimal
    far = res.replace(col4row=np.array([1, 0]), row4col=np.array([1, 0]))
    assert not jm.check_assignment_points(x, y, far, **how).valid
    prices = {"radius": 1.5, "unmatched_cost": 0.5, "unmatched_col_cost": 0.5}
    best = jm.solve_assignment_points(x, y, **prices)
    assert best.cost == pytest.approx(1.01)  # of the second row and the first column
    dear = jm.check_assignment_points(x, y, res, **prices)
    assert dear.valid and not dear.optimal


def test_statuses_and_errors():
    solve, check = jm.solve_assignment_points, jm.check_assignment_points
    x, y = np.random.default_rng(5).random((2, 6, 2))
    holes = np.where(np.arange(12).reshape(6, 2) == 3, np.nan, x)
    for how in ({"cardinality": "maximum"}, {"unmatched_cost": 1.0, "unmatched_col_cost": 1.0}):
        for points, radius in ((holes, 1.0), (x, -1.0), (x, np.nan)):
            for xp in (np, jnp):
                res = solve(xp.asarray(points), xp.asarray(y), radius=radius, **how)
                assert res.status == Status.INVALID_COST and np.isnan(res.cost)
                proof = check(xp.asarray(points), xp.asarray(y), res, radius=radius, **how)
                assert not proof.optimal
            traced = jax.jit(lambda p: solve(p, y, radius=radius, **how))(points)  # noqa: B023
            assert traced.status == Status.INVALID_COST
        mask = np.arange(6) != 1  # the point that is not a number
        assert solve(holes, y, radius=1.0, row_mask=mask, **how).status == Status.OPTIMAL
        none = solve(x, y + 9, radius=1.0, **how)
        assert none.status == Status.OPTIMAL and (none.col4row == -1).all()
        assert check(x, y + 9, none, radius=1.0, **how).optimal
    # Without a radius all pairs exist.
    full = solve(x, y)
    assert solve(x, y, cardinality="maximum").cost == full.cost
    assert check(x, y, full, cardinality="maximum").optimal
    every = solve(x, y, radius=np.inf, cardinality="maximum")
    assert every.cost == pytest.approx(full.cost)
    with pytest.raises(ValueError, match="needs a `radius`"):
        solve(x, y, unmatched_cost=1.0, unmatched_col_cost=1.0)
    with pytest.raises(ValueError, match="unmatched_cost"):
        solve(x, y, radius=1.0, unmatched_col_cost=1.0)
    with pytest.raises(ValueError, match="exclude each other"):
        solve(x, y, radius=1.0, unmatched_cost=1.0, cardinality="maximum")
    with pytest.raises(ValueError, match="`cardinality` must be one of"):
        solve(x, y, radius=1.0, cardinality="most")
    with pytest.raises(ValueError, match=r"`unmatched_col_cost` must be a number or \[m\]"):
        solve(x, y, radius=1.0, unmatched_cost=1.0, unmatched_col_cost=np.ones(5))


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e200])
@pytest.mark.parametrize("metric", METRICS)
def test_pairs_are_those_of_the_native_solver(metric, scale):
    """Both find the same pairs: ties with the radius, far points, any scale."""
    rng = np.random.default_rng(6)
    for dims in (1, 2, 3, 5):
        x, y = (rng.integers(-3, 4, (k, dims)) * scale for k in (25, 30))
        if metric == "cosine":
            x, y = x + scale, y + scale / 3
        x[0] *= 1e6
        radius = {"cosine": 0.25}.get(metric, 2 * scale)
        how = {"radius": radius, "metric": metric}
        gate = 1e3 if metric == "cosine" else 1e3 * scale
        gate = min(gate * scale, 1e300) if metric == "sqeuclidean" else gate
        one = jm.solve_assignment_points(x, y, unmatched_cost=gate, **how)
        other = jm.solve_assignment_points(x, y, unmatched_cost=gate, unmatched_col_cost=0.0, **how)
        assert one.status == other.status
        if one.status == Status.OPTIMAL:
            assert other.cost == pytest.approx(float(one.cost), rel=1e-9)
