"""`check_assignment_points` with a radius outside of a trace: the pairs of a grid, in NumPy."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


@pytest.fixture(autouse=True)
def on_the_cpu(platform):
    if platform != "cpu":
        pytest.skip("other platforms check by JAX")


def pairs(col4row: Any, m: int, col_dual: Any = None) -> jm.Assignment:
    col4row = np.asarray(col4row, np.int32)
    row4col = np.full(m, -1, np.int32)
    row4col[col4row[col4row >= 0]] = np.flatnonzero(col4row >= 0)
    col_dual = np.zeros(m) if col_dual is None else col_dual
    res = jm.Assignment.empty((len(col4row), m))
    return res.replace(col4row=col4row, row4col=row4col, col_dual=col_dual)


def problem(
    dims: int, metric: str, dtype: Any, shift: float = 0
) -> tuple[Any, Any, dict[str, Any]]:
    random = np.random.default_rng(dims)
    x, y = ((random.normal(size=(k, dims)) + shift).astype(dtype) for k in (50, 60))
    radius = 0.6 if metric == "cosine" else 0.7 * dims
    price = (2 * radius * random.random(50)).astype(dtype)
    masks = {"row_mask": random.random(50) < 0.9, "col_mask": random.random(60) < 0.9}
    return x, y, {"metric": metric, "radius": radius, "unmatched_cost": price, **masks}


def exchanged(res: jm.Assignment, cost: np.ndarray) -> jm.Assignment:
    """With the columns of two rows exchanged that both can have, or one of them left."""
    col4row = np.array(res.col4row)
    matched = np.flatnonzero(col4row >= 0)
    for a in matched:
        for b in matched:
            here, there = cost[a, col4row[b]], cost[b, col4row[a]]
            if a != b and here + there < np.inf:
                col4row[[a, b]] = col4row[[b, a]]
                return pairs(col4row, cost.shape[1], res.col_dual)
    col4row[matched[0]] = -1
    return pairs(col4row, cost.shape[1], res.col_dual)


def gated(x: Any, y: Any, metric: str, radius: float) -> np.ndarray:
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, y))
        cost = 1 - x @ y.T
    elif metric == "l1":
        cost = np.abs(x[:, None] - y).sum(-1)
    else:
        cost = ((x[:, None] - y) ** 2).sum(-1)
    cost = np.sqrt(cost) if metric == "euclidean" else cost
    return np.where(cost > (radius**2 if metric == "sqeuclidean" else radius), np.inf, cost)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dims", [1, 2, 3, 6])
def test_answers_of_the_solver_are_proved_and_worse_ones_are_not(dims, metric, dtype):
    x, y, given = problem(dims, metric, dtype)
    res = jm.solve_assignment_points(x, y, **given)
    check = jm.check_assignment_points(x, y, res, **given)
    assert check.valid and check.optimal
    cost = gated(x, y, metric, given["radius"])
    cost[:, ~given["col_mask"]] = np.inf
    if (dims, metric) != (1, "cosine"):  # whose pairs are all alike
        worse = jm.check_assignment_points(x, y, exchanged(res, cost), **given)
        assert worse.valid and not worse.optimal and worse.gap > 0
    far = np.array(res.col4row)
    row = np.flatnonzero(far >= 0)[0]
    free = (np.asarray(res.row4col) < 0) & ((cost[row] == np.inf) | ~given["col_mask"])
    far[row] = np.flatnonzero(free)[0]
    beyond = jm.check_assignment_points(x, y, pairs(far, 60, res.col_dual), **given)
    assert not beyond.valid and not beyond.optimal and beyond.gap == np.inf


@pytest.mark.parametrize("metric", METRICS)
def test_the_bound_is_that_of_all_pairs(metric):
    x, y, given = problem(2, metric, np.float32)
    res = jm.solve_assignment_points(x, y, **given)
    random = np.random.default_rng(4)
    for _ in range(3):
        other = res.replace(col_dual=res.col_dual * random.random(60).astype(np.float32))
        check = jm.check_assignment_points(x, y, other, **given)
        traced = jax.jit(lambda x, y: jm.check_assignment_points(x, y, other, **given))(x, y)  # noqa: B023
        assert check.valid == traced.valid
        np.testing.assert_allclose(check.gap, traced.gap, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("radius", [0.0, 0.3, 3.0, 1e9, np.inf])
@pytest.mark.parametrize("shift", [0.0, 1e6, 1e150])
def test_radii_and_coordinates_of_any_size(radius, shift):
    x, y, given = problem(2, "l1", np.float64, shift)
    x[:5], given["radius"] = y[:5], radius
    for given["unmatched_cost"] in (0.1, 1e9):
        res = jm.solve_assignment_points(x, y, **given)
        check = jm.check_assignment_points(x, y, res, **given)
        assert check.valid and check.optimal
        none = jm.check_assignment_points(x, y, pairs([-1] * 50, 60, res.col_dual), **given)
        assert none.valid and not none.optimal


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150])
def test_squares_out_of_range(scale):
    x, y, given = problem(2, "euclidean", np.float64)
    given |= {"radius": 0.5 * scale, "unmatched_cost": scale}
    res = jm.solve_assignment_points(x * scale, y * scale, **given)
    check = jm.check_assignment_points(x * scale, y * scale, res, **given)
    # The unit of the solver is no smaller than 1e-300, as `res.gap` says.
    assert check.valid and check.gap <= res.gap and check.optimal == (scale > 1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "l1"])
def test_a_pair_at_the_radius_exists_and_the_next_one_does_not(metric, dtype):
    radius, left = dtype(0.7), pairs([-1], 1)
    for y, exists in ((radius, True), (np.nextafter(radius, dtype(1)), False)):
        points = np.zeros((1, 2), dtype), np.array([[y, 0]], dtype)
        given: dict[str, Any] = {"metric": metric, "radius": radius, "unmatched_cost": dtype(9)}
        res = jm.solve_assignment_points(*points, **given)
        assert (res.col4row[0] == 0) == exists
        assert jm.check_assignment_points(*points, res, **given).optimal
        assert jm.check_assignment_points(*points, pairs([0], 1), **given).valid == exists
        assert jm.check_assignment_points(*points, left, **given).optimal != exists


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "l1"])
def test_lattices_with_many_pairs_at_the_radius(metric, method):
    """The twin sums in float32, where other pairs are within the radius."""
    random = np.random.default_rng(7)
    x, y = (random.integers(0, 12, (200, 2)).astype(np.float32) / 10 for _ in range(2))
    for radius in (0.3, 0.5):
        given: dict[str, Any] = {"metric": metric, "radius": radius, "unmatched_cost": 10.0}
        res = jm.solve_assignment_points(x, y, method=method, **given)
        check = jm.check_assignment_points(x, y, res, **given)
        assert check.valid and check.optimal
        none = jm.check_assignment_points(x, y, pairs([-1] * 200, 200), **given)
        assert not none.optimal and none.gap > 100


def test_points_that_are_not_finite_and_radii_that_are_no_numbers():
    x, y, given = problem(2, "sqeuclidean", np.float32)
    x[~given["row_mask"]], y[~given["col_mask"]] = np.nan, np.inf
    res = jm.solve_assignment_points(x, y, **given)
    assert jm.check_assignment_points(x, y, res, **given).optimal
    for radius in (np.nan, -1.0):
        other: dict[str, Any] = given | {"radius": radius}
        check = jm.check_assignment_points(x, y, res, **other)
        assert not check.valid and not check.optimal and check.gap == np.inf
    for points, there in ((x, res.col4row >= 0), (y, res.row4col >= 0)):
        at = np.flatnonzero(there)[0]
        kept = points[at].copy()
        points[at, 0] = np.nan
        check = jm.check_assignment_points(x, y, res, **given)
        assert not check.valid and not check.optimal and check.gap == np.inf
        points[at] = kept


def test_all_rows_or_none_must_be_matched():
    x = np.arange(6, dtype=np.float32)[:, None]
    res = jm.solve_assignment_points(x[:4], x, radius=1.5)
    assert jm.check_assignment_points(x[:4], x, res, radius=1.5).optimal
    few = jm.check_assignment_points(x[:4], x, pairs([0, 1, 2, -1], 6), radius=1.5)
    assert not few.valid and not few.optimal
    for side in ("row_mask", "col_mask"):
        none: dict[str, Any] = {"radius": 1.5, "unmatched_cost": 1.0, side: False}
        assert jm.check_assignment_points(x[:4], x, pairs([-1] * 4, 6), **none).optimal


def test_many_points_are_checked_within_seconds():
    n = 50_000
    random = np.random.default_rng(2)
    x, y = random.random((2, n, 2)).astype(np.float32)
    radius = np.sqrt(10 / np.pi / n)  # ten neighbours
    given: dict[str, Any] = {"radius": radius, "unmatched_cost": radius**2}
    res = jm.solve_assignment_points(x, y, **given)
    start = time.perf_counter()
    check = jm.check_assignment_points(x, y, res, **given)
    assert check.valid and check.optimal
    assert time.perf_counter() - start < 5  # takes 0.2 s; all pairs take minutes


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_new_shapes_compile_nothing(kind):
    compiled: list[str] = []
    random = np.random.default_rng(3)
    found = []
    for n in range(20, 60, 3):
        x, y = (kind(random.random((k, 2)).astype(np.float32)) for k in (n, n + 1))
        given: dict[str, Any] = {"radius": 0.2, "unmatched_cost": 0.04}
        found.append((x, y, given, jm.solve_assignment_points(x, y, **given)))

    x, y, given, res = found.pop()
    jm.check_assignment_points(x, y, res, **given)  # what makes JAX arrays of scalars is compiled

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if "compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for x, y, given, res in found:
            check = jm.check_assignment_points(x, y, res, **given)
            assert check.optimal and isinstance(check.gap, type(res.cost))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not compiled
