"""The methods of `solve_assignment`: one function for each, which picks a solver by platform."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
from jax import lax

from jaxmatch._assignment import native, native_large
from jaxmatch._assignment import xla as _xla_assignment
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._assignment.stepping import Progress, has_trees, is_done, solve_in_steps
from jaxmatch._common.result import Assignment
from jaxmatch._ffi.dispatch import by_platform, rebatch


if TYPE_CHECKING:
    from jaxtyping import Array, Bool

# Steps of `"core"` in its first native call and in each later one. Where the core method converges
# it rarely needs 40. After 64 steps with little progress (`kLeastPatience` of
# ffi/assignment/large/core/solve.h) it continues with trees over all costs, which take 2 to 5 times
# as long as searches by one block (benchmarks/results/assignment_auto.json).
_FIRST_STEPS, _MORE_STEPS = 64, 8
_FITS_EVERY_GPU = 1800  # rows or columns that fit the shared memory of one block on any GPU


def _auto(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """Jonker-Volgenant, or on a GPU the core method for few large problems, see `_prefers_core`."""
    if not _prefers_core(problem):
        return _jonker_volgenant(problem, maximize=maximize)

    def solve(problem: AssignmentProblem) -> Assignment:
        """Decides again: under `vmap` the batch is larger than it was outside."""
        if not _prefers_core(problem):
            return _jonker_volgenant(problem, maximize=maximize)
        fits = max(problem.cost.shape[-2:]) <= _FITS_EVERY_GPU
        cuda = _core_without_trees if fits else partial(_on_large, method="core")
        return _by_platform(problem, cpu=_on_cpu, cuda=cuda, maximize=maximize)

    return rebatch(solve)(problem)


def _prefers_core(problem: AssignmentProblem) -> bool:
    """True if solving one problem at a time on the whole GPU is faster than one block per problem.

    Measured in benchmarks/assignment/large.py.
    """
    *batch, n, m = problem.cost.shape
    shorter = min(n, m)
    many = math.prod(batch) > shorter * shorter // 200_000
    return native_large.fits_large(problem.cost, problem.unmatched_cost) and (
        not native.fits_cuda(problem.cost) or (shorter >= 512 and not many)
    )


def _jonker_volgenant(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """The native kernel where the platform has one, the twin elsewhere."""
    cuda = _on_cuda if native.fits_cuda(problem.cost) else None
    return _by_platform(problem, cpu=_on_cpu, cuda=cuda, maximize=maximize)


def _large(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    large_method: str,
    steps: int | None = None,
    progress: Progress | None = None,
) -> Assignment:
    if min(problem.cost.shape[-2:]) == 0:
        return _jonker_volgenant(problem, maximize=maximize)
    _check_large(problem, large_method)
    if steps is not None:
        return solve_in_steps(
            problem, method=large_method, maximize=maximize, steps=steps, progress=progress
        )
    solve = partial(_on_large, method=large_method)
    return _by_platform(problem, cpu=solve, cuda=solve, maximize=maximize)


def _core_without_trees(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """`"core"` until it would switch to trees over all costs, then Jonker-Volgenant."""
    cost, masks = problem.cost, problem.masks
    solve = partial(native_large.large, cost, *masks, maximize=maximize, method="core")

    def goes_on(state: tuple[Assignment, native_large.Buffers]) -> Bool[Array, ""]:
        return (~is_done(state[1]) & ~has_trees(state[1])).any()

    result, buffers = lax.while_loop(
        goes_on,
        lambda state: solve(buffers=state[1], steps=_MORE_STEPS),
        solve(steps=_FIRST_STEPS),
    )
    return lax.cond(
        is_done(buffers).all(), lambda: result, lambda: _on_cuda(problem, maximize=maximize)
    )


def _check_large(problem: AssignmentProblem, method: str) -> None:
    cost, unmatched_cost = problem.cost, problem.unmatched_cost
    if not native_large.fits_large(cost, unmatched_cost):
        raise ValueError(
            f"`method={method!r}` takes floats and 32-bit integers with sides below 2^18 and "
            f"no `unmatched_cost`, got {cost.dtype}{[*cost.shape]}"
            f"{' and an unmatched cost' if unmatched_cost is not None else ''}; "
            'use `method="auto"`.'
        )


def _on_cpu(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    return native.assignment(*problem, maximize=maximize, platform="cpu")


def _on_cuda(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    return native.assignment(*problem, maximize=maximize, platform="cuda")


def _on_large(problem: AssignmentProblem, *, maximize: bool, method: str) -> Assignment:
    return native_large.large(problem.cost, *problem.masks, maximize=maximize, method=method)[0]


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
    return by_platform(partial(_xla, maximize=maximize), problem, **native)


def _xla(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    def solve(problem: AssignmentProblem) -> Assignment:
        return _xla_assignment.solve(*problem, maximize=maximize)

    for _ in problem.cost.shape[:-2]:
        solve = jax.vmap(solve)
    return solve(problem)


def _large_here(problem: AssignmentProblem, *, maximize: bool, method: str) -> Assignment:
    """Raises the same errors as a traced call."""
    if min(problem.cost.shape[-2:]) == 0:
        return _on_cpu(problem, maximize=maximize)
    _check_large(problem, method)
    return _on_large(problem, maximize=maximize, method=method)


# Every name is accepted on every platform: without a kernel for it, the pure-JAX twin runs.
METHODS: dict[str, Callable[..., Assignment]] = {
    "auto": _auto,
    **{name: partial(_large, large_method=name) for name in native_large.LARGE_METHODS},
    "jonker_volgenant": _jonker_volgenant,
    "xla": _xla,
}

# Solvers outside of a trace, on this host: native calls on NumPy arrays.
HERE: dict[str, Callable[..., Assignment]] = {
    "auto": _on_cpu,
    "jonker_volgenant": _on_cpu,
    **{name: partial(_large_here, method=name) for name in native_large.LARGE_METHODS},
}
