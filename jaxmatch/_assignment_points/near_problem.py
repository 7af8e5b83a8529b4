"""`NearProblem`: the checked arguments of a problem whose pairs lie within a radius."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxmatch._common.arguments import as_array
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float
from jaxmatch._sparse_assignment.problem import check_options


class NearProblem(NamedTuple):
    """The checked arguments of one problem, as a pytree."""

    x: Float[Array, "n d"]
    y: Float[Array, "m d"]
    radius: Float[Array, ""]
    row_mask: Bool[Array, " n"] | None
    col_mask: Bool[Array, " m"] | None
    unmatched_cost: Float[Array, " n"] | None
    unmatched_col_cost: Float[Array, " m"] | None = None  # only together with `unmatched_cost`


def as_near_problem(
    x: Array,
    y: Array,
    radius: ArrayLike | None,
    unmatched_cost: ArrayLike | None,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    unmatched_col_cost: ArrayLike | None = None,
    *,
    cardinality: str = "full",
    place: Place = BY_JAX,
) -> NearProblem:
    """Checks the arguments of a problem with a radius. The points must be checked already."""
    if radius is None:
        raise ValueError(
            "an unmatched cost of points needs a `radius`; for the costs of all pairs call "
            "`solve_assignment` or `solve_transport_points`."
        )
    check_options(cardinality, unmatched_cost, unmatched_col_cost)
    n, m, real = len(x), len(y), result_float()
    radius = as_array("radius", radius, place).astype(real)
    if radius.ndim:
        raise ValueError(f"`radius` must be one number, got shape {[*radius.shape]}.")

    def as_price(name: str, given: ArrayLike | None, size: int, side: str) -> Any:
        if given is None:
            return None
        price = as_array(name, given, place).astype(real)
        if price.shape not in ((), (size,)):
            raise ValueError(
                f"`{name}` must be a number or [{side}], here [{size}], got shape {[*price.shape]}."
            )
        return place.xp.broadcast_to(price, (size,))

    of_rows = as_price("unmatched_cost", unmatched_cost, n, "n")
    of_cols = as_price("unmatched_col_cost", unmatched_col_cost, m, "m")
    masks = tuple(
        as_mask(name, mask, (size,), place)
        for name, mask, size in (("row_mask", row_mask, n), ("col_mask", col_mask, m))
    )
    return NearProblem(x, y, radius, masks[0], masks[1], of_rows, of_cols)
