"""Which code solves a problem: native where the platform has it, else the pure-JAX twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._ffi import libraries


if TYPE_CHECKING:
    from jaxtyping import Array, Bool


R = TypeVar("R")
State = TypeVar("State")


class Method(NamedTuple):
    """The native solver that a method runs on each platform; None: the pure-JAX twin."""

    cpu: str | None
    cuda: str | None


def by_platform(
    twin: Callable[..., R] | None,
    *arguments: Any,
    cpu: Callable[..., R] | None = None,
    cuda: Callable[..., R] | None = None,
) -> R:
    """One of three functions of the arguments, which are pytrees, chosen when it is lowered.

    A native one where the platform and its library are there, the twin elsewhere.
    """
    native = {}
    if cpu is not None and libraries.has_cpu_library():
        native["cpu"] = cpu
    if cuda is not None and libraries.has_cuda_library():
        native["cuda"] = cuda
    if twin is None:
        return lax.platform_dependent(*arguments, **native)
    return (
        lax.platform_dependent(*arguments, default=twin, **native) if native else twin(*arguments)
    )


def rebatch(
    solve: Callable[..., R],
    align: Callable[[int, tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]] | None = None,
) -> Callable[..., R]:
    """`solve`, which under `vmap` is called once for the whole batch, so that it sees its size.

    `align(size, mapped, arguments)` gives the arguments a new leading dimension, where they have
    none; without it all of them get one.
    """

    @jax.custom_batching.custom_vmap
    def once(*arguments: Any) -> R:
        return solve(*arguments)

    @once.def_vmap
    def once_more(size: int, mapped: Any, *arguments: Any) -> tuple[R, Any]:
        result = once(*(align or _all_mapped)(size, tuple(mapped), arguments))
        return result, jax.tree.map(lambda _: True, result)

    return once


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
    """Native calls of a few steps each, in a `while_loop` on the device, until all are done.

    `call` goes on from the state of the last one; `progress` sees what each returns.
    """

    def step(state: State) -> tuple[R, State]:
        result, after = call(state)
        assert after is not None
        return result, after

    def go_on(last: tuple[R, State]) -> tuple[R, State]:
        progress(*last)  # outside of the loop it might come later than the next
        return step(last[1])

    last = lax.while_loop(lambda last: ~is_done(last[1]).all(), go_on, step(state))
    progress(*last)
    return last[0]
