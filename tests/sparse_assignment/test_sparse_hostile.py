"""Values, sizes and graphs at the edge: a status for each, never a hang, nobody else is touched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_failed, problem, to_numpy, x64
from sparse_helpers import METHODS, Case, assert_solved, case, optimum

import jaxmatch as jm
from jaxmatch import Status


pytestmark = [pytest.mark.parametrize("method", METHODS), pytest.mark.usefixtures("platform")]

GRAPH = jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2, 3], [0, 2, 1, 0, 3, 3], (4, 5))
COST = np.array([3, 1, 4, 1, 5, 9], np.float32)
HUGE, TINY = 2**31 - 1, -(2**31)

# What to write where: (field, index, value).
DAMAGE = {
    "row pointer does not begin at 0": ("row_ptr", 0, 1),
    "row pointer begins below 0": ("row_ptr", 0, -1),
    "row pointer falls": ("row_ptr", 2, 1),
    "row pointer is negative": ("row_ptr", 2, -3),
    "row pointer is huge": ("row_ptr", 2, HUGE),
    "row pointer is tiny": ("row_ptr", 3, TINY),
    "row pointers wrap around": ("row_ptr", slice(1, 3), (HUGE, TINY)),
    "last row pointer beyond the edges": ("row_ptr", -1, 7),
    "last row pointer is huge": ("row_ptr", -1, HUGE),
    "last row pointer is negative": ("row_ptr", -1, -1),
    "column index is m": ("col_ind", 3, 5),
    "column index is negative": ("col_ind", 0, -1),
    "column index is huge": ("col_ind", 5, HUGE),
    "column index is tiny": ("col_ind", 5, TINY),
}


def damaged(name):
    field, at, value = DAMAGE[name]
    array = np.asarray(getattr(GRAPH, field)).copy()
    array[at] = value
    return jm.BipartiteGraph(**(vars(GRAPH) | {field: jnp.asarray(array)}))


def solve(graph, cost, method, **options):
    return jm.solve_sparse_assignment(graph, jnp.asarray(cost), method=method, **options)


@pytest.mark.parametrize("options", [{}, {"cardinality": "maximum"}, {"unmatched_cost": 2.0}])
def test_every_kind_of_damage(method, options):
    """In one batch, traced, with a graph that is whole after each."""
    graphs = [x for name in DAMAGE for x in (damaged(name), GRAPH)]
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *graphs)
    cost = np.broadcast_to(COST, (len(graphs), 6))
    res = jax.jit(lambda g, c: solve(g, c, method, **options))(batch, cost)
    check = to_numpy(jm.check_sparse_assignment(batch, jnp.asarray(cost), res, **options))
    assert_failed(problem(res, slice(None, None, 2)), Status.INVALID_GRAPH)
    assert not check.valid[::2].any()
    given = {k: np.full(4, x) if k == "unmatched_cost" else x for k, x in options.items()}
    for k in range(1, len(graphs), 2):
        assert_solved(Case(GRAPH, COST, given), problem(res, k))
    assert check.optimal[1::2].all() == (optimum(Case(GRAPH, COST, given)) is not None)


def test_garbage(method):
    """Random numbers, large and small, everywhere."""
    rng = np.random.default_rng(0)
    count, (n, m), e = 100, GRAPH.shape, GRAPH.max_edges
    batch = vars(GRAPH).copy()
    for name in batch:
        batch[name] = np.broadcast_to(np.asarray(batch[name]), (count, *batch[name].shape))
    for name, length, top in (("row_ptr", n + 1, e), ("col_ind", e, m - 1)):
        near = rng.integers(-2, top + 3, (count, length))
        wild = rng.integers(TINY, HUGE, (count, length), endpoint=True)
        batch[name] = np.where(rng.random((count, length)) < 0.1, wild, near).astype(np.int32)
    graph = jm.BipartiteGraph(**{k: jnp.asarray(x) for k, x in batch.items()})
    cost = rng.choice([np.nan, np.inf, -np.inf, 0, 1e30], (count, e)).astype(np.float32)
    assert_failed(solve(graph, cost, method), Status.INVALID_GRAPH)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 2)])
def test_nothing_there(method, shape):
    """No rows, no columns, no edges, and padding where there are none."""
    if method == "xla" and shape not in ((0, 3), (2, 2)):
        pytest.skip("compiles for seconds")
    n, m = shape
    empty = jm.BipartiteGraph.from_edges([], [], shape)
    padded = jm.BipartiteGraph.stack([empty], num_edges=3)
    for graph in (padded,) if method == "xla" else (empty, padded):
        cost = np.full((*graph.batch_shape, graph.max_edges), np.nan, np.float32)
        res = solve(graph, cost, method)
        check = jm.check_sparse_assignment(graph, jnp.asarray(cost), res)
        if min(shape):
            assert_failed(res, Status.INFEASIBLE)
            assert not check.valid.any()
        else:
            assert (np.asarray(res.status) == Status.OPTIMAL).all() and check.optimal.all()
            assert (np.asarray(res.cost) == 0).all() and (np.asarray(res.gap) == 0).all()
        res = solve(graph, cost, method, cardinality="maximum")
        assert (np.asarray(res.cost) == 0).all()
        # What stays pays, row or column.
        pays = {"unmatched_cost": jnp.full((n,), 2.0), "unmatched_col_cost": jnp.full((m,), 3.0)}
        res = solve(graph, cost, method, **pays)
        assert (np.asarray(res.cost) == 2 * n + 3 * m).all()
        assert jm.check_sparse_assignment(graph, jnp.asarray(cost), res, **pays).optimal.all()


@pytest.mark.parametrize("maximize", [False, True])
def test_infinite_and_nan(method, maximize):
    """An infinity forbids a pair or is invalid; what is masked may be anything."""
    sign = -1 if maximize else 1
    graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], (2, 2))

    def status(*cost, rows=(1, 1), cols=(1, 1), **options):
        cost = sign * np.array(cost, np.float32)
        prices = {k: sign * np.array(x, np.float32) for k, x in options.items()}
        masks = {"row_mask": np.array(rows, bool), "col_mask": np.array(cols, bool)}
        given = {"maximize": maximize} | masks | prices
        res = solve(graph, cost, method, **given)
        check = jm.check_sparse_assignment(graph, jnp.asarray(cost), res, **given)
        assert bool(check.optimal) == (int(res.status) == Status.OPTIMAL)
        return int(res.status), float(sign * res.cost)

    inf, nan = np.inf, np.nan
    assert status(inf, 1, 2, 3) == (Status.OPTIMAL, 3)
    assert status(inf, 1, inf, 3)[0] == Status.INFEASIBLE
    assert status(-inf, 1, 2, 3)[0] == Status.INVALID_COST
    assert status(1, nan, 2, 3)[0] == Status.INVALID_COST
    assert status(1, nan, 2, 3, rows=(0, 1)) == (Status.OPTIMAL, 2)
    assert status(1, -inf, 2, 3, cols=(1, 0)) == (Status.OPTIMAL, 1)
    assert status(nan, nan, -inf, nan, rows=(0, 0)) == (Status.OPTIMAL, 0)

    def priced(rows_pay, cols_pay, **masks):
        pays = {"unmatched_cost": rows_pay, "unmatched_col_cost": cols_pay}
        return status(3, 5, 4, 9, **pays, **masks)

    assert priced((inf, 1), (0, 0)) == (Status.OPTIMAL, 4)
    assert priced((inf, 1), (inf, 0)) == (Status.OPTIMAL, 4)
    assert priced((1, 1), (0, inf)) == (Status.OPTIMAL, 6)
    for wrong in (nan, -inf):
        assert priced((wrong, 1), (0, 0))[0] == Status.INVALID_COST
        assert priced((1, 1), (0, wrong))[0] == Status.INVALID_COST
        # Not of what does not exist.
        assert priced((wrong, 1), (0, 0), rows=(0, 1)) == (Status.OPTIMAL, 1)
        assert priced((1, 1), (wrong, 0), cols=(0, 1)) == (Status.OPTIMAL, 2)


def test_nothing_to_pair(method):
    graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], (2, 2))
    cost = np.full(4, np.inf, np.float32)
    res = solve(graph, cost, method, cardinality="maximum")
    assert int(res.status) == Status.OPTIMAL and float(res.cost) == 0
    np.testing.assert_array_equal(res.row_dual, [0, 0])


def test_no_full_matching(method):
    """Two rows with one column between them, in the middle of a large enough graph."""
    rows, cols = [0, 1, 2, 2, 3, 3], [1, 1, 0, 2, 2, 3]
    one = case(rows, cols, np.array([1.0, 2, 3, 4, 5, 6], np.float32), (4, 4))
    res = solve(one.graph, one.cost, method)
    assert_failed(res, Status.INFEASIBLE)
    res = solve(one.graph, one.cost, method, cardinality="maximum")
    assert float(res.cost) == 1 + 3 + 5 and int((res.col4row >= 0).sum()) == 3


@pytest.mark.parametrize("maximize", [False, True])
def test_parallel_edges(method, maximize):
    """In a graph built by hand, in any order: the best counts, and it has the gradient."""
    graph = jm.BipartiteGraph(
        row_ptr=jnp.array([0, 4, 6], jnp.int32),
        col_ind=jnp.array([1, 0, 1, 1, 1, 0], jnp.int32),
        col_ptr=jnp.array([0, 2, 6], jnp.int32),
        row_ind=jnp.array([0, 1, 0, 0, 0, 1], jnp.int32),
        num_rows=jnp.int32(2),
        num_cols=jnp.int32(2),
    )
    cost = jnp.array([5.0, 9, 2, 2, 8, 3]) * (-1 if maximize else 1)

    def value(c):
        return solve(graph, c, method, maximize=maximize).cost

    assert float(value(cost)) == (-5 if maximize else 5)
    np.testing.assert_array_equal(jax.grad(value)(cost), [0, 0, 1, 0, 0, 1])
    res = solve(graph, cost, method, maximize=maximize)
    assert jm.check_sparse_assignment(graph, cost, res, maximize=maximize).optimal


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e37])
def test_tiny_and_huge_floats(method, scale):
    rng = np.random.default_rng(3)
    for n in (3, 5):
        rows, cols = np.nonzero(np.ones((n, n)))
        one = case(rows, cols, (rng.random(n * n) * scale).astype(np.float32), (n, n))
        res = solve(one.graph, one.cost, method)
        assert_solved(one, res, exact=False)
        assert 0 <= float(res.gap) <= 1e-5 * scale
        check = jm.check_sparse_assignment(one.graph, jnp.asarray(one.cost), res)
        assert check.valid and check.gap <= 1e-5 * scale


@pytest.mark.parametrize("value", [1e300, -1e308])
@pytest.mark.parametrize("options", [{}, {"cardinality": "maximum"}])
def test_the_end_of_float64(method, value, options):
    with x64(True):
        one = case([0, 0, 1, 1], [0, 1, 0, 1], value * np.array([1, 0.5, 0.25, 0.5]), (2, 2))
        res = solve(one.graph, one.cost, method, **options)
        best = np.sort([0.75 * value, 1.5 * value])[0]
        assert int(res.status) == Status.OPTIMAL
        np.testing.assert_allclose(float(res.cost), best, rtol=1e-12)


@pytest.mark.parametrize("pay", ["unmatched_cost", "unmatched_col_cost"])
def test_duals_beside_the_greatest_price(method, pay):
    """Multiples of it are infinite: the unit must not become 0."""
    greatest = np.array([-1.0, np.finfo(np.float64).max])
    given = {"unmatched_cost": np.zeros(2)} | {pay: greatest}
    with x64(True):
        graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], (2, 2))
        res = solve(graph, np.array([-4.0, -0.1, -4.0, -0.1]), method, **given)
        assert int(res.status) == Status.OPTIMAL
        assert np.isfinite(res.row_dual).all() and np.isfinite(res.col_dual).all()


@pytest.mark.parametrize("tiny", [[1.5e-323, 0.0], [0.0, 1.5e-323]], ids=["first", "second"])
def test_costs_that_vanish_beside_great_ones(method, tiny):
    """No unit holds both: the gap says that the tiny ones were not counted."""
    cost = np.array([*tiny, 2.0**53, 2.0**53, 2.0**53, 0.0])
    with x64(True):
        graph = jm.BipartiteGraph.from_dense(np.ones((2, 3)))
        res = solve(graph, cost, method)
        assert int(res.status) == Status.OPTIMAL
        assert 0 <= float(res.cost) <= float(res.gap) <= 64


@pytest.mark.parametrize("total", [4.4e-323, 2.0**-1023, 3 * 2.0**-1023])
def test_tiny_totals_beside_great_costs_that_nobody_pays(method, total):
    given = {"unmatched_cost": np.full(1, np.finfo(np.float64).max)}
    given["unmatched_col_cost"] = np.zeros(3)
    with x64(True):
        graph = jm.BipartiteGraph.from_dense(np.ones((1, 3)))
        res = solve(graph, np.full(3, total), method, **given)
        assert int(res.status) == Status.OPTIMAL and int(res.col4row[0]) >= 0
        assert float(res.cost) == total or (method == "xla" and float(res.cost) == 0)


def test_tiny_costs_where_a_column_must_be_matched(method):
    """They round to no unit: leaving the column still costs more."""
    tiny = 2.0**-1022
    given = {"unmatched_cost": np.full(2, tiny), "unmatched_col_cost": np.array([-tiny, np.inf])}
    with x64(True):
        graph = jm.BipartiteGraph.from_dense(np.ones((2, 2)))
        res = solve(graph, np.full(4, tiny), method, **given)
        assert int(res.status) == Status.OPTIMAL
        assert int(res.row4col[1]) >= 0 and 0 <= float(res.gap) < 1e-290


def test_integers_that_may_overflow(method):
    """Exact up to the limit, refused beyond."""
    with x64(True):
        graph = jm.BipartiteGraph.from_edges([0, 0, 1, 1], [0, 1, 0, 1], (2, 2))
        most = 2**61 // 6
        for size, status in ((most, Status.OPTIMAL), (2 * most, Status.OVERFLOW)):
            cost = np.array([size, size - 1, size - 3, size], np.int64)
            res = solve(graph, cost, method)
            assert int(res.status) == status
            res = solve(graph, -cost, method, maximize=True)
            assert int(res.status) == status
            res = solve(graph, cost, method, cardinality="maximum")  # the same two pairs
            assert int(res.status) == status
        # Minus the least number does not exist.
        res = solve(graph, np.array([np.iinfo(np.int64).min] * 4), method)
        assert int(res.status) == Status.OVERFLOW


def test_long_integers(method):
    """Digits beyond those of float32: the bound covers the roundings."""
    rng = np.random.default_rng(8)
    rows, cols = np.nonzero(rng.random((6, 6)) < 0.8)
    one = case(rows, cols, rng.integers(2**30, 2**31, len(rows)).astype(np.int32), (6, 6))
    res = solve(one.graph, one.cost, method)
    best = optimum(one)
    assert best is not None
    assert abs(float(res.cost) - best) <= float(res.gap) + 2e-7 * best
    own = np.asarray(res.col4row)
    pairs = {(i, j): int(c) for i, j, c in zip(rows, cols, one.cost, strict=True)}
    assert sum(pairs[i, own[i]] for i in range(6)) - best <= float(res.gap)
    if method == "auto":
        assert float(res.gap) == 0


def test_long_integer_prices(method):
    """Of which floats hold only the first digits: int32 without x64, int64 under it."""
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 0], (2, 1))
    for big, dtype in ((2**24, np.int32), (2**53, np.int64)):
        with x64(dtype == np.int64):
            cost = jnp.asarray([0, 1], dtype)
            price = jnp.asarray([big + 3, big + 5], dtype)
            rows = {"unmatched_cost": price}
            res = jm.solve_sparse_assignment(graph, cost, method=method, **rows)
            check = jm.check_sparse_assignment(graph, cost, res, **rows)
            if method == "auto":
                assert res.col4row.tolist() == [-1, 0] and res.gap == 0 and check.optimal
            assert check.valid and float(res.gap) >= float(res.col4row[0] == 0)
            # The other one costs 1 more, or 1 less.
            other = res.replace(
                col4row=jnp.asarray([0, -1], jnp.int32), row4col=jnp.asarray([0], jnp.int32)
            )
            assert not jm.check_sparse_assignment(graph, cost, other, **rows).optimal
            # Columns pay the same.
            graph_t = jm.BipartiteGraph.from_edges([0, 0], [0, 1], (1, 2))
            cols = {"unmatched_cost": jnp.asarray(4 * big, dtype), "unmatched_col_cost": price}
            res = jm.solve_sparse_assignment(graph_t, cost, method=method, **cols)
            if method == "auto":
                assert res.row4col.tolist() == [-1, 0] and res.gap == 0
                check = jm.check_sparse_assignment(graph_t, cost, res, **cols)
                assert check.optimal


def test_long_integers_beside_prices_with_fractions(method):
    """Integers that doubles round are no whole numbers of a fine unit: the gap says so."""
    with x64(True):
        graph = jm.BipartiteGraph.from_edges([0, 0], [0, 1], (1, 2))
        small = jnp.asarray([2**53 + 1, 2**53], jnp.int64)
        res = solve(graph, small, method, unmatched_cost=0.5, maximize=True)
        assert res.gap >= float(res.col4row[0] == 1)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_greatest_cardinality_of_many_large_weights(dtype, method):
    """A missing pair has no cost, which would leave 64 bits."""
    n = 300_000 if method == "auto" else 300
    rng = np.random.default_rng(9)
    rows, cols = np.arange(n), rng.permutation(n)
    cost = rng.integers(1, 10**6, n).astype(dtype)
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (n, n))
    with x64(True):
        res = solve(graph, cost, method, cardinality="maximum")
        assert res.status == jm.Status.OPTIMAL and (res.gap == 0 or method == "xla")
        assert (res.col4row >= 0).all() and res.cost == np.asarray(cost, np.float64).sum()
        most = (0 * cost + 2.0**40).astype(jnp.int64)
        huge = solve(graph, most, method, cardinality="maximum")  # fmt: skip
        assert huge.status == jm.Status.OPTIMAL and huge.cost == n * 2.0**40


def test_padding_may_be_anything(method):
    padded = jm.BipartiteGraph.stack([GRAPH], num_edges=12)
    junk = np.array([HUGE, TINY, -1, 5, 99, 0], np.int32)
    padded = jm.BipartiteGraph(**(vars(padded) | {"col_ind": padded.col_ind.at[0, 6:].set(junk)}))
    cost = np.concatenate([COST, [np.nan, -np.inf, np.inf, 0, -1e30, 1]]).astype(np.float32)
    res = solve(padded, cost, method)
    assert_solved(Case(GRAPH, COST), problem(res, 0))
