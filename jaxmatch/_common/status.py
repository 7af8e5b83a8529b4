"""Status codes, one per problem."""

from __future__ import annotations

import enum
from typing import Any


class _OfOneCode(enum.EnumMeta):
    # Without this check, NumPy's error for an array would be about its truth value.
    def __call__(cls, value: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(value, "size", 1) != 1:
            raise TypeError(
                f"`Status` takes one code, got an array of shape {value.shape}; for a batch: "
                "`[Status(code) for code in res.status.tolist()]`."
            )
        return super().__call__(value, *args, **kwargs)


class Status(enum.IntEnum, metaclass=_OfOneCode):
    """The outcome of one problem. Results hold it as int32, one entry per problem of the batch.

    Unless the code is `OPTIMAL`, indices are −1, the gradient is zero, and cost, duals, gap, and
    the value and flow of a network are NaN (−1 if they are integers). There are exceptions:
    `UNFINISHED` comes with the pairs found so far, and `TIME_LIMIT` with an answer and its proved
    gap. The gap of `UNBALANCED` is the amount by which the sums of masses differ, or by which
    supplies that must sum to 0 do not.

    `Status(int(code))` prints as its name; its `advice` says what to do. For a batch:
    `[jm.Status(code) for code in res.status.tolist()]`.
    """

    # The build of the native libraries parses these lines.
    OPTIMAL = 0
    INFEASIBLE = 1
    INVALID_COST = 2
    OVERFLOW = 3
    UNFINISHED = 4
    INVALID_GRAPH = 5
    INVALID_CAPACITY = 6
    INVALID_MASS = 7
    UNBALANCED = 8
    TIME_LIMIT = 9
    UNBOUNDED = 10
    # Not returned by C++ solvers: an interrupted call fills all integers with -1.
    INTERRUPTED = -1

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        """The name, or the number if `spec` is an integer format."""
        return format(int(self) if spec[-1:] in tuple("bcdoxXn") else self.name, spec)

    @property
    def advice(self) -> str:
        """What happened, and what to do."""
        return _ADVICE[self]


_ADVICE = {
    Status.OPTIMAL: (
        "The result is optimal and proves it: an assignment by its duals, where `gap` bounds what "
        "rounding may have cost, a matching by its vertex cover, a flow by its cut."
    ),
    Status.INFEASIBLE: (
        "What must be matched or moved cannot be: forbidden pairs, capacities or minima rule it "
        "out. Allow more pairs, raise capacities, lower minima, or let rows stay unmatched by a "
        "solver that takes an `unmatched_cost`. A `minimum_cost_flow` marks in `source_side` nodes "
        "whose supplies the edges out of them cannot carry, and a `solve_sparse_transport` in "
        "`row_side` and `col_side` rows and columns."
    ),
    Status.INVALID_COST: (
        "An unmasked cost is NaN, or infinite on the side that does not forbid (-inf when "
        "minimising, +inf when maximising), or an `unmatched_cost` is NaN or unbounded. "
        "Mask the entry, or clean the costs."
    ),
    Status.OVERFLOW: (
        "Sums of integers may not fit: min(n, m) * max|cost| is about 2**61 or more (the docstring "
        "of the solver has its limit), masses add up to 2**60, the value of a flow does not fit "
        "its dtype, or the integer capacities at its source and at its sink add up to 2**61 (in a "
        "grid to 2**59, or 2**58 with 18 or 26 neighbours). Scale the numbers down, or set "
        "`jax_enable_x64`. Or there are more pairs of points within the radius than there is room "
        "for: give `max_pairs`."
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
        "A capacity or limit is negative or NaN, or a minimum negative. Clean them, or clip them "
        "at 0. In a `minimum_cost_flow` a capacity is NaN or less than the lower bound of its edge "
        "(of a forbidden edge 0 must lie between the two), or a lower bound is NaN or infinite. "
        "Without a bound, a capacity of floats is +inf, and one of integers any large number."
    ),
    Status.INVALID_MASS: (
        "A supply or a demand is negative, infinite or NaN. Clean the masses, or clip them at 0. "
        "Supplies of a `minimum_cost_flow` may be negative, but neither infinite nor NaN."
    ),
    Status.UNBALANCED: (
        "Supplies and demands have different sums, and `gap` is the difference: integers must "
        "agree exactly, floats up to the roundings of the coarsest dtype among them, or 1e-6. "
        "Normalise them to one sum, or let mass stay: by `partial`, at most the lesser sum, or by "
        "`unmatched_cost`. Supplies of a `minimum_cost_flow` must sum to 0; an extra node takes "
        "what is left over, by edges of cost 0."
    ),
    Status.TIME_LIMIT: (
        "The time was up, or so many points kept a gap after a limited number of solves. The pairs "
        "were completed from those found so far; their cost exceeds the "
        "optimum by at most `gap`; both are infinite if some rows found no column. For a better "
        "answer raise `time_limit`."
    ),
    Status.UNBOUNDED: (
        "A cycle of edges without a limit has negative cost, so more flow around it always costs "
        "less. The edges are in `cycle`: limit one of them, or raise a cost."
    ),
    Status.INTERRUPTED: (
        "Ctrl-C ended the solve on the CPU; KeyboardInterrupt is raised in the main thread. A "
        "compiled program that another thread runs returns this status: check it before you keep "
        "its results. Solve again."
    ),
}
