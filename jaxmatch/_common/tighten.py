"""Computes duals with more digits than a result holds, for checks outside of a trace.

The duals of a result are rounded to its dtype, or to the grid of a solver: the multiples of a unit
in which it computes. An answer is optimal if and only if there are feasible duals (u_i + v_j ≤ C_ij
for all pairs) that are tight (u_i + v_j = C_ij) on the pairs of the answer. The Bellman-Ford
algorithm finds such duals near the given ones, along pairs that are almost tight. The duals that it
finds need not be trusted, because the check computes the gap that they prove.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np


# If a gap exceeds this number times the sum of the magnitudes of all rounded numbers, it is not due
# to rounding, and tighter duals are not worth computing.
WORTH_IT = 1e-6
# The same for transport plans. The sum includes the total mass times the greatest cost, which
# determines the solver's grid.
WORTH_IT_ON_GRIDS = 1e-4

_EPS = float(np.finfo(np.float64).eps)
_MOST_PAIRS = 1 << 22
_MOST_STEPS = 50_000_000  # limit on updates of duals


OnHost: TypeAlias = Any  # a NumPy array; `Any` for type checkers


class Pairs(NamedTuple):
    """Rows, columns and costs (to minimise) of some pairs."""

    row: OnHost
    col: OnHost
    cost: OnHost


# All pairs of a problem, in blocks of rows. A block is either the `Pairs` of its rows, or the index
# of its first row and the matrix of its costs.
Blocks: TypeAlias = Iterable[Pairs | tuple[int, OnHost]]


class Stays(NamedTuple):
    """Unmatched rows and columns, as pairs with a dummy column and a dummy row.

    For n rows and m columns, the dummies are row n and column m.
    """

    price: OnHost  # [n] the cost of each row with the dummy column; +inf: there is no such pair
    left: OnHost  # [n] whether a row is paired with the dummy column
    capped: OnHost  # [m] whether a column may be paired with the dummy row
    room: OnHost  # [m] whether a column is paired with the dummy row
    dual: Any = 0.0  # the dual of the dummy column
    tied: bool = True  # whether the dummy row and the dummy column are a pair, at cost 0
    col_price: Any = None  # [m] the cost of each column with the dummy row; None: 0


def tightened(
    blocks: Blocks,
    own: Pairs,
    least: OnHost,
    v: OnHost,
    stays: Stays | None,
) -> OnHost | None:
    """Column duals near v that are tight on the pairs `own`, then the dual of the dummy column.

    `least`: the minimum of cost − v_j in each row. `stays`: which rows and columns may stay
    unmatched. Returns None if there are no such duals, or if too many pairs are almost tight.
    """
    n, m, none = len(least), len(v), np.zeros(0, int)
    more = Pairs(none, none, none)
    v, least = np.append(v, 0 if stays is None else stays.dual), np.append(least, np.inf)
    if stays is not None:
        last = Pairs(np.array([n]), np.array([m]), np.zeros(1)) if stays.tied else more
        may = np.isfinite(stays.price)
        price = np.zeros(m) if stays.col_price is None else stays.col_price
        more = join(_with_last_col(may, stays.price), _with_last_row(stays.capped, n, price), last)
        left, room = _with_last_col(stays.left, stays.price), _with_last_row(stays.room, n, price)
        own = join(own, left, room, last)
        np.minimum.at(least, more.row, more.cost - v[more.col])
    slack = own.cost - v[own.col] - least[own.row]
    most = 4 * slack[np.isfinite(slack)].sum()
    limit = _highest(n + 1, own, v) + most
    near = _near(blocks, v[:m], limit)
    return None if near is None else _falling(n + 1, own, join(near, more), v, most)


def join(*pairs: Pairs) -> Pairs:
    return Pairs(*(np.concatenate(parts) for parts in zip(*pairs, strict=True)))


def _with_last_col(rows: OnHost, price: OnHost) -> Pairs:
    row = np.flatnonzero(rows)
    return Pairs(row, np.full(len(row), -1), price[row])


def _with_last_row(cols: OnHost, n: int, price: OnHost) -> Pairs:
    col = np.flatnonzero(cols)
    return Pairs(np.full(len(col), n), col, price[col])


def _highest(rows: int, own: Pairs, v: OnHost) -> OnHost:
    """The greatest cost − v_j of each row's pairs in `own`; −inf for a row without pairs."""
    u = np.full(rows, -np.inf)
    np.maximum.at(u, own.row, own.cost - v[own.col])
    return u


def _near(blocks: Blocks, v: OnHost, limit: OnHost) -> Pairs | None:
    """The pairs whose cost − v_j is at most the limit of their row."""
    found, count = [Pairs(np.zeros(0, int), np.zeros(0, int), np.zeros(0))], 0
    for block in blocks:
        if isinstance(block, Pairs):
            close = block.cost - v[block.col] <= limit[block.row]
            found.append(Pairs(*(x[close] for x in block)))
        else:
            first, cost = block
            row, col = np.nonzero(cost - v <= limit[first : first + len(cost), None])
            found.append(Pairs(row + first, col, cost[row, col]))
        count += len(found[-1].row)
        if count > _MOST_PAIRS:
            return None
    return join(*found)


def _falling(rows: int, own: Pairs, near: Pairs, v: OnHost, most: float) -> OnHost | None:
    """The greatest column duals that are at most v and tight on the pairs `own`.

    Returns None if a dual falls by more than `most`, which proves that there are no such duals.
    """
    least, steps = v - most, 0
    while steps < _MOST_STEPS:
        u = _highest(rows, own, v)[near.row]
        lower, dual, now = v.copy(), near.cost - u, v[near.col]
        # Ignore differences within rounding: they could lower the duals on a cycle of tight pairs
        # forever.
        falls = now - dual > _EPS * (np.abs(u) + np.abs(now))
        np.minimum.at(lower, near.col[falls], dual[falls])
        if (lower == v).all():
            return v
        if (lower < least).any():
            return None
        v, steps = lower, steps + len(near.col) + len(own.col)
    return v
