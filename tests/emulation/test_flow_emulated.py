"""The kernels for one flow network, emulated on the CPU: all blocks of a grid at once.

Warps take turns in a random order and at random speeds, and every look at shared memory may let
others go first. A warp-wide function that some lanes miss, or a barrier that not everybody reaches,
ends the process. Whatever the order: a maximum flow, and the source side of the source-most cut.
"""

import ctypes
import itertools

import emulated
import flow_hostile
import numpy as np
import pytest

import jaxmatch as jm
from jaxmatch._ffi.call import as_text


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")

_LAYOUTS = ("rcsr", "bcsr", "csr")
_ARRAYS = ["arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge"]
VARIANTS = [("auto", "rcsr", "degree")]
VARIANTS += [("thread_centric", layout, "degree") for layout in _LAYOUTS]
VARIANTS += [("two_level", layout, tile) for layout in _LAYOUTS for tile in ("degree", 8)]
each_variant = pytest.mark.parametrize(
    "variant", VARIANTS, ids=["-".join(map(str, v)) for v in VARIANTS]
)


@pytest.fixture(scope="session")
def library():
    return emulated.library("flow")


def arrays_of(network):
    return [np.array(getattr(network, name)) for name in _ARRAYS]


def solve(library, arrays, capacity, source, sink, *, variant=VARIANTS[0], seed=0, grid=(3, 64),
          budget=0, racing=-1, narrow_value=False, **tuning):  # fmt: skip
    method, layout, tile = variant
    capacity = np.ascontiguousarray(capacity)
    value_type = capacity.dtype.name
    if value_type == "int32" and not narrow_value:
        value_type = "int64"
    n, (e,) = len(arrays[0]) - 1, capacity.shape
    value, flow = np.full(1, 77, value_type), np.full(e, 77, capacity.dtype)
    side, status = np.full(n, 7, np.uint8), np.full(1, -7, np.int32)

    def at(x):
        return ctypes.c_void_p(x.ctypes.data)

    options = as_text({"layout": layout, "tile": tile, "cycle": 0} | tuning)
    integers = (ctypes.c_int(x) for x in (n, len(arrays[1]), e))
    launches = library.emulate_flow(
        *integers, *map(at, (*arrays, capacity)), ctypes.c_int(source), ctypes.c_int(sink),
        *(name.encode() for name in (capacity.dtype.name, value_type, method, options)),
        ctypes.c_int64(budget), ctypes.c_int(racing), ctypes.c_uint(seed), ctypes.c_uint(grid[0]),
        ctypes.c_int(grid[1]), *map(at, (value, flow, side, status)),
    )  # fmt: skip
    assert launches < 10_000
    return value[0], flow, side.astype(bool), int(status[0])


def by_augmenting(tail, head, capacity, n, source, sink):
    """The value and the source side of the source-most cut, in Python's integers."""
    residual = [[0] * n for _ in range(n)]
    for u, v, c in zip(tail.tolist(), head.tolist(), capacity.tolist(), strict=True):
        residual[u][v] += c if u != v else 0
    value = 0
    while True:
        parent = {source: source}
        queue = [source]
        for u in queue:
            for v in range(n):
                if v not in parent and residual[u][v] > 0:
                    parent[v] = u
                    queue.append(v)
        if sink not in parent:
            return value, np.array([v in parent for v in range(n)])
        path, v = [], sink
        while v != source:
            path.append((parent[v], v))
            v = parent[v]
        least = min(residual[u][v] for u, v in path)
        for u, v in path:
            residual[u][v] -= least
            residual[v][u] += least
        value += least


def random_edges(rng, n, e, most):
    """Edges with loops, parallels and both directions; zero capacities; terminals."""
    tail, head = rng.integers(0, n, e), rng.integers(0, n, e)
    capacity = rng.integers(0, most + 1, e) * (rng.random(e) < 0.9)
    source, sink = rng.choice(n, 2, replace=False).tolist()
    return tail, head, capacity, source, sink


