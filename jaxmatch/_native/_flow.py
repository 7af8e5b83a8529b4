"""The target that finds maximum flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._native._results import flow_results
from jaxmatch._result import Flow


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, Num

    from jaxmatch._networks import FlowNetwork

# By the numbers of FlowMethod in ffi/include/jaxmatch/flow_operands.h.
FLOW_METHODS = {
    "auto": 0,
    "augment": 1,
    "push_relabel": 2,
    "pseudoflow": 3,
    "thread_centric": 10,
    "two_level": 11,
}

# What a value of an option adds to the attribute `choice`.
FLOW_CHOICES = {
    "layout": {"rcsr": 0, "bcsr": 1, "csr": 2},
    "tile": {"degree": 0, 4: 1 << 2, 8: 2 << 2, 16: 3 << 2, 32: 4 << 2},
}

_CONTROL_WORDS = 128


class FlowBuffers(NamedTuple):
    """What the CUDA kernels keep between two steps."""

    control: Int[Array, "... 128"]
    scratch: Int[Array, "... s"]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result that came with this is final."""
        return self.control[..., 0] != 0

    def spent(self) -> tuple[np.ndarray, np.ndarray]:
        """Cycles `[..., 6]` in parts of the solve, searches `[..., 2]` of it; outside of `jit`.

        Parts: searches and pushes to a maximum preflow, searches and pushes back to the root, flow
        taken back where it came from before these, and the search for the cut.
        """
        control = np.asarray(self.control)
        return control[..., 48:60].copy().view(np.int64), control[..., 60:62]


def _scratch_words(n: int, a: int, e: int) -> int:
    """The size of one problem's scratch in int32, as in ffi/cuda/flow_state.cuh."""
    parts = [16 * a, 8 * a, 8 * n, 4 * n, 4 * n, 4 * n, 8 * (n + a // 256 + 1)]
    parts += [4 * n, 4 * (n + 2), 4 * e, 8 * (e // 1024 + 1)]
    return sum(-(-part // 256) * 64 for part in parts)


def _buffer_sizes(network: FlowNetwork) -> list[int]:
    arcs = network.arc_head.shape[-1]
    return [_CONTROL_WORDS, _scratch_words(network.num_nodes, arcs, network.num_edges)]


def _operands(network: FlowNetwork, capacity: Array, source: Array, sink: Array) -> list[Array]:
    """A network without batch dimensions is read in place, not copied."""
    arrays = [network.arc_ptr, network.arc_head, network.arc_partner]
    arrays += [network.edge_ptr, network.arc_edge]
    if network.batch_shape == ():
        ones = (1,) * (capacity.ndim - 1)
        arrays = [x.reshape(ones + x.shape) for x in arrays]
    return [*arrays, capacity, source, sink]


def empty_flow_buffers(
    network: FlowNetwork, capacity: Array, source: Array, sink: Array
) -> FlowBuffers:
    """A state in which nothing has been done."""
    operands = _operands(network, capacity, source, sink)
    *_, control, scratch = flow_results(operands, _buffer_sizes(network))
    # Like the operands, to vary over the same axes of a surrounding `shard_map` as a step's result.
    like = sum((x.sum(-1) for x in operands[:5]), source + sink)
    return FlowBuffers(
        *(jnp.zeros_like(like, shape=x.shape, dtype=x.dtype) for x in (control, scratch))
    )


def flow(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    *,
    method: str,
    choice: int,
    k: float,
    rounds: int,
    platform: Literal["cpu", "cuda"],
    state: FlowBuffers | None = None,
) -> tuple[Flow, FlowBuffers | None]:
    """Every problem of the batch in one native call; arguments are checked already.

    The network has the batch dimensions of all, or none. With `rounds`, CUDA kernels stop after so
    many, from `state` on; 0 means to the end.
    """
    operands, aliases = _operands(network, capacity, source, sink), {}
    sizes = _buffer_sizes(network) if platform == "cuda" else []
    results = flow_results(operands, sizes)
    if state is not None:
        aliases = {len(operands): 4, len(operands) + 1: 5}
        operands += state
    call = jax.ffi.ffi_call(
        "jaxmatch_flow", results, vmap_method="expand_dims", input_output_aliases=aliases
    )
    value, flow, source_side, status, *buffers = call(
        *operands, method=FLOW_METHODS[method], choice=choice, k=k, rounds=rounds
    )
    if jnp.issubdtype(value.dtype, jnp.floating):
        # Where every cut is infinite, the one with the fewest nodes is the source alone.
        alone = jnp.arange(network.num_nodes) == source[..., None]
        source_side = jnp.where(jnp.isinf(value)[..., None], alone, source_side)
    result = Flow(value, flow, source_side, status)
    return result, FlowBuffers(*buffers) if platform == "cuda" else None
