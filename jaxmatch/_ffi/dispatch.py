"""Dispatch to a native solver if the platform has one, else to its pure-JAX twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool
from jaxmatch._library import libraries


R = TypeVar("R")
State = TypeVar("State")


class Method(NamedTuple):
    """The native method that runs on each platform for a user's method; None: the pure-JAX twin."""

    cpu: str | None
    cuda: str | None


def by_platform(
    twin: Callable[..., R] | None,
    *arguments: Any,
    cpu: Callable[..., R] | None = None,
    cuda: Callable[..., R] | None = None,
    sizes: Sequence[Any] = (),
) -> R:
    """Calls the native function of the platform for which JAX lowers the program, else the twin.

    Arguments are pytrees. A native function is used only if the library of its platform is loaded.
    `twin`: the same function in pure JAX; None if there is none. `sizes`: the sizes of a problem.
    If they are symbolic, `cpu` is called, because on the CPU neither workspaces nor the choice of a
    method depend on sizes. Lowering for other platforms is then an error.
    """
    native = {}
    if cpu is not None and libraries.has_cpu_library():
        native["cpu"] = cpu
    if cuda is not None and libraries.has_cuda_library():
        native["cuda"] = cuda
    if is_symbolic(sizes):
        if "cpu" not in native:
            raise ValueError(
                f"A problem has the symbolic sizes ({', '.join(map(str, sizes))}), which native "
                "solvers of the CPU alone take: this method has none, or there is no library. "
                "Export with the default method, or one function for each size."
            )
        return native["cpu"](*arguments)
    if twin is None:
        return lax.platform_dependent(*arguments, **native)
    return (
        lax.platform_dependent(*arguments, default=twin, **native) if native else twin(*arguments)
    )


def rebatch(
    solve: Callable[..., R],
    align: Callable[[int, tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]] | None = None,
) -> Callable[..., R]:
    """Wraps `solve` so that `vmap` calls it once, with the whole batch in its arguments.

    `align(size, mapped, arguments)` broadcasts arguments that are not mapped to the new leading
    dimension. By default all of them are broadcast.
    """

    @jax.custom_batching.custom_vmap
    def call(*arguments: Any) -> R:
        return solve(*arguments)

    @call.def_vmap
    def call_batch(size: int, mapped: Any, *arguments: Any) -> tuple[R, Any]:
        result = call(*(align or _all_mapped)(size, tuple(mapped), arguments))
        return result, jax.tree.map(lambda _: True, result)

    return call


def _all_mapped(size: int, mapped: tuple[Any, ...], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return jax.tree.map(lambda x, is_mapped: mapped_first(x, is_mapped, size), arguments, mapped)


def mapped_first(x: Array, is_mapped: bool, size: int) -> Array:
    return x if is_mapped else jnp.broadcast_to(x, (size, *x.shape))


def until_done(
    call: Callable[[State], tuple[R, State | None]],
    state: State,
    is_done: Callable[[State], Bool[Array, "..."]],
    progress: Callable[[R, State], None] = lambda *_: None,
) -> R:
    """A `while_loop` over native calls of a few steps each, until all problems are done.

    `call(state)` returns a result and the next state. `progress` receives both after each call.
    """

    def step(state: State) -> tuple[R, State]:
        result, after = call(state)
        assert after is not None
        return result, after

    def go_on(last: tuple[R, State]) -> tuple[R, State]:
        progress(*last)  # inside the loop: this keeps the callbacks in order
        return step(last[1])

    last = lax.while_loop(lambda last: ~is_done(last[1]).all(), go_on, step(state))
    progress(*last)
    return last[0]
