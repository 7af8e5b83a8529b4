"""`TransportProblem`: the checked arguments of a transport problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.problem import as_col_dual, as_cost, as_mask
from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import INTEGERS, REAL, SOLVED
from jaxmatch._ffi.place import BY_JAX, Place


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Num


class TransportProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    cost: Num[Array, "... n m"]
    supply: Num[Array, "... n"]
    demand: Num[Array, "... m"]  # in the dtype of `supply`
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    # The last row and the last column are dummies, see `jaxmatch._transport.dummies`.
    moved: Num[Array, "..."] | None = None
    col_dual: Float[Array, "... m"] | None = None  # for a warm start


def as_problem(
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    place: Place = BY_JAX,
) -> TransportProblem:
    """Checks the arguments and broadcasts them to one batch shape and one dtype of masses.

    `moved` of the result is `partial`: it has no dummies yet.
    """
    cost = as_cost(cost, place)
    supply, demand = (
        as_array(name, x, place) for name, x in (("supply", supply), ("demand", demand))
    )
    *_, n, m = cost.shape
    for name, x, size, side in (("supply", supply, n, "row"), ("demand", demand, m, "column")):
        if x.ndim < 1 or x.shape[-1] != size:
            raise ValueError(
                f"`{name}` must have shape [..., {size}], one mass for each {side} of `cost` "
                f"{cost.shape}, got {x.shape}."
            )
    try:
        batch = np.broadcast_shapes(cost.shape[:-2], supply.shape[:-1], demand.shape[:-1])
    except ValueError:
        raise ValueError(
            "The batch dimensions of `cost`, `supply` and `demand` must broadcast, got shapes "
            f"{cost.shape}, {supply.shape} and {demand.shape}."
        ) from None
    dtype = mass_dtype(supply.dtype, demand.dtype)

    def expand(x: Array, core: int) -> Array:
        shape = (*batch, *x.shape[x.ndim - core :])
        return x if x.shape == shape else place.xp.broadcast_to(x, shape)

    return TransportProblem(
        expand(cost, 2),
        expand(supply.astype(dtype), 1),
        expand(demand.astype(dtype), 1),
        as_mask("row_mask", row_mask, (*batch, n), place),
        as_mask("col_mask", col_mask, (*batch, m), place),
        _as_partial(partial, dtype, batch, place),
        as_col_dual(col_dual, (*batch, m), place),
    )


def mass_dtype(*dtypes: np.dtype) -> np.dtype:
    """The dtype in which masses are solved: int32, int64, float32 or float64."""
    floats = [x for x in dtypes if jnp.issubdtype(x, jnp.floating)]
    wide = any(x.itemsize == 8 for x in floats or dtypes)
    name = "float" if floats else "int"
    return np.dtype(jax.dtypes.canonicalize_dtype(np.dtype(f"{name}{64 if wide else 32}")))


def _as_partial(
    partial: ArrayLike | None, dtype: np.dtype, batch: tuple[int, ...], place: Place
) -> Num[Array, "..."] | None:
    if partial is None:
        return None
    whole = jnp.issubdtype(dtype, jnp.integer)
    words = "an integer, as `supply` and `demand` are" if whole else "a real number"
    x = as_array("partial", partial, place, INTEGERS & SOLVED if whole else REAL, f"be {words}")
    try:
        return place.xp.broadcast_to(x.astype(dtype), batch)
    except ValueError:
        raise ValueError(
            f"`partial` has shape {x.shape}, which does not broadcast to the batch shape {batch}."
        ) from None
