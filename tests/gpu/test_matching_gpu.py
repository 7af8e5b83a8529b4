"""The CUDA kernels for matchings: every option and start, races, batches, and JAX around them."""

import itertools
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from matching_helpers import (
    INITS,
    assert_all_maximum,
    assert_maximum,
    by_igraph,
    by_scipy,
    families,
    permuted,
    random_graph,
    two_stars,
)

import jaxmatch as jm


pytestmark = pytest.mark.gpu

OPTIONS = {
    "push_relabel": {
        "variant": ["first", "active", "shrink"],
        "relabel": ["adaptive", "fixed"],
        "k": [0.3, 7],
    },
    "apsb": {
        "kernel": ["gpubfs", "gpubfs_wr"],
        "threads": ["ct", "mt"],
        "alternate": ["paths", "roots"],
    },
}
OPTIONS["apfb"] = OPTIONS["apsb"]


def every_variant():
    """(method, options), those of auto and none too."""
    found = [("auto", {}), ("init_only", {})]
    for method, values in OPTIONS.items():
        for chosen in itertools.product(*values.values()):
            options = dict(zip(values, chosen, strict=True))
            if (options.get("kernel"), options.get("alternate")) != ("gpubfs", "roots"):
                found.append((method, options))
    return found


VARIANTS = every_variant()
each_variant = pytest.mark.parametrize(
    "method, options", VARIANTS, ids=["-".join(map(str, (m, *o.values()))) for m, o in VARIANTS]
)


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("cuda")[0]):
        yield


@pytest.fixture(scope="module")
def alone():
    """Families of a few hundred vertices a side, and their cardinalities by other code."""
    graphs = families(500)
    return {name: (graph, by_igraph(graph)) for name, graph in graphs.items()}


@pytest.fixture(scope="module")
def stacked():
    graphs = list(families(40).values())
    return jm.BipartiteGraph.stack(graphs), [by_igraph(g) for g in graphs]


def assert_found(graph, expected, method, **given):
    res = jm.maximum_bipartite_matching(graph, method=method, **given)
    check = jm.check_matching(graph, res)
    assert check.valid.all(), given
    if method != "init_only":
        np.testing.assert_array_equal(res.cardinality, expected, err_msg=str(given))
        assert check.optimal.all(), given
    return res


@pytest.mark.parametrize("init", INITS)
@each_variant
def test_families(method, options, init, alone, stacked):
    """One graph by the whole GPU, and all small ones in one call."""
    for graph, expected in alone.values():
        assert_found(graph, expected, method, init=init, options=options)
    batch, expected = stacked
    res = assert_found(batch, expected, method, init=init, options=options)
    if method != "init_only":
        assert_all_maximum(batch, res)


@each_variant
def test_starts(method, options, alone):
    rng = np.random.default_rng(0)
    for name in ("strip", "skewed", "sparse tall", "complete"):
        graph, expected = alone[name]
        start = rng.integers(-2, graph.shape[1] + 2, graph.shape[0])
        assert_found(graph, expected, method, options=options, warm_start=start, init="none")


@pytest.mark.parametrize("rounds", [1, 7])
@each_variant
def test_steps(method, options, rounds, alone, stacked):
    for name in ("ladder", "chain", "sparse", "two stars", "no edges", "nothing"):
        graph, expected = alone[name]
        assert_found(graph, expected, method, options=options, steps_per_call=rounds)
    assert_found(*stacked, method, options=options, steps_per_call=rounds)


@each_variant
def test_races_never_change_the_cardinality(method, options):
    """A hundred runs each, of what many threads fight for."""
    if method == "init_only":
        pytest.skip("an initial matching may be of any size")
    rng = np.random.default_rng(1)
    for graph in (
        random_graph(rng, 3000, 3000, 9000),
        permuted(rng, families(600)["strip"]),
        families(2000)["skewed"],
        families(300)["complete"],
    ):
        expected = by_igraph(graph)
        solve = partial(jm.maximum_bipartite_matching, method=method, options=options)
        runs = [solve(graph) for _ in range(100)]
        found = np.asarray(jnp.stack([res.cardinality for res in runs]))
        np.testing.assert_array_equal(found, expected)
        proved = jnp.stack([jm.check_matching(graph, res).optimal for res in runs])
        assert proved.all()
        assert_maximum(graph, runs[-1])


