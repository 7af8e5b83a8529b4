"""Networks of images and volumes, which the CPU solves as grids: the same answers, and sooner."""

import time

import jax
import numpy as np
import pytest
from grid_networks import ENDS, SHAPES, grid_edges, grid_network
from helpers import x64

import jaxmatch as jm


def build(edges, n):
    return jax.tree.map(np.asarray, jm.FlowNetwork.from_edges(*edges, n))


def assert_same(network, capacity, source, sink):
    """Compares with a method that never takes a network for a grid."""
    got = jm.maximum_flow(network, capacity, source, sink)
    want = jm.maximum_flow(network, capacity, source, sink, method="augment")
    assert got.status == want.status
    assert got.value == want.value
    np.testing.assert_array_equal(got.source_side, want.source_side)
    if got.status == jm.Status.OPTIMAL:
        assert jm.check_flow(network, capacity, source, sink, got).optimal
    return got


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", SHAPES)
def test_the_same_as_any_network(name, ends):
    rng = np.random.default_rng(len(name))
    for holes, extra in ((0.0, 0), (0.05, 0), (0.0, 300), (0.2, 300)):
        edges, capacity, n, *terminals = grid_network(rng, *SHAPES[name], ends, holes, extra)
        res = assert_same(build(edges, n), capacity, *terminals)
        assert res.status == jm.Status.OPTIMAL


