"""Comparisons and sums of floats including denormal numbers, for checks.

XLA flushes denormal numbers to zero, so this module reads their bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


def in_order(low: Num[Array, "..."], high: Num[Array, "..."]) -> Bool[Array, "..."]:
    """Whether 0 <= low <= high. On a TPU, denormal float64 numbers count as 0."""

    def by_value(low: Array, high: Array) -> Array:
        return (low >= 0) & (low <= high)

    def by_bits(low: Array, high: Array) -> Array:
        low, high = _rank(low), _rank(high)
        return (low >= 0) & (low <= high)

    if not jnp.issubdtype(low.dtype, jnp.floating) or module_of(low) is np:
        return by_value(low, high)
    if low.dtype != jnp.float64:
        return by_bits(low, high)
    return lax.platform_dependent(low, high, tpu=by_value, default=by_bits)


def _rank(x: Float[Array, "..."]) -> Int[Array, "..."]:
    """Integers in the order of the non-negative numbers x; -1 for NaN and negative numbers."""
    bits = jnp.dtype(f"int{jnp.finfo(x.dtype).bits}")
    signed = lax.bitcast_convert_type(x, bits)
    size = signed & jnp.iinfo(bits).max
    last = lax.bitcast_convert_type(jnp.asarray(jnp.inf, x.dtype), bits)
    return jnp.where((size == 0) | ((signed > 0) & (size <= last)), size, -1)


def widen(x: Float[Array, "..."], dtype: np.dtype) -> Float[Array, "..."]:
    """Converts to a wider dtype without flushing denormal numbers."""
    if module_of(x) is np:  # NumPy does not flush denormal numbers
        return x.astype(dtype)  # type: ignore[return-value]
    if x.dtype == jnp.bfloat16:  # numbers that are denormal in it are denormal in float32
        bits = lax.bitcast_convert_type(x, jnp.uint16).astype(jnp.uint32) << 16
        x = lax.bitcast_convert_type(bits, jnp.float32)
    if x.dtype == dtype:
        return x
    size = _rank(jnp.abs(x))
    least = float(jnp.finfo(x.dtype).smallest_subnormal)
    denormal = size.astype(dtype) * least
    is_denormal = size < 1 << jnp.finfo(x.dtype).nmant
    return jnp.where(
        is_denormal & (size >= 0), jnp.copysign(denormal, x.astype(dtype)), x.astype(dtype)
    )


class Parts(NamedTuple):
    """A number as large * 2^40 + small / 2^k, where k depends on the dtype (`_SMALL`).

    `Parts.of` splits numbers x >= 0, so that one of the two parts is 0. Linear operations apply to
    each part separately. Then no intermediate result is denormal, and no sum of finite numbers
    overflows.
    """

    large: Float[Array, "..."]
    small: Float[Array, "..."]

    @classmethod
    def of(cls, x: Float[Array, "..."]) -> Parts:
        below, k = _SMALL[x.dtype.name]
        info = jnp.finfo(x.dtype)

        def by_value(x: Array) -> Array:
            return x * 2.0**k

        def by_bits(x: Array) -> Array:
            rank = _rank(x)
            denormal = rank.astype(x.dtype) * 2.0 ** (info.minexp - info.nmant + k)
            return jnp.where(rank < 1 << info.nmant, denormal, by_value(x))

        xp = module_of(x)
        if xp is np:
            small = by_value(x)
        elif x.dtype == jnp.float64:
            small = lax.platform_dependent(x, tpu=by_value, default=by_bits)
        else:
            small = by_bits(x)
        is_small = xp.abs(x) < 2.0**below
        return cls(xp.where(is_small, 0, x * 2.0**-_ROOM), xp.where(is_small, small, 0))

    def map(self, f: Callable[[Array], Array]) -> Parts:
        return Parts(f(self.large), f(self.small))

    def plus(self, other: Parts) -> Parts:
        return Parts(self.large + other.large, self.small + other.small)

    def minus(self, other: Parts) -> Parts:
        return self.plus(other.map(operator.neg))

    def whole(self) -> tuple[Array, Array]:
        """The number in units of 2^40, and in units of 1 / 2^k.

        In units of 2^40 the small part may be lost. In units of 1 / 2^k the number may overflow.
        """
        scale = 2.0 ** (_SMALL[self.large.dtype.name][1] + _ROOM)
        # XLA may merge `scale` with an earlier constant factor into inf, and 0 * inf is NaN.
        scaled = module_of(self.large).where(self.large == 0, 0, self.large * scale)
        return self.large + self.small / scale, scaled + self.small

    def at_most(self, bound: Parts) -> Bool[Array, "..."]:
        (x, x_scaled), (most, most_scaled) = self.whole(), bound.whole()
        return module_of(x).where(bound.large == 0, x_scaled <= most_scaled, x <= most)

    def within(self, bound: Parts) -> Bool[Array, "..."]:
        """Whether the magnitude is at most `bound`."""
        return self.at_most(bound) & self.map(operator.neg).at_most(bound)


# For each dtype (below, k): `small` holds numbers below 2^below, scaled by 2^k.
_SMALL = {"float32": (-40, 80), "float64": (-400, 700)}
_ROOM = 40  # bits of headroom: sums of up to 2^31 numbers, times a node's degree, stay finite


def choose(condition: Array, a: Parts, b: Parts) -> Parts:
    return Parts(*(module_of(x).where(condition, x, y) for x, y in zip(a, b, strict=True)))
