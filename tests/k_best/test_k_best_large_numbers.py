"""`k_best_assignments` with large numbers for forbidden pairs: paid last, and rounding nothing."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from helpers import to_numpy, x64

import jaxmatch as jm
from jaxmatch import Status


LARGE = (1e6, 1e9, 1e18, 1e30, 1e300, float(np.finfo(np.float64).max))


def exact_costs(cost: np.ndarray) -> list[Fraction]:
    """Those of all assignments, in their order. +inf forbids."""
    n, m = cost.shape
    if n > m:
        return exact_costs(cost.T)
    sums = (
        [cost[i, j] for i, j in enumerate(cols)] for cols in itertools.permutations(range(m), n)
    )
    return sorted(sum(map(Fraction, x)) for x in sums if np.isfinite(x).all())


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("n, m", [(4, 4), (3, 5), (5, 3)])
def test_a_large_number_is_paid_last(n, m, large):
    random = np.random.default_rng(n)
    for share in (0.3, 0.6, 0.9):
        cost = np.where(random.random((n, m)) < share, large, random.random((n, m)))
        with np.errstate(over="ignore"):
            want = np.array([float(x) for x in exact_costs(cost) if x <= np.finfo(float).max])
        for k in (1, 4, 20):
            with x64(True):
                res = to_numpy(jm.k_best_assignments(cost, k))
                score = to_numpy(jm.k_best_assignments(-cost, k, maximize=True))
            assert res.status == Status.OPTIMAL
            among = min(k, len(want), int(res.count))
            np.testing.assert_array_equal(res.cost[:among], want[:among])
            np.testing.assert_array_equal(score.cost[:among], -want[:among])
            if among and want[among - 1] < 10:
                assert res.gap <= 1e-12
                with x64(True):
                    assert jm.check_k_best(cost, res).gap <= 1e-12


@pytest.mark.parametrize("large", LARGE)
def test_a_large_number_forbids_as_infinity_does(large):
    random = np.random.default_rng(0)
    cost = random.random((40, 50))
    forbidden = random.random(cost.shape) < 0.8
    np.fill_diagonal(forbidden, False)
    with x64(True):
        want = to_numpy(jm.k_best_assignments(np.where(forbidden, np.inf, cost), 30))
        res = to_numpy(jm.k_best_assignments(np.where(forbidden, large, cost), 30))
    assert (res.col4row == want.col4row).all() and (res.cost == want.cost).all()
    assert res.gap <= 1e-12


def test_small_costs_decide_where_all_pay_a_large_number():
    """Two rows have nothing else; 2e9 + 0.5 comes before 2e9 + 0.75."""
    cost = np.array([[1e9, 1e9, 1e9], [1e9, 1e9, 1e9], [0.5, 0.75, 0.8125]])
    for scale in (1, 1e9, 1e290):
        numbers = np.where(cost > 1, cost * scale, cost)
        with x64(True):
            res = to_numpy(jm.k_best_assignments(numbers, 6))
        assert res.status == Status.OPTIMAL
        assert res.col4row[:, 2].tolist() == [0, 0, 1, 1, 2, 2]


def test_the_twin_counts_roundings_of_the_list_alone():
    random = np.random.default_rng(3)
    cost = random.random((4, 4))
    forbidden = random.random(cost.shape) < 0.4
    np.fill_diagonal(forbidden, False)
    with x64(True):
        want = to_numpy(jm.k_best_assignments(np.where(forbidden, np.inf, cost), 3))
        for large in (1e18, float(np.finfo(np.float64).max)):
            numbers = np.where(forbidden, large, cost)
            res = to_numpy(jm.k_best_assignments(numbers, 3, method="xla"))
            count = int(want.count)
            np.testing.assert_allclose(res.cost[:count], want.cost[:count], rtol=1e-15)
            assert count < 3 or res.gap <= 1e-14


def test_forbidden_pairs_stay_so_beside_levels():
    """One assignment alone is allowed, although 256 is a level far above 6e-8."""
    cost = np.array([[np.inf, 6e-8, np.inf, 255.875], [np.inf, 6e-8, np.inf, np.inf]])
    res = jm.k_best_assignments(cost, 5)
    assert int(res.count) == 1 and res.col4row[0].tolist() == [3, 1]
