"""Hungarian.jl did not end for [[1, inf], [inf, inf]], where one row alone can be matched
(Gnimuc/Hungarian.jl#18). With a cost for leaving a row unmatched, that is the optimum."""

import numpy as np

import jaxmatch as jm


def test_one_pair_of_two():
    cost = np.array([[1, np.inf], [np.inf, np.inf]])
    assert jm.solve_assignment(cost).status == jm.Status.INFEASIBLE
    res = jm.solve_assignment(cost, unmatched_cost=100.0)
    assert res.col4row.tolist() == [0, -1] and res.cost == 101
