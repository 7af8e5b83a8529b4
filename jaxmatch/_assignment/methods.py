"""The methods of `solve_assignment`: one function for each, which picks a solver by platform."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax

from jaxmatch._assignment import native, native_large
from jaxmatch._assignment import xla as _xla_assignment
from jaxmatch._assignment.gated import solve_beyond_blocks
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._assignment.stepping import Progress, solve_in_steps
from jaxmatch._common.result import Assignment
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._ffi.dispatch import by_platform, rebatch
from jaxmatch._ffi.sizes import size


# Below these lengths of the longer side, one thread block runs an auction faster than the whole
# GPU, where each round takes longer. If the sides differ, some columns stay free, which makes the
# searches of a block longer. So the limit is lower.
_LARGE_AUCTION, _LARGE_AUCTION_IF_NOT_SQUARE = 1536, 1025
# Bytes of shared memory that a thread block needs for each row of a problem.
_BYTES_PER_ROW = 48


def _auto(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """Jonker-Volgenant, or on a GPU `"core"` for few large problems, see `_prefers_core`."""
    if is_symbolic(problem.cost.shape[-2:]) or not _prefers_core(problem):
        return _jonker_volgenant(problem, maximize=maximize)

    def solve(problem: AssignmentProblem) -> Assignment:
        """Chooses a solver again, now that `vmap` has added its dimension to the batch."""
        return _by_platform(problem, cpu=_on_cpu, cuda=on_cuda, maximize=maximize)

    return rebatch(solve)(problem)


def on_cuda(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """What `"auto"` runs on a GPU for a whole batch."""
    if not _prefers_core(problem):
        solve = _on_cuda if native.fits_cuda(problem.cost) else _beyond_blocks
    elif _has_block_auction(problem) and _fits_a_block(problem):
        solve = _core_or_block
    else:
        solve = partial(_on_large, method="core")
    return solve(problem, maximize=maximize)


def _prefers_core(problem: AssignmentProblem) -> bool:
    """Whether one problem at a time on the whole GPU is faster than one thread block per problem.

    Measured in benchmarks/assignment/large.py.
    """
    *batch, n, m = problem.cost.shape
    shorter = min(n, m)
    # A batch of unknown size is taken for a large one.
    many = is_symbolic(batch) or math.prod(batch) > shorter * shorter // 200_000
    return native_large.fits_large(problem.cost, problem.unmatched_cost) and (
        not native.fits_cuda(problem.cost) or (shorter >= 512 and not many)
    )


def _jonker_volgenant(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """The native solver where the platform has one, the pure-JAX twin elsewhere."""
    cuda = _on_cuda if native.fits_cuda(problem.cost) else _beyond_blocks
    return _by_platform(problem, cpu=_on_cpu, cuda=cuda, maximize=maximize)


def _large(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    large_method: str,
    steps: int | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Assignment:
    if min(problem.cost.shape[-2:]) == 0:
        return _jonker_volgenant(problem, maximize=maximize)
    _check_large(problem, large_method)
    if steps is not None:
        return solve_in_steps(
            problem, method=large_method, maximize=maximize, steps=steps, progress=progress
        )
    solve = partial(_on_large, method=large_method, time_limit=time_limit)
    return _by_platform(problem, cpu=solve, cuda=solve, maximize=maximize)


def _has_block_auction(problem: AssignmentProblem) -> bool:
    """Whether one thread block would run an auction faster than the whole GPU."""
    n, m = problem.cost.shape[-2:]
    return max(n, m) < (_LARGE_AUCTION if n == m else _LARGE_AUCTION_IF_NOT_SQUARE)


def _fits_a_block(problem: AssignmentProblem) -> bool:
    """Whether the state of a problem surely fits the shared memory of one thread block."""
    shared = native.shared_memory() or native.BYTES_ON_EVERY_GPU
    rows = max(problem.cost.shape[-2:])
    return native.fits_cuda(problem.cost) and rows * _BYTES_PER_ROW <= shared


def _core_or_block(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """Runs `"core"`. If its first step decides on an auction, one thread block solves instead.

    A block runs an auction faster.
    """
    large = partial(
        native_large.large, problem.cost, *problem.masks, maximize=maximize, method="core"
    )
    _, buffers = large(steps=1)
    return lax.cond(
        (buffers.word("stage") == size("large.stage.auction")).any(),
        # Without a warm start, which would prevent the auction.
        lambda: _on_cuda(problem._replace(col_dual=None), maximize=maximize),
        lambda: large(buffers=buffers)[0],
    )


def _check_large(problem: AssignmentProblem, method: str) -> None:
    cost, unmatched_cost = problem.cost, problem.unmatched_cost
    if not native_large.fits_large(cost, unmatched_cost):
        raise ValueError(
            f"`method={method!r}` takes floats and 32-bit integers with sides up to "
            f"{native_large.longest_side()} and "
            f"no `unmatched_cost`, got {cost.dtype}{[*cost.shape]}"
            f"{' and an unmatched cost' if unmatched_cost is not None else ''}; "
            'use `method="auto"`.'
        )


def _on_cpu(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    return native.assignment(*problem, maximize=maximize, platform="cpu")


def _on_cuda(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    return native.assignment(*problem, maximize=maximize, platform="cuda")


def _beyond_blocks(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    twin = partial(_xla, maximize=maximize)
    return solve_beyond_blocks(problem, maximize=maximize, platform="cuda", twin=twin)


def _on_large(
    problem: AssignmentProblem, *, maximize: bool, method: str, time_limit: float | None = None
) -> Assignment:
    given: dict[str, Any] = {"maximize": maximize, "method": method, "time_limit": time_limit}
    return native_large.large(problem.cost, *problem.masks, **given)[0]


def _by_platform(
    problem: AssignmentProblem,
    *,
    cpu: Callable[..., Assignment],
    cuda: Callable[..., Assignment] | None,
    maximize: bool,
) -> Assignment:
    native = {"cpu": partial(cpu, maximize=maximize)}
    if cuda is not None:
        native["cuda"] = partial(cuda, maximize=maximize)
    twin, sizes = partial(_xla, maximize=maximize), problem.cost.shape[-2:]
    return by_platform(twin, problem, **native, sizes=sizes)


def _xla(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    def solve(problem: AssignmentProblem) -> Assignment:
        return _xla_assignment.solve(*problem, maximize=maximize)

    for _ in problem.cost.shape[:-2]:
        solve = jax.vmap(solve)
    return solve(problem)


def _large_here(
    problem: AssignmentProblem, *, maximize: bool, method: str, time_limit: float | None = None
) -> Assignment:
    """Solves on this host by a method for large problems. Raises the same errors as in a trace."""
    if min(problem.cost.shape[-2:]) == 0:
        return _on_cpu(problem, maximize=maximize)
    _check_large(problem, method)
    return _on_large(problem, maximize=maximize, method=method, time_limit=time_limit)


def method_with_limit(method: str, in_steps: bool) -> str:
    """The method to run with a time limit, `"core"` for `"auto"`.

    Raises an error for methods without time limits, and for solves in several calls.
    """
    method = "core" if method == "auto" else method
    if method not in native_large.LARGE_METHODS or in_steps:
        wrong = "several calls" if in_steps else f"method={method!r}"
        raise ValueError(
            f"`time_limit` belongs to one call of the methods {[*native_large.LARGE_METHODS]}, "
            f"got {wrong}; leave one of them out."
        )
    return method


def check_goes_with_limit(cost: Any, unmatched_cost: Any) -> None:
    """Raises an error for costs that no method with a time limit takes."""
    if unmatched_cost is not None:
        raise ValueError(
            "`time_limit` does not go with `unmatched_cost`; leave one of them out, or give each "
            "row a column of its own that costs as much."
        )
    if min(cost.shape[-2:]) > 0 and not native_large.fits_large(cost, None):
        raise ValueError(
            "`time_limit` goes with floats and 32-bit integers with sides up to "
            f"{native_large.longest_side()}, got {cost.dtype}{[*cost.shape]}; leave it out or "
            "convert the costs."
        )


# Every platform accepts every name. If it has no native solver for a name, the pure-JAX twin runs.
METHODS: dict[str, Callable[..., Assignment]] = {
    "auto": _auto,
    **{name: partial(_large, large_method=name) for name in native_large.LARGE_METHODS},
    "jonker_volgenant": _jonker_volgenant,
    "xla": _xla,
}

# Methods that can be exported with symbolic n and m.
UNSIZED = ("auto", "jonker_volgenant")

# Solvers outside of a trace, on this host: native calls on NumPy arrays.
HERE: dict[str, Callable[..., Assignment]] = {
    "auto": _on_cpu,
    "jonker_volgenant": _on_cpu,
    **{name: partial(_large_here, method=name) for name in native_large.LARGE_METHODS},
}
