"""Parallel edges, loops, parts without an edge between them, and numbers near the limits."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from min_cost_flow_helpers import METHODS, PROVED, Problem, by_highs, prove, random_problem, verdict

import jaxmatch as jm
from jaxmatch import Status


EVERY = [*METHODS, "xla"]
INF, MOST = np.inf, np.iinfo(np.int64).max


def problem(senders, receivers, capacity, cost, supply, lower=None):
    network = jm.FlowNetwork.from_edges(senders, receivers, len(supply))
    bound = None if lower is None else np.array(lower)
    return Problem(network, np.array(capacity), np.array(cost), np.array(supply), bound)


def solved(given, method, flow=None, cost=None, status=Status.OPTIMAL):
    res = given.solve(method=method)
    assert Status(int(res.status)) == status
    assert verdict(given, res) == PROVED[status]
    if flow is not None:
        assert res.flow.tolist() == flow
    assert cost is None or res.cost == cost
    return res


@pytest.mark.parametrize("method", EVERY)
def test_parallel_edges(method):
    """The cheapest first."""
    given = problem([0, 0, 0, 1], [1, 1, 1, 0], [2, 1, 9, 9], [5, 1, 7, 0], [5, -5])
    solved(given, method, [2, 1, 2, 0], 25)


@pytest.mark.parametrize("method", EVERY)
def test_loops(method):
    """A loop of negative cost is full, one without a limit has no optimum."""
    given = problem([0, 0, 1, 0], [0, 0, 1, 1], [3, 4, 2, 9], [-2, 1, 0, 1], [1, -1], [0, 1, -1, 0])
    res = solved(given, method, cost=-6 + 1 + 1)
    assert res.flow[:2].tolist() == [3, 1]
    endless = given._replace(capacity=np.array([MOST, 4, 2, 9]))
    res = solved(endless, method, status=Status.UNBOUNDED)
    assert res.cycle.tolist() == [True, False, False, False]


@pytest.mark.parametrize("method", EVERY)
def test_negative_cycles_with_limits(method):
    given = problem([0, 1, 2], [1, 2, 0], [5, MOST, MOST], [-3, 1, 1], [0, 0, 0])
    solved(given, method, [5, 5, 5], -5)
    given = problem([0, 1, 2], [1, 2, 0], [5, MOST, MOST], [1, -3, 1], [0, 0, 0])
    solved(given, method, [5, 5, 5], -5)
    solved(given._replace(capacity=np.full(3, MOST)), method, status=Status.UNBOUNDED)


@pytest.mark.parametrize("method", EVERY)
def test_parts(method):
    """Nodes without edges, and two networks in one: each must balance."""
    given = problem([0, 3], [1, 4], [4, 4], [2, 3], [1, -1, 0, 2, -2])
    solved(given, method, [1, 2], 8)
    res = solved(
        given._replace(supply=np.array([1, -2, 0, 2, -1])), method, status=Status.INFEASIBLE
    )
    assert res.source_side[3] and not res.source_side[0]


@pytest.mark.parametrize("method", EVERY)
def test_nothing_to_send(method):
    given = problem([0, 1], [1, 2], [4, 0], [2, -3], [0, 0, 0])
    solved(given, method, [0, 0], 0)
    given = problem([0, 1], [1, 2], [0, 0], [2, -3], [0, 0, 0])
    solved(given, method, [0, 0], 0)


@pytest.mark.parametrize("method", EVERY)
def test_lower_bounds(method):
    """Also negative ones, and edges whose flow is fixed."""
    given = problem([0, 1, 0], [1, 2, 2], [4, 4, 4], [1, 1, 5], [2, 0, -2], [0, 0, 1])
    solved(given, method, [1, 1, 1], 7)
    given = problem([0, 1, 0], [1, 2, 2], [4, 4, 4], [1, 1, 5], [2, 0, -2], [-3, -3, 0])
    solved(given, method, [2, 2, 0], 4)
    given = problem([1, 1, 0], [0, 2, 2], [4, 4, 4], [-1, 1, 5], [2, 0, -2], [-3, -3, 0])
    solved(given, method, [-2, 2, 0], 4)
    given = problem([0, 1, 0], [1, 2, 2], [4, 4, 4], [1, 1, 5], [2, 0, -2], [4, 4, -4])
    solved(given, method, [4, 4, -2], -2)


@pytest.mark.parametrize("method", EVERY)
def test_forbidden_edges(method):
    given = problem([0, 0], [1, 1], [9.0, 9.0], [INF, 4.0], [2.0, -2.0])
    solved(given, method, [0, 2], 8)
    solved(given._replace(cost=np.full(2, INF)), method, status=Status.INFEASIBLE)
    solved(given._replace(lower=np.array([-3.0, 0])), method, [0, 2], 8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("huge", [1e12, 1e100, 1e300])
def test_huge_costs_beside_small_ones(method, huge):
    """Of edges that no optimal flow uses, they cost no digit of the others."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        ends, ring = rng.integers(0, 6, (2, 18)), np.arange(6)
        ends = np.concatenate([ends, [ring, np.roll(ring, -1)], [ring, np.roll(ring, 1)]], 1)
        cost = np.concatenate([rng.uniform(0, 1, 18), rng.uniform(1, 3, 6), np.full(6, huge)])
        supply = rng.integers(-3, 4, 6)
        supply[0] -= supply.sum()
        network = jm.FlowNetwork.from_edges(*ends, 6)
        given = Problem(network, np.full(30, 99.0), cost, supply.astype(float))
        res = solved(given, method)
        best = by_highs(given._replace(capacity=np.where(cost < huge, 99.0, 0)))
        np.testing.assert_allclose(res.cost, best, rtol=1e-12)
        assert prove(given, res)[1] <= Fraction(res.gap.item())