def test_capacities():
    rng = np.random.default_rng(0)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["image of 4 neighbours"])
    network = build(edges, n)
    is_terminal = (edges[0] == ends[0]) | (edges[1] == ends[1])
    for most in (1, 2**10, 2**21, 2**29, 2**30, 2**31 - 1):
        for where in (is_terminal, ~is_terminal, is_terminal | True):
            large = np.where(where & (rng.random(len(capacity)) < 0.3), most, capacity)
            assert_same(network, large.astype(np.int32), *ends)
    for wrong in range(0, len(capacity), len(capacity) // 9):
        negative = capacity.copy()
        negative[wrong] = -1
        res = assert_same(network, negative, *ends)
        assert res.status == jm.Status.INVALID_CAPACITY


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_dtypes_and_compiled_calls(dtype):
    rng = np.random.default_rng(1)
    edges, capacity, n, source, sink = grid_network(rng, *SHAPES["image of 4 neighbours"])
    network = jm.FlowNetwork.from_edges(*edges, n)
    with x64(True):
        res = jm.maximum_flow(network, capacity.astype(dtype), source, sink)
        in_jit = jax.jit(jm.maximum_flow)(network, capacity.astype(dtype), source, sink)
        assert jm.check_flow(network, capacity.astype(dtype), source, sink, res).optimal
    np.testing.assert_array_equal(res.flow, in_jit.flow)
    np.testing.assert_array_equal(res.source_side, in_jit.source_side)


def test_batches():
    rng = np.random.default_rng(2)
    edges, capacity, n, source, sink = grid_network(rng, *SHAPES["image of 8 neighbours"])
    network = build(edges, n)
    batch = rng.integers(0, 30, (5, len(capacity))).astype(np.int32)
    batch[3, 7] = -1
    res = jm.maximum_flow(network, batch, source, sink)
    for k in range(5):
        one = assert_same(network, batch[k], source, sink)
        assert (res.value[k], res.status[k]) == (one.value, one.status)


@pytest.mark.parametrize("field", ["arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge"])
def test_wrong_arrays(field):
    """Whatever stands in an array, the status is that of methods for any network."""
    rng = np.random.default_rng(3)
    for name in ("image of 4 neighbours", "image of 8 neighbours"):
        edges, capacity, n, *ends = grid_network(rng, *SHAPES[name], "last", 0.0, 20)
        network = build(edges, n)
        right = getattr(network, field)
        statuses = set()
        for _ in range(60):
            wrong = right.copy()
            at = rng.integers(len(wrong), size=rng.integers(1, 3))
            if rng.random() < 0.5:
                wrong[at] += rng.integers(-3, 4, len(at), dtype=np.int32)
            elif rng.random() < 0.5:
                wrong[at] = wrong[at[::-1]]
            else:
                wrong[at] = rng.choice([-(2**31), -1, n, len(right), 2**31 - 1])
            damaged = build_with(network, field, wrong)
            got = jm.maximum_flow(damaged, capacity, *ends)
            want = jm.maximum_flow(damaged, capacity, *ends, method="augment")
            assert got.status == want.status
            assert got.value == want.value
            statuses.add(int(got.status))
        assert int(jm.Status.INVALID_GRAPH) in statuses


def test_an_edge_twice_where_arcs_lead_one_way():
    """The first cells that a thread reads have no arc down, and a later one an edge of others."""
    height, width, cells_of_a_thread = 120, 40, 300
    cells = np.arange(height * width).reshape(height, width)
    source, sink = height * width, height * width + 1
    first = cells_of_a_thread * 5
    down = cells[:-1].ravel(), cells[1:].ravel()
    has_arc = (down[0] < first) | (down[0] >= first + width)
    across = cells[:, :-1].ravel(), cells[:, 1:].ravel()
    even, odd = np.arange(0, cells.size, 2), np.arange(1, cells.size, 2)
    tail = [*across, down[0][has_arc], down[1], np.full(len(even), source), odd]
    head = [*across[::-1], down[1][has_arc], down[0], even, np.full(len(odd), sink)]
    edges = np.concatenate(tail), np.concatenate(head)
    network = build(edges, cells.size + 2)
    capacity = np.random.default_rng(0).integers(1, 30, len(edges[0])).astype(np.int32)
    assert jm.maximum_flow(network, capacity, source, sink).status == jm.Status.OPTIMAL
    tails = np.repeat(np.arange(cells.size + 2), np.diff(network.arc_ptr))
    arc = np.flatnonzero((tails == first + width) & (network.arc_head - tails == width))[0]
    wrong = network.arc_edge.copy()
    wrong[network.edge_ptr[arc]] = 0
    res = jm.maximum_flow(build_with(network, "arc_edge", wrong), capacity, source, sink)
    assert res.status == jm.Status.INVALID_GRAPH


def test_two_pairs_of_arcs_changed_places():
    """Arrays that agree with each other, but with edges at other arcs: still a network."""
    rng = np.random.default_rng(4)
    edges, capacity, n, *ends = grid_network(rng, *SHAPES["image of 4 neighbours"])
    network = build(edges, n)
    swapped = network.arc_edge.copy()
    for _ in range(20):
        i, j = rng.integers(0, len(swapped), 2)
        swapped[[i, j]] = swapped[[j, i]]
    damaged = build_with(network, "arc_edge", swapped)
    got = jm.maximum_flow(damaged, capacity, *ends)
    want = jm.maximum_flow(damaged, capacity, *ends, method="augment")
    assert (got.status, got.value) == (want.status, want.value)
    np.testing.assert_array_equal(got.source_side, want.source_side)


def build_with(network, field, array):
    fields = {f: getattr(network, f) for f in network.__dataclass_fields__}
    return jm.FlowNetwork(**(fields | {field: array}))


def test_hard_grids():
    """Long paths and noise, on which the search for grids gives up or works long."""
    rng = np.random.default_rng(5)
    shape, offsets = SHAPES["image of 4 neighbours"]
    tail, head = grid_edges((4, 3000), offsets)
    cells = 12000
    tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    capacity = rng.integers(1, 1000, len(tail)).astype(np.int32)
    tail, head = np.append(tail, [cells, cells - 1]), np.append(head, [0, cells + 1])
    capacity = np.append(capacity, [10**6, 10**6]).astype(np.int32)
    assert_same(build((tail, head), cells + 2), capacity, cells, cells + 1)
    edges, capacity, n, *ends = grid_network(rng, (60, 60), offsets)
    noise = rng.integers(0, 100, len(capacity)).astype(np.int32)
    assert_same(build(edges, n), noise, *ends)


def test_an_image_is_solved_sooner():
    rng = np.random.default_rng(6)
    edges, capacity, n, *ends = grid_network(rng, (300, 300), SHAPES["image of 4 neighbours"][1])
    network = build(edges, n)
    seconds = {}
    for method in ("auto", "augment") * 7:
        begin = time.perf_counter()
        jm.maximum_flow(network, capacity, *ends, method=method)
        taken = time.perf_counter() - begin
        seconds[method] = min(taken, seconds.get(method, taken))
    assert seconds["auto"] < 0.9 * seconds["augment"]
