"""The pure-JAX solver for minimum cuts of grids on any platform.

Synchronous push-relabel (Goldberg and Tarjan 1988, section 6) on whole arrays. In each round all
cells with excess push, along one direction after the other. Then all cells that still have excess
are relabelled. At intervals every height is set to the exact distance to the nearest deficit (a
cell with negative excess).

All arcs are reversed, so that flow runs from the sink to the source. At the end, some cells can
still reach the source in the reversed residual graph. In the original graph the source can reach
them, so they form the source side of the minimum cut nearest to the source.

Invariant: heights are valid (no residual arc leads down by more than one) and only rise. A push
keeps them valid, as it opens only an arc that leads up. Relabelling keeps them valid, as neighbours
can only rise in the same step. So there are O(n²) rounds (theorem 6.2 of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow.fixed_point import frexp, is_usable, times_power
from jaxmatch._grid_cut.directions import steps


_ROUNDS = 24  # rounds between two global relabellings
_FAR = 1 << 30  # the height of cells that cannot reach a deficit


def neighbours(x: Array, step: Sequence[int] | Array, fill: float = 0) -> Array:
    """The entry of x at each cell's neighbour, or `fill` if there is no neighbour.

    The last dimensions of x are the grid.
    """
    rank, batch = len(step), x.ndim - len(step)
    padded = jnp.pad(x, [(0, 0)] * batch + [(1, 1)] * rank, constant_values=fill)
    return lax.dynamic_slice(padded, [0] * batch + [1 + step[k] for k in range(rank)], x.shape)


def solve(
    source: Num[Array, "..."], sink: Num[Array, "..."], pairwise: Num[Array, "..."],
    *, connectivity: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Returns value, source side and status, as documented in `grid_cut`."""
    solve_one = partial(_solve_one, connectivity=connectivity)
    for _ in source.shape[: -len(steps(connectivity)[0])]:
        solve_one = jax.vmap(solve_one)
    # `zero` gives all arrays, and so all loop states, the same varying axes in a `shard_map`.
    zero = jnp.where(False, sum(x.sum(dtype=x.dtype) for x in (source, sink, pairwise)), 0)
    return solve_one(*(x + zero.astype(x.dtype) for x in (source, sink, pairwise)))


