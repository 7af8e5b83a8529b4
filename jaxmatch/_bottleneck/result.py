"""The results of bottleneck assignment and of its check: dataclasses of arrays, as pytrees."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Result
from jaxmatch._common.typing import Array, Bool, Float, Int


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class BottleneckAssignment(Result):
    """The result of [`bottleneck_assignment`][jaxmatch.bottleneck_assignment].

    Leading `...` is batch; `res[k]` is problem k of it.

    - `col4row`: `i32[..., n]`, the column of each row, −1 where unmatched.
    - `row4col`: `i32[..., m]`, the row of each column, −1 where unmatched.
    - `bottleneck`: `f[...]`, the greatest cost of a pair (the least score, when maximising); the
      only field with a gradient. −inf (when maximising, +inf) if there are no pairs.
    - `row_cover`, `col_cover`: `bool[..., n]`, `bool[..., m]`, a cover: every pair that costs less
      than `bottleneck` has its row or column in it. It has fewer vertices than the smaller side, so
      no assignment consists of such pairs alone.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, indices are −1, `bottleneck` NaN and covers False.
    """

    col4row: Int[Array, "... n"]
    row4col: Int[Array, "... m"]
    bottleneck: Float[Array, "..."]
    row_cover: Bool[Array, "... n"]
    col_cover: Bool[Array, "... m"]
    status: Int[Array, "..."]


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class BottleneckCheck(Check):
    """The result of [`check_bottleneck`][jaxmatch.check_bottleneck]; leading `...` is batch.

    - `valid`: `bool[...]`, the assignment is feasible, and `bottleneck` is its greatest cost.
    - `optimal`: `bool[...]`, the cover proves that no assignment has a smaller bottleneck.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
