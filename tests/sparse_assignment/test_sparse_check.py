"""`check_sparse_assignment` finds what is wrong; dense forms of small problems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import problem, to_numpy, x64
from sparse_helpers import Case, assert_solved, case, random_case, stacked

import jaxmatch as jm
from jaxmatch._sparse_assignment import dense
from jaxmatch._sparse_assignment.problem import as_problem


def solved(**options):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(np.ones((4, 5)))
    one = case(rows, cols, rng.integers(1, 30, 20).astype(np.float32), (4, 5), **options)
    cost = jnp.asarray(one.cost)
    return one.graph, cost, jm.solve_sparse_assignment(one.graph, cost, **options)


# ---------------------------------------------------------------------------------------------
# The check


def test_what_is_not_a_matching():
    graph, cost, res = solved()
    assert jm.check_sparse_assignment(graph, cost, res).optimal

    def refused(**changes):
        check = jm.check_sparse_assignment(graph, cost, res.replace(**changes))
        assert not check.valid and not check.optimal and check.gap == jnp.inf

    refused(col4row=res.col4row.at[0].set(-1))
    refused(row4col=res.row4col.at[res.col4row[0]].set(-1))
    refused(col4row=res.col4row.at[0].set(res.col4row[1]))
    refused(col4row=res.col4row.at[0].set(5))
    refused(row4col=res.row4col + 10)
    refused(col4row=jnp.full(4, -1), row4col=jnp.full(5, -1))
    without = {"col4row": res.col4row.at[0].set(-1)}
    without["row4col"] = res.row4col.at[res.col4row[0]].set(-1)
    refused(**without)
    # Fewer pairs are a solution where rows may stay, if not the best one.
    for options in ({"unmatched_cost": 100.0}, {"cardinality": "maximum"}):
        check = jm.check_sparse_assignment(graph, cost, res.replace(**without), **options)
        assert check.valid and not check.optimal


def test_pairs_that_are_no_edges():
    graph = jm.BipartiteGraph.from_edges([0, 1, 1], [0, 0, 1], (2, 2))
    cost = jnp.array([1.0, 2, 3])
    res = jm.solve_sparse_assignment(graph, cost)
    assert jm.check_sparse_assignment(graph, cost, res).optimal
    other = res.replace(col4row=jnp.array([1, 0]), row4col=jnp.array([1, 0]))
    assert not jm.check_sparse_assignment(graph, cost, other).valid
    forbidden = jnp.array([jnp.inf, 2, 3])
    assert not jm.check_sparse_assignment(graph, forbidden, res).valid
    mask = jnp.array([True, False])
    assert not jm.check_sparse_assignment(graph, cost, res, row_mask=mask).valid
    assert not jm.check_sparse_assignment(graph, cost, res, col_mask=mask).valid


def test_wrong_duals_prove_less():
    """The gap is that of the duals, computed by hand; other duals never prove too much."""
    graph, cost, res = solved()
    dense_cost = np.asarray(cost).reshape(4, 5)
    rng = np.random.default_rng(1)
    for _ in range(20):
        v = np.minimum(np.asarray(res.col_dual) + rng.integers(-3, 4, 5), 0)
        bound = (dense_cost - v).min(1).sum() + v.sum()
        check = jm.check_sparse_assignment(graph, cost, res.replace(col_dual=jnp.asarray(v)))
        assert check.valid and float(check.gap) == float(res.cost) - bound
        assert bool(check.optimal) == (float(res.cost) == bound)
    # Positive duals of columns that may stay are cut off.
    high = res.replace(col_dual=res.col_dual + 100)
    assert jm.check_sparse_assignment(graph, cost, high).gap >= 0
    for wrong in (jnp.nan, jnp.inf, -jnp.inf):
        bad = res.replace(col_dual=res.col_dual.at[0].set(wrong))
        check = jm.check_sparse_assignment(graph, cost, bad)
        assert check.valid and not check.optimal and check.gap == jnp.inf


@pytest.mark.parametrize("options", [
    {"unmatched_cost": 7.0}, {"unmatched_cost": 7.0, "unmatched_col_cost": -2.0},
    {"cardinality": "maximum"}, {"maximize": True},
])  # fmt: skip
def test_a_worse_matching(options):
    graph, cost, res = solved(**options)
    assert jm.check_sparse_assignment(graph, cost, res, **options).optimal
    swapped = res.col4row.at[jnp.array([0, 1])].set(res.col4row[jnp.array([1, 0])])
    inverse = np.full(5, -1, np.int32)
    for i, j in enumerate(np.asarray(swapped)):
        if j >= 0:
            inverse[j] = i
    other = res.replace(col4row=swapped, row4col=jnp.asarray(inverse))
    check = jm.check_sparse_assignment(graph, cost, other, **options)
    assert check.valid and not check.optimal and 0 < check.gap < 100


def test_arguments():
    graph, cost, res = solved()
    with pytest.raises(ValueError, match=r"`result.col4row` must have shape \(4,\)"):
        jm.check_sparse_assignment(graph, cost, res.replace(col4row=res.col4row[:3]))
    with pytest.raises(TypeError, match="`result` must be an Assignment"):
        jm.check_sparse_assignment(graph, cost, res.col4row)  # type: ignore[arg-type]
    for function in (
        jm.solve_sparse_assignment,
        lambda *x, **y: jm.check_sparse_assignment(*x, res, **y),
    ):
        with pytest.raises(ValueError, match="`cardinality` must be one of"):
            function(graph, cost, cardinality="least")
        with pytest.raises(ValueError, match="exclude each other"):
            function(graph, cost, cardinality="maximum", unmatched_cost=1.0)
        with pytest.raises(ValueError, match="`unmatched_col_cost` needs `unmatched_cost`"):
            function(graph, cost, unmatched_col_cost=1.0)
        with pytest.raises(ValueError, match=r"`cost` must have shape \[..., 20\].*got \(19,\)"):
            function(graph, cost[1:])
        with pytest.raises(ValueError, match=r"`cost` must have shape \[..., 20\].*got \(\)"):
            function(graph, 3.0)
        with pytest.raises(ValueError, match="`unmatched_cost` has shape"):
            function(graph, cost, unmatched_cost=jnp.ones(5))
        with pytest.raises(ValueError, match="`row_mask` has shape"):
            function(graph, cost, row_mask=np.ones(5, bool))
        with pytest.raises(TypeError, match="`graph` must be a BipartiteGraph"):
            function(np.eye(4), cost)
        with pytest.raises(TypeError, match="`cost` must have one of the dtypes"):
            function(graph, np.ones(20, np.complex64))
        batch = jm.BipartiteGraph.stack([graph, graph])
        with pytest.raises(ValueError, match="batch dimensions of `cost` and of `graph`"):
            function(batch, jnp.ones((3, 20)))
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.solve_sparse_assignment(graph, cost, method="auction")
    with pytest.raises(ValueError, match="`warm_start` has shape"):
        jm.solve_sparse_assignment(graph, cost, warm_start=jnp.ones(4))


# ---------------------------------------------------------------------------------------------
# Dense forms, which CUDA solves, by the dense solver of the CPU


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("kind", ["full", "masks", "rows pay"])
def test_dense_forms(kind, dtype):
    rng = np.random.default_rng(len(kind))
    maximize = dtype == "bfloat16"
    with x64(dtype == "int32"):
        cases, given = [], {"maximize": maximize}
        for _ in range(20):
            one = random_case(rng, maximize=maximize)
            n, m = one.graph.shape
            one.options["row_mask"] = rng.random(n) < (0.7 if kind == "masks" else 2)
            one.options["col_mask"] = rng.random(m) < (0.7 if kind == "masks" else 2)
            if kind == "rows pay":
                one.options["unmatched_cost"] = rng.integers(-9, 9, n).astype(np.float32)
            cases.append(one)
        graph, cost = stacked(cases, jnp.dtype(dtype))
        names = [x for x in cases[0].options if x not in given]
        arrays = [
            np.stack([np.pad(c.options[x], (0, 8 - len(c.options[x]))) for c in cases])
            for x in names
        ]
        graph, form = as_problem(graph, jnp.asarray(cost), **dict(zip(names, arrays, strict=True)))
        assert dense.fits(graph, form)
        res, edge = jax.jit(lambda g, f: dense.solve(g, f, platform="cpu", **given))(graph, form)
        res, edge = to_numpy((res, edge))
        for k, one in enumerate(cases):
            assert_solved(one, problem(res, k))
            rows = np.flatnonzero(edge[k] >= 0)
            assert np.array_equal(rows, np.flatnonzero(res.col4row[k] >= 0))
            assert np.array_equal(np.asarray(graph.col_ind[k])[edge[k][rows]], res.col4row[k][rows])


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")
def test_dense_forms_near_the_end_of_the_range():
    """A sum is infinite, not NaN."""
    graph = jm.BipartiteGraph.from_dense(np.ones((3, 3)))
    great = jnp.full(9, 3e38, jnp.float32)
    _, form = as_problem(graph, jnp.stack([great, -great, great / 2.0**40]))
    res, _ = dense.solve(graph, form, maximize=False, platform="cpu")
    np.testing.assert_array_equal(res.status, [jm.Status.OPTIMAL] * 3)
    np.testing.assert_array_equal(res.cost[:2], [np.inf, -np.inf])
    assert (np.asarray(res.col4row) >= 0).all()
    cost = jnp.asarray(3e38 * np.array([[1, 0.5], [0.25, 0.5]]), jnp.float32).ravel()
    _, form = as_problem(jm.BipartiteGraph.from_dense(np.ones((2, 2))), cost)
    res, _ = dense.solve(
        jm.BipartiteGraph.from_dense(np.ones((2, 2))),
        form,
        maximize=False,
        platform="cpu",
    )
    assert res.col4row.tolist() == [1, 0] and float(res.cost) == float(cost[1] + cost[2])
    assert 0 <= float(res.gap) <= 1e-20


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")
def test_dense_forms_of_a_shared_graph_and_bad_input():
    graph, cost, res = solved()
    costs = jnp.stack([cost, cost.at[3].set(jnp.nan), cost + 1, cost.at[0].set(-jnp.inf)])
    bad = jm.BipartiteGraph(**(vars(graph) | {"row_ptr": graph.row_ptr.at[1].set(99)}))
    for g, status in ((graph, [0, 2, 0, 2]), (bad, [5] * 4)):
        _, form = as_problem(g, costs)
        got, edge = dense.solve(g, form, maximize=False, platform="cpu")
        np.testing.assert_array_equal(got.status, status)
        assert np.isnan(np.asarray(got.cost)[np.array(status) > 0]).all()
        assert (np.asarray(edge)[np.array(status) > 0] == -1).all()
    one = Case(graph, np.asarray(cost))
    assert_solved(one, res)


def test_what_dense_forms_cannot_say():
    graph, cost, _ = solved()

    def fits(graph, cost, **options):
        return dense.fits(*as_problem(graph, cost, **options))

    assert fits(graph, cost)
    assert not fits(graph, cost.astype(jnp.int32))  # float32 has 24 bits
    assert not fits(graph, cost, unmatched_cost=1.0, unmatched_col_cost=1.0)
    large = jm.BipartiteGraph.from_edges([0], [0], (129, 2))
    assert not fits(large, jnp.ones(1))
    with x64(True):
        assert fits(graph, cost.astype(jnp.int32))
        assert not fits(graph, cost.astype(jnp.int64))
