"""scipy looped forever on the cosine distances of zero vectors, which are NaN
(scipy/scipy#6370)."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import jaxmatch as jm


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_cosines_of_zero_vectors():
    zeros = np.zeros((3, 3))
    cost = cdist(zeros, zeros, metric="cosine")
    assert np.isnan(cost).all()
    assert jm.solve_assignment(cost).status == jm.Status.INVALID_COST
    with pytest.raises(ValueError, match="invalid numeric entries"):
        jm.linear_sum_assignment(cost)
