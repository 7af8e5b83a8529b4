"""Graphs with costs, built on the host, and scipy's function for them."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching as by_scipy

import jaxmatch as jm


from_edges = jm.BipartiteGraph.from_edges_with_cost
from_scipy = jm.BipartiteGraph.from_scipy_with_cost


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bfloat16"])
def test_costs_follow_their_edges(dtype, maximize):
    """Any order, with parallel edges, of which the best stays; a batch of costs."""
    rng = np.random.default_rng(0)
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for n, m, e in [(5, 4, 30), (3, 7, 5), (9, 9, 0), (40, 40, 300)]:
        rows, cols = rng.integers(0, n, e), rng.integers(0, m, e)
        cost = rng.integers(0, 100, (2, e)).astype(dtype)
        graph, got = from_edges(rows, cols, cost, (n, m), maximize=maximize)
        assert got.dtype == dtype and got.shape == (2, graph.max_edges)
        best = {}
        for i, j, x in zip(rows, cols, cost[0], strict=True):
            best.setdefault((int(i), int(j)), []).append(x)
        choice = max if maximize else min
        assert got[0].tolist() == [choice(best[pair]) for pair in sorted(best)]
        own_rows = np.repeat(np.arange(n), np.diff(graph.row_ptr))
        pairs = zip(own_rows.tolist(), np.asarray(graph.col_ind).tolist(), strict=True)
        assert list(pairs) == sorted(best)


def test_kinds_of_arrays():
    graph, cost = from_edges([1, 0], [0, 0], jnp.array([1.0, 2.0]), (2, 1))
    assert isinstance(cost, jax.Array) and cost.tolist() == [2, 1]
    _, cost = from_edges([1, 0], [0, 0], [1, 2], (2, 1))
    assert isinstance(cost, np.ndarray) and cost.tolist() == [2, 1]
    assert jm.solve_sparse_assignment(graph, cost).cost == 1
    # NaN is the best: it is invalid, and must not get lost.
    _, cost = from_edges([0, 0], [0, 0], np.array([np.nan, 1.0]), (1, 1))
    assert np.isnan(cost).all()


def test_wrong_costs():
    with pytest.raises(ValueError, match=r"`cost` must have shape \[..., 2\].*got \(3,\)"):
        from_edges([0, 1], [0, 1], np.ones(3), (2, 2))
    with pytest.raises(ValueError, match="`rows` holds 2 for edge 1"):
        from_edges([0, 2], [0, 1], np.ones(2), (2, 2))
    with pytest.raises(TypeError, match="`cost` is traced"):
        jax.jit(lambda c: from_edges([0, 1], [0, 1], c, (2, 2))[1])(jnp.ones(2))
    with pytest.raises(TypeError, match=r"`A` must be a scipy.sparse matrix"):
        from_scipy(np.ones((2, 2)))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
def test_from_scipy(form):
    """Every stored entry is an edge, explicit zeros, too; of duplicates the best stays."""
    rng = np.random.default_rng(1)
    A = sp.random_array((6, 8), density=0.4, rng=rng, format="csr")
    graph, cost = from_scipy(A.asformat(form))
    again = sp.csr_array((cost, np.asarray(graph.col_ind), np.asarray(graph.row_ptr)), (6, 8))
    np.testing.assert_array_equal(again.toarray(), A.toarray())
    if form in ("csr", "coo"):
        twice = sp.coo_array(([3.0, 0, 2, 1], ([0, 0, 1, 1], [0, 1, 1, 1])), (2, 2))
        if form == "csr":
            twice = sp.csr_array(([3.0, 0, 2, 1], [0, 1, 1, 1], [0, 2, 4]), (2, 2))
        assert from_scipy(twice)[1].tolist() == [3, 0, 1]
        assert from_scipy(twice, maximize=True)[1].tolist() == [3, 0, 2]


# ---------------------------------------------------------------------------------------------
# min_weight_full_bipartite_matching


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_as_scipy(form, maximize):
    rng = np.random.default_rng(2)
    full = 0
    for k in range(60):
        n, m = rng.integers(1, 9, 2)
        A = np.where(rng.random((n, m)) < 0.6, rng.integers(-50, 50, (n, m)), 0)
        A = A.astype([np.int64, np.float64, np.float32, np.int8][k % 4])
        if k % 5 == 0 and A.dtype.kind == "f":
            A[A > 30] = -np.inf if maximize else np.inf
        A = sp.csr_array(A).asformat(form)
        try:
            row, col = by_scipy(A, maximize)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                jm.min_weight_full_bipartite_matching(A, maximize)
            continue
        full += 1
        row_ind, col_ind = jm.min_weight_full_bipartite_matching(A, maximize)
        assert row_ind.dtype == col_ind.dtype == np.int32
        assert len(row_ind) == min(n, m) and (np.diff(row_ind) > 0).all()
        assert len(np.unique(col_ind)) == len(col_ind)
        dense = A.toarray().astype(np.float64)
        assert dense[row_ind, col_ind].sum() == dense[row, col].sum()
    assert full > 15


def test_what_scipy_refuses():
    match = jm.min_weight_full_bipartite_matching
    for wrong in (np.eye(2), sp.lil_array(np.eye(2)), [[1]], None):
        with pytest.raises(TypeError):
            by_scipy(wrong)
        with pytest.raises(TypeError, match="graph must be"):
            match(wrong)
    with pytest.raises(ValueError, match="no full matching exists"):
        match(sp.csr_array(np.array([[1, 0], [2, 0]])))
    with pytest.raises(ValueError, match="numerical entries"):
        match(sp.csr_array(np.array([[1j]])))
    with pytest.raises(ValueError, match="invalid numeric entries"):
        match(sp.csr_array(np.array([[1, np.nan], [2, 3]])))
    with pytest.raises(ValueError, match="invalid numeric entries"):
        match(sp.csr_array(np.array([[1, -np.inf], [2, 3]])))
    with pytest.raises(ValueError, match="too large"):
        match(sp.csr_array(np.array([[2**63 + 5]], np.uint64)))


def test_where_scipy_differs():
    """Explicit zeros are edges; integers that doubles cannot hold are exact; duplicates add up."""
    match = jm.min_weight_full_bipartite_matching
    A = sp.csr_array(([0, 1, 1], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert match(A)[1].tolist() == [0, 1]
    big = 2**55
    A = sp.csr_array(np.array([[big + 1, big], [big, big]]))
    assert match(A, maximize=True)[1].tolist() == [0, 1]
    coo = sp.coo_array(([5, 1, 1, 3, 2], ([0, 0, 0, 1, 1], [0, 1, 1, 0, 1])), shape=(2, 2))
    assert match(coo)[1].tolist() == by_scipy(coo)[1].tolist() == [1, 0]
    row_ind, col_ind = match(sp.csr_array((0, 3)))
    assert row_ind.size == col_ind.size == 0
