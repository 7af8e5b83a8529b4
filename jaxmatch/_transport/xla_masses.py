"""Masses of the pure-JAX twin: whole units of one grid, with equal totals."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.rounding import as_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, DTypeLike, Int, Num
from jaxmatch._flow import fixed_point as grid


class Masses(NamedTuple):
    """Masses as integer multiples of 2^exponent."""

    supply: Int[Array, " n"]
    demand: Int[Array, " m"]
    exponent: Int[Array, ""]
    rounded: Bool[Array, ""]  # whether a mass is no multiple, or demands were changed
    status: Int[Array, ""]


def in_units(
    supply: Num[Array, " n"], demand: Num[Array, " m"], moved: Num[Array, ""] | None
) -> Masses:
    """Masses on a grid, and their status. Masked ones, and those of dummies, must be 0."""
    usable = grid.is_usable(supply) & grid.is_usable(demand)
    if moved is not None:
        usable &= grid.is_usable(moved[None])
    if jnp.issubdtype(supply.dtype, jnp.integer):
        masses = _integers(supply, demand, moved)
    else:
        masses = _floats(supply, demand, moved, usable)
    return masses._replace(status=jnp.where(usable, masses.status, Status.INVALID_MASS))


def _integers(supply: Array, demand: Array, moved: Array | None) -> Masses:
    integer, most = grid.integer_and_most()
    a, b = supply.astype(integer), demand.astype(integer)
    # These saturate far above the greatest total that is solved.
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
    return Masses(a, b, zero, zero > 0, status)


def _floats(supply: Array, demand: Array, moved: Array | None, usable: Array) -> Masses:
    integer, _ = grid.integer_and_most()
    given = (supply, demand) if moved is None else (supply, demand, moved[None])
    for x in given:
        usable = usable & jnp.isfinite(x).all()
    wide = [as_float(jnp.where(usable, x, 0))[0] for x in given]
    if moved is None:
        highest = jnp.maximum(*(grid.exponent_of_sum(x)[0] for x in wide))
    else:
        highest = grid.exponent_of_sum(jnp.concatenate(wide[:2]))[0]
    # Masses below the least normal number would be flushed to 0.
    least = jnp.finfo(supply.dtype).minexp
    exponent = jnp.maximum(highest - grid.bits_of_bound(), least)
    exact = [grid.times_power(x, -exponent) for x in wide]
    whole = [jnp.round(x) for x in exact]
    a, b = (x.astype(integer) for x in whole[:2])
    # One rounding for each mass is forgiven, as are those of the sums.
    forgiven = 2 * (a.size + b.size) * float(jnp.finfo(supply.dtype).eps)
    rounded = (whole[0] != exact[0]).any() | (whole[1] != exact[1]).any()
    if moved is None:
        changed, balanced = _balance(a, b, forgiven, wide[0].dtype)
        rounded |= (changed != b).any()
        b = changed
    else:
        of_rows, of_cols = a.sum(), b.sum()
        most, s = jnp.minimum(of_rows, of_cols), whole[2][0]
        balanced = exact[2][0] <= most.astype(s.dtype) * (1 + forgiven)
        # Below 2^bits, so that the conversion does not overflow.
        s = jnp.minimum(jnp.where(s < most.astype(s.dtype), s, 0).astype(integer), most)
        s = jnp.where(whole[2][0] < most.astype(whole[2].dtype), s, most)
        rounded |= s.astype(exact[2].dtype) != exact[2][0]
        a, b = _fill_dummies(a, b, of_rows, of_cols, s)
    status = jnp.where(balanced, Status.OPTIMAL, Status.UNBALANCED)
    status = jnp.where(usable, status, Status.INVALID_MASS)
    return Masses(a, b, exponent, rounded, status)


def _fill_dummies(a: Array, b: Array, of_rows: Array, of_cols: Array, moved: Array) -> Any:
    """Gives the dummies, the last row and column, what the others lack."""
    return put(a, a.size - 1, of_cols - moved), put(b, b.size - 1, of_rows - moved)


def _balance(a: Array, b: Array, forgiven: float, dtype: DTypeLike) -> tuple[Array, Array]:
    """Demands changed in proportion to sum as the supplies do, and whether they nearly did."""
    missing = a.sum() - b.sum()
    rate = missing.astype(dtype) / jnp.maximum(b.sum(), 1).astype(dtype)
    changed = b + jnp.trunc(b.astype(dtype) * rate).astype(b.dtype)
    most = lax.argmax(changed, 0, jnp.int32)
    changed = put(changed, most, changed[most] + (a.sum() - changed.sum()))
    near = jnp.abs(missing).astype(dtype) <= forgiven * a.sum().astype(dtype)
    balanced = (missing == 0) | (near & (changed >= 0).all())
    return jnp.where(balanced & (missing != 0), changed, b), balanced


def as_mass(units: Int[Array, " k"], exponent: Int[Array, ""], dtype: DTypeLike) -> Array:
    if jnp.issubdtype(dtype, jnp.integer):
        return units.astype(dtype)
    mass = grid.times_power(as_float(units)[0], exponent)
    return jnp.minimum(mass, float(jnp.finfo(dtype).max)).astype(dtype)  # rounded, but not to inf


def indices(x: Array) -> Array:
    return jnp.arange(x.size, dtype=jnp.int32)


def put(x: Array, index: Array | int, value: Array | int, when: Array | bool = True) -> Array:
    """x[index] = value, as a select: XLA compiles a scatter to a loop on some platforms."""
    return jnp.where((indices(x) == index) & when, value, x)
