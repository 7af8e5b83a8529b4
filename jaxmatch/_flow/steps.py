"""A maximum flow by native calls of a few steps each, in a `while_loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxmatch._common.result import Flow
from jaxmatch._ffi.steps import until_done
from jaxmatch._flow import native


if TYPE_CHECKING:
    from jaxtyping import Array

    from jaxmatch._flow.network import FlowNetwork


def solve_in_steps(
    network: FlowNetwork,
    capacity: Array,
    source: Array,
    sink: Array,
    *,
    method: str,
    choice: int,
    k: float,
    steps: int,
) -> Flow:
    """Native calls of so many steps on CUDA, until all problems are done."""
    problem = (network, capacity, source, sink)

    how: dict[str, Any] = {"method": method, "choice": choice, "k": k, "rounds": steps}
    return until_done(
        lambda state: native.flow(*problem, platform="cuda", state=state, **how),
        native.empty_flow_buffers(*problem),
    )
