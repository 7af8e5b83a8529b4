"""Large assignments in steps, with a state that can be inspected, stored and resumed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment import native_large
from jaxmatch._assignment.native_large import Buffers
from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.given import require
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Int
from jaxmatch._ffi.dispatch import by_platform, until_done
from jaxmatch._ffi.sizes import size
from jaxmatch._library import libraries


# A function that takes the number of matched rows and the number of rows to match.
Progress = Callable[["Array", "Array"], None]


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class AssignmentState:
    """The state of an unfinished solve, made by [`init`][jaxmatch.stepping.init].

    Leading `...` is batch.

    - `result`: an `Assignment`. Until the solve is done it holds the pairs found so far, and its
      status is `UNFINISHED`.
    - `buffers`: the internal state of the solver: prices, candidate sets, counters.

    A state is a pytree of arrays, so `jit` and `while_loop` take it, and it can be stored.
    """

    result: Assignment
    buffers: Buffers
    maximize: bool = dataclasses.field(metadata={"static": True})
    method: str = dataclasses.field(metadata={"static": True})

    @property
    def done(self) -> Bool[Array, "..."]:
        """Whether the result is final."""
        return is_done(self.buffers)

    @property
    def matched_rows(self) -> Int[Array, "..."]:
        """The number of matched rows."""
        return (self.result.col4row >= 0).sum(-1, dtype=jnp.int32)

    @property
    def rows(self) -> Int[Array, "..."]:
        """The number of pairs to find, without masked rows and columns; 0 before the first step."""
        return self.buffers.word("rows")

    @property
    def steps(self) -> Int[Array, "..."]:
        """The number of searches and of auction scales so far.

        A search, which papers call an iteration, may match many rows.
        """
        return self.buffers.word("steps")

    @property
    def pricings(self) -> Int[Array, "..."]:
        """The number of passes over all costs in `"core"`, of dual updates in Hungarian methods."""
        return self.buffers.word("pricings")

    @property
    def dense_steps(self) -> Int[Array, "..."]:
        """The number of steps of `"core"` and `"auction"` that searched over all costs."""
        return self.buffers.word("dense_steps")

    @property
    def termination_rounds(self) -> Int[Array, "..."]:
        """The number of rounds so far: rounds of searches, and rounds of bids in auctions.

        In the Hungarian methods (`"classical"`, `"tree"`), a round is a level of breadth-first
        search. In `"core"` on a CPU, a search is one round. On a GPU, threads search
        asynchronously, and a round ends with a test for termination, so the number of rounds
        differs between runs.
        """
        return self.buffers.word("termination_rounds")

    @property
    def bids(self) -> Int[Array, "..."]:
        """The number of bids in auctions. Each bid scans a row or the candidates of a row."""
        return self.buffers.word("bids")

    def stage_ms(self) -> dict[str, float]:
        """Milliseconds spent in each stage, for one problem, outside of a trace."""
        stages = ("look", "select", "bid", "auction", "refine", "augment", "price")
        if self.method in ("classical", "tree"):
            stages = ("look", "reduce", "compress", "search", "dual_update")
        control = np.asarray(self.buffers.control)

        def spent(stage: str) -> float:
            at = size(f"large.control.spent.{stage}")
            return int(control[at : at + 2].view(np.int64)[0]) / 1e6

        return {stage: spent(stage) for stage in stages}


def is_done(buffers: Buffers) -> Bool[Array, "..."]:
    """Whether the result of these buffers is final."""
    stage = buffers.word("stage")
    return (stage == size("large.stage.done")) | (stage < 0)  # stage < 0 after Ctrl-C


@unchecked
def init(
    cost: ArrayLike,
    *,
    method: str = "core",
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> AssignmentState:
    """The initial state of a solve.

    **Arguments:**

    - `cost`, `maximize`, `row_mask`, `col_mask`: as in
      [`solve_assignment`][jaxmatch.solve_assignment].
    - `method`: `"core"`, `"auction"`, `"classical"` or `"tree"`.

    **Returns:** an [`AssignmentState`][jaxmatch.stepping.AssignmentState] without pairs.

    **Raises:** `RuntimeError` if the native libraries are missing; `ValueError` for another method,
    64-bit integers, and sides that are empty or too long; otherwise as `solve_assignment`.
    """
    check_name("method", method, native_large.LARGE_METHODS)
    _check_libraries()
    problem = as_problem(cost, row_mask, col_mask, symbolic=False)
    cost, masked = problem.cost, problem.has_masks
    if not native_large.fits_large(cost, None):
        raise ValueError(
            f"`cost` must have sides from 1 to {native_large.longest_side()} and no 64-bit "
            f"integers, got {cost.dtype}{[*cost.shape]}."
        )
    start = (Assignment.empty(cost.shape), native_large.empty_buffers(cost, masked, method))
    # In a surrounding `shard_map`, the state must have the same type as the states that follow.
    result, buffers = vary_alike(start, problem)
    return AssignmentState(result, buffers, maximize, method)


@unchecked
def step(
    cost: ArrayLike,
    state: AssignmentState,
    *,
    steps: int = 1,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> AssignmentState:
    """Take up to `steps` more steps; a state that is done is returned unchanged.

    A step is one search and the augmentations along the paths that it finds, or one scale of an
    auction.

    >>> import jax, jax.numpy as jnp
    >>> from jaxmatch import stepping
    >>> cost = jax.random.uniform(jax.random.key(0), (50, 50))
    >>> state = stepping.init(cost)
    >>> while not state.done:
    ...     state = stepping.step(cost, state)
    >>> int(state.matched_rows), int(state.result.status)
    (50, 0)

    **Arguments:**

    - `cost`, `row_mask`, `col_mask`: as they were passed to `init`.
    - `state`: from `init` or an earlier step.
    - `steps`: an integer from 1 to 10^9.

    **Returns:** the [`AssignmentState`][jaxmatch.stepping.AssignmentState] after these steps.

    **Raises:** `RuntimeError` if the native libraries are missing; `TypeError` for a state of
    another type; `ValueError` for other numbers of steps.
    """
    require("state", state, AssignmentState, "`stepping.init(cost)` makes one")
    problem = as_problem(cost, row_mask, col_mask, symbolic=False)
    steps = as_count("steps", steps)
    result, buffers = _step(
        problem, state.buffers, maximize=state.maximize, method=state.method, steps=steps
    )
    return dataclasses.replace(state, result=result, buffers=buffers)


def _check_libraries() -> None:
    if not (libraries.has_cpu_library() or libraries.has_cuda_library()):
        raise RuntimeError("Stepping needs the native libraries; reinstall jaxmatch.")


def _step(
    problem: AssignmentProblem, buffers: Buffers, *, maximize: bool, method: str, steps: int
) -> tuple[Assignment, Buffers]:
    _check_libraries()

    def solve(problem: AssignmentProblem, buffers: Buffers) -> tuple[Assignment, Buffers]:
        return native_large.large(
            problem.cost,
            *problem.masks,
            maximize=maximize,
            method=method,
            buffers=buffers,
            steps=steps,
        )

    return by_platform(None, problem, buffers, cpu=solve, cuda=solve)


def solve_in_steps(
    problem: AssignmentProblem,
    *,
    method: str,
    maximize: bool,
    steps: int,
    progress: Progress | None,
) -> Assignment:
    """Solves in a `while_loop` of native calls, until all problems of the batch are done."""
    _check_libraries()

    def report(result: Assignment, buffers: Buffers) -> None:
        if progress is not None:
            state = AssignmentState(result, buffers, maximize, method)
            jax.debug.callback(progress, state.matched_rows, state.rows)

    start = native_large.empty_buffers(problem.cost, problem.has_masks, method)
    call = partial(_step, problem, method=method, maximize=maximize, steps=steps)
    return until_done(call, vary_alike(start, problem), is_done, report)
