"""Checks coordinates of points, and computes their distances, which are the costs."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_array, check_name
from jaxmatch._common.given import BOOLEAN, REAL
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.promotion import common_dtype, module_of
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Float


_MOST_DIFFERENCES = 2**18  # of coordinates, computed at once: they stay in a core's cache

Metric = Literal["sqeuclidean", "euclidean", "l1", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)


def as_points(
    x: ArrayLike, y: ArrayLike, metric: str, place: Place = BY_JAX
) -> tuple[Float[Array, "... n d"], Float[Array, "... m d"]]:
    """Checks a metric and two sets of points, and converts the points to one dtype."""
    points = _as_coordinates("x", x, place), _as_coordinates("y", y, place)
    if points[0].shape[-1] != points[1].shape[-1]:
        raise ValueError(
            "`x` and `y` must have points of the same dimension, got shapes "
            f"{[*points[0].shape]} and {[*points[1].shape]}."
        )
    check_name("metric", metric, METRICS)
    for name, x_or_y in zip(("x", "y"), points, strict=True):
        require_sizes(name, x_or_y.shape[-2:], "mask its padding (`row_mask`, `col_mask`)")
    dtype = common_dtype(*points)
    return points[0].astype(dtype, copy=False), points[1].astype(dtype, copy=False)


def as_point_sets(
    x: ArrayLike, y: ArrayLike, metric: str, on_matrix: str, place: Place = BY_JAX
) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Like `as_points`, but for one problem: points must not be a batch, and not be empty.

    For batches, the error recommends the function named `on_matrix`, which takes cost matrices.
    """
    sets = as_points(x, y, metric, place)
    for name, points in zip(("x", "y"), sets, strict=True):
        if points.ndim != 2:
            raise ValueError(
                f"`{name}` must be one set of points [n, d], got shape {[*points.shape]}; for "
                f"batches compute the matrices and call `{on_matrix}`."
            )
    if 0 in map(len, sets):
        raise ValueError(
            "`x` and `y` must have at least one point each, got shapes "
            f"{[*sets[0].shape]} and {[*sets[1].shape]}."
        )
    return sets


def _as_coordinates(name: str, points: ArrayLike, place: Place) -> Float[Array, "... n d"]:
    points = as_array(name, points, place, REAL - BOOLEAN, "hold real coordinates")
    if points.ndim < 2:
        raise ValueError(f"`{name}` must be points [..., n, d], got shape {[*points.shape]}.")
    long = points.dtype == jnp.float64 or (
        points.dtype.itemsize >= 4 and jnp.issubdtype(points.dtype, jnp.integer)
    )
    return points.astype(result_float() if long else jnp.float32, copy=False)


def constant(x: Array) -> Array:
    """x as a constant: its derivative is 0."""
    return lax.stop_gradient(x) if isinstance(x, jax.Array) else x


def directions(points: Float[Array, "... n d"]) -> Float[Array, "... n d"]:
    """The points, scaled to unit vectors. Points that are zero or not finite become NaN.

    The derivative of such a NaN is 0.
    """
    xp = module_of(points)
    most = xp.abs(points).max(axis=-1, keepdims=True, initial=0)
    has_one = (most > 0) & xp.isfinite(most)
    points = xp.where(has_one, points, 1)  # keeps NaN out of the derivative
    most = constant(xp.where(has_one, most, 1))
    # XLA may divide by multiplying with the reciprocal. `scale` keeps reciprocals from becoming
    # denormal.
    scale = _moderate(most)
    points = points * scale / (most * scale)  # prevents overflow of squares
    units = points / xp.linalg.norm(points, axis=-1, keepdims=True)
    return xp.where(has_one, units, xp.nan)


def distances(x: Float[Array, "... d"], y: Float[Array, "... d"], metric: str) -> Array:
    """Distances of points, along the last dimension. Leading dimensions are broadcast.

    `"cosine"` needs unit vectors.
    """
    xp = module_of(x, y)
    if metric == "cosine":
        return 1 - (x * y).sum(-1)
    apart = x - y
    if metric == "l1":
        return xp.abs(apart).sum(-1)
    if metric == "sqeuclidean":
        return (apart * apart).sum(-1)
    # Squares must neither overflow nor underflow.
    scale = _moderate(constant(xp.abs(apart).max(-1, initial=0)))
    squared = ((apart * scale[..., None]) ** 2).sum(-1)
    # The inner `where` makes the derivative 0 for equal points.
    return xp.where(squared > 0, xp.sqrt(xp.where(squared > 0, squared, 1)), squared) / scale


def recomputed(dimension: int, metric: str) -> tuple[float, float]:
    """How much rounding to allow for in recomputed distances: the value of `DualBound.recomputed`.

    The first number multiplies the tolerance that is right for stored costs. The second is added to
    the magnitude of each cost. It is 1 for the cosine distance 1 − x·y, because the rounding error
    of x·y does not become smaller if the distance is near 0.
    """
    return 2 + dimension / 2, 1 if metric == "cosine" else 0


def pairwise(
    x: Float[Array, "... n d"], y: Float[Array, "... m d"], metric: str
) -> Float[Array, "... n m"]:
    """All distances between two sets of points (NumPy arrays).

    They are computed in blocks of rows that fit a core's cache.
    """
    *batch, n, d = np.broadcast_shapes(x.shape, (*y.shape[:-2], 1, 1))
    m = y.shape[-2]
    step = max(1, _MOST_DIFFERENCES // max(1, math.prod(batch) * m * d))
    others = y[..., None, :, :]
    parts = [distances(x[..., k : k + step, None, :], others, metric) for k in range(0, n, step)]
    found: Any = np.concatenate(parts, -2) if parts else np.zeros((*batch, n, m), x.dtype)
    return found


def _moderate(most: Float[Array, "..."]) -> Float[Array, "..."]:
    """A power of two by which to multiply numbers of magnitude at most `most`.

    After the multiplication, the squares of these numbers do not overflow, and the square of `most`
    does not underflow.
    """
    xp = module_of(most)
    large, power = (400, 560) if most.dtype == np.float64 else (50, 70)
    scale = xp.where(most > 2.0**large, 2.0**-power, 1).astype(most.dtype)
    return xp.where(most < 2.0**-large, 2.0**power, scale).astype(most.dtype)
