"""`NearProblem`: the checked arguments of a problem whose pairs lie within a radius."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxmatch._common.arguments import as_array
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float


class NearProblem(NamedTuple):
    """The checked arguments of one problem, as a pytree."""

    x: Float[Array, "n d"]
    y: Float[Array, "m d"]
    radius: Float[Array, ""]
    row_mask: Bool[Array, " n"] | None
    col_mask: Bool[Array, " m"] | None
    unmatched_cost: Float[Array, " n"] | None


def as_near_problem(
    x: Array,
    y: Array,
    radius: ArrayLike | None,
    unmatched_cost: ArrayLike | None,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    place: Place = BY_JAX,
) -> NearProblem:
    """Checks the arguments of a problem with a radius. The points must be checked already."""
    if radius is None:
        raise ValueError(
            "`unmatched_cost` needs a `radius`; for the costs of all pairs call "
            "`solve_assignment` or `solve_transport_points`."
        )
    n, m, real = len(x), len(y), result_float()
    radius = as_array("radius", radius, place).astype(real)
    if radius.ndim:
        raise ValueError(f"`radius` must be one number, got shape {[*radius.shape]}.")
    price: Any = None
    if unmatched_cost is not None:
        price = as_array("unmatched_cost", unmatched_cost, place).astype(real)
        if price.shape not in ((), (n,)):
            raise ValueError(
                f"`unmatched_cost` must be a number or [n], here [{n}], got shape {[*price.shape]}."
            )
        price = place.xp.broadcast_to(price, (n,))
    masks = tuple(
        as_mask(name, mask, (size,), place)
        for name, mask, size in (("row_mask", row_mask, n), ("col_mask", col_mask, m))
    )
    return NearProblem(x, y, radius, masks[0], masks[1], price)
