"""The kernels for one large assignment, emulated on the CPU: all blocks of a grid at once.

Warps take turns in a random order and at random speeds, and every look at shared memory may let
others go first. Whatever the order, the grid, the room in shared memory and the number of launches:
the same bits as the CPU's threads give.
"""

import ctypes

import emulated
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from extreme_helpers import Kind, problems
from helpers import assert_same_bits, x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from benchmarks.assignment.families import (
    FAMILIES,
    MISLEADING,
    POINTS,
    squared_distances,
    two_clusterings,
)
from jaxmatch import stepping
from jaxmatch._assignment import native_large


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
METHODS = ["core", "auction", "classical", "tree"]


@pytest.fixture(scope="session")
def library():
    loaded = emulated.library("core")
    loaded.emulate_core.restype = loaded.emulate_points.restype = ctypes.c_int64
    return loaded


def solve(library, cost, method, *, seed=0, grid=(3, 64), arcs=500, steps=0, **given):
    """`cost` is a matrix, or two sets of points with a `metric`."""
    points = [np.ascontiguousarray(x.T) for x in cost] if "metric" in given else []
    n, m = (x.shape[1] for x in points) if points else cost.shape
    cost = points[0] if points else np.ascontiguousarray(cost)
    masks = [given.get(name) for name in ("row_mask", "col_mask")]
    masks = [None if x is None else np.ascontiguousarray(x, np.uint8) for x in masks]
    col4row, row4col, status = (np.full(k, -7, np.int32) for k in (n, m, 1))
    value, row_dual, col_dual, gap = (np.full(k, -7.0) for k in (1, n, m, 1))

    def at(x):
        return ctypes.c_void_p(None if x is None else x.ctypes.data)

    bits = 8 * cost.dtype.itemsize if cost.dtype.kind == "f" else 0
    emulate, costs = library.emulate_core, [at(cost)]
    if points:
        emulate = library.emulate_points
        costs = [*map(at, points), ctypes.c_int64(len(cost)), given["metric"].encode()]
    emulate(
        *costs, ctypes.c_int(bits), *map(ctypes.c_int64, (n, m)), *map(at, masks),
        ctypes.c_bool(given.get("maximize", False)), method.encode(),
        ctypes.c_int64(steps), ctypes.c_uint(seed), ctypes.c_uint(grid[0]),
        ctypes.c_int(grid[1]), ctypes.c_int(arcs),
        *map(at, (col4row, row4col, status, value, row_dual, col_dual, gap)),
    )  # fmt: skip
    return jm.Assignment(col4row, row4col, value[0], row_dual, col_dual, gap[0], status[0])


def points_on_cpu(x, y, method, *, metric, row_mask=None, col_mask=None, maximize=False):
    masks = [None if k is None else jnp.asarray(k) for k in (row_mask, col_mask)]
    points = {"col_points": jnp.asarray(y.T), "metric": metric}
    how = {"method": method, "maximize": maximize}
    return native_large.large(jnp.asarray(x.T), *masks, **how, **points)[0]


def assert_as_on_cpu(library, cost, method, schedules, **given):
    with x64(True):
        if "metric" in given:
            expected = points_on_cpu(*cost, method, **given)
        else:
            expected = jm.solve_assignment(cost, method=method, **given)
        expected = jax.tree.map(np.asarray, expected)
    for schedule in schedules:
        assert_same_bits(solve(library, cost, method, **schedule, **given), expected)
    return expected


SCHEDULES = [
    {"seed": 1}, {"seed": 2, "grid": (1, 96), "arcs": 0},
    {"seed": 3, "grid": (4, 32), "arcs": 90, "steps": 1},
    {"seed": 4, "grid": (2, 64), "arcs": 5000},
]  # fmt: skip


def costs(kind, n, m):
    random = np.random.default_rng(n * m)
    match kind:
        case "tied":
            return random.integers(0, 4, (n, m)).astype(np.int32)
        case "constant":
            return np.full((n, m), 3, np.int32)
        case "integers":
            return random.integers(-(2**31), 2**31, (n, m)).astype(np.int32)
        case "products":
            return np.outer(np.arange(1, n + 1), np.arange(1, m + 1)).astype(np.int32)
        case "uniform":
            return random.random((n, m), np.float32)
        case "forbidden":
            return np.where(random.random((n, m)) < 0.6, np.inf, random.random((n, m))).astype("f4")
        case "wide exponents":
            return (random.random((n, m)) * 2.0 ** random.integers(-60, 60, (n, m))).astype("f4")


