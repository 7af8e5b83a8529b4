"""The derivative of an optimum by its problem (envelope theorem, Danskin)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Num


def envelope_value(
    optimum: Float[Array, "..."],
    problem: Any,
    solution: Any,
    slope: Callable[[Any, Any, Any], Array],
) -> Float[Array, "..."]:
    """The optimum, with `slope(problem, tangents, solution)` as its derivative.

    `problem` and `solution` are pytrees. `slope` is linear in the tangents of `problem`, of which
    those of integers are float0, and refers to no array beside its arguments.
    """
    return _value(slope, problem, optimum, solution)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(
    slope: Callable[[Any, Any, Any], Array], problem: Any, optimum: Array, solution: Any
) -> Array:
    return optimum


@_value.defjvp
def _value_jvp(
    slope: Callable[[Any, Any, Any], Array], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    problem, optimum, solution = primals
    dot = slope(problem, tangents[0], solution)
    # Not `optimum`, which is a constant to JAX: the value of a second derivative depends on it.
    return _value(slope, *primals), dot.astype(optimum.dtype)


def sum_where(
    chosen: Bool[Array, "..."], tangent: Num[Array, "..."], axes: int | tuple[int, ...] = -1
) -> Array:
    """The sum of the tangents that are chosen."""
    # `where` and not a product: its transpose stops a NaN that a loss sends back.
    return jnp.where(chosen, tangent, 0).sum(axes)


def is_constant(tangent: Array) -> bool:
    """Whether a tangent belongs to an integer."""
    return tangent.dtype == jax.dtypes.float0
