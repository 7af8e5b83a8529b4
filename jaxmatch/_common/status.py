"""The outcome of a solve, one code per problem."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How one problem ended; results hold it as int32, one entry per problem of the batch.

    Every code but `OPTIMAL` comes with indices −1, NaN for cost, duals and gap, for the value of a
    flow and for the flow (−1 if they are integers), and a zero gradient; only `UNFINISHED`
    comes with the pairs so far, where there are any.
    `Status(int(code))` prints as its name, and its `advice` is a sentence for people.
    """

    # The build of the native libraries reads these lines.
    OPTIMAL = 0
    INFEASIBLE = 1
    INVALID_COST = 2
    OVERFLOW = 3
    UNFINISHED = 4
    INVALID_GRAPH = 5
    INVALID_CAPACITY = 6

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        """The name, or the number where the format is one of integers."""
        return format(int(self) if spec[-1:] in tuple("bcdoxXn") else self.name, spec)

    @property
    def advice(self) -> str:
        """What happened, and what to do about it."""
        return _ADVICE[self]


_ADVICE = {
    Status.OPTIMAL: (
        "The result is optimal and proves it: an assignment by its duals, where `gap` bounds what "
        "rounding may have cost, a matching by its vertex cover, a flow by its cut."
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
        "The sum of integer costs may not fit: min(n, m) * max|cost| reaches 2**61. Or the value "
        "of a flow does not fit its dtype, or the integer capacities at its source and at its sink "
        "add up to 2**61. Scale the numbers down, or set `jax_enable_x64`."
    ),
    Status.UNFINISHED: (
        "The solver was not asked to finish: this is a state on its way (`stepping`), the initial "
        'matching (`method="init_only"`), or an `empty` result. Take more steps, or pass the pairs '
        "of a matching on as `warm_start`."
    ),
    Status.INVALID_GRAPH: (
        "The arrays of the graph make no sense: pointers that fall, begin elsewhere than at 0 or "
        "lead beyond the edges, indices of no vertex, or two directions that differ in length. "
        "Build it with `BipartiteGraph.from_edges` or `FlowNetwork.from_edges` or their siblings, "
        "which say what is wrong. Or source and sink of a flow are the same node, or no nodes."
    ),
    Status.INVALID_CAPACITY: (
        "A capacity is negative or NaN. +inf is allowed: an edge without a bound. Clean the "
        "capacities, or clip them at 0."
    ),
}
