"""`solve_transport`: partial plans and costs of unmoved mass, against linear programs.

One shape for all problems, as compiling takes the time here.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linprog

import jaxmatch as jm


BATCH, N, M = 12, 4, 6
KINDS = {"all": {}, "partial": {"partial"}, "unmatched": {"unmatched_cost"}}


def problems(seed, *, whole=True, balanced=False):
    """Small integers, or sevenths of them as masses; forbidden pairs beside floats."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(-9, 10, (BATCH, N, M)).astype(np.float64)
    supply = rng.integers(0, 7, (BATCH, N))
    supply[:, 0] += 1
    demand = rng.integers(0, 5, (BATCH, M))
    if balanced:
        demand = np.array([rng.multinomial(x.sum(), np.ones(M) / M) for x in supply])
    moved = rng.integers(0, np.minimum(supply.sum(1), demand.sum(1)) + 1)
    unmatched = rng.integers(-9, 10, (BATCH, N)).astype(np.float64)
    unit = 1 if whole else 7.0
    return cost, supply / unit if not whole else supply, demand / unit, moved / unit, unmatched


def linear_program(cost, supply, demand, *, moved=None, unmatched=None):
    """The least cost of one problem, or None without a plan."""
    rows, cols = np.kron(np.eye(N), np.ones(M)), np.kron(np.ones(N), np.eye(M))
    sums, masses = np.vstack([rows, cols]), np.concatenate([supply, demand])
    c = cost if unmatched is None else cost - unmatched[:, None]
    used = np.isfinite(c.ravel())
    some = {"c": np.where(used, c.ravel(), 0), "bounds": [(0, None if u else 0) for u in used]}
    if moved is not None:
        some |= {"A_eq": np.ones((1, N * M)), "b_eq": [moved]}
    if moved is None and unmatched is None:
        some |= {"A_eq": sums, "b_eq": masses}
    else:
        some |= {"A_ub": sums, "b_ub": masses}
    found = linprog(**some)
    stays = 0 if unmatched is None else (unmatched * supply).sum()
    return found.fun + stays if found.status == 0 else None


def given_of(kind, moved, unmatched):
    return {"partial": {"partial": moved}, "unmatched": {"unmatched_cost": unmatched}}.get(kind, {})


@pytest.mark.parametrize("method", ["network_simplex", "xla"])
@pytest.mark.parametrize("whole", [True, False], ids=["integers", "floats"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum(kind, whole, method):
    cost, supply, demand, moved, unmatched = problems(1, whole=whole, balanced=kind == "all")
    cost[::3, 1, 2] = np.inf
    # The twin compiles for seconds: with one direction for each kind of masses.
    for maximize in (whole,) if method == "xla" else (False, True):
        sign = -1 if maximize else 1
        given = given_of(kind, moved, sign * unmatched)
        with x64(True):
            arrays = [jnp.asarray(x) for x in (sign * cost, supply, demand)]
            options = {"maximize": maximize} | {k: jnp.asarray(x) for k, x in given.items()}
            res = jm.solve_transport(*arrays, method=method, **options)
            res, check = to_numpy((res, jm.check_transport(*arrays, res, **options)))
        for k in range(BATCH):
            one = {"moved": moved[k]} if kind == "partial" else {}
            one |= {"unmatched": unmatched[k]} if kind == "unmatched" else {}
            expected = linear_program(cost[k], supply[k], demand[k], **one)
            if expected is None:
                assert res.status[k] == jm.Status.INFEASIBLE
                continue
            assert res.status[k] == jm.Status.OPTIMAL and check.valid[k]
            np.testing.assert_allclose(sign * res.cost[k], expected, rtol=1e-9, atol=1e-9)
            assert check.gap[k] <= (0 if whole else 1e-12)


def cost_of(*args):
    return jm.solve_transport(*args).cost


def test_each_side_pays_half_of_the_cost():
    rng = np.random.default_rng(3)
    cost, a, b = rng.normal(size=(N, M)), rng.dirichlet(np.ones(N)), rng.dirichlet(np.ones(M))
    with x64(True):
        value, slopes = jax.value_and_grad(cost_of, (1, 2))(*map(jnp.asarray, (cost, a, b)))
    paid = [np.asarray(slope) @ mass for slope, mass in zip(slopes, (a, b), strict=True)]
    np.testing.assert_allclose(paid, [value / 2] * 2, atol=1e-12)


def test_statuses():
    solve = partial(jm.solve_transport, np.ones((2, 2), np.float32))
    name = {
        "UNBALANCED": [solve([1, 2], [1, 1]), solve([1, 2], [2, 2], partial=4)],
        "INVALID_MASS": [solve([-1, 2], [0, 1]), solve([1, 2], [2, 1], partial=-1)],
        "OVERFLOW": [solve(np.full(2, 2**59), np.full(2, 2**59))],
        "OPTIMAL": [solve([0, 0], [0, 0]), solve([1, 2], [2, 2], partial=3)],
        "INVALID_COST": [jm.solve_transport(np.array([[np.nan]]), [1], [1])],
        "INFEASIBLE": [jm.solve_transport(np.array([[np.inf]]), [1], [1])],
    }
    for expected, results in name.items():
        for res in results:
            assert jm.Status(int(res.status)).name == expected
            assert np.isnan(res.cost) == (expected != "OPTIMAL")


def test_errors():
    cost = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"`supply` must have shape \[\.\.\., 2\]"):
        jm.solve_transport(cost, [1, 1, 1], [1, 1])
    with pytest.raises(ValueError, match="`partial` and `unmatched_cost` exclude each other"):
        jm.solve_transport(cost, [1, 1], [1, 1, 1], partial=1, unmatched_cost=1.0)
    with pytest.raises(TypeError, match="`unmatched_cost` must be an integer"):
        jm.solve_transport(cost.astype(int), [1, 1], [1, 1, 1], unmatched_cost=0.5)
    with pytest.raises(TypeError, match="`partial` must be an integer"):
        jm.solve_transport(cost, [1, 1], [1, 1, 1], partial=0.5)
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.solve_transport(cost, [1, 1], [1, 1, 1], method="simplex")
