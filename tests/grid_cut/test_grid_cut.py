"""Minimum cuts of grids: right values and cuts, whatever the method, connectivity and dtype."""

import numpy as np
import pytest
from grid_cut_helpers import (
    CONNECTIVITIES,
    STEPS,
    arcs_of,
    assert_minimum,
    capacity_of_cut,
    exact_cut,
    is_solid,
    random_grid,
    random_shape,
    scipy_cut,
)
from helpers import problem, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


METHODS = ["auto", "xla"]
each_connectivity = pytest.mark.parametrize("connectivity", CONNECTIVITIES)
each_method = pytest.mark.parametrize("method", METHODS)


def stack(problems):
    return tuple(np.stack(x) for x in zip(*problems, strict=True))


@each_connectivity
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@each_method
def test_small_grids_exactly(method, dtype, connectivity):
    rng = np.random.default_rng(connectivity)
    twin = method == "xla"  # compiles for seconds
    for most in (10,) if twin else (2, 10, 1000):
        for directed in (dtype == "int32",) if twin else (False, True):
            shape = random_shape(rng, connectivity)
            batch = stack(
                random_grid(rng, shape, connectivity, most=most, directed=directed, dtype=dtype)
                for _ in range(40)
            )
            res = to_numpy(jm.grid_cut(*batch, connectivity=connectivity, method=method))
            for k in range(40):
                assert_minimum(problem(res, k), *problem(batch, k), connectivity)


@each_connectivity
@each_method
def test_against_scipy(method, connectivity):
    rng = np.random.default_rng(connectivity)
    shape = (7, 12, 13) if is_solid(connectivity) else (30, 41)
    for most in (3, 100, 20_000):
        for directed in (connectivity == 8,) if method == "xla" else (False, True):
            given = random_grid(rng, shape, connectivity, most=most, directed=directed)
            res = to_numpy(jm.grid_cut(*given, connectivity=connectivity, method=method))
            value, side = scipy_cut(*given, connectivity)
            assert res.status == jm.Status.OPTIMAL and res.value == value
            np.testing.assert_array_equal(res.source_side.ravel(), side)
            assert capacity_of_cut(*given, res.source_side, connectivity) == value


@each_connectivity
def test_against_the_network_and_pymaxflow(connectivity):
    """The same edges as a network without a grid, by this library and by another one."""
    maxflow = pytest.importorskip("maxflow")
    rng = np.random.default_rng(connectivity)
    shape = (5, 6, 7) if is_solid(connectivity) else (14, 15)
    for directed in (False, True):
        given = random_grid(rng, shape, connectivity, most=1000, directed=directed)
        source, sink, pairwise = given
        res = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
        tail, head, capacity, _ = arcs_of(pairwise, connectivity)
        graph = maxflow.GraphInt()
        nodes = graph.add_grid_nodes(shape)
        graph.add_grid_tedges(nodes, source, sink)
        graph.add_edges(tail, head, capacity, np.zeros_like(capacity))
        assert graph.maxflow() == res.value
        n = source.size
        cells = np.arange(n)
        tails = np.concatenate([np.full(n, n), cells, tail])
        heads = np.concatenate([cells, np.full(n, n + 1), head])
        network = jm.FlowNetwork.from_edges(tails, heads, n + 2)
        capacity = np.concatenate([source.ravel(), sink.ravel(), capacity])
        cut = to_numpy(jm.minimum_cut(network, capacity, n, n + 1))
        assert cut.value == res.value
        np.testing.assert_array_equal(cut.source_side[:n], res.source_side.ravel())


@each_connectivity
def test_methods_agree_on_hard_ones(connectivity):
    """Long ways from a few sources to a few sinks: everything between them moves more than once."""
    rng = np.random.default_rng(connectivity)
    shape = (8, 9, 20) if is_solid(connectivity) else (24, 60)
    source, sink, pairwise = random_grid(rng, shape, connectivity, most=50, directed=True)
    source, sink = np.zeros_like(source), np.zeros_like(sink)
    source[..., 0], sink[..., -1] = 10_000, 10_000
    value, side = scipy_cut(source, sink, pairwise, connectivity)
    for method in METHODS:
        res = jm.grid_cut(source, sink, pairwise, connectivity=connectivity, method=method)
        assert res.value == value
        np.testing.assert_array_equal(np.ravel(res.source_side), side)


