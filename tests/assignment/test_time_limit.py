"""Solves whose time is up: a complete answer, and a gap that holds."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


METHODS = ("core", "auction", "classical", "tree")
AT_ONCE = 1e-9


def costs(name: str, n: int = 90, m: int = 90) -> np.ndarray:
    rng = np.random.default_rng(len(name) * 1000 + n + m)
    if name == "integers":
        return rng.integers(-1000, 1000, (n, m)).astype(np.int32)
    if name == "clouds":
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) + 3
        return ((x[:, None] - y) ** 2).sum(-1).astype(np.float32)
    if name == "wide range":
        return (10.0 ** rng.uniform(-12, 12, (n, m))).astype(np.float32)
    if name == "outer":
        return np.outer(np.arange(n), np.arange(m)).astype(np.float32)
    assert name == "gated"
    cost = rng.random((n, m)).astype(np.float32)
    cost[rng.random((n, m)) < 0.6] = np.inf
    return cost


@functools.cache
def large(name: str) -> tuple[np.ndarray, float]:
    """A problem of which solvers reach each stage within milliseconds, and its optimum."""
    cost = costs(name, 700, 700 if name != "integers" else 900)
    wide = cost.astype(np.float64)
    return cost, wide[linear_sum_assignment(wide)].sum()


def assert_bounded(
    cost: np.ndarray, res: jm.Assignment, maximize: bool = False, optimum: float | None = None
) -> None:
    """The pairs are a matching of the smaller side, and neither cost nor gap lies."""
    wide = cost.astype(np.float64)
    sign = -1 if maximize else 1
    assert res.status in (jm.Status.TIME_LIMIT, jm.Status.OPTIMAL)
    rows = np.flatnonzero(res.col4row >= 0)
    cols = res.col4row[rows]
    np.testing.assert_array_equal(res.row4col[cols], rows)
    assert (res.row4col >= 0).sum() == len(rows)
    if optimum is None:
        optimum = wide[linear_sum_assignment(wide, maximize)].sum()
    assert res.gap >= 0
    if len(rows) < min(cost.shape):
        assert res.cost == sign * np.inf and res.gap == np.inf
        return
    found = wide[rows, cols].sum()
    size = np.abs(wide[rows, cols]).sum() + abs(optimum)
    np.testing.assert_allclose(res.cost, found, rtol=0, atol=1e-6 * size)
    excess = sign * (found - optimum)
    assert -1e-6 * size <= excess <= float(res.gap) * (1 + 1e-5) + 1e-6 * size
    # The duals are feasible.
    u, v = (sign * x.astype(np.float64) for x in (res.row_dual, res.col_dual))
    scale = np.abs(u).max() + np.abs(v).max()
    slack = sign * wide - u[:, None] - v
    assert slack[np.isfinite(slack)].min() >= -1e-5 * scale
    if cost.shape[0] < cost.shape[1]:
        assert v.max() <= 1e-5 * scale
    rounding = 1e-5 * scale * sum(cost.shape) + 1e-6 * size
    assert u.sum() + v.sum() <= sign * found - float(res.gap) * (1 - 1e-5) + rounding


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["integers", "clouds", "wide range", "outer", "gated"])
@pytest.mark.parametrize("shape", [(90, 90), (40, 90), (90, 40), (1, 1), (1, 7)])
def test_at_once(platform, method, name, shape):
    cost = costs(name, *shape)
    if name == "gated":  # so that there is an answer
        k = np.arange(min(shape))
        cost[k, k] = 1
    res = to_numpy(
        jax.jit(jm.solve_assignment, static_argnames=("method", "time_limit"))(
            jnp.asarray(cost), method=method, time_limit=AT_ONCE
        )
    )
    assert_bounded(cost, res)
    if min(shape) >= 40:
        assert res.status == jm.Status.TIME_LIMIT


@pytest.mark.parametrize("method", METHODS)
def test_maximised_with_masks(platform, method):
    cost = costs("clouds")
    keep_rows, keep_cols = np.arange(90) % 3 > 0, np.arange(90) % 4 > 0
    res = to_numpy(
        jm.solve_assignment(
            jnp.asarray(cost),
            maximize=True,
            row_mask=jnp.asarray(keep_rows),
            col_mask=jnp.asarray(keep_cols),
            method=method,
            time_limit=AT_ONCE,
        )
    )
    assert (res.col4row[~keep_rows] == -1).all() and (res.row4col[~keep_cols] == -1).all()
    new_place = np.cumsum(keep_cols) - 1
    col4row = res.col4row[keep_rows]
    inner = res.replace(
        col4row=np.where(col4row >= 0, new_place[col4row], -1),
        row4col=np.where(
            res.row4col[keep_cols] >= 0,
            (np.cumsum(keep_rows) - 1)[res.row4col[keep_cols]],
            -1,
        ),
        row_dual=res.row_dual[keep_rows],
        col_dual=res.col_dual[keep_cols],
    )
    assert_bounded(cost[keep_rows][:, keep_cols], inner, maximize=True)


@pytest.mark.parametrize("method", METHODS)
def test_without_an_answer(platform, method):
    """Two rows share their only column: some row is left."""
    cost = np.full((50, 50), np.inf, np.float32)
    np.fill_diagonal(cost, 1.0)
    cost[7, 7], cost[7, 8] = np.inf, 1.0
    res = to_numpy(jm.solve_assignment(jnp.asarray(cost), method=method, time_limit=AT_ONCE))
    if res.status == jm.Status.INFEASIBLE:  # proved within the time
        return
    assert res.status == jm.Status.TIME_LIMIT
    assert res.cost == np.inf and res.gap == np.inf and (res.col4row >= 0).sum() == 49


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seconds", [0.004, 0.02])
def test_in_the_middle(platform, method, seconds):
    """Wherever the time ends, in whatever stage."""
    for name in ("clouds", "outer", "integers"):
        cost, optimum = large(name)
        solve = jax.jit(jm.solve_assignment, static_argnames=("method", "time_limit"))
        for k in range(4):
            res = solve(jnp.asarray(cost), method=method, time_limit=seconds * (1 + k / 3))
            assert_bounded(cost, to_numpy(res), optimum=optimum)


def test_enough_time_changes_nothing(platform):
    cost = jnp.asarray(costs("clouds"))
    for method in METHODS:
        without = jm.solve_assignment(cost, method=method)
        assert_same_bits(without, jm.solve_assignment(cost, method=method, time_limit=1e5))
    with_limit = jm.solve_assignment(cost, time_limit=60)
    assert_same_bits(with_limit, jm.solve_assignment(cost, method="core"))


def test_batch_and_gradient(platform):
    cost = jnp.asarray(np.stack([costs("clouds"), costs("integers"), costs("outer")]), jnp.float32)

    def value(cost):
        res = jm.solve_assignment(cost, time_limit=AT_ONCE)
        return res.cost, res

    slope, res = jax.vmap(jax.grad(value, has_aux=True))(cost)
    for k in range(3):
        assert_bounded(np.asarray(cost[k]), to_numpy(res[k]))
    assert (np.asarray(res.status) == jm.Status.TIME_LIMIT).all()
    assert not np.asarray(slope).any()


@pytest.mark.parametrize("metric", ["sqeuclidean", "l1"])
def test_points(platform, metric):
    rng = np.random.default_rng(3)
    x, y = (rng.random((120, 2)).astype(np.float32) for _ in range(2))
    res = jm.solve_assignment_points(
        jnp.asarray(x), jnp.asarray(y), metric=metric, time_limit=AT_ONCE
    )
    apart = x[:, None].astype(np.float64) - y
    cost = (apart**2).sum(-1) if metric == "sqeuclidean" else np.abs(apart).sum(-1)
    assert res.status == jm.Status.TIME_LIMIT
    assert_bounded(cost, to_numpy(res))


def test_numpy_and_float64():
    cost = costs("clouds").astype(np.float64)
    res = jm.solve_assignment(cost, time_limit=AT_ONCE)
    assert res.status == jm.Status.TIME_LIMIT and res.cost.dtype == np.float64
    assert_bounded(cost, res)
    with x64(True):
        assert_bounded(cost, to_numpy(jm.solve_assignment(jnp.asarray(cost), time_limit=AT_ONCE)))


def test_the_call_ends_in_time():
    """A problem of a second and more; machines under load are slow."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2500, 3))
    cost = (((x[:, None] - y - 3) ** 2).sum(-1)).astype(np.float32)
    jm.solve_assignment(cost[:9, :9], method="tree", time_limit=1)
    start = time.perf_counter()
    res = jm.solve_assignment(cost, method="tree", time_limit=0.05)
    assert time.perf_counter() - start < 1.5
    assert res.status == jm.Status.TIME_LIMIT and np.isfinite(res.gap)
    with pytest.raises(ValueError, match="TIME_LIMIT"):
        res.raise_for_status()


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "soon"])
def test_no_limit(wrong):
    with pytest.raises(ValueError, match="`time_limit` must be a positive number of seconds"):
        jm.solve_assignment(np.eye(3, dtype=np.float32), time_limit=wrong)


@pytest.mark.parametrize(
    "more",
    [
        {"method": "jonker_volgenant"},
        {"method": "core", "steps_per_call": 2},
        {"unmatched_cost": 0.3},
    ],
)
def test_with_what_it_does_not_go(more):
    with pytest.raises(ValueError, match="time_limit"):
        jm.solve_assignment(jnp.eye(3), time_limit=1.0, **more)
    with pytest.raises(ValueError, match="`time_limit` goes with .* got int64"):
        jm.solve_assignment(np.full((3, 3), 2**40), time_limit=1.0)


def test_under_jit_it_must_be_static():
    with pytest.raises(ValueError, match="static"):
        jax.jit(lambda t: jm.solve_assignment(jnp.eye(3), time_limit=t))(1.0)
