"""Graphs whose arrays make no sense: a status, never a hang, and nobody else is touched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import problem, to_numpy
from matching_helpers import METHODS, assert_invalid, assert_maximum, by_scipy, from_edges

import jaxmatch as jm


GRAPH = from_edges([(0, 0), (0, 2), (1, 1), (2, 0), (2, 3), (3, 3)], (4, 5))
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
    "fewer edges by row": ("row_ptr", slice(3, 5), (5, 5)),
    "fewer edges by column": ("col_ptr", slice(4, 6), (5, 5)),
    "column pointer does not begin at 0": ("col_ptr", 0, 2),
    "column pointer falls": ("col_ptr", 3, 1),
    "column pointer is negative": ("col_ptr", 1, -1),
    "last column pointer beyond the edges": ("col_ptr", -1, 8),
    "last column pointer is huge": ("col_ptr", -1, HUGE),
    "column pointers all huge": ("col_ptr", slice(1, 6), HUGE),
    "column index is m": ("col_ind", 3, 5),
    "column index is negative": ("col_ind", 0, -1),
    "column index is huge": ("col_ind", 5, HUGE),
    "column index is tiny": ("col_ind", 5, TINY),
    "row index is n": ("row_ind", 1, 4),
    "row index is negative": ("row_ind", 5, -1),
    "row index is huge": ("row_ind", 2, HUGE),
}

pytestmark = [
    pytest.mark.usefixtures("platform"),
    pytest.mark.parametrize("method", [*METHODS, "init_only"]),
]


def damaged(name):
    field, at, value = DAMAGE[name]
    array = np.asarray(getattr(GRAPH, field)).copy()
    array[at] = value
    return jm.BipartiteGraph(**(vars(GRAPH) | {field: jnp.asarray(array)}))


def test_every_kind_of_damage(method):
    """In one batch, traced, with a graph that is whole after each."""
    graphs = [x for name in DAMAGE for x in (damaged(name), GRAPH)]
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *graphs)
    res = jax.jit(lambda g: jm.maximum_bipartite_matching(g, method=method))(batch)
    check = to_numpy(jm.check_matching(batch, res))
    assert_invalid(jax.tree.map(lambda x: x[::2], res))
    assert not check.valid[::2].any() and not check.optimal[::2].any()
    assert check.valid[1::2].all()
    if method != "init_only":
        assert check.optimal[1::2].all()
        for k in range(1, len(graphs), 2):
            assert_maximum(GRAPH, problem(to_numpy(res), k))


@pytest.mark.parametrize("name", ["row pointer is huge", "column index is huge"])
def test_alone_and_with_a_start(method, name):
    start = np.array([0, 1, 3, -1])
    res = jm.maximum_bipartite_matching(damaged(name), method=method, warm_start=start)
    assert_invalid(res)


def test_garbage(method):
    """Random numbers, large and small, everywhere."""
    rng = np.random.default_rng(0)
    count, (n, m), e = 200, GRAPH.shape, GRAPH.max_edges
    batch = {}
    for name, length, top in (
        ("row_ptr", n + 1, e), ("col_ind", e, m - 1), ("col_ptr", m + 1, e), ("row_ind", e, n - 1),
    ):  # fmt: skip
        near = rng.integers(-2, top + 3, (count, length))
        wild = rng.integers(TINY, HUGE, (count, length), endpoint=True)
        batch[name] = np.where(rng.random((count, length)) < 0.1, wild, near).astype(np.int32)
    sizes = {"num_rows": np.full(count, n, np.int32), "num_cols": np.full(count, m, np.int32)}
    graph = jm.BipartiteGraph(**{k: jnp.asarray(x) for k, x in (batch | sizes).items()})
    start = rng.integers(TINY, HUGE, (count, n), dtype=np.int32)
    assert_invalid(jm.maximum_bipartite_matching(graph, method=method, warm_start=start))


def test_sides_without_vertices(method):
    """No rows, yet edges by column."""
    no_rows = jm.BipartiteGraph(
        row_ptr=jnp.zeros(1, jnp.int32),
        col_ind=jnp.zeros(2, jnp.int32),
        col_ptr=jnp.array([0, 1, 2], jnp.int32),
        row_ind=jnp.zeros(2, jnp.int32),
        num_rows=jnp.int32(0),
        num_cols=jnp.int32(2),
    )
    assert_invalid(jm.maximum_bipartite_matching(no_rows, method=method))
    assert not jm.check_matching(no_rows, jm.Matching.empty((0, 2))).valid


def test_directions_that_differ(method):
    """Both make sense, but they are two graphs: whatever comes, comes, and fits the arrays."""
    rng = np.random.default_rng(1)
    graphs = []
    for _ in range(60):
        one, other = (
            from_edges(rng.permutation(64)[:20, None] // (8, 1) % 8, (8, 8)) for _ in range(2)
        )
        graphs.append(
            jm.BipartiteGraph(
                one.row_ptr, one.col_ind, other.col_ptr, other.row_ind, one.num_rows, one.num_cols
            )
        )
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *graphs)
    res = to_numpy(jm.maximum_bipartite_matching(batch, method=method))
    assert np.isin(res.status, [*jm.Status]).all()
    for x in (res.col4row, res.row4col):
        assert x.min() >= -1 and x.max() < 8


def test_padding_may_be_anything(method):
    """Entries beyond the last pointer are not looked at."""
    padded = jm.BipartiteGraph.stack([GRAPH], num_edges=12)
    junk = np.array([HUGE, TINY, -1, 5, 99, 0], np.int32)
    padded = jm.BipartiteGraph(
        **(
            vars(padded)
            | {
                "col_ind": padded.col_ind.at[0, 6:].set(junk),
                "row_ind": padded.row_ind.at[0, 6:].set(junk),
            }
        )
    )
    res = jm.maximum_bipartite_matching(padded, method=method)
    assert jm.check_matching(padded, res).valid.all()
    if method != "init_only":
        assert int(res.cardinality[0]) == by_scipy(GRAPH)
        assert_maximum(GRAPH, problem(to_numpy(res), 0))
