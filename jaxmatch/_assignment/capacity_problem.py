"""`CapacityProblem`: the checked arguments of an assignment problem with capacities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.cost_arguments import (
    as_col_dual,
    as_cost,
    as_mask,
    broadcast,
    check_both_given,
)
from jaxmatch._common.given import INTEGERS, typed
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.typing import Array, ArrayLike, Int, Num
from jaxmatch._transport.dummies import as_row_costs, as_unmatched_cost
from jaxmatch._transport.limited import with_limit
from jaxmatch._transport.point_problem import PointProblem
from jaxmatch._transport.problem import TransportProblem


_MOST = 2**31 - 1


class CapacityProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    # The masses of this transport problem are the capacities. Their values are not checked.
    transport: TransportProblem | PointProblem
    col_minimum: Int[Array, "... m"] | None = None
    unmatched_cost: Num[Array, "... n"] | None = None
    unmatched_col_cost: Num[Array, "... m"] | None = None  # only together with `unmatched_cost`

    @property
    def limit(self) -> Int[Array, "... n m"] | None:
        """How often each pair may be used; None if only capacities limit that."""
        return getattr(self.transport, "limit", None)


def as_capacities(**capacities: ArrayLike | None) -> tuple[Any, ...]:
    """Converts capacities to int32, with saturation: int64 would switch the solve to 64 bits."""
    return tuple(None if x is None else _as_int32(name, x) for name, x in capacities.items())


def check_minimum(col_capacity: Any, col_minimum: Any) -> None:
    """Raises an error if a minimum is known to exceed the default capacity of 1."""
    known = isinstance(col_minimum, np.ndarray) and col_capacity is None
    if known and col_minimum.max(initial=0) > 1:
        raise ValueError(
            f"`col_minimum` goes up to {col_minimum.max()}, but `col_capacity` is 1 if it is not "
            "given; give it, the number of rows for columns without upper bound."
        )


def _as_int32(name: str, x: ArrayLike) -> Any:
    array: Any = typed(name, x, INTEGERS, "hold integers")
    if array.dtype == np.int32:
        return array
    xp: Any = jnp if isinstance(array, jax.Array) else np
    array = xp.minimum(array, _MOST) if array.dtype.itemsize >= 4 else array
    array = xp.maximum(array, -1) if array.dtype == np.int64 else array
    return xp.asarray(array, np.int32)


def as_capacity_problem(
    cost: ArrayLike,
    row_capacity: Array | None,
    col_capacity: Array | None,
    col_minimum: Array | None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    unmatched_col_cost: ArrayLike | None = None,
    limit: ArrayLike | None = None,
    place: Place = BY_JAX,
) -> CapacityProblem:
    """Checks the arguments and broadcasts them to one batch shape.

    Capacities and limits must be int32. A capacity of None means 1.
    """
    cost = as_cost(cost, place, symbolic=False)
    *batch, n, m = cost.shape

    def expand(name: str, x: Array | None, size: int) -> Array:
        given = place.xp.asarray(np.int32(1) if x is None else x)
        if place.native and given.ndim == 0:
            return np.full((*batch, size), given)  # type: ignore[return-value]
        return broadcast(name, given, (*batch, size), place.xp)

    transport = TransportProblem(
        cost,
        expand("row_capacity", row_capacity, n),
        expand("col_capacity", col_capacity, m),
        as_mask("row_mask", row_mask, (*batch, n), place),
        as_mask("col_mask", col_mask, (*batch, m), place),
        None,
        as_col_dual(col_dual, (*batch, m), place),
    )
    if limit is not None:
        transport = with_limit(transport, limit, place)
    least = None if col_minimum is None else expand("col_minimum", col_minimum, m)
    check_minimum(col_capacity, col_minimum)
    of_rows = as_unmatched_cost(unmatched_cost, transport, place)
    of_cols = None
    if unmatched_col_cost is not None:
        check_both_given(unmatched_cost, unmatched_col_cost)
        name = "unmatched_col_cost"
        of_cols = as_row_costs(
            unmatched_col_cost, cost.dtype, (*batch, m), place, name=name, of="column"
        )
    return CapacityProblem(transport, least, of_rows, of_cols)
