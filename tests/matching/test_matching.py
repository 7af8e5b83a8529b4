"""Maximum bipartite matching: every method by every init, on every family, against other code."""

from functools import partial

import jax
import numpy as np
import pytest
from helpers import assert_same_bits, problem, to_numpy
from matching_helpers import (
    INITS,
    METHODS,
    assert_all_maximum,
    assert_matching,
    assert_maximum,
    by_igraph,
    by_networkx,
    by_scipy,
    families,
    from_edges,
    graphs_of,
    permuted,
    random_graph,
)

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


SIZE = 24
# Always the same one, whatever else runs.
DETERMINISTIC = ["hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "xla", "init_only"]


@pytest.fixture(scope="module")
def stacked():
    """All families as one batch, and the cardinality of each by other code."""
    graphs = list(families(SIZE).values())
    return jm.BipartiteGraph.stack(graphs), [by_igraph(g) for g in graphs]


def test_oracles_agree():
    for name, graph in families(SIZE).items():
        expected = by_igraph(graph)
        assert by_networkx(graph) == expected, name
        assert by_scipy(graph) == expected, name


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("method", METHODS)
def test_families(method, init, stacked):
    batch, expected = stacked
    res = jm.maximum_bipartite_matching(batch, method=method, init=init)
    np.testing.assert_array_equal(res.cardinality, expected)
    assert_all_maximum(batch, res)
    check = jm.check_matching(batch, res)
    assert check.valid.all() and check.optimal.all()


@pytest.mark.parametrize("method", METHODS)
def test_random_graphs(method):
    """Few edges and many, square and not, in one batch."""
    rng = np.random.default_rng(1)
    graphs = []
    for _ in range(120):
        n, m = rng.integers(1, 41, 2)
        graphs.append(random_graph(rng, n, m, rng.integers(1, 4 * max(n, m))))
    batch = jm.BipartiteGraph.stack(graphs)
    res = jm.maximum_bipartite_matching(batch, method=method)
    np.testing.assert_array_equal(res.cardinality, [by_scipy(g) for g in graphs])
    assert_all_maximum(batch, res)


# One graph at a time, each of its own shape: no padding, and what `auto` does for one large graph.
ALONE = ["ladder", "chain", "chains", "strip", "two stars", "complete", "skewed", "sparse wide"]
ALONE += ["one row", "one column", "no edges", "no rows", "no columns", "nothing", "sparse tall"]


@pytest.mark.parametrize("name", ALONE)
def test_one_graph(name):
    graph = families(300)[name]
    expected = by_igraph(graph)
    for method in ("auto", "hopcroft_karp", "push_relabel"):
        res = jm.maximum_bipartite_matching(graph, method=method)
        assert int(res.cardinality) == expected
        assert_maximum(graph, res)
        assert jm.check_matching(graph, res).optimal


@pytest.mark.parametrize("name", ["ladder", "strip", "sparse"])
def test_numbering_does_not_matter(name):
    rng = np.random.default_rng(2)
    graph = families(200)[name]
    batch = jm.BipartiteGraph.stack([permuted(rng, graph) for _ in range(5)])
    for method in METHODS[:-1]:
        res = jm.maximum_bipartite_matching(batch, method=method)
        np.testing.assert_array_equal(res.cardinality, by_igraph(graph))
        assert_all_maximum(batch, res)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("twin", [False, True])
def test_the_start_alone(twin, init, stacked):
    """Method "init_only" proves nothing; its matching is maximal, unless `init` is "none"."""
    batch, expected = stacked
    if twin:
        from jaxmatch._matching import xla

        res = jax.jit(partial(xla.solve, init=init, search=False))(batch)
    else:
        res = jm.maximum_bipartite_matching(batch, method="init_only", init=init)
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, jm.Status.UNFINISHED)
    assert not res.row_cover.any() and not res.col_cover.any()
    check = jm.check_matching(batch, res)
    assert check.valid.all()
    nothing_to_find = np.asarray(expected) == 0
    np.testing.assert_array_equal(check.optimal, nothing_to_find)
    for k, graph in enumerate(graphs_of(batch)):
        one = problem(res, k)
        assert_matching(graph, one)
        if init == "none":
            assert one.cardinality == 0
        else:
            assert 2 * one.cardinality >= expected[k]
            rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.row_ptr))
            cols = graph.col_ind[: len(rows)]
            assert ((one.col4row[rows] >= 0) | (one.row4col[cols] >= 0)).all(), "not maximal"


def test_cheap_takes_the_first_free_column(platform):
    if platform == "cuda":
        pytest.skip("rows race for columns there")
    graph = from_edges([(0, 1), (0, 2), (1, 1), (1, 3), (2, 1), (3, 2), (3, 4)], (4, 5))
    res = jm.maximum_bipartite_matching(graph, method="init_only", init="cheap")
    np.testing.assert_array_equal(res.col4row, [1, 3, -1, 2])