@pytest.mark.parametrize("method", METHODS)
def test_costs_near_the_limit_of_int64(method):
    huge = 2**62
    one = problem([0, 0, 1], [1, 2, 2], [5, 5, 5], [1, huge, 2], [3, 0, -3])
    solved(one, method, [3, 0, 3], 9)
    one = problem([0, 0], [1, 1], [1, 5], [huge, huge - 1], [1, -1])
    solved(one, method, [0, 1], huge - 1)


@pytest.mark.parametrize("method", METHODS)
def test_masses_near_the_limits(method):
    big = 2**58
    given = problem([0, 0, 1], [1, 2, 2], [big, MOST - 1, MOST], [0, 1, 0], [big + 1, 0, -big - 1])
    res = solved(given, method, [big, 1, big], 1)
    assert res.cost.dtype == np.int64
    given = problem([0, 0, 1], [1, 2, 2], [1e300, 1e300, INF], [0.0, 1, 0], [2e300, 0, -2e300])
    solved(given, method, [1e300, 1e300, 1e300], 1e300)
    tiny = 2.0**-1070
    given = problem([0, 0, 1], [1, 2, 2], [tiny, 1.0, INF], [0.0, 1, 0], [2 * tiny, 0, -2 * tiny])
    solved(given, method, [tiny, tiny, tiny], tiny)


