"""Two classes, [0.3, 0.7] against [0.1 + 0.2, 0.7], were called infeasible: 0.1 + 0.2 is not 0.3,
and no other class has what is missing."""

import numpy as np
from transport_truth import assert_moves

import jaxmatch as jm


def test_classes_off_by_one_bit():
    cost = np.array([[0, np.inf], [np.inf, 0]])
    a, b = np.array([0.3, 0.7]), np.array([0.1 + 0.2, 0.7])
    res = jm.solve_transport(cost, a, b)
    assert_moves(res, a, b, 1e-15)
    assert res.cost == 0 and jm.check_transport(cost, a, b, res).valid
