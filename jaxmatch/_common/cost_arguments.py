"""Checks the arguments of all problems on a cost matrix: costs, masks, warm-start duals."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import BOOLEAN, NARROW, REAL
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num


def as_cost(
    cost: ArrayLike, place: Place = BY_JAX, name: str = "cost", *, symbolic: bool = True
) -> Num[Array, "... n m"]:
    """`symbolic`: whether n and m may be symbolic."""
    cost = as_array(name, cost, place)
    cost = cost.astype(jnp.int32) if cost.dtype in NARROW else cost
    if cost.ndim < 2:
        raise ValueError(f"`{name}` must have shape [..., n, m], got {cost.shape}.")
    if not symbolic:
        require_sizes(name, cost.shape[-2:], "mask its padding (`row_mask`, `col_mask`)")
    return cost


def broadcast(name: str, x: Array, shape: tuple[int, ...], xp: Any) -> Array:
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
    must = "be boolean (True: the entry exists)"
    x = as_array(name, mask, place, BOOLEAN, must, "")
    return broadcast(name, x, shape, place.xp)


def as_col_dual(
    col_dual: ArrayLike | None, shape: tuple[int, ...], place: Place = BY_JAX
) -> Float[Array, "... m"] | None:
    if col_dual is None:
        return None
    must = "be an Assignment or real column duals"
    v = as_array("warm_start", col_dual, place, REAL - BOOLEAN, must)
    if v.ndim > 0 and v.shape[-1] != shape[-1]:
        raise ValueError(
            f"`warm_start` has shape {v.shape}, but must have {shape}, one dual for each column "
            "(leading dimensions broadcast)."
        )
    v = broadcast("warm_start", v.astype(result_float(), copy=False), shape, place.xp)
    return v if place.native else lax.stop_gradient(v)


def check_both_given(
    unmatched_cost: ArrayLike | None, unmatched_col_cost: ArrayLike | None
) -> None:
    """Raises an error if columns may stay at a cost, but rows may not."""
    if unmatched_col_cost is not None and unmatched_cost is None:
        raise ValueError(
            "`unmatched_col_cost` needs `unmatched_cost`: pass both, +inf (-inf when maximising) "
            "for rows that must be matched."
        )
