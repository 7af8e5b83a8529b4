"""Which solver finds assignments on which platform: a function for each method."""

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

# Steps of `"core"` in its first call and in each that follows. Where cores lead somewhere, 40 are
# many; after `kLeastPatience` of ffi/assignment/large/core/solve.h, 64 that find little, trees over
# all costs finish, which take 2 to 5 times as long as searches by one block
# (benchmarks/results/assignment_auto.json).
_FIRST_STEPS, _MORE_STEPS = 64, 8
_FITS_EVERY_GPU = 1800  # rows or columns in a block's shared memory


def _auto(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """On GPUs one large problem is solved by the whole device, as long as its core leads somewhere;
    see `_pays_off_on_core`."""
    if not _pays_off_on_core(problem):
        return _jonker_volgenant(problem, maximize=maximize)

    def solve(problem: AssignmentProblem) -> Assignment:
        """Under `vmap` what was one problem is a batch: perhaps one of many."""
        if not _pays_off_on_core(problem):
            return _jonker_volgenant(problem, maximize=maximize)
        fits = max(problem.cost.shape[-2:]) <= _FITS_EVERY_GPU
        cuda = _core_without_trees if fits else partial(_on_large, method="core")
        return _by_platform(problem, cpu=_on_cpu, cuda=cuda, maximize=maximize)

    return rebatch(solve)(problem)


def _pays_off_on_core(problem: AssignmentProblem) -> bool:
    """Whether problems one after another, each by the whole GPU, beat one block for each.

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
        how = {"method": large_method, "maximize": maximize, "steps": steps}
        return solve_in_steps(problem, **how, progress=progress)
    solve = partial(_on_large, method=large_method)
    return _by_platform(problem, cpu=solve, cuda=solve, maximize=maximize)


def _core_without_trees(problem: AssignmentProblem, *, maximize: bool) -> Assignment:
    """`"core"` until it takes to trees over all costs, then Jonker and Volgenant's method."""
    cost, masks = problem.cost, problem.masks
    solve = partial(native_large.large, cost, *masks, maximize=maximize, method="core")

    def leads_on(state: tuple[Assignment, native_large.Buffers]) -> Bool[Array, ""]:
        return (~is_done(state[1]) & ~has_trees(state[1])).any()

    result, buffers = lax.while_loop(
        leads_on,
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
    """What the method does not take is refused as in a trace."""
    if min(problem.cost.shape[-2:]) == 0:
        return _on_cpu(problem, maximize=maximize)
    _check_large(problem, method)
    return _on_large(problem, maximize=maximize, method=method)


# A name is accepted on every platform: where its kernel does not run, the pure-JAX twin does.
METHODS: dict[str, Callable[..., Assignment]] = {
    "auto": _auto,
    **{name: partial(_large, large_method=name) for name in native_large.LARGE_METHODS},
    "jonker_volgenant": _jonker_volgenant,
    "xla": _xla,
}

# Outside of a trace, on this host: native calls on NumPy arrays.
HERE: dict[str, Callable[..., Assignment]] = {
    "auto": _on_cpu,
    "jonker_volgenant": _on_cpu,
    **{name: partial(_large_here, method=name) for name in native_large.LARGE_METHODS},
}
