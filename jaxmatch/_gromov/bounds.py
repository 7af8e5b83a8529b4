"""Lower bounds of Gromov-Wasserstein problems (Mémoli, 2011): of eccentricities, distances, rows.

All of them couple numbers on a line in order, which is optimal for losses whose mixed derivative is
not positive. They need no property of a metric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of
from jaxmatch._common.result import Transport
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, Float
from jaxmatch._gromov.problem import LOSSES, GromovProblem
from jaxmatch._transport.problem import TransportProblem


BOUNDS = ("first", "second", "third")


def best_bound(
    problem: GromovProblem,
    names: tuple[str, ...],
    loss: str,
    solve: Callable[[TransportProblem], Transport],
    uniform: bool,
) -> Float[Array, "..."]:
    """The greatest of the named bounds; 0 or more for `"square"`."""
    xp = module_of(problem.c1)
    own = [xp.zeros_like(problem.p[..., 0]) + (0 if loss == "square" else -np.inf)]
    if "first" in names and loss == "square":
        own.append(_first(problem))
    if "second" in names:
        own.append(_second(problem, loss, uniform))
    rows = _costs_of_rows(problem, loss) if "third" in names else None
    if problem.alpha is None:
        if rows is not None:
            own.append(_transported(problem, rows, solve))
        return _most(own)
    assert problem.feature_cost is not None
    features = (1 - problem.alpha)[..., None, None] * problem.feature_cost
    found = [_transported(problem, features, solve) + problem.alpha * _most(own)]
    if rows is not None:
        found.append(_transported(problem, features + problem.alpha[..., None, None] * rows, solve))
    return _most(found)


def _most(bounds: list[Any]) -> Any:
    found = bounds[0]
    for x in bounds[1:]:
        found = module_of(x).maximum(found, x)
    return found


def _transported(
    problem: GromovProblem, cost: Array, solve: Callable[[TransportProblem], Transport]
) -> Float[Array, "..."]:
    res = solve(TransportProblem(cost, problem.p, problem.q))
    return (res.cost - res.gap).astype(cost.dtype)


def _first(problem: GromovProblem) -> Float[Array, "..."]:
    """By the triangle inequality in L², row i to row j costs (|row i| − |row j|)² at least."""
    xp = module_of(problem.c1)
    x, y = (
        xp.sqrt((c * c * mass[..., None, :]).sum(-1))
        for c, mass in ((problem.c1, problem.p), (problem.c2, problem.q))
    )
    return in_order(x, problem.p, y, problem.q, LOSSES["square"])


def _second(problem: GromovProblem, loss: str, uniform: bool) -> Float[Array, "..."]:
    """A coupling of points is one of all distances."""
    xp = module_of(problem.c1)
    sides: list[Any] = []
    if uniform:  # a mean of numbers in order
        x, y = (
            xp.sort(c.reshape(*c.shape[:-2], c.shape[-1] ** 2), axis=-1)
            for c in (problem.c1, problem.c2)
        )
        return LOSSES[loss](x, y).mean(-1)
    for c, mass in ((problem.c1, problem.p), (problem.c2, problem.q)):
        weight = mass[..., :, None] * mass[..., None, :]
        sides += [x.reshape(*x.shape[:-2], x.shape[-1] ** 2) for x in (c, weight)]
    x, a, y, b = sides
    return in_order(x, a, y, b, LOSSES[loss])


def _costs_of_rows(problem: GromovProblem, loss: str) -> Float[Array, "... n m"]:
    """What row i to row j costs at least: their numbers coupled in order."""
    xp, c2, q = module_of(problem.c1), problem.c2, problem.q[..., None, :]

    def of_row(x: Array) -> Array:  # [..., n], one row of each problem
        x, weight = x[..., None, :], problem.p[..., None, :]
        return in_order(x, weight, c2, q, LOSSES[loss])

    rows = xp.moveaxis(problem.c1, -2, 0)
    found = np.stack([of_row(x) for x in rows]) if xp is np else lax.map(of_row, rows)
    return xp.moveaxis(found, 0, -2)


def in_order(x: Array, a: Array, y: Array, b: Array, loss: Any) -> Float[Array, "..."]:
    """The integral of L over masses coupled in the order of numbers. Batches broadcast."""
    xp = module_of(x)
    shape = broadcast_shapes(x.shape[:-1], y.shape[:-1])
    (x, x_level), (y, y_level) = (
        tuple(xp.broadcast_to(z, (*shape, z.shape[-1])) for z in _steps(*side))
        for side in ((x, a), (y, b))
    )
    n, m = x.shape[-1], y.shape[-1]
    level = xp.concatenate([x_level, y_level], -1)
    order = xp.argsort(level, axis=-1, stable=True)
    level = xp.take_along_axis(level, order, -1)
    width = xp.diff(level, axis=-1, prepend=xp.zeros_like(level[..., :1]))
    of_x = order < n
    before = xp.cumsum(of_x, -1) - of_x
    at_x = xp.minimum(before, n - 1)
    at_y = xp.minimum(xp.arange(n + m) - before, m - 1)
    own = loss(xp.take_along_axis(x, at_x, -1), xp.take_along_axis(y, at_y, -1))
    return xp.where(width > 0, width * own, 0).sum(-1)


def _steps(x: Array, weight: Array) -> tuple[Array, Array]:
    """Numbers in order, and the masses up to each."""
    xp = module_of(x)
    order = xp.argsort(x, axis=-1)
    weight = xp.broadcast_to(weight, x.shape)
    x, weight = (xp.take_along_axis(z, order, -1) for z in (x, weight))
    return x, xp.cumsum(weight, -1)
