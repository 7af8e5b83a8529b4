"""Maximum flow: every method on thousands of small networks, against other code."""

from fractions import Fraction
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import (
    LAYOUTS,
    METHODS,
    SHAPES,
    SOME_METHODS,
    assert_failed,
    assert_flow,
    by_networkx,
    by_ortools,
    by_scipy,
    by_search,
    exact,
    of_batch,
    random_edges,
    random_networks,
)
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


COUNT = 300
DTYPES = [("int32", False), ("float32", False), ("int32", True), ("int64", True)]
DTYPES += [("float32", True), ("float64", True)]


def problems(shape, seed=0, count=COUNT, most=9):
    """A batch of networks with integer capacities, many of them 0, and any two ends."""
    rng = np.random.default_rng([seed, *shape])
    network = random_networks(rng, count, *shape)
    capacity = rng.integers(-most // 2, most, (count, shape[2]), endpoint=True).clip(0)
    source = rng.integers(0, shape[0], count)
    sink = (source + rng.integers(1, shape[0], count)) % shape[0]
    return network, capacity, source, sink


def each(network, capacity, source, sink):
    """The arguments of the solvers of `flow_helpers`, problem by problem."""
    for k in range(len(capacity)):
        ends = int(source[k]), int(sink[k])
        yield network.num_nodes, network.senders[k], network.receivers[k], capacity[k], *ends


@pytest.fixture(scope="module")
def solved():
    """Of each shape the problems, their values and source sides."""
    found = {}
    for shape in SHAPES:
        given = problems(shape)
        found[shape] = given, [by_search(*one) for one in each(*given)]
    return found


def assert_solved(given, expected, res, dtype):
    network, capacity, source, sink = given
    value, side = [v for v, _ in expected], np.stack([s for _, s in expected])
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
    np.testing.assert_array_equal(res.value, value)
    np.testing.assert_array_equal(res.source_side, side)
    check = jm.check_flow(network, capacity.astype(dtype), source, sink, res)
    assert check.valid.all() and check.optimal.all()
    for k in range(0, len(value), 3):  # the check has proved all
        assert_flow(of_batch(network, k), capacity[k], source[k], sink[k], of_batch(res, k))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_oracles_agree(shape, solved):
    given, expected = solved[shape]
    for one, (value, _) in zip(each(*given), expected, strict=True):
        assert value == by_scipy(*one) == by_networkx(*one) == by_ortools(*one)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_random_networks(method, shape, solved):
    given, expected = solved[shape]
    network, capacity, *ends = given
    res = jm.maximum_flow(network, capacity, *ends, method=method)
    assert_solved(given, expected, res, "int32")


# The twin compiles for seconds.
EACH_DTYPE = [(*dtype, method) for method in SOME_METHODS[:-1] for dtype in DTYPES]
EACH_DTYPE += [("float32", False, "xla"), ("int64", True, "xla")]


@pytest.mark.parametrize("dtype, wide, method", EACH_DTYPE)
def test_dtypes(method, dtype, wide, solved):
    """Whole numbers are exact in all of them, and types do not depend on luck."""
    given, expected = solved[SHAPES[2]]
    network, capacity, *ends = given
    with x64(wide):
        res = jm.maximum_flow(network, capacity.astype(dtype), *ends, method=method)
        assert res.flow.dtype == np.dtype(dtype) and res.status.dtype == np.int32
        integer = np.int64 if wide else np.int32
        assert res.value.dtype == (integer if "int" in dtype else np.dtype(dtype))
        assert_solved(given, expected, res, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_do_not_matter(layout):
    rng = np.random.default_rng(5)
    edges, capacity = random_edges(rng, 12, 30, 60), rng.integers(0, 9, (50, 60))
    network = jm.FlowNetwork.from_edges(*edges.T, 12, layout=layout)
    expected = [by_search(12, *edges.T, c, 3, 7) for c in capacity]
    for method in ("auto", "thread_centric", "two_level"):
        res = jm.maximum_flow(network, capacity, 3, 7, method=method)
        np.testing.assert_array_equal(res.value, [v for v, _ in expected])
        np.testing.assert_array_equal(res.source_side, [s for _, s in expected])
        assert jm.check_flow(network, capacity, 3, 7, res).optimal.all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int8", "uint16"])
def test_narrow_dtypes(dtype, solved):
    (network, capacity, *ends), expected = solved[SHAPES[1]]
    narrow = jnp.asarray(capacity).astype(dtype)
    res = jm.maximum_flow(network, narrow, *ends)
    assert res.flow.dtype == (np.float32 if "float" in dtype else np.int32)
    if dtype != "bool":
        np.testing.assert_array_equal(res.value, [v for v, _ in expected])


# ---------------------------------------------------------------------------------------------
# Sums that hardly fit, and sums that do not


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wide", [False, True])
def test_huge_int32(method, wide):
    network, _, source, sink = problems((6, 9, 20), seed=1, count=100)
    rng = np.random.default_rng(1)
    top = 2**31 - 1
    capacity = np.where(rng.random((100, 20)) < 0.5, top, rng.integers(0, top, (100, 20)))
    capacity[rng.random((100, 20)) < 0.4] //= 50
    capacity = capacity.astype(np.int32)
    given = network, capacity, source, sink
    expected = [by_search(*one[:3], exact(one[3]), *one[4:]) for one in each(*given)]
    value = np.array([v for v, _ in expected])
    fits = value <= (2**61 if wide else top)
    with x64(wide):
        res = to_numpy(jm.maximum_flow(*given, method=method))
        assert_failed(of_batch(res, ~fits), jm.Status.OVERFLOW)
        np.testing.assert_array_equal(res.value[fits], value[fits])
        for k in np.flatnonzero(fits):
            assert_flow(of_batch(network, k), capacity[k], source[k], sink[k], of_batch(res, k))
            np.testing.assert_array_equal(res.source_side[k], expected[k][1])
        check = jm.check_flow(*given, res)
        np.testing.assert_array_equal(check.optimal, fits)
    assert wide or 20 < fits.sum() < 90


@pytest.mark.parametrize("method", METHODS)
def test_int32_at_the_limit(method):
    """Two edges of 2^30 add up to one too much, and so do edges in the middle to no harm."""
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 1, 2, 2, 3], 4)
    top, half = 2**31 - 1, 2**30
    capacity = np.array(
        [[half, half - 1, top, top, top], [half, half, top, top, top], [top, top, top, 0, top],
         [half, half, half, half - 1, top], [top, top, half, half, top], [top, top, top, top, 5]]
    )  # fmt: skip
    res = to_numpy(jm.maximum_flow(network, capacity.astype(np.int32), 0, 3, method=method))
    np.testing.assert_array_equal(res.value, [top, top, top, top, top, 5])
    # In the second the last edge is the only cut; in none does the value itself not fit.
    np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
    wide = jm.maximum_flow(network, capacity.astype(np.int32)[1], 0, 2, method=method)
    assert_failed(wide, jm.Status.OVERFLOW)