def _solve_one(
    source: Num[Array, "..."], sink: Num[Array, "..."], pairwise: Num[Array, "k ..."],
    *, connectivity: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    moves = steps(connectivity)
    half = len(moves) // 2
    exists = [neighbours(jnp.ones_like(source, bool), step) for step in moves]
    # arcs[k]: the capacity of each cell's arc in direction k. If the arc leaves the grid, it is 0,
    # even if the given capacity is NaN.
    arcs = [jnp.where(exists[k], pairwise[k], 0) for k in range(len(pairwise))]
    if len(arcs) == half:
        arcs += [neighbours(arcs[k], moves[k + half]) for k in range(half)]
    valid = jnp.array(True)
    for capacities in (source, sink, *arcs):
        valid &= is_usable(capacities.ravel())
    floats = jnp.issubdtype(source.dtype, jnp.floating)
    to_units = _units_of_floats if floats else _units_of_integers

    def attempt(state: tuple[Array, ...]) -> tuple[Array, ...]:
        """Solves in units that depend on the capacity of the last cut.

        Returns the capacity of the cut found (the bound on the flow in the next attempt), whether
        this attempt is final, and its results.
        """
        units = to_units(source, sink, arcs, moves, state[0])
        usable = valid & ~units.overflow
        # All arcs are reversed: the arc from a neighbour becomes the arc to it, and cells with more
        # sink capacity than source capacity have the excess.
        residual = jnp.where(usable, jnp.stack(_into(units.arcs, moves)), 0)
        height = _push_relabel(jnp.where(usable, -units.excess, 0), residual, jnp.array(moves))
        side = usable & (height < _FAR)
        value, fits = _capacity(side, source, sink, arcs, moves)
        cut, _ = _capacity(side, *units.given, moves)
        return cut, ~usable | units.are_fine(cut, state[0]), side, value, usable & fits

    zero = 0 * source.ravel()[:1].astype(_widest(float)).sum()
    zero = jnp.where(zero == 0, zero, 0)
    never = zero != 0
    start = (jnp.inf + zero, never, never & exists[0], _zero_value(source), never)
    _, _, side, value, usable = lax.while_loop(lambda state: ~state[1], attempt, start)
    failure = jnp.nan if jnp.issubdtype(value.dtype, jnp.floating) else -1
    status = jnp.where(
        valid, jnp.where(usable, Status.OPTIMAL, Status.OVERFLOW), Status.INVALID_CAPACITY
    )
    return (
        jnp.where(usable, value, failure).astype(value.dtype),
        side & usable,
        status.astype(jnp.int32),
    )


# ---------------------------------------------------------------------------------------------
# Numbers


def _widest(kind: type) -> jnp.dtype:
    return jax.dtypes.canonicalize_dtype(kind)


def _sum_below(terms: list[Array], limit: int) -> tuple[Array, Bool[Array, ""]]:
    """The sum of all entries of all `terms`, and whether it is below `limit`.

    `limit` must be less than 2^b for integers of b bits.
    """
    dtype, bits = terms[0].dtype, 8 * terms[0].dtype.itemsize
    # Entries are split into digits of `width` bits. `width` is so small that the lowest digits of
    # all entries of an array add up without overflow, and so do the higher digits.
    longest = max(x.size for x in terms)
    width = bits // 2
    while width > 1 and (longest + 1) << width >= 1 << (bits - 1):
        width //= 2
    mask = (1 << width) - 1
    total = jnp.stack([x.sum(dtype=dtype) for x in terms]).sum(dtype=dtype)
    carry, digits = jnp.zeros_like(total), []
    carries = [carry] * len(terms)  # of the digits of each array
    for low in range(0, bits, width):
        sums = [
            ((x >> low) & mask).sum(dtype=dtype) + c for x, c in zip(terms, carries, strict=True)
        ]
        carries = [x >> width for x in sums]
        digit = sum((x & mask for x in sums), start=carry)
        digits.append(digit & mask)
        carry = digit >> width
    carry = sum(carries, start=carry)
    # Compare digits, from the most significant one on.
    fits, equal = jnp.zeros_like(total, bool), carry == 0
    for at in range(len(digits) - 1, -1, -1):
        of_limit = limit >> (width * at) & ((1 << width) - 1)
        fits |= equal & (digits[at] < of_limit)
        equal &= digits[at] == of_limit
    return total, fits


class _Units(NamedTuple):
    """Excess of the cells and capacities of the arcs, as integer multiples of a unit."""

    excess: Int[Array, "..."]
    arcs: list[Array]
    overflow: Bool[Array, ""]
    given: tuple[Array, Array, list[Array]]  # capacities of source, sink and arcs as floats
    around: Int[Array, ""]  # 2^around exceeds the sum of all capacities at any cell
    rough: Bool[Array, ""]  # whether integers were rounded to units larger than 1

    def are_fine(self, cut: Float[Array, ""], known: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether the result in these units is final.

        `cut` is the capacity of the cut found now, `known` that of the cut found before. The result
        is final if the unit is at most 2^-50 of `cut` (2^-26 without x64). It is also final if
        `known` is at most twice `cut`: the next unit would hardly be finer.
        """
        slack = 7 if self.excess.dtype == jnp.int64 else 2
        small = self.around <= frexp(jnp.where(jnp.isfinite(cut), cut, 1))[1] + slack
        return ~self.rough & (small | (cut == 0) | ~jnp.isfinite(cut) | (known <= 2 * cut))


def _units_of_integers(
    source: Int[Array, "..."], sink: Int[Array, "..."], arcs: list[Array],
    moves: list[tuple[int, ...]], known: Float[Array, ""],
) -> _Units:  # fmt: skip
    """Integer capacities in units of 1, clipped to a bound on the flow.

    If sums could overflow, the first attempt uses the larger units of `_units_of_floats`. The cut
    that it finds has a capacity that bounds the flow in the next attempt.
    """
    real, integer = _widest(float), _widest(int)
    source, sink = source.astype(integer), sink.astype(integer)
    excess, units = source - sink, [arc.astype(integer) for arc in arcs]
    given = (
        jnp.maximum(excess, 0).astype(real),
        jnp.maximum(-excess, 0).astype(real),
        [arc.astype(real) for arc in units],
    )
    # A cell's excess is at most its first one plus what arrives along all of its arcs.
    bits = 59 if len(moves) <= 8 else 58
    most = 2.0**bits if integer == jnp.int64 else 2.0**30
    is_known = known < jnp.inf
    # Raised a little, because the capacity of the last cut was rounded and may be below the flow.
    limit = jnp.where(is_known, known * (1 + 2.0**-20) + 1, most).astype(real)
    whole = jnp.minimum(limit, most * (1 - 2.0**-20)).astype(integer) + 1
    if integer == jnp.int64:
        # No flow exceeds the sum of either side. Single capacities of the other may.
        sums, fits = zip(*(_sum_below([x], 1 << bits) for x in (source, sink)), strict=True)
        flow = jnp.where(fits[0], *sums)
        excess = jnp.where(fits[0] | fits[1], jnp.clip(excess, -flow - 1, flow + 1), excess)
        large = ~(fits[0] | fits[1])
        large |= jnp.stack([(arc >= 1 << bits).any() for arc in units]).any()
    else:
        large = _around(given[2], moves, jnp.abs(excess).astype(real)) >= most
    clipped = jnp.where(is_known, jnp.clip(excess, -whole, whole), excess)
    arcs = [jnp.where(is_known, jnp.minimum(arc, whole), arc) for arc in units]
    overflow = is_known & (limit >= most)
    if integer != jnp.int64:
        sums = _around([x.astype(real) for x in arcs], moves, jnp.abs(clipped).astype(real))
        overflow |= is_known & (sums >= most)
    rough = _units_of_floats(*given, moves, known)
    is_rough = large & ~is_known
    return _Units(
        excess=jnp.where(is_rough, rough.excess, clipped),
        arcs=[jnp.where(is_rough, *x) for x in zip(rough.arcs, arcs, strict=True)],
        overflow=overflow,
        given=given,
        around=jnp.where(is_rough, rough.around, jnp.iinfo(jnp.int32).min),
        rough=is_rough,
    )


def _around(arcs: list[Array], moves: list[tuple[int, ...]], excess: Array) -> Array:
    """The maximum over all cells of a cell's excess plus the capacities of its arcs, in and out."""
    return (sum(arcs) + sum(_into(arcs, moves)) + excess).max(initial=0)


def _units_of_floats(
    source: Float[Array, "..."], sink: Float[Array, "..."], arcs: list[Array],
    moves: list[tuple[int, ...]], known: Float[Array, ""],
) -> _Units:  # fmt: skip
    """Float capacities in units, as in ffi/grid_cut/fixed_point.h.

    Capacities are rounded down to units. Capacities above an upper bound on the flow become the
    bound plus one unit. `known`, the capacity of a known cut or +inf, is such a bound. All numbers
    are first divided by a power of two near the bound, so that sums do not overflow.
    """
    real, integer = _widest(float), _widest(int)
    bits = 59 if integer == jnp.int64 else 29
    source, sink = (x.astype(real) for x in (source, sink))
    given = (source, sink, [arc.astype(real) for arc in arcs])
    arcs = given[2]
    surplus = jnp.where(source == sink, 0, source - sink)
    # `rest` is the rounding error of |source - sink| (Dekker).
    more, less = jnp.maximum(source, sink), jnp.minimum(source, sink)
    rest = jnp.where(more < jnp.inf, (more - jnp.abs(surplus)) - less, 0)

    def survey(surplus: Array, arcs: list[Array]) -> tuple[Array, Array, Array]:
        out = sum(arcs)
        into = sum(_into(arcs, moves))
        gives = jnp.minimum(jnp.maximum(surplus, 0), out)
        takes = jnp.minimum(jnp.maximum(-surplus, 0), into)
        around = (gives + takes + out + into).max(initial=0)
        return gives.max(initial=0), takes.max(initial=0), around

    most_excess, most_deficit, _ = survey(surplus, arcs)
    cells = real.type(max(source.size, 1))
    every = jnp.stack([source, sink, *arcs])
    most_finite = jnp.where(every < jnp.inf, every, 0).max(initial=0)
    least = jnp.minimum(most_excess, most_deficit)
    is_bound, is_known = least < jnp.inf, known < jnp.inf
    each = jnp.where(is_bound, least, jnp.where(most_finite > 0, most_finite, 1))
    each = jnp.where(is_known, known, each)
    significand, exponent = frexp(each)
    times = jnp.where(is_bound, cells, cells * (len(arcs) + 2))
    bound = significand * jnp.where(is_known, 1 + 2.0**-20, times)

    surplus, rest, *arcs = (times_power(x, -exponent) for x in (surplus, rest, *arcs))
    within = jnp.where(is_known, jnp.clip(surplus, -bound, bound), surplus)
    *_, around = survey(within, [jnp.minimum(arc, bound) for arc in arcs])
    unit = frexp(around)[1] - bits

    def in_units(x: Array) -> Array:
        return jnp.minimum(times_power(x, -unit), 2.0**bits)

    def whole(x: Array) -> Array:
        return jnp.floor(x).astype(integer)

    beyond = whole(in_units(bound)) + 1
    units = [jnp.where(arc > bound, beyond, whole(in_units(arc))) for arc in arcs]
    # `rest`, the rounding error of `surplus`, is added, because it can be many units.
    size = in_units(jnp.abs(surplus))
    left = size - jnp.floor(size) + times_power(rest, -unit)
    size = jnp.where(jnp.abs(surplus) > bound, beyond, whole(size) + whole(left))
    size = jnp.minimum(size, jnp.minimum(beyond, 1 << bits))
    excess, never = jnp.where(surplus < 0, -size, size), bound < 0
    return _Units(excess, units, never, given, exponent + frexp(around)[1], never)


def _into(arcs: list[Array], moves: list[tuple[int, ...]]) -> list[Array]:
    """The capacities of the arcs that lead to each cell."""
    half = len(moves) // 2
    return [neighbours(arcs[k - half], step) for k, step in enumerate(moves)]


def _capacity(
    side: Bool[Array, "..."], source: Array, sink: Array, arcs: list[Array],
    moves: list[tuple[int, ...]],
) -> tuple[Array, Bool[Array, ""]]:  # fmt: skip
    """The capacity of a cut, computed from the given numbers, and whether it fits its dtype."""
    terms = [jnp.where(side, sink, source)]
    terms += [
        jnp.where(side & ~neighbours(side, step), arc, 0)
        for arc, step in zip(arcs, moves, strict=True)
    ]
    if jnp.issubdtype(source.dtype, jnp.floating):
        parts = jnp.stack([x.astype(_widest(float)).sum() for x in terms])
        endless = jnp.stack([jnp.isinf(x).any() for x in terms]).any()
        value = parts.sum().astype(source.dtype)
        return value, endless | (value < jnp.inf)
    integer = _widest(int)
    return _sum_below([x.astype(integer) for x in terms], jnp.iinfo(integer).max + 1)


def _zero_value(source: Array) -> Array:
    """0 in the dtype of the value of a cut."""
    integral = jnp.issubdtype(source.dtype, jnp.integer)
    return jnp.zeros_like(source, _widest(int) if integral else source.dtype, shape=())


# ---------------------------------------------------------------------------------------------
# Push-relabel


def _push_relabel(
    excess: Int[Array, "..."], residual: Int[Array, "k ..."], moves: Int[Array, "k rank"]
) -> Int[Array, "..."]:  # fmt: skip
    """Finds a maximum preflow. Returns the residual distance of each cell to a nearest deficit."""
    count = len(moves)

    def one_above_lowest(height: Array, residual: Array) -> Array:
        """One more than the height of the lowest neighbour that a residual arc reaches."""

        def by_direction(k: Array, least: Array) -> Array:
            above = neighbours(height, moves[k], _FAR) + 1
            return jnp.minimum(least, jnp.where(residual[k] > 0, above, _FAR))

        return lax.fori_loop(0, count, by_direction, jnp.full_like(height, _FAR))

    def distances(excess: Array, residual: Array) -> Array:
        def closer(state: tuple[Array, Array]) -> tuple[Array, Array]:
            lower = jnp.minimum(state[0], one_above_lowest(state[0], residual))
            return lower, (lower < state[0]).any()

        height = jnp.where(excess < 0, 0, _FAR).astype(jnp.int32)
        return lax.while_loop(lambda state: state[1], closer, (height, (excess < 0).any()))[0]

    def push(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        excess, residual, height = state
        falls = (height < _FAR) & (height == neighbours(height, moves[k], _FAR) + 1)
        pushed = jnp.where(falls, jnp.clip(excess, 0, residual[k]), 0)
        received = neighbours(pushed, -moves[k])
        residual = residual.at[k].add(-pushed).at[(k + count // 2) % count].add(received)
        return excess - pushed + received, residual, height

    def one_round(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        excess, residual, height = lax.fori_loop(0, count, push, state)
        raised = jnp.maximum(height, one_above_lowest(height, residual))
        return excess, residual, jnp.where(excess > 0, raised, height)

    def phase(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        excess, residual, _ = lax.fori_loop(0, _ROUNDS, one_round, state)
        return excess, residual, distances(excess, residual)

    def is_active(state: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        excess, _, height = state
        return ((excess > 0) & (height < _FAR)).any()

    start = (excess, residual, distances(excess, residual))
    return lax.while_loop(is_active, phase, start)[2]
