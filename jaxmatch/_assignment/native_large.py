"""The native target for one large assignment, which is solved in one native call or in several."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.registered import registered_tuple
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._ffi import results
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.sizes import most, size


LARGE_METHODS = ("core", "auction", "classical", "tree")
SHARDED_METHODS = ("core", "classical", "tree")


@registered_tuple
class Buffers(NamedTuple):
    """The state of a solve between two native calls."""

    control: Int[Array, "... c"]
    scratch: Int[Array, "... s"]

    def word(self, name: str) -> Int[Array, "..."]:
        return self.control[..., size(f"large.control.{name}")]


def longest_side() -> float:
    return most("large.longest_side")


def fits_large(cost: Num[Array, "... n m"], unmatched_cost: Array | None) -> bool:
    """Whether the methods for large problems take these costs."""
    *_, n, m = cost.shape
    fits = 0 < min(n, m) and max(n, m) <= longest_side()
    return unmatched_cost is None and cost.dtype != jnp.int64 and fits


def _sizes(n: int, m: int, masked: bool, method: str) -> list[int]:
    return [size("large.control"), size(f"large.scratch.{method}", n, m, masked)]


def empty_buffers(cost: Num[Array, "... n m"], masked: bool, method: str) -> Buffers:
    """The buffers before the first step."""
    *batch, n, m = cost.shape
    return Buffers(*(jnp.zeros((*batch, k), jnp.int32) for k in _sizes(n, m, masked, method)))


def large(
    cost: Num[Array, "... n m"] | Float[Array, "... d n"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    maximize: bool,
    method: str,
    buffers: Buffers | None = None,
    steps: int = 0,
    col_points: Float[Array, "... d m"] | None = None,
    metric: str | None = None,
    time_limit: float | None = None,
) -> tuple[Assignment, Buffers]:
    """Takes up to `steps` steps (0: all) from the state `buffers`. Arguments must be checked.

    After `time_limit` seconds the pairs found so far are completed, with the status `TIME_LIMIT`.

    With `col_points`, `cost` holds the points of the rows, and costs are the distances of points,
    computed on each access.
    """
    *_, n, m = cost.shape
    points: dict[str, Any] = {}
    if col_points is not None:
        n, m = m, col_points.shape[-1]
        points = {"metric": metric}
    given = {"row_mask": row_mask, "col_mask": col_mask, "col_points": col_points}
    operands = [x for x in given.values() if x is not None]
    core_dims = [2, *(2 if x is col_points else 1 for x in operands)]
    sizes = _sizes(n, m, row_mask is not None or col_mask is not None, method)
    fields = results.assignment_fields(n, m)
    aliases = {}
    if buffers is not None:
        first = 1 + len(operands)
        aliases = {first + k: len(fields) + k for k in range(len(buffers))}
        operands += buffers
        core_dims += [1 for _ in buffers]
    out = native_call(
        "jaxmatch_assignment_core",
        [cost, *operands],
        [*fields, *results.buffers(sizes)],
        core_dims=core_dims,
        aliases=aliases,
        present=names_of(**given, state=buffers),
        maximize=maximize,
        steps=steps,
        time_limit=time_limit or 0.0,
        method=method,
        **points,
    )
    return Assignment(*out[: len(fields)]), Buffers(*out[len(fields) :])
