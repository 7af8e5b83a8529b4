"""Nine tests of POT, in `test_optim` and `test_da`, move Gaussian histograms of 100 bins: masses
below 2^-61 of the total did not move, 35 rows were lost, and barycentric maps divided 0 by 0."""

import numpy as np
import pytest
from helpers import x64
from transport_truth import assert_moves

import jaxmatch as jm


def gaussian(mean, sigma, dtype):
    x = np.exp(-((np.arange(100) - mean) ** 2) / (2 * sigma**2))
    return (x / x.sum()).astype(dtype)


@pytest.mark.parametrize("sigma", [2, 5, 10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tails_of_gaussian_histograms(dtype, sigma):
    a, b = gaussian(20, sigma, dtype), gaussian(60, sigma, dtype)
    x = np.arange(100.0)
    cost = (x[:, None] - x) ** 2
    with x64(True):
        res = jm.solve_transport(cost, a, b)
        if min(a.min(), b.min()) > 1e-37:  # XLA flushes denormal masses
            assert jm.check_transport(cost, a, b, res).valid
        assert res.gap < 1e-10
        plan = np.asarray(res.todense(), np.float64)
    assert_moves(res, a, b, 1e-12 if dtype == np.float64 else 1e-6)
    if sigma == 10:
        to = plan @ x / plan.sum(1)  # as a barycentric map
        assert (np.diff(to) > -1e-6).all()
