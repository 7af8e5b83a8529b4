"""Numbers that stand for "no limit" give what +inf gives, whichever edges have them."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")

PATH = ([0, 1, 2, 3], [1, 2, 3, 4], 5)
LARGE = {
    "float32": [1e6, 2.0**60, 1e20, 3e38],
    "float64": [1e6, 2.0**63, 1e20, 1e100, 1.7e308],
    "int32": [2**30, 2**31 - 1],
    "int64": [2**61, 2**62, 2**63 - 1],
}
each_dtype = pytest.mark.parametrize("dtype", LARGE)


def assert_flow_of(value, network, capacity, source, sink, **options):
    res = jm.maximum_flow(network, capacity, source, sink, **options)
    assert res.status == jm.Status.OPTIMAL and np.asarray(res.value) == value
    leaving = np.where(np.asarray(network.senders) == source, np.asarray(res.flow), 0).sum()
    assert leaving == value
    assert (np.asarray(res.flow) <= capacity).all()
    assert jm.check_flow(network, capacity, source, sink, res).optimal
    for nearest in ("source", "sink"):
        cut = jm.minimum_cut(network, capacity, source, sink, nearest=nearest)
        assert np.asarray(cut.value) == value
        assert jm.check_minimum_cut(network, capacity, source, sink, cut).optimal


@each_dtype
@pytest.mark.parametrize("method", ["auto", "pseudoflow", "xla"])
def test_any_edges_of_a_path(method, dtype):
    network = jm.FlowNetwork.from_edges(*PATH)
    capacity = np.array([10, 7, 3, 5], dtype)
    with x64(True):
        places = itertools.product([False, True], repeat=4)
        for large, at in itertools.product(LARGE[dtype], places):
            if not all(at):
                value = capacity[~np.array(at)].min()
                given = np.where(at, dtype_of(dtype)(large), capacity)
                assert_flow_of(value, network, given, 0, 4, method=method)


def dtype_of(name):
    return np.dtype(name).type


@each_dtype
def test_edges_that_lead_nowhere(dtype):
    network = jm.FlowNetwork.from_edges([0, 1, 0, 4], [1, 2, 3, 2], 5)
    for large in LARGE[dtype]:
        assert_flow_of(1, network, np.array([10, 1, large, large], dtype), 0, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_hourglass(dtype):
    """Many edges at both ends, and one of little capacity between."""
    many = 100
    near, far = np.arange(1, many + 1), np.arange(many + 1, 2 * many + 1)
    a, b = 2 * many + 1, 2 * many + 2
    tail = np.concatenate([0 * near, near, [a], 0 * far + b, far])
    head = np.concatenate([near, 0 * near + a, [b], far, 0 * far + 2 * many + 3])
    network = jm.FlowNetwork.from_edges(tail, head, 2 * many + 4)
    for large in (1.0, 1e13, 1e30):
        capacity = np.full(len(tail), large, dtype)
        capacity[2 * many] = 0.1
        assert_flow_of(capacity[2 * many], network, capacity, 0, 2 * many + 3)


def image(rng, dtype):
    """A grid of 12 by 12 cells with 20 seeds a side, whose arcs have capacity +inf."""
    size = 12
    cells = np.arange(size * size).reshape(size, size)
    pairs = [(cells[:, :-1], cells[:, 1:]), (cells[:-1], cells[1:])]
    one, other = (np.concatenate([x[k].ravel() for x in pairs]) for k in (0, 1))
    n = size * size
    seeds = rng.permutation(n)[:40]
    gives, takes = rng.random((2, n))
    gives[seeds[:20]] = takes[seeds[20:]] = np.inf
    tail = np.concatenate([np.full(n, n), cells.ravel(), one, other])
    head = np.concatenate([cells.ravel(), np.full(n, n + 1), other, one])
    arcs = rng.random(2 * len(one)) * 5
    return tail, head, n, np.concatenate([gives, takes, arcs]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_seeds_of_an_image(dtype):
    tail, head, n, capacity = image(np.random.default_rng(0), dtype)
    network = jm.FlowNetwork.from_edges(tail, head, n + 2)
    unlimited = jm.maximum_flow(network, capacity, n, n + 1)
    eps = np.finfo(dtype).eps
    for large in (1e6, 1e12, 1e13, 1e20, 1e30):
        given = np.where(capacity == np.inf, large, capacity).astype(dtype)
        res = jm.maximum_flow(network, given, n, n + 1)
        np.testing.assert_allclose(res.value, unlimited.value, rtol=4 * eps)
        np.testing.assert_array_equal(res.source_side, unlimited.source_side)
        assert jm.check_flow(network, given, n, n + 1, res).optimal


def test_integers_that_overflow_only_at_one_end():
    network = jm.FlowNetwork.from_edges([0, 0, 1, 2], [1, 2, 3, 3], 4)
    most = 2**63 - 1
    given = np.array([most, most, 2**60, 2**60 - 1])
    assert_flow_of(2**61 - 1, network, given, 0, 3)
    res = jm.maximum_flow(network, np.array([most, most, 2**60, 2**60]), 0, 3)
    assert res.status == jm.Status.OVERFLOW


def wrong_answer(value, flow, side, dtype):
    return jm.Flow(
        np.array(value, dtype), np.array(flow, dtype), np.array(side), np.array(0, np.int32)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_check_judges_the_numbers_of_the_caller(dtype):
    """No tolerance grows with the largest capacity, only with the value."""
    network = jm.FlowNetwork.from_edges(*PATH)
    for large in (1e12, 2.0**63, 1e30):
        capacity = np.array([large, 10, 1, large], dtype)
        side = [True, True, False, False, False]
        wrong = wrong_answer(10, [0, 0, 0, 0], side, dtype)
        assert not jm.check_flow(network, capacity, 0, 4, wrong).optimal
        cut = jm.MinimumCut(wrong.value, wrong.source_side, wrong.status)
        check = jm.check_minimum_cut(network, capacity, 0, 4, cut)
        assert check.valid and not check.optimal


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_large_circulation_hides_nothing(dtype):
    """10 flows in, 1 flows out, and 1e30 circulates through both nodes between."""
    network = jm.FlowNetwork.from_edges([0, 1, 2, 1, 4], [1, 2, 3, 4, 1], 5)
    capacity = np.array([10, 1, 10, 1e30, 1e30], dtype)
    side = [True, False, False, False, False]
    for circulates in (0, 1e10, 1e30):
        wrong = wrong_answer(10, [10, 1, 10, circulates, circulates], side, dtype)
        assert not jm.check_flow(network, capacity, 0, 3, wrong).valid


def test_one_more_percent_is_no_maximum():
    """Each of 12,000 edges may round the value by 2^-26 of it, not by more."""
    many = 12_000
    tail = np.concatenate([np.zeros(many, int), np.arange(1, many + 1)])
    head = np.concatenate([np.arange(1, many + 1), np.full(many, many + 1)])
    network = jm.FlowNetwork.from_edges(tail, head, many + 2)
    capacity = np.concatenate([np.full(many, 1e13), np.ones(many)]).astype(np.float32)
    res = jm.maximum_flow(network, capacity, 0, many + 1)
    assert jm.check_flow(network, capacity, 0, many + 1, res).optimal
    lost = np.asarray(res.flow) * np.float32(0.999)
    assert not jm.check_flow(network, capacity, 0, many + 1, res.replace(flow=lost)).valid


@pytest.mark.parametrize("wide", [True, False])
def test_under_jit(wide):
    network = jm.FlowNetwork.from_edges(*PATH)
    with x64(wide):
        capacity = jnp.array([2.0**63, 10, 1, 2.0**63])
        for method in ("auto", "xla"):
            res = jm.maximum_flow(network, capacity, 0, 4, method=method)
            assert res.value == 1 and res.flow.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinite_flows_beside_capacities_below_the_unit(dtype):
    """The unit comes from 3, so that 1e-19 is none; the flow is infinite all the same."""
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1], [2, 1, 2, 0], num_nodes=3)
    capacity = np.array([np.inf, 1e-19, np.inf, 3], dtype)
    res = jm.maximum_flow(network, capacity, 0, 2)
    assert (int(res.status), float(res.value)) == (0, np.inf)
    assert jm.check_flow(network, capacity, 0, 2, res).optimal
