"""Losses rounded float64 to float32, so that UTM coordinates, of 5.4e6 metres, lost the centimetres
by which they differ."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import jaxmatch as jm


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_utm_metres(metric):
    random = np.random.default_rng(0)
    x = np.c_[5e5 + random.random(60) * 50, 5.4e6 + random.random(60) * 50]
    y = x + random.normal(size=x.shape) * 0.05
    cost = cdist(x, y, metric)
    want = cost[linear_sum_assignment(cost)].mean()
    for weights in ((), (np.ones(60),)):
        got = jm.losses.earth_mover_distance(x, y, *weights, metric=metric)
        np.testing.assert_allclose(got, want, rtol=1e-6)
