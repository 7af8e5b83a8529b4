"""JAX's debugging switches, and how far they reach into a call of ours.

`jax_debug_nans` and `jax_debug_infs` check what every compiled function returns. NaN is what we
document for problems that are not `OPTIMAL`, and infinities are costs and bounds like others, so
none of these checks is for us. `jax_disable_jit` calls the Python function in place of the compiled
one, but a native call exists only as compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax


P = ParamSpec("P")
R = TypeVar("R")


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """For public functions: no checks for NaN and infinities while one runs."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        config: Any = jax.config
        if not (config.jax_debug_nans or config.jax_debug_infs):
            return function(*args, **kwargs)
        with jax.debug_nans(False), jax.debug_infs(False):
            return function(*args, **kwargs)

    return call


def compiled(
    *, static_argnames: str | tuple[str, ...] = (), static_argnums: int | tuple[int, ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`jax.jit` that compiles under `jax.disable_jit()` too; its result is not checked either."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        jitted = jax.jit(
            function, static_argnames=static_argnames or None, static_argnums=static_argnums or None
        )

        @unchecked
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not jax.config.jax_disable_jit:  # type: ignore[attr-defined]
                return jitted(*args, **kwargs)
            with jax.disable_jit(False):
                return jitted(*args, **kwargs)

        return call

    return decorate
