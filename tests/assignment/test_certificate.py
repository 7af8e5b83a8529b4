"""check_assignment against rational arithmetic; optimal results come from linear programs."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import as_fraction, prove
from oracles import linear_program

import jaxmatch as jm
from jaxmatch import Assignment, Status


pytestmark = pytest.mark.usefixtures("optimised")


BATCH = 32


def check(
    problem: dict[str, Any], col4row: Any, col_dual: Any, x64: bool = False, **changes: Any
) -> Any:
    """The check of these matchings with these duals, as NumPy arrays."""
    shape = problem["cost"].shape
    with jax.enable_x64(x64):
        result = Assignment.empty(shape).replace(
            col4row=jnp.asarray(col4row, jnp.int32),
            row4col=jnp.asarray(inverse(col4row, shape[-1]), jnp.int32),
            col_dual=jnp.asarray(col_dual, float),
        )
        res = jm.check_assignment(result=result.replace(**changes), **problem)
        return jax.tree.map(np.asarray, res)


def inverse(col4row: np.ndarray, m: int) -> np.ndarray:
    row4col = np.full((*col4row.shape[:-1], m), -1)
    for *b, i in np.argwhere((col4row >= 0) & (col4row < m)):
        row4col[*b, col4row[*b, i]] = i
    return row4col


def split(problem: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: x if k == "maximize" else x[b] for k, x in problem.items()} for b in range(BATCH)]


def exact(one: dict[str, Any], col4row: np.ndarray, col_dual: np.ndarray) -> Fraction | None:
    """The gap, or None where this is no assignment or no proof."""
    try:
        return prove(col4row=col4row, col_dual=col_dual, **one)[1]
    except AssertionError:
        return None


def random_problem(
    rng: np.random.Generator, shape: tuple[int, int], masks: bool, unmatched: bool, maximize: bool
) -> dict[str, Any]:
    n, m = shape
    forbid = -np.inf if maximize else np.inf
    cost = rng.integers(-9, 10, (BATCH, n, m)).astype(np.float32)
    cost[rng.random(cost.shape) < 0.1] = forbid
    problem: dict[str, Any] = {"cost": cost, "maximize": maximize}
    if masks:
        problem["row_mask"] = rows = rng.random((BATCH, n)) < 0.7
        problem["col_mask"] = cols = rng.random((BATCH, m)) < 0.7
        cost[~(rows[:, :, None] & cols[:, None, :])] = np.nan
    if unmatched:
        problem["unmatched_cost"] = rng.choice([-9, 0, 3, forbid], (BATCH, n)).astype(np.float32)
    return problem


FEATURES = list(itertools.product([(4, 4), (3, 5), (5, 3)], *[[False, True]] * 3))


@pytest.mark.parametrize("shape, masks, unmatched, maximize", FEATURES)
def test_every_combination_of_features(shape, masks, unmatched, maximize):
    rng = np.random.default_rng(FEATURES.index((shape, masks, unmatched, maximize)))
    problem = random_problem(rng, shape, masks, unmatched, maximize)
    ones = split(problem)
    n, m = shape
    solved = [linear_program(**one) for one in ones]
    found = np.array([x is not None for x in solved])
    assert found.sum() > BATCH / 4
    nothing = np.full(n, -1), np.zeros(m)
    best, dual = map(np.stack, zip(*(nothing if x is None else x for x in solved), strict=True))

    # An optimum passes. (Where there is none, an empty matching is refused.)
    got = check(problem, best, dual)
    assert (got.valid == found).all()
    assert (got.gap == np.where(found, 0, np.inf)).all()

    # Other matchings, right and wrong ones, and other duals: as rational arithmetic has it.
    swapped = best.copy()
    swapped[:, [0, 1]] = best[:, [1, 0]]
    dropped = np.where(np.arange(n) == rng.integers(0, n, (BATCH, 1)), -1, best)
    doubled = np.where(np.arange(n) == 0, best[:, 1:2], best)
    anything = np.argsort(rng.random((BATCH, max(n, m))))[:, :n]
    anything = np.where((anything < m) & (rng.random((BATCH, n)) < 0.8), anything, -1)
    for col4row, col_dual in [
        (swapped, dual),
        (dropped, dual),
        (doubled, dual),
        (anything, dual),
        (best, dual + rng.integers(-1, 2, dual.shape)),
        (best, rng.integers(-9, 10, dual.shape)),
        (anything, 0 * dual),
    ]:
        got = check(problem, col4row, col_dual)
        expected = [exact(*x) for x in zip(ones, col4row, col_dual, strict=True)]
        assert got.valid.tolist() == [x is not None for x in expected]
        assert got.gap.tolist() == [np.inf if x is None else float(x) for x in expected]
        assert got.optimal.tolist() == [x == 0 for x in expected]


@pytest.fixture(scope="module")
def solved() -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Square problems, all with a solution; every row and column is matched."""
    rng = np.random.default_rng(100)
    cost = rng.integers(-9, 10, (BATCH, 4, 4)).astype(np.float32)
    problem = {"cost": cost, "maximize": False}
    col4row, col_dual = map(np.stack, zip(*(linear_program(c) for c in cost), strict=True))
    return problem, col4row, col_dual


