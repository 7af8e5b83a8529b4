"""The native CPU target for Jonker-Volgenant on points, whose distances are computed on demand."""

from __future__ import annotations

from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Float
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.results import assignment_fields


def points_assignment(
    points: tuple[Float[Array, "... d _"], ...],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    metric: str,
    maximize: bool,
) -> Assignment:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    x, y = points
    masks = [mask for mask in (row_mask, col_mask) if mask is not None]
    out = native_call(
        "jaxmatch_assignment_points",
        [x, *masks, y],
        assignment_fields(x.shape[-1], y.shape[-1]),
        core_dims=[2, *(1 for _ in masks), 2],
        present=names_of(row_mask=row_mask, col_mask=col_mask, col_points=y),
        maximize=maximize,
        metric=metric,
    )
    return Assignment(*out)
