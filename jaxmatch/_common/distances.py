"""Coordinates of points, and the distances between them that are costs."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array, check_name
from jaxmatch._common.given import BOOLEAN, REAL
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._ffi.place import BY_JAX


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


def as_points(
    x: ArrayLike, y: ArrayLike, metric: str
) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"]]:
    """Two sets of points of one dimension and dtype, for a metric that exists."""
    points = _as_coordinates("x", x), _as_coordinates("y", y)
    if points[0].shape[-1] != points[1].shape[-1]:
        raise ValueError(
            "`x` and `y` must have points of the same dimension, got shapes "
            f"{[*points[0].shape]} and {[*points[1].shape]}."
        )
    check_name("metric", metric, METRICS)
    for name, x_or_y in zip(("x", "y"), points, strict=True):
        require_sizes(name, x_or_y.shape[-2:], "mask its padding (`row_mask`, `col_mask`)")
    dtype = common_dtype(*points)
    return points[0].astype(dtype), points[1].astype(dtype)


def _as_coordinates(name: str, points: ArrayLike) -> Float[Array, "... n d"]:
    points = as_array(name, points, BY_JAX, REAL - BOOLEAN, "hold real coordinates")
    if points.ndim < 2:
        raise ValueError(f"`{name}` must be points [..., n, d], got shape {[*points.shape]}.")
    long = points.dtype == jnp.float64 or (
        points.dtype.itemsize >= 4 and jnp.issubdtype(points.dtype, jnp.integer)
    )
    return points.astype(result_float() if long else jnp.float32)


def directions(points: Float[Array, "... n d"]) -> Float[Array, "... n d"]:
    """Unit vectors; NaN with derivative 0 for points without a direction."""
    most = jnp.abs(points).max(axis=-1, keepdims=True, initial=0)
    has_one = (most > 0) & jnp.isfinite(most)
    points = jnp.where(has_one, points, 1)  # keeps NaN out of the derivative
    most = lax.stop_gradient(jnp.where(has_one, most, 1))
    scale = _moderate(most)  # XLA multiplies by reciprocals, and denormal ones are zero to it
    points = points * scale / (most * scale)  # keeps squares from overflow
    return jnp.where(has_one, points / jnp.linalg.norm(points, axis=-1, keepdims=True), jnp.nan)


def distances(x: Float[Array, "... d"], y: Float[Array, "... d"], metric: str) -> Array:
    """Distances over the last dimension; the others broadcast. The cosine expects unit vectors."""
    if metric == "cosine":
        return 1 - (x * y).sum(-1)
    apart = x - y
    if metric == "l1":
        return jnp.abs(apart).sum(-1)
    if metric == "sqeuclidean":
        return (apart * apart).sum(-1)
    # Squares must neither overflow nor underflow.
    scale = _moderate(lax.stop_gradient(jnp.abs(apart).max(-1, initial=0)))
    squared = ((apart * scale[..., None]) ** 2).sum(-1)
    # The inner `where` makes the derivative 0 for equal points.
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), squared) / scale


def _moderate(most: Float[Array, "..."]) -> Float[Array, "..."]:
    """A power of two times which numbers, of which these are the greatest, can be squared."""
    large, power = (400, 560) if most.dtype == jnp.float64 else (50, 70)
    scale = jnp.where(most > 2.0**large, 2.0**-power, 1).astype(most.dtype)
    return jnp.where(most < 2.0**-large, 2.0**power, scale).astype(most.dtype)
