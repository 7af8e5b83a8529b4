"""The masses that a plan must move, for `check_transport`.

A float sum agrees with a mass if it differs by at most a few roundings of that mass, however small
the mass is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import (
    add_at,
    flushed_to,
    lowered_at,
    module_of,
    proof_float,
    repeat,
    sum_up,
)
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


# The tolerance for the sum of the entries of a row or column, relative to its mass.
_OFF = {"float64": 1e-12, "float32": 8 * 2.0**-23}


class Entries(NamedTuple):
    """The entries of a plan. All pairs (i, j) are in range. Used entries have positive mass."""

    i: Int[Array, " k"]
    j: Int[Array, " k"]
    used: Bool[Array, " k"]
    mass: Num[Array, " k"]


def left_of(
    mass: Num[Array, " k"], index: Int[Array, " k"], expected: Num[Array, " l"], dtype: Any = None
) -> tuple[Num[Array, " l"], Bool[Array, ""]]:
    """The mass of each row (or column) that no entry moves, and whether it is nowhere negative.

    `expected` is the whole mass of each row. If float entries move all of it up to the rounding of
    `dtype`, the dtype in which masses were given, 0 is left.
    """
    xp, real = module_of(mass), proof_float(mass)
    if expected.size == 0:
        return expected, xp.ones((), bool)
    sums = add_at(expected.size, index, mass.astype(real))
    if not jnp.issubdtype(expected.dtype, jnp.integer):
        finite = xp.isfinite(expected).all() & (expected >= 0).all() & xp.isfinite(sums).all()
        left = expected.astype(real) - sums
        spare = _spare(mass, index, expected, np.dtype(dtype))
        left = xp.where(xp.abs(left) <= spare, 0, left)
        return left, finite & (left >= 0).all()
    # `total` is the true sum modulo 2^bits. If the sum in floats shows that the true sum is below
    # 2^bits, and `total` is not negative, then the true sum is below 2^(bits - 1) and is `total`.
    wide = common_dtype(mass.dtype, expected.dtype)
    total = add_at(expected.size, index, mass.astype(wide))
    left = expected.astype(wide) - total
    fits = (sums < 2.0 ** (8 * wide.itemsize - 0.5)) & (total >= 0)
    return left, ((left >= 0) & fits & (expected >= 0)).all()


def _spare(
    mass: Float[Array, " k"], index: Int[Array, " k"], expected: Float[Array, " l"], dtype: np.dtype
) -> Float[Array, " l"]:
    """How far the sum of the entries of each row (or column) may be from its mass."""
    real = proof_float(mass)
    count = add_at(expected.size, index, (mass > 0).astype(real))
    rate = _OFF[dtype.name] + float(jnp.finfo(real).eps) * (count + 4)
    least = flushed_to(dtype, mass) if module_of(mass) is jnp else 0.0
    least = max(least, float(jnp.finfo(dtype).smallest_subnormal))
    return rate * expected.astype(real) + 2 * least * (count + 1)


def scaled_demand(
    supply: Float[Array, " n"],
    demand: Float[Array, " m"],
    entries: Entries,
    forgiven: float,
    is_whole: Bool[Array, ""],
) -> Float[Array, " m"]:
    """Scales the demands to the sum of the supplies, if the sums differ by at most `forgiven`.

    `forgiven` is relative to the greater sum. If `is_whole`, all demands get the same factor.
    Otherwise forbidden pairs may divide the problem into components between which no mass can move.
    Each connected component of the plan then gets its own factor.
    """
    xp, real = module_of(supply), proof_float(supply)
    supply, demand, n = supply.astype(real), demand.astype(real), supply.size
    if 0 in (n, demand.size):
        return demand
    label = _parts(n, demand.size, entries)
    of_rows, of_cols = (
        add_at(label.size, part, x) for part, x in ((label[:n], supply), (label[n:], demand))
    )
    of_rows = xp.where(is_whole, sum_up(supply), of_rows)
    of_cols = xp.where(is_whole, sum_up(demand), of_cols)
    near = xp.abs(of_rows - of_cols) <= forgiven * xp.maximum(of_rows, of_cols)
    near &= (of_cols > 0) & xp.isfinite(of_cols)
    factor = xp.where(near, of_rows / xp.where(of_cols > 0, of_cols, 1), 1)
    return demand * factor[label[n:]]


def _parts(n: int, m: int, entries: Entries) -> Int[Array, " n+m"]:
    """The connected component of each row, then of each column: the index of its first node.

    Nodes are rows, then columns. The used entries of the plan connect them.
    """
    i, j, used, _ = entries
    xp = module_of(i)
    i, j = xp.where(used, i, 0), xp.where(used, j + n, 0)
    at = xp.concatenate([i, j])

    def join(state: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = state
        low = xp.minimum(label[i], label[j])
        low = xp.concatenate([low, low])
        joined = lowered_at(lowered_at(label, label[at], low), at, low)
        joined = joined[joined]
        return joined, (joined != label).any()

    start = xp.arange(n + m, dtype=xp.int32) + 0 * used.any().astype(xp.int32)
    return repeat(lambda state: state[1], join, (start, used.any()), xp)[0]
