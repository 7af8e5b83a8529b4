"""JAX's `checkify`, which `raise_for_status` recommends, could not go around a batch of problems.
The error of the caller comes out, and names the problem under `vmap`."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import checkify

import jaxmatch as jm


def step(c):
    res = jm.solve_assignment(c)
    checkify.check((res.status == jm.Status.OPTIMAL).all(), "unsolved")
    return res.cost.sum()


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["outside of jit", "jit"])
def test_checkify_around_a_batch(run):
    good = jax.random.uniform(jax.random.key(0), (4, 3, 3))
    error, value = run(checkify.checkify(step))(good)
    assert error.get() is None and value == jm.solve_assignment(good).cost.sum()
    bad = good.at[2, 0, 0].set(jnp.nan)
    error, value = run(checkify.checkify(step))(bad)
    assert error.get().startswith("unsolved") and jnp.isnan(value)
    with pytest.raises(checkify.JaxRuntimeError, match="unsolved"):
        error.throw()
    errors, _ = run(jax.vmap(checkify.checkify(step)))(bad)
    assert "at mapped index 2: unsolved" in errors.get()
