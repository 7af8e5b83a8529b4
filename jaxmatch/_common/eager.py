"""Functions without native code outside of a trace: in 64 bits, and without many compilations.

Within a trace, and for derivatives, such a function is what its body says. Outside, JAX would start
each operation by itself, and compile it for each new shape.
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
    """Decorator: how a function runs on arrays that are not traced.

    64-bit NumPy input is computed in 64 bits, whatever `jax_enable_x64` says. As for solvers, the
    first array decides the kind of results.

    - `names`, `trees`: the arguments that are arrays, and those that are pytrees of arrays. All
      others are static.
    - `by_numpy`: the function of real numbers computes by NumPy where it gets NumPy arrays, and so
      does on a CPU.
    - `whole`: the function is compiled as a whole, unless an argument is a function of the caller,
      which may be another one in each call, or depend on what changes.
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
            """Removes the arrays from `given`."""
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
                return function(*args, **kwargs)  # raises the error
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
    """Static arguments as a key of compiled programs; None if they cannot be one."""
    if any(callable(x) and not _is_own(x) for x in options.values()):
        return None
    static = tuple(sorted(options.items()))
    try:
        hash(static)
    except TypeError:
        return None
    return static


def _is_own(function: Any) -> bool:
    """Whether this library has the function, or the class of an object, under a name."""
    module, name = (getattr(function, key, "") or "" for key in ("__module__", "__qualname__"))
    return module.startswith("jaxmatch.") and "<locals>" not in name


def _on_host(x: Any) -> np.ndarray:
    if isinstance(x, (bool, int, float)):
        return np.asarray(x, jax.dtypes.canonicalize_dtype(type(x)))
    return np.asarray(x)


def _as_jax(x: Any) -> Any:
    """An array of JAX; complex numbers stay as they are, for the errors about them."""
    return x if isinstance(x, np.ndarray) and x.dtype.kind == "c" else jnp.asarray(x)


def _by_operations(
    function: Callable[..., Any], place: Place, arrays: dict[str, Any], others: dict[str, Any]
) -> Any:
    """One operation after the other, without constants of a surrounding trace.

    Functions of the caller may close over what is traced there.
    """
    if not place.numpy or isinstance(jnp.zeros(()), jax.core.Tracer):
        return function(**arrays, **others)
    with jax.enable_x64(True) if place.x64 else contextlib.nullcontext():
        result = function(**jax.tree.map(_as_jax, arrays), **others)
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(result))
    return result if is_traced else to_numpy(result)