def layered_edges(rng, width, length, most):
    """Deep and narrow: each layer is joined to the next, and a little to the one before."""
    layer = np.arange(width * length).reshape(length, width)
    tail = [np.full(width, width * length), np.repeat(layer[:-1].ravel(), 2), layer[-1]]
    head = [layer[0], rng.permuted(np.repeat(layer[1:], 2, axis=1), axis=1).ravel()]
    head.append(np.full(width, width * length + 1))
    back = rng.integers(1, length, width)
    tail.append(layer[back, rng.integers(0, width, width)])
    head.append(layer[back - 1, rng.integers(0, width, width)])
    tail, head = np.concatenate(tail), np.concatenate(head)
    return tail, head, rng.integers(1, most + 1, len(tail)), width * length, width * length + 1


def star_edges(rng, n, most):
    """Nodes of very many arcs, among them the terminals."""
    middle = np.arange(3, n)
    tail = [np.zeros(n - 3, int), middle, np.full(n - 3, 2), middle]
    head = [middle, np.ones(n - 3, int), middle, np.full(n - 3, 2)]
    tail, head = np.concatenate(tail), np.concatenate(head)
    return tail, head, rng.integers(0, most + 1, len(tail)), 0, 1


def assert_maximum(tail, head, capacity, n, source, sink, result):
    value, flow, side, status = result
    assert status == int(jm.Status.OPTIMAL)
    expected, expected_side = by_augmenting(tail, head, capacity, n, source, sink)
    assert value == expected
    np.testing.assert_array_equal(side, expected_side)
    assert np.all(flow >= 0) and np.all(flow <= capacity)
    net = [0] * n
    for u, v, x in zip(tail.tolist(), head.tolist(), flow.tolist(), strict=True):
        net[u] -= int(x)
        net[v] += int(x)
    assert net[sink] == expected == -net[source]
    net[sink] = net[source] = 0
    assert not any(net)


def check(library, edges, n, dtype="int32", **how):
    tail, head, capacity, source, sink = edges
    capacity = capacity.astype(dtype)
    arrays = arrays_of(jm.FlowNetwork.from_edges(tail, head, n, layout="bcsr"))
    result = solve(library, arrays, capacity, source, sink, **how)
    assert_maximum(tail, head, capacity, n, source, sink, result)


def families(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    yield random_edges(rng, n, int(rng.integers(0, 6 * n)), int(rng.choice([1, 10, 1000]))), n
    yield layered_edges(rng, 3, 12, 20), 38
    yield star_edges(rng, 60, 9), 60


@each_variant
@pytest.mark.parametrize("grid", [(3, 64), (1, 64)], ids=["grid", "alone"])
def test_families(library, variant, grid):
    for seed in range(2):
        for edges, n in families(seed):
            check(library, edges, n, variant=variant, seed=seed, grid=grid)


@pytest.mark.parametrize(
    "tuning",
    [
        {"search_alone": 0, "push_alone": 0, "share": 1, "rounds": 1, "scans": 1, "direction": 1},
        {"search_alone": 1024, "push_alone": 1024, "rounds_alone": 4, "gap": 0, "cancel": 1},
        {
            "search_alone": 4,
            "push_alone": 4,
            "share": 2,
            "rounds": 4,
            "thread_arcs": 0,
            "cancel": 0,
        },
        {"push_alone": 2, "share": 2, "hops": 1, "thread_arcs": 1024, "wide": 1, "direction": 2},
    ],
    ids=["together", "one-block", "warps", "threads"],
)
@pytest.mark.parametrize("patience", [1e-9, 3.0])
def test_tuning(library, tuning, patience):
    for seed in range(2):
        for edges, n in families(seed):
            how = {"patience": patience, "grid": (4, 96), "least_push": 0} | tuning
            check(library, edges, n, seed=seed, **how)


@each_variant
@pytest.mark.parametrize("racing", [0, 1])
def test_without_relabels(library, variant, racing):
    """What termination rests on in the end: pushes along distances alone."""
    for edges, n in families(racing):
        check(library, edges, n, variant=variant, racing=racing, cancel=0)


@each_variant
@pytest.mark.parametrize("budget", [1, 3])
def test_steps(library, variant, budget):
    often = {"patience": 1e-9} if variant[0] == "auto" else {"cycle": 4}
    for edges, n in families(budget):
        check(library, edges, n, variant=variant, budget=budget, least_push=0, **often)


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[1], VARIANTS[4]], ids=lambda v: v[0])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_types(library, variant, dtype):
    """Whole numbers, small and huge, are exact in every type."""
    for seed in range(2):
        for edges, n in families(seed):
            check(library, edges, n, dtype, variant=variant, seed=seed)
            factor = 2 ** {"int32": 20, "int64": 50, "float32": 100, "float64": -1060}[dtype]
            tail, head, capacity, source, sink = edges
            result = solve(
                library,
                arrays_of(jm.FlowNetwork.from_edges(tail, head, n, layout="bcsr")),
                (capacity * float(factor)).astype(dtype)
                if dtype.startswith("float")
                else (capacity * factor).astype(dtype),
                source, sink, variant=variant, seed=seed,
            )  # fmt: skip
            exact = [np.asarray(x, object) / factor for x in result[:2]]
            exact = int(exact[0]), exact[1].astype(np.int64)
            assert_maximum(tail, head, capacity, n, source, sink, (*exact, *result[2:]))


