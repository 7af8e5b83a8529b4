"""`checkify` around public functions: it carries a user's error out, and looks into no solver."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from export_cases import cases
from jax.experimental import checkify

import jaxmatch as jm
from jaxmatch import estimators, losses


the_cases = lru_cache(cases)

COSTS = jax.random.uniform(jax.random.key(0), (4, 3, 3))
THIRD = jnp.full(3, 1 / 3)


def step(c):
    """The pattern of `raise_for_status`."""
    res = jm.solve_assignment(c)
    checkify.check((res.status == jm.Status.OPTIMAL).all(), "unsolved")
    return res.cost.sum()


def in_scan(c):
    return jax.lax.scan(lambda total, one: (total + step(one), None), 0.0, c)[0]


def in_while_loop(c):
    return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + step(c)), (0, 0.0))[1]


@pytest.mark.parametrize(
    "program",
    [
        jax.vmap(checkify.checkify(step)),
        checkify.checkify(jax.vmap(step)),
        checkify.checkify(jax.grad(step)),
        jax.grad(lambda c: checkify.checkify(step)(c)[1]),
        checkify.checkify(in_scan),
        checkify.checkify(jax.grad(in_scan)),
        checkify.checkify(in_while_loop),
        checkify.checkify(jax.vmap(in_while_loop)),
        checkify.checkify(jax.checkpoint(step)),
        checkify.checkify(jax.hessian(step)),
        checkify.checkify(step, errors=checkify.all_checks),
    ],
)
def test_programs_around_a_batch(program):
    out = jax.jit(program)(COSTS)
    if isinstance(out, tuple):
        assert out[0].get() is None


@pytest.mark.parametrize("name", the_cases())
def test_every_function(name):
    case = the_cases()[name]
    error, _ = jax.jit(checkify.checkify(lambda *x: case.function(*x)))(*case.inputs)
    assert error.get() is None


VMAPPED = {
    "xla": partial(jm.solve_assignment, method="xla"),
    "capacities": partial(jm.solve_capacitated_assignment, col_capacity=2),
    "transport": lambda c: jm.solve_transport(c, THIRD, THIRD),
    "partial": lambda c: jm.solve_transport(c, THIRD, THIRD, partial=0.5),
    "k_best": lambda c: jm.k_best_assignments(c, 2),
    "bottleneck": partial(jm.bottleneck_assignment, lexicographic=True),
    "grid_cut": lambda c: jm.grid_cut(c, 1 - c, jnp.stack([c, c])),
    "radius": lambda c: jm.solve_assignment_points(c, 1 - c, radius=0.5, unmatched_cost=1.0),
    "points": lambda c: jm.solve_assignment_points(c, 1 - c).cost,
    "perturbed": lambda c: jm.assignment_matrix(
        c, estimator=estimators.Perturbed(num_samples=2), key=jax.random.key(1)
    ),
    "earth_mover_distance": lambda c: losses.earth_mover_distance(c, 1 - c),
    "bottleneck, a check": lambda c: jm.check_bottleneck(c, jm.bottleneck_assignment(c)),
    "grid_cut, a check": lambda c: jm.check_grid_cut(
        c, 1 - c, jnp.stack([c, c]), jm.grid_cut(c, 1 - c, jnp.stack([c, c]))
    ),
}


@pytest.mark.parametrize("name", VMAPPED)
def test_of_a_vmap(name):
    """Loops of a solver then have a condition for each problem, which `checkify` refuses."""
    solve = jax.vmap(VMAPPED[name])
    error, got = jax.jit(checkify.checkify(solve))(COSTS)
    assert error.get() is None
    for want, x in zip(*map(jax.tree.leaves, (jax.jit(solve)(COSTS), got)), strict=True):
        np.testing.assert_array_equal(x, want)
