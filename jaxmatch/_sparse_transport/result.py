"""The results of transport on edges and of its check: dataclasses of arrays, as pytrees."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Result, difference_of
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class SparseTransport(Result):
    """The result of [`solve_sparse_transport`][jaxmatch.solve_sparse_transport].

    Leading `...` is batch; `res[k]` is problem k of it.

    - `mass`: `[..., e]`, the mass that moves along each edge, in the order of `graph.col_ind` and
      in the (widened) dtype of supply, demand and limits. It is 0 on padding.
    - `cost`: `[...]`, the sum of mass times cost; the only field with a gradient. Its dtype, also
      that of duals and `gap`: int64 for integers under x64 and for NumPy's int64, else int32; if
      costs or masses are floats, float64 under x64, else float32.
    - `row_dual`, `col_dual`: `[..., n]`, `[..., m]`, the dual variables that prove the optimum.
    - `gap`: `[...]`, a proved bound on cost − optimum, before `cost` is rounded to its dtype.
    - `row_side`, `col_side`: `bool[..., n]`, `bool[..., m]`, where the status is `INFEASIBLE`: rows
      whose supplies exceed the demands of these columns and the limits of the edges from these
      rows to all other columns. With `partial`: all rows but these, these columns and these edges
      carry less than `partial`.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, all numbers are NaN (−1 for integers). But the `gap` of an
    `UNBALANCED` problem is the amount by which the sums of its masses differ.

    **Certificate:** u_i + v_j ≤ C_e, with equality where 0 < mass < limit; where mass is the limit,
    u_i + v_j ≥ C_e. With `unmatched_cost` r: u_i ≤ r_i, with equality where supply stays, and
    v_j ≤ 0, with equality where demand stays. With `partial`: v_j ≤ 0 likewise, and u_i = t where
    supply stays. Here t, the greatest dual of a row with supply, is the cost of the last unit.
    """

    mass: Num[Array, "... e"]
    cost: Num[Array, "..."]
    row_dual: Num[Array, "... n"]
    col_dual: Num[Array, "... m"]
    gap: Num[Array, "..."]
    row_side: Bool[Array, "... n"]
    col_side: Bool[Array, "... m"]
    status: Int[Array, "..."]

    def _details(self) -> str:
        return difference_of(self)


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class SparseTransportCheck(Check):
    """The result of [`check_sparse_transport`][jaxmatch.check_sparse_transport].

    Leading `...` is batch.

    - `valid`: `bool[...]`, the plan is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the plan is valid, and `gap` is no larger than the rounding of costs
      and duals can explain, which proves that no plan costs less; see [Checks][optimal].
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    - `infeasible`: `bool[...]`, `row_side` and `col_side` prove that there is no plan.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]
    infeasible: Bool[Array, "..."]
