"""Prices: the costs of leaving rows and columns unmatched."""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import greatest
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch._flow.fixed_point import frexp, times_power
from jaxmatch._sparse_assignment.exponents import minimized
from jaxmatch._sparse_assignment.problem import SparseProblem


def price_of_rows(most: Float[Array, ""], shorter: int) -> Float[Array, ""]:
    """The price of leaving a row unmatched if there must be as many pairs as possible.

    It is the least power of two ≥ (2 shorter + 1)·most, computed without rounding, or 1 if `most`
    is 0. `most` is the greatest magnitude of the costs, and `shorter` the length of the shorter
    side. An augmenting path matches one more row, which saves the price, and adds or removes at
    most 2 shorter + 1 costs of pairs. So the price outweighs these costs.
    """
    if isinstance(most, np.generic):
        return _price_on_host(float(most), shorter)  # type: ignore[return-value]
    mantissa, exponent = frexp(most)  # the mantissa is in [1/2, 1)
    # With factor = part·2^doublings, part·mantissa is between 1/4 and 1.
    factor = 2 * shorter + 1
    doublings = factor.bit_length()
    half = Fraction(1 << doublings, 2 * factor)  # the mantissa for which part·mantissa is 1/2
    digits = jnp.finfo(most.dtype).nmant + 1
    rounded_down = int(half * (1 << digits)) / (1 << digits)
    exponent = exponent + doublings - (mantissa <= rounded_down).astype(jnp.int32)
    return jnp.where(most > 0, times_power(jnp.ones_like(most), exponent), 1)


def _price_on_host(most: float, shorter: int) -> np.float64:
    wanted = Fraction(most) * (2 * shorter + 1)
    if wanted == 0:
        return np.float64(1)
    exponent = wanted.numerator.bit_length() - wanted.denominator.bit_length() - 1
    while Fraction(2) ** exponent < wanted:
        exponent += 1
    return np.ldexp(np.float64(1), exponent)


def prices_of_staying(
    problem: SparseProblem,
    rows: Bool[Array, " n"],
    cols: Bool[Array, " m"],
    limit: Int[Array, ""] | None,
    *,
    sign: int,
    cardinality: str,
) -> tuple[tuple[Array, Array], Float[Array, ""]]:
    """The prices of rows and columns when minimising, and the largest error of rounding a price.

    A price is 0 if the row or column is masked. It is +inf if the row or column must be matched, or
    if the price reaches `limit`. For the cardinality "maximum", callers replace the prices of rows.
    """
    dtype = result_float()
    lost = jnp.zeros((), dtype)
    num_rows, num_cols = rows.sum(dtype=jnp.int32), cols.sum(dtype=jnp.int32)
    may_stay = problem.unmatched_cost is not None or cardinality == "maximum"
    if problem.unmatched_cost is not None:
        r, low = minimized(problem.unmatched_cost, limit, sign=sign)
        lost = jnp.maximum(lost, greatest(jnp.where(rows, low, 0)))
    else:
        r = jnp.where(num_rows > num_cols, 0, jnp.inf).astype(dtype)
    if problem.unmatched_col_cost is not None:
        s, low = minimized(problem.unmatched_col_cost, limit, sign=sign)
        lost = jnp.maximum(lost, greatest(jnp.where(cols, low, 0)))
    else:
        s = jnp.where((num_cols > num_rows) | may_stay, 0, jnp.inf).astype(dtype)
    return (jnp.where(rows, r, 0), jnp.where(cols, s, 0)), lost
