"""The pure-JAX assignment solver against exhaustive search, scipy and exact arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import as_fraction, prove
from jax.sharding import AxisType, PartitionSpec
from oracles import brute_force, scipy_optimum

import jaxmatch as jm
from jaxmatch import Status


pytestmark = pytest.mark.usefixtures("optimised")


# Compiling takes the time here, so problems of one shape share one call.
BATCH = 64


def solve(problem: dict[str, Any], x64: bool = False) -> Any:
    """A batch on the twin, as NumPy arrays."""
    with jax.enable_x64(x64):
        return jax.tree.map(np.asarray, jm.solve_assignment(**problem, method="xla"))


def split(problem: dict[str, Any], res: Any) -> Any:
    """Each problem of a batch with its result; the warm start is the solver's business."""
    for b in range(len(res.status)):
        one = {k: x if k == "maximize" else x[b] for k, x in problem.items() if k != "warm_start"}
        yield one, jax.tree.map(lambda x, b=b: x[b], res)


def random_problem(
    seed: int,
    shape: tuple[int, int],
    dtype: str = "float32",
    *,
    masks: str = "",
    unmatched: bool = False,
    maximize: bool = False,
    warm: bool = False,
) -> dict[str, Any]:
    """Small integers: ties, forbidden pairs, NaN where masked, any number of rows and columns."""
    rng = np.random.default_rng(seed)
    n, m = shape
    floating = dtype.startswith("float")
    sign = -1 if maximize else 1
    cost = rng.integers(-9, 10, (BATCH, n, m)).astype(dtype)
    if floating:
        forbidden = rng.random((BATCH, 1, 1)) * 0.6
        cost = np.where(rng.random(cost.shape) < forbidden, sign * np.inf, cost).astype(dtype)
    problem: dict[str, Any] = {"cost": cost, "maximize": maximize}
    for side, name, size in (("r", "row_mask", n), ("c", "col_mask", m)):
        if side in masks:
            mask = rng.random((BATCH, size)) < rng.choice([0.3, 0.7, 1.0], (BATCH, 1))
            problem[name] = mask
            if floating:  # what is masked is not looked at
                gone = ~mask[:, :, None] if side == "r" else ~mask[:, None, :]
                rubbish = rng.choice(np.array([np.nan, -np.inf, np.inf], dtype), cost.shape)
                problem["cost"] = cost = np.where(gone, rubbish, cost)
    if unmatched:
        r = rng.integers(-9, 10, (BATCH, n)).astype(dtype)
        if floating:
            r = np.where(rng.random(r.shape) < 0.3, sign * np.inf, r).astype(dtype)
        problem["unmatched_cost"] = r
    if warm:
        v = rng.integers(-9, 10, (BATCH, m)).astype(np.float32)
        v[::4] = rng.standard_normal((len(v[::4]), m))
        v[1::8] *= 1e30
        v[5::16, 0] = np.nan
        v[13::16, 0] = -np.inf
        problem["warm_start"] = v
    return problem


def assert_contract(one: dict[str, Any], res: Any, optimum: Fraction | None) -> None:
    """Everything the docstring of `solve_assignment` promises, for costs that round nothing."""
    if optimum is None:
        assert_unsolved(res, Status.INFEASIBLE)
        return
    assert res.status == Status.OPTIMAL
    cost, gap = prove(col4row=res.col4row, col_dual=res.col_dual, **one)
    assert cost == optimum
    assert gap == 0
    assert as_fraction(res.cost) == optimum
    assert res.gap == 0
    assert (res.row4col == inverse(res.col4row, len(res.row4col))).all()
    # The row duals: feasible, tight where they must be, 0 where masked, and of the right sum. They
    # are rounded where a warm start with fractions left fractions in the column duals.
    atol = 0 if (res.col_dual == np.rint(res.col_dual)).all() else 1e-5
    n, m = one["cost"].shape
    sign = -1 if one["maximize"] else 1
    rows, cols = one.get("row_mask", np.ones(n, bool)), one.get("col_mask", np.ones(m, bool))
    u, v = sign * res.row_dual.astype(float), sign * res.col_dual.astype(float)
    assert (u[~rows] == 0).all() and (v[~cols] == 0).all()
    assert abs(u.sum() + v.sum() - sign * float(optimum)) <= atol
    c = sign * one["cost"][np.ix_(rows, cols)].astype(float)
    assert (u[rows][:, None] + v[cols][None, :] <= c + atol).all()
    r = one.get(
        "unmatched_cost", np.zeros(n) if rows.sum() > cols.sum() else sign * np.full(n, np.inf)
    )
    assert (u[rows] <= sign * r[rows] + atol).all()
    if "unmatched_cost" in one or rows.sum() < cols.sum():
        assert (v[cols] <= 0).all()
        assert (v[cols & (res.row4col < 0)] == 0).all()


