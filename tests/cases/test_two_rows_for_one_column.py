"""A fallback of scipy's function in ultralytics did not end for [[1, inf], [2, inf]], in which two
rows share one column (ultralytics/ultralytics#25508)."""

import numpy as np
import pytest

import jaxmatch as jm


def test_two_rows_for_one_column():
    cost = np.array([[1, np.inf], [2, np.inf]])
    assert jm.solve_assignment(cost).status == jm.Status.INFEASIBLE
    with pytest.raises(ValueError, match="infeasible"):
        jm.linear_sum_assignment(cost)
