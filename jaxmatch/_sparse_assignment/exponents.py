"""Binary exponents of costs. Costs whose exponent reaches a limit count as infinite."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import as_float
from jaxmatch._common.typing import Array, Float, Int, Num


def no_limit() -> int:
    """A limit that exceeds the biased exponents of all floats."""
    return 2 * jnp.finfo(result_float()).maxexp


def exponents(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """The biased binary exponents of floats in the dtype of results; −1 for zero."""
    info = jnp.finfo(x.dtype)
    bits = jnp.dtype(f"int{info.bits}")

    def by_bits(x: Array) -> Array:
        size = lax.bitcast_convert_type(x, bits) & jnp.iinfo(bits).max
        return jnp.where(size > 0, size >> info.nmant, -1).astype(jnp.int32)

    def by_value(x: Array) -> Array:
        size = jnp.abs(x)
        power = jnp.floor(jnp.log2(jnp.where(size > 0, size, 1))) + (info.maxexp - 1)
        power = power.clip(0, 2 * info.maxexp - 1).astype(jnp.int32)
        return jnp.where(size > 0, power, -1)

    if x.dtype != jnp.float64:
        return by_bits(x)
    # TPUs cannot bitcast float64.
    return lax.platform_dependent(x, tpu=by_value, default=by_bits)


def minimized(
    x: Num[Array, "..."], limit: Int[Array, ""] | None, *, sign: int
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """sign·x as a float and a rest (see `as_float`); +inf where the exponent reaches `limit`."""
    x, rest = as_float(x)
    x, rest = sign * x, sign * rest
    if limit is not None:
        x = jnp.where((x > 0) & (exponents(x) >= limit), jnp.inf, x)
        rest = jnp.where(x < jnp.inf, rest, 0)
    return x, rest
