"""Support for JAX's debugging switches.

`jax_debug_nans` and `jax_debug_infs` check the results of compiled functions. `unchecked` turns
them off: NaN is the documented result of problems that are not `OPTIMAL`, and infinities are valid
costs and bounds. `jax_disable_jit` makes JAX run functions operation by operation, but a native
call exists only in compiled code. So `compiled` ignores this switch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax


P = ParamSpec("P")
R = TypeVar("R")


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for public functions: turns JAX's checks for NaN and infinities off inside."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        config: Any = jax.config
        if not (config.jax_debug_nans or config.jax_debug_infs):
            return function(*args, **kwargs)
        with jax.debug_nans(False), jax.debug_infs(False):
            return function(*args, **kwargs)

    return call


def compiled(
    *,
    static_argnames: str | tuple[str, ...] = (),
    static_argnums: int | tuple[int, ...] = (),
    out_shardings: Any = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`jax.jit` that also compiles under `jax.disable_jit()`, without checks of its results."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        jitted = jax.jit(
            function,
            static_argnames=static_argnames or None,
            static_argnums=static_argnums or None,
            **({} if out_shardings is None else {"out_shardings": out_shardings}),
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
