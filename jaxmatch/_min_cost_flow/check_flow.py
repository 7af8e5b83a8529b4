"""The flow of a network within its bounds, for `check_minimum_cost_flow`."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import (
    add_at,
    lowered_at,
    module_of,
    proof_float,
    repeat,
    split,
    sum_up,
)
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._min_cost_flow.problem import MinCostProblem


# What a unit of fixed point is at most, relative to the sum of all flows and supplies.
_UNIT = {"float64": 2.0**-55, "float32": 2.0**-25}
MOST_MASSES = 2.0**40  # in one sum


class CheckEdges(NamedTuple):
    """One problem as a check reads it. All ends are in range; bad numbers are replaced by 0."""

    tail: Int[Array, " e"]
    head: Int[Array, " e"]
    capacity: Num[Array, " e"]  # 0 where there is no limit
    lower: Num[Array, " e"]
    endless: Bool[Array, " e"]  # no limit
    forbidden: Bool[Array, " e"]
    cost: Num[Array, " e"]
    supply: Num[Array, " n"]
    sane: Bool[Array, ""]  # whether the problem is valid

    @classmethod
    def of(
        cls, problem: MinCostProblem, tail: Int[Array, " e"], head: Int[Array, " e"], n: int
    ) -> CheckEdges:
        capacity, cost, supply = problem[:3]
        xp = module_of(supply)
        lower = xp.zeros_like(capacity) if problem.lower is None else problem.lower
        sane = ((tail >= 0) & (tail < n) & (head >= 0) & (head < n)).all()
        no = xp.zeros_like(capacity, bool)
        if jnp.issubdtype(capacity.dtype, jnp.floating):
            endless = capacity == xp.inf
            bad = xp.isnan(capacity) | ~xp.isfinite(lower)
            sane &= xp.isfinite(supply).all()
        else:
            endless, bad = capacity == jnp.iinfo(capacity.dtype).max, no
        forbidden = no
        if jnp.issubdtype(cost.dtype, jnp.floating):
            forbidden = cost == xp.inf
            sane &= ~(xp.isnan(cost) | (cost == -xp.inf)).any()
        zero = xp.zeros_like(capacity)
        bad |= ~_at_most(lower, capacity)
        bad |= forbidden & ~(_at_most(lower, zero) & _at_most(zero, capacity))
        sane &= ~bad.any()
        closed = bad | forbidden
        return cls(
            tail.clip(0, max(n, 1) - 1),
            head.clip(0, max(n, 1) - 1),
            xp.where(closed | endless, zero, capacity),
            xp.where(closed, zero, lower),
            endless & ~closed,
            forbidden,
            xp.where(sane & ~forbidden, cost, xp.zeros_like(cost)),
            xp.where(sane, supply, xp.zeros_like(supply)),
            sane,
        )

    def holds(self, flow: Num[Array, " e"]) -> Bool[Array, ""]:
        """Whether all flows are finite and within the bounds of their edges."""
        within = _at_most(self.lower, flow) & (self.endless | _at_most(flow, self.capacity))
        if jnp.issubdtype(flow.dtype, jnp.floating):
            within &= module_of(flow).isfinite(flow)
        return within.all()

    def net(self, x: Num[Array, " e"]) -> Num[Array, " n"]:
        """For each node the sum over edges out of it minus that over edges into it."""
        return self._sum(self.tail, x) - self._sum(self.head, x)

    def around(self, x: Num[Array, " e"]) -> Num[Array, " n"]:
        """For each node the sum over edges out of it plus that over edges into it."""
        return self._sum(self.tail, x) + self._sum(self.head, x)

    def _sum(self, node: Int[Array, " e"], x: Num[Array, " e"]) -> Num[Array, " n"]:
        size = self.supply.shape[-1]
        if not isinstance(size, int):
            return add_at(size, node, x)
        return add_at(max(size, 1), node, x)[:size]


def _at_most(a: Num[Array, " k"], b: Num[Array, " k"]) -> Bool[Array, " k"]:
    """Whether a <= b. On a TPU, denormal float64 numbers count as 0."""
    if module_of(a) is np or not jnp.issubdtype(a.dtype, jnp.floating):
        return a <= b
    b = b.astype(a.dtype)

    def by_value(a: Array, b: Array) -> Array:
        return a <= b

    def by_bits(a: Array, b: Array) -> Array:
        return (_rank(a) <= _rank(b)) & ~jnp.isnan(a) & ~jnp.isnan(b)

    if a.dtype != jnp.float64:
        return by_bits(a, b)
    return lax.platform_dependent(a, b, tpu=by_value, default=by_bits)


def _rank(x: Float[Array, " k"]) -> Int[Array, " k"]:
    """Integers in the order of the numbers x, denormal ones included."""
    bits = jnp.dtype(f"int{jnp.finfo(x.dtype).bits}")
    signed = lax.bitcast_convert_type(x, bits)
    size = signed & jnp.iinfo(bits).max
    return jnp.where(signed < 0, -size, size)


def exact_difference(a: Num[Array, " e"], b: Num[Array, " e"]) -> Float[Array, " e"]:
    """An upper bound of a − b, equal to it if that is a float."""
    parts = [x for x in (*split(a, False), *split(b, True)) if x is not None]
    return sum_up(module_of(a).stack(parts, -1))


def conserves(edges: CheckEdges, flow: Num[Array, " e"], tolerance: float) -> Bool[Array, ""]:
    """Whether at each node the flow out minus the flow in is the supply.

    Exactly for integers, within the tolerances of `check_minimum_cost_flow` for floats.
    """
    xp, real, supply = module_of(flow), proof_float(flow), edges.supply
    x, s, lower = (y.astype(real) for y in (flow, supply, edges.lower))
    factor = smaller(x, s, lower)
    x, s, lower = x * factor, s * factor, lower * factor
    off = xp.abs(edges.net(x) - s)
    if jnp.issubdtype(flow.dtype, jnp.integer):
        # Equal modulo 2^bits, and as floats nearer than that.
        wide = common_dtype(flow, supply, jnp.int32)
        same = edges.net(flow.astype(wide)) == supply.astype(wide)
        return (same & (off < 2.0 ** (8 * wide.itemsize - 1))).all()
    info, eps = jnp.finfo(flow.dtype), float(jnp.finfo(real).eps)
    sizes = xp.abs(x)
    count = edges.around(xp.ones_like(sizes)) + 1
    through = edges.around(sizes + xp.abs(lower)) + xp.abs(s)
    total = sizes.sum() + xp.abs(s).sum()
    rounded = (2 * float(info.eps) + eps * count) * through
    rounded += count * (_UNIT[np.dtype(flow.dtype).name] * total + float(info.smallest_subnormal))
    beyond = xp.maximum(off - rounded, 0)
    return _is_forgiven(edges, s, factor, beyond, tolerance) & xp.isfinite(total)


def smaller(*masses: Float[Array, " k"]) -> Float[Array, ""]:
    """A power of two such that sums of masses times that do not overflow; 1 for most."""
    xp, real = module_of(masses[0]), masses[0].dtype
    most = xp.stack([xp.max(xp.abs(x), initial=0) for x in masses]).max()
    large = most > float(jnp.finfo(real).max) / MOST_MASSES
    return xp.where(large, 1 / MOST_MASSES, 1).astype(real)


def _is_forgiven(
    edges: CheckEdges,
    supply: Float[Array, " n"],
    factor: Float[Array, ""],
    off: Float[Array, " n"],
    tolerance: float,
) -> Bool[Array, ""]:
    """Whether supplies are missed by no more than they themselves miss a sum of 0.

    `supply`: of `edges`, times `factor`.
    `off`: by how much each node misses its supply. Supplies of each part of the network may miss
    a sum of 0 by `tolerance` of the positive ones, or as much as those of the whole network do.
    """
    xp, n = module_of(supply), supply.size
    if n == 0:
        return off.sum() == 0
    label = _parts_of(edges, supply)

    def sums(x: Array) -> Array:
        return add_at(n, label, x)

    # Across parts, edges carry exactly their lower bound.
    given = supply - edges.net(edges.lower.astype(supply.dtype) * factor)
    missed, sizes = xp.abs(sums(given)), sums(xp.abs(given))
    whole = xp.maximum(sum_up(supply), sum_up(-supply))
    whole = xp.where(whole <= tolerance * xp.abs(supply).sum(), whole, 0)  # else a solver refuses
    allowed = xp.where(missed <= tolerance * sizes + whole, 3 * missed, 0)
    rounded = 2 * n * float(jnp.finfo(edges.supply.dtype).eps) * xp.abs(supply).sum()
    return (sums(off) <= allowed + rounded).all()


def _parts_of(edges: CheckEdges, like: Float[Array, " n"]) -> Int[Array, " n"]:
    """The part of the network to which each node belongs: the number of its first node.

    Edges whose flow can vary connect the nodes of a part.
    """
    xp, n = module_of(like), like.size
    joined = (edges.endless | (edges.capacity > edges.lower)) & edges.sane
    tail, head = (xp.where(joined, x, 0) for x in (edges.tail, edges.head))
    ends = xp.concatenate([tail, head])

    def join(state: tuple[Any, Any]) -> tuple[Any, Any]:
        label, _ = state
        low = xp.where(joined, xp.minimum(label[tail], label[head]), 0)
        low = xp.concatenate([low, low])
        lowered = lowered_at(lowered_at(label, label[ends], low), ends, low)
        lowered = lowered[lowered]
        return lowered, (lowered != label).any()

    label = xp.arange(n, dtype=np.int32) + 0 * like.astype(np.int32)
    return repeat(lambda state: state[1], join, (label, joined.any()), xp)[0]


def most_flow(edges: CheckEdges) -> Float[Array, ""]:
    """A bound on what an optimal flow carries beyond the lower bound of an edge.

    A flow splits into paths from supplies to demands, and cycles. Cycles that do not pay can be
    left out. Each other one has an edge of negative cost and, if it pays, one with a limit.
    """
    xp, real = module_of(edges.supply), proof_float(edges.supply)
    lower, supply = edges.lower.astype(real), edges.supply.astype(real)
    after = supply - edges.net(lower)
    eps = float(jnp.finfo(real).eps)
    count = edges.around(xp.ones_like(lower)) + 4
    error = eps * count * (xp.abs(supply) + edges.around(xp.abs(lower)))
    negative = edges.cost < 0
    counted = ~edges.endless & (negative | (negative & edges.endless).any())
    room = xp.where(counted, exact_difference(edges.capacity, edges.lower), 0)
    return sum_up(xp.maximum(after, 0) + error, room)