def assert_unsolved(res: Any, status: Status) -> None:
    assert Status(int(res.status)) is status
    assert (res.col4row == -1).all() and (res.row4col == -1).all()
    assert all(np.isnan(x).all() for x in (res.cost, res.row_dual, res.col_dual, res.gap))


def inverse(col4row: np.ndarray, m: int) -> np.ndarray:
    row4col = np.full(m, -1)
    row4col[col4row[col4row >= 0]] = np.flatnonzero(col4row >= 0)
    return row4col


# Masks make problems of every effective shape, so both sides get their turn to be matched.
@pytest.mark.parametrize(
    "x64, options",
    [
        (False, {"shape": (6, 6), "masks": "rc"}),
        (True, {"shape": (6, 6), "masks": "rc", "dtype": "int32", "maximize": True}),
        (False, {"shape": (4, 6), "masks": "c", "maximize": True, "warm": True}),
        (False, {"shape": (6, 4), "masks": "c", "warm": True}),
        (True, {"shape": (6, 4), "dtype": "float64"}),
        (False, {"shape": (5, 4), "masks": "rc", "unmatched": True, "warm": True}),
        (True, {"shape": (4, 5), "dtype": "int64", "unmatched": True, "maximize": True}),
        (False, {"shape": (5, 5), "warm": True, "maximize": True}),
    ],
    ids=lambda x: "-".join(str(v) for v in x.values()) if isinstance(x, dict) else f"x64={x}",
)
def test_is_the_optimum_of_all_matchings(x64, options):
    problem = random_problem(1, **options)
    infeasible = 0
    for one, res in split(problem, solve(problem, x64)):
        optimum = brute_force(**one)
        infeasible += optimum is None
        assert_contract(one, res, optimum)
    assert infeasible < BATCH / 2, "the instances are too hard to say anything"


@pytest.mark.parametrize("x64", [False, True])
def test_float_costs(x64):
    rng = np.random.default_rng(2)
    cost = rng.standard_normal((BATCH, 30, 40)).astype("float64" if x64 else "float32")
    cost[::3] *= 10.0 ** rng.uniform(-8, 8, cost[::3].shape)
    cost[1::3] = 1e4 + rng.random(cost[1::3].shape)  # an offset that eats most digits
    problem = {"cost": cost, "maximize": False}
    exact_ones = 0
    for one, res in split(problem, solve(problem, x64)):
        value, gap = prove(col4row=res.col4row, col_dual=res.col_dual, **one)
        assert gap <= as_fraction(res.gap)
        assert value - scipy_optimum(**one) <= as_fraction(res.gap)
        assert as_fraction(res.gap) <= 1e3 * np.finfo(cost.dtype).eps * np.abs(one["cost"]).max()
        assert abs(as_fraction(res.cost) - value) <= np.finfo(cost.dtype).eps * abs(value)
        exact_ones += gap == res.gap
    assert exact_ones > BATCH / 2  # the bound is the exact gap, but for its own last digit


