"""Bipartite graphs: built from everything, checked once, and carried through JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import assert_same_bits, x64
from jax.experimental import sparse
from matching_helpers import edges_of, from_edges, random_graph

import jaxmatch as jm
from jaxmatch import BipartiteGraph


MATRIX = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, -3]])


def assert_csr(graph, matrix):
    """Both directions hold exactly the non-zeros of a dense matrix, in order."""
    n, m = matrix.shape
    assert graph.shape == (n, m) and graph.batch_shape == ()
    assert (int(graph.num_rows), int(graph.num_cols)) == (n, m)
    assert int(graph.num_edges) == graph.max_edges == (matrix != 0).sum()
    for x in jax.tree.leaves(graph):
        assert isinstance(x, jax.Array) and x.dtype == jnp.int32
    expected = sp.csr_array(matrix != 0), sp.csr_array(matrix.T != 0)
    for csr, ptr, ind in zip(
        expected, (graph.row_ptr, graph.col_ptr), (graph.col_ind, graph.row_ind), strict=True
    ):
        np.testing.assert_array_equal(ptr, csr.indptr)
        np.testing.assert_array_equal(ind, csr.indices)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_from_scipy(kind, format):
    assert_csr(BipartiteGraph.from_scipy(kind(MATRIX).asformat(format)), MATRIX)


def test_from_others():
    rows, cols = np.nonzero(MATRIX)
    assert_csr(BipartiteGraph.from_dense(MATRIX), MATRIX)
    assert_csr(BipartiteGraph.from_dense(MATRIX != 0), MATRIX)
    assert_csr(BipartiteGraph.from_dense(jnp.asarray(MATRIX, jnp.float32)), MATRIX)
    for nse in (None, 9):  # 9: five entries of padding
        bcoo = sparse.BCOO.fromdense(jnp.asarray(MATRIX), nse=nse)
        assert_csr(BipartiteGraph.from_bcoo(bcoo), MATRIX)
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        edges = rows.astype(dtype), cols.astype(dtype)
        assert_csr(BipartiteGraph.from_edges(*edges, MATRIX.shape), MATRIX)
    assert_csr(BipartiteGraph.from_edges(rows.tolist(), jnp.asarray(cols), MATRIX.shape), MATRIX)


def test_explicit_zeros_are_edges():
    """As in scipy's maximum_bipartite_matching."""
    stored = sp.coo_array(([0, 0, 1], ([0, 1, 1], [1, 0, 1])), shape=(2, 2))
    assert_csr(BipartiteGraph.from_scipy(stored), np.array([[0, 1], [1, 1]]))
    assert_csr(BipartiteGraph.from_scipy(stored.tocsr()), np.array([[0, 1], [1, 1]]))
    bcoo = sparse.BCOO((jnp.zeros(1), jnp.array([[1, 0]])), shape=(2, 2))
    assert_csr(BipartiteGraph.from_bcoo(bcoo), np.array([[0, 0], [1, 0]]))


def test_duplicates_and_any_order():
    rng = np.random.default_rng(0)
    for n, m, e in ((1, 1, 5), (7, 5, 60), (300, 200, 3000), (50, 70, 3000)):
        rows, cols = rng.integers(0, n, e), rng.integers(0, m, e)
        dense = np.zeros((n, m), int)
        dense[rows, cols] = 1
        assert_csr(BipartiteGraph.from_edges(rows, cols, (n, m)), dense)
        twice = sp.coo_array((np.ones(e), (rows, cols)), shape=(n, m))
        assert_csr(BipartiteGraph.from_scipy(twice), dense)
        unsorted = sp.csr_array(dense)
        unsorted.indices = unsorted.indices[::-1].copy()
        unsorted.indptr = (e_total := unsorted.indptr[-1]) - unsorted.indptr[::-1]
        unsorted.has_sorted_indices = False
        assert e_total == dense.sum()
        assert_csr(BipartiteGraph.from_scipy(unsorted), dense[::-1])
    duplicated = sp.csr_array((np.ones(3), [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert_csr(BipartiteGraph.from_scipy(duplicated), np.array([[0, 1], [1, 0]]))
    assert duplicated.nnz == 3  # which was not touched


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)], ids=str)
def test_no_edges(shape):
    empty = np.zeros(shape)
    assert_csr(BipartiteGraph.from_edges([], [], shape), empty)
    assert_csr(BipartiteGraph.from_dense(empty), empty)
    assert_csr(BipartiteGraph.from_scipy(sp.coo_array(shape)), empty)


def test_under_x64():
    with x64(True):
        assert_csr(BipartiteGraph.from_dense(MATRIX), MATRIX)
        stacked = BipartiteGraph.stack([BipartiteGraph.from_dense(MATRIX)])
        assert {x.dtype for x in jax.tree.leaves(stacked)} == {np.dtype("int32")}


