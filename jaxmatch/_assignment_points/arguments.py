"""What the solver of points and its check ask of their arguments."""

from __future__ import annotations

from typing import Any

from jaxmatch._assignment.partition import Partition, partition_of
from jaxmatch._assignment_points.on_host import as_directed_sets
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.typing import Array, ArrayLike, Float


def refuse_with_radius(others: dict[str, Any], radius: ArrayLike | None, maximize: bool) -> None:
    beside = "`unmatched_cost` of points" if radius is None else "`radius`"
    given = others | {"maximize": maximize or None}
    for name, x in given.items():
        if x is not None:
            raise ValueError(f"`{name}` does not go with {beside}; leave one of them out.")


def as_point_problem(
    x: ArrayLike,
    y: ArrayLike,
    metric: str,
    row_axis: str | None,
    col_axis: str | None,
    place: Place = BY_JAX,
) -> tuple[Float[Array, "n d"], Float[Array, "m d"], Partition]:
    """Points of one dtype (unit vectors for the cosine), and their partition."""
    rows, cols = as_directed_sets(x, y, metric, place)
    if row_axis is None and col_axis is None:
        partition = Partition(None, True, None)
    else:
        partition = partition_of(rows if row_axis is not None else cols, row_axis, col_axis)
    return rows, cols, partition
