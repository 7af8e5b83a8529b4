"""Tracks of boxes: one `lax.scan` over the frames of a sequence, with a Kalman filter per track.

Tracks live in a fixed number of slots, so that shapes never change: a detection that belongs to no
track takes a free slot, and a track that is missed too often leaves its own. Nothing here knows how
detections are associated; that is the argument `associate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import lax


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

# Standard deviations, relative to the height of a box.
MEASURED = (0.25, 0.25, 0.06, 0.06)  # of centre and extent; the camera may shake
ACCELERATION = 0.02  # in each frame
SPEED = 0.2  # of a new track

GATE = 14.0  # greatest squared Mahalanobis distance of a pair
UNMATCHED = 16.0  # what it costs that a detection is a new track, or false
PATIENCE = 8  # a track dies after so many missed frames in a row
EARLY_PATIENCE = 1  # and after so many, if it has been seen less than three times

Associate = Callable[["Array", "Array", "Array"], "Array"]


class Detections(NamedTuple):
    """Boxes as centre x, centre y, width and height; `mask` is False for padding."""

    boxes: Float[Array, "*batch d 4"]
    mask: Bool[Array, "*batch d"]


class Tracks(NamedTuple):
    """What is known in a slot. Each coordinate has a position and a velocity of its own."""

    mean: Float[Array, "s 4 2"]
    covariance: Float[Array, "s 4 2 2"]
    name: Int[Array, " s"]  # -1: the slot is free
    seen: Int[Array, " s"]
    missed: Int[Array, " s"]  # frames in a row
    names: Int[Array, ""]  # so many have been given


def track(detections: Detections, associate: Associate, slots: int) -> Int[Array, "t d"]:
    """The name of the track of each detection of a sequence, -1 for padding.

    `associate(cost, row_mask, col_mask)` takes costs of pairs, `[d, s]` with +inf outside of the
    gate, and returns the slot of each detection, or -1.
    """

    def step(tracks: Tracks, frame: Detections) -> tuple[Tracks, Int[Array, " d"]]:
        tracks = _predict(tracks)
        slot = associate(_costs(tracks, frame.boxes), frame.mask, tracks.name >= 0)
        names = tracks.name[slot]
        tracks = _bury(_update(tracks, frame.boxes, slot))
        tracks, new_names = _bear(tracks, frame.boxes, frame.mask & (slot < 0))
        return tracks, jnp.where(slot < 0, new_names, names)

    none = jnp.full(slots, -1, jnp.int32)
    state = jnp.ones((slots, 4, 2)), jnp.ones((slots, 4, 2, 2))
    return lax.scan(step, Tracks(*state, none, none, none, jnp.int32(0)), detections)[1]


# ---------------------------------------------------------------------------------------------
# The Kalman filter: constant velocity, disturbed by accelerations


def _predict(tracks: Tracks) -> Tracks:
    move = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    disturbed = jnp.array([[0.25, 0.5], [0.5, 1.0]])
    scale = (ACCELERATION * tracks.mean[:, 3, 0]) ** 2
    covariance = move @ tracks.covariance @ move.T + scale[:, None, None, None] * disturbed
    return tracks._replace(mean=tracks.mean @ move.T, covariance=covariance)


def _measured(height: Float[Array, " s"]) -> Float[Array, "s 4"]:
    return (height[:, None] * jnp.array(MEASURED)) ** 2


def _costs(tracks: Tracks, boxes: Float[Array, "d 4"]) -> Float[Array, "d s"]:
    """-2 log of the likelihood of each pair, up to a constant."""
    measured = _measured(tracks.mean[:, 3, 0])
    variance = tracks.covariance[..., 0, 0] + measured
    places, precision = tracks.mean[..., 0].T, 1 / variance.T
    # Coordinate by coordinate: a sum over an axis of four would not be vectorised.
    terms = [(boxes[:, k, None] - places[k]) ** 2 * precision[k] for k in range(4)]
    distance = sum(terms[1:], terms[0])
    return jnp.where(distance < GATE, distance + jnp.log(variance / measured).sum(-1), jnp.inf)


def _update(tracks: Tracks, boxes: Float[Array, "d 4"], slot: Int[Array, " d"]) -> Tracks:
    """With the detections of their slots."""
    slots = len(tracks.name)
    at = jnp.where(slot < 0, slots, slot)
    seen = jnp.zeros(slots, bool).at[at].set(True, mode="drop")
    own = tracks.mean[..., 0].at[at].set(boxes, mode="drop")
    variance = tracks.covariance[..., 0, 0] + _measured(tracks.mean[:, 3, 0])
    gain = tracks.covariance[..., 0] / variance[..., None]
    less = gain[..., :, None] * tracks.covariance[..., None, 0, :]
    return tracks._replace(
        mean=tracks.mean + gain * (own - tracks.mean[..., 0])[..., None],  # + 0 if not seen
        covariance=tracks.covariance - jnp.where(seen[:, None, None, None], less, 0),
        seen=tracks.seen + seen,
        missed=jnp.where(seen, 0, tracks.missed + 1),
    )


# ---------------------------------------------------------------------------------------------
# Births and deaths


def _bury(tracks: Tracks) -> Tracks:
    patience = jnp.where(tracks.seen < 3, EARLY_PATIENCE, PATIENCE)
    return tracks._replace(name=jnp.where(tracks.missed > patience, -1, tracks.name))


def _bear(
    tracks: Tracks, boxes: Float[Array, "d 4"], new: Bool[Array, " d"]
) -> tuple[Tracks, Int[Array, " d"]]:
    """The k-th new detection takes the k-th free slot; those that find none are dropped."""
    slots = len(tracks.name)
    free = tracks.name < 0
    rank = jnp.cumsum(new, dtype=jnp.int32) - 1
    found = new & (rank < free.sum())
    in_order = jnp.argsort(~free, stable=True)
    at = jnp.where(found, in_order[jnp.minimum(rank, slots - 1)], slots)
    names = jnp.where(found, tracks.names + rank, -1)

    speed = jnp.full((len(boxes), 4), SPEED) * boxes[:, 3:]
    variances = jnp.stack([_measured(boxes[:, 3]), speed**2], -1)
    mean = jnp.stack([boxes, jnp.zeros_like(boxes)], -1)
    tracks = Tracks(
        tracks.mean.at[at].set(mean, mode="drop"),
        tracks.covariance.at[at].set(variances[..., None] * jnp.eye(2), mode="drop"),
        tracks.name.at[at].set(names, mode="drop"),
        tracks.seen.at[at].set(1, mode="drop"),
        tracks.missed.at[at].set(0, mode="drop"),
        tracks.names + found.sum(dtype=jnp.int32),
    )
    return tracks, names
