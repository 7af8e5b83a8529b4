"""Instances whose optima others have found and agree on."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_proved, uniform_integers

import jaxmatch as jm


ORLIB = {"orlib_assign500": 991, "orlib_assign600": 1176, "orlib_assign700": 1362}

# Integers uniform on [0, most]: (n, most) -> optimum.
UNIFORM = {
    (256, 2560): 4304,
    (1000, 100): 0,
    (1000, 1000): 1196,
    (1000, 10_000): 16_084,
    (1000, 10**6): 1_658_076,
    (1000, 10**9): 1_658_574_507,
}


def solve(costs, optimum):
    res = jm.solve_assignment(costs)
    assert int(res.status) == jm.Status.OPTIMAL and float(res.gap) == 0
    assert float(res.cost) == np.float32(optimum)
    # The result is rounded to float32, the sum of its pairs is not.
    assert costs[np.arange(len(costs)), np.asarray(res.col4row)].astype(np.int64).sum() == optimum
    return res


@pytest.mark.parametrize("n, most", UNIFORM, ids=str)
def test_uniform_integers(n, most):
    costs = uniform_integers(n, most, seed=1)
    solve(costs.astype(np.int32), UNIFORM[n, most])
    if most < 2**24:
        solve(costs.astype(np.float32), UNIFORM[n, most])


def load(data_dir, name):
    path = data_dir / "lap" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return np.load(path)


@pytest.mark.parametrize("name", ORLIB)
def test_or_library(data_dir, name):
    instance = load(data_dir, name)
    assert instance["optimum"] == ORLIB[name]
    for dtype in (np.int32, np.float16, jnp.bfloat16):
        costs = instance["C"].astype(dtype)
        assert (costs == instance["C"]).all()
        res = solve(costs, ORLIB[name])
    assert_proved(costs[None], jm.solve_assignment(costs[None]))
    res = jm.solve_assignment(-instance["C"].astype(np.int32), maximize=True)
    assert float(res.cost) == -ORLIB[name]


def test_squared_distances_of_digits(data_dir):
    instance = load(data_dir, "digits_898_sqdist")
    costs = instance["C"].astype(np.int32)
    solve(costs, int(instance["optimum"]))
    solve(costs.astype(np.float32), int(instance["optimum"]))


def test_colour_transfer_with_many_ties(data_dir):
    instance = load(data_dir, "color_transfer_2000_points")
    a, b = instance["a"].astype(np.int64), instance["b"].astype(np.int64)
    costs = ((a[:, None] - b[None]) ** 2).sum(-1).astype(np.int32)
    res = solve(costs, int(instance["optimum"]))
    check = jm.check_assignment(costs, res)
    assert check.valid and check.gap == 0
