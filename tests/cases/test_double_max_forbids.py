"""Accord.NET found no optimum of 6 x 4 costs in which `Double.MaxValue` marks forbidden pairs: 24
is least (accord-net/framework#1596)."""

import numpy as np
import scipy.sparse as sp
from helpers import exact_optimum

import jaxmatch as jm


X = np.finfo(float).max
COST = np.array(
    [
        [10, 20, 2, 40],
        [10, X, 3, X],
        [20, 10, 60, 1],
        [20, X, 25, X],
        [X, 40, 60, X],
        [0, 19, X, 2],
    ]
)


def test_double_max_forbids():
    best = exact_optimum(np.where(COST == X, np.inf, COST))
    res = jm.solve_assignment(COST)
    assert res.cost == best == 24
    assert jm.check_assignment(COST, res).optimal


def test_double_max_forbids_sparse_pairs():
    cost = COST + 1  # scipy's sparse matrices hold no 0
    rows, cols = jm.min_weight_full_bipartite_matching(sp.csr_array(cost))
    assert cost[rows, cols].sum() == 28
