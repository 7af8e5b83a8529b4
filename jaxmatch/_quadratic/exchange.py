"""2-exchanges: the columns of two rows change places as long as that lowers the value."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.proof import module_of, repeat
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._quadratic.objective import chosen_rows, gradient_at, objective_of
from jaxmatch._quadratic.problem import QuadraticProblem
from jaxmatch._quadratic.starts import Sides


_MOST_TURNS = 100  # for each row


def exchange(
    problem: QuadraticProblem, col4row: Int[Array, "... s n"], sides: Sides
) -> Int[Array, "... s n"]:
    """Makes the best exchange of each start, until no exchange lowers its value.

    Rows and columns of the shorter side are added until both sides have k, which cost nothing. So a
    row may also move to a column that is unmatched.

    To exchange rows r and s adds `-w w'Q` to Q, where w is e_r - e_s. So the value changes by
    (w'Aw)(w'QBQ'w) - w'GQ'w, where G is the gradient at Q, and G by a matrix of rank 1 for each of
    its terms.
    """
    xp, n = module_of(problem.a), problem.rows.shape[-1]
    m = problem.cols.shape[-1]
    k = max(n, m)
    if k < 2:
        return col4row
    a, b, linear = (_padded(x, k) for x in (problem.a, problem.b, problem.linear))
    f = objective_of(a, b, linear)
    q = _completed(col4row, k)
    row_exists, col_exists = (
        xp.concatenate([x, xp.zeros((*x.shape[:-1], k - x.shape[-1]), bool)], -1)
        for x in (problem.rows, problem.cols)
    )
    known = (sides.seeds >= 0)[..., 0, :]
    known = xp.concatenate([known, xp.zeros((*known.shape[:-1], k - n), bool)], -1)
    of_a, of_b = _spread(a)[..., None, :, :], _spread(b)
    gradient = gradient_at(f, q)
    whole = gradient if linear is None else gradient + linear[..., None, :, :]
    enough = 64 * np.finfo(a.dtype).eps * xp.abs(whole).max((-2, -1))  # more than rounding

    # An exchange must not unmatch a pair: rows that exist change with rows that do not only if
    # both columns exist, or neither.
    differ = row_exists[..., :, None] != row_exists[..., None, :]
    fixed = known[..., :, None] | known[..., None, :]

    def turn(state: tuple[Any, ...]) -> tuple[Any, ...]:
        q, whole, _, count = state
        at_pairs = _columns(whole, q)
        own = xp.diagonal(at_pairs, axis1=-2, axis2=-1)
        change = of_a * _columns(chosen_rows(of_b, q), q)
        change = change - (own[..., :, None] + own[..., None, :] - at_pairs - _turned(at_pairs))
        there = _entries(col_exists, q)
        no = fixed[..., None, :, :] | (
            differ[..., None, :, :] & (there[..., :, None] != there[..., None, :])
        )
        change = xp.where(no, xp.inf, change).reshape(*q.shape[:-1], k * k)
        best = change.argmin(-1)
        r, s = best // k, best % k
        lower = xp.take_along_axis(change, best[..., None], -1)[..., 0] < -enough
        moved = sum(
            _difference(x.swapaxes(-1, -2), r, s)[..., :, None]
            * _difference(y, _entry(q, r), _entry(q, s))[..., None, :]
            for x, y in zip(f.left, f.right, strict=True)
        )
        place, (at_r, at_s) = xp.arange(k), (z[..., None] for z in (r, s))
        swapped = xp.where(place == at_r, at_s, xp.where(place == at_s, at_r, place))
        swapped = xp.where(lower[..., None], swapped, place)
        q = xp.take_along_axis(q, swapped, -1)
        return q, whole - xp.where(lower[..., None, None], moved, 0), lower, count + 1

    goes: Bool[Array, ...] = xp.ones(q.shape[:-1], bool)
    state = (q, whole, goes, xp.asarray(0, jnp.int32))
    if xp is jnp:
        state = vary_alike(state, (problem, state, sides))
    q = repeat(lambda x: x[2].any() & (x[3] < _MOST_TURNS * k), turn, state, xp)[0][..., :n]
    matched = problem.rows[..., None, :] & _entries(col_exists, q)
    return xp.where(matched, q, -1)


def _padded(x: Array | None, k: int) -> Any:
    if x is None:
        return None
    sizes = [(0, 0)] * (x.ndim - 2) + [(0, k - x.shape[-2]), (0, k - x.shape[-1])]
    return module_of(x).pad(x, sizes)


def _completed(col4row: Int[Array, "... n"], k: int) -> Int[Array, "... k"]:
    """A permutation of k: rows without a column take those that are left, in order."""
    xp = module_of(col4row)
    none = xp.full((*col4row.shape[:-1], k - col4row.shape[-1]), -1, xp.int32)
    q = xp.concatenate([col4row, none], -1)
    taken = (q[..., None] == xp.arange(k)).any(-2)
    left = xp.argsort(taken, axis=-1, stable=True)
    alone = q < 0
    rank = xp.maximum(xp.cumsum(alone, -1) - 1, 0)
    return xp.where(alone, xp.take_along_axis(left, rank, -1), q).astype(xp.int32)


def _spread(x: Float[Array, "... k k"]) -> Float[Array, "... k k"]:
    own = module_of(x).diagonal(x, axis1=-2, axis2=-1)
    return own[..., :, None] + own[..., None, :] - x - x.swapaxes(-1, -2)


def _turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


def _columns(x: Float[Array, "... s k k"], q: Int[Array, "... s k"]) -> Float[Array, "... s k k"]:
    xp = module_of(x)
    return xp.take_along_axis(x, xp.broadcast_to(q[..., None, :], x.shape), -1)


def _entries(x: Array, q: Int[Array, "... s k"]) -> Array:
    xp = module_of(x)
    whole = xp.broadcast_to(x[..., None, :], (*q.shape[:-1], x.shape[-1]))
    return xp.take_along_axis(whole, q, -1)


def _entry(q: Int[Array, "... s k"], r: Int[Array, "... s"]) -> Int[Array, "... s"]:
    return module_of(q).take_along_axis(q, r[..., None], -1)[..., 0]


def _difference(x: Float[Array, "... k k"], r: Array, s: Array) -> Float[Array, "... s k"]:
    of_r, of_s = (chosen_rows(x, z[..., None])[..., 0, :] for z in (r, s))
    return of_r - of_s