@pytest.mark.parametrize("method", METHODS)
def test_huge_int64(method):
    network, _, source, sink = problems((6, 9, 20), seed=2, count=60)
    rng = np.random.default_rng(2)
    capacity = rng.integers(0, 2**59, (60, 20)) >> rng.integers(0, 40, (60, 20))
    capacity[::2] = rng.integers(0, 2**62, (30, 20))
    given = network, capacity, source, sink
    value, bound = [], []
    for n, tail, head, limit, *ends in each(*given):
        value.append(by_search(n, tail, head, exact(limit), *ends)[0])
        limit = np.where(tail != head, limit, 0).astype(object)
        bound.append(min(sum(limit[tail == ends[0]]), sum(limit[head == ends[1]])))
    value, bound = np.array(value, object), np.array(bound, object)
    with x64(True):
        res = to_numpy(jm.maximum_flow(*given, method=method))
        fits = (res.status == jm.Status.OPTIMAL) & (value < 2**61)
        assert_failed(of_batch(res, ~fits), jm.Status.OVERFLOW)
        # CUDA may give up where capacities as large as a minimum cut have too large a sum.
        assert fits[(value if jax.default_backend() == "cpu" else bound) < 2**61].all()
        np.testing.assert_array_equal(res.value[fits], value[fits].astype(int))
        np.testing.assert_array_equal(jm.check_flow(*given, res).optimal, fits)
    assert (bound >= 2**61).sum() > 5


