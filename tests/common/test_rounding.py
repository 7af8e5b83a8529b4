"""Sums in twice the precision."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxmatch._common.rounding import accurate_sum


def test_digits_that_a_plain_sum_loses():
    x = jnp.array([1e8, 1, -1e8, 0.5, 1e-9], jnp.float32)
    assert float(accurate_sum(x)) == np.float32(1.5)


def test_parts_beyond_the_range():
    x = jnp.array([3e38, 3e38, 1, -3e38, -2e38], jnp.float32)
    assert float(accurate_sum(x)) == np.float32(np.asarray(x, np.float64).sum())


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_sums_beyond_the_range_are_infinite(sign, count):
    x = jnp.full(count, sign * 3e38, jnp.float32)
    assert float(accurate_sum(x)) == sign * np.inf
