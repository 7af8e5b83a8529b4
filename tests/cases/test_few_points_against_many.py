"""POT returned zeros and a warning for some sizes of uniform samples, as 5 points against 960: the
sums of 1/5 and of 1/960 differ by roundings (PythonOT/POT#190)."""

import numpy as np
from scipy.spatial.distance import cdist
from transport_truth import assert_moves

import jaxmatch as jm


def test_few_points_against_many():
    random = np.random.default_rng(0)
    for m in [*random.integers(900, 1000, 20).tolist(), 960]:
        n = 5
        cost = cdist(random.random((n, 2)), random.random((m, 2))) ** 2
        a, b = np.full(n, 1 / n), np.full(m, 1 / m)
        res = jm.solve_transport(cost, a, b)
        assert_moves(res, a, b, 1e-12)
        assert res.gap <= 1e-12 * res.cost
    assert jm.check_transport(cost, a, b, res).optimal
