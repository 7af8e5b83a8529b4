"""One large assignment whose costs are sharded over a mesh axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment import native_large, native_sharded
from jaxmatch._assignment import xla as _xla_assignment
from jaxmatch._assignment.native_sharded import DeviceState, GatheredBlocks
from jaxmatch._assignment.partition import Partition, partition_of
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import vary_alike, varying_axes
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num
from jaxmatch._ffi.dispatch import by_platform


def solve_sharded(
    cost: Num[Array, "a b"],
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    row_axis: str | None,
    col_axis: str | None,
    *,
    maximize: bool,
    method: str,
    unsupported: dict[str, Any],
) -> Assignment:
    """`solve_assignment` for sharded costs. `unsupported`: arguments that must be None here."""
    partition = partition_of(cost, row_axis, col_axis)
    for name, x in unsupported.items():
        if x is not None:
            raise ValueError(f"`{name}` does not go with `{partition.name}`; leave it out.")
    method = "core" if method == "auto" else method
    n, m = _sides(cost, partition)
    check_partition(partition, n, m, cost.dtype, method)
    row_mask = as_mask("row_mask", row_mask, (n,))
    col_mask = as_mask("col_mask", col_mask, (m,))
    return _solve(cost, row_mask, col_mask, partition=partition, maximize=maximize, method=method)


def check_partition(
    partition: Partition,
    n: int,
    m: int,
    dtype: Any,
    method: str,
    methods: Sequence[str] = native_large.SHARDED_METHODS,
) -> None:
    """Raises an error unless the native solvers take a problem with this partition and size."""
    name, size = partition.name, partition.size
    where = f" where `{name}` is given" if partition.axis is not None else ""
    if method not in [*methods]:  # a list: a dict raises a TypeError for an unhashable name
        raise ValueError(f"`method` must be 'auto' or one of {[*methods]}{where}, got {method!r}.")
    most_devices = native_sharded.most_devices()
    if size > most_devices:
        raise ValueError(f"`{name}` must be an axis of at most {most_devices} devices, got {size}.")
    if dtype == jnp.int64:
        raise ValueError(f"the costs must not be int64{where}; cast them to int32 or a float.")
    longest = native_large.longest_side()
    if min(n, m) == 0 or max(n, m) > longest:
        raise ValueError(
            f"the problem must have sides from 1 to {longest}{where}, got {n} rows and {m} "
            "columns; solve a part."
        )


def _sides(cost: Array, partition: Partition) -> tuple[int, int]:
    if cost.ndim != 2:
        raise ValueError(
            f"`cost` must be one problem [n, m] where `{partition.name}` is given, got shape "
            f"{[*cost.shape]}; shard a batch by its batch dimension instead."
        )
    return partition.global_shape(*cost.shape)


@compiled(static_argnames=("partition", "maximize", "method"))
def _solve(
    cost: Num[Array, "n m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    partition: Partition,
    maximize: bool,
    method: str,
) -> Assignment:
    def all_costs(cost: Array) -> Array:
        return lax.all_gather(cost, partition.axis, axis=0 if partition.rows else 1, tiled=True)

    costs = ShardedCosts(
        sides=_sides(cost, partition),
        specs=(partition.spec,),
        call=partial(native_sharded.sharded_assignment, metric=None),
        whole=all_costs,
    )
    # There are no kernels for sharded costs of 16 bits.
    wide = cost.astype(jnp.float32) if cost.dtype.itemsize == 2 else cost
    res = solve_shards(
        costs,
        (lax.stop_gradient(wide),),
        (row_mask, col_mask),
        partition=partition,
        maximize=maximize,
        method=method,
    )
    return res.replace(cost=envelope_value(res.cost, cost, res, partial(_value_jvp, partition)))


# ---------------------------------------------------------------------------------------------
# The solve on all devices


class ShardedCosts(NamedTuple):
    """The sharded costs of one problem: a matrix, or points whose distances are computed on demand.

    It holds no arrays. They are passed separately, as `operands`, because functions that closed
    over them would leak tracers.
    """

    sides: tuple[int, int]
    specs: tuple[PartitionSpec, ...]  # one for each operand
    call: Callable[..., tuple[Assignment, DeviceState]]  # native call on one device's shards
    whole: Callable[..., Array]  # gathers the full matrix, for platforms without a native library


def solve_shards(
    costs: ShardedCosts,
    operands: tuple[Array, ...],
    masks: tuple[Array | None, Array | None],
    *,
    partition: Partition,
    maximize: bool,
    method: str,
    cpu: Callable[..., Assignment] | None = None,
    cuda: Callable[..., Assignment] | None = None,
) -> Assignment:
    """Solves one sharded problem. Costs are not moved; the result is replicated.

    The first operand is sharded, all others are replicated. Masks cover the whole problem.
    `cpu(operands, row_mask, col_mask)`, if given, replaces `method` on a CPU, and `cuda` likewise
    on a GPU. If `method` exists only on CPUs, the pure-JAX twin runs on a GPU.
    """
    if partition.is_local:
        _check_replicated(partition, (*operands[1:], *masks))

    def twin(
        operands: tuple[Array, ...], row_mask: Array | None, col_mask: Array | None
    ) -> Assignment:
        cost = costs.whole(*operands)
        return _xla_assignment.solve(cost, row_mask, col_mask, None, None, maximize=maximize)

    def native(*arguments: Any) -> Assignment:
        return solve_and_gather(
            costs, *arguments, partition=partition, maximize=maximize, method=method
        ).result

    if cuda is None and method in native_large.SHARDED_METHODS:
        cuda = native

    @jax.custom_batching.sequential_vmap  # each problem occupies all devices
    def solve(operands: tuple[Array, ...], *masks: Array | None) -> Assignment:
        return by_platform(twin, operands, *masks, cpu=cpu or native, cuda=cuda)

    if partition.axis is None:
        return solve(operands, *masks)
    if partition.is_local:
        # `pmax` marks the result as replicated in its type.
        return jax.tree.map(lambda x: lax.pmax(x, partition.axis), solve(operands, *masks))
    replicated = PartitionSpec()
    in_specs = (costs.specs, replicated, replicated)
    return jax.shard_map(
        solve,
        mesh=partition.mesh,
        in_specs=in_specs,
        out_specs=replicated,
        check_vma=False,  # all devices compute the same result
    )(*partition.resharded(in_specs, (operands, *masks)))


def _check_replicated(partition: Partition, shared: tuple[Array | None, ...]) -> None:
    """Inside a `shard_map`, raises an error if devices may get different problems and deadlock."""
    if any(x is not None and partition.axis in varying_axes(x) for x in shared):
        raise ValueError(
            f"masks and points of the side that `{partition.name}` does not shard must be the same "
            f"on all devices of {partition.axis!r}; pass them to `shard_map` with a spec that does "
            "not name it, or gather them."
        )


class _Carry(NamedTuple):
    result: Assignment
    state: DeviceState
    gathered: GatheredBlocks


def solve_and_gather(
    costs: ShardedCosts,
    operands: tuple[Array, ...],
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    partition: Partition,
    maximize: bool,
    method: str,
    stops: Callable[[DeviceState], Bool[Array, ""]] | None = None,
) -> _Carry:
    """Alternates native calls and all-gathers until the solve is done.

    Invariant: after each call all devices request the same block of `GatheredBlocks`. That is O(n)
    numbers, the candidate sets of all or some rows, or the lists of tight columns. With `stops`,
    the method `"core"` runs no auction, and the solve ends early, without a result, as soon as
    `stops(state)` holds.
    """
    device = partition.shard_index()
    layout = {"rows": partition.rows, "devices": partition.size, "method": method}
    masks, sides = (row_mask, col_mask), costs.sides
    given = {"sides": sides, "maximize": maximize, "auction": stops is None}
    solve = partial(costs.call, operands, masks, device, **given, **layout)
    layout["masked"] = any(x is not None for x in masks)

    def goes_on(state: DeviceState, ends: Bool[Array, ""]) -> Bool[Array, ""]:
        return ~ends if stops is None else ~(ends | stops(state))

    def call(gathered: GatheredBlocks, state: DeviceState) -> _Carry:
        result, state = solve(state, gathered)
        return _Carry(result, state, gathered)

    def while_requested(request: str, carry: _Carry, step: Callable[[_Carry], _Carry]) -> _Carry:
        return lax.while_loop(
            lambda carry: goes_on(carry.state, ~carry.state.requests(request)), step, carry
        )

    def gather_and_call(carry: _Carry, *blocks: str) -> _Carry:
        new = {block: partition.gather(getattr(carry.state, block)) for block in blocks}
        return call(carry.gathered._replace(**new), carry.state)

    def reduce(carry: _Carry) -> _Carry:
        """Gathers `reduction` and makes a call, as long as the state requests this block."""
        return while_requested(
            "reduction", carry, lambda carry: gather_and_call(carry, "reduction")
        )

    def exchange(block: str, carry: _Carry) -> _Carry:
        return while_requested(
            block, carry, lambda carry: reduce(gather_and_call(carry, "reduction", block))
        )

    def exchange_packed(request: str, words: int, carry: _Carry) -> _Carry:
        def step(carry: _Carry) -> _Carry:
            new = partition.gather(carry.state.packed[:words])
            packed = lax.dynamic_update_slice(carry.gathered.packed, new, (0, 0))
            return call(carry.gathered._replace(packed=packed), carry.state)

        return while_requested(request, carry, step)

    def exchange_any(carry: _Carry) -> _Carry:
        carry = exchange("cores", reduce(carry))
        if stops is None:
            carry = exchange_packed("some", carry.state.packed.size, carry)
            carry = exchange_packed("few", few, carry)
        return exchange("lists", carry)

    state, gathered = native_sharded.empty_state(*sides, **layout)
    # The type of a loop's state must not change. So mark the initial state as varying over the same
    # mesh axes as the states that follow.
    state, gathered = vary_alike((state, gathered), (operands, masks, device))
    carry = call(gathered, state)
    if method != "core":
        return exchange("lists", reduce(carry))
    few = native_sharded.few_packed(*sides, **layout)
    return lax.while_loop(lambda carry: goes_on(carry.state, carry.state.done), exchange_any, carry)


# ---------------------------------------------------------------------------------------------
# The gradient


def _value_jvp(
    partition: Partition, cost: Array, tangent: Array, res: Assignment
) -> Float[Array, ""]:
    """The sum of the tangents of matched pairs. Each device adds those in its own shard."""
    if is_constant(tangent):
        return jnp.zeros_like(res.cost)

    def sum_of_shard(x: Array, col4row: Array, solved: Array) -> Array:
        if partition.rows:
            mine = partition.shard_of(col4row)
        else:
            mine = col4row - partition.shard_index() * x.shape[1]
        here = solved & (mine >= 0) & (mine < x.shape[1])
        at = jnp.clip(mine, 0, x.shape[1] - 1)[:, None]
        return partition.total(sum_where(here, jnp.take_along_axis(x, at, axis=1)[:, 0]))

    replicated = PartitionSpec()
    specs, solved = (partition.spec, replicated, replicated), res.status == Status.OPTIMAL
    return partition.map_shards(sum_of_shard, specs, tangent, res.col4row, solved)
