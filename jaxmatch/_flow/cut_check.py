"""`check_minimum_cut`: verifies a minimum cut by a flow of the same value (weak duality).

The flow is computed by a solver, but not trusted: the independent code of `check_flow` verifies
that it is feasible and as large as the cut.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_result, solved_dtype
from jaxmatch._common.given import require
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import constant, module_of
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Flow, MinimumCut
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Int, Num
from jaxmatch._flow.check import (
    as_capacity,
    broadcast,
    check_flow,
    is_capacity,
    is_sane,
    over_networks,
    require_kind,
)
from jaxmatch._flow.network import FlowNetwork, as_node, check_network
from jaxmatch._flow.solve import maximum_flow


ADVICE = "`MinimumCut(value, source_side, status)` makes one"


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class MinimumCutCheck(Check):
    """The result of [`check_minimum_cut`][jaxmatch.check_minimum_cut] or
    [`check_grid_cut`][jaxmatch.check_grid_cut]; leading `...` is batch.

    - `valid`: `bool[...]`, the result is a cut of the stated capacity.
    - `optimal`: `bool[...]`, a flow of that value proves that no cut has a smaller capacity.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]


@unchecked
@in_full_precision("capacity", on_host=True)
def check_minimum_cut(
    network: FlowNetwork,
    capacity: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    cut: MinimumCut,
) -> MinimumCutCheck:
    """Verify a result of `minimum_cut`, in jit or out of it.

    `cut` may come from any solver. A flow of the same value is computed as a proof, and verified as
    in [`check_flow`][jaxmatch.check_flow].

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    >>> capacity = jnp.array([5, 2])
    >>> cut = jm.minimum_cut(network, capacity, 0, 2)
    >>> jm.check_minimum_cut(network, capacity, 0, 2, cut)
    MinimumCutCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))
    >>> other = cut.replace(value=jnp.array(5), source_side=jnp.array([True, False, False]))
    >>> jm.check_minimum_cut(network, capacity, 0, 2, other)  # also a cut, but not minimum
    MinimumCutCheck(valid=Array(True, dtype=bool), optimal=Array(False, dtype=bool))

    **Arguments:**

    - `network`, `capacity`, `source`, `sink`: as they were passed to `minimum_cut`.
    - `cut`: the solver's result, for either `nearest`; `status` is ignored.

    **Returns:**

    A [`MinimumCutCheck`][jaxmatch.MinimumCutCheck].

    - `valid`: capacities are at least 0, and source and sink are different nodes. `source_side`
      contains the source and not the sink. `value` is the sum of the capacities of the edges that
      leave `source_side`: exactly for integers, within 4 eps for floats, and +inf if one of these
      edges is unbounded.
    - `optimal`: the cut is `valid`, and there is a flow of that `value`, with the tolerances of
      `check_flow`. If `value` is +inf, a path of unbounded edges leads from source to sink.

    **Time and memory:** as for `maximum_flow` plus `check_flow`.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for dtypes that do not.
    """
    check_network(network)
    place = current_place()
    c = as_capacity(capacity, network, place)
    require("cut", cut, MinimumCut, ADVICE)
    batch = np.shape(cut.value)
    shapes = {"value": batch, "source_side": (*batch, network.num_nodes)}
    cut = as_result(cut, MinimumCut, shapes, "`cut.value` and `network`", "", "cut", place)
    ends = (as_node("source", source, network), as_node("sink", sink, network))
    return check_cut(network, c, *ends, cut)


def check_cut(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
    cut: MinimumCut,
    rest: tuple[Num[Array, "... e"], Num[Array, "..."]] | None = None,
) -> MinimumCutCheck:
    """As `check_minimum_cut`, for arguments that were already checked.

    `rest`: capacities and a value for the flow that proves the cut, if a part of the flow is known.
    """
    batch, like = cut.value.shape, "cut.value"
    is_float = jnp.issubdtype(capacity.dtype, jnp.floating)
    require_kind("cut.value", cut.value, "capacity", is_float)

    def as_solved(capacity: Array) -> Array:
        c = constant(capacity.astype(solved_dtype(capacity.dtype)))
        return broadcast("capacity", c, (*batch, network.num_edges), like)

    c = as_solved(capacity)
    source = broadcast("source", source, batch, like)
    sink = broadcast("sink", sink, batch, like)
    valid = over_networks(_check_one, network, c, source, sink, cut).valid
    value = cut.value
    if rest is not None:
        c, value = as_solved(rest[0]), rest[1]
    found = maximum_flow(network, c, source, sink)
    candidate = Flow(value, found.flow, cut.source_side, found.status)
    proof = check_flow(network, c, source, sink, candidate)
    return MinimumCutCheck(valid=valid, optimal=valid & proof.optimal)


def _check_one(
    capacity: Num[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    result: MinimumCut,
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    *,
    n: int,
) -> MinimumCutCheck:
    """Decides whether the cut is valid. The field `optimal` of the result has no meaning."""
    value, source_side = result.value, result.source_side
    valid = is_sane(capacity, source, sink, tail, head, n)
    if n == 0:
        return MinimumCutCheck(valid, valid)
    valid &= source_side[source.clip(0, n - 1)] & ~source_side[sink.clip(0, n - 1)]
    if capacity.size == 0:
        return MinimumCutCheck(valid & (value == 0), valid & False)
    leaves = source_side[tail.clip(0, n - 1)] & ~source_side[head.clip(0, n - 1)]
    cut = module_of(capacity).where(leaves, capacity, module_of(capacity).zeros_like(capacity))
    stated = is_capacity(value, cut)
    if jnp.issubdtype(cut.dtype, jnp.floating):
        stated |= (value == jnp.inf) & (cut == jnp.inf).any()
    return MinimumCutCheck(valid & stated, valid & False)
