"""Scenes for the detection example: real scanned digits, scaled and scattered over a page.

The digits are scikit-learn's bundled set, 1797 scans of 8x8 pixels. Scenes are composed inside of
`jit`, so every training step sees new ones; training and test scenes share no digit.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from jaxmatch.losses import box_iou, box_xyxy_to_cxcywh


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

SIZE = 128  # pixels, both sides of a scene
MAX_OBJECTS = 8
NUM_CLASSES = 10
_HEIGHT = (22.0, 48.0)  # pixels, the 8 rows of a scan
_ASPECT = (0.85, 1.2)
_MAX_IOU = 0.2  # with digits placed before, where there is room
_TRIES = 12
_SCAN = 8


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Digits:
    """Scans with values in [0, 1], their labels, and the box around the ink in scan pixels."""

    scans: Float[Array, "k 8 8"]
    labels: Int[Array, " k"]
    ink: Float[Array, "k 4"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scenes:
    """Images and their objects; boxes are normalised cxcywh, `mask` is False for padding."""

    image: Float[Array, "batch 128 128"]
    boxes: Float[Array, "batch 8 4"]
    labels: Int[Array, "batch 8"]
    mask: Bool[Array, "batch 8"]


def load_split(test_share: float = 0.25) -> tuple[Digits, Digits]:
    """The digits for training and those for test scenes, always the same split."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    scans = (data.images / 16.0).astype(np.float32)[order]
    labels = data.target.astype(np.int32)[order]

    def extent(ink: np.ndarray) -> np.ndarray:  # bool [k, 8] -> first and last+1 True
        return np.stack([ink.argmax(1), _SCAN - ink[:, ::-1].argmax(1)], axis=1)

    x, y = extent((scans > 0.15).any(1)), extent((scans > 0.15).any(2))
    ink = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1).astype(np.float32)
    cut = int(len(labels) * test_share)
    test, train = (
        Digits(*(jnp.asarray(x[part]) for x in (scans, labels, ink)))
        for part in (slice(cut), slice(cut, None))
    )
    return train, test


def make_scenes(digits: Digits, key: PRNGKeyArray, batch: int) -> Scenes:
    """Compose `batch` scenes of 1 to 8 digits; a function of `key` alone, to be jitted."""
    dice_key, noise_key = jax.random.split(key)
    # One draw for everything: a random number generator takes longer to compile than to run.
    shapes = [(4,), (MAX_OBJECTS, 4), (MAX_OBJECTS, _TRIES, 2)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    dice = jnp.split(jax.random.uniform(dice_key, (batch, ends[-1])), ends[:-1], axis=1)
    dice = [x.reshape(batch, *shape) for x, shape in zip(dice, shapes, strict=True)]
    noise = jax.random.normal(noise_key, (batch, SIZE, SIZE))
    return jax.vmap(partial(_make_scene, digits))(*dice, noise)


def _make_scene(
    digits: Digits,
    page: Float[Array, "4"],
    digit: Float[Array, "8 4"],
    place: Float[Array, "8 tries 2"],
    noise: Float[Array, "128 128"],
) -> Scenes:
    """One scene from numbers in [0, 1) and noise."""
    mask = jnp.arange(MAX_OBJECTS) < 1 + jnp.floor(page[0] * MAX_OBJECTS)
    which, height, aspect, shade = digit.T
    which = jnp.floor(which * len(digits.labels)).astype(jnp.int32)
    scans, ink = digits.scans[which], digits.ink[which]

    # Pixels per scan pixel along x and y, then where the scan's corner goes.
    height = _between(height, *_HEIGHT) / _SCAN
    scale = jnp.stack([height * _between(aspect, *_ASPECT), height], axis=-1)
    boxes, corner = _scatter(ink * jnp.tile(scale, 2), mask, place)

    scans = scans * (_between(shade, 0.6, 1.0) * mask)[:, None, None]
    weights = _interpolation(scale, corner)
    drawn = jnp.einsum("oyi,oij,oxj->oyx", weights[:, 1], scans, weights[:, 0])

    # A page that is not quite white, and a scanner that is not quite silent.
    tint = _between(page[1:], -0.1, 0.1)
    ramp = jnp.linspace(-1, 1, SIZE)
    paper = 0.1 + tint[0] + tint[1] * ramp[:, None] + tint[2] * ramp[None, :]
    image = jnp.maximum(drawn.max(axis=0), paper) + 0.05 * noise
    return Scenes(image, box_xyxy_to_cxcywh(boxes / SIZE), digits.labels[which], mask)


def _between(unit: Array, low: float, high: float) -> Array:
    return low + (high - low) * unit


def _scatter(
    box: Float[Array, "8 4"], mask: Bool[Array, " 8"], place: Float[Array, "8 tries 2"]
) -> tuple[Float[Array, "8 4"], Float[Array, "8 2"]]:
    """Put the boxes down one after another, each at the first of a few places with room.

    Returns the boxes in the scene and the scene position of each scan's corner.
    """
    corners = -box[:, None, :2] + place * (SIZE - box[:, None, 2:] + box[:, None, :2])
    tried = box[:, None] + jnp.tile(corners, 2)  # [objects, tries, 4]

    def put(placed: Array, i: Array) -> tuple[Array, Array]:
        before = (jnp.arange(MAX_OBJECTS) < i) & mask
        overlap = jnp.where(before, box_iou(tried[i], placed), 0).max(axis=-1)
        # The first below the limit, else the one that overlaps least.
        best = jnp.argmin(jnp.where(overlap < _MAX_IOU, -1.0, overlap))
        return placed.at[i].set(tried[i, best]), corners[i, best]

    return jax.lax.scan(put, jnp.zeros((MAX_OBJECTS, 4)), jnp.arange(MAX_OBJECTS))


def _interpolation(scale: Array, corner: Array) -> Array:
    """Bilinear weights `[objects, 2, SIZE, 8]`: scene pixel from scan pixel, along x and y."""
    pixel = (jnp.arange(SIZE) + 0.5 - corner[..., None]) / scale[..., None] - 0.5
    return jnp.maximum(1 - jnp.abs(pixel[..., None] - jnp.arange(_SCAN)), 0)
