"""What is kept of a network of JAX arrays that was solved several times, and that it is never
stale."""

import dataclasses
import gc

import jax
import numpy as np
import pytest
from grid_networks import ENDS, SHAPES, grid_edges, grid_network
from helpers import to_numpy

import jaxmatch as jm
from jaxmatch._common import place
from jaxmatch._ffi.host_call import recorded_calls
from jaxmatch._flow import stencil


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs native code")


def solve(network, capacity, source, sink, **how):
    """The result, and whether the kept form has given it."""
    with recorded_calls() as calls:
        res = jm.maximum_flow(network, capacity, source, sink, **how)
    return to_numpy(res), [plan.target for plan, *_ in calls] == ["jaxmatch_stencil_flow"]


def solve_often(network, capacity, source, sink):
    for _ in range(stencil._CALLS_BEFORE):
        solve(network, capacity, source, sink)


def assert_right(res, network, capacity, source, sink, checks=True):
    want = jm.maximum_flow(network, capacity, source, sink, method="augment")
    assert (res.status, res.value) == (want.status, want.value)
    np.testing.assert_array_equal(res.source_side, want.source_side)
    if want.status == jm.Status.OPTIMAL and checks:
        assert jm.check_flow(network, capacity, source, sink, res).optimal


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", SHAPES)
def test_kept_form(name, ends):
    rng = np.random.default_rng(len(name))
    for holes in (0.0, 0.1):
        edges, capacity, n, *terminals = grid_network(rng, *SHAPES[name], ends, holes)
        network = jm.FlowNetwork.from_edges(*edges, n)
        solve_often(network, capacity, *terminals)
        for _ in range(3):
            capacity = rng.integers(0, 30, len(capacity)).astype(np.int32)
            res, is_kept = solve(network, capacity, *terminals)
            assert is_kept
            assert_right(res, network, capacity, *terminals)
            anew = jm.maximum_flow(jax.tree.map(np.asarray, network), capacity, *terminals)
            np.testing.assert_array_equal(res.flow, anew.flow)
            assert_right(*[solve(network, jax.numpy.asarray(capacity), *terminals)[0]],
                         network, capacity, *terminals)  # fmt: skip


def test_a_known_network_is_never_compiled(monkeypatch):
    """A program would check the network in each call."""
    monkeypatch.setattr(place, "CALLS_BEFORE_COMPILATION", 2 * stencil._CALLS_BEFORE)
    edges, capacity, n, *ends = grid_network(
        np.random.default_rng(1), *SHAPES["image of 4 neighbours"]
    )
    network = jm.FlowNetwork.from_edges(*edges, n)
    capacity = jax.numpy.asarray(capacity)
    solve_often(network, capacity, *ends)
    assert all(solve(network, capacity, *ends)[1] for _ in range(3 * stencil._CALLS_BEFORE))


def test_other_problems_of_the_network():
    rng = np.random.default_rng(0)
    edges, capacity, n, source, sink = grid_network(rng, *SHAPES["image of 4 neighbours"])
    network = jm.FlowNetwork.from_edges(*edges, n)
    solve_often(network, capacity, source, sink)
    batch = np.stack([capacity, capacity[::-1]])
    other = jm.FlowNetwork.from_edges(*edges[::-1], n)
    changed = dataclasses.replace(network, arc_edge=network.arc_edge[::-1])
    for arguments, is_kept in [
        ((network, capacity, source, sink), True),
        ((network, capacity, sink, source), False),
        ((network, capacity, source, 7), False),
        ((network, capacity, source, source), False),
        ((network, capacity, np.int64(source), sink), True),
        ((network, capacity.astype(np.int64), source, sink), False),
        ((network, capacity.astype(np.float32), source, sink), False),
        ((network, batch, source, sink), False),
        ((other, capacity, source, sink), False),
        ((changed, capacity, source, sink), False),
        ((network, capacity, source, sink), True),
    ]:
        res, was_kept = solve(*arguments)
        assert was_kept == is_kept, arguments
        if np.ndim(res.value) == 0:
            # The arcs of `changed` do not belong to its senders, which a check reads.
            assert_right(res, *arguments, checks=arguments[0] is not changed)
    assert not solve(network, capacity, source, sink, method="pseudoflow")[1]


