"""Lower bounds on the value of an alignment, from what no motion changes."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp

from jaxmatch._alignment.problem import AlignmentProblem
from jaxmatch._common.typing import Array, Float


def lower_bound(
    problem: AlignmentProblem,
    least: Callable[[Float[Array, "... n m"]], Float[Array, "..."]],
    motion: str | None,
) -> Float[Array, "..."]:
    """The better of two bounds. `least`: the least sum of costs of an assignment of all rows.

    - *Distances to the centre.* A motion that keeps the centre keeps these, and |R x − y| is at
      least their difference.
    - *Distances to the others* (the third bound of Mémoli, Found. Comput. Math. 11, 2011). With
      δ_i the error of pair i and W the sum of weights, the sum of w_i w_k |δ_i − δ_k|² over all i
      and k is at most 2 W times the value. |δ_i − δ_k| is at least the difference of the distances
      d(x_i, x_k) and d(y_σ(i), y_σ(k)). Row i of the one matrix of distances is assigned to a row
      of the other, each at the least cost of assigning their entries.
    """
    bound = least(_of_signatures(problem))
    full = problem.x_mask.sum(-1) == problem.y_mask.sum(-1)
    even = is_even(problem)
    if problem.cell is not None:
        return bound
    if motion == "rotation":
        return jnp.maximum(bound, least(_of_radii(problem, 0.0, 0.0)))
    # The centre of all of y is that of the partners of x, if they are all of y.
    centres = [
        (mask[..., None] * p).sum(-2, keepdims=True) / jnp.maximum(mask.sum(-1), 1)[..., None, None]
        for p, mask in ((problem.x, problem.x_mask), (problem.y, problem.y_mask))
    ]
    of_centres = jnp.where(full & even, least(_of_radii(problem, *centres)), 0)
    return jnp.maximum(bound, of_centres)


def is_even(problem: AlignmentProblem) -> Array:
    """Whether all weights are the same."""
    most = problem.weight.max(-1)
    least = jnp.where(problem.x_mask, problem.weight, jnp.inf).min(-1)
    return most == least


def _kinds_apart(problem: AlignmentProblem, cost: Array) -> Array:
    if problem.x_kind is None or problem.y_kind is None:
        return cost
    same = problem.x_kind[..., :, None] == problem.y_kind[..., None, :]
    return jnp.where(same, cost, jnp.inf)


def _of_radii(problem: AlignmentProblem, x_centre: Array | float, y_centre: Array | float) -> Array:
    x = jnp.linalg.norm(problem.x - x_centre, axis=-1)
    y = jnp.linalg.norm(problem.y - y_centre, axis=-1)
    cost = problem.weight[..., :, None] * (x[..., :, None] - y[..., None, :]) ** 2
    return _kinds_apart(problem, cost)


def _of_signatures(problem: AlignmentProblem) -> Float[Array, "... n m"]:
    """For each point of x and of y, a lower bound on what this pair adds to the second bound.

    The least weight of the others counts for all of them, so that entries keep their order.
    """
    x, y = (_distances(problem, p, m) for p, m in _sides(problem))
    weight = problem.weight
    least = jnp.where(problem.x_mask, weight, jnp.inf).min(-1)[..., None, None]
    total = weight.sum(-1)[..., None, None]
    pairs = weight[..., :, None] * least * _apart(x, y, problem) / (2 * jnp.maximum(total, least))
    return _kinds_apart(problem, pairs)


def _sides(problem: AlignmentProblem) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    return (problem.x, problem.x_mask), (problem.y, problem.y_mask)


def _distances(problem: AlignmentProblem, points: Array, mask: Array) -> Array:
    """Distances within one side, sorted along the last axis; those to padding are +inf."""
    away = problem.apart(points[..., :, None, :], points[..., None, :, :])
    far = jnp.linalg.norm(away, axis=-1)
    return jnp.sort(jnp.where(mask[..., None, :], far, jnp.inf), axis=-1)


def _apart(x: Array, y: Array, problem: AlignmentProblem) -> Float[Array, "... n m"]:
    """A lower bound on the least cost of assigning the entries of each row of x to one of y.

    Rows are sorted, so that some cheapest assignment keeps their order: it gives entry k of x one
    of the entries from k to k + c of y, where y has c more than x.
    """
    n, m = x.shape[-1], y.shape[-1]
    count = problem.x_mask.sum(-1, dtype=jnp.int32)
    more = problem.y_mask.sum(-1, dtype=jnp.int32) - count
    k = jnp.arange(n, dtype=jnp.int32)
    exists = k < count[..., None]
    last = jnp.clip(k + more[..., None], 0, m - 1)
    high = jnp.take_along_axis(y, last[..., None, :], axis=-1)
    low, high, x = (jnp.where(exists[..., None, :], z, 0) for z in (y[..., :n], high, x))
    x, low, high = x[..., :, None, :], low[..., None, :, :], high[..., None, :, :]
    off = jnp.maximum(0, jnp.maximum(low - x, x - high))
    sums = (off * off).sum(-1)
    return jnp.where((more >= 0)[..., None, None], sums, 0)
