"""The set criterion of DETR and its successors: classification, L1 and generalised IoU."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import float_dtype, last_iota, same_rank
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int
from jaxmatch.losses import boxes as _boxes
from jaxmatch.losses.hungarian import gather_matched, hungarian_matching


_ARRAYS = ("logits", "boxes", "labels", "target_boxes", "target_mask")


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class DetectionLoss:
    """The result of a [`DetectionCriterion`][jaxmatch.losses.DetectionCriterion].

    - `total`: `f[]`, the weighted sum of all parts and layers. Differentiate this number.
    - `classification`, `l1`, `giou`: `f[layers...]`, the unweighted parts; scalars if the
      predictions have no layer axis.
    - `num_targets`: `i32[layers...]`, the number of targets in the images that were used.
    - `used`: `bool[layers..., images...]`, False for an image that was left out.
    - `num_unsolved`: `i32[]`, the number of images left out, summed over layers. Log it during
      training.
    - `matching`: the [`Assignment`][jaxmatch.Assignment] `[layers..., images...]`, queries as rows.
    """

    total: Float[Array, ""]
    classification: Float[Array, "..."]
    l1: Float[Array, "..."]
    giou: Float[Array, "..."]
    num_targets: Int[Array, "..."]
    used: Bool[Array, "..."]
    num_unsolved: Int[Array, ""]
    matching: Assignment


@dataclasses.dataclass(frozen=True)
class DetectionCriterion:
    """DETR's loss: match queries to objects one to one, then classify and fit the boxes.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> criterion = jm.losses.DetectionCriterion(classification="focal", cost_class=2.0)
    >>> layers, images, queries, classes, objects = 3, 2, 5, 4, 2
    >>> logits = jnp.zeros((layers, images, queries, classes))
    >>> boxes = jnp.full((layers, images, queries, 4), 0.5)
    >>> labels = jnp.array([[1, 3], [2, 0]])
    >>> target_boxes = jnp.full((images, objects, 4), 0.5)
    >>> target_mask = jnp.array([[True, True], [True, False]])  # the second image has one object
    >>> loss = jax.jit(criterion)(logits, boxes, labels, target_boxes, target_mask)
    >>> loss.giou.tolist(), loss.num_targets.tolist(), int(loss.num_unsolved)
    ([0.0, 0.0, 0.0], [3, 3, 3], 0)

    **Arguments:**

    - `classification`: `"cross_entropy"`, the softmax of DETR, whose last class is "no object"; or
      `"focal"`, a sigmoid per class with focal loss, as in Deformable DETR.
    - `cost_class`: the weight of the class term in the matching cost. The term is minus the
      probability of the target's class. With `"focal"` it is the focal loss of that class for
      target 1, minus its focal loss for target 0.
    - `cost_l1`: the weight of the L1 distance of the `cxcywh` boxes in the matching cost.
    - `cost_giou`: the weight of minus the generalised IoU of the boxes in the matching cost.
    - `loss_class`, `loss_l1`, `loss_giou`: weights of the parts in `total`.
    - `no_object_weight`: the weight of a query without an object in the cross-entropy.
    - `focal_alpha`, `focal_gamma`: as in
      [`sigmoid_focal_loss`][jaxmatch.losses.sigmoid_focal_loss].

    The defaults are DETR's.

    **Source:** Carion et al., *End-to-end object detection with transformers*, ECCV 2020; Zhu et
    al., *Deformable DETR*, ICLR 2021.
    """

    classification: Literal["cross_entropy", "focal"] = "cross_entropy"
    cost_class: float = 1.0
    cost_l1: float = 5.0
    cost_giou: float = 2.0
    loss_class: float = 1.0
    loss_l1: float = 5.0
    loss_giou: float = 2.0
    no_object_weight: float = 0.1
    focal_alpha: float = 0.25
    focal_gamma: float = 2.0

    def __post_init__(self) -> None:
        if self.classification not in ("cross_entropy", "focal"):
            raise ValueError(
                f"`classification` must be 'cross_entropy' or 'focal', got {self.classification!r}."
            )

    @unchecked
    @outside_of_jit(*_ARRAYS[:4])
    def matching_cost(
        self,
        logits: Float[Array, "... n c"],
        boxes: Float[Array, "... n 4"],
        labels: Int[Array, "... m"],
        target_boxes: Float[Array, "... m 4"],
    ) -> Float[Array, "... n m"]:
        """The cost of assigning target j to query i, without gradient.

        The arguments are as in `__call__`. A label that is not a class costs NaN. Its image then
        has the status `INVALID_COST`, unless the target is masked.
        """
        logits, boxes, target_boxes = lax.stop_gradient((logits, boxes, target_boxes))
        logits, boxes, target_boxes = _as_floats(logits, boxes, target_boxes)
        _check_boxes(logits, boxes, labels, target_boxes)
        if self.classification == "focal":
            num_classes = logits.shape[-1]
            absent, present = _focal_terms(logits, self.focal_alpha, self.focal_gamma)
            per_class = present - absent
        else:
            num_classes = logits.shape[-1] - 1
            per_class = -jax.nn.softmax(logits)
        labels = _lead(labels, logits.shape[:-2])[..., None, :]
        known = (labels >= 0) & (labels < num_classes)
        class_cost = jnp.take_along_axis(per_class, jnp.where(known, labels, 0), axis=-1)
        class_cost = jnp.where(known, class_cost, jnp.nan)
        near, far = same_rank(boxes[..., :, None, :], target_boxes[..., None, :, :])
        l1 = jnp.abs(near - far).sum(-1)
        giou = _boxes.generalized_box_iou(
            _boxes.box_cxcywh_to_xyxy(boxes), _boxes.box_cxcywh_to_xyxy(target_boxes)
        )
        return self.cost_class * class_cost + self.cost_l1 * l1 - self.cost_giou * giou

    @unchecked
    @outside_of_jit(*_ARRAYS, "num_targets", trees=("matching",))
    def __call__(
        self,
        logits: Float[Array, "... n c"],
        boxes: Float[Array, "... n 4"],
        labels: Int[Array, "... m"],
        target_boxes: Float[Array, "... m 4"],
        target_mask: ArrayLike | None = None,
        *,
        matching: Assignment | None = None,
        num_targets: ArrayLike | None = None,
        method: str = "auto",
    ) -> DetectionLoss:
        """The loss of one batch.

        Leading axes that only the predictions have are decoder layers. Each layer is matched
        separately, but one native call solves all layers. The losses of the layers are added, like
        the auxiliary losses of DETR.

        **Arguments:**

        - `logits`: `[layers..., images..., n, classes]`. With `"cross_entropy"` the last class is
          "no object". Half precision is computed in float32.
        - `boxes`: `[layers..., images..., n, 4]`, `cxcywh`, normalised to the image.
        - `labels`: `i32[images..., m]`.
        - `target_boxes`: `[images..., m, 4]`, `cxcywh`, normalised.
        - `target_mask`: `bool[images..., m]`; False is padding, which may hold any values.
        - `matching`: an assignment of queries to targets. Default: the assignment of least cost.
        - `num_targets`: the divisor of L1, generalised IoU and focal loss, for instance the mean
          number of targets over devices. Default: the number of targets in this batch.
        - `method`: as in [`solve_assignment`][jaxmatch.solve_assignment].

        **Returns:**

        A [`DetectionLoss`][jaxmatch.losses.DetectionLoss]. L1, generalised IoU (as 1 − GIoU) and
        focal loss are sums divided by the number of targets (at least 1); cross-entropy is the
        mean over queries, weighted with `no_object_weight`.

        **Status:** an image has loss 0 and gradient 0 in a layer if its status is not `OPTIMAL`
        (because of a target with NaN, or a label that is not a class) or a prediction is not
        finite. It then counts in `num_unsolved`. All other images are unaffected. An image without
        targets is valid: all its queries learn "no object". With more targets than queries, some
        targets stay unmatched and add no box loss.
        """
        logits, boxes, target_boxes = _as_floats(logits, boxes, target_boxes)
        _check_boxes(logits, boxes, labels, target_boxes)
        target_mask = _as_target_mask(target_mask, labels.shape)
        lead, images = logits.shape[:-2], tuple(range(1 - labels.ndim, 0))
        if len(lead) < len(images):
            raise ValueError(
                f"`logits` {logits.shape} must have the leading axes of `labels` {labels.shape}."
            )
        if matching is None:
            cost = self.matching_cost(logits, boxes, labels, target_boxes)
            matching = hungarian_matching(cost, target_mask, method=method)

        # Unusable images are masked twice: their inputs are replaced by zeros, which keeps NaN out
        # of the gradient, and their losses are not counted.
        finite = jnp.isfinite(logits).all((-2, -1)) & jnp.isfinite(boxes).all((-2, -1))
        used = (matching.status == Status.OPTIMAL) & finite
        logits = jnp.where(used[..., None, None], logits, 0)
        boxes = jnp.where(used[..., None, None], boxes, 0)
        target_boxes = jnp.where(target_mask[..., None], target_boxes, 0)
        target_boxes = _lead(target_boxes, lead, features=2)
        row4col = jnp.where(used[..., None], matching.row4col, -1)
        col4row = jnp.where(used[..., None], matching.col4row, -1)

        counted = used[..., None] & _lead(target_mask, lead)
        counted = counted.sum(-1, dtype=jnp.int32).sum(images)
        divisor = jnp.maximum(counted if num_targets is None else jnp.asarray(num_targets), 1)
        divisor = divisor.astype(logits.dtype)
        classification = self._classification(logits, labels, col4row, used, divisor, images)

        matched = row4col >= 0
        pairs = gather_matched(boxes, row4col)
        l1 = jnp.where(matched, jnp.abs(pairs - target_boxes).sum(-1), 0)
        overlap = _boxes.elementwise_generalized_box_iou(
            _boxes.box_cxcywh_to_xyxy(pairs), _boxes.box_cxcywh_to_xyxy(target_boxes)
        )
        giou = jnp.where(matched, 1 - overlap, 0)
        l1, giou = (x.sum(-1).sum(images) / divisor for x in (l1, giou))
        total = self.loss_class * classification + self.loss_l1 * l1 + self.loss_giou * giou
        return DetectionLoss(
            total=total.sum(),
            classification=classification,
            l1=l1,
            giou=giou,
            num_targets=counted,
            used=used,
            num_unsolved=(~used).sum(dtype=jnp.int32),
            matching=matching,
        )

    def _classification(
        self,
        logits: Float[Array, "... n c"],
        labels: Int[Array, "... m"],
        col4row: Int[Array, "... n"],
        used: Bool[Array, "..."],
        divisor: Array,
        images: tuple[int, ...],
    ) -> Float[Array, "..."]:
        label = gather_matched(_lead(labels, logits.shape[:-2]), col4row)
        matched = col4row >= 0
        if self.classification == "focal":
            known = last_iota(label.dtype, logits.shape[-1], logits.ndim)
            target = (label[..., None] == known) & matched[..., None]
            each = sigmoid_focal_loss(logits, target, self.focal_alpha, self.focal_gamma).sum(-1)
            return jnp.where(used[..., None], each, 0).sum(-1).sum(images) / divisor
        label = jnp.where(matched, label, logits.shape[-1] - 1)
        log_likelihood = jnp.take_along_axis(jax.nn.log_softmax(logits), label[..., None], axis=-1)
        weight = jnp.where(matched, 1.0, self.no_object_weight)
        weight = jnp.where(used[..., None], weight, 0).astype(logits.dtype)
        total, norm = (x.sum(-1).sum(images) for x in (-weight * log_likelihood[..., 0], weight))
        return total / jnp.where(norm > 0, norm, 1)


@unchecked
@outside_of_jit("logits", "targets")
def sigmoid_focal_loss(
    logits: Float[Array, "..."], targets: ArrayLike, alpha: float = 0.25, gamma: float = 2.0
) -> Float[Array, "..."]:
    """Binary focal loss, `−α_t (1 − p_t)^γ log p_t`, stable for every finite logit.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> loss = jm.losses.sigmoid_focal_loss(jnp.array([3.0, 3.0]), jnp.array([True, False]))
    >>> [f"{x:.5f}" for x in loss]
    ['0.00003', '2.07471']

    **Arguments:**

    - `logits`: any shape.
    - `targets`: bool, or numbers between 0 and 1; the shape broadcasts with `logits`.
    - `alpha`: the weight of positives; negatives have the weight 1 − alpha.
    - `gamma`: at least 1; the exponent that lowers the weight of well-classified entries.

    **Returns:**

    The loss of each entry, not reduced.

    **Source:** Lin et al., *Focal loss for dense object detection*, ICCV 2017.
    """
    logits = jnp.asarray(logits)
    logits, targets = same_rank(logits, jnp.asarray(targets, logits.dtype))
    negative, positive = _focal_terms(logits, alpha, gamma)
    return targets * positive + (1 - targets) * negative


def _focal_terms(logits: Array, alpha: float, gamma: float) -> tuple[Array, Array]:
    """The focal losses of each entry for target 0 and for target 1."""
    p = jax.nn.sigmoid(logits)
    negative = (1 - alpha) * p**gamma * -jax.nn.log_sigmoid(-logits)
    positive = alpha * (1 - p) ** gamma * -jax.nn.log_sigmoid(logits)
    return negative, positive


def _as_floats(*arrays: Array) -> list[Array]:
    """Casts all arrays to one dtype, at least float32."""
    dtype = float_dtype(*arrays)
    return [jnp.asarray(x, dtype) for x in arrays]


def _check_boxes(logits: Array, boxes: Array, labels: Array, target_boxes: Array) -> None:
    if logits.ndim < 2 or labels.ndim < 1:
        raise ValueError(
            "`logits` must have shape [..., n, classes] and `labels` [..., m], got "
            f"{logits.shape} and {labels.shape}."
        )
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"`labels` must hold integers, the classes, got {labels.dtype}; cast them.")
    if boxes.shape[-2:] != (logits.shape[-2], 4):
        raise ValueError(
            f"`boxes` must have shape [..., n, 4] for `logits` [..., n, classes] {logits.shape}, "
            f"got {boxes.shape}."
        )
    if target_boxes.shape[-2:] != (labels.shape[-1], 4):
        raise ValueError(
            f"`target_boxes` must have shape [..., m, 4] for `labels` [..., m] {labels.shape}, "
            f"got {target_boxes.shape}."
        )


def _as_target_mask(target_mask: ArrayLike | None, shape: tuple[int, ...]) -> Bool[Array, "..."]:
    if target_mask is None:
        return jnp.ones(shape, bool)
    target_mask = jnp.asarray(target_mask)
    try:
        return jnp.broadcast_to(target_mask, shape)
    except ValueError:
        raise ValueError(
            f"`target_mask` must broadcast to the shape of `labels`, {shape}, got "
            f"{target_mask.shape}."
        ) from None


def _lead(x: Array, lead: tuple[int, ...], features: int = 1) -> Array:
    """Repeats targets `[images..., *features]` over the layer axes."""
    x = jnp.asarray(x)
    return jnp.broadcast_to(x, (*lead, *x.shape[x.ndim - features :]))
