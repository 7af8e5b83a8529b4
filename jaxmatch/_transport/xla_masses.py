"""Masses of the pure-JAX twin: integer multiples of one unit, with equal totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import accurate_sum, as_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, DTypeLike, Float, Int, Num
from jaxmatch._flow import fixed_point as grid
from jaxmatch._transport.problem import sum_tolerance


class Masses(NamedTuple):
    """Masses as integer multiples of 2^exponent."""

    supply: Int[Array, " n"]
    demand: Int[Array, " m"]
    exponent: Int[Array, ""]
    rounded: Bool[Array, ""]  # whether masses were rounded to units or demands changed
    status: Int[Array, ""]
    # Masses of rows, then columns, as floats: as given, but with demands scaled to the sum of the
    # supplies. 0 for integer masses.
    real: Float[Array, " n+m"]
    coarse: Bool[Array, ""]  # whether rounding to units changed some mass too much for a result
    lacking: Float[Array, ""]  # difference of the sums; or of `moved` and the lesser sum


def in_units(
    supply: Num[Array, " n"],
    demand: Num[Array, " m"],
    moved: Num[Array, ""] | None,
    allowed: Bool[Array, "n m"],
    origin: np.dtype,
) -> Masses:
    """Converts masses to units and sets the status.

    Masses of dummies and of masked rows or columns must be 0. `origin`: the coarsest dtype that
    masses were converted from.
    """
    usable = grid.is_usable(supply) & grid.is_usable(demand)
    if moved is not None:
        usable &= grid.is_usable(moved[None])
    if jnp.issubdtype(supply.dtype, jnp.integer):
        masses = _integers(supply, demand, moved)
    else:
        forgiven = sum_tolerance(origin, supply.size + demand.size)
        masses = _floats(supply, demand, moved, usable, allowed, forgiven)
    return masses._replace(status=jnp.where(usable, masses.status, Status.INVALID_MASS))


def spare(dtype: DTypeLike) -> float:
    """How far the mass that a plan moves may be from a given mass, relative to the given mass."""
    return 2.0**-42 if jnp.dtype(dtype).itemsize == 8 else 2.0**-21


def _integers(supply: Array, demand: Array, moved: Array | None) -> Masses:
    integer, most = grid.integer_and_most()
    a, b = supply.astype(integer), demand.astype(integer)
    # These sums saturate far above the greatest total that the solver accepts.
    of_rows, of_cols = (grid.totals(x.clip(0, most)[None, :])[0] for x in (a, b))
    if moved is None:
        total, balanced = jnp.maximum(of_rows, of_cols), of_rows == of_cols
    else:
        s = moved.astype(integer)
        balanced = s <= jnp.minimum(of_rows, of_cols)
        a, b = _fill_dummies(a, b, of_rows, of_cols, jnp.where(balanced, s, 0))
        both = grid.stopping_sum(of_rows, of_cols)[0]
        total = jnp.maximum(both - s.clip(0, most), jnp.maximum(of_rows, of_cols))
    status = jnp.where(balanced, Status.OPTIMAL, Status.UNBALANCED)
    status = jnp.where(total >= 1 << grid.bits_of_bound(), Status.OVERFLOW, status)
    zero = jnp.zeros_like(status, jnp.int32)
    off = jnp.abs(of_rows - of_cols) if moved is None else s - jnp.minimum(of_rows, of_cols)
    real = jnp.zeros_like(a, result_float(), shape=(a.size + b.size,))
    return Masses(a, b, zero, zero > 0, status, real, zero > 0, off.astype(real.dtype))


def _floats(
    supply: Array,
    demand: Array,
    moved: Array | None,
    usable: Array,
    allowed: Array,
    forgiven: float,
) -> Masses:
    integer, _ = grid.integer_and_most()
    given = (supply, demand) if moved is None else (supply, demand, moved[None])
    for x in given:
        usable = usable & jnp.isfinite(x).all()
    wide = [as_float(jnp.where(usable, x, 0))[0] for x in given]
    if moved is None:
        highest = jnp.maximum(*(grid.exponent_of_sum(x)[0] for x in wide))
    else:
        highest = grid.exponent_of_sum(jnp.concatenate(wide[:2]))[0]
    # A unit below the least normal number would be flushed to 0.
    least = jnp.finfo(supply.dtype).minexp
    exponent = jnp.maximum(highest - grid.bits_of_bound(), least)
    exact = [grid.times_power(x, -exponent) for x in wide]
    whole = [jnp.round(x) for x in exact]
    a, b = (x.astype(integer) for x in whole[:2])
    rounded = (whole[0] != exact[0]).any() | (whole[1] != exact[1]).any()
    of_rows, of_cols = accurate_sum(wide[0]), accurate_sum(wide[1])
    status = jnp.where(usable, Status.OPTIMAL, Status.INVALID_MASS)
    if moved is None:
        lacking = jnp.abs(of_rows - of_cols)
        balanced = _agree(exact[0].sum(), exact[1].sum(), forgiven)
        parts = components(jnp.concatenate(wide), allowed)
        changed, demands, fits = _balance(a, b, wide, parts, forgiven)
        status = jnp.where(fits, status, jnp.where(usable, Status.INFEASIBLE, status))
        rounded |= (changed != b).any()
        b, real = changed, (wide[0], demands)
    else:
        lacking = wide[2][0] - jnp.minimum(of_rows, of_cols)
        all_rows, all_cols = a.sum(), b.sum()
        most, s = jnp.minimum(all_rows, all_cols), whole[2][0]
        balanced = exact[2][0] <= most.astype(s.dtype) * (1 + forgiven)
        # Only numbers below `most` are converted, so that the conversion does not overflow.
        s = jnp.minimum(jnp.where(s < most.astype(s.dtype), s, 0).astype(integer), most)
        s = jnp.where(whole[2][0] < most.astype(whole[2].dtype), s, most)
        rounded |= s.astype(exact[2].dtype) != exact[2][0]
        a, b = _fill_dummies(a, b, all_rows, all_cols, s)
        part = jnp.minimum(wide[2][0], jnp.minimum(of_rows, of_cols))
        real = _fill_dummies(wide[0], wide[1], of_rows, of_cols, part)
    status = jnp.where(balanced | ~usable, status, Status.UNBALANCED)
    near = spare(wide[0].dtype) / 2
    coarse = [
        jnp.abs(grid.times_power(as_float(x)[0], exponent) - y) > near * y
        for x, y in zip((a, b), real, strict=True)
    ]
    coarse = (coarse[0].any() | coarse[1].any()) & (status == Status.OPTIMAL)
    return Masses(a, b, exponent, rounded, status, jnp.concatenate(real), coarse, lacking)


def _agree(a: Array, b: Array, forgiven: float) -> Array:
    return jnp.abs(a - b) <= forgiven * jnp.maximum(a, b)


def components(mass: Float[Array, " n+m"], allowed: Bool[Array, "n m"]) -> Int[Array, " n+m"]:
    """The connected component of each row and column: the number of its first node.

    Allowed pairs connect rows and columns that have mass. If no pair is forbidden, all are 0.
    """
    n, m = allowed.shape
    used = mass > 0
    pairs = used[:n, None] & used[None, n:]
    forbids, allowed = (pairs & ~allowed).any(), pairs & allowed
    own = indices(mass) + 0 * forbids.astype(jnp.int32)

    def join(state: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = state
        rows, cols = label[:n], label[n:]
        low_rows = jnp.where(allowed, cols[None, :], n + m).min(1, initial=n + m)
        low_cols = jnp.where(allowed, rows[:, None], n + m).min(0, initial=n + m)
        low = jnp.minimum(label, jnp.concatenate([low_rows, low_cols]))
        joined = low.at[label].min(low)  # the first node of a component also gets the label
        joined = joined[joined]
        return joined, (joined != label).any()

    label = lax.while_loop(lambda state: state[1], join, (own, forbids))[0]
    return jnp.where(forbids, label, 0)


def _fill_dummies(a: Array, b: Array, of_rows: Array, of_cols: Array, moved: Array) -> Any:
    """Sets the masses of the dummies, the last row and the last column.

    The last row gets all demand but `moved`, the last column all supply but `moved`.
    """
    return put(a, a.size - 1, of_cols - moved), put(b, b.size - 1, of_rows - moved)


def _balance(
    a: Array, b: Array, real: Sequence[Array], parts: Array, forgiven: float
) -> tuple[Array, Array, Array]:
    """Scales the demands of each component to the sum of its supplies.

    Returns the demands in units and as floats, and whether the two sums of every component agree
    up to `forgiven`.
    """
    size = parts.size
    of_row, of_col = parts[: a.size], parts[a.size :]

    def sums(x: Array, part: Array) -> Array:
        return jnp.zeros_like(x, shape=(size,)).at[part].add(x)

    supply, demand = sums(real[0], of_row), sums(real[1], of_col)
    fits = _agree(supply, demand, forgiven).all()
    # If there is a single component, its factor is computed from accurate sums.
    factor = jnp.where(supply == demand, 1, supply / jnp.where(demand > 0, demand, 1))[of_col]
    whole = accurate_sum(real[0]) / accurate_sum(real[1])
    factor = jnp.where((parts > 0).any(), factor, jnp.where(jnp.isfinite(whole), whole, 1))
    more, total = sums(a, of_row) - sums(b, of_col), sums(b, of_col)
    rate = more.astype(factor.dtype) / jnp.maximum(total, 1).astype(factor.dtype)
    changed = b + jnp.trunc(b.astype(factor.dtype) * rate[of_col]).astype(b.dtype)
    left = more - (sums(changed, of_col) - total)

    def settle(state: tuple[Array, Array]) -> tuple[Array, Array]:
        """Adds `left` to the greatest demand of each component.

        If this demand falls below 0, it becomes 0, and the debt is left for the next round.
        """
        x, left = state
        most = jnp.zeros_like(x, shape=(size,)).at[of_col].max(x)
        own = jnp.where(x == most[of_col], indices(x), x.size)
        first = jnp.full_like(own, x.size, shape=(size,)).at[of_col].min(own)
        x = x + jnp.where(first[of_col] == indices(x), left[of_col], 0)
        return jnp.maximum(x, 0), sums(jnp.minimum(x, 0), of_col)

    start = jnp.where(fits, changed, b), jnp.where(fits, left, 0)
    # A component without columns has no demand that could change.
    has_cols = jnp.zeros_like(left, bool).at[of_col].set(b >= 0)
    changed, _ = lax.while_loop(lambda s: ((s[1] != 0) & has_cols).any(), settle, start)
    return changed, real[1] * factor, fits


def as_mass(units: Int[Array, " k"], exponent: Int[Array, ""], dtype: DTypeLike) -> Array:
    if jnp.issubdtype(dtype, jnp.integer):
        return units.astype(dtype)
    mass = grid.times_power(as_float(units)[0], exponent)
    return jnp.minimum(mass, float(jnp.finfo(dtype).max)).astype(dtype)  # rounded, but not to inf


def indices(x: Array) -> Array:
    return jnp.arange(x.size, dtype=jnp.int32)


def put(x: Array, index: Array | int, value: Array | int, when: Array | bool = True) -> Array:
    """x[index] = value, by a select, because XLA compiles a scatter to a loop on some platforms."""
    return jnp.where((indices(x) == index) & when, value, x)