# ---------------------------------------------------------------------------------------------
# Errors name the argument and the first offence


SHAPE = (3, 4)

REFUSED = {
    "row too large": ([0, 3, 9], [0, 0, 0], SHAPE, r"`rows` holds 3 for edge 1.*index < 3"),
    "column too large": ([0, 1], [0, 4], SHAPE, r"`cols` holds 4 for edge 1.*index < 4"),
    "negative": ([0, -1], [0, 1], SHAPE, r"`rows` holds -1 for edge 1"),
    "beyond 32 bits": ([0, 2**32], [0, 1], SHAPE, r"`rows` holds 4294967296 for edge 1"),
    "no such side": ([0], [0], (0, 4), r"`rows` holds 0 for edge 0"),
    "lengths": ([0, 1], [0], SHAPE, r"lengths 2 and 1"),
    "floats": ([0.0, 1.0], [0, 1], SHAPE, r"`rows` must hold integers, got float64"),
    "bools": ([0, 1], [True, False], SHAPE, r"`cols` must hold integers, got bool"),
    "dimensions": ([[0, 1]], [0, 1], SHAPE, r"`rows` must have one dimension, got shape \(1, 2\)"),
    "negative shape": ([], [], (-1, 2), r"`shape` must have sides from 0.*got \(-1, 2\)"),
    "huge shape": ([], [], (2, 2**30), r"`shape` must have sides from 0 to 1073741823"),
    "one side": ([], [], (2,), r"`shape` must be two integers"),
    "fractions": ([], [], (2, 2.5), r"`shape` must be two integers"),
    "no shape": ([], [], None, r"`shape` must be two integers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    rows, cols, shape, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        BipartiteGraph.from_edges(rows, cols, shape)


def test_the_largest_side_is_taken_at_its_word():
    """The check is on the number; a graph of that size need not be built to see it."""
    with pytest.raises(ValueError, match=r"`rows` holds 5 for edge 0"):
        BipartiteGraph.from_edges([5], [0], (5, 2**30 - 1))


def test_others_are_refused():
    with pytest.raises(TypeError, match="scipy.sparse.*got ndarray"):
        BipartiteGraph.from_scipy(MATRIX)
    with pytest.raises(TypeError, match="BCOO.*got ndarray"):
        BipartiteGraph.from_bcoo(MATRIX)
    with pytest.raises(ValueError, match=r"`A` must have shape \[n, m\], got \(1, 3, 4\)"):
        BipartiteGraph.from_dense(MATRIX[None])
    for batch, dense in ((1, 0), (0, 1)):
        bcoo = sparse.BCOO.fromdense(jnp.ones((2, 3, 4)), n_batch=batch, n_dense=dense)
        with pytest.raises(ValueError, match=f"{batch} batched, 2 sparse and {dense} dense"):
            BipartiteGraph.from_bcoo(bcoo)
    negative = sparse.BCOO((jnp.ones(2), jnp.array([[0, 0], [-1, 0]])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"`A.indices\[:, 0\]` holds -1 for edge 1"):
        BipartiteGraph.from_bcoo(negative)
    broken = sp.csr_array(MATRIX)
    broken.indices[1] = 9
    with pytest.raises(ValueError, match=r"`A.indices` holds 9 for edge 1"):
        BipartiteGraph.from_scipy(broken)
    broken = sp.csr_array(MATRIX)
    broken.indptr[1] = 7
    with pytest.raises(ValueError, match="`A.indptr` must rise"):
        BipartiteGraph.from_scipy(broken)


def test_tracers_are_refused():
    graph = from_edges([(0, 1)], (2, 2))

    def bcoo(x):
        return sparse.BCOO((x, jnp.stack([x, x], 1)), shape=(3, 3))

    builds = [
        lambda x: BipartiteGraph.from_edges(x, x, (3, 3)),
        lambda x: BipartiteGraph.from_dense(x[None]),
        lambda x: BipartiteGraph.from_bcoo(bcoo(x)),
        lambda x: BipartiteGraph.stack([jax.tree.map(lambda y: y + x[0], graph)]),
    ]
    for build in builds:
        with pytest.raises(TypeError, match="built on the host"):
            jax.jit(build)(jnp.arange(3))


# ---------------------------------------------------------------------------------------------
# Stacks


def test_stack():
    rng = np.random.default_rng(1)
    sizes = [(3, 5, 4), (6, 2, 9), (1, 1, 0), (0, 4, 0)]
    graphs = [random_graph(rng, n, m, e) if e else from_edges([], (n, m)) for n, m, e in sizes]
    for asked in ({}, {"num_rows": 8, "num_cols": 5, "num_edges": 64}):
        batch = BipartiteGraph.stack(graphs, **asked)
        most = max(g.max_edges for g in graphs)
        assert batch.batch_shape == (4,)
        assert batch.shape == (asked.get("num_rows", 6), asked.get("num_cols", 5))
        assert batch.max_edges == asked.get("num_edges", most)
        np.testing.assert_array_equal(batch.num_edges, [g.max_edges for g in graphs])
        np.testing.assert_array_equal(batch.num_rows, [n for n, _, _ in sizes])
        np.testing.assert_array_equal(batch.num_cols, [m for _, m, _ in sizes])
        for k, graph in enumerate(graphs):
            one = jax.tree.map(lambda x: x[k], batch)  # noqa: B023
            np.testing.assert_array_equal(edges_of(one), edges_of(graph))
            transposed = BipartiteGraph(
                one.col_ptr, one.row_ind, one.row_ptr, one.col_ind, one.num_cols, one.num_rows
            )
            assert set(zip(*edges_of(transposed), strict=True)) == {
                (j, i) for i, j in zip(*edges_of(graph), strict=True)
            }


def test_stacks_of_stacks():
    graphs = [from_edges([(0, k)], (1 + k, 3)) for k in range(3)]
    pairs = [BipartiteGraph.stack(graphs[:2]), BipartiteGraph.stack(graphs[1:])]
    nested = BipartiteGraph.stack(pairs)
    assert nested.batch_shape == (2, 2) and nested.shape == (3, 3)
    np.testing.assert_array_equal(nested.num_rows, [[1, 2], [2, 3]])


def test_stacks_that_are_refused():
    graph = from_edges([(0, 0), (1, 1)], (2, 3))
    with pytest.raises(ValueError, match="at least one graph"):
        BipartiteGraph.stack([])
    for name, least in (("num_rows", 2), ("num_cols", 3), ("num_edges", 2)):
        with pytest.raises(ValueError, match=f"`{name}` must be from {least}, the largest"):
            BipartiteGraph.stack([graph], **{name: least - 1})
    with pytest.raises(ValueError, match="`num_rows` must be from 2"):
        BipartiteGraph.stack([graph], num_rows=2**30)
    with pytest.raises(ValueError, match=r"graphs\[1\] has \(1,\) and graphs\[0\] has \(\)"):
        BipartiteGraph.stack([graph, BipartiteGraph.stack([graph])])


# ---------------------------------------------------------------------------------------------
# A citizen of JAX


def test_pytree_through_jit_and_vmap():
    graph = from_edges([(0, 1), (2, 0)], (3, 2))
    assert_same_bits(graph, jax.jit(lambda g: g)(graph))
    batch = BipartiteGraph.stack([graph, from_edges([(0, 0)], (1, 1))])
    shapes = []

    def count(g):
        shapes.append((g.shape, g.batch_shape, g.max_edges, repr(g)))
        return g.num_edges

    np.testing.assert_array_equal(jax.vmap(count)(batch), [2, 1])
    assert shapes == [((3, 2), (), 2, "BipartiteGraph(shape=(3, 2), num_edges=2)")]
    leaves, tree = jax.tree.flatten(graph)
    assert repr(jax.tree.unflatten(tree, range(len(leaves)))).startswith("BipartiteGraph(row_ptr=0")


def test_repr_tells_sizes():
    graph = from_edges([(0, 1), (2, 0)], (3, 2))
    assert repr(graph) == "BipartiteGraph(shape=(3, 2), num_edges=2)"
    batch = BipartiteGraph.stack([graph, graph])
    assert repr(batch) == "BipartiteGraph(batch_shape=(2,), shape=(3, 2), max_edges=2)"


def test_arrays_put_together_by_hand():
    """Dtypes and shapes are looked at by whoever takes a graph."""
    graph = from_edges([(0, 1), (2, 0)], (3, 2))
    fields = {name: getattr(graph, name) for name in graph.__dataclass_fields__}
    wrong = {
        "row_ptr": (graph.row_ptr.astype(jnp.float32), TypeError, "`graph.row_ptr` must be int32"),
        "col_ptr": (graph.col_ptr[None], ValueError, "`graph.col_ptr` must have the batch"),
        "row_ind": (graph.row_ind[:1], ValueError, "must have one length"),
        "col_ind": (graph.col_ind[0], ValueError, "`graph.col_ind` must have the batch"),
        "num_rows": (graph.num_rows[None], ValueError, "`graph.num_rows` must have the batch"),
        "num_cols": (jnp.zeros(3, jnp.int32), ValueError, "`graph.num_cols` must have the batch"),
    }
    result = jm.maximum_bipartite_matching(graph)
    for name, (array, error, message) in wrong.items():
        by_hand = BipartiteGraph(**(fields | {name: array}))
        with pytest.raises(error, match=message):
            jm.maximum_bipartite_matching(by_hand)
        with pytest.raises(error, match=message):
            jm.check_matching(by_hand, result)
    with pytest.raises(ValueError, match="at least one pointer"):
        jm.maximum_bipartite_matching(BipartiteGraph(**(fields | {"row_ptr": graph.row_ptr[:0]})))
