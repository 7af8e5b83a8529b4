"""Which solver finds maximum flows on which platform, and how a batch of problems reaches it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxmatch._common.result import Flow
from jaxmatch._ffi.dispatch import Method, by_platform, mapped_first, rebatch, until_done
from jaxmatch._flow import native
from jaxmatch._flow import xla as _xla_flow
from jaxmatch._flow.network import FlowNetwork


if TYPE_CHECKING:
    from jaxtyping import Array


METHODS = {
    "auto": Method(cpu="auto", cuda="auto"),
    "augment": Method(cpu="augment", cuda="auto"),
    "push_relabel": Method(cpu="push_relabel", cuda="auto"),
    "pseudoflow": Method(cpu="pseudoflow", cuda="auto"),
    "thread_centric": Method(cpu="push_relabel", cuda="thread_centric"),
    "two_level": Method(cpu="push_relabel", cuda="two_level"),
    "xla": Method(cpu=None, cuda=None),
}

# The values of options that are no numbers.
CHOICES = {"tile": ("degree", 4, 8, 16, 32)}
# What a GPU solver takes, and what it takes where nothing is given. `cycle` is a number, 0 where
# the kernel decides.
OPTIONS = {
    "thread_centric": {"cycle": 0},
    "two_level": {"tile": "degree", "cycle": 0},
}


def _in_one_call(
    network: FlowNetwork, capacity: Array, source: Array, sink: Array, **how: Any
) -> Flow:
    return native.flow(network, capacity, source, sink, steps=0, **how)[0]


def _in_steps(*problem: Any, steps: int, **how: Any) -> Flow:
    return until_done(
        lambda state: native.flow(*problem, state=state, steps=steps, **how),
        native.empty_flow_buffers(*problem),
        lambda state: state.done,
    )


def solve_here(
    network: FlowNetwork, capacity: Array, source: Array, sink: Array, *, method: str
) -> Flow:
    """One native call on NumPy arrays, outside of a trace."""
    how: dict[str, Any] = {"platform": "cpu", "method": method, "options": {}}
    return _in_one_call(network, capacity, source, sink, **how)


def solve_flow(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    *,
    method: str,
    given: tuple[tuple[str, Any], ...] = (),
    steps: int = 0,
) -> Flow:
    """One call for a batch, also under `vmap`, where a network that is not mapped is not copied.

    The network has the batch dimensions of all others, or none.
    """
    cpu, cuda = METHODS[method]
    on_cpu = on_cuda = None
    if cpu is not None:
        on_cpu = partial(_in_one_call, platform="cpu", method=cpu, options={})
    if cuda is not None:
        options = {}
        if cuda in OPTIONS:
            options = {**OPTIONS[cuda], **dict(given), "layout": network.layout}
        how: dict[str, Any] = {"platform": "cuda", "method": cuda, "options": options}
        on_cuda = partial(_in_steps, steps=steps, **how) if steps else partial(_in_one_call, **how)

    def solve(*problem: Any) -> Flow:
        return by_platform(_xla_flow.solve, *problem, cpu=on_cpu, cuda=on_cuda)

    return rebatch(solve, _aligned)(network, capacity, source, sink)


def _aligned(size: int, mapped: tuple[Any, ...], problem: tuple[Any, ...]) -> tuple[Any, ...]:
    (network, *others), (of_network, *of_others) = problem, mapped
    capacity, source, sink = (
        mapped_first(x, is_mapped, size) for x, is_mapped in zip(others, of_others, strict=True)
    )

    def like_the_rest(x: Array, is_mapped: bool) -> Array:
        x = mapped_first(x, is_mapped, size)
        inner = (1,) * (capacity.ndim - x.ndim)
        x = x.reshape(size, *inner, *x.shape[1:])
        return jnp.broadcast_to(x, (*capacity.shape[:-1], x.shape[-1]))

    if any(jax.tree.leaves(of_network)) or network.batch_shape:
        network = jax.tree.map(like_the_rest, network, of_network)
    return network, capacity, source, sink
