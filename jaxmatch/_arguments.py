"""Costs, masks and duals as users hand them over: arrays that the solvers take, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._host import BY_JAX, Place
from jaxmatch._result import result_float


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Num


_DTYPES = tuple(map(jnp.dtype, ("bfloat16", "float16", "float32", "float64", "int32", "int64")))
_NARROW = tuple(map(np.dtype, ("bool", "int8", "uint8", "int16", "uint16")))  # become int32


def as_array(name: str, x: ArrayLike, place: Place = BY_JAX) -> Array:
    """As `asarray` of NumPy or JAX, which would cut long integers to 32 bits in silence."""
    if place.native:
        return np.asarray(x)  # type: ignore[return-value]
    if not isinstance(x, jax.Array):
        x = np.asarray(x)
        kept = np.dtype(jax.dtypes.canonicalize_dtype(x.dtype))
        if x.dtype.kind in "iu" and kept != x.dtype and x.size:
            fits = np.iinfo(kept)
            if x.min() < fits.min or x.max() > fits.max:
                raise ValueError(
                    f"`{name}` holds integers that do not fit {kept}, to which JAX would cut "
                    f"{x.dtype}. Set `jax_enable_x64`, or scale them down."
                )
    return jnp.asarray(x)


def as_cost(cost: ArrayLike, place: Place = BY_JAX) -> Num[Array, "... n m"]:
    cost = as_array("cost", cost, place)
    if cost.dtype in _NARROW:
        cost = cost.astype(jnp.int32)
    if cost.dtype not in _DTYPES:
        names = tuple(dtype.name for dtype in _DTYPES)
        raise TypeError(f"`cost` must have one of the dtypes {names}, got {cost.dtype}; cast it.")
    if cost.ndim < 2:
        raise ValueError(f"`cost` must have shape [..., n, m], got {cost.shape}.")
    return cost


def as_int32(x: Array) -> Array:
    """The same numbers in 32 bits, where these suffice, for solvers that are made for them."""
    if x.dtype != np.int64 or x.size == 0:
        return x
    fits = np.iinfo(np.int32)
    if x.min() < fits.min or x.max() > fits.max:
        return x
    return x.astype(np.int32)


def _broadcast(name: str, x: Array, shape: tuple[int, ...], xp: Any) -> Array:
    if x.shape == shape:
        return x
    try:
        return xp.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` has shape {x.shape}, which does not broadcast to {shape} "
            "(the batch shape of `cost` and one entry per row or column)."
        ) from None


def as_mask(
    name: str, mask: ArrayLike | None, shape: tuple[int, ...], place: Place = BY_JAX
) -> Bool[Array, "..."] | None:
    if mask is None:
        return None
    x = place.xp.asarray(mask)
    if x.dtype != jnp.bool_:
        raise TypeError(f"`{name}` must be boolean (True: the entry exists), got {x.dtype}.")
    return _broadcast(name, x, shape, place.xp)


def as_unmatched_cost(
    unmatched_cost: ArrayLike | None, cost: Array, place: Place = BY_JAX
) -> Num[Array, "... n"] | None:
    if unmatched_cost is None:
        return None
    r = as_array("unmatched_cost", unmatched_cost, place)
    if jnp.issubdtype(r.dtype, jnp.floating):
        # Not wider: XLA would take denormal numbers for zero.
        r = r.astype(jnp.float32) if r.dtype.itemsize == 2 else r
    elif jnp.issubdtype(r.dtype, jnp.integer) or r.dtype == jnp.bool_:
        # Integers stay integers beside integer costs: float32 would round them.
        integral = jnp.issubdtype(cost.dtype, jnp.integer)
        r = r.astype(jax.dtypes.canonicalize_dtype(np.int64) if integral else result_float())
    else:
        raise TypeError(f"`unmatched_cost` must be real, got {r.dtype}.")
    return _broadcast("unmatched_cost", r, cost.shape[:-1], place.xp)


def as_col_dual(
    col_dual: ArrayLike | None, shape: tuple[int, ...], place: Place = BY_JAX
) -> Float[Array, "... m"] | None:
    if col_dual is None:
        return None
    v = place.xp.asarray(col_dual)
    if not jnp.issubdtype(v.dtype, jnp.floating) and not jnp.issubdtype(v.dtype, jnp.integer):
        raise TypeError(f"`warm_start` must be an Assignment or real column duals, got {v.dtype}.")
    v = _broadcast("warm_start", v.astype(result_float()), shape, place.xp)
    return v if place.native else lax.stop_gradient(v)
