"""The derivative of an optimum with respect to its problem (envelope theorem, Danskin)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Num


def envelope_value(
    optimum: Float[Array, "..."],
    problem: Any,
    solution: Any,
    jvp: Callable[[Any, Any, Any], Array],
) -> Float[Array, "..."]:
    """The optimum, with `jvp(problem, tangents, solution)` as its derivative.

    `problem` and `solution` are pytrees. `jvp` is linear in the tangents of `problem` (float0 for
    integers) and closes over no array.
    """
    return _value(jvp, problem, optimum, solution)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(
    jvp: Callable[[Any, Any, Any], Array], problem: Any, optimum: Array, solution: Any
) -> Array:
    return optimum


@_value.defjvp
def _value_jvp(
    jvp: Callable[[Any, Any, Any], Array], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    problem, optimum, solution = primals
    dot = jvp(problem, tangents[0], solution)
    # Not the constant `optimum`: for second derivatives the value must depend on the problem.
    return _value(jvp, *primals), dot.astype(optimum.dtype)


def sum_where(
    chosen: Bool[Array, "..."], tangent: Num[Array, "..."], axes: int | tuple[int, ...] = -1
) -> Array:
    """The sum of the chosen tangents."""
    # `where` instead of a product: its transpose blocks NaN cotangents.
    return jnp.where(chosen, tangent, 0).sum(axes)


def entries(
    x: Num[Array, "... n m"], rows: Int[Array, "... k"], cols: Int[Array, "... k"]
) -> Num[Array, "... k"]:
    """Entries of each matrix. (By one index, n·m would have to be below 2^31.)"""

    def of_one(x: Array, rows: Array, cols: Array) -> Array:
        return x[rows, cols]

    for _ in x.shape[:-2]:
        of_one = jax.vmap(of_one)
    return of_one(x, rows, cols)


def is_constant(tangent: Array) -> bool:
    """Whether the tangent is that of an integer."""
    return tangent.dtype == jax.dtypes.float0
