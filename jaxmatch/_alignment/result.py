"""The result of `solve_alignment`."""

from __future__ import annotations

import dataclasses

from jaxmatch._common.registered import registered
from jaxmatch._common.result import Result
from jaxmatch._common.typing import Array, Bool, Float, Int


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Alignment(Result):
    """The result of [`solve_alignment`][jaxmatch.solve_alignment]; leading `...` is batch.

    - `col4row`: `i32[..., n]`, the point of `y` of each point of `x`, −1 where unmatched.
    - `row4col`: `i32[..., m]`, the point of `x` of each point of `y`, −1 where unmatched.
    - `rotation`, `translation`: `f[..., d, d]`, `f[..., d]`. The point x moves to
      `rotation @ x + translation`.
    - `value`: `f[...]`, the sum of weighted squared distances of pairs after the motion.
    - `rmsd`: `f[...]`, the root of `value` divided by the weight of all pairs.
    - `bound`: `f[...]`, a lower bound on the least value of all pairs and motions.
    - `start`: `i32[...]`, the start that led to the result.
    - `values`: `f[..., s]`, the value that each start led to.
    - `agree`: `i32[...]`, how many starts led to the least value, up to rounding.
    - `steps`: `i32[...]`, how many steps the slowest start took.
    - `proved`: `bool[...]`, whether `value` and `bound` agree to the tolerance that was asked for,
      or `value` is 0 up to rounding.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    `value` and `rmsd` are the fields with a gradient. If `status` is not `OPTIMAL`, indices are −1
    and numbers NaN. `OPTIMAL` says that the pairs were the best ones for the motion before. After
    enough steps the result is a local optimum, and `bound` says how far from the global one it may
    be.
    """

    col4row: Int[Array, "... n"]
    row4col: Int[Array, "... m"]
    rotation: Float[Array, "... d d"]
    translation: Float[Array, "... d"]
    value: Float[Array, "..."]
    rmsd: Float[Array, "..."]
    bound: Float[Array, "..."]
    start: Int[Array, "..."]
    values: Float[Array, "... s"]
    agree: Int[Array, "..."]
    steps: Int[Array, "..."]
    proved: Bool[Array, "..."]
    status: Int[Array, "..."]
