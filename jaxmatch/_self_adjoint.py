"""Linear maps that equal their transpose, computed by whatever JAX can run but not transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Array


_self_adjoint = Primitive("jaxmatch_self_adjoint")


def self_adjoint(apply: Callable[..., Array], x: Array, *data: Array) -> Array:
    """`apply(x, *data)`, a function that is linear in x, of the shape and dtype of x, and whose
    matrix is symmetric: forward and reverse mode are the function itself.

    `apply` is hashable and takes any leading batch dimensions, which all arguments have alike. No
    derivative with respect to `data` exists, and to ask for one is an error.
    """
    return _self_adjoint.bind(x, *data, apply=apply)


@_self_adjoint.def_impl
def _impl(*arguments: Array, apply: Any) -> Array:
    return jax.jit(apply)(*arguments)


@_self_adjoint.def_abstract_eval
def _abstract(x: Any, *data: Any, apply: Any) -> Any:
    del data, apply
    return x


def _jvp(primals: Any, tangents: Any, *, apply: Any) -> Any:
    if not all(isinstance(t, ad.Zero) for t in tangents[1:]):
        raise TypeError("A self-adjoint map was differentiated by what it is made of.")
    y = _self_adjoint.bind(*primals, apply=apply)
    if isinstance(tangents[0], ad.Zero):
        return y, tangents[0]
    return y, _self_adjoint.bind(tangents[0], *primals[1:], apply=apply)


def _transpose(cotangent: Any, x: Any, *data: Any, apply: Any) -> Any:
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(x.aval), *(None for _ in data)]
    return [_self_adjoint.bind(cotangent, *data, apply=apply), *(None for _ in data)]


def _batch(arguments: Any, dims: Any, *, apply: Any) -> Any:
    size = next(x.shape[d] for x, d in zip(arguments, dims, strict=True) if isinstance(d, int))
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if not isinstance(d, int) else jnp.moveaxis(x, d, 0)
        for x, d in zip(arguments, dims, strict=True)
    ]
    return _self_adjoint.bind(*moved, apply=apply), 0


ad.primitive_jvps[_self_adjoint] = _jvp
ad.primitive_transposes[_self_adjoint] = _transpose
batching.primitive_batchers[_self_adjoint] = _batch


def _lowered(*arguments: Array, apply: Any) -> Array:
    return apply(*arguments)


mlir.register_lowering(_self_adjoint, mlir.lower_fun(_lowered, multiple_results=False))