@pytest.mark.parametrize("shape", [(31, 31), (130, 120)])
@pytest.mark.parametrize("narrow_at", [None, 0.5, 0.99])
def test_winding_way(narrow_at, shape):
    """One way through all rows there and back: the longest distances that such a grid can have."""
    height, width = shape
    way = []  # of cells; between its rows are walls with one gap each
    for y in range(0, height, 2):
        xs = range(width) if y % 4 == 0 else reversed(range(width))
        way += [(y, x) for x in xs]
        way.append((y + 1, way[-1][1]))
    way = [(y, x) for y, x in way if y < height]
    source, sink = np.zeros((2, *shape), np.int32)
    pairwise = np.zeros((4, *shape), np.int32)
    steps = {(0, 1): 0, (1, 0): 1, (0, -1): 2, (-1, 0): 3}
    narrow = None if narrow_at is None else int(narrow_at * (len(way) - 1))
    for k, ((y, x), (v, u)) in enumerate(zip(way, way[1:], strict=False)):
        pairwise[steps[v - y, u - x], y, x] = 3 if k == narrow else 7
    source[way[0]], sink[way[-1]] = 9, 5
    reached = np.zeros(shape, bool)
    for cell in way if narrow is None else way[: narrow + 1]:
        reached[cell] = True
    none = np.zeros(shape, np.int32)
    solid = np.stack([*pairwise[:2], none, *pairwise[2:], none])[:, None]
    for given in ((source, sink, pairwise), (source[None], sink[None], solid)):
        res = jm.grid_cut(*given, connectivity=4 if given[0].ndim == 2 else 6)
        assert res.status == jm.Status.OPTIMAL
        assert res.value == (5 if narrow is None else 3)
        np.testing.assert_array_equal(np.reshape(res.source_side, shape), reached)


@each_connectivity
@each_method
def test_odd_shapes(method, connectivity):
    rng = np.random.default_rng(0)
    ones = (1, 1, 1) if is_solid(connectivity) else (1, 1)
    shapes = [ones, (*ones[1:], 9), (9, *ones[1:])]
    if is_solid(connectivity):
        shapes += [(1, 5, 1), (2, 1, 6), (1, 4, 5), (4, 5, 1), (2, 2, 2), (2, 5, 2), (1, 2, 7)]
    twin = method == "xla"  # compiles for seconds
    for shape in (shapes[0], shapes[-1]) if twin else shapes:
        for directed in (shape == ones,) if twin else (False, True):
            given = random_grid(rng, shape, connectivity, directed=directed)
            res = jm.grid_cut(*given, connectivity=connectivity, method=method)
            assert_minimum(to_numpy(res), *given, connectivity)


@each_connectivity
@each_method
def test_nothing(method, connectivity):
    rank = len(STEPS[connectivity][0])
    for shape in np.ndindex(*(2,) * rank):
        if np.prod(shape) or (method == "xla" and sum(shape) not in (0, rank - 1)):
            continue
        for dtype in (np.float32,) if method == "xla" else (np.int32, np.float32):
            empty = np.zeros(shape, dtype)
            arcs = np.zeros((connectivity, *shape), dtype)
            res = jm.grid_cut(empty, empty, arcs, connectivity=connectivity, method=method)
            assert res.value == 0 and res.status == jm.Status.OPTIMAL
            assert res.source_side.shape == shape
    cells = np.zeros((0, *(3,) * rank), np.float32)
    arcs = np.zeros((0, connectivity, *(3,) * rank), np.float32)
    res = jm.grid_cut(cells, cells, arcs, connectivity=connectivity, method=method)
    assert res.value.shape == (0,) and res.source_side.shape == cells.shape


@each_connectivity
@pytest.mark.parametrize("dtype", ["int64", "float64"])
@each_method
def test_wide_numbers(method, dtype, connectivity):
    rng = np.random.default_rng(connectivity)
    with x64(True):
        shape = random_shape(rng, connectivity, 4)
        for most in (10, 2**40, 2**52):
            batch = stack(
                random_grid(rng, shape, connectivity, most=most, directed=True, dtype=dtype)
                for _ in range(10)
            )
            res = to_numpy(jm.grid_cut(*batch, connectivity=connectivity, method=method))
            assert res.value.dtype == dtype
            for k in range(10):
                one = problem(batch, k)
                value, side = exact_cut(*one, connectivity)
                np.testing.assert_array_equal(res.source_side[k], side)
                np.testing.assert_allclose(float(res.value[k]), float(value), rtol=1e-15)


@each_connectivity
@each_method
def test_real_floats(method, connectivity):
    """Numbers that need all of their bits: the cut is as good as the best in float64."""
    rng = np.random.default_rng(connectivity)
    shape = (3, 4, 5) if is_solid(connectivity) else (5, 6)
    for k in range(10):
        directed = connectivity == 4 if method == "xla" else k % 2 == 0
        grids = random_grid(rng, shape, connectivity, directed=directed)
        given = tuple((x * rng.random(x.shape)).astype(np.float32) for x in grids)
        given = (*given[:2], np.abs(given[2]))
        res = to_numpy(jm.grid_cut(*given, connectivity=connectivity, method=method))
        value, _ = exact_cut(*given, connectivity)
        wide = (x.astype(np.float64) for x in given)
        capacity = capacity_of_cut(*wide, res.source_side, connectivity)
        np.testing.assert_allclose(capacity, float(value), rtol=1e-6)
        np.testing.assert_allclose(res.value, float(value), rtol=1e-6)


