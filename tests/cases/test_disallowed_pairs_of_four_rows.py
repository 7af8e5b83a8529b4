"""munkres did not end for 4 x 3 costs of which three rows share one column (bmc/munkres#28)."""

import numpy as np

import jaxmatch as jm


D = np.inf
COST = np.array([[D, 161, D], [D, 1, D], [D, 157, D], [37, D, 5]])


def test_disallowed_pairs_of_four_rows():
    assert jm.solve_assignment(COST).status == jm.Status.INFEASIBLE
    # As many pairs as there can be, which cost the least.
    res = jm.solve_assignment(COST, unmatched_cost=1e6)
    assert res.col4row.tolist() == [-1, 1, -1, 2] and res.cost == 2e6 + 6
