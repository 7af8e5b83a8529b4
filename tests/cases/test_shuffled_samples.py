"""`emd2_1d` of POT changed with the order of its samples, as it did not sort their weights
(PythonOT/POT#138)."""

import numpy as np
from scipy.stats import wasserstein_distance

import jaxmatch as jm


def test_shuffled_samples():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 100))
    a, b = random.dirichlet(np.ones(100), 2)
    order = random.permutation(100)
    got = jm.losses.wasserstein_1d(x, y, a, b)
    shuffled = jm.losses.wasserstein_1d(x[order], y[order], a[order], b[order])
    np.testing.assert_allclose([got, shuffled], wasserstein_distance(x, y, a, b), rtol=1e-12)
