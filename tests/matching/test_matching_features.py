"""Warm starts, batches, options, steps, and a matching inside everything that JAX does."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, problem, to_numpy, x64
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from matching_helpers import (
    METHODS,
    assert_all_maximum,
    assert_maximum,
    by_scipy,
    edges_of,
    families,
    from_edges,
    graphs_of,
    random_graph,
)

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


SOME_METHODS = ["auto", "hopcroft_karp", "push_relabel", "xla"]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 21, (12, 2))
    return jm.BipartiteGraph.stack([random_graph(rng, n, m, 2 * max(n, m)) for n, m in sizes])


# ---------------------------------------------------------------------------------------------
# Warm starts


def kept_pairs(graph, start):
    """What is left of a start: pairs that are edges, of several rows with one column the first."""
    edges = set(zip(*(x.tolist() for x in edges_of(graph)), strict=True))
    kept, taken = np.full(graph.shape[0], -1), set()
    for i, j in enumerate(start.tolist()):
        if (i, j) in edges and j not in taken:
            kept[i] = j
            taken.add(j)
    return kept


def garbage(rng, shape, m):
    near = rng.integers(-2, m + 2, shape)
    wild = rng.choice([-(2**31), 2**31 - 1, m, -m, 1 << 20], shape)
    return np.where(rng.random(shape) < 0.2, wild, near).astype(np.int32)


@pytest.mark.parametrize("method", ["init_only", *METHODS])
def test_any_numbers_are_a_start(method, batch):
    rng = np.random.default_rng(1)
    cold = jm.maximum_bipartite_matching(batch)
    for _ in range(4):
        start = garbage(rng, batch.row_ptr[:, 1:].shape, batch.shape[1])
        res = jm.maximum_bipartite_matching(batch, method=method, init="none", warm_start=start)
        if method == "init_only":
            expected = [kept_pairs(*one) for one in zip(graphs_of(batch), start, strict=True)]
            np.testing.assert_array_equal(res.col4row, expected)
            assert jm.check_matching(batch, res).valid.all()
        else:
            np.testing.assert_array_equal(res.cardinality, cold.cardinality)
            assert_all_maximum(batch, res)


@pytest.mark.parametrize("method", SOME_METHODS)
def test_earlier_results_are_a_start(method, batch):
    """Of the same graph, of a part of it, and of another one."""
    solve = partial(jm.maximum_bipartite_matching, method=method)
    cold = solve(batch)
    half = jm.maximum_bipartite_matching(batch, method="init_only", init="cheap")
    other = solve(jax.tree.map(lambda x: x[::-1], batch))
    for start in (cold, half, other, other.col4row, jm.Matching.empty((12, *batch.shape))):
        res = solve(batch, warm_start=start)
        np.testing.assert_array_equal(res.cardinality, cold.cardinality)
        assert_all_maximum(batch, res)
    # What is maximum already is not touched.
    assert_same_bits(solve(batch, warm_start=cold).col4row, cold.col4row)


def test_starts_broadcast_and_are_cast(batch):
    m = batch.shape[1]
    none = partial(jm.maximum_bipartite_matching, batch, method="init_only", init="none")
    row = np.arange(batch.shape[0]) % m
    expected = none(warm_start=np.broadcast_to(row, (12, len(row))).astype(np.int32))
    for dtype in (np.int8, np.int16, np.int32, np.uint32):
        assert_same_bits(none(warm_start=row.astype(dtype)), expected)
    with x64(True):
        wraps = row + (row.astype(np.int64) + 1 << 32)  # the same low 32 bits
        assert (np.asarray(none(warm_start=wraps).col4row) == -1).all()
        assert_same_bits(none(warm_start=row), expected)
    with pytest.raises(ValueError, match=r"`warm_start` has shape \(3,\)"):
        none(warm_start=np.zeros(3, int))
    with pytest.raises(TypeError, match="`warm_start` must be a Matching or .*got float32"):
        none(warm_start=np.zeros(len(row), np.float32))


# ---------------------------------------------------------------------------------------------
# Batches


@pytest.mark.parametrize("method", SOME_METHODS[:-1])
def test_vmap_is_a_batch_is_a_loop(method, batch, platform):
    solve = partial(jm.maximum_bipartite_matching, method=method)
    together = solve(batch)
    same = assert_same_bits if platform == "cpu" and method != "auto" else None
    nested = jax.tree.map(lambda x: x.reshape(3, 4, *x.shape[1:]), batch)
    for res in (
        jax.vmap(solve)(batch),
        jax.jit(jax.vmap(jax.vmap(solve)))(nested),
        jax.vmap(solve)(nested),
    ):
        flat = jax.tree.map(lambda x, like: x.reshape(like.shape), res, together)
        np.testing.assert_array_equal(flat.cardinality, together.cardinality)
        assert_all_maximum(batch, flat)
        if same:
            same(flat, together)
    for k in range(0, 12, 5):
        one = jax.tree.map(lambda x: x[k], batch)  # noqa: B023
        assert int(solve(one).cardinality) == int(together.cardinality[k])
        assert_maximum(problem(to_numpy(batch), k), solve(one))


def test_one_graph_with_many_starts():
    """vmap over the start alone."""
    graph = families(20)["sparse"]
    starts = garbage(np.random.default_rng(2), (6, 20), 20)
    for method in SOME_METHODS:
        solve = partial(jm.maximum_bipartite_matching, graph, method=method)
        res = jax.vmap(lambda s: solve(warm_start=s))(starts)  # noqa: B023
        np.testing.assert_array_equal(res.cardinality, by_scipy(graph))
        for k in range(6):
            assert_maximum(graph, problem(to_numpy(res), k))


@pytest.mark.parametrize("method", SOME_METHODS)
def test_padding_changes_nothing(method):
    graphs = list(families(12).values())
    expected = [by_scipy(g) for g in graphs]
    for sizes in ({}, {"num_rows": 40, "num_cols": 64, "num_edges": 300}):
        batch = jm.BipartiteGraph.stack(graphs, **sizes)
        res = to_numpy(jm.maximum_bipartite_matching(batch, method=method))
        np.testing.assert_array_equal(res.cardinality, expected)
        for k, graph in enumerate(graphs):
            n, m = graph.shape
            for there, cover, size in (
                (res.col4row[k], res.row_cover[k], n),
                (res.row4col[k], res.col_cover[k], m),
            ):
                assert (there[size:] == -1).all() and not cover[size:].any()


# ---------------------------------------------------------------------------------------------
# Arguments


def test_unknown_names_are_refused():
    graph = from_edges([(0, 0)], (1, 1))
    solve = partial(jm.maximum_bipartite_matching, graph)
    refused = [
        ({"method": "magic"}, r"`method` must be one of \['auto', 'hopcroft_karp'.*got 'magic'"),
        ({"init": "greedy"}, r"`init` must be one of \['auto', 'none'.*got 'greedy'"),
        ({"init": ["cheap"]}, r"`init` must be one of"),
        ({"steps_per_call": 0}, r"`steps_per_call` must be an integer from 1 to 10\^9, got 0"),
        ({"options": {"k": 1}}, "method 'auto' takes no options, got 'k'"),
    ]
    for options, message in [
        ({"speed": 1}, r"takes the options \['variant', 'relabel', 'k'\], got 'speed'"),
        ({"kernel": "gpubfs"}, "takes the options .* got 'kernel'"),
        ({"variant": "last"}, r"`options\['variant'\]` must be one of \['first', .*got 'last'"),
        ({"k": 0}, r"`options\['k'\]` must be a positive finite number, got 0"),
        ({"k": float("inf")}, "positive finite"),
        ({"k": "often"}, "positive finite"),
    ]:
        refused.append(({"method": "push_relabel", "options": options}, message))
    roots = {"kernel": "gpubfs", "alternate": "roots"}
    refused.append(({"method": "apsb", "options": roots}, "needs kernel='gpubfs_wr'"))
    for given, message in refused:
        with pytest.raises(ValueError, match=message):
            solve(**given)
    with pytest.raises(TypeError, match="`options` must be a dict, got str"):
        solve(options="shrink")
    with pytest.raises(TypeError, match="`graph` must be a BipartiteGraph, got ndarray"):
        jm.maximum_bipartite_matching(np.eye(3))


OPTIONS = {
    "push_relabel": {
        "variant": ["first", "active", "shrink"],
        "relabel": ["adaptive", "fixed"],
        "k": [0.3, 2],
    },
    "apsb": {"kernel": ["gpubfs_wr"], "threads": ["ct", "mt"], "alternate": ["paths", "roots"]},
    "apfb": {"kernel": ["gpubfs", "gpubfs_wr"], "threads": ["ct", "mt"], "alternate": ["paths"]},
}


@pytest.mark.parametrize("method", OPTIONS)
def test_options_for_gpus_are_accepted_everywhere(method, batch):
    expected = jm.maximum_bipartite_matching(batch).cardinality
    values = OPTIONS[method]
    for chosen in itertools.product(*values.values()):
        options = dict(zip(values, chosen, strict=True))
        res = jm.maximum_bipartite_matching(batch, method=method, options=options)
        np.testing.assert_array_equal(res.cardinality, expected)
        assert jm.check_matching(batch, res).optimal.all()


@pytest.mark.parametrize("method, rounds", [
    ("auto", 1), ("auto", 3), ("push_relabel", 1), ("push_relabel", 3), ("apsb", 2), ("apfb", 1),
    ("init_only", 1), ("xla", 1),
])  # fmt: skip
def test_steps_end_where_one_call_does(method, rounds, batch):
    whole = jm.maximum_bipartite_matching(batch, method=method)
    start = np.zeros(batch.shape[0], int)
    for given in ({}, {"warm_start": start}):
        steps = jm.maximum_bipartite_matching(batch, method=method, steps_per_call=rounds, **given)
        np.testing.assert_array_equal(steps.status, whole.status)
        if method != "init_only":
            np.testing.assert_array_equal(steps.cardinality, whole.cardinality)
            assert_all_maximum(batch, steps)


# ---------------------------------------------------------------------------------------------
# A citizen of JAX


@pytest.mark.parametrize("method", SOME_METHODS)
def test_types_do_not_depend_on_x64(method, batch):
    results = []
    for on in (False, True):
        with x64(on):
            res = jm.maximum_bipartite_matching(batch, method=method)
            check = jm.check_matching(batch, res)
        assert {x.dtype for x in jax.tree.leaves(check)} == {np.dtype(bool)}
        results.append([(x.shape, x.dtype) for x in jax.tree.leaves(res)])
        np.testing.assert_array_equal(res.cardinality, [by_scipy(g) for g in graphs_of(batch)])
    assert results[0] == results[1]
    assert {dtype for _, dtype in results[0]} == {np.dtype("int32"), np.dtype(bool)}


def test_costs_of_the_pairs_have_a_gradient():
    graph = from_edges([(0, 1), (1, 0), (1, 1), (2, 1)], (3, 2))

    def value(cost):
        col4row = jm.maximum_bipartite_matching(graph).col4row
        chosen = jnp.take_along_axis(cost, col4row[:, None].clip(0), 1)[:, 0]
        return jnp.where(col4row >= 0, chosen, 0).sum()

    gradient = jax.jit(jax.grad(value))(jnp.ones((3, 2)))
    assert float(gradient.sum()) == 2 and set(np.unique(gradient)) == {0, 1}


def test_starts_in_a_shard_map(batch, platform):
    """Each device solves its part; the start is split over the devices, or not, or is all that
    is."""
    devices = jax.devices(platform)[:4]
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    over, everywhere = PartitionSpec("batch"), PartitionSpec()
    expected = jm.maximum_bipartite_matching(batch)
    n = batch.shape[0]

    def solve(graph, start):
        return jm.maximum_bipartite_matching(graph, warm_start=start)

    for start, spec in ((np.zeros(n, int), everywhere), (np.zeros((12, n), int), over)):
        sharded = jax.shard_map(solve, mesh=mesh, in_specs=(over, spec), out_specs=over)
        res = jax.jit(sharded)(batch, start)
        assert len(res.status.sharding.device_set) == 4
        np.testing.assert_array_equal(res.cardinality, expected.cardinality)
        assert_all_maximum(batch, res)

    one = jax.tree.map(lambda x: x[3], batch)
    sharded = jax.shard_map(
        jax.vmap(solve, (None, 0)), mesh=mesh, in_specs=(everywhere, over), out_specs=over
    )
    res = jax.jit(sharded)(one, np.zeros((4, n), int))
    np.testing.assert_array_equal(res.cardinality, np.full(4, expected.cardinality[3]))


def test_starts_on_an_explicit_mesh(batch, platform):
    devices = jax.devices(platform)[:4]
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Explicit,), devices=devices)
    expected = jm.maximum_bipartite_matching(batch)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("batch")))
        start = jax.device_put(expected, NamedSharding(mesh, PartitionSpec("batch")))
        warm = jm.maximum_bipartite_matching(sharded, warm_start=start)
        assert jax.typeof(warm.col4row).sharding.spec == PartitionSpec("batch", None)
    np.testing.assert_array_equal(warm.cardinality, expected.cardinality)


def test_wide_numbers_do_not_wrap_around():
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 1], (2, 2))
    start = np.array([2**32, 2**33 + 1])
    res = jm.maximum_bipartite_matching(graph, method="init_only", init="none", warm_start=start)
    assert res.cardinality == 0
    empty = jm.BipartiteGraph.from_edges([], [], (0, 2))
    assert jm.maximum_bipartite_matching(empty, warm_start=[]).cardinality == 0


def test_a_cover_is_boolean():
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 1], (2, 2))
    res = jm.maximum_bipartite_matching(graph)
    with pytest.raises(TypeError, match="row_cover"):
        jm.check_matching(graph, res.replace(row_cover=jnp.array([2, -1])))


@pytest.mark.parametrize("rounds", [0, -1, 2.5, "3"])
def test_steps_are_a_count(rounds):
    graph = jm.BipartiteGraph.from_edges([0, 1], [0, 1], (2, 2))
    with pytest.raises(ValueError, match="steps_per_call"):
        jm.maximum_bipartite_matching(graph, steps_per_call=rounds)
