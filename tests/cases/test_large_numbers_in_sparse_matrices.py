"""A large number, 1e6 to the greatest double, marks pairs that must not be used, as reports on many
solvers show it (gatagat/lap#4 and #19, accord-net/framework#1596).

`min_weight_full_bipartite_matching` returns indices alone, so that nobody sees a gap.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

import jaxmatch as jm


GREATEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize("big", [1e6, 1e9, 1e12, 1e13, 1e14, 1e16, 1e18, GREATEST])
@pytest.mark.parametrize("n", [10, 50, 300])
def test_large_numbers_in_sparse_matrices(n, big):
    random = np.random.default_rng(1)
    base = random.random((n, n))
    forbidden = random.random((n, n)) < 0.7
    np.fill_diagonal(forbidden, False)
    A = sp.csr_array(np.where(forbidden, big, base))
    want = base[min_weight_full_bipartite_matching(sp.csr_array(np.where(forbidden, 0, base)))]
    got = base[jm.min_weight_full_bipartite_matching(A)]
    assert got.sum() <= want.sum() * (1 + 1e-12)
