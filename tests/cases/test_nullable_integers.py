"""A table of pandas with nullable integers, which scipy takes as costs, was refused for
its dtype."""

import numpy as np
import pytest
from helpers import exact_optimum

import jaxmatch as jm


def test_nullable_integers():
    pandas = pytest.importorskip("pandas")
    cost = np.random.default_rng(0).integers(0, 250, (5, 6))
    rows, cols = jm.linear_sum_assignment(pandas.DataFrame(cost).astype("Int64"))
    assert cost[rows, cols].sum() == exact_optimum(cost)