KINDS = ["tied", "constant", "integers", "products", "uniform", "forbidden", "wide exponents"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 40), (33, 33), (40, 9), (70, 64), (5, 530)], ids=str)
def test_core_as_on_cpu(library, kind, shape):
    assert_as_on_cpu(library, costs(kind, *shape), "core", SCHEDULES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(81, 81), (67, 90), (93, 38)], ids=str)
def test_more_rows_than_threads(library, kind, shape):
    """Labels are kept by rows, and neighbouring rows belong to the same warp."""
    schedules = [
        {"seed": 5, "grid": (1, 32), "arcs": 3000},
        {"seed": 6, "grid": (2, 32), "arcs": 200, "steps": 1},
    ]
    assert_as_on_cpu(library, costs(kind, *shape), "core", schedules)


@pytest.mark.parametrize("maximize", [False, True])
def test_more_rows_than_threads_of_three_blocks(library, maximize):
    random = np.random.default_rng(9)
    masks = {"row_mask": random.random(131) < 0.9, "col_mask": random.random(134) < 0.95}
    schedules = [{"seed": 7, "grid": (3, 32), "arcs": 300}]
    given = {"maximize": maximize} | (masks if maximize else {})
    assert_as_on_cpu(library, costs("uniform", 131, 134), "core", schedules, **given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["classical", "tree"])
def test_hungarian_as_on_cpu(library, kind, method):
    for shape in [(7, 20), (18, 18)]:
        assert_as_on_cpu(library, costs(kind, *shape), method, SCHEDULES[1:3])


@pytest.mark.parametrize("method", METHODS)
def test_hostile_numbers(library, method):
    """Costs up to the ends of float64, whose sums and gaps must not leave it."""
    kind = Kind(method, "float64", True, (4, 4))
    for k, cost in enumerate(problems(kind, 40, seed=1)["cost"]):
        assert_as_on_cpu(library, cost, method, [SCHEDULES[k % 4]])


def test_warps_look_at_several_bands_of_rows(library):
    cost = costs("uniform", 200, 288)
    cost[-1] /= 4  # the least bit of all lies in the last band
    assert_as_on_cpu(library, cost, "core", [{"seed": 1, "grid": (1, 96)}])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("maximize", [False, True])
def test_masks(library, method, maximize):
    random = np.random.default_rng(5)
    shapes = [((30, 40), 0.9, 0.4), ((35, 35), 0.5, 1), ((9, 9), 0, 0.5), ((9, 540), 0.7, 0.8)]
    for shape, row_share, col_share in shapes:
        cost = random.random(shape, np.float32)
        row_mask, col_mask = (random.random(k) < p for k, p in zip(shape, (row_share, col_share)))  # noqa: B905
        cost[~row_mask] = np.nan
        given = {"row_mask": row_mask, "col_mask": col_mask, "maximize": maximize}
        assert_as_on_cpu(library, cost, method, SCHEDULES[:3], **given)


def test_classes_are_turned(library):
    """Five good columns of one class modulo 32, of which a core holds four: the next choice of
    candidates has them in several classes."""
    random = np.random.default_rng(7)
    cost = random.integers(1000, 2000, (5, 160)).astype(np.int32)
    cost[:, ::32] = np.arange(5) + random.integers(0, 2, (5, 1))
    with x64(True):
        state = stepping.step(jnp.asarray(cost), stepping.init(cost), steps=10**6)
    assert int(state.pricings) > 1 and int(state.dense_steps) == 0
    expected = assert_as_on_cpu(library, cost, "core", SCHEDULES[:2])
    assert expected.status == jm.Status.OPTIMAL


def far_clusters(n):
    """A few rows too many in five of ten clusters, which are 1000 apart."""
    cost = MISLEADING["clusters, few rows too many"](n, 0)
    return (cost + 900 * np.floor(cost / 100)).astype(np.float32)


def test_forests_take_over(library):
    cost = far_clusters(200)
    with x64(True):
        state = stepping.step(jnp.asarray(cost), stepping.init(cost, method="auction"), steps=10**6)
    assert int(state.dense_steps) > 0
    assert_as_on_cpu(library, cost, "auction", SCHEDULES[3:])


