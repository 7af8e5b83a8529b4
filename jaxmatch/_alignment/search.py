"""Motions and assignments in turns, from all starts of all problems at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._alignment.motion import best_rotation
from jaxmatch._alignment.problem import AlignmentProblem
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int


# The column of each row, and the status, for costs [..., s, n, m] of the starts that go on. Results
# of the others may be anything.
Assign = Callable[
    [Float[Array, "... s n m"], Bool[Array, "... s"]],
    tuple[Int[Array, "... s n"], Int[Array, "... s"]],
]


class Search(NamedTuple):
    """The state of all starts."""

    rotation: Float[Array, "... s d d"]
    translation: Float[Array, "... s d"]
    col4row: Int[Array, "... s n"]
    value: Float[Array, "... s"]
    status: Int[Array, "... s"]
    done: Bool[Array, "... s"]
    steps: Int[Array, ""]


def search(
    problem: AlignmentProblem,
    assign: Assign,
    rotation: Float[Array, "... s d d"],
    translation: Float[Array, "... s d"],
    motion: str | None,
    reflections: bool,
    steps: int,
) -> Search:
    """Takes at most `steps` steps from each start. A start ends when its pairs stay the same."""

    def step(state: Search) -> Search:
        go_on = ~state.done
        col4row, status = assign(problem.costs(state.rotation, state.translation), go_on)
        same = (col4row == state.col4row).all(-1)
        now = (state.rotation, state.translation)
        rotation, translation = fitted(problem, col4row, *now, motion, reflections)
        value = value_of(problem, col4row, rotation, translation)
        better = go_on & (value < state.value)
        done = state.done | same | ~better | (status != Status.OPTIMAL)
        return Search(
            jnp.where(better[..., None, None], rotation, state.rotation),
            jnp.where(better[..., None], translation, state.translation),
            jnp.where(better[..., None], col4row, state.col4row),
            jnp.where(better, value, state.value),
            jnp.where(state.done, state.status, status),
            done | (motion is None),
            state.steps + 1,
        )

    shape = rotation.shape[:-2]
    like = problem.x[..., :1, 0] * jnp.zeros(shape[-1], problem.x.dtype)  # varies as the problem
    state = Search(
        rotation + like[..., None, None],
        translation + like[..., None],
        jnp.full_like(like, -1, jnp.int32, shape=(*shape, problem.x.shape[-2])),
        like + jnp.inf,
        jnp.zeros_like(like, jnp.int32),
        like != 0,
        (like.sum() * 0).astype(jnp.int32),
    )
    return lax.while_loop(lambda s: ~s.done.all() & (s.steps < steps), step, state)


def partners(
    problem: AlignmentProblem, col4row: Int[Array, "... s n"]
) -> Float[Array, "... s n d"]:
    """The point of y of each point of x."""
    at = jnp.maximum(col4row, 0)[..., None]
    return jnp.take_along_axis(problem.y[..., None, :, :], at, axis=-2)


def value_of(
    problem: AlignmentProblem, col4row: Array, rotation: Array, translation: Array
) -> Float[Array, "... s"]:
    away = problem.apart(problem.moved(rotation, translation), partners(problem, col4row))
    squared = problem.weight[..., None, :] * (away * away).sum(-1)
    return jnp.where(col4row >= 0, squared, 0).sum(-1)


def fitted(
    problem: AlignmentProblem,
    col4row: Int[Array, "... s n"],
    rotation: Array,
    translation: Array,
    motion: str | None,
    reflections: bool,
) -> tuple[Array, Array]:
    """The best motion for these pairs. In a cell, it begins with the motion that found them."""
    if motion is None:
        return rotation, translation
    weight = jnp.where(col4row >= 0, problem.weight[..., None, :], 0)
    total = jnp.maximum(weight.sum(-1), float(jnp.finfo(weight.dtype).tiny))

    def mean(points: Array) -> Array:
        return (weight[..., None] * points).sum(-2) / total[..., None]

    if motion == "translation":
        away = problem.apart(problem.moved(rotation, translation), partners(problem, col4row))
        return rotation, translation - mean(away)
    x, y = problem.x[..., None, :, :], partners(problem, col4row)
    if motion == "rotation":
        h = jnp.einsum("...na,...nb->...ab", weight[..., None] * x, y, precision="highest")
        return best_rotation(h, reflections), translation
    x_mean, y_mean = mean(x), mean(y)
    x, y = x - x_mean[..., None, :], y - y_mean[..., None, :]
    h = jnp.einsum("...na,...nb->...ab", weight[..., None] * x, y, precision="highest")
    rotation = best_rotation(h, reflections)
    turned = (rotation @ x_mean[..., None])[..., 0]
    return rotation, y_mean - turned


def spread(problem: AlignmentProblem) -> Float[Array, "..."]:
    """The size of values that rounding makes: eps times the squares of all coordinates. These are
    relative to the centres, if the motion may be a translation."""
    squares = (problem.weight[..., None] * problem.x**2).sum((-2, -1))
    squares += problem.weight.max(-1) * (problem.y**2).sum((-2, -1))
    return 16 * float(np.finfo(problem.x.dtype).eps) * squares
