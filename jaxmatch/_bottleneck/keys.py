"""Keys: costs as integers in the same order, so that a search can bisect thresholds.

The key of a float is made of its bits, because XLA flushes denormal numbers to zero. Both zeros
have the key 0.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.full_range import widen
from jaxmatch._common.proof import bits_of, module_of
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, DTypeLike, Float, Int, Num


def as_keys(cost: Num[Array, "..."], maximize: bool) -> Int[Array, "..."]:
    """Integers in the order of the costs, best first: int64 for 64-bit costs, else int32."""
    if jnp.issubdtype(cost.dtype, jnp.integer):
        return ~cost if maximize else cost
    if cost.dtype == jnp.float64 and module_of(cost) is jnp:
        key = lax.platform_dependent(cost, tpu=_of_two_floats, default=_of_bits)
    else:
        key = _of_bits(cost)
    return -key if maximize else key


def as_numbers(key: Int[Array, "..."], dtype: DTypeLike, maximize: bool) -> Float[Array, "..."]:
    """The costs that have these keys, in the dtype of results. The key 0 gives +0."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        return (~key if maximize else key).astype(result_float())
    key = -key if maximize else key
    if dtype == jnp.float64 and module_of(key) is jnp:
        return lax.platform_dependent(key, tpu=_to_two_floats, default=_to_float64)
    return widen(_to_bits(key, dtype), result_float())


def middle(low: Int[Array, "..."], high: Int[Array, "..."]) -> Int[Array, "..."]:
    """The mean of two integers, rounded down, without overflow."""
    return (low & high) + ((low ^ high) >> 1)


def _of_bits(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """The bits of |x| as an integer, with the sign of x."""
    bits = jnp.finfo(x.dtype).bits
    signed = bits_of(x, jnp.dtype(f"int{bits}"))
    signed = signed.astype(jnp.int32) if bits < 32 else signed
    size = signed & (2 ** (bits - 1) - 1)
    return module_of(x).where(signed < 0, -size, size)


def _to_bits(key: Int[Array, "..."], dtype: np.dtype) -> Float[Array, "..."]:
    integer = jnp.dtype(f"int{jnp.finfo(dtype).bits}")
    xp = module_of(key)
    size = xp.abs(key).astype(integer)
    return bits_of(xp.where(key < 0, size | jnp.iinfo(integer).min, size), dtype)


def _to_float64(key: Int[Array, "..."]) -> Float[Array, "..."]:
    return _to_bits(key, np.dtype(np.float64))


# On a TPU a float64 is the sum of two floats, and its bits cannot be read.


def _of_two_floats(x: Float[Array, "..."]) -> Int[Array, "..."]:
    high = x.astype(jnp.float32)
    rest = jnp.where(jnp.isfinite(x), x - high.astype(x.dtype), 0).astype(jnp.float32)
    low = _of_bits(rest).astype(jnp.int64) + 2**31
    return _of_bits(high).astype(jnp.int64) * 2**32 + low


def _to_two_floats(key: Int[Array, "..."]) -> Float[Array, "..."]:
    high, low = key >> 32, (key & (2**32 - 1)) - 2**31
    high, low = (_to_bits(x.astype(jnp.int32), np.dtype(np.float32)) for x in (high, low))
    return high.astype(jnp.float64) + low.astype(jnp.float64)
