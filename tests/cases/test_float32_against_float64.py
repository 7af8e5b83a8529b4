"""POT called 5 x 5 problems infeasible where one histogram has float32 and the other float64, both
uniform (PythonOT/POT#342)."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from transport_truth import assert_moves

import jaxmatch as jm


@pytest.mark.parametrize("n", [3, 5, 10, 100])
def test_float32_against_float64(n):
    x, y = np.random.default_rng(n).normal(size=(2, n, 10))
    cost = ((x[:, None] - y) ** 2).sum(-1)
    a, b = np.full(n, 1 / n, np.float32), np.full(n, 1 / n)
    res = jm.solve_transport(cost, a, b)
    assert_moves(res, a, b, 1e-12)
    want = cost[linear_sum_assignment(cost)].sum() * float(a[0])
    np.testing.assert_allclose(res.cost, want, rtol=1e-7)
