"""POT called 625 x 625 problems infeasible where both histograms are the softmax of numbers up to
1000: most of the masses are below 1e-20 (PythonOT/POT#126)."""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax
from transport_truth import moved

import jaxmatch as jm


def test_masses_of_a_sharp_softmax():
    a, b = softmax(np.random.default_rng(0).random((2, 625)) * 1000, axis=1)
    cells = np.stack(np.divmod(np.arange(625), 25), 1)
    cost = cdist(cells, cells)
    res = jm.solve_transport(cost, a, b)
    assert res.status == jm.Status.OPTIMAL
    for found, x in zip(moved(res), (a, b * (a.sum() / b.sum())), strict=True):
        np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-300)
    assert res.gap <= 1e-12 * res.cost
