"""The results of minimum-cost flow and of its check: dataclasses of arrays, as pytrees."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Result, difference_of
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class MinimumCostFlow(Result):
    """The result of [`minimum_cost_flow`][jaxmatch.minimum_cost_flow]; leading `...` is batch.

    `res[k]` is problem k of a batch.

    - `flow`: `[..., e]`, the flow on each edge, in the (widened) dtype of the capacities, lower
      bounds and supplies.
    - `cost`: `[...]`, the sum of cost times flow; the only field with a gradient. Its dtype, also
      that of `potential` and `gap`: int64 for integers under x64 and for NumPy's int64, else int32;
      if costs or masses are floats, float64 under x64, else float32.
    - `potential`: `[..., n]`, what one more unit of supply at a node costs. These prove the
      optimum: cost − potential of the sender + potential of the receiver, the reduced cost of an
      edge, is at least 0 where the flow is below the capacity, and at most 0 where it is above the
      lower bound.
    - `gap`: `[...]`, a proved bound on cost − optimum, before `cost` is rounded to its dtype.
    - `source_side`: `bool[..., n]`, where the status is `INFEASIBLE`: nodes whose supplies exceed
      the capacities of the edges that leave them, minus the lower bounds of those that enter.
    - `cycle`: `bool[..., e]`, where the status is `UNBOUNDED`: the edges of a cycle of negative
      cost without a limit.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, all numbers are NaN (−1 for integers). But the `gap` of an
    `UNBALANCED` problem is the amount by which its supplies miss a sum of 0.
    """

    flow: Num[Array, "... e"]
    cost: Num[Array, "..."]
    potential: Num[Array, "... n"]
    gap: Num[Array, "..."]
    source_side: Bool[Array, "... n"]
    cycle: Bool[Array, "... e"]
    status: Int[Array, "..."]

    def _details(self) -> str:
        return difference_of(self)


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class MinimumCostFlowCheck(Check):
    """The result of [`check_minimum_cost_flow`][jaxmatch.check_minimum_cost_flow].

    Leading `...` is batch.

    - `valid`: `bool[...]`, the flow is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the flow is valid, and `gap` is no larger than the rounding of costs
      and potentials can explain, which proves that no flow costs less; see [Checks][optimal].
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    - `infeasible`: `bool[...]`, the cut `source_side` proves that there is no flow.
    - `unbounded`: `bool[...]`, the edges in `cycle` prove that no flow is the cheapest.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]
    infeasible: Bool[Array, "..."]
    unbounded: Bool[Array, "..."]
