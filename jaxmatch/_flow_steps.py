"""A maximum flow in supersteps: native calls of a few rounds each, in a `while_loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax import lax

from jaxmatch import _native
from jaxmatch._native import FlowBuffers
from jaxmatch._result import Flow


if TYPE_CHECKING:
    from jaxtyping import Array

    from jaxmatch._networks import FlowNetwork


def solve_in_steps(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    *,
    method: str,
    choice: int,
    k: float,
    rounds: int,
) -> Flow:
    """Supersteps of so many global relabellings and pushes on CUDA, until all problems are done."""
    problem = (network, capacity, source, sink)

    def step(buffers: FlowBuffers) -> tuple[Flow, FlowBuffers]:
        result, buffers_after = _native.flow(
            *problem,
            method=method,
            choice=choice,
            k=k,
            rounds=rounds,
            platform="cuda",
            state=buffers,
        )
        assert buffers_after is not None
        return result, buffers_after

    return lax.while_loop(
        lambda state: ~state[1].done.all(),
        lambda state: step(state[1]),
        step(_native.empty_flow_buffers(*problem)),
    )[0]
