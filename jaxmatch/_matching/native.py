"""The call of the native target for maximum bipartite matchings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Matching
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._ffi.call import Result, as_text, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
from jaxmatch._matching.graph import BipartiteGraph


class MatchingBuffers(NamedTuple):
    """The state of the CUDA kernels between two native calls."""

    control: Int[Array, "... c"]
    scratch: Int[Array, "... s"]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result of the call that returned this state is final."""
        return self.control[..., size("matching.control.done")] != 0


def _buffer_sizes(graph: BipartiteGraph) -> list[int]:
    return [size("matching.control"), size("matching.scratch", *graph.shape, graph.max_edges)]


def _operands(graph: BipartiteGraph, start: Array | None) -> list[Array]:
    operands = [graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind]
    return operands if start is None else [*operands, start]


def empty_matching_buffers(
    graph: BipartiteGraph, start: Int[Array, "... n"] | None
) -> MatchingBuffers:
    """The state before the first native call."""
    # `like` is derived from the operands, so that in a `shard_map` all states have the same varying
    # axes.
    like = sum((x.sum(-1, dtype=jnp.int32) for x in _operands(graph, start)), jnp.int32(0))
    shapes = [(*like.shape, words) for words in _buffer_sizes(graph)]
    return MatchingBuffers(*(jnp.zeros_like(like, shape=s, dtype=jnp.int32) for s in shapes))


def matching(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None,
    *,
    method: str,
    init: str,
    options: Mapping[str, Any],
    steps: int,
    platform: Literal["cpu", "cuda"],
    state: MatchingBuffers | None = None,
) -> tuple[Matching, MatchingBuffers | None]:
    """Solves every graph of the batch in one native call. Arguments must be checked.

    CUDA kernels take `steps` steps from `state`; if `steps` is 0, they run to the end.
    """
    operands = _operands(graph, start)
    aliases = {}
    sizes = _buffer_sizes(graph) if platform == "cuda" else []
    n, m = graph.shape
    results = [
        Result((n,), jnp.int32),
        Result((m,), jnp.int32),
        Result((), jnp.int32),
        Result((n,), jnp.bool_),
        Result((m,), jnp.bool_),
        Result((), jnp.int32),
    ]
    if state is not None:
        aliases = {len(operands) + k: len(results) + k for k in range(len(state))}
        operands += state
    out = native_call(
        "jaxmatch_matching",
        operands,
        [*results, *buffers(sizes)],
        core_dims=[1 for _ in operands],
        aliases=aliases,
        present=names_of(start=start, state=state),
        method=method,
        init=init,
        options=as_text(options),
        steps=steps,
    )
    state_after = MatchingBuffers(*out[len(results) :]) if platform == "cuda" else None
    return Matching(*out[: len(results)]), state_after
