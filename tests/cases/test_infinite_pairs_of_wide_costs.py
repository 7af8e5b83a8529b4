"""`lap.lapjv` paid 18 instead of 16 for 2 x 3 costs with two infinite ones, as it made them square
(gatagat/lap#20)."""

import numpy as np
from helpers import exact_optimum

import jaxmatch as jm


def test_infinite_pairs_of_wide_costs():
    cost = np.array([[np.inf, 11, 8], [8, np.inf, 7]])
    res = jm.solve_assignment(cost)
    assert res.cost == 16 == exact_optimum(cost)
    assert res.col4row.tolist() == [2, 0] and res.row4col.tolist() == [1, -1, 0]
