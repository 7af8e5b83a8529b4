"""Boxes: conversion, area, IoU and generalised IoU, under torchvision's and DETR's names.

The last axis holds the 4 numbers of a box: `cxcywh` (centre, width, height) or `xyxy` (two
corners). Coordinates may be in pixels or normalised to the image. The losses use normalised
coordinates.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import common_dtype, float_dtype, module_of, same_rank
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, Float


@unchecked
@outside_of_jit("boxes", by_numpy=True)
def box_cxcywh_to_xyxy(boxes: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """Corners `(x0, y0, x1, y1)` of boxes given as `(cx, cy, w, h)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_cxcywh_to_xyxy(jnp.array([0.5, 0.5, 0.5, 0.25])).tolist()
    [0.25, 0.375, 0.75, 0.625]
    """
    (boxes,) = _as_floats(boxes)
    centre, size = boxes[..., :2], boxes[..., 2:]
    return module_of(boxes).concatenate([centre - size / 2, centre + size / 2], axis=-1)


@unchecked
@outside_of_jit("boxes", by_numpy=True)
def box_xyxy_to_cxcywh(boxes: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """Centre and size `(cx, cy, w, h)` of boxes given as `(x0, y0, x1, y1)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_xyxy_to_cxcywh(jnp.array([0.25, 0.375, 0.75, 0.625])).tolist()
    [0.5, 0.5, 0.5, 0.25]
    """
    (boxes,) = _as_floats(boxes)
    low, high = boxes[..., :2], boxes[..., 2:]
    return module_of(boxes).concatenate([(low + high) / 2, high - low], axis=-1)


@unchecked
@outside_of_jit("boxes", by_numpy=True)
def box_area(boxes: Float[Array, "... 4"]) -> Float[Array, "..."]:
    """Area of `xyxy` boxes. A box whose corners are swapped along an axis is empty, with area 0.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_area(jnp.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 0.0, 1.0]])).tolist()
    [0.25, 0.0]
    """
    return _area(boxes)


@unchecked
@outside_of_jit("boxes1", "boxes2", by_numpy=True)
def elementwise_box_iou(
    boxes1: Float[Array, "... 4"], boxes2: Float[Array, "... 4"]
) -> Float[Array, "..."]:
    """Intersection over union of each box with its counterpart.

    **Arguments:**

    - `boxes1`, `boxes2`: `[..., 4]` in `xyxy`; leading axes broadcast against each other.

    **Returns:**

    `[...]` in [0, 1]. The IoU is 0 if the union is empty (two boxes without area). The gradient is
    finite for finite boxes.
    """
    intersection, union = _intersection_union(boxes1, boxes2)
    return _ratio(intersection, union)


@unchecked
@outside_of_jit("boxes1", "boxes2", by_numpy=True)
def elementwise_generalized_box_iou(
    boxes1: Float[Array, "... 4"], boxes2: Float[Array, "... 4"]
) -> Float[Array, "..."]:
    """Generalised IoU of each box with its counterpart: `IoU − (|H| − |U|) / |H|`.

    U is the union of the two boxes and H the smallest box around both.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> a, b = jnp.array([0.0, 0.0, 0.5, 1.0]), jnp.array([0.5, 0.0, 1.0, 0.5])
    >>> float(jm.losses.elementwise_generalized_box_iou(a, b))  # they touch: 0 - 1/4
    -0.25

    **Arguments:**

    - `boxes1`, `boxes2`: `[..., 4]` in `xyxy`; leading axes broadcast against each other.

    **Returns:**

    `[...]` in [−1, 1]. A ratio with denominator 0 counts as 0. So the generalised IoU of two boxes
    without area is 0 if they are at the same place or on one axis-parallel line. The gradient is
    finite for finite boxes.

    **Source:** Rezatofighi et al., *Generalized intersection over union*, CVPR 2019.
    """
    boxes1, boxes2 = same_rank(*_as_floats(boxes1, boxes2))
    intersection, union = _intersection_union(boxes1, boxes2)
    xp = module_of(boxes1, boxes2)
    low = xp.minimum(boxes1[..., :2], boxes2[..., :2])
    high = xp.maximum(boxes1[..., 2:], boxes2[..., 2:])
    hull = _area(xp.concatenate([low, high], axis=-1))
    return _ratio(intersection, union) - _ratio(hull - union, hull)


@unchecked
@outside_of_jit("boxes1", "boxes2", by_numpy=True)
def box_iou(
    boxes1: Float[Array, "... n 4"], boxes2: Float[Array, "... m 4"]
) -> Float[Array, "... n m"]:
    """Intersection over union of each of `boxes1` with each of `boxes2`, as in torchvision.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> a = jnp.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]])
    >>> jm.losses.box_iou(a, a)
    Array([[1.  , 0.25],
           [0.25, 1.  ]], dtype=float32)

    **Arguments:**

    - `boxes1`: `[..., n, 4]` in `xyxy`.
    - `boxes2`: `[..., m, 4]` in `xyxy`; leading axes broadcast against those of `boxes1`.

    **Returns:**

    `[..., n, m]`; see [`elementwise_box_iou`][jaxmatch.losses.elementwise_box_iou].
    """
    boxes1, boxes2 = _as_floats(boxes1, boxes2)
    return elementwise_box_iou(boxes1[..., :, None, :], boxes2[..., None, :, :])


@unchecked
@outside_of_jit("boxes1", "boxes2", by_numpy=True)
def generalized_box_iou(
    boxes1: Float[Array, "... n 4"], boxes2: Float[Array, "... m 4"]
) -> Float[Array, "... n m"]:
    """Generalised IoU of each of `boxes1` with each of `boxes2`, as in torchvision.

    **Arguments:**

    - `boxes1`: `[..., n, 4]` in `xyxy`.
    - `boxes2`: `[..., m, 4]` in `xyxy`; leading axes broadcast against those of `boxes1`.

    **Returns:**

    `[..., n, m]`; see
    [`elementwise_generalized_box_iou`][jaxmatch.losses.elementwise_generalized_box_iou].
    """
    boxes1, boxes2 = _as_floats(boxes1, boxes2)
    return elementwise_generalized_box_iou(boxes1[..., :, None, :], boxes2[..., None, :, :])


def _as_floats(*boxes: Array) -> list[Array]:
    """Casts all boxes to one float dtype; integers promote with float32."""
    dtype = common_dtype(*boxes)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = float_dtype(*boxes)
    xp = module_of(*boxes)
    return [xp.asarray(x, dtype) for x in boxes]


def _area(boxes: Float[Array, "... 4"]) -> Float[Array, "..."]:
    xp = module_of(boxes)
    width = xp.maximum(boxes[..., 2] - boxes[..., 0], 0)
    height = xp.maximum(boxes[..., 3] - boxes[..., 1], 0)
    return width * height


def _intersection_union(
    boxes1: Float[Array, "... 4"], boxes2: Float[Array, "... 4"]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    boxes1, boxes2 = same_rank(*_as_floats(boxes1, boxes2))
    xp = module_of(boxes1, boxes2)
    low = xp.maximum(boxes1[..., :2], boxes2[..., :2])
    high = xp.minimum(boxes1[..., 2:], boxes2[..., 2:])
    intersection = _area(xp.concatenate([low, high], axis=-1))
    return intersection, _area(boxes1) + _area(boxes2) - intersection


def _ratio(part: Float[Array, "..."], whole: Float[Array, "..."]) -> Float[Array, "..."]:
    """part / whole. Value and gradient are 0 where the whole is empty."""
    xp, empty = module_of(part, whole), whole <= 0
    # The inner `where` keeps 0/0 out of the gradient. The outer `where` keeps it out of the value.
    return xp.where(empty, 0, part / xp.where(empty, 1, whole))
