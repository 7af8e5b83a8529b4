"""Noise whose sum over κ entries is nearly Gumbel (Niepert et al., NeurIPS 2021, section 3.3).

The noise is `(Σ_i Gamma(1/κ, κ/i) − log terms) / κ` over i = 1 … terms, with Gamma(shape, scale).
The quantile function maps one uniform number to one number of noise. Drawing `terms` gamma
variables for each number instead would take a hundred times as long as the solves.
"""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.typing import Array, Float


_TERMS = 10
_MOST_LOGIT = 17.0  # uniform numbers are (k + 1/2) / 2^23, so |logit| is below log 2^24 = 16.6


def sum_of_gamma(u: Float[Array, "..."], kappa: float) -> Float[Array, "..."]:
    """The quantile at level u in (0, 1), interpolated linearly between evenly spaced logits."""
    table = jnp.asarray(_quantiles(kappa))
    logit = jnp.log(u) - jnp.log1p(-u)
    place = (logit + _MOST_LOGIT) * ((table.size - 1) / (2 * _MOST_LOGIT))
    below = jnp.clip(place.astype(jnp.int32), 0, table.size - 2)
    rest = place - below.astype(place.dtype)
    return table[below] + rest * (table[below + 1] - table[below])


@functools.cache
def _quantiles(kappa: float, size: int = 2049) -> np.ndarray:
    """Quantiles at evenly spaced logits, by inverse interpolation of the distribution function."""
    shape = 1 / kappa
    # The range leaves out at most 2^-25 of the probability at the lower end, and less at the upper
    # end.
    least = math.exp((-25 * math.log(2) + math.lgamma(1 + _TERMS * shape)) / (_TERMS * shape))
    x = np.geomspace(least / 100, 40 * max(1, shape), 6000)
    below = np.maximum.accumulate(np.clip(_distribution(x, shape), 1e-12, 1 - 1e-12))
    logits = np.linspace(-_MOST_LOGIT, _MOST_LOGIT, size)
    found = np.interp(logits, np.log(below) - np.log1p(-below), x)
    return (found - math.log(_TERMS) / kappa).astype(np.float32)


def _distribution(x: np.ndarray, shape: float) -> np.ndarray:
    """P(Σ_i Gamma(shape, 1/i) ≤ x), from its Laplace transform by Euler summation (Abate and Whitt,
    ORSA Journal on Computing 7, 1995)."""
    terms, more, precision = 30, 14, 28.0
    k = np.arange(terms + more + 1)
    at = (precision + 2j * np.pi * k) / (2 * x[:, None])
    logs = sum(np.log1p(at / i) for i in range(1, _TERMS + 1))
    values = (np.exp(-shape * logs) / at).real * (-1.0) ** k
    values[:, 0] /= 2
    sums = (math.exp(precision / 2) / x[:, None] * values).cumsum(1)[:, terms:]
    weights = np.array([math.comb(more, j) for j in range(more + 1)]) * 0.5**more
    return sums @ weights