# ---------------------------------------------------------------------------------------------
# Floats


def float_capacity(rng, shape, dtype, spread):
    """Of magnitudes that differ by up to 10^spread; some are 0."""
    x = rng.random(shape) * 10.0 ** rng.uniform(-spread, 0, shape)
    return np.where(rng.random(shape) < 0.2, 0, x).astype(dtype)


@cache
def of_floats(dtype, spread):
    """Networks with such capacities, their exact values, and what bounds these."""
    network, _, source, sink = problems((6, 9, 20), seed=3, count=150)
    capacity = float_capacity(np.random.default_rng(spread), (150, 20), dtype, spread)
    capacity *= np.dtype(dtype).type(1e3) ** (np.arange(150)[:, None] % 5 - 2)
    given, values, bounds = (network, capacity, source, sink), [], []
    for n, tail, head, limit, *ends in each(*given):
        values.append(by_search(n, tail, head, exact(limit), *ends)[0])
        proper = np.where(tail != head, limit.astype(float), 0)
        bounds.append(min(proper[tail == ends[0]].sum(), proper[head == ends[1]].sum()))
    return given, values, bounds


@pytest.mark.parametrize("spread", [0, 3, 12, 30])
@pytest.mark.parametrize("dtype, wide", [x for x in DTYPES if "float" in x[0]])
@pytest.mark.parametrize("method", SOME_METHODS)
def test_floats(method, dtype, wide, spread):
    given, values, bounds = of_floats(dtype, spread)
    with x64(wide):
        res = to_numpy(jm.maximum_flow(*given, method=method))
        check = jm.check_flow(*given, res)
    np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
    assert check.valid.all() and check.optimal.all()
    # A unit, of which the value may be off by one for each edge.
    unit = 2.0 ** (-57 if wide else -27)
    for value, expected, bound in zip(res.value, values, bounds, strict=True):
        off = abs(float(Fraction(float(value)) - expected))
        assert off <= 20 * unit * bound + 2 * float(np.finfo(dtype).eps) * float(expected)
    assert (res.flow <= given[1]).all() and (res.flow >= 0).all()


@pytest.fixture(scope="module")
def unlimited():
    """Networks with infinite capacities, their values and source sides."""
    network, capacity, source, sink = problems((6, 9, 14), seed=4, count=200)
    capacity = capacity.astype(np.float64)
    capacity[np.random.default_rng(4).random(capacity.shape) < 0.35] = np.inf
    given = network, capacity, source, sink
    return given, [by_search(*one[:3], exact(one[3]), *one[4:]) for one in each(*given)]


@pytest.mark.parametrize("dtype, wide", [x for x in DTYPES if "float" in x[0]])
@pytest.mark.parametrize("method", METHODS)
def test_infinite_capacities(method, dtype, wide, unlimited):
    (network, capacity, *ends), expected = unlimited
    given = network, capacity.astype(dtype), *ends
    with x64(wide):
        res = to_numpy(jm.maximum_flow(*given, method=method))
        check = jm.check_flow(*given, res)
    np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
    np.testing.assert_array_equal(res.value, [float(v) for v, _ in expected])
    np.testing.assert_array_equal(res.source_side, [s for _, s in expected])
    endless = np.isinf(res.value)
    assert np.isnan(res.flow[endless]).all() and np.isfinite(res.flow[~endless]).all()
    assert check.valid.all() and check.optimal.all()
    assert 20 < endless.sum() < 180


