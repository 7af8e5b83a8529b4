"""A start is a hint: whatever it is, the answer is the optimum, and the check proves it."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from subjects import BATCH, METHODS, SUBJECTS


def takes_starts(solve):
    solve = inspect.unwrap(solve.func if isinstance(solve, partial) else solve)
    found = inspect.signature(solve).parameters
    return "warm_start" in found or any(x.kind is x.VAR_KEYWORD for x in found.values())


# Their starts are flows: see flow/test_flow_warm.py and grid_cut/test_grid_cut_warm.py.
FLOWS = ("flow", "minimum cut", "grid cut")
STARTED = [name for name, row in SUBJECTS.items() if takes_starts(row.solve) and name not in FLOWS]
CASES = [(name, method) for name, method in METHODS if name in STARTED]


def solver(row, method="auto"):
    """Of a batch: `(start, *problems)`."""
    one = row.one(method)
    if not row.alone:
        return lambda start, *given: one(*given, warm_start=start)
    axes = (0,) + (None,) * row.shared
    return lambda start, *given: jax.vmap(
        lambda start, *x: one(*x, warm_start=start), axes + (0,) * (len(given) - row.shared)
    )(start, *given)


def duals_of(res):
    """The field that may be passed in place of a result."""
    names = ("col_dual", "potential", "col4row")
    return next(getattr(res, name) for name in names if hasattr(res, name))


def starts(res):
    """Results of these problems and of others, one that failed, and numbers that mean nothing."""
    array = duals_of(res)
    rng = np.random.default_rng(3)
    found = {
        "own": res,
        "the next problem's": jax.tree.map(lambda x: jnp.roll(x, 1, 0), res),
        "own, as an array": array,
        "zeros": jnp.zeros_like(array),
    }
    if jnp.issubdtype(array.dtype, jnp.inexact):
        noise = jnp.asarray(rng.normal(size=array.shape), array.dtype)
        found |= {
            "near": array + noise / 64,
            "far": 1e6 * noise,
            "NaN": jnp.full_like(array, jnp.nan),
            "some infinite": array.at[:, ::2].set(jnp.inf),
        }
    return found


@pytest.mark.parametrize("name, method", CASES)
def test_any_start(name, method, platform):
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    cold, solve = jax.jit(row.call(method))(*given), jax.jit(solver(row, method))
    check = jax.jit(row.checked())
    for kind, start in starts(cold).items():
        res = solve(start, *given)
        assert (np.asarray(res.status) == 0).all(), kind
        found, expected = (np.asarray(getattr(x, row.value)) for x in (res, cold))
        np.testing.assert_array_equal(found, expected, err_msg=kind)
        assert np.asarray(check(*given, res).valid).all(), kind


@pytest.mark.parametrize("name", [name for name in STARTED if SUBJECTS[name].numbers])
def test_each_problem_has_its_own_start(name):
    """One that is useless leaves the others warm; a result that failed is no start."""
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    solve, cold = jax.jit(solver(row)), jax.jit(row.call())(*given)
    broken = [*given]
    at = row.numbers[0]
    broken[at] = given[at].at[2].set(jnp.nan)
    failed = jax.jit(row.call())(*broken)
    assert failed.status[2] != 0
    warm, mixed = solve(cold, *given), solve(failed, *given)
    for k in range(BATCH):
        expected = cold if k == 2 else warm
        assert_same_bits(*(jax.tree.map(lambda x, k=k: x[k], x) for x in (mixed, expected)))


@pytest.mark.parametrize("name", STARTED)
def test_in_a_scan(name):
    """The last result is the next start: it has one structure, and problems their optimum."""
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    shared, own = given[: row.shared], given[row.shared :]
    cold = jax.jit(row.call())(*given)

    def step(last, problem):
        res = row.one()(*shared, *problem, warm_start=last)
        return res, (getattr(res, row.value), res.status)

    first = jax.tree.map(lambda x: x[0], cold)
    _, (value, status) = jax.jit(lambda x: jax.lax.scan(step, first, x))(own)
    assert not np.asarray(status).any()
    np.testing.assert_array_equal(value, getattr(cold, row.value))


@pytest.mark.parametrize("name", [name for name in STARTED if SUBJECTS[name].numbers])
def test_no_gradient_flows_through_a_start(name):
    row = SUBJECTS[name]
    given = jax.tree.map(jnp.asarray, row.instance())
    start = duals_of(jax.jit(row.call())(*given))
    slope = jax.grad(lambda v: getattr(solver(row)(v, *given), row.value).sum())(start)
    assert not np.asarray(slope).any()
