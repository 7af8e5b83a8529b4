"""Every small problem there is, and thousands of random ones up to 8 x 8, against other solvers."""

import itertools

import numpy as np
import pytest
from helpers import assert_checked, assert_failed, problem, to_numpy
from oracles import scipy_optimum

import jaxmatch as jm


SHAPES = list(itertools.product(range(1, 9), repeat=2))
UP_TO_3 = [s for s in SHAPES if max(s) <= 3]
UP_TO_4 = [s for s in SHAPES if max(s) <= 4]
LARGER = [s for s in SHAPES if max(s) > 4]

# For each dtype and shape minimising, and maximising the negated costs: the same optimum.
both_ways = pytest.mark.parametrize("maximize", [False, True])


def every_matrix(values: tuple[float, ...], n: int, m: int) -> np.ndarray:
    digits = np.indices((len(values),) * (n * m)).reshape(n * m, -1).T
    return np.array(values)[digits].reshape(-1, n, m)


def least_totals(costs: np.ndarray) -> np.ndarray:
    """The least cost of all assignments, by trying them all; +inf where every one is forbidden."""
    costs = costs if costs.shape[1] <= costs.shape[2] else costs.transpose(0, 2, 1)
    n, m = costs.shape[1:]
    choices = itertools.permutations(range(m), n)
    return np.min([costs[:, np.arange(n), list(cols)].sum(1) for cols in choices], axis=0)


def compare(costs: np.ndarray, optima: np.ndarray, dtype: str, maximize: bool) -> None:
    """Solves the batch in one call; `optima` are those of minimising, +inf where infeasible."""
    sign = -1 if maximize else 1
    costs = (sign * costs).astype(dtype)
    res = jm.solve_assignment(costs, maximize=maximize)
    feasible = np.isfinite(optima)
    assert_failed(problem(to_numpy(res), ~feasible), jm.Status.INFEASIBLE)
    solved = problem(to_numpy(res), feasible)
    np.testing.assert_array_equal(solved.status, jm.Status.OPTIMAL)
    np.testing.assert_array_equal(solved.cost, sign * optima[feasible])
    np.testing.assert_array_equal(solved.gap, 0)
    assert_checked(costs[feasible], solved, 8, maximize=maximize)


@both_ways
@pytest.mark.parametrize("shape", UP_TO_3, ids=str)
def test_every_0_1_inf_matrix_up_to_3_by_3(shape, maximize):
    costs = every_matrix((0.0, 1.0, np.inf), *shape)
    compare(costs, least_totals(costs), "float32", maximize)


@both_ways
@pytest.mark.parametrize("shape", UP_TO_4, ids=str)
def test_every_0_1_matrix_up_to_4_by_4(shape, maximize):
    costs = every_matrix((0.0, 1.0), *shape)
    compare(costs, least_totals(costs), "int32", maximize)


def random_batch(rng: np.random.Generator, n: int, m: int, count: int) -> np.ndarray:
    """Few distinct values or many, and from no to nearly all pairs forbidden."""
    kinds = np.array([1, 2, 9, 1000])[np.arange(count) % 4, None, None]
    costs = np.floor(rng.random((count, n, m)) * (kinds + 1))
    forbidden = np.repeat([0.0, 0.0, 0.3, 0.7], -(-count // 4))[:count, None, None]
    return np.where(rng.random((count, n, m)) < forbidden, np.inf, costs)


@pytest.mark.parametrize(
    "shape, maximize",
    [(s, way) for s in LARGER for way in (False, True) if s[0] == s[1] or way == sum(s) % 2],
    ids=str,
)
def test_random_matrices_up_to_8_by_8(shape, maximize):
    """Those that are not square one way each, in turn."""
    costs = random_batch(np.random.default_rng([*shape, maximize]), *shape, 2000)
    optima = [scipy_optimum(c) for c in costs]
    optima = np.array([np.inf if x is None else float(x) for x in optima])
    assert 0 < np.isfinite(optima).sum() < len(costs) or min(shape) < 2
    compare(costs, optima, "float32", maximize)