def test_integers_that_no_float_holds():
    """Above 2^24 (2^53) costs are rounded, and the gap knows it."""
    rng = np.random.default_rng(3)
    for x64, dtype, high in ((False, "int32", 2**31), (True, "int64", 2**58)):
        cost = rng.integers(-high, high, (BATCH, 4, 5), dtype=dtype)
        cost[: BATCH // 2] //= 2**40 if x64 else 2**16
        r = cost[:, :, 0] // 2
        problem = {"cost": cost, "unmatched_cost": r, "maximize": True}
        for b, (one, res) in enumerate(split(problem, solve(problem, x64))):
            value, _ = prove(col4row=res.col4row, col_dual=res.col_dual, **one)
            assert brute_force(**one) - value <= as_fraction(res.gap)
            assert (res.gap == 0) == (b < BATCH // 2)


def test_the_longest_paths_of_integers_are_exact():
    """The last row moves every other one, along a path that sums up 2n - 1 costs of one sign."""
    n, most = 30, 2**23 // 30 - 1
    i = np.arange(n - 1)
    cost = np.full((BATCH, n, 40), np.inf, np.float32)
    cost[:, i, i] = i % 3 - most
    cost[:, i, i + 1] = most - i % 2
    cost[:, n - 1, 0] = most
    problem = {"cost": cost, "maximize": False}
    for one, res in itertools.islice(split(problem, solve(problem)), 1):
        assert_contract(one, res, scipy_optimum(**one))
        assert res.row_dual.max() > 0.95 * 2**24  # no room for costs twice as long


def test_numbers_at_both_ends_of_the_range():
    """Nothing hangs, and what is proved is true; denormal numbers may be read as 0."""
    rng = np.random.default_rng(4)
    with np.errstate(under="ignore"):
        scales = np.array([1e38, 3e37, 1e30, 1.0, 1e-30, 1e-36, 1e-38, 1e-40, 1e-45, 0], np.float32)
        cost = rng.choice(scales, (BATCH, 5, 5)) * rng.choice([-3, -1, 1, 2.5], (BATCH, 5, 5))
        cost[::4] = rng.choice(scales, (len(cost[::4]), 1, 1))
        cost[1::4] = rng.choice(scales[4:], cost[1::4].shape) * rng.random(cost[1::4].shape)
        cost = cost.astype(np.float32)
    cost[0], cost[0, :, 2] = -3e38, 3e38  # all want column 2, and the difference is no float
    assert np.isfinite(cost).all()
    problem = random_problem(5, (5, 5), warm=True, maximize=True) | {"cost": cost}
    for one, res in split(problem, solve(problem)):
        assert res.status == Status.OPTIMAL
        value, _ = prove(col4row=res.col4row, col_dual=np.zeros(5), **one)
        assert brute_force(**one) - value <= as_fraction(res.gap)
        assert res.gap <= max(1e-5 * np.abs(one["cost"]).max(), 1e-34)


def test_status():
    inf, nan = np.inf, np.nan
    problem = random_problem(6, (6, 6), masks="rc")
    cost = np.zeros((BATCH, 6, 6), np.float32)
    problem |= {
        "cost": cost,
        "row_mask": np.ones((BATCH, 6), bool),
        "col_mask": np.ones((BATCH, 6), bool),
    }
    expected = [Status.OPTIMAL] * BATCH

    cost[0, 3, 4], expected[0] = nan, Status.INVALID_COST
    cost[1, 3, 4], expected[1] = -inf, Status.INVALID_COST
    cost[2, 3, :], expected[2] = inf, Status.INFEASIBLE
    cost[3, :, 3], expected[3] = inf, Status.INFEASIBLE
    cost[4, 3:, 2:], expected[4] = inf, Status.INFEASIBLE  # three rows, two columns
    cost[5, 3:, 3:] = inf
    cost[6, 3, :], cost[6, 0, 0], expected[6] = inf, nan, Status.INVALID_COST
    cost[7, 3, :], problem["row_mask"][7, 3] = nan, False
    cost[8, :, 3], problem["col_mask"][8, 3] = -inf, False
    problem["row_mask"][9], problem["col_mask"][10] = False, False
    cost[11, 3, :], problem["row_mask"][11, 0], expected[11] = inf, False, Status.INFEASIBLE
    cost[12, 3, :], problem["col_mask"][12, 0] = inf, False  # row 3 is the one too many
    for (_, res), status in zip(split(problem, solve(problem)), expected, strict=True):
        if status is Status.OPTIMAL:
            assert res.status == status and res.cost == 0 and res.gap == 0
        else:
            assert_unsolved(res, status)

    problem = random_problem(6, (5, 4), masks="rc", unmatched=True, warm=True)
    r = np.zeros((BATCH, 5), np.float32)
    problem |= {
        "cost": np.zeros((BATCH, 5, 4), np.float32),
        "unmatched_cost": r,
        "row_mask": np.ones((BATCH, 5), bool),
        "col_mask": np.ones((BATCH, 4), bool),
    }
    expected = [Status.OPTIMAL] * BATCH
    r[0, 2], expected[0] = nan, Status.INVALID_COST
    r[1, 2], expected[1] = -inf, Status.INVALID_COST
    r[2], expected[2] = inf, Status.INFEASIBLE
    r[3, :4] = inf
    r[4, 2], problem["row_mask"][4, 2] = nan, False
    r[5, 2], problem["cost"][5, 2], expected[5] = inf, inf, Status.INFEASIBLE
    r[6, 2], problem["col_mask"][6], expected[6] = inf, False, Status.INFEASIBLE
    problem["col_mask"][7] = False
    for (_, res), status in zip(split(problem, solve(problem)), expected, strict=True):
        if status is Status.OPTIMAL:
            assert res.status == status and res.cost == 0
        else:
            assert_unsolved(res, status)


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("leave, status", [(1e15, Status.OPTIMAL), (1e308, Status.OVERFLOW)])
def test_overflow_without_a_column(method, leave, status):
    with jax.enable_x64(True):
        cost = np.zeros((3, 0), np.int32)
        res = jm.solve_assignment(cost, unmatched_cost=leave, method=method)
    assert int(res.status) == status
    if status is Status.OPTIMAL:
        assert float(res.cost) == 3 * leave


def test_overflow():
    """min(rows, columns) * max|C| >= 2^61, evaluated without overflowing."""
    problem = random_problem(7, (4, 5), "int64", unmatched=True, maximize=True)
    cost, r = np.zeros((BATCH, 4, 5), np.int64), np.zeros((BATCH, 4), np.int64)
    problem |= {"cost": cost, "unmatched_cost": r}
    expected = [Status.OPTIMAL] * BATCH
    cost[0, 1, 1] = 2**59 - 1
    cost[1, 1, 1], expected[1] = 2**59, Status.OVERFLOW
    cost[2, 1, 1], expected[2] = -(2**59), Status.OVERFLOW
    cost[3, 1, 1], expected[3] = -(2**63), Status.OVERFLOW
    cost[4, 1, 1], expected[4] = 2**63 - 1, Status.OVERFLOW
    r[5, 1], expected[5] = -(2**63), Status.OVERFLOW
    r[6, 1] = -(2**59) + 1
    for (_, res), status in zip(split(problem, solve(problem, x64=True)), expected, strict=True):
        if status is Status.OPTIMAL:
            assert res.status == status
        else:
            assert_unsolved(res, status)


@pytest.mark.parametrize("n, m", [(0, 3), (3, 0)])
def test_nothing_to_match(n, m):
    res = jm.solve_assignment(jnp.zeros((n, m)), method="xla")
    assert res.col4row.shape == res.row_dual.shape == (n,)
    assert res.row4col.shape == res.col_dual.shape == (m,)
    assert (res.status, res.cost, res.gap) == (Status.OPTIMAL, 0, 0)
    assert (res.col4row == -1).all() and (res.row_dual == 0).all() and (res.col_dual == 0).all()


def test_rows_without_columns():
    r = jnp.array([[1.0, 2.0, 4.0], [1.0, jnp.inf, 4.0]])
    res = jm.solve_assignment(jnp.zeros((2, 3, 0)), unmatched_cost=r, method="xla")
    assert (res.status == np.array([Status.OPTIMAL, Status.INFEASIBLE])).all()
    assert res.cost[0] == 7 and (res.row_dual[0] == r[0]).all() and np.isnan(res.cost[1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats(dtype):
    cost = jnp.asarray(np.random.default_rng(8).standard_normal((8, 8)), dtype)
    res = jm.solve_assignment(cost, method="xla")
    assert res.cost.dtype == jnp.float32
    value, gap = prove(cost, res.col4row, res.col_dual)
    assert value == scipy_optimum(cost) and gap == 0 == res.gap


def test_same_bits_in_every_batch():
    problem = random_problem(9, (6, 4), masks="c", warm=True)
    rng = np.random.default_rng(9)
    problem["cost"] = problem["cost"] + rng.random((BATCH, 6, 4), np.float32) / 3

    def part(index: Any) -> Any:
        return solve({k: x if k == "maximize" else x[index] for k, x in problem.items()})

    together = part(slice(None))
    for index in (slice(None, None, -1), slice(3), 1):
        expected = jax.tree.map(lambda x, index=index: x[index], together)
        jax.tree.map(np.testing.assert_array_equal, part(index), expected)


def test_shard_map():
    """Each device solves its part, with some operands split over the devices and some not."""
    if len(jax.devices()) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,))
    everywhere, by_problem = PartitionSpec(), PartitionSpec("batch")
    rng = np.random.default_rng(10)
    args = (rng.random((4, 5), np.float32), rng.random((8, 4)) < 0.7, np.zeros(5, np.float32))

    def solve_masked(cost: Any, row_mask: Any, warm_start: Any) -> Any:
        cost = jnp.broadcast_to(cost, (len(row_mask), 4, 5))
        return jm.solve_assignment(cost, row_mask=row_mask, warm_start=warm_start, method="xla")

    sharded = jax.shard_map(
        solve_masked,
        mesh=mesh,
        in_specs=(everywhere, by_problem, everywhere),
        out_specs=by_problem,
    )
    got = jax.jit(sharded)(*args)
    assert len(got.cost.sharding.device_set) == 4
    jax.tree.map(np.testing.assert_array_equal, got, jax.jit(solve_masked)(*args))
