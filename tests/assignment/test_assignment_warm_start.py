"""Whatever is passed as `warm_start`, the optimum and its proof stay."""

import jax
import numpy as np
import pytest
from helpers import (
    assert_checked,
    assert_failed,
    assert_proved,
    assert_same_bits,
    numpy_dtype,
    problem,
    x64,
)

import jaxmatch as jm


BATCH = 40

# Square, a few spare columns or rows, many: not all of them start from the duals.
SHAPES = [(9, 9), (18, 20), (20, 18), (6, 11)]


def starts(rng: np.random.Generator, good: np.ndarray, spread: float) -> dict[str, np.ndarray]:
    """Column duals worth starting from, and others."""
    noise = spread * rng.normal(size=good.shape)
    middle = np.arange(good.shape[1]) == good.shape[1] // 2
    return {
        "previous": good,
        "shifted": good + 1000.25,
        "noisy": good + noise,
        "a little noisy": good + 1e-6 * noise,
        "another problem's": np.roll(good, 1, axis=0),
        "reversed": good[:, ::-1],
        "zeros": 0 * good,
        "random": 3 * noise,
        "steps": 0.5 * spread * rng.integers(-3, 4, good.shape),
        "low": good - abs(noise),
        "high": good + abs(noise),
        "huge": np.full(good.shape, 1e30),
        "one huge": np.where(middle, -1e30, good),
        "NaN": np.where(rng.random(good.shape) < 0.1, np.nan, good),
        "infinite": np.where(rng.random(good.shape) < 0.1, np.inf, good),
    }


def make(rng: np.random.Generator, dtype: str, shape: tuple[int, int], spread: int) -> np.ndarray:
    costs = rng.integers(0, spread, (BATCH, *shape)).astype(numpy_dtype(dtype))
    if dtype == "int64":  # half of them too long for doubles
        costs = costs + (rng.integers(0, 2, (BATCH, 1, 1)) << 50)
    if dtype == "float32":
        k = np.arange(min(shape))
        forbidden = rng.random(costs.shape) < 0.2
        forbidden[:, k, k] = False
        costs = np.where(forbidden, np.float32(np.inf), costs)
    return costs


@pytest.mark.parametrize("spread", [3, 200], ids=["ties", "spread"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bfloat16"])
@pytest.mark.parametrize("leave", [False, True], ids=["plain", "unmatched"])
def test_any_start(leave, dtype, shape, spread):
    rng = np.random.default_rng([*shape, leave, spread])
    costs = make(rng, dtype, shape, spread)
    given = {}
    if leave:
        r = rng.integers(-spread // 4, spread // 2, (BATCH, shape[0]))
        given["unmatched_cost"] = r + costs.min((1, 2)).astype(np.int64)[:, None]
    # Under x64, so that the duals that are returned prove optimality to the last bit. Only the sums
    # of float64 costs with any dual may round.
    with x64(True):
        cold = jm.solve_assignment(costs, **given)
        tried = starts(rng, np.asarray(cold.col_dual), spread / 2)
        for k, (name, start) in enumerate(tried.items()):
            res = jm.solve_assignment(costs, warm_start=start, **given)
            np.testing.assert_array_equal(res.cost, cold.cost, err_msg=name)
            if dtype == "float64":
                assert (np.asarray(res.gap) < 1e-11).all()
                assert_checked(costs, res, 20, most=1e-11, block=BATCH, **given)
            else:
                at = slice(k % 10, None, 10)  # the check proves all, rational arithmetic a tenth
                some = problem((res, given), at)
                assert_proved(costs[at], some[0], **some[1])
                assert_checked(costs, res, 20, block=BATCH, **given)


@pytest.mark.parametrize("shape", [(9, 9), (21, 21), (20, 22)], ids=str)
def test_masked_and_maximised(shape):
    """Duals of masked columns are not looked at, whatever they are."""
    rng = np.random.default_rng([*shape, 2])
    n, m = shape
    costs = rng.integers(0, 20, (BATCH, n, m)).astype(np.float32)
    masks = {"row_mask": rng.random((BATCH, n)) < 0.9, "col_mask": rng.random((BATCH, m)) < 0.9}
    for r in (None, rng.integers(0, 20, (BATCH, n)).astype(np.float32)):
        given = masks if r is None else masks | {"unmatched_cost": r}
        with x64(True):
            cold = jm.solve_assignment(costs, maximize=True, **given)
            for name, start in starts(rng, np.asarray(cold.col_dual), 10).items():
                start = np.where(masks["col_mask"], start, rng.choice([np.nan, np.inf, 1e30, 0]))
                res = jm.solve_assignment(costs, maximize=True, warm_start=start, **given)
                np.testing.assert_array_equal(res.cost, cold.cost, err_msg=name)
                assert_proved(costs, res, maximize=True, **given)


def test_scan_from_an_empty_start():
    """Steps whose costs differ little; each solves as if it were alone."""
    rng = np.random.default_rng(3)
    first = rng.random((5, 8, 10))
    costs = (first + 0.01 * np.cumsum(rng.normal(size=(7, 5, 8, 10)), 0)).astype(np.float32)

    def step(last, cost):
        res = jm.solve_assignment(cost, warm_start=last)
        return res, res

    _, res = jax.jit(lambda c: jax.lax.scan(step, jm.Assignment.empty(c.shape[1:]), c))(costs)
    alone = jm.solve_assignment(costs)
    np.testing.assert_array_equal(res.col4row, alone.col4row)
    np.testing.assert_array_equal(res.cost, alone.cost)
    assert_same_bits(problem(res, 0), problem(alone, 0))  # the empty start is a cold one


def test_empty_has_the_structure_of_a_result():
    for shape in ((3, 4), (2, 3, 4), (2, 0, 4)):
        for wide in (False, True):
            with x64(wide):
                empty = jm.Assignment.empty(shape)
                res = jm.solve_assignment(np.zeros(shape, np.float32))
            assert jax.tree.structure(empty) == jax.tree.structure(res)
            for a, b in zip(jax.tree.leaves(empty), jax.tree.leaves(res), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
    assert_failed(jm.Assignment.empty((2, 3, 4)), jm.Status.UNFINISHED)
