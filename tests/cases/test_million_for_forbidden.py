"""`lap.lapjv` was reported to choose worse pairs where 1,000,000 stands for infinity, also in a row
that has nothing else (gatagat/lap#19)."""

import numpy as np
import pytest
from helpers import exact_optimum

import jaxmatch as jm


X = 1_000_000
NEGATIVE = [
    [-625, 2187.5, -156.25, X],
    [-2500, X, -2500, -2500],
    [-1015.625, -1015.625, X, X],
    [X, X, X, X],
]
POSITIVE = [[0.4, 1, 0.5, X], [0, X, 0, 0], [0.3166, 0.3166, X, X], [X, X, X, X]]


@pytest.mark.parametrize("cost", [NEGATIVE, POSITIVE], ids=["negative", "positive"])
def test_million_for_forbidden(cost):
    cost = np.array(cost)
    rows, cols = jm.linear_sum_assignment(cost)
    used = cost[rows, cols]
    # The large number is paid once, and what the others pay is least without it.
    assert (used == X).sum() == 1
    np.testing.assert_allclose(used[used < X].sum(), float(exact_optimum(cost[:3])), rtol=1e-15)
    assert jm.solve_assignment(cost).cost == float(exact_optimum(cost))
