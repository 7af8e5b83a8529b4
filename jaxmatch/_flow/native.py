"""The call of the native target for maximum flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.result import Flow
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._ffi.call import Result, as_text, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
from jaxmatch._flow.network import FlowNetwork


class FlowBuffers(NamedTuple):
    """The state of the CUDA kernels between two native calls."""

    control: Int[Array, "... c"]
    scratch: Int[Array, "... s"]

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result of the call that returned this state is final."""
        return self.control[..., size("flow.control.done")] != 0

    def spent(self) -> tuple[np.ndarray, np.ndarray]:
        """The clock cycles of each phase, `[..., 6]`, and the numbers of searches, `[..., 2]`.

        This method works only outside of `jit`. The kernels first send a maximum preflow from the
        source to the sink (or in a reversed network from the sink to the source). Then they return
        the excess that did not arrive. The six phases are:

        - the searches for paths of the preflow;
        - the pushes of the preflow;
        - the searches for paths back;
        - the pushes along these paths;
        - earlier pushes back, against the flow that brought the excess;
        - the search for the cut.

        The searches for the preflow and for the way back are counted separately.
        """
        control = np.asarray(self.control)
        cycles, searches = size("flow.control.cycles"), size("flow.control.searches")
        end = searches + size("flow.control.searches.count")
        return control[..., cycles:searches].copy().view(np.int64), control[..., searches:end]


def _buffer_sizes(network: FlowNetwork) -> list[int]:
    arcs = network.arc_head.shape[-1]
    return [size("flow.control"), size("flow.scratch", network.num_nodes, arcs, network.num_edges)]


def _arrays(network: FlowNetwork) -> list[Array]:
    arrays = [network.arc_ptr, network.arc_head, network.arc_partner]
    return [*arrays, network.edge_ptr, network.arc_edge]


def empty_flow_buffers(
    network: FlowNetwork, capacity: Array, source: Array, sink: Array
) -> FlowBuffers:
    """The state before the first native call."""
    # `like` is derived from the operands, so that in a `shard_map` all states have the same varying
    # axes.
    like = sum((x.sum(-1, dtype=jnp.int32) for x in _arrays(network)), source + sink)
    like += (capacity < 0).sum(-1, dtype=jnp.int32)
    shapes = [(*like.shape, words) for words in _buffer_sizes(network)]
    return FlowBuffers(*(jnp.zeros_like(like, shape=s, dtype=jnp.int32) for s in shapes))


def flow(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    *,
    method: str,
    options: Mapping[str, Any],
    steps: int,
    platform: Literal["cpu", "cuda"],
    state: FlowBuffers | None = None,
    start: Num[Array, "... e"] | None = None,
) -> tuple[Flow, FlowBuffers | None]:
    """Solves every problem of the batch in one native call. Arguments must be checked.

    The network has the same batch dimensions as the other arguments, or none. CUDA kernels take
    `steps` steps from `state`; if `steps` is 0, they run to the end. The CPU may begin with the
    flow `start`.
    """
    operands, aliases = [*_arrays(network), capacity, source, sink], {}
    core_dims = [1, 1, 1, 1, 1, 1, 0, 0]
    integral = jnp.issubdtype(capacity.dtype, jnp.integer)
    results = [
        Result((), jax.dtypes.canonicalize_dtype(int) if integral else capacity.dtype),
        Result((network.num_edges,), capacity.dtype),
        Result((network.num_nodes,), jnp.bool_),
        Result((), jnp.int32),
    ]
    if state is not None:
        aliases = {len(operands) + k: len(results) + k for k in range(len(state))}
        operands += state
        core_dims += [1, 1]
    if start is not None:
        assert platform == "cpu"
        operands.append(start)
        core_dims.append(1)
    value, flow, source_side, status, *state_after = native_call(
        "jaxmatch_flow",
        operands,
        [*results, *buffers(_buffer_sizes(network) if platform == "cuda" else [])],
        core_dims=core_dims,
        shared=() if network.batch_shape else range(5),  # a shared network is not copied
        aliases=aliases,
        method=method,
        options=as_text(options),
        steps=steps,
    )
    if jnp.issubdtype(value.dtype, jnp.floating):
        # If every cut is infinite, every cut is minimum. The one nearest to the source has the
        # source alone on the source side.
        xp: Any = np if isinstance(value, np.ndarray) else jnp
        node = xp.arange(network.num_nodes, dtype=source.dtype)
        node = node.reshape((1,) * source.ndim + (network.num_nodes,))
        alone = node == source[..., None]
        source_side = xp.where(xp.isinf(value)[..., None], alone, source_side)
    result = Flow(value, flow, source_side, status)
    return result, FlowBuffers(*state_after) if platform == "cuda" else None
