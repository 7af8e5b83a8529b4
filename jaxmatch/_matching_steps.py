"""A matching in supersteps: native calls of a few rounds each, in a `while_loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax import lax

from jaxmatch import _native
from jaxmatch._native import MatchingBuffers
from jaxmatch._result import Matching


if TYPE_CHECKING:
    from jaxtyping import Array, Int

    from jaxmatch._graphs import BipartiteGraph

_State = tuple[Matching, MatchingBuffers]


def solve_in_steps(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None = None,
    *,
    method: str,
    init: str,
    choice: int,
    k: float,
    rounds: int,
) -> Matching:
    """Supersteps of so many push rounds or BFS levels on CUDA, until all graphs are done."""

    def step(buffers: MatchingBuffers) -> _State:
        result, buffers_after = _native.matching(
            graph,
            start,
            method=method,
            init=init,
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
        step(_native.empty_matching_buffers(graph, start)),
    )[0]
