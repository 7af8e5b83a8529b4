"""One-to-many training: several predictions per target, by query groups or repeated targets.

The decoder must have extra queries during training. Matching stays one-to-one: groups are one more
leading axis of the predictions, like decoder layers, and repeated targets are additional targets.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, PyTree


@unchecked
@outside_of_jit(trees=("outputs",))
def split_groups(outputs: PyTree[ArrayLike], num_groups: int, *, axis: int = -2) -> PyTree[Array]:
    """Split queries into groups along a new leading axis; each group is matched to all targets.

    As in Group DETR, `groups * n` queries become `n` queries in `groups` layers. One native call
    matches all layers.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> images, groups, n, classes = 2, 3, 5, 4
    >>> logits = jnp.zeros((images, groups * n, classes))
    >>> boxes = jnp.full((images, groups * n, 4), 0.5)
    >>> criterion = jm.losses.DetectionCriterion(classification="focal")
    >>> labels, target_boxes = jnp.zeros((images, 2), int), jnp.full((images, 2, 4), 0.5)
    >>> logits, boxes = jm.losses.split_groups((logits, boxes), groups)
    >>> loss = jax.jit(criterion)(logits, boxes, labels, target_boxes)
    >>> loss.l1.shape, loss.num_targets.tolist()
    ((3,), [4, 4, 4])
    >>> mean = loss.total / groups  # `total` is the sum over groups, and layers

    **Arguments:**

    - `outputs`: a pytree of arrays `[..., groups * n, features]`, one group after another; with
      decoder layers `[layers, images, groups * n, features]`.
    - `num_groups`: the number of groups.
    - `axis`: the axis of the queries.

    **Returns:**

    The same pytree of arrays `[groups, ..., n, features]`, as
    [`DetectionCriterion`][jaxmatch.losses.DetectionCriterion] and
    [`hungarian_loss`][jaxmatch.losses.hungarian_loss] take them.

    **Raises:** `ValueError` if an axis cannot be split into `num_groups` equal parts.

    **Source:** Chen et al., *Group DETR: fast DETR training with group-wise one-to-many
    assignment*, ICCV 2023.
    """

    def split(x: ArrayLike) -> Array:
        x = jnp.asarray(x)
        at = _axis("outputs", x, axis)
        if num_groups < 1 or x.shape[at] % num_groups:
            raise ValueError(
                f"`outputs` holds an array of shape {x.shape}, whose axis {at} of {x.shape[at]} "
                f"queries has no {num_groups} equal groups; pass `num_groups` and `axis` to fit."
            )
        n = x.shape[at] // num_groups
        return jnp.moveaxis(x.reshape(*x.shape[:at], num_groups, n, *x.shape[at + 1 :]), at, 0)

    return jax.tree.map(split, outputs)


@unchecked
@outside_of_jit(trees=("targets",))
def one_to_many(targets: PyTree[ArrayLike], repeats: int, *, axis: int = 1) -> PyTree[Array]:
    """Repeat every target, so that several queries learn it, as in the hybrid branch of H-DETR.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> labels, mask = jnp.array([[7, 8]]), jnp.array([[True, False]])
    >>> boxes = jnp.full((1, 2, 4), 0.5)
    >>> labels, boxes, mask = jm.losses.one_to_many((labels, boxes, mask), 3)
    >>> labels.tolist(), boxes.shape, mask.tolist()
    ([[7, 8, 7, 8, 7, 8]], (1, 6, 4), [[True, False, True, False, True, False]])

    The hybrid branch has its own queries. Add its loss
    `criterion(logits, boxes, *one_to_many((labels, target_boxes, target_mask), 6))` to the usual
    loss.

    **Arguments:**

    - `targets`: a pytree of arrays `[images, m, *features]`: labels, boxes, and the mask, if any.
    - `repeats`: the number of copies.
    - `axis`: the axis of the targets: 1 after one batch axis, 0 for a single image.

    **Returns:** the same pytree of arrays `[images, repeats * m, *features]`, one copy of all
    targets after another.

    **Raises:** `ValueError` if `repeats` is below 1 or an array lacks the axis.

    **Source:** Jia et al., *DETRs with hybrid matching*, CVPR 2023.
    """
    if repeats < 1:
        raise ValueError(f"`repeats` must be at least 1, got {repeats}.")

    def repeat(x: ArrayLike) -> Any:
        x = jnp.asarray(x)
        return jnp.concatenate([x] * repeats, axis=_axis("targets", x, axis))

    return jax.tree.map(repeat, targets)


def _axis(name: str, x: Array, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"`{name}` holds an array of shape {x.shape}, which has no axis {axis}.")
    return axis % x.ndim
