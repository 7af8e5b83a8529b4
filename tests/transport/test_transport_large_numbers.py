"""`solve_transport` with large numbers for forbidden pairs, or as prices: they act as +inf does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, to_numpy, x64
from transport_truth import Truth

import jaxmatch as jm
from jaxmatch import Status


GREATEST = float(np.finfo(np.float64).max)
LARGE = (1e6, 1e9, 1e18, 1e30, 1e300, GREATEST)


def given(seed: int, n: int, m: int, *, feasible: bool = True) -> tuple[Any, ...]:
    """Costs, the pairs to forbid, and masses that can do without these if that is asked for."""
    random = np.random.default_rng(seed)
    cost, forbidden = random.random((n, m)), random.random((n, m)) < 0.7
    plan = random.integers(1, 9, (n, m)) * (random.random((n, m)) < 2 / m)
    if feasible:
        forbidden &= plan == 0
    return cost, forbidden, plan.sum(1), plan.sum(0)


def assert_same(res: Any, want: Any, *, gap: float = 1e-8) -> None:
    res, want = to_numpy((res, want))
    assert (res.status == Status.OPTIMAL).all() and (want.status == Status.OPTIMAL).all()
    np.testing.assert_allclose(res.cost, want.cost, rtol=1e-13)
    assert (res.gap <= gap).all()


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("n, m", [(3, 4), (12, 12), (90, 40)])
def test_a_large_number_forbids_as_infinity_does(n, m, large):
    cost, forbidden, supply, demand = given(n, n, m)
    numbers, infinite = (np.where(forbidden, x, cost) for x in (large, np.inf))
    more = demand + 1
    with x64(True):
        for masses in ((supply, demand), (supply / supply.sum(), demand / demand.sum())):
            want = jm.solve_transport(infinite, *masses)
            res = jm.solve_transport(numbers, *masses)
            assert_same(res, want)
            check = jm.check_transport(numbers, *masses, res)
            assert check.valid and check.gap <= 1e-8
            res = jm.solve_transport(-numbers, *masses, maximize=True)
            assert_same(res, want.replace(cost=-want.cost))
        half = int(supply.sum() // 2)
        res = jm.solve_transport(numbers, supply, more, partial=half)
        assert_same(res, jm.solve_transport(infinite, supply, more, partial=half))
        res = jm.solve_transport(numbers, supply, more, unmatched_cost=large)
        assert_same(res, jm.solve_transport(infinite, supply, more, unmatched_cost=np.inf))


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_large_numbers_of_narrow_floats(name):
    dtype = numpy_dtype(name)
    large = 65504.0 if name == "float16" else float(jnp.finfo(dtype).max)
    for n, m in ((4, 3), (60, 20)):
        cost, forbidden, supply, demand = given(n, n, m)
        cost = (cost / 64).astype(dtype)
        numbers, infinite = (np.where(forbidden, dtype.type(x), cost) for x in (large, np.inf))
        with x64(True):
            want = jm.solve_transport(infinite, supply, demand)
            assert_same(jm.solve_transport(numbers, supply, demand), want, gap=0)


@pytest.mark.parametrize("small", [2.0**-24, 2.0**-23, 2.0**-22, 2.0**-20, 2.0**-14])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_a_level_above_denormal_costs(name, maximize, small):
    """Costs of a second level may become denormal numbers when they are lowered."""
    sign = -1 if maximize else 1
    cost = sign * np.array([[0.25, small], [small, 0.25], [0.25, small]])
    masses = np.array([8, 1, 0], np.float32), np.array([7, 2], np.float32)
    res = to_numpy(jm.solve_transport(cost.astype(numpy_dtype(name)), *masses, maximize=maximize))
    assert res.status == Status.OPTIMAL
    plan = np.zeros((3, 2))
    np.add.at(plan, (res.rows, res.cols), res.mass)
    np.testing.assert_array_equal(plan, [[6, 2], [1, 0], [0, 0]])


def test_points_far_away():
    random = np.random.default_rng(0)
    x, y = random.random((2, 40, 2))
    ones, far = np.ones(40, np.int32), np.full((1, 2), 1e150)
    with x64(True):
        want = jm.solve_transport_points(x, y, ones, ones)
        masses = np.append(ones, 0), np.append(ones, 0)
        res = jm.solve_transport_points(np.vstack([x, far]), np.vstack([y, -far]), *masses)
        assert_same(res, want)
        masses = np.append(ones, 1), np.append(ones, 1)
        res = jm.solve_transport_points(np.vstack([x, far]), np.vstack([y, -far]), *masses)
        pairs = {*zip(res.rows.tolist(), res.cols.tolist(), strict=True)}
        assert res.status == Status.OPTIMAL and len(pairs) > 1
        res = jm.solve_transport_points(x, y, ones, ones, unmatched_cost=1e18)
        assert_same(res, want)


@pytest.mark.parametrize("large", [1e6, 1e13, 1e18, 1e300])
def test_the_rest_is_optimal_where_some_mass_needs_a_large_number(large):
    needed = 0
    for seed in range(8):
        n, m = (4, 5) if seed < 6 else (30, 40)
        cost, forbidden, supply, demand = given(seed, n, m, feasible=False)
        cost = np.where(forbidden, 0, cost)

        def parts(res: Any, cost: Any = cost, forbidden: Any = forbidden) -> tuple[Any, Any]:
            plan = np.zeros(cost.shape)
            used = res.rows >= 0
            plan[res.rows[used], res.cols[used]] = res.mass[used]
            return plan[forbidden].sum(), (plan * cost).sum()

        with x64(True):
            # A number that outweighs all others, and that rounds none.
            want = to_numpy(jm.solve_transport(np.where(forbidden, 1024, cost), supply, demand))
            numbers = np.where(forbidden, large, cost)
            res = to_numpy(jm.solve_transport(numbers, supply, demand))
            mass, rest = parts(want)
            needed += mass > 0
            assert res.status == Status.OPTIMAL
            np.testing.assert_allclose(parts(res), (mass, rest), rtol=1e-9)
            np.testing.assert_allclose(res.cost, mass * large + rest, rtol=1e-14)
            assert res.gap <= 1e-9 * res.cost
            if n < 9 and large <= 1e18:
                exact = Truth(numbers, supply, demand)
                assert float(res.cost) == float(exact.optimum() or 0)
    assert needed > 3


def test_several_large_numbers():
    cost, forbidden, supply, demand = given(3, 20, 20)
    kinds = np.random.default_rng(1).choice([1e6, 1e9, 1e18, 1e200, np.inf], cost.shape)
    with x64(True):
        want = jm.solve_transport(np.where(forbidden, np.inf, cost), supply, demand)
        assert_same(jm.solve_transport(np.where(forbidden, kinds, cost), supply, demand), want)
    # The first row needs 1e6 at least, then also 1e18: small costs decide, exactly.
    numbers = np.array([[1e6, 1e18, 0.25], [1e18, 0.5, 1e6], [np.inf, 0.125, 0.75]])
    supply, demand = np.array([2, 1, 1]), np.array([2, 1, 1])
    with x64(True):
        for large in (1e6, 1e18):
            numbers[0, 0] = large
            res = to_numpy(jm.solve_transport(numbers, supply, demand))
            truth, used = Truth(numbers, supply, demand), res.rows >= 0
            pairs = zip(res.rows[used].tolist(), res.cols[used].tolist(), strict=True)
            plan = {k: Fraction(int(x)) for k, x in zip(pairs, res.mass[used], strict=True)}
            assert truth.cost_of(plan) == truth.optimum()


def test_problems_of_a_batch_have_their_own_scale():
    cost, forbidden, supply, demand = given(5, 6, 6)
    large = np.array(LARGE)[:, None, None]
    with x64(True):
        want = jm.solve_transport(np.where(forbidden, np.inf, cost), supply, demand)
        masses = (jnp.broadcast_to(x, (len(LARGE), 6)) for x in (supply, demand))
        res = jax.jit(jm.solve_transport)(jnp.where(forbidden, large, cost), *masses)
        assert_same(res, want)


def test_duals_of_rows_and_columns_without_mass():
    cost = np.array([[0.7, 0.1, 1e18, 0.3, 1e18], [1.0, 0.1, 1e18, 0.1, 0.8]])
    supply, demand = np.array([3, 1]), np.array([3, 1, 0, 0, 0])
    with x64(True):
        for name in ("float64", "float32"):
            numbers = cost.astype(name)
            res = jm.solve_transport(numbers, supply, demand)
            assert jm.check_transport(numbers, supply, demand, res).gap <= 1e-6


@pytest.mark.parametrize("shape", [(4, 1), (6, 2), (40, 3), (9, 9)])
def test_whole_costs_times_powers_of_two_have_the_same_plans(shape):
    """In auctions beside dummies, prices of large costs leave 64 bits."""
    rng = np.random.default_rng(sum(shape))
    n, m = shape
    for _ in range(5):
        cost = rng.integers(-3, 4, shape)
        part, capacity = n // 2, np.full(m, max(1, n // (2 * m)))
        of_part = jm.solve_transport(cost, np.ones(n, int), np.full(m, n), partial=part).cost
        of_capacity = jm.solve_capacitated_assignment(cost, col_capacity=capacity).cost
        for power in range(30, 61):
            many = cost << power
            by_part = jm.solve_transport(many, np.ones(n, int), np.full(m, n), partial=part)
            by_capacity = jm.solve_capacitated_assignment(many, col_capacity=capacity)
            for res, least in ((by_part, of_part), (by_capacity, of_capacity)):
                if res.status == Status.OVERFLOW:
                    assert power > 53 - m.bit_length()
                else:
                    assert res.status == Status.OPTIMAL and res.cost == least * 2.0**power