@each_method
def test_hard_seeds(method):
    """+inf pins cells to a side, arcs of +inf hold cells together."""
    rng = np.random.default_rng(0)
    for connectivity in CONNECTIVITIES:
        shape = (3, 3, 4) if is_solid(connectivity) else (5, 6)
        for _ in range(10):
            given = random_grid(rng, shape, connectivity, dtype=np.float32, directed=True)
            source, sink, pairwise = given
            source[rng.random(shape) < 0.1] = np.inf
            sink[(rng.random(shape) < 0.1) & (source < np.inf)] = np.inf
            pairwise = np.where(rng.random(pairwise.shape) < 0.2, np.float32(np.inf), pairwise)
            res = to_numpy(
                jm.grid_cut(source, sink, pairwise, connectivity=connectivity, method=method)
            )
            value, side = exact_cut(source, sink, pairwise, connectivity)
            assert res.status == jm.Status.OPTIMAL and res.value == float(value)
            if value < np.inf:
                np.testing.assert_array_equal(res.source_side, side)


@each_method
def test_infinite_values(method):
    inf = np.float32(np.inf)
    ones, endless = np.ones((2, 1, 3), np.float32), np.full((2, 1, 3), inf)
    for source, sink, arcs in (
        ([[inf, 0, 0]], [[inf, 1, 2]], ones),
        ([[inf, 0, 0]], [[0, 1, inf]], endless),
    ):
        res = jm.grid_cut(np.float32(source), np.float32(sink), arcs, method=method)
        assert res.value == inf and res.status == jm.Status.OPTIMAL
    res = jm.grid_cut(np.float32([[inf, 0, 0]]), np.float32([[0, 1, inf]]), ones * 0, method=method)
    assert res.value == 0


@each_connectivity
@each_method
def test_invalid_capacities(method, connectivity):
    rng = np.random.default_rng(0)
    shape = (3, 3, 3) if is_solid(connectivity) else (3, 3)
    for dtype, wrong in (("int32", [-1]), ("float32", [-1.0, np.nan, -np.inf, -1e-40])):
        for bad in wrong:
            for at in range(3):
                good = random_grid(rng, shape, connectivity, dtype=dtype, directed=True)
                given = [x.copy() for x in good]
                middle = (1,) * len(shape)
                given[at][middle if at < 2 else (int(rng.integers(connectivity)), *middle)] = bad
                batch = stack([good, given, good])
                res = to_numpy(jm.grid_cut(*batch, connectivity=connectivity, method=method))
                assert res.status.tolist() == [0, jm.Status.INVALID_CAPACITY, 0]
                assert not res.source_side[1].any()
                assert np.isnan(res.value[1]) if dtype == "float32" else res.value[1] == -1
                assert_minimum(problem(res, 2), *good, connectivity)


@each_method
def test_overflow(method):
    most = 2**31 - 1
    cells, arcs = np.full((2, 2), 2**29, np.int32), np.zeros((2, 2, 2), np.int32)
    res = jm.grid_cut(cells, cells, arcs, method=method)
    assert res.status == jm.Status.OVERFLOW and res.value == -1 and not res.source_side.any()
    cells = np.array([[2**29, 2**29], [2**29, 2**29 - 1]], np.int32)
    res = jm.grid_cut(cells, cells, arcs, method=method)
    assert res.status == jm.Status.OPTIMAL and res.value == most
    cells[1, 1] += 1
    with x64(True):
        res = jm.grid_cut(cells, cells, arcs, method=method)
        assert res.value == 4 * 2**29
        large = np.full((2, 2), most, np.int32)
        res = jm.grid_cut(large, large, np.full((2, 2, 2), most, np.int32), method=method)
        assert res.value == 4 * most
        for size, status in ((2**61 - 1, 0), (2**61, jm.Status.OVERFLOW)):
            cells = np.full((2, 2), size)
            res = jm.grid_cut(cells, cells, np.full((2, 2, 2), 2**62), method=method)
            assert res.status == status
        # One side alone may be as large as it likes.
        res = jm.grid_cut(
            np.full((2, 2), 2**62), cells // 2, np.full((2, 2, 2), 2**62), method=method
        )
        assert res.status == 0 and res.value == 4 * 2**60 and res.source_side.all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_method
def test_extreme_floats(method, dtype):
    """Huge numbers beside small ones, and denormal ones alone."""
    with x64(True):
        huge, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
        source, sink = np.array([[huge, 0, 3, 1]], dtype), np.array([[0, 2, 0, huge]], dtype)
        arcs = np.array([[[huge, 1, 7, 0]], [[0] * 4]], dtype)
        res = to_numpy(jm.grid_cut(source, sink, arcs, method=method))
        value, side = exact_cut(source, sink, arcs, 4)
        assert res.value == float(value)
        np.testing.assert_array_equal(res.source_side, side)
        if method == "auto":  # XLA reads denormals as zero, and so does the twin
            source = np.array([[9, 0, 3, 0]]) * np.array(tiny, dtype)
            sink = np.array([[0, 2, 0, 5]]) * np.array(tiny, dtype)
            arcs = np.array([[[4, 1, 7, 0]], [[0] * 4]]) * np.array(tiny, dtype)
            res = to_numpy(jm.grid_cut(source, sink, arcs, method=method))
            _, side = exact_cut(source, sink, arcs, 4)
            np.testing.assert_array_equal(res.source_side, side)
