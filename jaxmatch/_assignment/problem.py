"""`AssignmentProblem`: the checked arguments of a dense assignment problem."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import MUST, as_array
from jaxmatch._common.cost_arguments import as_col_dual, as_cost, as_mask, broadcast
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num


class AssignmentProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    cost: Num[Array, "... n m"]
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    unmatched_cost: Num[Array, "... n"] | None = None
    col_dual: Float[Array, "... m"] | None = None  # for a warm start

    @property
    def has_masks(self) -> bool:
        return self.row_mask is not None or self.col_mask is not None

    @property
    def masks(self) -> tuple[Bool[Array, "... n"] | None, Bool[Array, "... m"] | None]:
        return self.row_mask, self.col_mask


def as_problem(
    cost: ArrayLike,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    place: Place = BY_JAX,
    name: str = "cost",
    symbolic: bool = True,
) -> AssignmentProblem:
    """Checks the arguments and broadcasts them to one batch shape."""
    cost = as_cost(cost, place, name, symbolic=symbolic)
    *batch, n, m = cost.shape
    return AssignmentProblem(
        cost,
        as_mask("row_mask", row_mask, (*batch, n), place),
        as_mask("col_mask", col_mask, (*batch, m), place),
        as_unmatched_cost(unmatched_cost, cost, place),
        as_col_dual(col_dual, (*batch, m), place),
    )


def as_int32(x: Array) -> Array:
    """Converts int64 to int32 if all numbers fit, for solvers that do not take int64."""
    if x.dtype != np.int64 or x.size == 0:
        return x
    fits = np.iinfo(np.int32)
    if x.min() < fits.min or x.max() > fits.max:
        return x
    return x.astype(np.int32)


def as_unmatched_cost(
    unmatched_cost: ArrayLike | None, cost: Array, place: Place = BY_JAX
) -> Num[Array, "... n"] | None:
    if unmatched_cost is None:
        return None
    must = f"be real and {MUST}"
    r = as_array("unmatched_cost", unmatched_cost, place, must=must)
    if jnp.issubdtype(r.dtype, jnp.floating):
        # Widen 16-bit floats only: when XLA widens float32, it flushes denormal numbers to zero.
        r = r.astype(jnp.float32) if r.dtype.itemsize == 2 else r
    elif jnp.issubdtype(cost.dtype, jnp.floating):
        r = r.astype(result_float())
    else:  # with integer costs, integers stay integers: float32 would round them
        r = r.astype(jax.dtypes.canonicalize_dtype(np.int64))
    return broadcast("unmatched_cost", r, cost.shape[:-1], place.xp)
