"""Floating-point arithmetic that tracks its rounding errors, for the pure-JAX solvers.

Sums are pairwise: numbers are added along an explicit binary tree, so the order of additions is the
same in any batch and on any platform.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, Bool, Float, Num


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """TwoSum (Knuth): the rounded sum and its rounding error, a float."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_up(a: Array, b: Array) -> Array:
    """An upper bound of a + b: the rounded sum, or a float above it if it was rounded down."""
    total, rest = two_sum(a, b)
    above = total + jnp.abs(total) * jnp.finfo(total.dtype).eps  # one or two floats above
    return jnp.where(rest <= 0, total, above)


def _halves(x: Float[Array, " k"]) -> tuple[Array, Array]:
    x = jnp.pad(x, (0, x.size % 2))
    return x[::2], x[1::2]


def sum_up(x: Float[Array, " k"]) -> Float[Array, ""]:
    """An upper bound of the sum of all entries; the exact sum if nothing is rounded."""
    while x.size > 1:
        x = add_up(*_halves(x))
    return x[0]


def accurate_sum(x: Float[Array, " k"]) -> Float[Array, ""]:
    """The sum of finite numbers, as accurate as if added in twice the precision.

    Partial sums do not overflow: the result is infinite only if the total is out of range.
    """
    # A factor of 2^-40 prevents overflow of up to 2^40 entries. Entries that underflow by it are
    # far below the last digit of the greatest entry.
    small = jnp.asarray(2.0**-40, x.dtype)
    factor = jnp.where(jnp.abs(x).max() > float(jnp.finfo(x.dtype).max) * small, small, 1)
    x, rest = x * factor, jnp.zeros_like(x)
    while x.size > 1:
        x, error = two_sum(*_halves(x))
        left, right = _halves(rest)
        rest = left + right + error
    return (x[0] + rest[0]) / factor


def sum_error(x: Float[Array, " k"], total: Float[Array, ""]) -> Float[Array, ""]:
    """An upper bound on |total − sum of all entries of x|; 0 if the total is exact."""
    rest, lost = jnp.zeros_like(x), jnp.zeros_like(x)
    while x.size > 1:
        x, error = two_sum(*_halves(x))
        both, less = two_sum(*_halves(rest))
        rest, more = two_sum(both, error)
        lost = sum(_halves(lost)) + jnp.abs(less) + jnp.abs(more)
    # The difference is exact, since `total` is near x[0].
    apart, part = two_sum(x[0] - total, rest[0])
    bound = (jnp.abs(apart) + jnp.abs(part) + lost[0]) * (1 + 8 * jnp.finfo(x.dtype).eps)
    return jnp.where(jnp.isfinite(bound), bound, jnp.inf)


def as_float(x: Num[Array, "..."]) -> tuple[Array, Array]:
    """x in the dtype of results, and the rounding error (0 unless x holds long integers)."""
    f = result_float()
    if not jnp.issubdtype(x.dtype, jnp.integer) or x.dtype.itemsize < f.itemsize:
        return x.astype(f), jnp.zeros_like(x, f)
    low = x & ((1 << 4 * x.dtype.itemsize) - 1)
    return two_sum((x - low).astype(f), low.astype(f))


def greatest(x: Float[Array, "..."]) -> Float[Array, ""]:
    """The largest magnitude of a finite entry of x."""
    return jnp.where(jnp.isfinite(x), jnp.abs(x), 0).max(initial=0)


def nonzero_below(x: Num[Array, "..."], limit: float) -> Bool[Array, "..."]:
    """Where 0 < |x| < limit or x is denormal. On a TPU, denormal float64 numbers are not found."""
    if x.dtype == jnp.float16 or not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.zeros_like(x, bool)  # float16 and integers are normal numbers in float32
    info = jnp.finfo(x.dtype)
    unsigned = jnp.dtype(f"uint{info.bits}")

    def by_bits(x: Array) -> Array:
        # Compare bits, because XLA may flush denormal numbers to 0.
        size = lax.bitcast_convert_type(x, unsigned) & (2 ** (info.bits - 1) - 1)
        bound = jnp.asarray(max(limit, float(info.tiny)), x.dtype)
        return (size > 0) & (size < lax.bitcast_convert_type(bound, unsigned))

    def by_value(x: Array) -> Array:
        return (x != 0) & (jnp.abs(x) < limit)

    if x.dtype != jnp.float64:
        return by_bits(x)
    # TPUs cannot bitcast float64.
    return lax.platform_dependent(x, tpu=by_value, default=by_bits)
