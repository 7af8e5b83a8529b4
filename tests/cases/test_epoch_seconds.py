"""Losses rounded float64 to float32, so that epoch seconds within a minute became one number."""

import numpy as np
from scipy.stats import wasserstein_distance

import jaxmatch as jm


def test_epoch_seconds():
    random = np.random.default_rng(0)
    t = 1.7e9 + random.random(500) * 30
    s = t + random.exponential(0.2, 500)
    got = jm.losses.wasserstein_1d(t, s)
    np.testing.assert_allclose(got, wasserstein_distance(t, s), rtol=1e-9)
