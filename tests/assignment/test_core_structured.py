"""Costs on which the first candidates of `"core"` mislead: tied, of low rank, in clusters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES, MISLEADING, squared_distances, two_clusterings
from jaxmatch import stepping
from jaxmatch._assignment import native_large


pytestmark = pytest.mark.usefixtures("platform")


def costs(kind, n, m):
    random = np.random.default_rng(n + 3 * m)
    rows, cols = np.arange(n), np.arange(m)
    match kind:
        case "constant":
            return np.full((n, m), 7, np.int32)
        case "rank one sums":
            return np.add.outer(random.integers(0, 99, n), random.integers(0, 99, m)).astype("i4")
        case (
            "products"
        ):  # Machol and Wien, A hard assignment problem, Operations Research 24 (1976)
            return np.multiply.outer(rows + 1, cols + 1).astype(np.int32)
        case "random products":
            return np.outer(random.integers(0, 99, n), random.integers(0, 99, m)).astype("i4")
        case "few zeros":
            return (random.random((n, m)) > 3 / m).astype(np.int32)
        case "classes":
            table = random.integers(0, 50, (8, 8))
            return table[random.integers(0, 8, n)][:, random.integers(0, 8, m)].astype(np.int32)
        case "columns repeat":
            return np.tile(random.integers(0, n, (n, -(-m // 8))), 8)[:, :m].astype(np.int32)
        case "few good columns":
            cost = random.integers(0, 1000, (n, m))
            cost[:, : m // 8] = 0
            return cost.astype(np.int32)
        case "clusters":
            x, y = (random.normal(0, 0.01, (k, 2)) + random.integers(0, 5, (k, 1)) for k in (n, m))
            return ((x[:, None] - y[None]) ** 2).sum(-1).astype(np.float32)


KINDS = ["constant", "rank one sums", "products", "random products", "few zeros", "classes"]
KINDS += ["columns repeat", "few good columns", "clusters"]
METHODS = ["core", "auction", "classical", "tree"]


def assert_optimal(cost, res):
    """By scipy, and by duals that are held against all costs by other code."""
    optimum = cost[linear_sum_assignment(cost)].sum(dtype=np.float64)
    assert int(res.status) == jm.Status.OPTIMAL
    np.testing.assert_allclose(float(res.cost), optimum, rtol=1e-12)
    most = 0 if cost.dtype == np.int32 else 1e-9 * abs(optimum)
    assert float(jm.check_assignment(cost, res).gap) <= most


def solved_in_steps(cost, method="core"):
    step = jax.jit(lambda cost, state: stepping.step(cost, state, steps=10**9))
    return step(jnp.asarray(cost), stepping.init(cost, method=method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_optimum(kind, method):
    """Methods and kinds take turns with shapes: each meets all of them."""
    turn = KINDS.index(kind) + METHODS.index(method)
    shape = [(280, 280), (150, 400), (400, 150)][turn % 3]
    if method == "classical" and "products" in kind:
        shape = tuple(k // 4 for k in shape)  # it reads all costs again for each of n² / 2 updates
    cost = costs(kind, *shape)
    with x64(True):
        assert_optimal(cost, jm.solve_assignment(cost, method=method))


@pytest.mark.parametrize("kind", ["constant", "rank one sums", "columns repeat"])
@pytest.mark.parametrize("method", METHODS)
def test_ties_are_spread(kind, method):
    """Rows that are alike differ in their candidates, and columns in the rows that they prefer: a
    search finds paths for a good part of the free rows at once."""
    state = solved_in_steps(costs(kind, 600, 600), method)
    assert int(state.steps) < 60 and int(state.dense_steps) == 0


@pytest.mark.parametrize("form, shape", [
    ("sums", (480, 500)), ("sums", (500, 480)), ("products", (500, 500)), ("products", (480, 500)),
    ("products", (500, 480)),
])  # fmt: skip
def test_few_searches_where_costs_are_equal(form, shape):
    """Where cores lead nowhere, an auction does. Trees over all costs took 400 searches."""
    random = np.random.default_rng(0)
    combine = {"sums": np.add.outer, "products": np.multiply.outer}[form]
    cost = combine(*(random.integers(0, 30, size) for size in shape)).astype(np.int32)
    with x64(True):
        state = solved_in_steps(cost)
        assert int(state.bids) > 0
        assert int(state.dense_steps) <= 8 and int(state.steps) < 140
        assert_optimal(cost, state.result)


@pytest.mark.parametrize("shape", [(280, 280), (150, 180), (400, 150)], ids=str)
def test_an_auction_takes_over(shape):
    """Products have the wrong candidates until an auction has found prices."""
    cost = costs("products", *shape)
    with x64(True):
        state = solved_in_steps(cost)
        assert int(state.dense_steps) == 0 and int(state.steps) < 40
        assert_optimal(cost, state.result)


@pytest.mark.parametrize("method", ["core", "auction"])
@pytest.mark.parametrize("distance, left", [(1000, 0), (1000, 1), (1000, 30), (100, 0), (100, 30)])
def test_forests_take_over(distance, left, method):
    """Clusters with a few rows too many: all rows of a cluster have the same far columns. At a
    distance of 100 candidates are enough."""
    random, n = np.random.default_rng(3), 200
    rows = np.repeat(np.arange(10), [n // 10 + 3] * 5 + [n // 10 - 3] * 5)
    apart = np.abs(rows[:, None] - np.repeat(np.arange(10), n // 10))
    cost = (distance * apart + random.random((n, n))).astype(np.float32)[: n - left]
    with x64(True):
        state = solved_in_steps(cost, method)
        assert int(state.dense_steps) < int(state.steps) < 200
        assert left > 0 or distance < 1000 or int(state.dense_steps) > 0
        assert_optimal(cost, state.result)


def test_the_core_method_goes_on_after_a_forest():
    """At the prices of a forest the arcs between clusters are among the candidates: few forests
    follow, where one per row did."""
    cost = MISLEADING["clusters, few rows too many"](1500, 0).astype(np.float32)
    with x64(True):
        state = solved_in_steps(cost)
        assert 0 < int(state.dense_steps) <= 8
        assert_optimal(cost, state.result)


@pytest.mark.parametrize(
    "n, seed, count, spread, rows, steps, pricings, forests",
    [
        (1500, 1, 10, 0.02, 1500, 300, 100, 0),
        (240, 6, 3, 0.01, 240, 70, 50, 1),
        (1500, 5, 10, 0.005, 1350, 90, 40, 0),
    ],
)
def test_prices_of_clusters_move_far(n, seed, count, spread, rows, steps, pricings, forests):
    """Paths between clusters raise the prices of whole clusters beyond the horizons of their rows.

    Where only half of the rows might exceed them, these took 658 steps and 545 pricings, 101 and
    82, and 106 and 65 with five forests; where all might at will, the first took 426 steps and four
    forests, and the last 435 and 325.
    """
    cost = squared_distances(*two_clusterings(n, seed, count, spread)).astype(np.float32)[:rows]
    with x64(True):
        state = solved_in_steps(cost)
        assert int(state.bids) > 0 and int(state.dense_steps) <= forests
        assert int(state.steps) <= steps and int(state.pricings) <= pricings
        assert_optimal(cost, state.result)


@pytest.mark.parametrize("shape", [(500, 600), (600, 700), (600, 800)], ids=str)
def test_forests_lead_over_dummy_rows(shape):
    cost = costs("rank one sums", *shape)
    with x64(True):
        state = solved_in_steps(cost, "auction")
        assert 0 < int(state.dense_steps) < int(state.steps)
        assert_optimal(cost, state.result)


def alike(n, seed):
    """Rows of eight kinds: identical rows want the same columns."""
    kinds = np.random.default_rng(seed).integers(0, 10 * n + 1, (8, n))
    return kinds[np.arange(n) % 8].astype(np.float64)


def products(n, seed):
    """Of Machol and Wien (1976): all rows want the same column."""
    return np.outer(np.arange(1, n + 1), np.arange(1, n + 1)).astype(np.float64)


BIDDING = {"alike": alike, "products": products, **MISLEADING, **FAMILIES}


@pytest.mark.parametrize("kind", BIDDING)
def test_few_bids_per_row(kind):
    """Bids are for other columns where rows are alike. On unperturbed costs rows of eight kinds bid
    700 times each at n = 2000, and rows of products 2400 times at n = 4000."""
    n = 1000
    cost = BIDDING[kind](n, 0).astype(np.float32)
    with x64(True):
        state = solved_in_steps(cost)
        assert int(state.bids) < 150 * n
        assert_optimal(cost, state.result)


def test_few_bids_per_point():
    """On unperturbed distances each row bids 1100 to 1700 times."""
    random, n, m = np.random.default_rng(0), 1500, 5000
    x = random.integers(0, 1000, (8, 2))[np.arange(n) % 8].astype(np.float32)
    y = random.integers(0, 1000, (m, 2)).astype(np.float32)
    points = {"col_points": jnp.asarray(y.T), "metric": "sqeuclidean"}
    given = (jnp.asarray(x.T), None, None)
    res, buffers = native_large.large(*given, maximize=False, method="auction", **points)
    assert int(res.status) == jm.Status.OPTIMAL
    assert int(buffers.word("bids")) < 150 * n


def test_no_assignment_is_found_out_over_all_costs():
    """More rows than the columns that some of them may have."""
    random = np.random.default_rng(1)
    cost = random.integers(0, 9, (300, 300)).astype(np.float32)
    cost[:160, 150:] = np.inf
    state = solved_in_steps(cost)
    assert int(state.result.status) == jm.Status.INFEASIBLE and int(state.dense_steps) > 0


def moved_classes(seed):
    """Few rows, a class modulo 32 of columns that are cheaper, and something of a ramp."""
    random = np.random.default_rng(seed)
    cost = random.integers(1000, 9000, (12, 200))
    cost[:, random.integers(0, 32) :: 32] //= random.integers(2, 50)
    return cost + np.outer(np.arange(12), np.arange(200)) % int(random.integers(2, 3000))


def wide_clusters(seed):
    random = np.random.default_rng(seed)
    n, m = 200, 200 + int(random.integers(1, 60))
    x, y = (random.normal(0, 0.01, (k, 2)) + random.integers(0, 4, (k, 1)) for k in (n, m))
    return np.round(((x[:, None] - y[None]) ** 2).sum(-1) * 1e4)


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("make, seed", [
    (moved_classes, 2), (moved_classes, 4), (moved_classes, 16), (wide_clusters, 191),
])  # fmt: skip
def test_a_free_column_costs_as_much_as_any_other(make, seed, tall):
    """With more columns than rows, a pricing takes a row's partner."""
    cost = make(seed).astype(np.int32)
    cost = cost.T if tall else cost
    with x64(True):
        assert_optimal(cost, jm.solve_assignment(cost, method="core"))
