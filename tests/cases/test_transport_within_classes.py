"""Transport within classes of samples, as conditional flow matching asks for it
(atong01/conditional-flow-matching#120, #132): pairs of two classes cost infinity, and the masses of
a class agree but for the last bit of their sums, as 1/30 ten times and 1/90 thirty times."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from transport_truth import assert_moves

import jaxmatch as jm


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [[1, 1], [10, 20], [7, 9, 14]], ids=str)
def test_transport_within_classes(rows, dtype):
    """Each row has the mass of three columns, so that the truth is an assignment."""
    random = np.random.default_rng(0)
    n, m = sum(rows), 3 * sum(rows)
    cost, want, i = np.full((n, m), np.inf), 0.0, 0
    for k in rows:
        part = random.random((k, 3 * k)).astype(dtype)
        cost[i : i + k, 3 * i : 3 * (i + k)] = part
        copies = np.repeat(part, 3, axis=0).astype(float)
        want += copies[linear_sum_assignment(copies)].sum() / m
        i += k
    a, b = np.full(n, 1 / n, dtype), np.full(m, 1 / m, dtype)
    cost = cost.astype(dtype)
    res = jm.solve_transport(cost, a, b)
    assert_moves(res, a, b, 1e-12 if dtype == np.float64 else 1e-6)
    np.testing.assert_allclose(res.cost, want, rtol=1e-12 if dtype == np.float64 else 1e-6)
    assert jm.check_transport(cost, a, b, res).valid
