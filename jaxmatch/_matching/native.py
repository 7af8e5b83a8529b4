"""The target that finds maximum matchings of bipartite graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Matching
from jaxmatch._ffi.call import Result, as_text, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int

    from jaxmatch._matching.graph import BipartiteGraph


class MatchingBuffers(NamedTuple):
    """What the CUDA kernels keep between two steps."""

    control: Int[Array, "... c"]
    scratch: Int[Array, "... s"]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result that came with this is final."""
        return self.control[..., size("matching.control.done")] != 0


def _buffer_sizes(graph: BipartiteGraph) -> list[int]:
    return [size("matching.control"), size("matching.scratch", *graph.shape, graph.max_edges)]


def _operands(graph: BipartiteGraph, start: Array | None) -> list[Array]:
    operands = [graph.row_ptr, graph.col_ind, graph.col_ptr, graph.row_ind]
    return operands if start is None else [*operands, start]


def empty_matching_buffers(
    graph: BipartiteGraph, start: Int[Array, "... n"] | None
) -> MatchingBuffers:
    """A state in which nothing has been done."""
    # Like the operands, to vary over the same axes of a surrounding `shard_map` as a step's result.
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
    """Every graph of the batch in one native call; arguments are checked already.

    CUDA kernels stop after so many steps, from `state` on; 0 means to the end.
    """
    operands = _operands(graph, start)
    aliases = {}
    if state is not None:
        aliases = {len(operands): 6, len(operands) + 1: 7}
        operands += state
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
    return Matching(*out[:6]), MatchingBuffers(*out[6:]) if platform == "cuda" else None
