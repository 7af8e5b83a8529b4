"""The flow from which a solve may begin."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.given import BOOLEAN, REAL, as_given, require, typed
from jaxmatch._common.place import Place
from jaxmatch._common.result import Flow, result_float
from jaxmatch._common.typing import Array, ArrayLike


def start_of(warm_start: Any) -> Any:
    """The flow of an earlier result, or the flow that was passed in its place."""
    if warm_start is None:
        return None
    if hasattr(warm_start, "status"):
        require("warm_start", warm_start, Flow, "or pass a flow `[..., e]`")
    return as_given("warm_start", getattr(warm_start, "flow", warm_start))


def as_start(x: ArrayLike | None, capacity: Array, place: Place) -> Array | None:
    """A flow in the shape and dtype of the capacities. Numbers that these do not hold become 0."""
    if x is None:
        return None
    xp, array = place.xp, typed("warm_start", x, REAL - BOOLEAN, "be a Flow or real numbers")
    if array.ndim < 1 or array.shape[-1] != capacity.shape[-1]:
        raise ValueError(
            f"`warm_start` has a flow of shape {array.shape}, but it must have shape "
            f"[..., {capacity.shape[-1]}], one entry for each edge of `network`."
        )
    if np.broadcast_shapes(array.shape, capacity.shape) != capacity.shape:
        raise ValueError(
            f"`warm_start` has a flow of shape {array.shape}, which does not broadcast to the "
            f"batch of the other arguments, {capacity.shape[:-1]}."
        )
    array = xp.asarray(array)
    if jnp.issubdtype(capacity.dtype, jnp.integer):
        limit = 2.0 ** (8 * capacity.dtype.itemsize - 1)
        wide = array.astype(result_float())
        array = xp.where((wide >= 0) & (wide < limit), array, xp.zeros_like(array))
    with np.errstate(over="ignore"):
        array = array.astype(capacity.dtype)
    return xp.broadcast_to(array, capacity.shape)