@pytest.mark.parametrize("method", METHODS)
def test_extreme_floats(method):
    """Sums beyond the range, and numbers of which a bound of the flow is none."""
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1], [1, 1, 2, 2], 3)
    most = float(np.finfo(np.float32).max)
    solve = partial(jm.maximum_flow, network, method=method)
    assert_failed(solve(np.float32([most] * 4), 0, 2), jm.Status.OVERFLOW)
    capacity = np.float32([[most, most, 3, 0], [1e-37, 0, most, most], [most, 0, 1e-30, 0]])
    res = to_numpy(solve(capacity, 0, 2))
    np.testing.assert_array_equal(res.value, np.float32([3, 1e-37, 1e-30]))
    np.testing.assert_array_equal(res.source_side, [[1, 1, 0], [1, 0, 0], [1, 1, 0]])
    check = jm.check_flow(network, capacity, 0, 2, res)
    assert check.valid.all() and check.optimal.all()


def test_the_compiled_check_reads_small_floats():
    """XLA merges constant factors: the check must not multiply 0 by an infinite product."""
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    capacity = np.float32([[1e-37, 3e38], [3e38, 1e-30], [1e-20, 1e-12], [1e-12, 1]])
    value = capacity.min(1)
    side = np.stack([[True, c[1] < c[0], False] for c in capacity])
    flow = np.stack([value, value], 1)
    check = jax.jit(lambda c, *result: jm.check_flow(network, c, 0, 2, jm.Flow(*result)))
    with x64(False):
        checked = check(capacity, value, flow, side, np.zeros(4, np.int32))
    assert checked.valid.all() and checked.optimal.all()


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_can_flow(method, dtype):
    """Where no edge reaches the sink, the source side is still all that it reaches."""
    network = jm.FlowNetwork.from_edges([0, 1, 2, 3], [1, 2, 2, 3], 4)
    capacity = np.array([5, 1, 7, 2], dtype)
    res = jm.maximum_flow(network, capacity, 0, 3, method=method)
    assert res.value == 0 and not res.flow.any()
    np.testing.assert_array_equal(res.source_side, [True, True, True, False])
    assert jm.check_flow(network, capacity, 0, 3, res).optimal
    into = jm.maximum_flow(network, capacity, 3, 2, method=method)
    np.testing.assert_array_equal(into.source_side, [False, False, False, True])


@pytest.mark.parametrize("method", METHODS)
def test_edges_of_an_arc_fill_up_in_order(method):
    network = jm.FlowNetwork.from_edges([0, 1, 0, 0, 1, 1], [1, 0, 1, 1, 2, 1], 3)
    res = jm.maximum_flow(network, np.array([2, 9, 3, 4, 6, 8]), 0, 2, method=method)
    np.testing.assert_array_equal(res.flow, [2, 0, 3, 1, 6, 0])


# ---------------------------------------------------------------------------------------------
# Next to nothing


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("edges, n", [([], 2), ([], 5), ([(0, 0), (1, 1)], 2)])
def test_no_arcs(method, edges, n, dtype):
    edges = np.array(edges, int).reshape(-1, 2)
    network = jm.FlowNetwork.from_edges(*edges.T, n)
    capacity = np.ones(len(edges), dtype)
    for batch in ((3,),) if method == "xla" else ((), (3,)):  # which compiles for seconds
        given = np.broadcast_to(capacity, (*batch, len(edges)))
        res = jm.maximum_flow(network, given, 0, 1, method=method)
        assert (res.value == 0).all() and not res.flow.any()
        expected = np.broadcast_to(np.arange(n) == 0, (*batch, n))
        np.testing.assert_array_equal(res.source_side, expected)
        assert jm.check_flow(network, given, 0, 1, res).optimal.all()


@pytest.mark.parametrize("method", METHODS)
def test_no_ends(method):
    for n in (0, 1):
        network = jm.FlowNetwork.from_edges([], [], n)
        res = jm.maximum_flow(network, np.zeros(0, np.int32), 0, 0, method=method)
        assert_failed(res, jm.Status.INVALID_GRAPH)
        assert not jm.check_flow(network, np.zeros(0, np.int32), 0, 0, res).valid


@pytest.mark.parametrize("method", ["auto", "augment", "pseudoflow", "xla"])
def test_the_same_each_time(method, platform, solved):
    if platform == "cuda":
        pytest.skip("threads race there")
    given, _ = solved[SHAPES[3]]
    solve = partial(jm.maximum_flow, *given, method=method)
    assert_same_bits(solve(), solve())
