"""What must hold for all graphs: covers, warm starts, and how the optimum moves with the graph."""

import hypothesis.strategies as st
import jax
import numpy as np
from helpers import problem, to_numpy
from hypothesis import given, settings
from matching_helpers import (
    INITS,
    METHODS,
    assert_matching,
    assert_maximum,
    by_scipy,
    edges_of,
    from_edges,
)

import jaxmatch as jm


# All are padded to one size, so that one shape is compiled.
MOST, EDGES = 8, 40
SIZES = {"num_rows": 2 * MOST, "num_cols": 2 * MOST, "num_edges": 2 * EDGES}

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=100)
methods, inits = st.sampled_from(METHODS), st.sampled_from(INITS)


@st.composite
def graphs(draw, least=0):
    """Edges in any order and with duplicates; perhaps none."""
    n, m = draw(st.integers(1, MOST)), draw(st.integers(1, MOST))
    edge = st.tuples(st.integers(0, n - 1), st.integers(0, m - 1))
    return from_edges(draw(st.lists(edge, min_size=least, max_size=EDGES)), (n, m))


def permutations(size):
    return st.permutations(range(size)).map(lambda p: np.array(p, int))


def solve(graph, **given):
    """One graph, by way of the padded size."""
    padded = jax.tree.map(lambda x: x[0], jm.BipartiteGraph.stack([graph], **SIZES))
    n, m = graph.shape
    res = to_numpy(jm.maximum_bipartite_matching(padded, **given))
    assert bool(jm.check_matching(padded, res).valid)
    assert (res.col4row[n:] == -1).all() and (res.row4col[m:] == -1).all()
    return res.replace(
        col4row=res.col4row[:n],
        row4col=res.row4col[:m],
        row_cover=res.row_cover[:n],
        col_cover=res.col_cover[:m],
    )


@always_the_same
@given(graphs(), methods, inits)
def test_koenig(graph, method, init):
    res = solve(graph, method=method, init=init)
    assert_maximum(graph, res)
    assert res.cardinality == by_scipy(graph)


@always_the_same
@given(graphs(), methods, inits, st.data())
def test_a_start_never_matters(graph, method, init, data):
    """Whatever it is, also beyond the columns."""
    number = st.integers(-3, MOST + 2) | st.sampled_from([-(2**31), 2**31 - 1])
    start = np.array(data.draw(st.lists(number, min_size=2 * MOST, max_size=2 * MOST)), np.int32)
    res = solve(graph, method=method, init=init, warm_start=start)
    assert_maximum(graph, res)
    assert res.cardinality == by_scipy(graph)


@always_the_same
@given(graphs(), inits, st.data())
def test_a_start_only_grows(graph, init, data):
    number = st.integers(-1, MOST - 1)
    start = np.array(data.draw(st.lists(number, min_size=2 * MOST, max_size=2 * MOST)), np.int32)
    kept = solve(graph, method="init_only", init="none", warm_start=start)
    grown = solve(graph, method="init_only", init=init, warm_start=start)
    for res in (kept, grown):
        assert_matching(graph, res)
    rows = np.flatnonzero(kept.col4row >= 0)
    np.testing.assert_array_equal(kept.col4row[rows], start[rows])
    np.testing.assert_array_equal(grown.col4row[rows], start[rows])


@always_the_same
@given(graphs(), methods, st.data())
def test_rows_and_columns_in_another_order(graph, method, data):
    p, q = (data.draw(permutations(size)) for size in graph.shape)
    rows, cols = edges_of(graph)
    moved = jm.BipartiteGraph.from_edges(p[rows], q[cols], graph.shape)
    res = solve(moved, method=method)
    assert res.cardinality == solve(graph, method=method).cardinality
    assert_maximum(moved, res)


@always_the_same
@given(graphs(), methods)
def test_rows_and_columns_exchanged(graph, method):
    rows, cols = edges_of(graph)
    turned = jm.BipartiteGraph.from_edges(cols, rows, graph.shape[::-1])
    assert solve(turned, method=method).cardinality == solve(graph, method=method).cardinality


@always_the_same
@given(graphs(least=1), methods, st.data())
def test_an_edge_less_is_at_most_a_pair_less(graph, method, data):
    rows, cols = edges_of(graph)
    gone = data.draw(st.integers(0, len(rows) - 1))
    keep = np.arange(len(rows)) != gone
    less = jm.BipartiteGraph.from_edges(rows[keep], cols[keep], graph.shape)
    full = solve(graph, method=method)
    res = solve(
        less, method=method, warm_start=np.pad(full.col4row, (0, 2 * MOST - len(full.col4row)))
    )
    assert full.cardinality - 1 <= res.cardinality <= full.cardinality
    if full.col4row[rows[gone]] != cols[gone]:  # the pairs are all still there
        assert res.cardinality == full.cardinality


@always_the_same
@given(graphs(), graphs(), methods)
def test_side_by_side_optima_add_up(one, other, method):
    (n, m), (rows, cols) = one.shape, edges_of(one)
    more_rows, more_cols = edges_of(other)
    both = jm.BipartiteGraph.from_edges(
        np.concatenate([rows, more_rows + n]),
        np.concatenate([cols, more_cols + m]),
        (n + other.shape[0], m + other.shape[1]),
    )
    res = solve(both, method=method)
    assert res.cardinality == by_scipy(one) + by_scipy(other)
    assert_maximum(both, res)


@always_the_same
@given(st.lists(graphs(), min_size=5, max_size=5), methods)
def test_a_graph_does_not_see_its_neighbours(some, method):
    batch = jm.BipartiteGraph.stack(some, **SIZES)
    res = to_numpy(jm.maximum_bipartite_matching(batch, method=method))
    for k, graph in enumerate(some):
        assert problem(res, k).cardinality == by_scipy(graph)
