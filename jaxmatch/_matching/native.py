"""The target that finds maximum matchings of bipartite graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Matching
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._ffi.results import buffers


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int

    from jaxmatch._matching.graph import BipartiteGraph

# By the numbers of MatchingMethod and MatchingInit in ffi/matching/operands.h.
MATCHING_METHODS = {
    "auto": 0,
    "hopcroft_karp": 1,
    "hkdw": 2,
    "pothen_fan": 3,
    "push_relabel": 4,
    "p_dbfs": 5,
    "p_pfp": 6,
    "p_hk": 7,
    "apsb": 8,
    "apfb": 9,
    "none": 10,
}
MATCHING_INITS = {"auto": 0, "none": 1, "cheap": 2, "karp_sipser": 3}

# What a value of an option adds to the attribute `choice`.
MATCHING_CHOICES = {
    "variant": {"first": 0, "active": 1, "shrink": 2},
    "relabel": {"adaptive": 0, "fixed": 1 << 2},
    "kernel": {"gpubfs": 0, "gpubfs_wr": 1 << 3},
    "threads": {"ct": 0, "mt": 1 << 4},
    "alternate": {"paths": 0, "roots": 1 << 5},
}

_CONTROL_WORDS = 64


class MatchingBuffers(NamedTuple):
    """What the CUDA kernels keep between two steps."""

    control: Int[Array, "... 64"]
    scratch: Int[Array, "... s"]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result that came with this is final."""
        return self.control[..., 0] != 0


def _scratch_words(n: int, m: int, e: int) -> int:
    """The size of one graph's scratch in int32, as in ffi/matching/cuda/state.cuh."""
    side = max(n, m, 1)
    entries = side + e // 256 + 1
    parts = [4 * (n + 1), 4 * (m + 1), 4 * (n + m + 1), 4 * (n + m + 1), 4 * side, 4 * side]
    parts += [16 * side, 16 * entries, 16 * entries, 4 * side, 4 * side, 8 * (entries + 1024)]
    return sum(-(-part // 256) * 64 for part in parts)


def _buffer_sizes(graph: BipartiteGraph) -> list[int]:
    return [_CONTROL_WORDS, _scratch_words(*graph.shape, graph.max_edges)]


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
    choice: int,
    k: float,
    rounds: int,
    platform: Literal["cpu", "cuda"],
    state: MatchingBuffers | None = None,
) -> tuple[Matching, MatchingBuffers | None]:
    """Every graph of the batch in one native call; arguments are checked already.

    With `rounds`, CUDA kernels stop after so many, from `state` on; 0 means to the end.
    """
    operands = _operands(graph, start)
    given, aliases = int(start is not None), {}
    if state is not None:
        aliases = {len(operands): 6, len(operands) + 1: 7}
        operands += state
        given |= 2
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
        given=given,
        method=MATCHING_METHODS[method],
        init=MATCHING_INITS[init],
        choice=choice,
        k=k,
        rounds=rounds,
    )
    return Matching(*out[:6]), MatchingBuffers(*out[6:]) if platform == "cuda" else None
