"""Frank-Wolfe for the quadratic assignment problem, and 2-exchanges, from many starts at once.

To minimise over permutations q of n objects: the sum of a_ij b_(q_i q_j). With the permutation
matrix Q of q it is f(Q) = <A, Q B Q'>, which makes sense for doubly stochastic matrices too. Its
gradient A P B' + A' P B is linear in P, so that f(P) is half of <gradient, P>.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key

TOLERANCE = 0.03  # a start is done when a step moves it less, in root mean square over rows


class Problem(NamedTuple):
    """The gradient of P is the sum of left_k P right_k; `spread` serves 2-exchanges."""

    left: Float[Array, "k n n"]
    right: Float[Array, "k n n"]
    spread_a: Float[Array, "n n"]
    spread_b: Float[Array, "n n"]


def as_problem(a: np.ndarray, b: np.ndarray) -> Problem:
    """With float32 matrices, divided by powers of two, so that integers stay what they are."""
    a, b = (np.ldexp(x, -int(np.frexp(np.abs(x).max())[1])) for x in (a.astype(float), b))
    if (a == a.T).all() or (b == b.T).all():
        # If one is symmetric, only the symmetric part of the other counts: one product, not two.
        a, b = (a + a.T) / 2, (b + b.T) / 2
        left, right = [2 * a], [b]
    else:
        left, right = [a, a.T], [b.T, b]

    def spread(x: np.ndarray) -> np.ndarray:
        return np.diag(x)[:, None] + np.diag(x) - x - x.T

    arrays = (np.stack(left), np.stack(right), spread(a), spread(b))
    return Problem(*(jnp.asarray(x, jnp.float32) for x in arrays))


def values(a: np.ndarray, b: np.ndarray, col4row: np.ndarray) -> np.ndarray:
    """The objective of each permutation, by integers if the matrices are of integers."""
    return np.array([(a * b[np.ix_(q, q)]).sum() for q in np.asarray(col4row)])


@partial(jax.jit, static_argnames=("count", "n"))
def random_starts(key: Key[Array, ""], count: int, n: int) -> Float[Array, "s n n"]:
    """Halfway between the barycentre and random doubly stochastic matrices, as scipy has it."""

    def normalise(_: Array, x: Array) -> Array:
        x = x / x.sum(-1, keepdims=True)
        return x / x.sum(-2, keepdims=True)

    x = lax.fori_loop(0, 20, normalise, jax.random.uniform(key, (count, n, n)))
    return (x + 1 / n) / 2


# ---------------------------------------------------------------------------------------------
# Frank-Wolfe


class Walk(NamedTuple):
    """Where each start has come to."""

    point: Float[Array, "s n n"]
    gradient: Float[Array, "s n n"]
    value: Float[Array, " s"]
    norm: Float[Array, " s"]  # squared, of `point`
    col_dual: Float[Array, "s n"]
    walks: Bool[Array, " s"]
    steps: Int[Array, " s"]


@partial(jax.jit, static_argnames="steps")
def frank_wolfe(
    problem: Problem, starts: Float[Array, "s n n"], steps: int
) -> tuple[Int[Array, "s n"], Int[Array, " s"]]:
    """The permutation that each start ends in, and its number of steps.

    FAQ (Vogelstein et al., *Fast approximate quadratic programming for graph matching*, PLOS ONE,
    2015): each step goes towards the permutation with the least product with the gradient, as far
    as a parabola says. At the end, the permutation nearest to the point.
    """
    count, n, _ = starts.shape
    gradient = sum(_product(_product(x, starts), y) for x, y in _terms(problem))
    walk = Walk(
        starts,
        gradient,
        (gradient * starts).sum((-2, -1)) / 2,
        (starts**2).sum((-2, -1)),
        jnp.zeros((count, n)),
        jnp.ones(count, bool),
        jnp.zeros(count, jnp.int32),
    )

    def step(walk: Walk, _: None) -> tuple[Walk, None]:
        return lax.cond(walk.walks.any(), partial(_step, problem), lambda walk: walk, walk), None

    walk, _ = lax.scan(step, walk, length=steps)
    return jm.solve_assignment(walk.point, maximize=True).col4row, walk.steps


def _step(problem: Problem, walk: Walk) -> Walk:
    # All starts in one call. Those that are done are masked, and cost no time.
    towards = jm.solve_assignment(
        walk.gradient, row_mask=walk.walks[:, None], warm_start=walk.col_dual
    )
    q = jnp.maximum(towards.col4row, 0)
    gradient = _gradient_at(problem, jnp.maximum(towards.row4col, 0))

    # On the way from P to Q the value is f(P) + slope t + bend t².
    across = _along(walk.gradient, q)
    slope = across - 2 * walk.value
    bend = _along(gradient, q) / 2 - across + walk.value
    t = jnp.where(bend > 0, jnp.clip(-slope / jnp.where(bend > 0, 2 * bend, 1), 0, 1), 1)
    t = jnp.where(walk.walks, t, 0)

    n = q.shape[-1]
    product = _along(walk.point, q)
    moved = t * jnp.sqrt(jnp.maximum(walk.norm - 2 * product + n, 0) / n)
    part = t[:, None, None]
    at_q = q[..., None] == jnp.arange(n)
    return Walk(
        (1 - part) * walk.point + jnp.where(at_q, part, 0),
        (1 - part) * walk.gradient + part * gradient,
        walk.value + (slope + bend * t) * t,
        (1 - t) ** 2 * walk.norm + 2 * t * (1 - t) * product + t**2 * n,
        towards.col_dual,
        walk.walks & (moved >= TOLERANCE),
        walk.steps + walk.walks,
    )


def _gradient_at(problem: Problem, row4col: Int[Array, "s n"]) -> Float[Array, "s n n"]:
    """Of permutations: left Q takes its columns from `left`, so one product is left."""

    def of_term(left: Array, right: Array) -> Array:
        return _product(jax.vmap(lambda at: left[:, at])(row4col), right)

    return sum(of_term(x, y) for x, y in _terms(problem))  # type: ignore[return-value]


def _terms(problem: Problem) -> list[tuple[Array, Array]]:
    return list(zip(problem.left, problem.right, strict=True))


def _product(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision="highest")  # float32 on a GPU as well


def _along(x: Float[Array, "s n n"], q: Int[Array, "s n"]) -> Float[Array, " s"]:
    """<X, Q>."""
    return jnp.take_along_axis(x, q[..., None], -1).sum((-2, -1))


# ---------------------------------------------------------------------------------------------
# 2-exchanges


@jax.jit
def exchange(problem: Problem, col4row: Int[Array, "s n"]) -> Int[Array, "s n"]:
    """Exchanges the best pair of each permutation, until no exchange lowers its value.

    To exchange rows r and s adds `-w w'Q` to Q, where w is e_r - e_s. So the value changes by
    (w'Aw)(w'QBQ'w) - w'GQ'w, where G is the gradient at Q, and G by a matrix of rank 1 for each
    term.
    """
    count, n = col4row.shape
    gradient = _gradient_at(problem, jnp.argsort(col4row))
    enough = 1e-6 * jnp.abs(gradient).max()  # more than rounding

    def changes(q: Array, gradient: Array) -> Array:
        at_pairs = gradient[:, q]
        own = jnp.diagonal(at_pairs)
        of_pairs = problem.spread_a * problem.spread_b[q][:, q]
        return of_pairs - (own[:, None] + own - at_pairs - at_pairs.T)

    def best(q: Array, gradient: Array) -> tuple[Array, Array, Array]:
        change = changes(q, gradient).ravel()
        r, s = jnp.divmod(change.argmin(), n)
        lower = change.min() < -enough
        moved = sum(jnp.outer(x[:, r] - x[:, s], y[q[r]] - y[q[s]]) for x, y in _terms(problem))
        exchanged = q.at[r].set(q[s]).at[s].set(q[r])
        return jnp.where(lower, exchanged, q), gradient - jnp.where(lower, moved, 0), lower

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        q, gradient, _, k = state
        return *jax.vmap(best)(q, gradient), k + 1

    def goes_on(state: tuple[Array, ...]) -> Array:
        return state[2].any() & (state[3] < 100 * n)

    state = (col4row, gradient, jnp.ones(count, bool), 0)
    return lax.while_loop(goes_on, step, state)[0]
