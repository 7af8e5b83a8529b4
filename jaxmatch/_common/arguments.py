"""Costs, masks and duals as users hand them over: arrays that the solvers take, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.given import BOOLEAN, INTEGERS, NARROW, REAL, SOLVED, require, typed
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._ffi.place import BY_JAX, Place


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Num


R = TypeVar("R")

_TYPES = "('bfloat16', 'float16', 'float32', 'float64', 'int32', 'int64')"
_MUST = f"have one of the dtypes {_TYPES}"


def as_array(
    name: str,
    x: ArrayLike,
    place: Place = BY_JAX,
    dtypes: frozenset[np.dtype] = SOLVED,
    must: str = _MUST,
    advice: str = "; cast it",
) -> Array:
    """As `asarray` of NumPy or JAX, which would cut long integers to 32 bits in silence."""
    array = typed(name, x, dtypes, must, advice)
    if isinstance(array, np.ndarray) and array.dtype.itemsize == 8:
        array = _cut(name, array)
    return (np.asarray if place.native else jnp.asarray)(array)  # type: ignore[return-value]


def _cut(name: str, array: np.ndarray) -> np.ndarray:
    """In the dtype in which JAX keeps such numbers."""
    kept = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))
    if array.dtype.kind in "iu" and kept != array.dtype and array.size:
        fits = np.iinfo(kept)
        if array.min() < fits.min or array.max() > fits.max:
            raise ValueError(
                f"`{name}` holds integers that do not fit {kept}, to which JAX would cut "
                f"{array.dtype}. Set `jax_enable_x64`, or scale them down."
            )
    return array.astype(kept, copy=False)


def as_cost(cost: ArrayLike, place: Place = BY_JAX, name: str = "cost") -> Num[Array, "... n m"]:
    cost = as_array(name, cost, place)
    if cost.dtype in NARROW:
        cost = cost.astype(jnp.int32)
    if cost.ndim < 2:
        raise ValueError(f"`{name}` must have shape [..., n, m], got {cost.shape}.")
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
    must = "be boolean (True: the entry exists)"
    x = as_array(name, mask, place, BOOLEAN, must, "")
    return _broadcast(name, x, shape, place.xp)


def as_unmatched_cost(
    unmatched_cost: ArrayLike | None, cost: Array, place: Place = BY_JAX
) -> Num[Array, "... n"] | None:
    if unmatched_cost is None:
        return None
    must = f"be real and {_MUST}"
    r = as_array("unmatched_cost", unmatched_cost, place, must=must)
    if jnp.issubdtype(r.dtype, jnp.floating):
        # Not wider: XLA would take denormal numbers for zero.
        r = r.astype(jnp.float32) if r.dtype.itemsize == 2 else r
    elif jnp.issubdtype(cost.dtype, jnp.floating):
        r = r.astype(result_float())
    else:  # beside integer costs they stay integers, which float32 would round
        r = r.astype(jax.dtypes.canonicalize_dtype(np.int64))
    return _broadcast("unmatched_cost", r, cost.shape[:-1], place.xp)


def as_col_dual(
    col_dual: ArrayLike | None, shape: tuple[int, ...], place: Place = BY_JAX
) -> Float[Array, "... m"] | None:
    if col_dual is None:
        return None
    must = "be an Assignment or real column duals"
    v = as_array("warm_start", col_dual, place, REAL - BOOLEAN, must)
    v = _broadcast("warm_start", v.astype(result_float()), shape, place.xp)
    return v if place.native else lax.stop_gradient(v)


def as_result(
    result: Any,
    kind: type[R],
    fields: Mapping[str, tuple[int, ...]],
    beside: str,
    advice: str,
    argument: str = "result",
) -> R:
    """A result to be checked: these of its fields, of these shapes, as arrays; the others None.

    `beside`: the arguments that the shapes go with.
    """
    require(argument, result, kind, advice)
    looked_at = {}
    for field, shape in fields.items():
        dtypes, words = _KINDS[field]
        name = f"{argument}.{field}"
        x = as_array(name, getattr(result, field), BY_JAX, dtypes, f"be {words}", "")
        if x.shape != shape:
            raise ValueError(
                f"`{name}` must have shape {shape} to go with {beside}, got {x.shape}."
            )
        looked_at[field] = x
    others = {name: None for name in vars(result) if name not in looked_at}
    return kind(**looked_at, **others)


def as_assignment(
    result: Any, rows: tuple[int, ...], cols: tuple[int, ...], beside: str
) -> Assignment:
    """An assignment to be checked, of these shapes."""
    return as_result(
        result,
        Assignment,
        {"col4row": rows, "row4col": cols, "col_dual": cols},
        beside,
        "of pairs from elsewhere `Assignment.empty(shape).replace(col4row=..., row4col=..., "
        "col_dual=...)` makes one, without column duals nothing is proved",
    )


# What the fields of results hold.
_KINDS = {
    **dict.fromkeys(("col4row", "row4col", "cardinality"), (INTEGERS, "integers")),
    **dict.fromkeys(("row_cover", "col_cover", "source_side"), (BOOLEAN, "boolean")),
    **dict.fromkeys(("col_dual", "value", "flow"), (REAL - BOOLEAN, "real numbers")),
}
