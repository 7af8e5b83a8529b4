"""The native flow methods: networks of known value, hard families, wide and narrow sums."""

from functools import cache

import jax
import numpy as np
import pytest
from flow_helpers import by_ortools, side_by_scipy
from helpers import to_numpy, x64

import jaxmatch as jm


# On each platform what differs there.
SOLVERS = [("cpu", method) for method in ("auto", "augment", "pseudoflow")]
SOLVERS += [("cuda", method) for method in ("auto", "thread_centric", "two_level")]

KNOWN = {
    "camera_512": 30298,
    "china_640x427_rgb": 89914,
    "coins": 60797,
    "mni_t1_3mm": 60262,
    "snap_NotreDame_www_20pairs": 35,
    "snap_email-Enron_20pairs": 86,
    "snap_pgp-strong-2009_20pairs": 29,
}


@pytest.fixture(
    params=[pytest.param(x, marks=[pytest.mark.gpu] * (x[0] == "cuda")) for x in SOLVERS],
    ids="-".join,
)
def method(request):
    platform, method = request.param
    with jax.default_device(jax.devices(platform)[0]):
        yield method


def assert_maximum(network, capacity, source, sink, value, **given):
    """One problem of integers: conservation, the cut, and all that `check_flow` asks for."""
    res = to_numpy(jm.maximum_flow(network, capacity, source, sink, **given))
    assert res.status == jm.Status.OPTIMAL and res.value == value, given
    flow = res.flow.astype(np.int64)
    assert (flow >= 0).all() and (flow <= capacity).all()
    senders, receivers = np.asarray(network.senders), np.asarray(network.receivers)
    net = np.zeros(network.num_nodes, np.int64)
    np.add.at(net, senders, flow)
    np.add.at(net, receivers, -flow)
    assert net[source] == value == -net[sink]
    assert np.count_nonzero(net) == (2 if value else 0)
    side = res.source_side
    assert side[source] and not side[sink]
    assert capacity[side[senders] & ~side[receivers]].sum(dtype=np.int64) == value
    return res


# ---------------------------------------------------------------------------------------------
# Known values


@pytest.mark.parametrize("name", KNOWN)
def test_known(name, method, data_dir):
    path = data_dir / "flow" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with np.load(path) as file:
        n, source, sink = (int(file[x]) for x in ("n", "source", "sink"))
        network = jm.FlowNetwork.from_edges(file["src"], file["dst"], n)
        capacity = np.asarray(file["cap"], np.int32)
    res = assert_maximum(network, capacity, source, sink, KNOWN[name], method=method)
    assert jm.check_flow(network, capacity, source, sink, res).optimal


def grid_edges(side):
    """Joins of a square grid to the right, to the left, down and up, in this order."""
    at = np.arange(side * side).reshape(side, side)
    right = at[:, :-1].ravel(), at[:, 1:].ravel()
    down = at[:-1].ravel(), at[1:].ravel()
    return right, right[::-1], down, down[::-1]


def test_batch_of_images(method, data_dir):
    path = data_dir / "flow" / "batch_lfw_200x25x25.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    with np.load(path) as file:
        us, ut, wx, wy = (file[x].reshape(200, -1) for x in ("us", "ut", "wx", "wy"))
        optimum = file["optimum"]
    pixels = np.arange(625)
    joins = (*grid_edges(25), (0 * pixels + 625, pixels), (pixels, 0 * pixels + 626))
    senders, receivers = (np.concatenate(x) for x in zip(*joins, strict=True))
    network = jm.FlowNetwork.from_edges(senders, receivers, 627)
    capacity = np.concatenate([wx, wx, wy, wy, us, ut], 1).astype(np.int32)
    for dtype in (np.int32, np.float32):
        res = to_numpy(jm.maximum_flow(network, capacity.astype(dtype), 625, 626, method=method))
        np.testing.assert_array_equal(res.value, optimum)


# ---------------------------------------------------------------------------------------------
# Families


