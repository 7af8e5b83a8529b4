"""Capacities in every dtype, and beside masked rows and columns that hold anything."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, to_numpy, x64
from test_capacities import plan_of

import jaxmatch as jm


solve = jm.solve_capacitated_assignment
COSTS = ("bool", "uint8", "int32", "bfloat16", "float16", "float32", "int64", "float64")
GIVEN = {
    "plain": {"col_capacity": np.array([2, 3, 1])},
    "least": {"col_capacity": 4, "col_minimum": np.array([1, 2, 0])},
    "rows": {"row_capacity": np.array([1, 2, 0, 3, 1]), "col_capacity": 3, "col_minimum": 1},
}


@pytest.mark.parametrize("name", GIVEN)
def test_every_dtype(name, platform):
    """Small integers are exact in each; results are as documented."""
    rng = np.random.default_rng(5)
    base = rng.integers(0, 2, (4, 5, 3)) if name == "plain" else rng.integers(0, 50, (4, 5, 3))
    expected = solve(base, **GIVEN[name]).cost
    for on in (False, True):
        for cost in COSTS[1:] if base.max() > 1 else COSTS:
            if not on and cost in ("int64", "float64"):
                continue
            with x64(on):
                given = {k: jnp.asarray(x, jnp.int32) for k, x in GIVEN[name].items()}
                array = jnp.asarray(base.astype(numpy_dtype(cost)))
                res = to_numpy(solve(array, **given))
            np.testing.assert_array_equal(res.cost, expected)
            assert res.cost.dtype == res.col_dual.dtype == (np.float64 if on else np.float32)
            assert {x.dtype for x in jax.tree.leaves(res)} == {res.cost.dtype, np.dtype(np.int32)}
            assert (res.gap == 0).all()


@pytest.mark.parametrize("name", GIVEN)
def test_masked_rows_and_columns_may_hold_anything(name, platform):
    rng = np.random.default_rng(8)
    cost = rng.integers(0, 50, (5, 3)).astype(np.float32)
    wide = np.full((7, 4), np.nan, np.float32)
    wide[:5, :3] = cost
    rows, cols = np.arange(7) < 5, np.arange(4) < 3
    small, large = dict(GIVEN[name]), dict(GIVEN[name])
    for key, value in small.items():
        if isinstance(value, np.ndarray):
            large[key] = np.concatenate([value, [-(2**31)] * (2 if key[0] == "r" else 1)])
    r = rng.integers(0, 60, 5).astype(np.float32)
    bad = np.concatenate([r, [np.nan, -np.inf]]).astype(np.float32)
    for unmatched, dirty in ((None, None), (r, bad)):
        expected = solve(jnp.asarray(cost), unmatched_cost=unmatched, **small)
        res = to_numpy(
            solve(jnp.asarray(wide), unmatched_cost=dirty, row_mask=rows, col_mask=cols, **large)
        )
        assert (res.status, res.cost) == (expected.status, expected.cost) == (0, expected.cost)
        assert (res.row_dual[5:] == 0).all() and (res.col_dual[3:] == 0).all()
        plan = plan_of(res, 4)
        assert not plan[5:].any() and not plan[:, 3:].any()