@pytest.mark.parametrize("method", ["auto", "push_relabel", "apfb"])
def test_many_small_graphs(method):
    """4096 graphs in one call, stacked and under vmap."""
    rng = np.random.default_rng(2)
    graphs = []
    with jax.default_device(jax.devices("cpu")[0]):  # not 16,000 small transfers
        for _ in range(4096):
            n, m = rng.integers(1, 65, 2)
            graphs.append(random_graph(rng, n, m, rng.integers(1, 4 * max(n, m))))
        stacked = jm.BipartiteGraph.stack(graphs)
    batch = jax.device_put(stacked, jax.devices("cuda")[0])
    expected = [by_scipy(g) for g in graphs]
    solve = partial(jm.maximum_bipartite_matching, method=method)
    for res in (solve(batch), jax.jit(jax.vmap(solve))(batch)):
        np.testing.assert_array_equal(res.cardinality, expected)
        assert jm.check_matching(batch, res).optimal.all()


@pytest.mark.parametrize("method", ["auto", "push_relabel", "apsb", "apfb"])
@pytest.mark.parametrize("shape", [(64, 64), (300, 200), (1000, 1200), (20, 5000)], ids=str)
def test_batches_of_every_size(method, shape):
    """Both sides of the limits between one block for a graph and all blocks for it."""
    rng = np.random.default_rng(3)
    graphs = [random_graph(rng, *shape, 2 * max(shape)) for _ in range(9)]
    batch = jm.BipartiteGraph.stack(graphs)
    assert_found(batch, [by_igraph(g) for g in graphs], method)


@pytest.mark.parametrize("method", ["auto", "push_relabel", "apfb"])
def test_a_large_graph(method):
    rng = np.random.default_rng(4)
    for graph in (random_graph(rng, 400_000, 300_000, 1_200_000), two_stars(1 << 20)):
        assert_found(graph, by_igraph(graph), method)


def test_inside_loops(stacked):
    batch, expected = stacked

    def body(state):
        k, last, total = state
        res = jm.maximum_bipartite_matching(batch, warm_start=last)
        return k + 1, res, total + res.cardinality

    empty = jm.Matching.empty((*batch.batch_shape, *batch.shape))
    start = (0, empty, jnp.zeros(len(expected), jnp.int32))
    state = jax.jit(lambda s: lax.while_loop(lambda s: s[0] < 5, body, s))(start)
    np.testing.assert_array_equal(state[2], 5 * np.asarray(expected))


def test_captured_as_a_cuda_graph(stacked):
    batch, expected = stacked

    def chain(start):
        """A start that depends on the last result: each call of the graph sees a new one."""

        def body(_, start):
            res = jm.maximum_bipartite_matching(batch, warm_start=start)
            return jnp.where(res.col4row % 2 == 0, res.col4row, -1)

        start = lax.fori_loop(0, 4, body, start)
        return jm.maximum_bipartite_matching(batch, warm_start=start).cardinality

    options = {
        "xla_gpu_enable_command_buffer": "FUSION,CUSTOM_CALL,CONDITIONAL,WHILE",
        "xla_gpu_graph_min_graph_size": 1,
    }
    captured = jax.jit(chain, compiler_options=options)
    for value in (-1, 0, 3):
        start = jnp.full(batch.row_ptr[..., 1:].shape, value, jnp.int32)
        np.testing.assert_array_equal(captured(start), expected)


def test_several_streams_at_once(alone):
    names = ["ladder", "sparse", "skewed", "two stars", "strip"]
    failures = []

    def run(name):
        graph, expected = alone[name]
        with jax.default_device(jax.devices("cuda")[0]):
            for _ in range(10):
                try:
                    assert_found(graph, expected, "auto")
                except Exception as e:  # noqa: BLE001
                    failures.append((name, e))

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
