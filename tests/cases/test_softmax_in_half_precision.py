"""The masses of a softmax in float16 or bfloat16 sum to 1 but for its roundings, and were called
unbalanced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transport_truth import assert_moves

import jaxmatch as jm
from jaxmatch import Status


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["float16", "bfloat16"])
def test_softmax_in_half_precision(dtype):
    random = np.random.default_rng(0)
    cost = jnp.asarray(random.random((50, 7)), jnp.float32)
    a, b = jax.nn.softmax(jnp.asarray(random.normal(size=50), dtype)), jnp.full(7, 1 / 7, dtype)
    res = jm.solve_transport(cost, a, b)
    assert_moves(res, *(np.asarray(x, np.float64) for x in (a, b)), 1e-6)
    assert jm.check_transport(cost, a, b, res).valid
    assert jm.solve_transport(cost, a, 1.5 * b).status == Status.UNBALANCED
    whole = a.astype(jnp.float32).sum()
    part = jm.solve_transport(cost, a, b, partial=(whole * 1.003).astype(dtype))
    assert part.status == Status.OPTIMAL
