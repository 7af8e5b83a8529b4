"""A test of POT, `test_emd2_sparse_vs_dense`, has forbidden pairs as [[0, inf], [0, inf],
[inf, 0]], whose masses [0.1, 0.2, 0.7] and [0.3, 0.7] were called infeasible for a rounding."""

import numpy as np
import pytest
from helpers import x64
from transport_truth import assert_moves

import jaxmatch as jm


@pytest.mark.parametrize("method", ["network_simplex", "xla"])
def test_three_rows_in_two_classes(method):
    cost = np.array([[0, np.inf], [0, np.inf], [np.inf, 0]])
    a, b = np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.7])
    with x64(True):
        res = jm.solve_transport(cost, a, b, method=method)
        assert_moves(res, a, b, 1e-15)
        assert res.cost == 0 and jm.check_transport(cost, a, b, res).valid
        off = jm.solve_transport(cost, a, b + np.array([0.01, -0.01]), method=method)
        assert off.status == jm.Status.INFEASIBLE
