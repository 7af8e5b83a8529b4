"""The derivative of an optimum with respect to its problem (envelope theorem, Danskin)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


T = TypeVar("T")


def envelope_value(
    optimum: Float[Array, "..."],
    problem: Any,
    solution: Any,
    jvp: Callable[[Any, Any, Any], Array],
) -> Float[Array, "..."]:
    """The optimum, with `jvp(problem, tangents, solution)` as its derivative.

    `problem` and `solution` are pytrees. `jvp` must be linear in the tangents of `problem`, and
    must not close over arrays. The tangents of constants have the dtype float0, see `is_constant`.
    """
    return _value(jvp, problem, optimum, solution)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(
    jvp: Callable[[Any, Any, Any], Array], problem: Any, optimum: Array, solution: Any
) -> Array:
    return optimum


@partial(_value.defjvp, symbolic_zeros=True)
def _value_jvp(
    jvp: Callable[[Any, Any, Any], Array], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    problem, optimum, solution = primals
    dot = jvp(problem, jax.tree.map(_without_zero, tangents[0]), solution)
    # Do not return `optimum` itself: it is a constant, so second derivatives would miss how it
    # depends on the problem.
    return _value(jvp, *primals), dot.astype(optimum.dtype)


def _without_zero(tangent: Any) -> Any:
    if isinstance(tangent, SymbolicZero):
        shape: Any = tangent.shape
        if is_symbolic(shape):
            return jax.ShapeDtypeStruct(shape, jax.dtypes.float0)
        return np.zeros(shape, jax.dtypes.float0)
    return tangent


def instantiated(tangents: T, primals: T) -> T:
    """The tangents, with arrays of zeros in place of float0, as `jax.jvp` needs them."""

    def zero(tangent: Array, primal: Array) -> Array:
        differentiable = jnp.issubdtype(primal.dtype, jnp.inexact)
        return jnp.zeros_like(primal) if differentiable and is_constant(tangent) else tangent

    return jax.tree.map(zero, tangents, primals)


def apart(function: Callable[..., T]) -> Callable[..., T]:
    """Wraps a function: its arguments become constants, and `checkify` does not look inside.

    `checkify` rejects loops under `vmap`, and would report numbers that a solver handles, such as
    NaN in the costs. The wrapper is a `custom_vmap`, inside which `checkify` does not look.

    Keyword arguments are static. Other arguments are pytrees; arrays that `vmap` does not map stay
    unmapped.
    """

    @wraps(function)
    def call(*arguments: Any, **static: Any) -> T:
        leaves, tree = jax.tree.flatten(lax.stop_gradient(arguments))
        return _unseen(lambda *leaves: function(*tree.unflatten(leaves), **static))(*leaves)

    return call


def _unseen(run: Callable[..., T]) -> Callable[..., T]:
    @jax.custom_batching.custom_vmap
    def call(*leaves: Array) -> T:
        return run(*leaves)

    @call.def_vmap
    def call_batch(size: int, mapped: Any, *leaves: Array) -> tuple[T, Any]:
        axes = [0 if is_mapped else None for is_mapped in mapped]
        result = _unseen(jax.vmap(run, in_axes=axes, axis_size=size))(*leaves)
        return result, jax.tree.map(lambda _: True, result)

    return call


def fixed_along(x: T, arguments: Any, message: str) -> T:
    """x, unchanged. Differentiating it with respect to the `arguments` raises a `TypeError`."""
    return _fixed_along(message, x, arguments)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fixed_along(message: str, x: Any, arguments: Any) -> Any:
    return x


@partial(_fixed_along.defjvp, symbolic_zeros=True)
def _fixed_along_jvp(message: str, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> Any:
    x, arguments = primals
    if not all(is_constant(_without_zero(t)) for t in jax.tree.leaves(tangents[1])):
        raise TypeError(message)
    x_dot = instantiated(jax.tree.map(_without_zero, tangents[0]), x)
    return _fixed_along(message, x, arguments), x_dot


def sum_where(
    chosen: Bool[Array, "..."], tangent: Num[Array, "..."], axes: int | tuple[int, ...] = -1
) -> Array:
    """The sum of the chosen tangents."""
    # `where` instead of a product: for a NaN cotangent, the transpose of `where` is 0 at entries
    # that are not chosen, but the transpose of a product is NaN.
    return jnp.where(chosen, tangent, 0).sum(axes)


def entries(
    x: Num[Array, "... n m"], rows: Int[Array, "... k"], cols: Int[Array, "... k"]
) -> Num[Array, "... k"]:
    """x[rows, cols] for each matrix of a batch. (A flat index would limit n·m to 2^31.)"""

    def of_one(x: Array, rows: Array, cols: Array) -> Array:
        return x[rows, cols]

    for _ in x.shape[:-2]:
        of_one = jax.vmap(of_one)
    return of_one(x, rows, cols)


def is_constant(tangent: Array) -> bool:
    """Whether the tangent belongs to an integer, or to an argument that is not differentiated."""
    return tangent.dtype == jax.dtypes.float0
