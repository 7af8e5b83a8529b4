"""Frank-Wolfe from many starts of many problems at once, in one loop.

FAQ (Vogelstein et al., PLoS ONE, 2015): each step goes towards the permutation with the least
product with the gradient, as far as a parabola says. At the end, the permutation nearest to the
point. The gradient is linear, so that it moves with the point: a step takes a product of a matrix
with rows of another (two products if neither is symmetric). Starts that are done have no rows left,
which takes no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._quadratic.objective import Objective, along, gradient_at, gradient_of
from jaxmatch._quadratic.starts import Sides, pairs_as_matrix


Solver = Callable[..., Assignment]


class Walk(NamedTuple):
    """Where each start has come to."""

    point: Float[Array, "... s n m"]
    gradient: Float[Array, "... s n m"]  # of the quadratic part
    value: Float[Array, "... s"]  # of the quadratic part
    norm: Float[Array, "... s"]  # squared, of `point`
    col_dual: Float[Array, "... s m"]
    walks: Bool[Array, "... s"]
    steps: Int[Array, "... s"]


def frank_wolfe(
    f: Objective,
    points: Float[Array, "... s n m"],
    sides: Sides,
    steps: int,
    tolerance: float,
    solve: Solver,
) -> tuple[Int[Array, "... s n"], Int[Array, "... s"]]:
    """The permutation in which each start ends, and the number of its steps."""
    xp = module_of(points)
    *lead, _, m = points.shape
    gradient = gradient_of(f, points)
    walk = Walk(
        points,
        gradient,
        (gradient * points).sum((-2, -1)) / 2,
        (points**2).sum((-2, -1)),
        xp.zeros((*lead, m), result_float()),
        xp.broadcast_to(sides.count > 0, tuple(lead)),
        xp.zeros(tuple(lead), xp.int32),
    )
    if xp is jnp:
        walk = vary_alike(walk, (walk, f, sides))
    else:
        walk = walk._replace(point=walk.point.copy())  # steps on the host write into it

    def step(walk: Walk) -> Walk:
        return _step(f, walk, sides, tolerance, solve)

    if xp is np:
        end = on_host(step, walk, steps)
    else:
        goes = lambda w: (w.walks & (w.steps < steps)).any()  # noqa: E731
        end = lax.while_loop(goes, step, walk)
    found = solve(_free(end.point, sides), maximize=True)
    return _with_seeds(found.col4row, sides), end.steps


def on_host(step: Callable[[Any], Any], walk: Any, steps: int) -> Any:
    """The state after at most so many steps. Starts that are done are put aside, so cost no time.

    The state is a named tuple of arrays with the dimensions of `walks`, the last of which counts
    the starts.
    """
    rank, count = walk.walks.ndim - 1, walk.walks.shape[-1]
    end, left = type(walk)(*(np.empty_like(x) for x in walk)), np.arange(count)
    whole = [slice(None)] * rank
    for k in range(steps + 1):
        alive = walk.walks.reshape(-1, len(left)).any(0) & (k < steps)
        if alive.sum() <= len(left) * 3 // 4:
            for x, own in zip(end, walk, strict=True):
                x[(*whole, left[~alive])] = own[(*whole, ~alive)]
            walk = type(walk)(*(x[(*whole, alive)] for x in walk))
            left = left[alive]
        if not len(left):
            break
        walk = step(walk)
    return end


def _free(cost: Array, sides: Sides, walks: Array | None = None) -> AssignmentProblem:
    xp, (*lead, n, m) = module_of(cost), cost.shape
    rows = sides.rows if walks is None else sides.rows & walks[..., None]
    return AssignmentProblem(
        cost, xp.broadcast_to(rows, (*lead, n)), xp.broadcast_to(sides.cols, (*lead, m))
    )


def _with_seeds(col4row: Int[Array, "... s n"], sides: Sides) -> Int[Array, "... s n"]:
    return module_of(col4row).where(sides.rows & (col4row >= 0), col4row, sides.seeds)


def _step(f: Objective, walk: Walk, sides: Sides, tolerance: float, solve: Solver) -> Walk:
    xp, dtype = module_of(walk.point), walk.point.dtype
    linear = None if f.linear is None else f.linear[..., None, :, :]
    whole = walk.gradient if linear is None else walk.gradient + linear
    problem = _free(whole, sides, walk.walks)._replace(col_dual=walk.col_dual)
    towards = solve(problem)
    q = _with_seeds(towards.col4row, sides)
    goes = walk.walks & (towards.status == Status.OPTIMAL)
    gradient = gradient_at(f, q)

    # On the way from P to Q the value is f(P) + slope t + bend t².
    across = along(walk.gradient, q)
    slope = across - 2 * walk.value
    if linear is not None:
        own = (linear * walk.point).sum((-2, -1))
        slope = slope + along(xp.broadcast_to(linear, walk.point.shape), q) - own
    bend = along(gradient, q) / 2 - across + walk.value
    curved = bend > 0
    t = xp.where(curved, xp.clip(-slope / xp.where(curved, 2 * bend, 1), 0, 1), 1)
    t = xp.where(goes, t, 0).astype(dtype)

    product = along(walk.point, q)
    far = xp.maximum(walk.norm - 2 * product + sides.count, 0)
    moved = t * xp.sqrt(far / xp.maximum(sides.count, 1))
    return Walk(
        _towards(walk.point, q, t),
        between(walk.gradient, gradient, t),
        walk.value + (across - 2 * walk.value + bend * t) * t,
        ((1 - t) ** 2 * walk.norm + 2 * t * (1 - t) * product + t**2 * sides.count).astype(dtype),
        xp.where(goes[..., None], towards.col_dual, walk.col_dual),
        goes & (moved >= tolerance),
        walk.steps + goes,
    )


def between(x: Array, y: Array, t: Float[Array, "... s"]) -> Array:
    """(1 - t) x + t y. On the host in the memory of x."""
    part = t[..., None, None]
    if module_of(x) is np:
        x *= 1 - part
        y *= part
        x += y
        return x
    return (1 - part) * x + part * y


def _towards(x: Any, q: Int[Array, "... s n"], t: Float[Array, "... s"]) -> Array:
    """The same for the matrix of a permutation."""
    part = t[..., None, None]
    if module_of(x) is np:
        x *= 1 - part
        index = np.maximum(q, 0)[..., None]
        own = np.take_along_axis(x, index, -1) + np.where(q[..., None] < 0, 0, part)
        np.put_along_axis(x, index, own, -1)
        return x
    return (1 - part) * x + part * pairs_as_matrix(q, x.shape[-1], x.dtype)