def test_wrong_results_are_refused(solved):
    problem, col4row, col_dual = solved
    row4col = inverse(col4row, 4)
    refused = {
        "row4col of another matching": (col4row, {"row4col": np.roll(row4col, 1, -1)}),
        "row4col that knows less": (col4row, {"row4col": np.full((BATCH, 4), -1)}),
        "row4col out of range": (col4row, {"row4col": row4col + 4}),
        "column out of range": (np.where(col4row == 0, 4, col4row), {"row4col": row4col}),
        "negative column": (np.where(col4row == 0, -2, col4row), {"row4col": row4col}),
    }
    for what, (col4row, changes) in refused.items():
        got = check(problem, col4row, col_dual, **changes)
        assert not got.valid.any(), what
        assert (got.gap == np.inf).all() and not got.optimal.any(), what
    # A row4col that knows more needs rows that may stay unmatched.
    problem = problem | {"unmatched_cost": np.zeros((BATCH, 4), np.float32)}
    nobody = np.full((BATCH, 4), -1)
    assert check(problem, nobody, col_dual).valid.all()
    assert not check(problem, nobody, col_dual, row4col=row4col).valid.any()


def test_feasible_is_not_optimal():
    """An assignment of cost 6, beside duals which prove that 5 is the optimum."""
    cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    res = jm.solve_assignment(cost)
    assert jm.check_assignment(cost, res).optimal
    other = res.replace(col4row=jnp.array([0, 1, 2]), row4col=jnp.array([0, 1, 2]))
    check = jm.check_assignment(cost, other)
    assert check.valid and not check.optimal and check.gap == 1


@pytest.mark.parametrize("status", Status)
def test_status_is_not_looked_at(status):
    """As in the other two checks: results of any solver need none."""
    cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    res = jm.solve_assignment(cost).replace(status=jnp.int32(status))
    assert jm.check_assignment(cost, res).optimal
    x, y = jnp.array([[0.0, 0.0], [1.0, 0.0]]), jnp.array([[1.0, 0.0], [0.0, 0.0]])
    res = jm.solve_assignment_points(x, y)
    assert jm.check_assignment_points(x, y, res.replace(status=jnp.int32(status))).valid


def test_results_without_a_solution():
    """No pairs and NaN for duals: feasible only where nothing has to be matched, proved nowhere."""
    cost = jnp.full((2, 2), jnp.inf)
    none = jm.solve_assignment(cost)
    assert none.status == Status.INFEASIBLE
    check = jm.check_assignment(cost, none)
    assert not check.valid and not check.optimal and check.gap == jnp.inf
    # All rows may stay unmatched: no pairs are an assignment, but there is no proof without duals.
    check = jm.check_assignment(cost, none, unmatched_cost=1.0)
    assert check.valid and not check.optimal and check.gap == jnp.inf
    # There is nothing to match.
    masked = {"row_mask": jnp.zeros(2, bool), "col_mask": jnp.zeros(2, bool)}
    check = jm.check_assignment(cost, jm.solve_assignment(cost, **masked), **masked)
    assert check.valid and check.optimal and check.gap == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_duals_that_prove_nothing(solved, value):
    problem, col4row, col_dual = solved
    col_dual = col_dual.copy()
    col_dual[:, 2] = value
    got = check(problem, col4row, col_dual)
    assert got.valid.all() and (got.gap == np.inf).all() and not got.optimal.any()


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_costs_that_allow_no_proof(solved, value):
    problem, col4row, col_dual = solved
    cost = problem["cost"].copy()
    cost[np.arange(BATCH), 0, (col4row[:, 0] + 1) % 4] = value
    got = check(problem | {"cost": cost}, col4row, col_dual)
    assert (got.gap == np.inf).all()


@pytest.mark.parametrize("x64, dtype", [(False, "float32"), (True, "float64"), (True, "float32")])
def test_rounding_only_widens_the_gap(solved, x64, dtype):
    """Random numbers of all magnitudes: never below the exact gap, and hardly above it."""
    _, col4row, _ = solved
    rng = np.random.default_rng(101)
    cost = rng.standard_normal((BATCH, 4, 4)) * 10 ** rng.uniform(-6, 6, (BATCH, 1, 1))
    cost[::2] *= 10 ** rng.uniform(-6, 6, cost[::2].shape)
    problem = {"cost": cost.astype(dtype), "maximize": False}
    col_dual = (cost.min(1) * rng.uniform(0.9, 1.1, (BATCH, 1))).astype("f8" if x64 else "f4")
    got = check(problem, col4row, col_dual, x64)
    assert got.valid.all()
    eps = Fraction(float(np.finfo(col_dual.dtype).eps))
    for one, row, v, gap in zip(split(problem), col4row, col_dual, got.gap, strict=True):
        expected = exact(one, row, v)
        most = as_fraction(np.abs(one["cost"]).max())
        assert expected <= as_fraction(gap) <= expected * (1 + 20 * eps) + 100 * eps**2 * most


