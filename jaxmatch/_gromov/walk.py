"""Conditional gradient for Gromov-Wasserstein problems, from many starts at once, in one loop.

Over plans with given sums, the objective is a constant plus f(T) = <A, T B T'> + <M, T> (Peyré,
Cuturi and Solomon, 2016), where A is -h1(C1) and B is h2(C2). So the loop is that of quadratic
assignment, with an exact transport in place of the assignment. Each step goes as far as a parabola
says, and the gradient, which is linear, moves with the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import either, module_of
from jaxmatch._common.result import Transport, result_float
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._quadratic.frank_wolfe import between, on_host
from jaxmatch._quadratic.objective import Objective, chosen_rows, gradient_of, product
from jaxmatch._transport.problem import TransportProblem


class Walk(NamedTuple):
    """Where each start has come to."""

    plan: Float[Array, "... s n m"]
    gradient: Float[Array, "... s n m"]  # of the quadratic part
    value: Float[Array, "... s"]  # of the quadratic part
    gap: Float[Array, "... s"]
    col_dual: Float[Array, "... s m"]
    walks: Bool[Array, "... s"]
    steps: Int[Array, "... s"]
    status: Int[Array, "... s"]


def walk_down(
    f: Objective,
    plans: Float[Array, "... s n m"],
    gradient: Float[Array, "... s n m"],
    p: Float[Array, "... n"],
    q: Float[Array, "... m"],
    enough: Float[Array, "..."],
    steps: int,
    solve: Callable[[TransportProblem], Transport],
) -> Walk:
    """Walks until the gap is at most `enough`, for at most so many steps. On the host, it writes
    into plans and gradients.
    """
    xp = module_of(plans)
    *lead, _, m = plans.shape
    zero = xp.zeros(tuple(lead), plans.dtype)
    walk = Walk(
        plans,
        gradient,
        (gradient * plans).sum((-2, -1)) / 2,
        zero + np.inf,
        xp.zeros((*lead, m), result_float()),
        zero == 0,
        zero.astype(np.int32),
        zero.astype(np.int32),
    )

    def step(walk: Walk) -> Walk:
        return _step(f, walk, p, q, enough, steps, solve)

    if xp is np:
        return on_host(step, walk, steps + 1)
    walk = vary_alike(walk, (walk, f, p, q))
    return lax.while_loop(lambda w: w.walks.any(), step, walk)


def _step(
    f: Objective,
    walk: Walk,
    p: Array,
    q: Array,
    enough: Array,
    steps: int,
    solve: Callable[[TransportProblem], Transport],
) -> Walk:
    xp, dtype = module_of(walk.plan), walk.plan.dtype
    linear = None if f.linear is None else f.linear[..., None, :, :]
    whole = walk.gradient if linear is None else walk.gradient + linear
    alive = walk.walks[..., None]
    supply, demand = (xp.where(alive, x[..., None, :], 0) for x in (p, q))
    towards = solve(TransportProblem(whole, supply, demand, col_dual=walk.col_dual))
    gap = (whole * walk.plan).sum((-2, -1)) - along(whole, towards)
    solved = towards.status == Status.OPTIMAL
    goes = walk.walks & solved & (gap > enough[..., None]) & (walk.steps < steps)
    ended = walk._replace(
        gap=xp.where(walk.walks, gap, walk.gap).astype(dtype),
        walks=goes,
        status=xp.where(walk.walks, towards.status, walk.status),
    )
    if xp is np and not goes.any():
        return ended
    gradient = _gradient_at(f, towards)

    # On the way from T to S the value is f(T) + slope t + bend t².
    across = along(walk.gradient, towards)
    bend = along(gradient, towards) / 2 - across + walk.value
    curved = bend > 0
    t = xp.where(curved, xp.clip(gap / xp.where(curved, 2 * bend, 1), 0, 1), 1)
    t = xp.where(goes, t, 0).astype(dtype)
    return ended._replace(
        plan=between(walk.plan, towards.todense().astype(dtype), t),
        gradient=between(walk.gradient, gradient, t),
        value=(walk.value + (across - 2 * walk.value + bend * t) * t).astype(dtype),
        col_dual=xp.where(goes[..., None], towards.col_dual, walk.col_dual),
        steps=walk.steps + goes,
    )


def along(x: Float[Array, "... n m"], plan: Transport) -> Float[Array, "..."]:
    """<X, S> for a plan S."""
    xp, m = module_of(x), x.shape[-1]
    flat = x.reshape(*x.shape[:-2], x.shape[-2] * m)
    at = xp.maximum(plan.rows * m + plan.cols, 0)
    return (xp.take_along_axis(flat, at, -1) * plan.mass).sum(-1)


def gradient_of_product(f: Objective, p: Array, q: Array) -> Float[Array, "... 1 n m"]:
    """Of the quadratic part, at the product of two vectors."""

    def term(k: int) -> Array:
        row = product(f.left[k], p[..., None])
        col = product(f.right[k].swapaxes(-1, -2), q[..., None])
        return row * col.swapaxes(-1, -2)

    return either(f.two, lambda: term(0) + term(1), lambda: term(0))[..., None, :, :]


def _gradient_at(f: Objective, plan: Transport) -> Float[Array, "... s n m"]:
    """Of the quadratic part, at a plan."""
    if module_of(plan.rows) is jnp:
        return gradient_of(f, plan.todense().astype(f.right[0].dtype))

    def term(k: int) -> Array:
        return product(f.left[k][..., None, :, :], _rows_of(plan, f.right[k], f.left[k]))

    return either(f.two, lambda: term(0) + term(1), lambda: term(0))


def _rows_of(plan: Any, right: Any, left: Any) -> Any:
    """On the host: the plan times `right`, by the few entries of the plan, which are in order."""
    (*lead, _), n, m = plan.rows.shape, left.shape[-1], right.shape[-1]
    count = int(np.prod(lead))
    if plan.rows.shape[-1] == n == m and (plan.rows == np.arange(n)).all():
        return chosen_rows(right, plan.cols) * plan.mass[..., None]  # a permutation
    each = np.arange(count).reshape(*lead, 1)
    unused = plan.rows < 0
    row = (np.where(unused, n - 1, plan.rows) + each * n).reshape(-1)
    of_problem = each // lead[-1] * m
    terms = right.reshape(-1, m)[(np.maximum(plan.cols, 0) + of_problem).reshape(-1)]
    terms *= np.where(unused, 0, plan.mass).reshape(-1, 1)
    first = np.searchsorted(row, np.arange(count * n + 1))
    empty = first[1:] == first[:-1]
    found = np.add.reduceat(terms, np.minimum(first[:-1], len(terms) - 1), axis=0)
    found[empty] = 0
    return found.reshape(*lead, n, m)
