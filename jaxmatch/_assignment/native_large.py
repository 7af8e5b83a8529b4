"""The target for one large assignment, solved in one native call or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._ffi import results
from jaxmatch._ffi.call import names_of, native_call
from jaxmatch._ffi.sizes import most, size


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, Num

LARGE_METHODS = ("core", "auction", "classical", "tree")


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
    """The initial state."""
    *batch, n, m = cost.shape
    return Buffers(*(jnp.zeros((*batch, k), jnp.int32) for k in _sizes(n, m, masked, method)))


def large(
    cost: Num[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    maximize: bool,
    method: str,
    buffers: Buffers | None = None,
    steps: int = 0,
) -> tuple[Assignment, Buffers]:
    """At most `steps` more steps (0: all) from the state `buffers`. Arguments must be checked."""
    *_, n, m = cost.shape
    operands = [x for x in (row_mask, col_mask) if x is not None]
    sizes = _sizes(n, m, bool(operands), method)
    fields = results.assignment_fields(n, m)
    aliases = {}
    if buffers is not None:
        first = 1 + len(operands)
        aliases = {first + k: len(fields) + k for k in range(len(buffers))}
        operands += buffers
    out = native_call(
        "jaxmatch_assignment_core",
        [cost, *operands],
        [*fields, *results.buffers(sizes)],
        core_dims=[2, *(1 for _ in operands)],
        aliases=aliases,
        present=names_of(row_mask=row_mask, col_mask=col_mask, state=buffers),
        maximize=maximize,
        steps=steps,
        method=method,
    )
    return Assignment(*out[: len(fields)]), Buffers(*out[len(fields) :])
