"""scipy did not return where all pairs of one of three rows are infinite (scipy/scipy#7005). There
is no assignment, and both functions say so."""

import numpy as np
import pytest

import jaxmatch as jm


def test_forbidden_row():
    inf = np.inf
    cost = np.array([[inf, inf, 4], [inf, inf, inf], [inf, 4, inf]])
    assert jm.solve_assignment(cost).status == jm.Status.INFEASIBLE
    with pytest.raises(ValueError, match="infeasible"):
        jm.linear_sum_assignment(cost)
