"""The flows of a plan of the pure-JAX twin, recomputed as floats from the given masses.

As in ffi/transport/plan_flows.inc.h. The units of the solver are too coarse for masses far below
the total, so only the forest of its plan is kept. Its nodes are rows, then columns. Leaves are
removed one after another, except for the node of greatest mass in each tree. A leaf sends its
remaining mass along its only arc. Mass that the other end cannot take stays at the leaf. At the
end, such mass leaves along new arcs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.rounding import two_sum
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._transport.xla_masses import Masses, indices, put, spare
from jaxmatch._transport.xla_paths import Search


class Flows(NamedTuple):
    """A plan whose entries have any order. One pair may have several entries."""

    rows: Int[Array, " k"]
    cols: Int[Array, " k"]
    mass: Float[Array, " k"]  # 0 for unused entries
    off: Float[Array, ""]  # upper bound on the sum of all errors in row and column masses
    failed: Bool[Array, ""]  # whether some mass cannot move


def recompute(
    s: Search, masses: Masses, slack: Float[Array, "n m"], on: Bool[Array, ""], *, scaled: bool
) -> Flows:
    """Recomputes the flows of a plan; moves nothing unless `on`.

    `slack`: reduced costs, infinite for pairs that do not exist. `scaled`: whether the demands were
    multiplied by rounded factors.
    """
    n, m = slack.shape
    used = jnp.concatenate([s.row_units, s.col_units]) > 0
    parent = jnp.concatenate([jnp.where(s.row_parent >= 0, s.row_parent + n, -1), s.col_parent])
    near = spare(slack.dtype)
    mass = masses.real.astype(slack.dtype)
    flow, rest, lost = _peel(parent, used & on, mass, near)
    more = _send_rest(jnp.where(on, rest, 0), mass, slack, near)
    nodes = indices(mass)
    other = jnp.where(used, parent, nodes)
    low, high = jnp.minimum(nodes, other), jnp.maximum(nodes, other)
    rounding = 2 * mass.size * float(jnp.finfo(mass.dtype).eps)
    off = jnp.abs(more.rest).sum() * (1 + rounding) + lost + more.lost
    eps = float(jnp.finfo(mass.dtype).eps)
    off += eps * mass[:n].sum()  # rounding when `_merged` adds up entries of a pair
    if scaled:
        off += 2 * eps * mass[n:].sum()
    return Flows(
        rows=jnp.concatenate([low, more.rows]),
        cols=jnp.concatenate([high - n, more.cols]),
        mass=jnp.concatenate([flow, more.mass]),
        off=off,
        failed=more.failed,
    )


def _peel(
    parent: Int[Array, " k"], used: Bool[Array, " k"], mass: Float[Array, " k"], near: float
) -> tuple[Array, Array, Array]:
    """Flows on the arcs to parents, remaining masses of nodes, and a bound on rounding errors."""
    nodes = indices(mass)
    up = jnp.where(used, parent, nodes)
    for _ in range(nodes.size.bit_length()):
        up = up[up]
    most = jnp.zeros_like(mass).at[up].max(mass)
    own = jnp.where(mass == most[up], nodes, nodes.size)
    stays = jnp.full_like(own, nodes.size).at[up].min(own)[up] == nodes
    above = jnp.where(used, parent, nodes)
    one = used.astype(jnp.int32)
    degree = one + jnp.zeros_like(one).at[above].add(one)
    # The sum of the indices of each node's arcs (may wrap around). If one arc is left, this sum is
    # its index.
    link = one * nodes + jnp.zeros_like(one).at[above].add(one * nodes)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        flow, rest, degree, link, lost = state
        x = lax.argmax((degree == 1) & ~stays, 0, jnp.int32)
        arc = link[x]
        y = arc + above[arc] - x
        moved = jnp.maximum(jnp.minimum(rest[x], rest[y] + near * mass[y]), 0)
        rest_x, lost_x = two_sum(rest[x], -moved)
        rest_y, lost_y = two_sum(rest[y], -moved)
        rest = put(put(rest, x, rest_x), y, rest_y)
        return (
            put(flow, arc, moved),
            rest,
            put(put(degree, x, 0), y, degree[y] - 1),
            put(link, y, link[y] - arc),
            lost + jnp.abs(lost_x) + jnp.abs(lost_y),
        )

    zero = jnp.zeros_like(mass)
    start = zero, mass, degree, link, zero.sum()
    flow, rest, _, _, lost = lax.while_loop(
        lambda state: ((state[2] == 1) & ~stays).any(), step, start
    )
    return flow, rest, lost


class _More(NamedTuple):
    """New arcs, and the remaining mass (rest) of each node."""

    rest: Float[Array, " k"]
    rows: Int[Array, " k"]
    cols: Int[Array, " k"]
    mass: Float[Array, " k"]
    count: Int[Array, ""]
    lost: Float[Array, ""]
    failed: Bool[Array, ""]


def _send_rest(
    rest: Float[Array, " k"], mass: Float[Array, " k"], slack: Float[Array, "n m"], near: float
) -> _More:
    """Sends the remaining mass (rest) of each node along new arcs.

    A rest goes to the cheapest node that can take all of it within the tolerance `near`. If there
    is no such node, as much as fits goes to the node with the greatest rest. If no node has a rest,
    all of it goes to the node of greatest mass.

    Nodes whose rest exceeds the tolerance of every other node go first, because they need a partner
    that still has a rest. All other nodes need no such partner.
    """
    n, m = slack.shape
    allowed = slack < jnp.inf
    ample = near * jnp.concatenate(
        [
            jnp.where(allowed, mass[None, n:], 0).max(1, initial=0),
            jnp.where(allowed, mass[:n, None], 0).max(0, initial=0),
        ]
    )

    def left(s: _More) -> Array:
        return s.rest > near * mass

    def step(s: _More) -> _More:
        waits = left(s)
        urgent = waits & (ample < s.rest)
        x = lax.argmax(jnp.where(urgent.any(), urgent, waits), 0, jnp.int32)
        is_row = x < n
        of_row = slack[jnp.clip(x, 0, n - 1)]
        of_col = slack[:, jnp.clip(x - n, 0, m - 1)]
        above = jnp.concatenate(
            [jnp.where(is_row, jnp.inf, of_col), jnp.where(is_row, of_row, jnp.inf)]
        )
        exists = (above < jnp.inf) & (mass > 0)
        fits, opens = exists & (s.rest + near * mass >= s.rest[x]), exists & waits
        best = lax.argmin(jnp.where(fits, above, jnp.inf), 0, jnp.int32)
        most_open = lax.argmax(jnp.where(opens, s.rest, -1), 0, jnp.int32)
        most = lax.argmax(jnp.where(exists, mass, -1), 0, jnp.int32)
        shares = ~fits.any() & opens.any()
        y = jnp.where(fits.any(), best, jnp.where(shares, most_open, most))
        moved = jnp.where(shares, jnp.minimum(s.rest[x], s.rest[y]), s.rest[x])
        rest_x, lost_x = two_sum(s.rest[x], -moved)
        rest_y, lost_y = two_sum(s.rest[y], -moved)
        rest = put(put(s.rest, x, rest_x), y, rest_y)
        return _More(
            rest=rest,
            rows=put(s.rows, s.count, jnp.minimum(x, y)),
            cols=put(s.cols, s.count, jnp.maximum(x, y) - n),
            mass=put(s.mass, s.count, moved),
            count=s.count + 1,
            lost=s.lost + jnp.abs(lost_x) + jnp.abs(lost_y),
            failed=~exists.any(),
        )

    zero = jnp.zeros_like(rest + mass) + jnp.zeros_like(slack[0, 0])
    none = zero.astype(jnp.int32)
    start = _More(rest + zero, none, none, zero, none[0], zero.sum(), zero.sum() > 0)
    return lax.while_loop(lambda s: left(s).any() & ~s.failed & (s.count < mass.size), step, start)
