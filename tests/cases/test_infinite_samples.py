"""Tests of `scipy.stats.wasserstein_distance` have infinite samples, whose distance was NaN where
scipy's is infinite; persim called diagrams near that are infinitely far apart
(scikit-tda/persim#105)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from jaxmatch.losses import wasserstein_1d


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    "x, y, weight",
    [
        ([1, 2, np.inf], [1, 1], None),
        ([1, 2, np.inf], [-np.inf, 1], None),
        ([1, -np.inf, np.inf], [1, 1], None),
        ([1, 2, np.inf], [np.inf, 1], None),
        ([-np.inf, np.inf], [-np.inf, 5], None),
        ([1, 2, np.inf], [1, 2, 3], None),
        ([1, np.inf], [1, 2], None),
        ([1, np.inf], [1, 2], [1, 0]),
        ([1, np.inf], [1, np.nan], None),
    ],
)
def test_infinite_samples(x, y, weight):
    """Infinitely far, or without a distance; and without a gradient, as the other problems."""
    x, y = np.array(x, float), np.array(y, float)
    expected = wasserstein_distance(x, y, weight)
    np.testing.assert_equal(wasserstein_1d(x, y, weight), expected)
    np.testing.assert_equal(np.asarray(jax.jit(wasserstein_1d)(x, y, weight)), expected)
    slope = jax.grad(wasserstein_1d, argnums=(0, 1))(jnp.asarray(x), jnp.asarray(y), weight)
    assert not any(g.any() for g in slope)
