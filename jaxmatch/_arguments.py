"""Costs, masks and duals as users hand them over: arrays that the solvers take, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._result import Assignment, result_float


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Num


_DTYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64")


def as_array(name: str, x: ArrayLike) -> Array:
    """As `jnp.asarray`, which without x64 would cut long integers to 32 bits in silence."""
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


def as_cost(cost: ArrayLike) -> Num[Array, "... n m"]:
    cost = as_array("cost", cost)
    if cost.dtype in (jnp.bool_, jnp.int8, jnp.uint8, jnp.int16, jnp.uint16):
        cost = cost.astype(jnp.int32)
    if cost.dtype.name not in _DTYPES:
        raise TypeError(f"`cost` must have one of the dtypes {_DTYPES}, got {cost.dtype}; cast it.")
    if cost.ndim < 2:
        raise ValueError(f"`cost` must have shape [..., n, m], got {cost.shape}.")
    return cost


def _broadcast(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    try:
        return jnp.broadcast_to(x, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` has shape {x.shape}, which does not broadcast to {shape} "
            "(the batch shape of `cost` and one entry per row or column)."
        ) from None


def as_mask(name: str, mask: ArrayLike | None, shape: tuple[int, ...]) -> Bool[Array, "..."] | None:
    if mask is None:
        return None
    mask = jnp.asarray(mask)
    if mask.dtype != jnp.bool_:
        raise TypeError(f"`{name}` must be boolean (True: the entry exists), got {mask.dtype}.")
    return _broadcast(name, mask, shape)


def as_unmatched_cost(unmatched_cost: ArrayLike | None, cost: Array) -> Num[Array, "... n"] | None:
    if unmatched_cost is None:
        return None
    r = as_array("unmatched_cost", unmatched_cost)
    if jnp.issubdtype(r.dtype, jnp.floating):
        # Not wider: XLA would take denormal numbers for zero.
        r = r.astype(jnp.float32) if r.dtype.itemsize == 2 else r
    elif jnp.issubdtype(r.dtype, jnp.integer) or r.dtype == jnp.bool_:
        # Integers stay integers beside integer costs: float32 would round them.
        integral = jnp.issubdtype(cost.dtype, jnp.integer)
        r = r.astype(jax.dtypes.canonicalize_dtype(np.int64) if integral else result_float())
    else:
        raise TypeError(f"`unmatched_cost` must be real, got {r.dtype}.")
    return _broadcast("unmatched_cost", r, cost.shape[:-1])


def as_col_dual(
    warm_start: Assignment | ArrayLike | None, shape: tuple[int, ...]
) -> Float[Array, "... m"] | None:
    if warm_start is None:
        return None
    v = warm_start.col_dual if isinstance(warm_start, Assignment) else jnp.asarray(warm_start)
    if not jnp.issubdtype(v.dtype, jnp.floating) and not jnp.issubdtype(v.dtype, jnp.integer):
        raise TypeError(f"`warm_start` must be an Assignment or real column duals, got {v.dtype}.")
    return lax.stop_gradient(_broadcast("warm_start", v.astype(result_float()), shape))
