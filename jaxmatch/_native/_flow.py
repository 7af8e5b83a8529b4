"""The target that finds maximum flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from jaxmatch._native._results import flow_results
from jaxmatch._result import Flow


if TYPE_CHECKING:
    from jaxtyping import Array, Int, Num

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


def flow(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    *,
    method: str,
    choice: int,
    k: float,
) -> Flow:
    """Every problem of the batch in one native call; arguments are checked already.

    The network has the batch dimensions of all, or none: then it is read in place, not copied.
    """
    arrays = [network.arc_ptr, network.arc_head, network.arc_partner]
    arrays += [network.edge_ptr, network.arc_edge]
    if network.batch_shape == ():
        ones = (1,) * (capacity.ndim - 1)
        arrays = [x.reshape(ones + x.shape) for x in arrays]
    operands = [*arrays, capacity, source, sink]
    call = jax.ffi.ffi_call("jaxmatch_flow", flow_results(operands), vmap_method="expand_dims")
    value, flow, source_side, status = call(
        *operands, method=FLOW_METHODS[method], choice=choice, k=k, rounds=0
    )
    if jnp.issubdtype(value.dtype, jnp.floating):
        # Where every cut is infinite, the one with the fewest nodes is the source alone.
        alone = jnp.arange(network.num_nodes) == source[..., None]
        source_side = jnp.where(jnp.isinf(value)[..., None], alone, source_side)
    return Flow(value, flow, source_side, status)