@pytest.mark.parametrize("x64, dtype", [(False, "int32"), (True, "int64")])
def test_integers_that_no_float_holds(solved, x64, dtype):
    _, col4row, _ = solved
    rng = np.random.default_rng(102)
    info = np.iinfo(dtype)
    cost = rng.integers(info.min, info.max, (BATCH, 4, 4), dtype=dtype, endpoint=True)
    cost[::2] = cost[:1] + rng.integers(0, 9, cost[::2].shape)  # differ in digits a float drops
    cost[0, 0, 0], cost[0, 1, 1] = info.min, info.max
    r = cost[:, 0] // 2
    for maximize in (False, True):
        problem = {"cost": cost, "unmatched_cost": r, "maximize": maximize}
        col_dual = rng.uniform(-1, 0, (BATCH, 4)) * 2.0**info.bits
        col_dual[::2] = 0
        col_dual = col_dual.astype("f8" if x64 else "f4") * (-1 if maximize else 1)
        got = check(problem, col4row, col_dual, x64)
        assert got.valid.all()
        eps = Fraction(float(np.finfo(col_dual.dtype).eps))
        for one, row, v, gap in zip(split(problem), col4row, col_dual, got.gap, strict=True):
            expected = exact(one, row, v)
            assert expected <= as_fraction(gap) <= expected * (1 + 20 * eps) + 1


def test_denormal_numbers_and_the_end_of_the_range(solved):
    """What XLA flushes to zero is in the gap; what does not fit makes it infinite."""
    _, col4row, _ = solved
    rng = np.random.default_rng(103)
    scale = rng.choice([1e-45, 1e-40, 1e-38, 1.5e-38, 1e-37, 1e-33, 1e-31], (BATCH, 4, 4))
    scale[::4] *= 1e7
    scale[1::4] = rng.choice([1e-38, 1e38], (4, 4))
    cost = (scale * rng.uniform(-3, 3, scale.shape)).astype(np.float32)
    for col_dual in (np.zeros((BATCH, 4), np.float32), cost.min(1)):
        got = check({"cost": cost, "maximize": False}, col4row, col_dual)
        assert got.valid.all()
        for b in range(BATCH):
            expected = exact({"cost": cost[b]}, col4row[b], col_dual[b])
            assert got.gap[b] == np.inf or expected <= as_fraction(got.gap[b])
            if np.abs(cost[b]).max() < 1e30:
                assert as_fraction(got.gap[b]) <= expected * Fraction(1.001) + Fraction(1e-35)


def test_integers_prove_exactly_zero_in_every_dtype(solved):
    problem, col4row, col_dual = solved
    for x64, dtype in itertools.product([False, True], ["bfloat16", "float16", "int32"]):
        got = check(problem | {"cost": jnp.asarray(problem["cost"], dtype)}, col4row, col_dual, x64)
        assert got.valid.all() and (got.gap == 0).all()
        assert got.gap.dtype == (np.float64 if x64 else np.float32)


@pytest.mark.parametrize("n, m", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_match(n, m):
    nothing = np.full(n, -1), np.zeros(m)
    got = check({"cost": np.zeros((n, m), np.float32)}, *nothing)
    assert got.valid and got.gap == 0
    got = check({"cost": np.zeros((n, m), np.float32), "unmatched_cost": np.inf}, *nothing)
    assert got.valid == (n == 0)


def test_transformations(solved):
    """Batched, vmapped, nested and single checks agree; inside jit; no gradient."""
    problem, col4row, col_dual = solved
    cost = problem["cost"]
    result = Assignment.empty(cost.shape).replace(
        col4row=jnp.asarray(np.roll(col4row, 1, -1), jnp.int32),
        row4col=jnp.asarray(inverse(np.roll(col4row, 1, -1), 4), jnp.int32),
        col_dual=jnp.asarray(col_dual, jnp.float32),
    )
    batched = jm.check_assignment(cost, result)
    assert (batched.gap > 0).any()
    vmapped = jax.jit(jax.vmap(jm.check_assignment))(cost, result)
    nested = jax.tree.map(lambda x: x.reshape(2, BATCH // 2, *x.shape[1:]), (cost, result))
    nested = jax.tree.map(lambda x: x.reshape(BATCH), jm.check_assignment(*nested))
    one = jm.check_assignment(cost[5], jax.tree.map(lambda x: x[5], result))
    for other in (vmapped, nested):
        jax.tree.map(np.testing.assert_array_equal, batched, other)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[5], batched), one)
    assert (jax.grad(lambda c: jm.check_assignment(c, result).gap.sum())(cost) == 0).all()


def test_results_of_other_shapes_are_errors(solved):
    problem, *_ = solved
    with pytest.raises(ValueError, match=r"`result\.col4row` must have shape"):
        jm.check_assignment(problem["cost"], Assignment.empty((BATCH, 5, 4)))
    with pytest.raises(ValueError, match=r"`result\.row4col` must have shape"):
        jm.check_assignment(problem["cost"], Assignment.empty((BATCH, 4, 5)))
