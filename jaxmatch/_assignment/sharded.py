"""One large assignment whose costs are divided over the devices of a mesh axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment import native_large, native_sharded
from jaxmatch._assignment import xla as _xla_assignment
from jaxmatch._assignment.native_sharded import Exchanged, Kept
from jaxmatch._assignment.partition import Division, division_of
from jaxmatch._assignment.problem import as_mask
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import vary_alike, varying_axes
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled
from jaxmatch._ffi.dispatch import by_platform


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float, Num


def solve_divided(
    cost: Num[Array, "a b"],
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    row_axis: str | None,
    col_axis: str | None,
    *,
    maximize: bool,
    method: str,
    others: dict[str, Any],
) -> Assignment:
    """`solve_assignment` for costs that are divided. `others`: arguments that do not go with it."""
    division = division_of(cost, row_axis, col_axis)
    given = [name for name, x in others.items() if x is not None]
    if given:
        raise ValueError(f"`{given[0]}` does not go with `{division.name}`; leave it out.")
    method = "core" if method == "auto" else method
    n, m = _sides(cost, division)
    check_division(division, n, m, cost.dtype, method)
    row_mask = as_mask("row_mask", row_mask, (n,))
    col_mask = as_mask("col_mask", col_mask, (m,))
    return _solve(cost, row_mask, col_mask, division=division, maximize=maximize, method=method)


def check_division(
    division: Division,
    n: int,
    m: int,
    dtype: Any,
    method: str,
    methods: Sequence[str] = (*native_large.LARGE_METHODS,),
) -> None:
    """That a problem of these sides can be solved as it is divided; `division.axis` may be None."""
    name, size = division.name, division.size
    where = f" where `{name}` is given" if division.axis is not None else ""
    if method not in [*methods]:  # a list, to which what cannot be hashed is no error
        raise ValueError(f"`method` must be 'auto' or one of {[*methods]}{where}, got {method!r}.")
    most = native_sharded.most_devices()
    if size > most:
        raise ValueError(f"`{name}` must be an axis of at most {most} devices, got {size}.")
    if dtype == jnp.int64:
        raise ValueError(f"the costs must not be int64{where}; cast them to int32 or a float.")
    if min(n, m) == 0 or max(n, m) >= 1 << 18:
        raise ValueError(
            f"the problem must have sides from 1 to 2^18 - 1{where}, got {n} rows and {m} columns; "
            "solve a part."
        )


def _sides(cost: Array, division: Division) -> tuple[int, int]:
    if cost.ndim != 2:
        raise ValueError(
            f"`cost` must be one problem [n, m] where `{division.name}` is given, got shape "
            f"{[*cost.shape]}; divide a batch by its batch dimension instead."
        )
    return division.whole_sides(*cost.shape)


@compiled(static_argnames=("division", "maximize", "method"))
def _solve(
    cost: Num[Array, "n m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    division: Division,
    maximize: bool,
    method: str,
) -> Assignment:
    def all_costs(cost: Array) -> Array:
        return lax.all_gather(cost, division.axis, axis=0 if division.rows else 1, tiled=True)

    costs = DividedCosts(
        sides=_sides(cost, division),
        specs=(division.spec,),
        call=partial(native_sharded.divided, metric=None),
        whole=all_costs,
    )
    res = solve_parts(
        costs,
        (lax.stop_gradient(cost),),
        (row_mask, col_mask),
        division=division,
        maximize=maximize,
        method=method,
    )
    return res.replace(cost=envelope_value(res.cost, cost, res, partial(_slope, division)))


# ---------------------------------------------------------------------------------------------
# What all devices do together


class DividedCosts(NamedTuple):
    """How the costs of one problem are divided: a matrix, or points from which they are computed.

    The operands stay apart: what is closed over outlives their trace.
    """

    sides: tuple[int, int]
    specs: tuple[PartitionSpec, ...]  # of the operands
    call: Callable[..., tuple[Assignment, Kept]]  # the native call on a device's operands
    whole: Callable[..., Array]  # all costs, of a device's operands: for platforms without one


def solve_parts(
    costs: DividedCosts,
    operands: tuple[Array, ...],
    masks: tuple[Array | None, Array | None],
    *,
    division: Division,
    maximize: bool,
    method: str,
    cpu: Callable[..., Assignment] | None = None,
) -> Assignment:
    """The result is the same on all devices; costs stay where they are.

    The first of `operands` is divided, the others are the same everywhere; masks are those of the
    whole problem. `cpu(operands, row_mask, col_mask)` solves it on a CPU instead of `method`; a
    method that only CPUs have is the twin elsewhere.
    """
    if division.is_local:
        _check_alike(division, (*operands[1:], *masks))

    def twin(
        operands: tuple[Array, ...], row_mask: Array | None, col_mask: Array | None
    ) -> Assignment:
        cost = costs.whole(*operands)
        return _xla_assignment.solve(cost, row_mask, col_mask, None, None, maximize=maximize)

    how = {"division": division, "maximize": maximize, "method": method}

    def native(*arguments: Any) -> Assignment:
        return exchange_and_solve(costs, *arguments, **how).result

    cuda = native if method in native_large.LARGE_METHODS else None

    @jax.custom_batching.sequential_vmap  # a problem takes all devices
    def part(operands: tuple[Array, ...], *masks: Array | None) -> Assignment:
        return by_platform(twin, operands, *masks, cpu=cpu or native, cuda=cuda)

    if division.axis is None:
        return part(operands, *masks)
    if division.is_local:
        # The same on all devices also by type.
        return jax.tree.map(lambda x: lax.pmax(x, division.axis), part(operands, *masks))
    everywhere = PartitionSpec()
    in_specs = (costs.specs, everywhere, everywhere)
    return jax.shard_map(
        part,
        mesh=division.mesh,
        in_specs=in_specs,
        out_specs=everywhere,
        check_vma=False,  # all devices come to the same result
    )(*division.laid_out(in_specs, (operands, *masks)))


def _check_alike(division: Division, shared: tuple[Array | None, ...]) -> None:
    """Within a `shard_map`: else devices would solve different problems, and wait for ever."""
    if any(x is not None and division.axis in varying_axes(x) for x in shared):
        raise ValueError(
            f"masks and points of the side that `{division.name}` does not divide must be the same "
            f"on all devices of {division.axis!r}; pass them to `shard_map` with a spec that does "
            "not name it, or gather them."
        )


class _Carry(NamedTuple):
    result: Assignment
    kept: Kept
    heard: Exchanged


def exchange_and_solve(
    costs: DividedCosts,
    operands: tuple[Array, ...],
    row_mask: Array | None,
    col_mask: Array | None,
    *,
    division: Division,
    maximize: bool,
    method: str,
    stops: Callable[[Kept], Bool[Array, ""]] | None = None,
) -> _Carry:
    """Native calls go as far as they get with what was heard from the other devices.

    All devices come to the same points and ask for the same. Collectives are O(n) each, or of
    cores, or of lists of zeros. With `stops` the solve may end before it is done, without a result.
    """
    here = division.here()
    how = {"rows": division.rows, "devices": division.size, "method": method}
    masks, sides = (row_mask, col_mask), costs.sides
    solve = partial(costs.call, operands, masks, here, sides=sides, maximize=maximize, **how)

    def goes_on(kept: Kept, unless: Bool[Array, ""]) -> Bool[Array, ""]:
        return ~unless if stops is None else ~(unless | stops(kept))

    def call(heard: Exchanged, kept: Kept) -> _Carry:
        result, kept = solve(kept, heard)
        return _Carry(result, kept, heard._replace(mail=division.gather(kept.mail)))

    def go_on(carry: _Carry) -> _Carry:
        """To where cores or lists have to be exchanged, or to the end."""
        return lax.while_loop(
            lambda carry: goes_on(carry.kept, ~carry.kept.asks_for("mail")),
            lambda carry: call(carry.heard, carry.kept),
            call(carry.heard, carry.kept),
        )

    def exchange(what: str, carry: _Carry) -> _Carry:
        news = division.gather(getattr(carry.kept, what))
        return go_on(carry._replace(heard=carry.heard._replace(**{what: news})))

    def while_asked(what: str, carry: _Carry) -> _Carry:
        return lax.while_loop(
            lambda carry: goes_on(carry.kept, ~carry.kept.asks_for(what)),
            partial(exchange, what),
            carry,
        )

    masked = any(x is not None for x in masks)
    kept, heard = native_sharded.begin_divided(*sides, masked=masked, **how)
    kept, heard = vary_alike((kept, heard), (operands, masks, here))  # as what they become
    carry = go_on(call(heard, kept))
    if method == "core":
        carry = lax.while_loop(
            lambda carry: goes_on(carry.kept, carry.kept.done),
            lambda carry: while_asked("lists", while_asked("cores", carry)),
            carry,
        )
    else:
        carry = while_asked("lists", carry)
    return carry


# ---------------------------------------------------------------------------------------------
# The gradient


def _slope(division: Division, cost: Array, tangent: Array, res: Assignment) -> Float[Array, ""]:
    """The sum of the tangents of matched pairs, each added where it is."""
    if is_constant(tangent):
        return jnp.zeros_like(res.cost)

    def part(x: Array, col4row: Array, solved: Array) -> Array:
        if division.rows:
            mine = division.part_of(col4row)
        else:
            mine = col4row - division.here() * x.shape[1]
        here = solved & (mine >= 0) & (mine < x.shape[1])
        at = jnp.clip(mine, 0, x.shape[1] - 1)[:, None]
        return division.total(sum_where(here, jnp.take_along_axis(x, at, axis=1)[:, 0]))

    everywhere = PartitionSpec()
    specs, solved = (division.spec, everywhere, everywhere), res.status == Status.OPTIMAL
    return division.on_parts(part, specs, tangent, res.col4row, solved)