def random_levels(rng, rows, cols):
    """Washington's random level graph: three edges from each node to the next column."""
    at = np.arange(rows * (cols - 1))
    tails = np.repeat(at, 3)
    heads = (tails // rows + 1) * rows + rng.integers(0, rows, len(tails))
    first, source, sink = np.arange(rows), rows * cols, rows * cols + 1
    senders = np.concatenate([tails, 0 * first + source, first + rows * (cols - 1)])
    receivers = np.concatenate([heads, first, 0 * first + sink])
    capacity = np.concatenate([rng.integers(1, 100, len(tails)), np.full(2 * rows, 300)])
    return sink + 1, senders, receivers, capacity, source, sink


def frames(rng, a, b):
    """Goldfarb and Grigoriadis' network: b square frames, each joined to the next at random."""
    inner = [np.concatenate(x) for x in zip(*grid_edges(a), strict=True)]
    shift = a * a * np.arange(b)[:, None]
    matched = [(shift[:-1] + np.arange(a * a)).ravel()]
    matched += [np.concatenate([rng.permutation(a * a) + k * a * a for k in range(1, b)])]
    senders, receivers = (
        np.concatenate([(x + shift).ravel(), y]) for x, y in zip(inner, matched, strict=True)
    )
    capacity = np.full(len(senders), 50 * a * a)
    capacity[len(inner[0]) * b :] = rng.integers(1, 50, len(matched[0]))
    return a * a * b, senders, receivers, capacity, 0, a * a * b - 1


def image(rng, side):
    """A noisy grid, both terminals joined to each cell, cycles of flow on the way."""
    cells = np.arange(side * side)
    joins = [*grid_edges(side), (0 * cells + side * side, cells), (cells, 0 * cells + side**2 + 1)]
    senders, receivers = (np.concatenate(x) for x in zip(*joins, strict=True))
    capacity = rng.integers(0, 30, len(senders))
    return side * side + 2, senders, receivers, capacity, side * side, side * side + 1


def unit_matching(rng, n):
    rows, cols = rng.integers(0, n, (2, 3 * n))
    at = np.arange(n)
    senders = np.concatenate([rows, 0 * at + 2 * n, at + n])
    receivers = np.concatenate([cols + n, at, 0 * at + 2 * n + 1])
    return 2 * n + 2, senders, receivers, np.ones(len(senders), int), 2 * n, 2 * n + 1


def tangle(rng, n):
    """Any edges at all: both ways, twice, onto themselves, out of the sink, into the source."""
    senders, receivers = rng.integers(0, n, (2, 4 * n))
    return n, senders, receivers, rng.integers(0, 20, 4 * n), 0, n // 2


def star(rng, n):
    """All through one node, of as many edges as there are."""
    leaf = np.arange(n)
    senders = np.concatenate([0 * leaf, leaf + 3, 0 * leaf + 1, leaf + 3])
    receivers = np.concatenate([leaf + 3, 0 * leaf + 1, leaf + 3, 0 * leaf + 2])
    return n + 3, senders, receivers, rng.integers(0, 9, 4 * n), 0, 2


def dead_ends(rng, n):
    """A path with a long way back: much excess returns through nodes it has come by."""
    at = np.arange(n - 1)
    senders = np.concatenate([at, at, at + 1])
    receivers = np.concatenate([at + 1, at + 1, at])
    capacity = np.concatenate([np.linspace(9 * n, 1, n - 1).astype(int), 0 * at, 0 * at + 7])
    return n, senders, receivers, capacity, 0, n - 1


FAMILIES = {
    "random levels": (random_levels, 16, 24),
    "long random levels": (random_levels, 4, 300),
    "wide random levels": (random_levels, 120, 4),
    "frames": (frames, 8, 6),
    "long frames": (frames, 3, 60),
    "image": (image, 24),
    "unit matching": (unit_matching, 300),
    "tangle": (tangle, 200),
    "star": (star, 400),
    "dead ends": (dead_ends, 500),
}

# What capacities are multiplied with, so that sums need 32 bits, 64, or more than there are: then
# the terminals stay in the network.
SCALES = {"narrow": 1, "wide": 2**31, "terminals": 0}


@cache
def family(name):
    """A network, its capacities and terminals, and its maximum and minimal cut by other code."""
    make, *size = FAMILIES[name]
    n, senders, receivers, capacity, *ends = make(np.random.default_rng(len(name)), *size)
    network = jm.FlowNetwork.from_edges(senders, receivers, n)
    value = by_ortools(n, senders, receivers, capacity, *ends)
    return network, capacity, *ends, value, side_by_scipy(n, senders, receivers, capacity, *ends)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name, method, scale):
    network, capacity, source, sink, value, side = family(name)
    with x64(True):
        if scale == "terminals":
            # Beside an edge without end at either side, the other one's sum is what bounds flows.
            senders, receivers = np.asarray(network.senders), np.asarray(network.receivers)
            bound = int(capacity[receivers == sink].sum()) + 1
            factor = (2**61 - 2**40) // max(bound, int(capacity.max()))
            huge = np.where(senders == source, 2**62, capacity * factor)
            unlimited = np.where(senders == source, 2**31, capacity)
            at_most = by_ortools(network.num_nodes, senders, receivers, unlimited, source, sink)
            assert_maximum(network, huge, source, sink, at_most * factor, method=method)
            return
        factor = SCALES[scale]
        res = assert_maximum(
            network, capacity * factor, source, sink, value * factor, method=method
        )
        real = jm.maximum_flow(network, 0.375 * capacity, source, sink, method=method)
        assert real.value == 0.375 * value
        np.testing.assert_array_equal(res.source_side, side)  # the same for all methods
        np.testing.assert_array_equal(real.source_side, side)


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["auto", "thread_centric", "two_level"])
@pytest.mark.parametrize("name", ["random levels", "image", "tangle"])
def test_racing_kernels_agree_with_themselves(name, solver):
    """Threads race in each of a hundred solves; flows may differ, value and cut do not."""
    network, capacity, *ends, value, side = family(name)
    capacity = capacity.astype(np.int32)
    with jax.default_device(jax.devices("cuda")[0]):
        for _ in range(100):
            res = jm.maximum_flow(network, capacity, *ends, method=solver)
            assert res.value == value
            np.testing.assert_array_equal(res.source_side, side)
            assert jm.check_flow(network, capacity, *ends, res).optimal


def test_batch_of_capacities_over_one_network(method):
    """Some invalid, some of no flow, in both directions: nobody disturbs the neighbours."""
    network, capacity, source, sink, value, _ = family("random levels")
    batch = np.stack([capacity, 0 * capacity, capacity * 3, capacity]).astype(np.int32)
    batch[3, 5] = -1
    res = to_numpy(jm.maximum_flow(network, np.tile(batch, (8, 1)), source, sink, method=method))
    np.testing.assert_array_equal(res.value, np.tile([value, 0, 3 * value, -1], 8))
    status = [jm.Status.OPTIMAL] * 3 + [jm.Status.INVALID_CAPACITY]
    np.testing.assert_array_equal(res.status, np.tile(status, 8))
    back = to_numpy(jm.maximum_flow(network, capacity, sink, source, method=method))
    assert back.value == 0 and not back.flow.any()
