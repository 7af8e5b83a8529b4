"""Orders of points along Hilbert's curve: neighbours in it are near each other."""

from __future__ import annotations

import jax.numpy as jnp

from jaxmatch._assignment_points.level_arrays import order_of
from jaxmatch._common.promotion import module_of
from jaxmatch._common.typing import Array, Float, Int


def orders_along_curve(
    x: Float[Array, "n d"], y: Float[Array, "m d"]
) -> tuple[Int[Array, " n"], Int[Array, " m"]]:
    """The orders of both sets along one curve, as Skilling (2004) computes it."""
    xp, dims = module_of(x), x.shape[-1]
    bits = min(62 // dims, 31)
    # Points that are not finite have no place, and must not change those of others.
    x, y = (xp.where(xp.isfinite(p), p, 0).astype(xp.float64) for p in (x, y))
    least = xp.minimum(x.min(0), y.min(0))
    width = xp.maximum((xp.maximum(x.max(0), y.max(0)) - least).max(), jnp.finfo(x.dtype).tiny)

    def order(points: Array) -> Array:
        cells = ((points - least[None]) / width * (2.0**bits - 1)).astype(xp.uint64)
        at = list(cells.T)
        for bit in reversed(range(1, bits)):
            low = xp.uint64((1 << bit) - 1)
            for axis in range(dims):
                upper = (at[axis] >> bit & 1).astype(bool)
                swapped = (at[0] ^ at[axis]) & low
                first = xp.where(upper, at[0] ^ low, at[0] ^ swapped)
                if axis:
                    at[axis] = xp.where(upper, at[axis], at[axis] ^ swapped)
                at[0] = first if axis else xp.where(upper, first, at[0])
        for axis in range(1, dims):
            at[axis] ^= at[axis - 1]
        turn = xp.zeros_like(at[0])
        for bit in reversed(range(1, bits)):
            low = xp.uint64((1 << bit) - 1)
            turn ^= xp.where((at[-1] >> bit & 1).astype(bool), low, xp.uint64(0))
        key = xp.zeros_like(at[0])
        for bit in reversed(range(bits)):
            for axis in range(dims):
                key = key << 1 | ((at[axis] ^ turn) >> bit & 1)
        return order_of(key)

    return order(x), order(y)
