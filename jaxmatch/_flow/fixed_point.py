"""Capacities in fixed point (integer multiples of a unit), and saturating sums of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.typing import Array, Bool, Float, Int, Num


def integer_and_most() -> tuple[np.dtype, int]:
    """The integer dtype of flows in the pure-JAX solver, and `most`, at which sums saturate."""
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(np.int64))
    return dtype, 2**61 if dtype.itemsize == 8 else 2**31 - 1


def bits_of_bound() -> int:
    """The number k of bits of a bound on the flow: with the chosen unit, it is about 2^k units.

    This is about half of `most`, so roundings do not make it saturate.
    """
    return 60 if integer_and_most()[0].itemsize == 8 else 30


def stopping_sum(a: Array, b: Array | int) -> tuple[Array, Array]:
    """a + b for numbers from 0 to `most`, saturating at `most`; and whether the sum saturated."""
    _, most = integer_and_most()
    beyond = a > most - b
    return jnp.where(beyond, most, a + b), beyond


def running_sums(position: Int[Array, " k"], x: Int[Array, " k"]) -> tuple[Array, Array]:
    """Inclusive segmented prefix sum, saturating at `most`; also returns which entries saturated.

    `position` is the position of an entry in its segment. Computed by doubling: in round k each
    entry adds the sum of the entry 2^k places before it, until the longest segment is covered.
    """
    size, longest = x.size, position.max() + 1

    def earlier(x: Array, shift: Array) -> Array:
        return lax.dynamic_slice(jnp.concatenate([x, x]), (size - shift,), (size,))

    def double(state: tuple[Array, ...]) -> tuple[Array, ...]:
        shift, sums, beyond = state
        total, more = stopping_sum(earlier(sums, shift), sums)
        more |= beyond | earlier(beyond, shift)
        reaches = position >= shift
        sums = jnp.where(reaches, total, sums)
        return 2 * shift, sums, jnp.where(reaches, more, beyond)

    start = (0 * longest + 1, x, jnp.zeros_like(x, bool))
    _, sums, beyond = lax.while_loop(lambda state: state[0] < longest, double, start)
    return sums, beyond


def before(position: Int[Array, " k"], sums: Int[Array, " k"]) -> Int[Array, " k"]:
    """Converts inclusive segmented prefix sums to exclusive ones."""
    return jnp.where(position == 0, 0, jnp.roll(sums, 1))


def totals(x: Int[Array, "m k"]) -> Int[Array, " m"]:
    """The sum of each row, saturating at `most`."""
    while x.shape[-1] > 1:
        x = jnp.pad(x, ((0, 0), (0, x.shape[-1] % 2)))
        x, _ = stopping_sum(x[:, ::2], x[:, 1::2])
    return x[:, 0]


# ---------------------------------------------------------------------------------------------
# Units: powers of two, given by their exponents


def times_power(x: Float[Array, "..."], exponent: Int[Array, "..."]) -> Float[Array, "..."]:
    """x · 2^exponent, by three exact factors: 2^exponent alone may overflow."""
    info = jnp.finfo(x.dtype)
    third = exponent // 3
    for part in (third, third, exponent - 2 * third):
        x = x * _power(part.clip(info.minexp, info.maxexp - 1), x.dtype)
    return x


def _power(exponent: Int[Array, "..."], dtype: np.dtype) -> Float[Array, "..."]:
    info = jnp.finfo(dtype)
    bits = jnp.dtype(f"int{info.bits}")
    biased = exponent.astype(bits) + (info.maxexp - 1)
    return lax.bitcast_convert_type(biased << info.nmant, dtype)


def frexp(x: Float[Array, "..."]) -> tuple[Float[Array, "..."], Int[Array, "..."]]:
    """`numpy.frexp` of finite non-negative numbers; the exponent of a subnormal number is 0.

    Used in place of `jnp.frexp`, which in JAX 0.12.0 loses the varying axes of the exponent in a
    `shard_map`.
    """
    info = jnp.finfo(x.dtype)
    biased = lax.bitcast_convert_type(x, jnp.dtype(f"int{info.bits}")) >> info.nmant
    exponent = jnp.where(biased > 0, biased - (info.maxexp - 2), 0).astype(jnp.int32)
    return times_power(x, -exponent), exponent


def exponent_of_sum(x: Float[Array, " k"]) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """An exponent k such that the finite entries sum to at most 2^k, and whether all of them are 0.

    The sum may exceed 2^k by a few roundings. k is right even if the sum itself would overflow.
    """
    x = jnp.where(x < jnp.inf, x, 0)
    _, high = frexp(x.max())
    _, low = frexp(times_power(x, -high).sum())
    return (high + low).astype(jnp.int32), (x == 0).all()


def in_units(x: Float[Array, " k"], exponent: Int[Array, ""]) -> Int[Array, " k"]:
    """x / 2^exponent, rounded down so that no flow exceeds a capacity, and saturated at `most`."""
    integer, most = integer_and_most()
    # The largest float that is at most `most`.
    top = np.nextafter(np.asarray(most + 1, x.dtype), np.asarray(0, x.dtype))
    return jnp.minimum(jnp.floor(times_power(x, -exponent)), top).astype(integer)


def is_fine(
    exponent: Int[Array, ""], cut: Float[Array, ""], rounded: Bool[Array, ""]
) -> Bool[Array, ""]:
    """Whether units of 2^exponent were fine enough, where `cut` is the capacity of the cut found.

    If so, the upper bound on the flow is at most 2^10 times the flow. If capacities were `rounded`
    to units, one unit is also at most 2^-50 of the flow (2^-26 without x64).
    """
    bits = bits_of_bound()
    most = jnp.where(rounded, 9 if bits == 60 else 3, 9)
    return (cut == 0) | ~jnp.isfinite(cut) | (exponent + bits <= frexp(cut)[1] + most)


def is_usable(capacity: Num[Array, "... e"]) -> Bool[Array, "..."]:
    """Whether no capacity is NaN or negative."""
    dtype = capacity.dtype
    if not jnp.issubdtype(dtype, jnp.floating):
        return (capacity >= 0).all(-1)
    bits = jnp.dtype(f"int{jnp.finfo(dtype).bits}")

    def by_bits(x: Array) -> Array:
        """Compares bits, as XLA flushes denormal numbers to zero.

        As integers, the bits of NaN are greater than those of infinity.
        """
        sign = lax.bitcast_convert_type(x, bits)
        size = sign & jnp.iinfo(bits).max
        infinite = lax.bitcast_convert_type(jnp.asarray(jnp.inf, dtype), bits)
        return ((size == 0) | ((sign > 0) & (size <= infinite))).all(-1)

    if dtype != jnp.float64:
        return by_bits(capacity)
    # TPUs cannot bitcast float64.
    return lax.platform_dependent(capacity, tpu=lambda x: (x >= 0).all(-1), default=by_bits)
