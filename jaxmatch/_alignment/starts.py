"""The rotations from which alignments start: axes of inertia, then samples of all rotations."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._alignment.motion import as_matrix
from jaxmatch._common.typing import Array, Float


def by_inertia(
    x: Float[Array, "... n d"],
    x_weight: Float[Array, "... n"],
    y: Float[Array, "... m d"],
    y_weight: Float[Array, "... m"],
    reflections: bool,
) -> Float[Array, "... k d d"]:
    """The rotations that bring the axes of inertia of x to those of y, in both directions each.

    Points are relative to their centres.
    """
    d = x.shape[-1]
    axes = [_axes(p, w) for p, w in ((x, x_weight), (y, y_weight))]
    signs = np.array([*itertools.product((1, -1), repeat=d)])
    handed = jnp.sign(jnp.linalg.det(axes[0]) * jnp.linalg.det(axes[1]))
    chosen = signs if reflections else signs[::2]  # the sign of the last axis follows
    turned = jnp.asarray(chosen, x.dtype)[:, None, :] * axes[1][..., None, :, :]
    rotation = turned @ jnp.swapaxes(axes[0], -1, -2)[..., None, :, :]
    if reflections:
        return rotation
    # The sign of the last axis makes the rotation proper.
    proper = handed[..., None] * jnp.asarray(chosen.prod(-1), x.dtype)
    last = jnp.ones((*proper.shape, d), x.dtype).at[..., -1].set(jnp.where(proper < 0, -1, 1))
    turned = turned * last[..., None, :]
    return turned @ jnp.swapaxes(axes[0], -1, -2)[..., None, :, :]


def _axes(x: Array, weight: Array) -> Float[Array, "... d d"]:
    spread = jnp.einsum("...ni,...n,...nj->...ij", x, weight, x)
    return jnp.linalg.eigh(spread)[1]


def at_random(key: Array, count: int, d: int, reflections: bool) -> Float[Array, "k d d"]:
    """Random rotations; with `reflections`, every other one is a reflection."""
    rotation = jax.random.orthogonal(key, d, (count,))
    mirrored = jnp.linalg.det(rotation) < 0
    wanted = reflections & (jnp.arange(count) % 2 == 0)
    return rotation.at[..., 0].multiply(jnp.where(mirrored == wanted, 1, -1)[:, None])


def evenly(count: int, d: int, reflections: bool) -> Float[Array, "k d d"]:
    """Rotations that cover all of them evenly in up to three dimensions, random ones in others."""
    if d == 1:
        rotation = np.ones((count, 1, 1))
    elif d == 2:
        angle = 2 * np.pi * (np.arange(count) + 0.5) / max(count, 1)
        cos, sin = np.cos(angle), np.sin(angle)
        rotation = np.stack([cos, -sin, sin, cos], -1).reshape(count, 2, 2)
    elif d == 3:
        rotation = as_matrix(jnp.asarray(_spiral(count)))
    else:
        return at_random(jax.random.key(0), count, d, reflections)
    wanted = reflections & (np.arange(count) % 2 == 0)
    sign = np.where(wanted, -1.0, 1.0)
    return jnp.asarray(rotation).at[..., 0].multiply(sign[:, None])


def _spiral(count: int) -> np.ndarray:
    """Quaternions on a spiral that covers all rotations evenly (Alexa, CVPR 2022)."""
    s = np.arange(count) + 0.5
    t, turn = s / max(count, 1), 2 * np.pi * s
    inner, outer = np.sqrt(t), np.sqrt(1 - t)
    alpha, beta = turn / np.sqrt(2), turn / 1.533751168755204288118041
    return np.stack(
        [inner * np.sin(alpha), inner * np.cos(alpha), outer * np.sin(beta), outer * np.cos(beta)],
        -1,
    )
