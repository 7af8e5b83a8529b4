"""The result of quadratic assignment: a dataclass of arrays, as a pytree."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Result
from jaxmatch._common.typing import Array, Float, Int


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class QuadraticAssignment(Result):
    """The result of [`quadratic_assignment`][jaxmatch.quadratic_assignment].

    Leading `...` is batch; `res[k]` is problem k of it.

    - `col4row`: `i32[..., n]`, the column of each row (scipy's `col_ind`), −1 where unmatched.
    - `value`: `f[...]`, the objective of these pairs; the only field with a gradient.
    - `start`: `i32[...]`, the first of the starts that reached this value.
    - `values`: `f[..., s]`, the objective that each start reached.
    - `agree`: `i32[...]`, how many starts reached `value`, up to rounding. If many do, a better
      value is less likely; nothing is proved.
    - `steps`: `i32[..., s]`, how many steps each start took.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status]. `OPTIMAL` says that the pairs are
      complete. The problem is hard, and a better value may exist.

    If `status` is not `OPTIMAL`, indices are −1, numbers NaN and counts 0.
    """

    col4row: Int[Array, "... n"]
    value: Float[Array, "..."]
    start: Int[Array, "..."]
    values: Float[Array, "... s"]
    agree: Int[Array, "..."]
    steps: Int[Array, "... s"]
    status: Int[Array, "..."]
