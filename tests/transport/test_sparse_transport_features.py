"""Transport on edges: batches, calls on NumPy arrays, statuses, empty graphs, wrong arguments."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, x64
from sparse_transport_helpers import KINDS, METHODS, Case, assert_certified, by_highs, random_case

import jaxmatch as jm
from jaxmatch import Status


OPTIONS = {
    "all": {},
    "partial": {"partial": 3, "limit": 1},
    "unmatched": {"unmatched_cost": 2.5, "limit": 2},
}


@pytest.fixture(scope="module")
def batch():
    """A graph, and problems `[2, 3]` on it."""
    rng = np.random.default_rng(0)
    case = random_case(rng, 5, 4, density=0.7)
    plan = rng.integers(0, 4, (2, 3, len(case.cost)))
    rows = np.repeat(np.arange(5), np.diff(case.graph.row_ptr))
    supply, demand = np.zeros((2, 3, 5), np.float32), np.zeros((2, 3, 4), np.float32)
    np.add.at(supply, (..., rows), plan)
    np.add.at(demand, (..., np.asarray(case.graph.col_ind)), plan)
    cost = rng.integers(-3, 9, plan.shape).astype(np.float32)
    return jax.tree.map(np.asarray, case.graph), cost, supply, demand


# ---------------------------------------------------------------------------------------------
# Batches


@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind, batch):
    graph, *arrays = batch
    solve = partial(jm.solve_sparse_transport, **OPTIONS[kind])
    found = [solve(graph, *(x[k] for x in arrays)) for k in np.ndindex(2, 3)]
    expected = jax.tree.map(lambda *x: np.stack(x).reshape(2, 3, *x[0].shape), *found)
    assert (expected.status == 0).all()
    arrays = [*map(jnp.asarray, arrays)]
    on_graph = partial(solve, graph)
    for way in (on_graph, jax.jit(on_graph), jax.jit(jax.vmap(jax.vmap(on_graph)))):
        assert_same_bits(way(*arrays), expected)
    stacked = jm.BipartiteGraph.stack([graph] * 3)
    for way in (solve, jax.jit(solve), jax.vmap(solve, (None, 0, 0, 0))):
        assert_same_bits(way(stacked, *arrays), expected)
    assert_same_bits(expected[1, 2], solve(graph, *(x[1, 2] for x in arrays)))
    one = solve(graph, arrays[0][0, 0], *(x[0] for x in arrays[1:]))
    assert one.batch_shape == (3,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["auto", "xla"])
def test_graphs_of_several_sizes(kind, method):
    """Padding may hold any numbers."""
    rng = np.random.default_rng(1)
    cases = [random_case(rng, *rng.integers(1, 6, 2), kind, limits=False) for _ in range(12)]
    sizes = {"num_rows": 6, "num_cols": 6, "num_edges": 30}
    graph = jm.BipartiteGraph.stack([case.graph for case in cases], **sizes)
    name = {"partial": "partial", "unmatched": "unmatched_cost"}.get(kind)
    more = [] if name is None else [case.options[name] for case in cases]

    def padded(arrays, size):
        return np.stack(
            [np.pad(x.astype(float), (0, size - len(x)), constant_values=np.nan) for x in arrays]
        )

    given = [padded([case.cost for case in cases], 30)]
    given += [padded([getattr(case, x) for case in cases], 6) for x in ("supply", "demand")]
    options = {"limit": np.where(np.isnan(given[0]), np.nan, np.inf)}
    if name is not None:
        options[name] = np.array(more, float) if kind == "partial" else padded(more, 6)
    with x64(True):
        res = jm.solve_sparse_transport(graph, *given, **options, method=method)
        check = jm.check_sparse_transport(graph, *given, res, **options)
    for k, case in enumerate(cases):
        expected, e = by_highs(case), len(case.cost)
        if expected is None:
            assert res.status[k] != Status.OPTIMAL
            continue
        assert check.optimal[k] and res.status[k] == Status.OPTIMAL
        np.testing.assert_allclose(res.cost[k], expected, atol=1e-9)
        assert not res.mass[k, e:].any() and not res.row_dual[k, len(case.supply) :].any()


# ---------------------------------------------------------------------------------------------
# Kinds of arrays


def test_kinds_of_arrays(batch):
    graph, *arrays = (jax.tree.map(lambda x: x[0, 0] if x.ndim > 2 else x, x) for x in batch)
    for kind, of in ((np.asarray, np.ndarray), (jnp.asarray, jax.Array)):
        res = jm.solve_sparse_transport(graph, *map(kind, arrays), limit=3)
        assert all(isinstance(x, of) for x in jax.tree.leaves(res))
    wide = jm.solve_sparse_transport(graph, *(x.astype(np.int64) for x in arrays))
    assert {str(x.dtype) for x in jax.tree.leaves(wide)} == {"int64", "bool", "int32"}
    mixed = jm.solve_sparse_transport(graph, arrays[0], *(x.astype(np.int32) for x in arrays[1:]))
    assert (mixed.mass.dtype, mixed.cost.dtype) == (np.int32, np.float32)
    short = jm.solve_sparse_transport(graph, *(x.astype(np.int8) for x in arrays), limit=99)
    assert short.mass.dtype == short.cost.dtype == np.int32
    np.testing.assert_array_equal(short.cost, wide.cost)
    half = jm.solve_sparse_transport(graph, *(x.astype(jnp.bfloat16) for x in arrays), limit=0.5)
    assert half.mass.dtype == np.float32


# ---------------------------------------------------------------------------------------------
# Statuses


GRAPH = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 1], (2, 2))
COST, SUPPLY, DEMAND = np.array([1.0, 2, 3]), np.array([2.0, 1]), np.array([1.0, 2])
STATUSES = {
    "optimal": (Status.OPTIMAL, {}),
    "limits": (Status.INFEASIBLE, {"limit": 0.5}),
    "no supply for a column": (Status.INFEASIBLE, {"supply": [0.5, 2.5]}),
    "part": (Status.INFEASIBLE, {"partial": 3.5}),
    "unbalanced": (Status.UNBALANCED, {"demand": [1.0, 2.5]}),
    "unequal but partial": (Status.OPTIMAL, {"demand": [1.0, 2.5], "partial": 3.0}),
    "unequal but unmatched": (Status.OPTIMAL, {"demand": [1.0, 9], "unmatched_cost": 9.0}),
    "NaN": (Status.INVALID_COST, {"cost": [1, np.nan, 3]}),
    "-inf": (Status.INVALID_COST, {"cost": [1, -np.inf, 3]}),
    "NaN to leave": (Status.INVALID_COST, {"unmatched_cost": np.nan}),
    "-inf to leave": (Status.INVALID_COST, {"unmatched_cost": -np.inf}),
    "negative limit": (Status.INVALID_CAPACITY, {"limit": [1, -1, 1]}),
    "limit of NaN": (Status.INVALID_CAPACITY, {"limit": [1, 1, np.nan], "unmatched_cost": 1.0}),
    "negative supply": (Status.INVALID_MASS, {"supply": [4.0, -1]}),
    "negative demand": (Status.INVALID_MASS, {"demand": [4.0, -1], "partial": 1.0}),
    "negative to leave": (Status.INVALID_MASS, {"supply": [4.0, -1], "unmatched_cost": 1.0}),
    "endless supply": (Status.INVALID_MASS, {"supply": [np.inf, 1], "unmatched_cost": 1.0}),
    "endless demand": (Status.INVALID_MASS, {"demand": [np.inf, 1], "unmatched_cost": -1.0}),
    "demand of NaN": (Status.INVALID_MASS, {"demand": [np.nan, 1]}),
    "negative part": (Status.INVALID_MASS, {"partial": -1.0}),
    "cost before mass": (Status.INVALID_COST, {"cost": [np.nan, 1, 1], "supply": [-1.0, 1]}),
    "limit before mass": (Status.INVALID_CAPACITY, {"limit": -1, "supply": [-1.0, 1]}),
}


def problem_of(name):
    change = {k: np.asarray(x) for k, x in STATUSES[name][1].items()}
    own = {"cost": COST, "supply": SUPPLY, "demand": DEMAND}
    given = [change.pop(k, x) for k, x in own.items()]
    return Case(GRAPH, *given, change)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", STATUSES)
def test_statuses(name, method):
    case, status = problem_of(name), STATUSES[name][0]
    res = case.solve(method=method)
    assert Status(int(res.status)) == status
    check = case.check(res)
    assert check.valid == check.optimal == (status == Status.OPTIMAL)
    assert check.infeasible == (status == Status.INFEASIBLE)
    assert (res.row_side.any() | res.col_side.any()) <= (status == Status.INFEASIBLE)
    if status != Status.OPTIMAL:
        numbers = [res.mass, res.cost, res.row_dual, res.col_dual]
        assert all(np.isnan(x).all() for x in numbers)
        assert np.isnan(res.gap) == (status != Status.UNBALANCED)


def test_statuses_of_the_twin():
    """The statuses of a batch, each as if it were alone."""
    names = [name for name, (_, change) in STATUSES.items() if not {*change} & {"partial"}]
    cases = [problem_of(name) for name in names]
    given = [np.stack([getattr(case, x) for case in cases]) for x in ("cost", "supply", "demand")]
    limit = np.stack([case.limit for case in cases])
    price = [case.options.get("unmatched_cost") for case in cases]
    for wanted in (False, True):
        own = [k for k, x in enumerate(price) if (x is not None) == wanted]
        options = {"limit": limit[own]}
        if wanted:
            options["unmatched_cost"] = np.stack([np.full(2, price[k]) for k in own])
        solve = partial(jm.solve_sparse_transport, GRAPH, *(x[own] for x in given), **options)
        for method in ("auto", "xla"):
            found = solve(method=method).status
            assert [Status(int(x)) for x in found] == [STATUSES[names[k]][0] for k in own]


def test_messages():
    with pytest.raises(ValueError, match=r"^UNBALANCED: .* The difference is 0\.5\.$"):
        problem_of("unbalanced").solve().raise_for_status()


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_graphs_that_make_no_sense(method):
    for change in ({"col_ind": [0, 1, 5]}, {"row_ptr": [0, 3, 1]}, {"row_ptr": [1, 2, 3]}):
        arrays = {k: jnp.asarray(x, jnp.int32) for k, x in change.items()}
        graph = jm.BipartiteGraph(**(vars(GRAPH) | arrays))
        for options in OPTIONS.values():
            res = jm.solve_sparse_transport(graph, COST, SUPPLY, DEMAND, **options, method=method)
            assert res.status == Status.INVALID_GRAPH and np.isnan(res.cost)
            check = jm.check_sparse_transport(graph, COST, SUPPLY, DEMAND, res, **options)
            assert not (check.valid or check.infeasible)


def test_overflow():
    res = jm.solve_sparse_transport(
        GRAPH, np.array([1, 2, 3]) << 61, np.array([9, 9]), np.array([9, 9])
    )
    assert res.status == Status.OVERFLOW and (res.mass == -1).all() and res.cost == -1


# ---------------------------------------------------------------------------------------------
# Empty graphs


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)])
def test_graphs_without_edges(shape, method):
    graph = jm.BipartiteGraph.from_edges([], [], shape)

    n, m = shape
    for options in ({}, {"partial": 0}, {"unmatched_cost": 2}):
        for mass in (0, 1):
            supply, demand = np.full(n, mass), np.zeros(m, int)
            given = graph, np.zeros(0, int), supply, demand
            res = jm.solve_sparse_transport(*given, **options, method=method)
            check = jm.check_sparse_transport(*given, res, **options)
            stays = bool(options) or not supply.any()
            assert check.valid == stays == (res.status == Status.OPTIMAL)
            if stays:
                assert res.cost == (2 * supply.sum() if "unmatched_cost" in options else 0)


def test_padding_without_rows():
    graph = jm.BipartiteGraph.stack([jm.BipartiteGraph.from_edges([], [], (0, 2))], num_edges=3)
    given = graph, np.full((1, 3), np.nan), np.zeros((1, 0)), np.zeros((1, 2))
    for options in OPTIONS.values():
        options = options | ({"partial": 0.0} if "partial" in options else {})
        res = jm.solve_sparse_transport(*given, **options)
        assert res.status == Status.OPTIMAL and not res.mass.any() and res.mass.shape == (1, 3)
        assert jm.check_sparse_transport(*given, res, **options).optimal


# ---------------------------------------------------------------------------------------------
# Arguments


def test_warm_starts():
    rng = np.random.default_rng(2)
    for kind in KINDS * 5:
        case = random_case(rng, 5, 5, kind)
        cold = case.solve()
        if cold.status != Status.OPTIMAL:
            continue
        for start in (cold, cold.col_dual, cold.replace(mass=9 + cold.mass)):
            res = case.solve(warm_start=start)
            assert res.cost == cold.cost
            assert_certified(case, res)


def test_wrong_arguments():
    solve = jm.solve_sparse_transport
    given = COST, SUPPLY, DEMAND
    for arguments, match in (
        ((COST[:2], SUPPLY, DEMAND), r"`cost` must have shape \[..., 3\]"),
        ((COST, SUPPLY[:1], DEMAND), r"`supply` must have shape \[..., 2\].*each row"),
        ((COST, SUPPLY, DEMAND[:1]), r"`demand` must have shape \[..., 2\].*each column"),
        ((COST, np.ones((2, 2)), np.ones((3, 2))), "batch dimensions of `cost`, `supply`, `dem"),
    ):
        with pytest.raises(ValueError, match=match):
            solve(GRAPH, *arguments)
    with pytest.raises(ValueError, match="exclude each other"):
        solve(GRAPH, *given, partial=1, unmatched_cost=1.0)
    with pytest.raises(ValueError, match=r"`limit` must have shape \[..., 3\]"):
        solve(GRAPH, *given, limit=[1, 2])
    with pytest.raises(ValueError, match="`method` must be one of"):
        solve(GRAPH, *given, method="simplex")
    with pytest.raises(ValueError, match="does not broadcast"):
        solve(GRAPH, *given, unmatched_cost=np.ones(3))
    with pytest.raises(ValueError, match="`warm_start` has a col_dual of shape"):
        solve(GRAPH, *given, warm_start=np.ones(3))
    with pytest.raises(TypeError, match="`unmatched_cost` must be an integer"):
        solve(GRAPH, COST.astype(int), *given[1:], unmatched_cost=0.5)
    with pytest.raises(TypeError, match="`graph` must be a BipartiteGraph"):
        solve(COST, *given)
    with pytest.raises(TypeError, match="`warm_start` must be a SparseTransport"):
        solve(GRAPH, *given, warm_start=jm.solve_transport(np.eye(2), SUPPLY, SUPPLY))


# ---------------------------------------------------------------------------------------------
# The check


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_results(kind):
    """Each field that is changed is found out, in NumPy and in a program."""
    rng = np.random.default_rng(6)
    case = random_case(rng, 4, 4, kind, density=1)
    while by_highs(case) is None:
        case = random_case(rng, 4, 4, kind, density=1)
    res = case.solve()
    edge = int(np.argmax(res.mass))
    changes = {
        "less": res.replace(mass=res.mass - (np.arange(16) == edge)),
        "negative": res.replace(mass=res.mass - 9 * (np.arange(16) == edge)),
        "above": res.replace(mass=res.mass + 99 * (np.arange(16) == edge)),
        "duals": res.replace(col_dual=res.col_dual + 5 * np.arange(4)),
        "row duals": res.replace(row_dual=res.row_dual - 5 * np.arange(4)),
    }
    jitted = jax.jit(lambda res: jm.check_sparse_transport(*case.given, res, **case.options))
    for name, wrong in changes.items():
        check = case.check(wrong)
        assert not check.optimal, name
        assert "duals" in name or kind != "all" or not check.valid
        if name in ("negative", "above"):
            assert not check.valid
        assert not jitted(jax.tree.map(jnp.asarray, wrong)).optimal
