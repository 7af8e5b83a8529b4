"""`KBestAssignments`, the result of `k_best_assignments`."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Assignment, Result
from jaxmatch._common.typing import Array, Float, Int


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class KBestAssignments(Result):
    """The result of [`k_best_assignments`][jaxmatch.k_best_assignments]; leading `...` is batch.

    `res[b]` is problem b of a batch. Its list has k places, of which the first `count` are filled.
    All other places have indices −1 and cost NaN.

    - `col4row`: `i32[..., k, n]`, the column of each row, −1 where unmatched.
    - `row4col`: `i32[..., k, m]`, the row of each column, −1 where unmatched.
    - `cost`: `f[..., k]`, the costs in order; the only field with a gradient.
    - `count`: `i32[...]`, how many of the k assignments exist.
    - `row_dual`, `col_dual`: `f[..., n]`, `f[..., m]`, the dual variables that prove the first
      assignment optimal.
    - `gap`: `f[...]`, a proved bound on the error of every listed cost, before it is rounded to its
      dtype: the r-th listed cost differs from the exact r-th best cost by at most `gap`.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status]; `OPTIMAL` if there is an assignment.

    If `status` is not `OPTIMAL`, the list is empty, and costs, duals and `gap` are NaN.
    """

    col4row: Int[Array, "... k n"]
    row4col: Int[Array, "... k m"]
    cost: Float[Array, "... k"]
    count: Int[Array, "..."]
    row_dual: Float[Array, "... n"]
    col_dual: Float[Array, "... m"]
    gap: Float[Array, "..."]
    status: Int[Array, "..."]

    @property
    def first(self) -> Assignment:
        """The best assignment, as [`check_assignment`][jaxmatch.check_assignment] takes it.

        >>> import jax.numpy as jnp, jaxmatch as jm
        >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
        >>> res = jm.k_best_assignments(cost, 2)
        >>> bool(jm.check_assignment(cost, res.first).optimal)
        True
        """
        return Assignment(
            col4row=self.col4row[..., 0, :],
            row4col=self.row4col[..., 0, :],
            cost=self.cost[..., 0],
            row_dual=self.row_dual,
            col_dual=self.col_dual,
            gap=self.gap,
            status=self.status,
        )
