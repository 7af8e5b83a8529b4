"""The outcome of a solve, one code per problem."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How one problem ended; results hold it as int32, one entry per problem of the batch.

    Every code but `OPTIMAL` comes with indices −1, NaN for cost, duals and gap, and a zero
    gradient; only `ITERATION_LIMIT` comes with the pairs so far, where there are any.
    `Status(int(code)).advice` is a sentence for people.
    """

    OPTIMAL = 0
    INFEASIBLE = 1
    INVALID_COST = 2
    OVERFLOW = 3
    ITERATION_LIMIT = 4
    INVALID_GRAPH = 5

    @property
    def advice(self) -> str:
        """What happened, and what to do about it."""
        return _ADVICE[self]


# The same numbers stand in ffi/include/jaxmatch/status.h.
_ADVICE = {
    Status.OPTIMAL: (
        "The result is optimal and proves it: an assignment by its duals, where `gap` bounds what "
        "rounding may have cost, a matching by its vertex cover."
    ),
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
    Status.ITERATION_LIMIT: (
        "The solver stopped before it was done, or was asked for a start alone. Resume it, raise "
        "the limit, or pass the result as `warm_start`."
    ),
    Status.INVALID_GRAPH: (
        "The arrays of the graph make no sense: pointers that fall, begin elsewhere than at 0 or "
        "lead beyond the edges, indices of no vertex, or two directions that differ in length. "
        "Build it with `BipartiteGraph.from_edges` or its siblings, which say what is wrong."
    ),
}
