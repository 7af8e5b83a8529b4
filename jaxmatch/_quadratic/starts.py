"""Where the walks begin: the barycentre, random doubly stochastic matrices, or given ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._quadratic.problem import QuadraticProblem


_ROUNDS = 20  # of row and column sums


class Sides(NamedTuple):
    """The rows and columns of a batch of problems, with an axis of length 1 for the starts."""

    rows: Bool[Array, "... 1 n"]  # those that may be matched freely
    cols: Bool[Array, "... 1 m"]
    seeds: Int[Array, "... 1 n"]  # the known column of each row, or −1
    count: Int[Array, "... 1"]  # the pairs of a complete assignment, known ones included


def sides_of(problem: QuadraticProblem) -> Sides:
    xp, m = module_of(problem.a), problem.b.shape[-1]
    rows, cols = problem.rows, problem.cols
    seeds = problem.seeds
    if seeds is None:
        seeds = xp.full_like(rows, -1, dtype=xp.int32)
    else:
        taken = (seeds[..., None] == xp.arange(m)).any(-2)
        rows, cols = rows & (seeds < 0), cols & ~taken
    free = xp.minimum(rows.sum(-1), cols.sum(-1))
    count = free + (seeds >= 0).sum(-1)
    rows, cols, seeds = (x[..., None, :] for x in (rows, cols, seeds))
    return Sides(rows, cols, seeds, count[..., None])


def pairs_as_matrix(
    col4row: Int[Array, "... n"], m: int, dtype: np.dtype
) -> Float[Array, "... n m"]:
    return (col4row[..., None] == module_of(col4row).arange(m)).astype(dtype)


def first_points(
    problem: QuadraticProblem, sides: Sides, solve: Callable[..., Assignment]
) -> Float[Array, "... s n m"]:
    """One point for each start. Known pairs have their 1, rows and columns of theirs nothing else.

    Of those that are drawn, every other one is halfway between the barycentre and a random doubly
    stochastic matrix, as scipy has it, and all others halfway to a random permutation.
    """
    xp, m = module_of(problem.a), problem.cols.shape[-1]
    dtype = problem.a.dtype
    free = sides.rows[..., :, None] & sides.cols[..., None, :]
    if problem.starts is not None:
        whole = xp is np and free.all()
        points = problem.starts if whole else xp.where(free, problem.starts, 0)
    else:
        longer = xp.maximum(sides.rows.sum(-1), sides.cols.sum(-1))[..., None, None]
        flat = xp.where(free, (1 / xp.maximum(longer, 1)).astype(dtype), 0).astype(dtype)
        points = flat
        if (draws := problem.draws) is not None:
            of_sums = _doubly_stochastic(xp.where(free, draws.astype(dtype), 0), sides)
            chosen = of_sums
            if draws.shape[-3] > 1:
                masks = [x.repeat(draws.shape[-3], -2) for x in (sides.rows, sides.cols)]
                pairs = solve(AssignmentProblem(draws.astype(dtype), *masks)).col4row
                other = (xp.arange(draws.shape[-3]) % 2 == 1)[:, None, None]
                chosen = xp.where(other, pairs_as_matrix(pairs, m, dtype), of_sums)
            points = xp.concatenate([flat, ((flat + chosen) / 2).astype(dtype)], -3)
    if problem.seeds is None:
        return points
    return points + pairs_as_matrix(sides.seeds, m, dtype)


def _doubly_stochastic(x: Float[Array, "... s n m"], sides: Sides) -> Float[Array, "... s n m"]:
    """Sums of 1 on the shorter side, and equal sums on the other."""
    xp = module_of(x)
    rows, cols = (z.sum(-1)[..., None, None] for z in (sides.rows, sides.cols))
    shorter = xp.minimum(rows, cols)
    for _ in range(_ROUNDS):
        for axis, count in ((-1, rows), (-2, cols)):
            total = x.sum(axis, keepdims=True)
            share = (shorter / xp.maximum(count, 1)).astype(x.dtype)
            x = x * xp.where(total > 0, share / xp.where(total > 0, total, 1), 0)
    return x