def test_another_array_in_the_same_object():
    rng = np.random.default_rng(1)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["volume"])
    network = jm.FlowNetwork.from_edges(*edges, n)
    solve_often(network, capacity, *ends)
    assert solve(network, capacity, *ends)[1]
    order = np.asarray(network.arc_edge).copy()
    order[[3, 500]] = order[[500, 3]]
    object.__setattr__(network, "arc_edge", jax.numpy.asarray(order))
    res, is_kept = solve(network, capacity, *ends)
    assert not is_kept
    want = jm.maximum_flow(network, capacity, *ends, method="augment")
    assert (res.status, res.value) == (want.status, want.value)


def test_a_deleted_network_is_an_error():
    rng = np.random.default_rng(2)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["volume"])
    network = jm.FlowNetwork.from_edges(*edges, n)
    solve_often(network, capacity, *ends)
    network.arc_head.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jm.maximum_flow(network, capacity, *ends)


def test_arrays_that_may_change_are_not_kept():
    rng = np.random.default_rng(3)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["volume"])
    network = jax.tree.map(np.array, jm.FlowNetwork.from_edges(*edges, n))
    solve_often(network, capacity, *ends)
    assert not solve(network, capacity, *ends)[1]
    network.arc_partner[5] = -1
    assert solve(network, capacity, *ends)[0].status == jm.Status.INVALID_GRAPH


def test_nothing_is_kept_of_a_network_that_is_gone():
    rng = np.random.default_rng(4)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["chain"])
    network = jm.FlowNetwork.from_edges(*edges, n)
    solve_often(network, capacity, *ends)
    assert network in stencil._known
    count = len(stencil._known)
    del network
    gc.collect()
    assert len(stencil._known) < count


def test_capacities_that_the_form_does_not_take():
    rng = np.random.default_rng(5)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["image of 8 neighbours"])
    loops = np.array([[3, ends[1]], [3, 5]])  # a self-loop, and an edge out of the sink
    edges = [np.concatenate([x, more]) for x, more in zip(edges, loops, strict=True)]
    capacity = np.append(capacity, [1, 2]).astype(np.int32)
    network = jm.FlowNetwork.from_edges(*edges, n)
    for at, wrong in ((0, -1), (-1, -1), (-2, -5), (70, 2**31 - 1)):
        solve_often(network, capacity, *ends)
        other = capacity.copy()
        other[at] = wrong
        assert_right(solve(network, other, *ends)[0], network, other, *ends)
    is_terminal = (edges[0] == ends[0]) | (edges[1] == ends[1])
    large = np.where(is_terminal, 2**30, capacity).astype(np.int32)
    assert_right(solve(network, large, *ends)[0], network, large, *ends)


def test_networks_without_a_form():
    rng = np.random.default_rng(6)
    shape, offsets = SHAPES["image of 4 neighbours"]
    for extra in (300, 0):
        edges, capacity, n, *ends = grid_network(rng, shape, offsets, extra=extra)
        if not extra:  # an edge to a cell far away, of another distance than all others each
            far = np.array([[1, 2, 3], [400, 403, 410]])
            edges = [np.concatenate([x, more]) for x, more in zip(edges, far, strict=True)]
            capacity = np.append(capacity, [1, 2, 3]).astype(np.int32)
        network = jm.FlowNetwork.from_edges(*edges, n)
        solve_often(network, capacity, *ends)
        res, is_kept = solve(network, capacity, *ends)
        assert not is_kept
        assert_right(res, network, capacity, *ends)


def test_a_hard_grid():
    """The search gives up, and the form is not tried again at once."""
    rng = np.random.default_rng(7)
    tail, head = grid_edges((2, 20000), SHAPES["image of 4 neighbours"][1])
    tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    capacity = rng.integers(1, 1000, len(tail)).astype(np.int32)
    cells = 40000
    tail, head = np.append(tail, [cells, cells - 1]), np.append(head, [0, cells + 1])
    capacity = np.append(capacity, [10**6, 10**6]).astype(np.int32)
    network = jm.FlowNetwork.from_edges(tail, head, cells + 2)
    solve_often(network, capacity, cells, cells + 1)
    res, _ = solve(network, capacity, cells, cells + 1)
    assert_right(res, network, capacity, cells, cells + 1)