@pytest.mark.parametrize("combine", [np.add.outer, np.multiply.outer], ids=["sums", "products"])
def test_an_auction_where_costs_are_equal(library, combine):
    random = np.random.default_rng(12)
    cost = combine(random.integers(0, 30, 132), random.integers(0, 30, 150)).astype(np.int32)
    with x64(True):
        state = stepping.step(jnp.asarray(cost), stepping.init(cost), steps=10**6)
    assert int(state.bids) > 0
    assert_as_on_cpu(library, cost, "core", SCHEDULES[3:])


@pytest.mark.parametrize("shape", [(40, 40), (20, 45)], ids=str)
def test_forests_find_out_that_there_is_no_assignment(library, shape):
    cost = costs("uniform", *shape)
    cost[: shape[0] // 2 + 2, shape[1] // 5 :] = np.inf
    expected = assert_as_on_cpu(library, cost, "core", SCHEDULES)
    assert expected.status == jm.Status.INFEASIBLE


@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters"])
@pytest.mark.parametrize("grid", [(6, 64), (3, 128)], ids=str)
@pytest.mark.parametrize("rows", [520, 500])
def test_warps_share_a_row(library, rows, family, grid):
    """Rows of enough columns for several warps of a block, which read packs of costs."""
    cost = FAMILIES[family](520, 1).astype(np.float32)[:rows]
    assert_as_on_cpu(library, cost, "auction", [{"seed": 5, "grid": grid}])


def test_the_core_method_goes_on_after_a_forest(library):
    cost = far_clusters(240)
    with x64(True):
        state = stepping.step(jnp.asarray(cost), stepping.init(cost), steps=10**6)
    assert int(state.dense_steps) > 0
    assert_as_on_cpu(library, cost, "core", SCHEDULES[2:])


def test_prices_exceed_horizons(library):
    """Of far clusters, after more pricings than are waited for."""
    cost = squared_distances(*two_clusterings(240, 6, 3, 0.01)).astype(np.float32)
    with x64(True):
        state = stepping.step(jnp.asarray(cost), stepping.init(cost), steps=10**6)
    assert int(state.bids) > 0 and 16 < int(state.pricings) <= 50
    assert_as_on_cpu(library, cost, "core", SCHEDULES[2:])


METRICS = ["sqeuclidean", "euclidean", "l1", "cosine"]


def clouds(n, m, dtype, metric, seed=1):
    x, y = (np.asarray(p, dtype) for p in POINTS["sphere to shape"](max(n, m), seed))
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x + 1, y + 1))
    return x[:n], y[:m]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shape", [(340, 340), (300, 340), (340, 150)], ids=str)
def test_bids_from_lists(library, shape, metric, dtype):
    """An auction of points bids from lists of columns, as if it scanned all of them."""
    schedules = [{"seed": 1, "grid": (2, 64)}, {"seed": 2, "grid": (1, 128), "steps": 1}]
    points = clouds(*shape, dtype, metric)
    assert_as_on_cpu(library, points, "core", schedules, metric=metric)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("maximize", [False, True])
def test_estimates_at_any_scale(library, maximize, scale):
    """The root of a sum of squares that a float could not hold."""
    points = [x * np.float32(scale) for x in clouds(240, 240, "float32", "euclidean")]
    for method in ("core", "auction"):
        given = {"metric": "euclidean", "maximize": maximize}
        expected = assert_as_on_cpu(library, points, method, SCHEDULES[3:], **given)
        assert expected.status == jm.Status.OPTIMAL
        x, y = (np.float64(k) for k in points)
        cost = np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
        optimum = cost[linear_sum_assignment(cost, maximize)].sum()
        np.testing.assert_allclose(expected.cost, optimum, rtol=1e-6)


@pytest.mark.parametrize("metric", METRICS[:3])
def test_bids_from_lists_with_ties_and_masks(library, metric):
    random = np.random.default_rng(3)
    points = [random.integers(0, top, (240, 3)).astype(np.float32) for top in (9, 30)]
    masks = {"row_mask": random.random(240) < 0.8, "col_mask": random.random(240) < 0.9}
    for given in [{}, masks, masks | {"maximize": True}]:
        assert_as_on_cpu(library, points, "core", SCHEDULES[2:], metric=metric, **given)
