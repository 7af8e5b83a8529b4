"""`kuhn_munkres` of pathfinding did not end for 2 x 2 infinite costs
(evenfurther/pathfinding#349)."""

import numpy as np
import pytest

import jaxmatch as jm


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_pairs_forbidden(dtype):
    cost = np.full((2, 2), np.inf, dtype)
    assert jm.solve_assignment(cost).status == jm.Status.INFEASIBLE
    with pytest.raises(ValueError, match="infeasible"):
        jm.linear_sum_assignment(cost)