def network_of(edges, n):
    tail, head = np.array(edges)[:, :2].T
    return arrays_of(jm.FlowNetwork.from_edges(tail, head, n, layout="bcsr"))


def test_rounded_floats(library):
    """Capacities without a common unit: conserved to a part of 2^60, the value is the cut's."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        tail, head, _, source, sink = random_edges(rng, 20, 100, 1)
        capacity = np.exp(rng.normal(0, 40, 100))
        arrays = arrays_of(jm.FlowNetwork.from_edges(tail, head, 20, layout="bcsr"))
        value, flow, side, status = solve(library, arrays, capacity, source, sink)
        assert status == int(jm.Status.OPTIMAL)
        assert np.all(flow >= 0) and np.all(flow <= capacity)
        np.testing.assert_allclose(value, capacity[side[tail] & ~side[head]].sum(), rtol=1e-12)
        net = np.bincount(head, flow, 20) - np.bincount(tail, flow, 20)
        net[source] += value
        net[sink] -= value
        bound = min(capacity[tail == source].sum(), capacity[head == sink].sum())
        assert np.abs(net).max() <= 1e-15 * (bound + 20 * flow.max())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_hostile_capacities(library, dtype):
    """Both ends of the range, infinities, and sums that do not fit."""
    rng = np.random.default_rng(1)
    for seed in range(16):
        n, e = ((4, 6), (6, 14))[seed % 2]
        tail, head = flow_hostile.hostile_edges(rng, n, e)
        capacity = flow_hostile.hostile_capacity(rng, e, dtype)
        arrays = arrays_of(jm.FlowNetwork.from_edges(tail, head, n, layout="bcsr"))
        variant = VARIANTS[seed % len(VARIANTS)]
        result = solve(library, arrays, capacity, 0, n - 1, variant=variant, seed=seed)
        value, flow, side, status = result
        if value == np.inf:  # which side that is, Python says
            side = np.arange(n) == 0
        flow_hostile.assert_right(value, flow, side, status, (tail, head, capacity), n)


def test_infinite_capacities(library):
    inf = np.inf
    arrays = network_of([(0, 1), (1, 2), (2, 3), (1, 3)], 4)
    for capacity, expected in [
        ([inf, 5.0, inf, inf], inf),
        ([inf, 5.0, inf, 2.0], 7.0),
        ([3.0, 5.0, inf, 2.0], 3.0),
        ([inf, inf, inf, 0.0], inf),
        ([0.0, inf, inf, inf], 0.0),
    ]:
        for dtype in ("float32", "float64"):
            value, flow, _, status = solve(library, arrays, np.array(capacity, dtype), 0, 3)
            assert (status, value) == (int(jm.Status.OPTIMAL), expected)
            assert np.isnan(flow).all() if expected == inf else flow[0] == expected


def test_cut_is_the_source_most(library):
    """Also where an arc holds more than any flow can be."""
    arrays = network_of([(0, 1), (1, 2)], 3)
    for capacity in ([100, 3], [3, 100], [3, 3]):
        _, _, side, _ = solve(library, arrays, np.array(capacity, np.int32), 0, 2)
        assert side.tolist() == [True, capacity[0] > 3, False]


def test_overflow(library):
    arrays = network_of([(0, 1), (0, 1), (1, 2), (1, 2)], 3)
    big = np.full(4, 2**31 - 1, np.int32)
    assert solve(library, arrays, big, 0, 2)[::3] == (2**32 - 2, int(jm.Status.OPTIMAL))
    assert solve(library, arrays, big, 0, 2, narrow_value=True)[3] == int(jm.Status.OVERFLOW)
    huge = np.full(4, 2**63 - 1, np.int64)
    value, flow, side, status = solve(library, arrays, huge, 0, 2)
    assert (value, status) == (-1, int(jm.Status.OVERFLOW))
    assert (flow == -1).all() and not side.any()
    largest = np.full(4, float(np.finfo(np.float32).max))
    assert solve(library, arrays, largest.astype(np.float32), 0, 2)[3] == int(jm.Status.OVERFLOW)
    assert solve(library, arrays, largest, 0, 2)[::3] == (2 * largest[0], int(jm.Status.OPTIMAL))
    one = np.array([2**63 - 1, 2**63 - 1, 7, 2**60], np.int64)
    assert solve(library, arrays, one, 0, 2)[::3] == (2**60 + 7, int(jm.Status.OPTIMAL))


@each_variant
def test_invalid(library, variant):
    rng = np.random.default_rng(3)
    tail, head, capacity, source, sink = random_edges(rng, 12, 40, 9)
    arrays = arrays_of(jm.FlowNetwork.from_edges(tail, head, 12, layout="bcsr"))
    capacity = capacity.astype(np.float32)

    def status(capacity=capacity, source=source, sink=sink, arrays=arrays):
        value, flow, side, status = solve(library, arrays, capacity, source, sink, variant=variant)
        if status != int(jm.Status.OPTIMAL):
            assert np.isnan(value) and np.isnan(flow).all() and not side.any()
        return status

    assert status() == int(jm.Status.OPTIMAL)
    for terminals in [(source, source), (-1, sink), (source, 12), (2**31 - 1, -(2**31))]:
        assert status(source=terminals[0], sink=terminals[1]) == int(jm.Status.INVALID_GRAPH)
    for bad in (np.nan, -1.0, -np.inf):
        wrong = capacity.copy()
        wrong[17] = bad
        assert status(capacity=wrong) == int(jm.Status.INVALID_CAPACITY)
    for which in range(5):
        for _ in range(8):
            wrong = [x.copy() for x in arrays]
            at = rng.integers(0, len(wrong[which]))
            wrong[which][at] = rng.choice([-1, 0, 1, 5, 13, 2**31 - 1, -(2**31), wrong[which][at]])
            given = status(arrays=wrong)
            same = np.array_equal(wrong[which], arrays[which])
            assert given == int(jm.Status.OPTIMAL) if same else True
            if given == int(jm.Status.OPTIMAL):
                assert which > 2 or same  # edges may belong to other arcs


def test_small_networks(library):
    """Without edges or arcs, and no nodes at all."""
    empty = np.zeros(0, np.int32)
    for n in (0, 1, 2, 3):
        arrays = [np.zeros(n + 1, np.int32), empty, empty, np.zeros(1, np.int32), empty]
        value, _, side, status = solve(library, arrays, empty, 0, 1)
        if n < 2:
            assert (value, status) == (-1, int(jm.Status.INVALID_GRAPH))
        else:
            assert (value, status) == (0, int(jm.Status.OPTIMAL))
            assert side.tolist() == [True] + [False] * (n - 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_numbers_that_stand_for_no_limit(library, dtype):
    """On any edges of a path, which begins again in finer units, in one launch or several."""
    arrays = network_of([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    capacity = np.array([10, 7, 3, 5], dtype)
    of_integers = {"int32": (2**30, 2**31 - 1), "int64": (2**62, 2**63 - 1)}
    for large in of_integers.get(dtype, (1e13, 2.0**63, 1e30)):
        for at in itertools.product([False, True], repeat=4):
            if all(at):
                continue
            given = np.where(at, np.dtype(dtype).type(large), capacity)
            least = capacity[~np.array(at)].min()
            for budget in (0, 2):
                value, flow, _, status = solve(library, arrays, given, 0, 4, budget=budget)
                assert (value, status) == (least, int(jm.Status.OPTIMAL))
                assert (flow == least).all()
