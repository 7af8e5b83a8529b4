"""The targets that solve one large assignment, in one go or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp

from jaxmatch._common.result import Assignment
from jaxmatch._ffi import results
from jaxmatch._ffi.call import native_call


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Int, Num

CONTROL_WORDS = 96

# The methods, by the numbers of LargeMethod in ffi/assignment/large/operands.h.
LARGE_METHODS = {"core": 0, "classical": 1, "tree": 2}


class Buffers(NamedTuple):
    """What a kernel keeps between two steps."""

    control: Int[Array, "... 96"]
    scratch: Int[Array, "... s"]


def fits_large(cost: Num[Array, "... n m"], unmatched_cost: Array | None) -> bool:
    """Whether the solvers for one large problem take these costs.

    Rows are packed into 18 bits, see ffi/assignment/large/state.h.
    """
    *_, n, m = cost.shape
    longest = max(n, m)
    return unmatched_cost is None and cost.dtype != jnp.int64 and 0 < min(n, m) <= longest < 1 << 18


def scratch_words(n: int, m: int, masked: bool, method: str) -> int:
    """The size of one problem's scratch in int32, as in ffi/assignment/large/layout.h."""
    cols = max(n, m)
    rows = cols if masked else min(n, m)
    parts = [8 * cols, 8 * rows, 8 * cols, 4 * rows, 4 * cols]
    parts += [8 * cols, 8 * cols, 8 * rows, 4 * rows, 4 * cols, 4 * rows, 8 * rows]
    if method == "core":
        core = 128 * rows
        parts += [8 * core, 4 * core, 8 * rows, 8 * cols, 8 * (rows + cols), 4 * cols * 19]
    elif method == "classical":
        parts += [4 * rows * -(-cols // 32)]
    return sum(-(-part // 256) * 64 for part in parts)


def empty_buffers(cost: Num[Array, "... n m"], masked: bool, method: str) -> Buffers:
    """A state in which nothing has been done."""
    *batch, n, m = cost.shape
    return Buffers(
        jnp.zeros((*batch, CONTROL_WORDS), jnp.int32),
        jnp.zeros((*batch, scratch_words(n, m, masked, method)), jnp.int32),
    )


def large(
    cost: Num[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    maximize: bool,
    method: str,
    buffers: Buffers | None = None,
    phases: int = 0,
) -> tuple[Assignment, Buffers]:
    """At most `phases` more from `buffers` on (0: to the end); arguments are checked already."""
    *_, n, m = cost.shape
    masks = (row_mask, col_mask)
    operands = [x for x in masks if x is not None]
    given = sum(1 << bit for bit, x in enumerate(masks) if x is not None)
    sizes = [CONTROL_WORDS, scratch_words(n, m, bool(operands), method)]
    aliases = {}
    if buffers is not None:
        first = 1 + len(operands)
        aliases = {first: 7, first + 1: 8}
        operands += buffers
        given |= 16
    out = native_call(
        "jaxmatch_assignment_core",
        [cost, *operands],
        [*results.assignment_fields(n, m), *results.buffers(sizes)],
        core_dims=[2, *(1 for _ in operands)],
        aliases=aliases,
        given=given,
        maximize=maximize,
        phases=phases,
        method=LARGE_METHODS[method],
    )
    return Assignment(*out[:7]), Buffers(*out[7:])
