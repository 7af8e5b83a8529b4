"""Boxes: conversion, area, IoU and generalised IoU, under torchvision's and DETR's names.

A box is the last axis, of length 4: `cxcywh` (centre, width, height) or `xyxy` (two corners).
Coordinates may be pixels or normalised to the image; the losses use normalised ones.
"""

from __future__ import annotations

import jax.numpy as jnp

from jaxmatch._common.promotion import common_dtype, same_rank
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, Float


@unchecked
def box_cxcywh_to_xyxy(boxes: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """Corners `(x0, y0, x1, y1)` of boxes given as `(cx, cy, w, h)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_cxcywh_to_xyxy(jnp.array([0.5, 0.5, 0.5, 0.25])).tolist()
    [0.25, 0.375, 0.75, 0.625]
    """
    (boxes,) = _as_floats(boxes)
    centre, size = boxes[..., :2], boxes[..., 2:]
    return jnp.concatenate([centre - size / 2, centre + size / 2], axis=-1)


@unchecked
def box_xyxy_to_cxcywh(boxes: Float[Array, "... 4"]) -> Float[Array, "... 4"]:
    """Centre and size `(cx, cy, w, h)` of boxes given as `(x0, y0, x1, y1)`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_xyxy_to_cxcywh(jnp.array([0.25, 0.375, 0.75, 0.625])).tolist()
    [0.5, 0.5, 0.5, 0.25]
    """
    (boxes,) = _as_floats(boxes)
    low, high = boxes[..., :2], boxes[..., 2:]
    return jnp.concatenate([(low + high) / 2, high - low], axis=-1)


@unchecked
def box_area(boxes: Float[Array, "... 4"]) -> Float[Array, "..."]:
    """Area of `xyxy` boxes; a box with swapped corners along an axis is empty and has area 0.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.losses.box_area(jnp.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 0.0, 1.0]])).tolist()
    [0.25, 0.0]
    """
    width, height = _size(boxes)
    return width * height


@unchecked
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

    `[...]` in [−1, 1]. A ratio with denominator 0 counts as 0: two boxes without area, at the same
    place or on one axis-parallel line, have generalised IoU 0. The gradient is finite for finite
    boxes.

    **Source:** Rezatofighi et al., *Generalized intersection over union*, CVPR 2019.
    """
    boxes1, boxes2 = same_rank(*_as_floats(boxes1, boxes2))
    intersection, union = _intersection_union(boxes1, boxes2)
    low = jnp.minimum(boxes1[..., :2], boxes2[..., :2])
    high = jnp.maximum(boxes1[..., 2:], boxes2[..., 2:])
    hull = box_area(jnp.concatenate([low, high], axis=-1))
    return _ratio(intersection, union) - _ratio(hull - union, hull)


@unchecked
def box_iou(
    boxes1: Float[Array, "... n 4"], boxes2: Float[Array, "... m 4"]
) -> Float[Array, "... n m"]:
    """Intersection over union of every box with every other, as torchvision's `box_iou`.

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
    return elementwise_box_iou(boxes1[..., :, None, :], boxes2[..., None, :, :])


@unchecked
def generalized_box_iou(
    boxes1: Float[Array, "... n 4"], boxes2: Float[Array, "... m 4"]
) -> Float[Array, "... n m"]:
    """Generalised IoU of every box with every other, as torchvision's `generalized_box_iou`.

    **Arguments:**

    - `boxes1`: `[..., n, 4]` in `xyxy`.
    - `boxes2`: `[..., m, 4]` in `xyxy`; leading axes broadcast against those of `boxes1`.

    **Returns:**

    `[..., n, m]`; see
    [`elementwise_generalized_box_iou`][jaxmatch.losses.elementwise_generalized_box_iou].
    """
    return elementwise_generalized_box_iou(boxes1[..., :, None, :], boxes2[..., None, :, :])


def _as_floats(*boxes: Array) -> list[Array]:
    """Casts all boxes to one float dtype; integers promote with float32."""
    dtype = common_dtype(*boxes)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = common_dtype(dtype, jnp.float32)
    return [jnp.asarray(x, dtype) for x in boxes]


def _size(boxes: Float[Array, "... 4"]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    width = jnp.maximum(boxes[..., 2] - boxes[..., 0], 0)
    height = jnp.maximum(boxes[..., 3] - boxes[..., 1], 0)
    return width, height


def _intersection_union(
    boxes1: Float[Array, "... 4"], boxes2: Float[Array, "... 4"]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    boxes1, boxes2 = same_rank(*_as_floats(boxes1, boxes2))
    low = jnp.maximum(boxes1[..., :2], boxes2[..., :2])
    high = jnp.minimum(boxes1[..., 2:], boxes2[..., 2:])
    intersection = box_area(jnp.concatenate([low, high], axis=-1))
    return intersection, box_area(boxes1) + box_area(boxes2) - intersection


def _ratio(part: Float[Array, "..."], whole: Float[Array, "..."]) -> Float[Array, "..."]:
    """part / whole; 0 for an empty whole, in value and gradient."""
    empty = whole <= 0
    # The inner select keeps 0/0 out of the gradient, the outer one out of the value.
    return jnp.where(empty, 0, part / jnp.where(empty, 1, whole))
