"""The outcome of a solve, one code per problem."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How one problem ended; results hold it as int32, one entry per problem of the batch.

    Every code but `OPTIMAL` comes with indices −1, NaN for cost, duals and gap, and a zero
    gradient. `Status(int(code)).advice` is a sentence for people.
    """

    OPTIMAL = 0
    INFEASIBLE = 1
    INVALID_COST = 2
    OVERFLOW = 3
    ITERATION_LIMIT = 4

    @property
    def advice(self) -> str:
        """What happened, and what to do about it."""
        return _ADVICE[self]


# The same numbers stand in ffi/include/jaxmatch/status.h.
_ADVICE = {
    Status.OPTIMAL: "The assignment is optimal; `gap` bounds what rounding may have cost.",
    Status.INFEASIBLE: (
        "No assignment matches every row (or column) that must be matched without using a "
        "forbidden pair. Give `unmatched_cost` if rows may stay unmatched."
    ),
    Status.INVALID_COST: (
        "An unmasked cost is NaN, or infinite on the side that does not forbid (-inf when "
        "minimising, +inf when maximising), or an `unmatched_cost` is NaN or unbounded. "
        "Mask the entry, or clean the costs."
    ),
    Status.OVERFLOW: (
        "The sum of integer costs may not fit: min(n, m) * max|cost| reaches 2**61. "
        "Scale the costs down."
    ),
    Status.ITERATION_LIMIT: "The solver stopped before it was done; resume it, or raise the limit.",
}
