"""Sources and targets of the flow-matching example: two in the plane, one in pixel space."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits


if TYPE_CHECKING:
    from jaxtyping import Array, Float, PRNGKeyArray

    # `draw(key, count)`: points `[count, d]`
    Draw = Callable[[PRNGKeyArray, int], Array]

TEST_SEED = 1001  # of held-out points in the plane
TEST_POINTS = 1024


class Task(NamedTuple):
    """What a flow starts from and what it should end in."""

    source: Draw
    target: Draw
    test: Float[Array, "n d"]  # held-out points of the target

    @property
    def dim(self) -> int:
        return self.test.shape[-1]


def gaussian(key: PRNGKeyArray, count: int, dim: int) -> Float[Array, "count dim"]:
    return jax.random.normal(key, (count, dim))


def eight_gaussians(key: PRNGKeyArray, count: int) -> Float[Array, "count 2"]:
    """Eight narrow Gaussians on a circle."""
    of_mode, of_point = jax.random.split(key)
    angle = jax.random.randint(of_mode, (count,), 0, 8) * (jnp.pi / 4)
    centers = 5 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
    return centers + 0.3 * jax.random.normal(of_point, (count, 2))


def two_moons(key: PRNGKeyArray, count: int) -> Float[Array, "count 2"]:
    """Two interleaved half circles."""
    of_moon, of_angle, of_point = jax.random.split(key, 3)
    lower = jax.random.bernoulli(of_moon, shape=(count,))
    angle = jax.random.uniform(of_angle, (count,), maxval=jnp.pi)
    x = jnp.where(lower, 1 - jnp.cos(angle), jnp.cos(angle))
    y = jnp.where(lower, 0.5 - jnp.sin(angle), jnp.sin(angle))
    points = jnp.stack([x, y], -1) + 0.08 * jax.random.normal(of_point, (count, 2))
    return 3 * (points - jnp.array([0.5, 0.25]))


def checkerboard(key: PRNGKeyArray, count: int) -> Float[Array, "count 2"]:
    """The black squares of a board of 4 x 4."""
    of_square, of_point = jax.random.split(key)
    square = jax.random.randint(of_square, (count,), 0, 8)
    row = square // 2
    corner = jnp.stack([2 * (square % 2) + row % 2, row], -1) - 2.0
    return 2 * (corner + jax.random.uniform(of_point, (count, 2)))


def in_the_plane(source: Draw, target: Draw) -> Task:
    return Task(source, target, target(jax.random.key(TEST_SEED), TEST_POINTS))


def digits() -> Task:
    """Scanned digits of 8 x 8 pixels in [-1, 1]; a quarter is held out."""
    pixels = np.asarray(load_digits(return_X_y=True)[0], np.float32) / 8 - 1
    pixels = np.random.default_rng(TEST_SEED).permutation(pixels)
    held_out = len(pixels) // 4
    train = jnp.asarray(pixels[held_out:])

    def draw(key: PRNGKeyArray, count: int) -> Float[Array, "count 64"]:
        # Without replacement where there are enough.
        return jax.random.choice(key, train, (count,), replace=count > len(train))

    return Task(partial(gaussian, dim=64), draw, jnp.asarray(pixels[:held_out]))


TASKS: dict[str, Callable[[], Task]] = {
    "moons": lambda: in_the_plane(eight_gaussians, two_moons),
    "checkerboard": lambda: in_the_plane(partial(gaussian, dim=2), checkerboard),
    "digits": digits,
}
