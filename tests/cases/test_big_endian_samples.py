"""Samples in the other byte order, as files of instruments hold them, were refused."""

import numpy as np
from scipy.stats import wasserstein_distance

import jaxmatch as jm


def test_big_endian_samples():
    x, y = np.random.default_rng(0).random((2, 6))
    got = jm.losses.wasserstein_1d(x.astype(">f8"), y.astype(">f8"))
    np.testing.assert_allclose(got, wasserstein_distance(x, y), rtol=1e-14)
