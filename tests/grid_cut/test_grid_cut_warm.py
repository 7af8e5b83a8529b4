"""Warm starts of grid cuts: sequences of changes, each solved warm and cold, from any start."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_cut_helpers import (
    CONNECTIVITIES,
    arcs_of,
    is_solid,
    random_grid,
    random_shape,
    scipy_cut,
)
from helpers import x64

import jaxmatch as jm


on_cpu = pytest.mark.skipif(not jm.has_cpu_library(), reason="of native calls")
each_connectivity = pytest.mark.parametrize("connectivity", CONNECTIVITIES)
DTYPES = ("int32", "int64", "float32", "float64")


def assert_same(warm, cold):
    """To the last bit."""
    for name in ("value", "source_side", "status"):
        np.testing.assert_array_equal(getattr(warm, name), getattr(cold, name), err_msg=name)


def changed(rng, given, share=0.05):
    """Some capacities, or all, become others: also of zero, of seeds, and of arcs."""
    most = max(1, int(min(x.max(initial=0) for x in given) if rng.random() < 0.5 else 50))
    out = []
    for x in given:
        pick = rng.random(x.shape) < rng.choice([0, share, 1], p=[0.3, 0.6, 0.1])
        new = rng.integers(0, most + 1, x.shape).astype(x.dtype)
        if x.dtype.kind == "f" and rng.random() < 0.5:
            new = (new * rng.random(x.shape)).astype(x.dtype)
        out.append(np.where(pick, new, x))
    if rng.random() < 0.3:  # a hard seed
        at = tuple(rng.integers(n) for n in out[0].shape)
        floats = out[0].dtype.kind == "f"
        out[rng.integers(2)][at] = np.inf if floats else 2**31 - 1
    return tuple(out)


def words_of(rng, cut):
    """Garbage in the form of this cut."""
    words = rng.integers(-(2**31), 2**31, cut.flow.shape).astype(np.int32)
    unit = rng.choice([0, -40, 40, 2**31 - 1, -(2**31)], cut.unit.shape).astype(np.int32)
    return cut.replace(flow=words, unit=unit)


def net_flow(cut):
    """As real numbers."""
    words = np.asarray(cut.flow)
    number = words[..., 0].astype(float)
    if words.shape[-1] == 2:
        number = np.ascontiguousarray(words).view(np.int64)[..., 0].astype(float)
    return number * 2.0 ** np.asarray(cut.unit)


@each_connectivity
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nearest", ["source", "sink"])
def test_sequences_of_changes(connectivity, dtype, nearest):
    rng = np.random.default_rng(connectivity)
    how = {"connectivity": connectivity, "nearest": nearest}
    for directed in (False, True):
        shape = (3, 4, 5) if is_solid(connectivity) else (9, 11)
        given = random_grid(rng, shape, connectivity, most=20, directed=directed, dtype=dtype)
        last = jm.grid_cut(*given, return_flow=True, **how)
        assert type(last) is jm.GridCut
        for step in range(25):
            given = changed(rng, given)
            cold = jm.grid_cut(*given, **how)
            start = words_of(rng, last) if step % 5 == 4 else last
            last = jm.grid_cut(*given, warm_start=start, **how)
            assert type(cold) is jm.MinimumCut
            assert_same(last, cold)


@each_connectivity
def test_against_scipy(connectivity):
    rng = np.random.default_rng(connectivity)
    shape = (5, 6, 7) if is_solid(connectivity) else (20, 31)
    given = random_grid(rng, shape, connectivity, most=100, directed=True)
    last = None
    for _ in range(5):
        last = jm.grid_cut(*given, connectivity=connectivity, warm_start=last, return_flow=True)
        value, side = scipy_cut(*given, connectivity)
        assert last.value == value
        np.testing.assert_array_equal(np.ravel(last.source_side), side)
        given = tuple(np.where(rng.random(x.shape) < 0.1, x // 2, x) for x in given)


@on_cpu
@each_connectivity
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nearest", ["source", "sink"])
def test_flows_are_maximum(connectivity, dtype, nearest):
    """Within the capacities, and full from the source side to the sink side."""
    rng = np.random.default_rng(connectivity)
    shape = random_shape(rng, connectivity)
    given = random_grid(rng, shape, connectivity, most=50, directed=True, dtype=dtype)
    cut = jm.grid_cut(*given, connectivity=connectivity, nearest=nearest, return_flow=True)
    for warm_start in (cut, words_of(rng, cut)):
        cut = jm.grid_cut(*given, connectivity=connectivity, nearest=nearest, warm_start=warm_start)
        half, n = connectivity // 2, np.prod(shape)
        both = np.concatenate([net_flow(cut)] * 2)  # [K, *grid]; the second half is not used
        tail, head, capacity, entry = arcs_of(given[2], connectivity)
        forward = entry < half * n
        flow = np.where(forward, both.ravel()[entry % both.size], 0.0)
        k = entry // n
        flow = np.where(forward, flow, -net_flow(cut).reshape(half, n)[k % half, head])
        assert (flow <= capacity).all()
        side = np.ravel(cut.source_side)
        crosses = side[tail] & ~side[head]
        np.testing.assert_array_equal(flow[crosses], capacity[crosses])
        out = np.bincount(tail, flow, n)  # net: both arcs of an edge are listed
        excess = given[0].ravel().astype(float) - given[1].ravel() - out
        assert (excess[side] >= 0).all() and (excess[~side] <= 0).all()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_jit_batches_and_vmap(dtype):
    rng = np.random.default_rng(0)
    grids = [random_grid(rng, (6, 7), 8, most=9, directed=False, dtype=dtype) for _ in range(4)]
    video = tuple(jnp.stack([jnp.asarray(x) for x in each]) for each in zip(*grids, strict=True))
    cold = jm.grid_cut(*video, connectivity=8)
    one = jm.grid_cut(*grids[0], connectivity=8, return_flow=True)
    assert_same(jm.grid_cut(*video, connectivity=8, warm_start=one), cold)  # it broadcasts

    def step(last, frame):
        cut = jm.grid_cut(*frame, connectivity=8, warm_start=last)
        return cut, cut

    empty = jm.GridCut.empty((6, 7), 8, dtype)
    _, cuts = jax.jit(lambda frames: jax.lax.scan(step, empty, frames))(video)
    assert_same(cuts, cold)
    backwards = jax.tree.map(lambda x: x[::-1], cuts)
    again = jax.jit(jax.vmap(lambda *x: step(x[3], x[:3])[0]))(*video, backwards)
    assert_same(again, cold)
    assert_same(jm.grid_cut(*video, connectivity=8, warm_start=backwards), cold)


def test_gradients_are_those_of_a_cold_solve():
    rng = np.random.default_rng(0)
    given = random_grid(rng, (5, 6), 4, most=9, directed=True, dtype="float32")
    given = tuple(jnp.asarray(x) for x in given)
    start = jm.grid_cut(*given, return_flow=True)
    near = (given[0] + 0.5, *given[1:])
    cold = jax.grad(lambda *x: jm.grid_cut(*x).value, (0, 1, 2))(*near)
    warm = jax.grad(lambda *x: jm.grid_cut(*x, warm_start=start).value, (0, 1, 2))(*near)
    jax.tree.map(np.testing.assert_array_equal, warm, cold)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_the_twin_solves_cold(method):
    rng = np.random.default_rng(0)
    given = random_grid(rng, (5, 6), 4, most=9, directed=True)
    cold = jm.grid_cut(*given)
    start = words_of(rng, jm.grid_cut(*given, return_flow=True))
    warm = jm.grid_cut(*given, method=method, warm_start=start)
    assert_same(warm, cold)
    assert method == "auto" or not np.any(warm.flow)


@on_cpu
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_large_integers(dtype):
    """Excess beyond 32 bits, or beyond 60, after a start that fits no more."""
    most = {"int32": 2**31 - 1, "int64": 2**62}[dtype]
    rng = np.random.default_rng(0)
    for trial in range(60):
        arcs = rng.choice([0, 1, 5, most // 8, most], (2, 4, 5)).astype(dtype)
        ends = rng.choice([0, 1, 5, most // 40, most], (2, 4, 5), p=[0.4, 0.2, 0.2, 0.1, 0.1])
        source, sink = ends.astype(dtype)
        start = jm.grid_cut(sink, source, arcs // 2, return_flow=True)
        with x64(trial % 2 == 0):  # values of 64 bits, or overflow
            cold = jm.grid_cut(source, sink, arcs)
            for warm_start in (start, words_of(rng, start)):
                assert_same(jm.grid_cut(source, sink, arcs, warm_start=warm_start), cold)


@on_cpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_of_all_magnitudes(dtype):
    """Units change by hundreds of powers of two from one frame to the next."""
    rng = np.random.default_rng(0)
    last = None
    limits = np.finfo(dtype)
    for _ in range(60):
        exponents = rng.uniform(limits.minexp, limits.maxexp - 8)
        spread = rng.choice([0, 3, 60])
        with np.errstate(over="ignore"):
            given = []
            for shape in ((6, 7), (6, 7), (2, 6, 7)):
                powers = np.round(exponents + spread * rng.standard_normal(shape)).astype(int)
                given.append(np.ldexp(rng.random(shape), powers).astype(dtype))
        last = jm.grid_cut(*given, warm_start=last, return_flow=True)
        assert_same(last, jm.grid_cut(*given))


@on_cpu
def test_invalid_problems_leave_no_flow():
    given = (np.ones((3, 4)), np.ones((3, 4)), np.full((2, 3, 4), -1.0))
    cut = jm.grid_cut(*given, return_flow=True)
    assert cut.status == jm.Status.INVALID_CAPACITY and not cut.flow.any() and cut.unit == 0
    assert_same(jm.grid_cut(*given, warm_start=cut), jm.grid_cut(*given))


@on_cpu
def test_a_few_changes_take_less_time():
    """A sixth of a cold solve; here no more than half of it, on machines that are busy."""
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 100, (300, 300)).astype(np.int32) for _ in range(2)]
    arcs = np.full((2, 300, 300), 40, np.int32)
    start = jm.grid_cut(*given, arcs, return_flow=True)
    given[0][10:20, 10:20] = 100

    def seconds(**how):
        best = np.inf
        for _ in range(5):
            began = time.perf_counter()
            jm.grid_cut(*given, arcs, **how)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(warm_start=start) < 0.5 * seconds()


def test_errors_name_the_argument():
    given = (np.ones((3, 4)), np.ones((3, 4)), np.ones((2, 3, 4)))
    cut = jm.grid_cut(*given, return_flow=True)
    value, side, status = cut
    assert value == cut.value and side.shape == (3, 4) and status == 0
    with pytest.raises(TypeError, match=r"`warm_start` must be a GridCut, got MinimumCut"):
        jm.grid_cut(*given, warm_start=jm.grid_cut(*given))
    with pytest.raises(ValueError, match=r"`warm_start.flow` must have shape \[..., 4, 3, 4, 2\]"):
        jm.grid_cut(*given[:2], np.ones((4, 3, 4)), connectivity=8, warm_start=cut)
    with pytest.raises(TypeError, match=r"`warm_start.flow` must hold int32, got float64"):
        jm.grid_cut(*given, warm_start=cut.replace(flow=cut.flow.astype(float)))
    with pytest.raises(ValueError, match=r"`warm_start.unit` must broadcast"):
        jm.grid_cut(*given, warm_start=cut.replace(unit=np.zeros(3, np.int32)))


def test_checks_take_cuts_with_flows():
    rng = np.random.default_rng(0)
    given = random_grid(rng, (5, 6), 4, most=9, directed=False)
    cut = jm.grid_cut(*given, return_flow=True)
    check = jm.check_grid_cut(*given, cut)
    assert check.valid and check.optimal
