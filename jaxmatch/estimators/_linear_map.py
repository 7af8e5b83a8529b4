"""Linear maps with an explicit transpose, for functions that JAX cannot transpose itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array


_linear_map = Primitive("jaxmatch_linear_map")


def linear_map(
    apply: Callable[..., Array], transposed: Callable[..., Array], x: Array, *data: Array
) -> Array:
    """Returns `apply(x, *data)`, differentiable with respect to x in forward and reverse mode.

    `apply` must be linear in x and return the shape and dtype of x. `transposed(x, *data)` must be
    its transpose. The two functions must be hashable, and all their arguments must have the same
    leading batch dimensions. A derivative with respect to `data` is an error.
    """
    return _linear_map.bind(x, *data, apply=apply, transposed=transposed)


@_linear_map.def_impl
def _impl(*arguments: Array, apply: Any, transposed: Any) -> Array:
    del transposed
    return compiled()(apply)(*arguments)


@_linear_map.def_abstract_eval
def _abstract(x: Any, *data: Any, apply: Any, transposed: Any) -> Any:
    del data, apply, transposed
    return x


def _jvp(primals: Any, tangents: Any, **functions: Any) -> Any:
    if not all(isinstance(t, ad.Zero) for t in tangents[1:]):
        raise TypeError("A linear map was differentiated with respect to its data.")
    y = _linear_map.bind(*primals, **functions)
    if isinstance(tangents[0], ad.Zero):
        return y, tangents[0]
    return y, _linear_map.bind(tangents[0], *primals[1:], **functions)


def _transpose(cotangent: Any, x: Any, *data: Any, apply: Any, transposed: Any) -> Any:
    rest = [None] * len(data)
    if isinstance(cotangent, ad.Zero):
        return [ad.Zero(x.aval), *rest]
    return [_linear_map.bind(cotangent, *data, apply=transposed, transposed=apply), *rest]


def _batch(arguments: Any, dims: Any, **functions: Any) -> Any:
    size = next(x.shape[d] for x, d in zip(arguments, dims, strict=True) if isinstance(d, int))
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if not isinstance(d, int) else jnp.moveaxis(x, d, 0)
        for x, d in zip(arguments, dims, strict=True)
    ]
    return _linear_map.bind(*moved, **functions), 0


ad.primitive_jvps[_linear_map] = _jvp
ad.primitive_transposes[_linear_map] = _transpose
batching.primitive_batchers[_linear_map] = _batch


def _lowered(*arguments: Array, apply: Any, transposed: Any) -> Array:
    del transposed
    return apply(*arguments)


mlir.register_lowering(_linear_map, mlir.lower_fun(_lowered, multiple_results=False))
