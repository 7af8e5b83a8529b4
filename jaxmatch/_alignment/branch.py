"""Proves the least value of an alignment by branch and bound over all rotations.

A rotation is a vector r, the axis times the angle: in a cube around the ball of radius π, or in the
plane in an interval. The angle between the rotations of two vectors is at most the distance of the
vectors (Hartley and Kahl, IJCV 82, 2009). So in a box of half-width h around r, the point R x stays
within an angle of √3 h around R_r x, and |R x − y| is at least the distance of y from that cap. An
assignment at these costs bounds all motions of the box from below. A layer of boxes is one batch of
assignments. Boxes whose bound is below the best known value are split in eight.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._alignment.motion import as_matrix, best_rotation
from jaxmatch._assignment.solve import solve_assignment
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, ArrayLike, Float


_CHUNK = 1024  # boxes in a batch
_FIRST = 4  # boxes along each side of the cube at first


class Proof(NamedTuple):
    """The best rotation that was found, with its pairs, and a bound on all others."""

    value: float
    bound: float
    rotation: np.ndarray
    col4row: np.ndarray | None  # None: none was better than the given value
    boxes: int


def prove(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    forbidden: np.ndarray,
    value: float,
    *,
    reflections: bool,
    tolerance: float,
    slack: float,
    time_limit: float | None,
) -> Proof:
    """`x`, `y`: points relative to their centres; `value`: the least that is known."""
    d = x.shape[-1]
    end = None if time_limit is None else time.monotonic() + time_limit
    best, rotation, pairs, count = value, np.eye(d), None, 0
    centres, half = _first_boxes(d)
    signs = np.repeat([1, -1], len(centres)) if reflections else np.ones(len(centres))
    centres = np.concatenate([centres, centres]) if reflections else centres
    bounds = np.zeros(len(centres))
    closed = np.inf  # the least bound of boxes that need no split
    while len(centres):
        order = np.argsort(bounds)
        centres, signs, bounds = centres[order], signs[order], bounds[order]
        for first in range(0, len(centres), _CHUNK):
            if end is not None and time.monotonic() > end:
                lowest = min(bounds[first:].min(), bounds[:first].min(initial=np.inf), closed)
                return Proof(best, min(lowest, best), rotation, pairs, count)
            part = slice(first, first + _CHUNK)
            found = _layer(x, y, weight, forbidden, *_padded(centres[part], signs[part]), half)
            low, own, turn, col4row = (np.asarray(z)[: len(centres[part])] for z in found)
            bounds[part] = np.maximum(bounds[part], low - slack)
            count += len(low)
            k = int(np.nanargmin(own))
            if own[k] < best:
                best, rotation, pairs = float(own[k]), turn[k], col4row[k]
        go_on = bounds < best * (1 - tolerance) - slack
        closed = min(closed, bounds[~go_on].min(initial=np.inf))
        centres, signs, bounds, half = _split(centres[go_on], signs[go_on], bounds[go_on], half)
    return Proof(best, min(closed, best), rotation, pairs, count)


def _first_boxes(d: int) -> tuple[np.ndarray, float]:
    size = 1 if d == 2 else 3
    half = np.pi / _FIRST
    ticks = -np.pi + half * (2 * np.arange(_FIRST) + 1)
    centres = np.stack(np.meshgrid(*[ticks] * size, indexing="ij"), -1).reshape(-1, size)
    return centres[_is_near(centres, half)], half


def _is_near(centres: np.ndarray, half: float) -> np.ndarray:
    """Whether a box meets the ball of all rotations."""
    nearest = np.maximum(np.abs(centres) - half, 0)
    return (nearest**2).sum(-1) <= np.pi**2


def _split(
    centres: np.ndarray, signs: np.ndarray, bounds: np.ndarray, half: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    size = centres.shape[-1]
    corners = half / 2 * (2 * np.array([*np.ndindex(*(2,) * size)]) - 1)
    smaller = (centres[:, None] + corners).reshape(-1, size)
    keep = _is_near(smaller, half / 2)
    signs, bounds = (np.repeat(z, len(corners))[keep] for z in (signs, bounds))
    return smaller[keep], signs, bounds, half / 2


def _padded(centres: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A chunk of one size, so that one program is compiled."""
    more = _CHUNK - len(centres)
    return np.pad(centres, ((0, more), (0, 0))), np.pad(signs, (0, more), constant_values=1)


@compiled()
@with_promotion
def _layer(
    x: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike,
    forbidden: ArrayLike,
    centres: ArrayLike,
    signs: ArrayLike,
    half: Any,
) -> tuple[Array, Array, Array, Array]:
    """The lower bound of each box; the value, rotation and pairs that its assignment leads to."""
    x, y, weight, centres, signs = map(jnp.asarray, (x, y, weight, centres, signs))
    size = centres.shape[-1]
    angle = jnp.minimum(half * jnp.sqrt(jnp.asarray(size, x.dtype)), jnp.pi)
    mirrored = jnp.broadcast_to(x, (len(centres), *x.shape)).at[..., 0].multiply(signs[:, None])
    rotation = _rotations(centres.astype(x.dtype))
    turned = mirrored @ jnp.swapaxes(rotation, -1, -2)
    r, s = jnp.linalg.norm(x, axis=-1), jnp.linalg.norm(y, axis=-1)
    product = turned @ y.T
    cross = _cross(turned, y)
    apart = jnp.maximum(jnp.arctan2(cross, product) - angle, 0)
    low = (r[:, None] - s) ** 2 + 4 * r[:, None] * s * jnp.sin(apart / 2) ** 2
    cost = jnp.where(forbidden, jnp.inf, weight[:, None] * low)
    res = solve_assignment(cost)
    solved = res.status == Status.OPTIMAL
    partner = y[jnp.maximum(res.col4row, 0)]
    h = jnp.einsum("kna,n,knb->kab", mirrored, weight, partner, precision="highest")
    fitted = best_rotation(h, False)
    away = mirrored @ jnp.swapaxes(fitted, -1, -2) - partner
    value = (weight * (away * away).sum(-1)).sum(-1)
    turn = fitted.at[..., 0].multiply(signs[:, None])
    bound = jnp.where(solved, res.cost - res.gap, jnp.inf)
    return bound, jnp.where(solved, value, jnp.inf), turn, res.col4row


def _rotations(vectors: Float[Array, "k r"]) -> Float[Array, "k d d"]:
    """The rotations of vectors in the direction of the axis, as long as the angle."""
    if vectors.shape[-1] == 1:
        cos, sin = jnp.cos(vectors[..., 0]), jnp.sin(vectors[..., 0])
        rows = jnp.stack([cos, -sin], -1), jnp.stack([sin, cos], -1)
        return jnp.stack(rows, -2)
    angle = jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    axis = vectors / jnp.where(angle > 0, angle, 1)
    return as_matrix(jnp.concatenate([jnp.cos(angle / 2), axis * jnp.sin(angle / 2)], -1))


def _cross(turned: Float[Array, "k n d"], y: Float[Array, "m d"]) -> Float[Array, "k n m"]:
    """The length of the cross product of all pairs: r s sin of the angle between them."""
    d = y.shape[-1]
    total = jnp.zeros((*turned.shape[:-1], len(y)), turned.dtype)
    for i in range(d):
        for j in range(i + 1, d):
            one = turned[..., i, None] * y[:, j] - turned[..., j, None] * y[:, i]
            total = total + one * one
    return jnp.sqrt(total)
