"""Numbers of very different sizes, and sums near the ends of their dtypes."""

import numpy as np
import pytest

import jaxmatch as jm
from jaxmatch import Status


INF = np.inf
B = 2**61
MOST = 2**31 - 1
HUB = 512


def _small_limits_feed_a_cycle():
    """A hundred edges of 1 could each send that around an edge of 1.5."""
    ends = [(0, 1), (2, 3), *[(3, 2)] * 100, (4, 5)]
    capacity = np.array([10, 1.5, *[1.0] * 100, 5])
    cost = np.array([1.0, 0, *[-1.0] * 100, -1])
    return ends, capacity, cost, np.array([1.0, -1, 0, 0, 0, 0])


def _bounds_that_cancel():
    given = np.array([B, 100]), np.array([0, 0]), np.array([B + 200, -B - 200])
    return [(0, 1), (0, 1)], *given, np.array([B, 0])


def _sums_above_53_bits():
    each = 2**50 + 31
    ends = [*((i, HUB) for i in range(HUB)), (HUB, HUB + 1)]
    capacity = np.array([2**55] * HUB + [HUB * each - 3000])
    supply = np.array([each] * HUB + [0, -HUB * each])
    return ends, capacity, np.ones(HUB + 1, int), supply


def _flows_beyond_int32():
    ends = [(0, 3), (1, 3), (2, 3), (3, 4), (4, 5), (4, 6), (4, 7)]
    supply = np.array([10**9] * 3 + [0, 0] + [-(10**9)] * 3, np.int32)
    return ends, np.full(7, MOST, np.int32), np.zeros(7, np.int32), supply


def _a_great_negative_cost():
    cost = np.array([1e-40, 1e30, -2e30])
    return [(0, 1), (0, 2), (2, 1)], np.full(3, 5.0), cost, np.array([1.0, -1, 0])


def _cycle_of_positive_cost_below_the_unit():
    cost = np.array([-(2.0**-25), 2.0**-22, -1e30])
    return [(0, 1), (1, 0), (2, 3)], np.array([INF, INF, 1.0]), cost, np.zeros(4)


def _full_edges_beside_a_coarse_unit():
    n = 64
    ends = [*((i, n + j) for i in range(n) for j in range(n)), (0, 0)]
    cost = np.array([1.0] * n * n + [-1.0])
    return ends, np.array([0.1] * n * n + [6000.0]), cost, np.array([6.4] * n + [-6.4] * n)


def _bounds_far_above_what_can_flow():
    rng = np.random.default_rng(0)
    lower = rng.random(100) * rng.random(100) * np.where(np.arange(100) == 5, 1e-9, 1)
    supply = np.concatenate([[lower.sum()], -lower])
    return [(0, i + 1) for i in range(100)], lower, np.ones(100), supply, lower


def _potentials_beyond_doubles():
    supply = np.array([2.0, 0, 0, -2])
    return [(0, 1), (1, 2), (2, 3)], np.full(3, 5.0), np.full(3, 1e308), supply


def _supplies_of_the_largest_int32():
    return [(0, 1)], np.array([2**62]), np.array([1]), np.array([MOST, -MOST], np.int32)


def _a_capacity_above_the_supply():
    return [(0, 1)], np.array([5.0]), np.array([1.0]), np.array([4.0, -4.0])


def _an_endless_cycle_at_the_edge_of_epsilon():
    given = np.array([1, INF, INF]), np.array([-8.0, -3, 2]), np.array([-66.0, 66, 0])
    return [(2, 1), (1, 0), (0, 1)], *given


def _a_part_that_lacks_little():
    return [(0, 1)], np.array([9.0]), np.array([1.0]), np.array([1, -1 + 5e-7, -5e-7])


CASES = {
    _a_capacity_above_the_supply: (Status.OPTIMAL, 4),
    _an_endless_cycle_at_the_edge_of_epsilon: (Status.UNBOUNDED, None),
    _a_part_that_lacks_little: (Status.INFEASIBLE, None),
    _small_limits_feed_a_cycle: (Status.OPTIMAL, -0.5),
    _bounds_that_cancel: (Status.INFEASIBLE, None),
    _sums_above_53_bits: (Status.INFEASIBLE, None),
    _flows_beyond_int32: (Status.OVERFLOW, None),
    _a_great_negative_cost: (Status.OPTIMAL, -1e30),
    _cycle_of_positive_cost_below_the_unit: (Status.OPTIMAL, 0),
    _full_edges_beside_a_coarse_unit: (Status.OPTIMAL, 64 * 6.4 - 6000),
    _bounds_far_above_what_can_flow: (Status.OPTIMAL, None),
    _potentials_beyond_doubles: (Status.OVERFLOW, None),
    _supplies_of_the_largest_int32: (Status.OPTIMAL, MOST),
}


@pytest.mark.parametrize("method", ["network_simplex", "cost_scaling"])
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__[1:])
def test_large_numbers(case, method):
    ends, capacity, cost, supply, *lower = case()
    network = jm.FlowNetwork.from_edges(*zip(*ends, strict=True), len(supply))
    bounds = {"lower": lower[0]} if lower else {}
    res = jm.minimum_cost_flow(network, capacity, cost, supply, method=method, **bounds)
    check = jm.check_minimum_cost_flow(network, capacity, cost, supply, res, **bounds)
    status, value = CASES[case]
    assert Status(int(res.status)) == status
    assert check.valid == (status == Status.OPTIMAL)
    assert check.infeasible == (status == Status.INFEASIBLE)
    assert check.unbounded == (status == Status.UNBOUNDED)
    if value is not None:
        np.testing.assert_allclose(res.cost, value, rtol=1e-12)


@pytest.mark.parametrize("dtype, most", [("int32", MOST), ("int64", 2**63 - 1)])
def test_the_difference_of_unbalanced_supplies_stays_in_its_dtype(dtype, most):
    network = jm.FlowNetwork.from_edges([0], [1], 2)
    given = (np.array(x, dtype) for x in ([9], [1], [most // 2 + 9] * 2))
    res = jm.minimum_cost_flow(network, *given)
    assert res.status == Status.UNBALANCED
    assert res.gap == most  # which is less than the difference


def test_the_check_sees_an_endless_loop_that_pays():
    network = jm.FlowNetwork.from_edges([0], [0], 1)
    limited = np.array([5.0]), np.array([0.0]), np.array([0.0])
    res = jm.minimum_cost_flow(network, *limited)
    endless = np.array([INF]), np.array([-1.0]), np.array([0.0])
    assert not jm.check_minimum_cost_flow(network, *endless, res).optimal
