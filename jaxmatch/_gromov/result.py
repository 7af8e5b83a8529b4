"""The result of Gromov-Wasserstein problems: a dataclass of arrays, as a pytree."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Result
from jaxmatch._common.typing import Array, Float, Int


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class GromovWasserstein(Result):
    """The result of [`gromov_wasserstein`][jaxmatch.gromov_wasserstein]; leading `...` is batch.

    `res[k]` is problem k of a batch.

    - `plan`: `f[..., n, m]`, the mass that row i sends to column j.
    - `value`: `f[...]`, the objective of this plan; the only field with a gradient.
    - `gap`: `f[...]`, the stationarity gap (of Frank and Wolfe): how much the linear approximation
      of the objective at the plan can fall. 0 says that no direction leads down.
    - `bound`: `f[...]`, a proved lower bound of the optimum, so `value - bound` is a gap to it.
    - `start`: `i32[...]`, the first of the starts that reached this value.
    - `values`: `f[..., s]`, the objective that each start reached.
    - `agree`: `i32[...]`, how many starts reached `value`, up to 1e-6 of it or rounding.
    - `steps`: `i32[..., s]`, how many steps each start took.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status]. `OPTIMAL` says that the plan moves all
      mass. The problem is hard, and a better value may exist unless `bound` says no.

    If `status` is not `OPTIMAL`, all numbers are NaN, and the plan and counts 0.
    """

    plan: Float[Array, "... n m"]
    value: Float[Array, "..."]
    gap: Float[Array, "..."]
    bound: Float[Array, "..."]
    start: Int[Array, "..."]
    values: Float[Array, "... s"]
    agree: Int[Array, "..."]
    steps: Int[Array, "... s"]
    status: Int[Array, "..."]
