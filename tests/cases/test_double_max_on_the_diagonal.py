"""munkres-cpp paid 921,566,000 instead of 637,518,500 where the largest double on the diagonal
forbids pairs of 6 x 4 costs (saebyn/munkres-cpp#20)."""

import numpy as np
from helpers import exact_optimum

import jaxmatch as jm


X = np.finfo(float).max
COST = np.array(
    [
        [X, 7.33184e08, 9.41561e08, 2.79247e08],
        [3.06449e08, X, 3.3464e08, 7.06878e08],
        [9.93296e08, 1.9414e08, X, 1.14174e08],
        [3.51623e08, 2.48635e08, 7.81242e08, X],
        [7.02639e08, 8.51663e08, 9.37382e08, 4.96945e07],
        [7.58851e08, 8.58445e08, 8.7235e07, 5.47076e08],
    ]
)


def test_double_max_on_the_diagonal():
    assert exact_optimum(np.where(COST == X, np.inf, COST)) == 637_518_500
    res = jm.solve_assignment(COST)
    assert res.cost == 637_518_500 and jm.check_assignment(COST, res).optimal
    assert res.col4row.tolist() == [-1, 0, 1, -1, 3, 2]
