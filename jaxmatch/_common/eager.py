"""Runs functions without native code, outside of a trace: in 64 bits, and with few compilations.

Within a trace, and for derivatives, such a function runs as written. Outside, JAX would convert
64-bit NumPy input to 32 bits, run each operation separately, and compile each operation for each
new shape. Instead, NumPy computes the function, or it is compiled as a whole.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.given import numeric
from jaxmatch._common.place import NEVER_COMPILED, Place, place_of, to_numpy
from jaxmatch._common.switches import compiled


Function = TypeVar("Function", bound=Callable[..., Any])


def outside_of_jit(
    *names: str, trees: Sequence[str] = (), by_numpy: bool = False, whole: bool = True
) -> Callable[[Function], Function]:
    """Decorator that decides how a function runs on arrays that are not traced.

    64-bit NumPy input is computed in 64 bits, whatever `jax_enable_x64` says. As for solvers, the
    first array decides whether results are NumPy or JAX arrays.

    - `names`, `trees`: the arguments that are arrays, and the arguments that are pytrees of arrays.
      All other arguments are static.
    - `by_numpy`: the function takes real numbers, and computes in NumPy if it gets NumPy arrays.
      For arrays on a CPU, the decorator passes NumPy arrays.
    - `whole`: the function is compiled as a whole, except if an argument is a function that the
      caller wrote. The caller may pass a new function each time, or one that depends on variables
      that change.
    """

    def decorate(function: Function) -> Function:
        parameters = inspect.signature(function).parameters
        in_order = [name for name in parameters if name in names or name in trees]
        required = {name for name, p in parameters.items() if p.default is p.empty}

        def program(static: tuple[tuple[str, Any], ...], arrays: dict[str, Any]) -> Any:
            return function(**dict(static), **arrays)

        program.__name__ = program.__qualname__ = function.__name__
        program = compiled(static_argnames="static")(program)

        def converted(given: dict[str, Any]) -> dict[str, Any]:
            """Removes the array arguments from `given`, checks them, and returns them."""
            arrays = {}
            for name in filter(given.__contains__, in_order):
                x = given.pop(name)
                if name in trees:
                    arrays[name] = jax.tree.map(lambda x, name=name: numeric(name, x), x)
                elif x is None and name not in required:
                    arrays[name] = None
                else:
                    arrays[name] = numeric(name, x, real=by_numpy)
            return arrays

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            others = dict(zip(parameters, args, strict=False))
            if len(args) > len(parameters) or not others.keys().isdisjoint(kwargs):
                return function(*args, **kwargs)  # raises Python's error for wrong arguments
            others |= kwargs
            arrays = converted(others)
            leaves = jax.tree.leaves(arrays)
            if not leaves or any(isinstance(x, jax.core.Tracer) for x in leaves):
                return function(**arrays, **others)
            place = place_of(*leaves, options=NEVER_COMPILED if by_numpy else None)
            static = _static(others)
            compiles = whole and not jax.config.jax_disable_jit  # type: ignore[attr-defined]
            if static is None or not (place.native or compiles):
                return _by_operations(function, place.by_jax(), arrays, others)
            with place.precision():
                if place.native:
                    with np.errstate(all="ignore"):
                        result = function(**jax.tree.map(_on_host, arrays), **others)
                else:
                    result = program(static, arrays)
                return place.bring_home(result)

        return call  # type: ignore[return-value]

    return decorate


def _static(options: dict[str, Any]) -> tuple[tuple[str, Any], ...] | None:
    """Static arguments as a hashable key into the cache of compiled programs.

    None if no compiled program can be used again: if an argument is a function that the caller
    wrote, or is not hashable.
    """
    if any(callable(x) and not _is_own(x) for x in options.values()):
        return None
    static = tuple(sorted(options.items()))
    try:
        hash(static)
    except TypeError:
        return None
    return static


def _is_own(function: Any) -> bool:
    """Whether this is a named function of this library, or an object of one of its classes."""
    module, name = (getattr(function, key, "") or "" for key in ("__module__", "__qualname__"))
    return module.startswith("jaxmatch.") and "<locals>" not in name


def _on_host(x: Any) -> np.ndarray:
    if isinstance(x, (bool, int, float)):
        return np.asarray(x, jax.dtypes.canonicalize_dtype(type(x)))
    return np.asarray(x)


def _as_jax(x: Any) -> Any:
    """Converts x to a JAX array. Complex NumPy arrays stay: the function rejects them."""
    return x if isinstance(x, np.ndarray) and x.dtype.kind == "c" else jnp.asarray(x)


def _by_operations(
    function: Callable[..., Any], place: Place, arrays: dict[str, Any], others: dict[str, Any]
) -> Any:
    """Runs the function operation by operation.

    In a surrounding trace, the function becomes part of the trace although its arguments are not
    traced: a function that the caller passes may close over traced values.
    """
    if not place.numpy or isinstance(jnp.zeros(()), jax.core.Tracer):
        return function(**arrays, **others)
    with jax.enable_x64(True) if place.x64 else contextlib.nullcontext():
        result = function(**jax.tree.map(_as_jax, arrays), **others)
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(result))
    return result if is_traced else to_numpy(result)
