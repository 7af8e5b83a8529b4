"""Average precision as COCO computes it, over scenes with padded targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np


if TYPE_CHECKING:
    from numpy import ndarray as Array

COCO_THRESHOLDS = np.linspace(0.5, 0.95, 10)
_MAX_DETECTIONS = 100  # per scene, as in COCO


def average_precision(
    scores: Array, boxes: Array, target_labels: Array, target_boxes: Array, target_mask: Array
) -> Array:
    """Average precision at each IoU of `COCO_THRESHOLDS`, the mean over classes.

    **Arguments:**

    - `scores`: `[scenes, queries, classes]`; each pair of query and class is a detection.
    - `boxes`: `[scenes, queries, 4]` in `cxcywh`.
    - `target_labels`, `target_mask`: `[scenes, m]`; `target_boxes`: `[scenes, m, 4]`.

    **Returns:**

    `[thresholds]`. Within a scene and class, detections in order of confidence each take the free
    target that they overlap most, if by at least the threshold; all others are false positives.
    Precision is made monotone and integrated over every recall.
    """
    num_scenes, _, num_classes = scores.shape
    flat = scores.reshape(num_scenes, -1)
    best = np.argsort(-flat, axis=1, kind="stable")[:, :_MAX_DETECTIONS]
    score = np.take_along_axis(flat, best, axis=1)
    query, label = best // num_classes, best % num_classes
    iou = _pairwise_iou(np.take_along_axis(boxes, query[..., None], axis=1), target_boxes)
    same = (label[:, :, None] == target_labels[:, None, :]) & target_mask[:, None, :]
    iou = np.where(same, iou, -1.0)

    # Every scene and threshold at once, one rank after another.
    thresholds = COCO_THRESHOLDS[:, None]
    free = np.ones((len(thresholds), *target_mask.shape), bool)
    hit = np.zeros((len(thresholds), *score.shape), bool)
    for rank in range(best.shape[1]):
        overlap = np.where(free, iou[:, rank], -1.0)
        target = overlap.argmax(axis=-1)
        taken = overlap.max(axis=-1) >= thresholds
        hit[:, :, rank] = taken
        at, scene = np.nonzero(taken)
        free[at, scene, target[taken]] = False

    present = [c for c in range(num_classes) if (target_mask & (target_labels == c)).any()]
    per_class = []
    for c in present:
        chosen = label == c
        order = np.argsort(-score[chosen], kind="stable")
        true = hit[:, chosen][:, order].cumsum(axis=1)
        recall = true / (target_mask & (target_labels == c)).sum()
        precision = true / np.arange(1, true.shape[1] + 1)
        precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        per_class.append((precision * np.diff(recall, axis=1, prepend=0)).sum(axis=1))
    return np.mean(per_class, axis=0)


def _pairwise_iou(a: Array, b: Array) -> Array:
    (a_low, a_high), (b_low, b_high) = (
        (x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2) for x in (a, b)
    )
    low = np.maximum(a_low[:, :, None], b_low[:, None])
    high = np.minimum(a_high[:, :, None], b_high[:, None])
    shared = np.clip(high - low, 0, None).prod(-1)
    union = a[..., 2:].prod(-1)[:, :, None] + b[..., 2:].prod(-1)[:, None] - shared
    return shared / np.maximum(union, 1e-12)
