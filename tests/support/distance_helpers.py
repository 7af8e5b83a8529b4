"""Compiled functions in float64, and their derivatives by finite differences."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from helpers import x64


# Compiled once for all values.
@cache
def compiled(function, **options):
    return jax.jit(partial(function, **options))


def in_x64(function, *arrays, **options):
    """The result as NumPy arrays, of the compiled function of float64 arrays."""
    with x64(True):
        arrays = [None if x is None else jnp.asarray(x, float) for x in arrays]
        return jax.tree.map(np.asarray, compiled(function, **options)(*arrays))


def assert_gradient(function, arrays, seed=0, step=1e-6):
    """The derivative along random directions, in float64."""
    with x64(True):
        arrays = [jnp.asarray(x) for x in arrays]
        function = jax.jit(function)
        grads = jax.jit(jax.grad(function, argnums=tuple(range(len(arrays)))))(*arrays)
        rng = np.random.default_rng(seed)
        for k, grad in enumerate(grads):
            way = jnp.asarray(rng.normal(size=arrays[k].shape))
            up, down = (
                function(*arrays[:k], arrays[k] + s * way, *arrays[k + 1 :]) for s in (step, -step)
            )
            slope = float((grad * way).sum())
            np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)
            tangents = [way if i == k else jnp.zeros_like(x) for i, x in enumerate(arrays)]
            forward = jax.jvp(function, arrays, tangents)[1]
            np.testing.assert_allclose(forward, slope, rtol=1e-10, atol=1e-12)
