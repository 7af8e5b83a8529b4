"""Networks whose arrays make no sense: a status, never a hang, and nobody else is touched."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import METHODS, assert_failed
from helpers import to_numpy

import jaxmatch as jm


# Pairs {0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}: ten arcs; edge 4 is a self-loop.
NETWORK = jm.FlowNetwork.from_edges(
    [0, 0, 1, 2, 1, 1, 2, 1], [1, 2, 2, 1, 1, 3, 3, 3], 4, layout="bcsr"
)
CAPACITY = np.array([4, 3, 1, 2, 5, 1, 6, 2], np.int32)
HUGE, TINY = 2**31 - 1, -(2**31)

# What to write where: (field, index, value).
DAMAGE = {
    "arc pointer does not begin at 0": ("arc_ptr", 0, 1),
    "arc pointer begins below 0": ("arc_ptr", 0, -1),
    "arc pointer falls": ("arc_ptr", 2, 1),
    "arc pointer is huge": ("arc_ptr", 2, HUGE),
    "arc pointer is tiny": ("arc_ptr", 3, TINY),
    "last arc pointer beyond the arcs": ("arc_ptr", -1, 11),
    "last arc pointer is negative": ("arc_ptr", -1, -1),
    "arcs of another node": ("arc_ptr", 1, 3),
    "head is n": ("arc_head", 3, 4),
    "head is negative": ("arc_head", 0, -1),
    "head is huge": ("arc_head", 9, HUGE),
    "head is another": ("arc_head", 0, 3),
    "partner beyond the arcs": ("arc_partner", 0, 10),
    "partner is negative": ("arc_partner", 4, -1),
    "partner is huge": ("arc_partner", 4, HUGE),
    "partner is tiny": ("arc_partner", 9, TINY),
    "partner is another": ("arc_partner", 0, 5),
    "partner is itself": ("arc_partner", 2, 2),
    "edge pointer does not begin at 0": ("edge_ptr", 0, 1),
    "edge pointer falls": ("edge_ptr", 3, 0),
    "edge pointer is huge": ("edge_ptr", 5, HUGE),
    "edge pointer is tiny": ("edge_ptr", 5, TINY),
    "last edge pointer beyond the edges": ("edge_ptr", -1, 9),
    "edge is e": ("arc_edge", 0, 8),
    "edge is negative": ("arc_edge", 3, -1),
    "edge is huge": ("arc_edge", 7, HUGE),
    "edge is tiny": ("arc_edge", 7, TINY),
    "edge twice": ("arc_edge", 1, 0),
}

pytestmark = [pytest.mark.usefixtures("platform"), pytest.mark.parametrize("method", METHODS)]


def changed(field, at, value):
    array = np.asarray(getattr(NETWORK, field)).copy()
    array[at] = value
    return jm.FlowNetwork(**(vars(NETWORK) | {field: jnp.asarray(array)}))


def test_every_kind_of_damage(method):
    """In one batch, traced, with a network that is whole after each."""
    networks = [x for name in DAMAGE for x in (changed(*DAMAGE[name]), NETWORK)]
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *networks)
    solve = jax.jit(lambda network, c: jm.maximum_flow(network, c, 0, 3, method=method))
    for dtype in (np.int32, np.float32):
        res = to_numpy(solve(batch, CAPACITY.astype(dtype)))
        names = np.array([*DAMAGE])
        assert set(names[res.status[::2] != jm.Status.INVALID_GRAPH]) == set()
        assert_failed(jax.tree.map(lambda x: x[::2], res), jm.Status.INVALID_GRAPH)
        np.testing.assert_array_equal(res.status[1::2], jm.Status.OPTIMAL)
        np.testing.assert_array_equal(res.value[1::2], 7)
        whole = jax.tree.map(lambda x: x[1::2], res)
        assert jm.check_flow(NETWORK, CAPACITY.astype(dtype), 0, 3, whole).optimal.all()


def test_garbage(method):
    """Random numbers, large and small, everywhere."""
    rng = np.random.default_rng(0)
    count, (n, a, e) = 200, (4, 10, 8)
    batch = {}
    for name, length, top in (
        ("senders", e, n), ("receivers", e, n), ("arc_ptr", n + 1, a), ("arc_head", a, n),
        ("arc_partner", a, a), ("edge_ptr", a + 1, e), ("arc_edge", e, e),
    ):  # fmt: skip
        near = rng.integers(-1, top + 1, (count, length))
        if name.endswith("ptr"):
            near = np.sort(near.clip(0, top - 1), -1)
        wild = rng.integers(TINY, HUGE, (count, length), endpoint=True)
        batch[name] = np.where(rng.random((count, length)) < 0.02, wild, near).astype(np.int32)
    network = jm.FlowNetwork(**{name: jnp.asarray(x) for name, x in batch.items()})
    res = jm.maximum_flow(network, CAPACITY, 0, 3, method=method)
    assert_failed(res, jm.Status.INVALID_GRAPH)
    value = jax.grad(
        lambda c: jm.maximum_flow(network, c, 0, 3, method=method).value.sum(where=False)
    )
    assert not value(CAPACITY.astype(np.float32)).any()


def test_damage_in_one_network_for_all(method):
    for name in ("head is huge", "edge twice", "arc pointer falls"):
        res = jm.maximum_flow(changed(*DAMAGE[name]), np.stack([CAPACITY] * 3), 0, 3, method=method)
        assert_failed(res, jm.Status.INVALID_GRAPH)


def test_arcs_that_are_there_twice(method):
    """Made by hand: what a terminal's arcs bring is counted by arc. Elsewhere it does no harm."""
    arrays = {
        "sink": ([0, 1, 1], [1, 2, 2], [0, 1, 4, 6], [1, 0, 2, 2, 1, 1], [1, 0, 4, 5, 2, 3]),
        "source": ([0, 0, 1], [1, 1, 2], [0, 2, 5, 6], [1, 1, 0, 0, 2, 1], [2, 3, 0, 1, 5, 4]),
        "neither": (
            [0, 1, 1, 2], [1, 2, 2, 3], [0, 1, 4, 7, 8], [1, 0, 2, 2, 1, 1, 3, 2],
            [1, 0, 4, 5, 2, 3, 7, 6],
        ),
    }  # fmt: skip
    for name, (senders, receivers, ptr, head, partner) in arrays.items():
        tail = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        # Each edge has an arc of its own, in their order.
        edge_ptr = np.concatenate([[0], np.cumsum(tail < np.array(head))])
        given = (senders, receivers, ptr, head, partner, edge_ptr, np.arange(len(senders)))
        network = jm.FlowNetwork(*(jnp.asarray(x, jnp.int32) for x in given))
        capacity = np.array([5, 3, 4, 6][: len(senders)])
        res = jm.maximum_flow(network, capacity, 0, len(ptr) - 2, method=method)
        if name == "neither":
            assert res.status == jm.Status.OPTIMAL and res.value == 5
            assert jm.check_flow(network, capacity, 0, len(ptr) - 2, res).optimal
        else:
            assert_failed(jax.tree.map(lambda x: x[None], res), jm.Status.INVALID_GRAPH)