def test_karp_sipser_is_optimal_on_trees(stacked):
    """A vertex with one free neighbour takes it: no tree is left with anything to augment."""
    rng = np.random.default_rng(3)
    graphs = []
    for _ in range(10):
        # Vertex k hangs on an earlier one; even levels are rows, odd ones columns.
        parent, side = [0], [0]
        for k in range(1, 60):
            parent.append(int(rng.integers(max(0, k - 8), k)))
            side.append(1 - side[parent[k]])
        edges = [(k, parent[k]) if side[k] == 0 else (parent[k], k) for k in range(1, 60)]
        graphs.append(from_edges(edges, (60, 60)))
    batch = jm.BipartiteGraph.stack(graphs)
    expected = [by_igraph(g) for g in graphs]
    for method in ("init_only", "xla"):
        res = jm.maximum_bipartite_matching(batch, method=method, init="karp_sipser")
        np.testing.assert_array_equal(res.cardinality, expected)
    del stacked


@pytest.mark.parametrize("method", DETERMINISTIC)
def test_same_bits_again_and_in_any_company(method, stacked, platform):
    if platform == "cuda":
        pytest.skip("GPU kernels race")
    batch, _ = stacked
    first = jm.maximum_bipartite_matching(batch, method=method)
    assert_same_bits(first, jm.maximum_bipartite_matching(batch, method=method))
    few = jax.tree.map(lambda x: x[::-5], batch)
    assert_same_bits(
        jax.tree.map(lambda x: x[::-5], first), jm.maximum_bipartite_matching(few, method=method)
    )


# ---------------------------------------------------------------------------------------------
# The checker finds what is wrong


GRAPH = from_edges([(0, 0), (0, 1), (1, 0), (2, 2), (3, 2)], (4, 4))  # optimum 3

TAMPERED = {
    "not an edge": {"col4row": [1, 0, 3, -1], "row4col": [1, 0, -1, 2]},
    "one column twice": {"col4row": [0, 0, 2, -1], "row4col": [0, -1, 2, -1]},
    "no inverse": {"row4col": [1, 0, 3, -1]},
    "column forgotten": {"row4col": [1, -1, 2, -1]},
    "column invented": {"row4col": [1, 0, 2, 3]},
    "beyond the columns": {"col4row": [1, 0, 4, -1]},
    "beyond the rows": {"row4col": [1, 0, 4, -1]},
    "below -1": {"col4row": [1, 0, 2, -2]},
    "counted wrong": {"cardinality": 2},
    "claims to be invalid": {"cardinality": -1},
}


def test_checker_accepts_what_is_right():
    res = jm.maximum_bipartite_matching(GRAPH)
    check = jm.check_matching(GRAPH, res)
    assert int(res.cardinality) == 3 and check.valid and check.optimal


@pytest.mark.parametrize("name", TAMPERED)
def test_checker_refuses_wrong_pairs(name):
    good = jm.maximum_bipartite_matching(GRAPH)
    good = good.replace(col4row=np.array([1, 0, 2, -1]), row4col=np.array([1, 0, 2, -1]))
    assert jm.check_matching(GRAPH, good).optimal
    changes = {field: np.asarray(x, np.int32) for field, x in TAMPERED[name].items()}
    check = jm.check_matching(GRAPH, good.replace(**changes))
    assert not check.valid and not check.optimal


def test_checker_refuses_wrong_covers():
    good = jm.maximum_bipartite_matching(GRAPH)
    rows, cols = np.array([1, 1, 0, 0], bool), np.array([0, 0, 1, 0], bool)
    covers = {
        "right": (rows, cols, True),
        "edge left out": (rows, 0 * cols > 0, False),
        "too large": (rows, np.array([0, 0, 1, 1], bool), False),
        "moved": (rows, np.array([0, 0, 0, 1], bool), False),
        "everything": (rows | True, cols, False),
        "nothing": (rows & False, cols & False, False),
    }
    for name, (row_cover, col_cover, proves) in covers.items():
        check = jm.check_matching(GRAPH, good.replace(row_cover=row_cover, col_cover=col_cover))
        assert check.valid and bool(check.optimal) == proves, name
    smaller = good.replace(
        col4row=np.array([0, -1, 2, -1], np.int32),
        row4col=np.array([0, -1, 2, -1], np.int32),
        cardinality=np.int32(2),
    )
    check = jm.check_matching(GRAPH, smaller)
    assert check.valid and not check.optimal


def test_checker_compares_shapes():
    res = jm.maximum_bipartite_matching(GRAPH)
    with pytest.raises(ValueError, match=r"`result.col_cover` must have shape \(4,\)"):
        jm.check_matching(GRAPH, res.replace(col_cover=res.col_cover[:3]))
    with pytest.raises(TypeError, match="`graph` must be a BipartiteGraph, got ndarray"):
        jm.check_matching(np.eye(4), res)