@pytest.mark.parametrize("method", METHODS)
def test_limits_that_stand_for_none(method):
    """Large finite capacities cost no digit of small supplies."""
    for limit in (1e15, 1e100, 1e300):
        given = problem(
            [0, 0, 1, 2], [1, 2, 2, 0], [0.3, limit, limit, limit], [0.1, 5.0, 0.2, 1.0],
            [0.7, 0, -0.7],
        )  # fmt: skip
        res = solved(given, method)
        np.testing.assert_allclose(res.cost, 0.3 * 0.3 + 0.4 * 5, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_denormal_costs(method):
    tiny = 5e-324
    given = problem([0, 0], [1, 1], [9.0, 9.0], [2 * tiny, tiny], [3.0, -3.0])
    res = solved(given, method, [0, 3])
    assert res.cost == 3 * tiny


@pytest.mark.parametrize("on", [False, True])
def test_denormals_under_jit(on):
    """XLA flushes them: the check then proves less, but nothing wrong."""
    given = problem([0, 0], [1, 1], [9.0, 9.0], [2e-40, 1e-40], [3.0, -3.0])
    with jax.enable_x64(on):
        arrays = [jnp.asarray(x, jnp.float32) for x in given[1:4]]
        res = jax.jit(jm.minimum_cost_flow)(given.network, *arrays)
        check = jax.jit(jm.check_minimum_cost_flow)(given.network, *arrays, res)
    assert res.status == 0 and check.valid


@pytest.mark.parametrize("method", METHODS)
def test_long_paths_and_many_ties(method):
    """A grid with costs 0 and 1, whose optimum is proved."""
    side, rng = 30, np.random.default_rng(1)
    node = np.arange(side * side).reshape(side, side)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    pairs += [(b, a) for a, b in pairs]
    ends = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], 1)
    cost, capacity = rng.integers(0, 2, ends.shape[1]), rng.integers(1, 4, ends.shape[1])
    supply = np.zeros(side * side, int)
    supply[0], supply[-1] = 2, -2
    network = jm.FlowNetwork.from_edges(*ends, side * side)
    solved(Problem(network, capacity, cost, supply), method)


def test_all_methods_agree():
    rng = np.random.default_rng(6)
    for _ in range(10):
        given = random_problem(rng, 40, 200, lower=True, negative=True)
        found = {given.solve(method=method).cost.item() for method in METHODS}
        assert len(found) == 1


@pytest.mark.parametrize("method", METHODS)
def test_limits_beyond_the_greatest_double(method):
    """Ranges between a capacity and a negative lower bound exceed it: attempts must end."""
    most = float(np.finfo(np.float64).max)
    with jax.enable_x64(True):
        res = jm.minimum_cost_flow(
            jm.FlowNetwork.from_edges([0, 1, 2, 3], [1, 0, 3, 2], 4),
            np.array([most, INF, most, INF]),
            np.array([-1e-3, 0, -1e-3, 0]),
            np.zeros(4),
            lower=np.array([-0.005, -0.005, -0.01, -0.01]) * most,
            method=method,
        )
        assert res.status == Status.OPTIMAL
        np.testing.assert_array_equal(res.flow, most)


def test_limits_of_many_sizes():
    """Each is above the sum of all smaller ones; each cycle pays."""
    count = 300
    limit = np.ravel(np.stack([3.0 ** np.arange(count), np.full(count, INF)], 1))
    cost = np.tile([-1.0, 0.5], count)
    ends = np.arange(2 * count)
    given = problem(ends, ends ^ 1, limit, cost, np.zeros(2 * count))
    with jax.enable_x64(True):
        res = given.solve()
        assert res.status == Status.OPTIMAL and verdict(given, res) == PROVED[Status.OPTIMAL]
        np.testing.assert_array_equal(res.flow[::2], limit[::2])


@pytest.mark.parametrize("bound", [1e6, 1e9, 1e12, 1e16, 1e20, 1e30])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("method", ["auto", "xla"])
def test_masses_are_not_rounded_away_beside_large_lower_bounds(method, bound, wide):
    """They are sent, or the status is OVERFLOW; the check accepts no flow that sends nothing."""
    with jax.enable_x64(wide):
        dtype = np.float64 if wide else np.float32
        capacity, lower, cost, supply = (
            np.array(x, dtype) for x in ([10, bound], [0, -bound], [1, 1], [1, -1, 0, 0])
        )
        network = jm.FlowNetwork.from_edges([0, 2], [1, 3], 4)
        given = network, capacity, cost, supply
        res = jm.minimum_cost_flow(*given, lower=lower, method=method)
        if res.status != Status.OVERFLOW:
            assert res.status == Status.OPTIMAL and bound < 1e19
            assert res.flow.tolist() == [1, 0] and res.cost == 1
            assert jm.check_minimum_cost_flow(*given, res, lower=lower).optimal
        nothing = res.replace(flow=np.zeros(2, dtype), potential=np.zeros(4, dtype))
        check = jm.check_minimum_cost_flow(*given, nothing, lower=lower)
        assert not check.valid and not check.optimal
