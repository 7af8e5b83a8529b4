"""Where the sums of the masses differ POT raises; a status alone goes unseen outside of `jit`, as
the NaN after it has no reason. `raise_for_status` says by how much the sums differ."""

import numpy as np
import pytest

import jaxmatch as jm


def test_sums_that_differ():
    a, b = np.array([0.5, 0.5]), np.array([0.5, 0.6])
    res = jm.solve_transport(np.ones((2, 2)), a, b)
    assert res.status == jm.Status.UNBALANCED and np.isnan(res.cost)
    with pytest.raises(ValueError, match=r"UNBALANCED.* The difference is 0\.1\."):
        res.raise_for_status()
