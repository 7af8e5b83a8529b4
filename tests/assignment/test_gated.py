"""Problems that no block of a GPU holds: the same reductions, with solvers of the CPU behind."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_checked,
    assert_proved,
    assert_same_bits,
    numpy_dtype,
    to_numpy,
    x64,
)
from jax.sharding import AxisType, PartitionSpec

import jaxmatch as jm
from jaxmatch._assignment import gated
from jaxmatch._assignment.methods import _xla
from jaxmatch._assignment.problem import as_problem


INF, NAN = np.inf, np.nan


@partial(jax.jit, static_argnames="maximize")
def solve(cost, maximize=False, **given):
    """What runs on CUDA, by the CPU's core method and its transport."""
    problem = as_problem(cost, **given)
    twin = partial(_xla, maximize=maximize)
    return gated.solve_beyond_blocks(problem, maximize=maximize, platform="cpu", twin=twin)


def targets(cost, **given):
    text = solve.lower(cost, **given).as_text()
    names = ("jaxmatch_assignment_core", "jaxmatch_transport")
    return {name for name in names if f"@{name}(" in text}


def assert_as_native(cost, maximize=False, **given):
    """The status and the optimum of the CPU's solver, and a proof of it without a gap."""
    res = to_numpy(solve(cost, maximize=maximize, **given))
    native = to_numpy(jm.solve_assignment(cost, maximize=maximize, **given))
    np.testing.assert_array_equal(res.status, native.status)
    np.testing.assert_array_equal(res.cost, native.cost)
    solved = res.status == jm.Status.OPTIMAL
    kept = {name: np.asarray(x)[solved] for name, x in given.items()}
    assert_proved(
        np.asarray(cost)[solved],
        jax.tree.map(lambda x: x[solved], res),
        maximize=maximize,
        **kept,
    )
    for x in (res.cost, res.gap, res.row_dual, res.col_dual):
        assert np.isnan(x[~solved]).all()
    assert (res.col4row[~solved] == -1).all() and (res.row4col[~solved] == -1).all()
    return res


SHAPES = [(6, 6), (5, 9), (9, 5), (8, 2), (1, 1), (1, 7)]


def costs_and_gates(shape, dtype, seed=0, count=8):
    """Ties at the gate and elsewhere; some rows whose gate no pair passes, some without one."""
    rng = np.random.default_rng([*shape, seed])
    cost = rng.integers(-9, 20, (count, *shape)).astype(dtype)
    r = rng.integers(-6, 15, (count, shape[0])).astype(dtype)
    r[:, ::3] = cost.max(2)[:, ::3] + dtype.type(1)
    if jnp.issubdtype(dtype, jnp.floating):
        cost[rng.random(cost.shape) < 0.3] = INF
        r[rng.random(r.shape) < 0.15] = INF
    return cost, r


@pytest.mark.parametrize("maximize", [False, True], ids=["min", "max"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_the_native_solver(shape, maximize):
    sign = np.float32(-1 if maximize else 1)
    cost, r = costs_and_gates(shape, np.dtype(np.float32))
    res = assert_as_native(sign * cost, maximize, unmatched_cost=sign * r)
    if min(shape) > 1:
        assert (res.col4row[res.status == jm.Status.OPTIMAL] < 0).any()
        assert (res.col4row >= 0).any()
    rng = np.random.default_rng(1)
    masks = {"row_mask": rng.random(r.shape) < 0.7}
    masks["col_mask"] = rng.random((len(cost), shape[1])) < 0.7
    masks["row_mask"][0] = False
    masks["col_mask"][1] = False
    cost[~(masks["row_mask"][:, :, None] & masks["col_mask"][:, None, :])] = NAN
    r[~masks["row_mask"]] = NAN
    assert_as_native(sign * cost, maximize, unmatched_cost=sign * r, **masks)


@pytest.mark.parametrize("dtype, on", DTYPES, ids=str)
def test_dtypes(dtype, on):
    """Whatever the dtype of unmatched costs is."""
    turn = DTYPES.index((dtype, on)) + on
    with x64(on):
        for k, shape in enumerate([(7, 8), (9, 2)]):
            cost, r = costs_and_gates(shape, numpy_dtype(dtype))
            cost = jnp.asarray(cost)
            gates = ["float32", "int32"] + (["float64", "int64"] if on else [])
            for kind in gates[(k + turn) % 2 :: 2]:
                if kind.startswith("int"):
                    r = np.where(np.isfinite(r.astype(float)), r, 99)
                given = r.astype(kind)
                if jnp.issubdtype(cost.dtype, jnp.floating) or kind.startswith("int"):
                    assert_as_native(cost, unmatched_cost=given)
                else:
                    assert_as_native(cost, unmatched_cost=given + np.asarray(0.25, kind))


def test_families():
    """Costs with structure; gates for none, some and most of the rows."""
    rng = np.random.default_rng(2)
    x, y = rng.random((2, 40, 2))
    clouds = ((x[:, None] - y) ** 2).sum(-1)
    away = ((x[:, None] / 3 - y - 1) ** 2).sum(-1)
    tied = rng.integers(0, 3, (40, 40)) * 1.0
    product = np.outer(x[:, 0], y[:, 0])
    cost = np.stack([clouds, away, tied, product, 1e4 * rng.random((40, 40)), -clouds])
    cost = np.concatenate([cost] * 3).round(4).astype(np.float32)
    gate = np.concatenate([np.quantile(cost[:6], q, axis=(1, 2)) for q in (0.005, 0.03, 1)]).astype(
        np.float32
    )
    r = np.broadcast_to(gate[:, None], (18, 40))
    for c, given in ((cost, r), (cost[:, :, :31], r), (cost[:, :23], r[:, :23])):
        res = to_numpy(solve(c, unmatched_cost=given))
        native = jm.solve_assignment(c, unmatched_cost=given)
        assert (res.status == jm.Status.OPTIMAL).all()
        np.testing.assert_allclose(res.cost, native.cost, 1e-6)
        assert (res.gap == 0).all()
        assert_checked(c, res, 40, most=1e-5 * np.abs(c).max((1, 2)) * 40, unmatched_cost=given)
        alone = (res.col4row < 0).mean(1)
        assert alone.max() > 0.5 and alone.min() < 0.3


def test_a_pair_that_costs_as_much_as_staying():
    cost = np.array([[[3, 5], [4, 4]], [[3, 3], [3, 3]]], np.float32)
    res = assert_as_native(cost, unmatched_cost=np.array([[3, 4], [3, 3]], np.float32))
    np.testing.assert_array_equal(res.cost, [7, 6])


def test_status():
    cost = np.ones((5, 3, 4), np.float32)
    r = np.full((5, 3), 2, np.float32)
    cost[0, 1], r[0, 1] = INF, INF  # infeasible
    cost[1, 1, 1], cost[2, 2, 3] = NAN, -INF
    r[3, 0], r[4, 2] = NAN, -INF
    expected = [jm.Status.INFEASIBLE] + [jm.Status.INVALID_COST] * 4
    for sign in (1, -1):
        res = assert_as_native(
            np.float32(sign) * cost, sign < 0, unmatched_cost=np.float32(sign) * r
        )
        assert res.status.tolist() == expected


def test_numbers_that_no_float32_holds():
    """Integers beside unmatched costs that are floats, without x64."""
    cost = np.array([[[2**24 + 1, 2**24 + 3], [2**24 + 2, 2**24 + 3]]], np.int32)
    r = np.array([[2.0**24 + 2, 2.0**24 + 4]], np.float32)
    res = to_numpy(solve(cost, unmatched_cost=r))
    # 2^24 + 1 and 2^24 + 3, not 2^24 + 2 twice, which float32 makes of them.
    assert res.col4row.tolist() == [[0, 1]] and res.gap == 0
    assert res.cost.dtype == res.col_dual.dtype == np.float32
    assert res.cost == np.float32(2**25 + 4)
    half = to_numpy(
        solve(np.array([[[7]]], np.int32), unmatched_cost=np.array([[6.5]], np.float32))
    )
    assert half.cost == 6.5 and half.col4row == -1


def test_gap_stays_a_bound():
    """The gap in float64 is rounded up to float32."""
    res = jax.tree.map(lambda x: x[0], jm.Assignment.empty((1, 1, 1)))
    with x64(True):
        wide = res.replace(gap=jnp.array([0, 0.1, 1 + 2.0**-40, 3.0, INF]), cost=jnp.array(0.1))
        found = gated._narrowed(wide, np.dtype(np.float32))
    gap = np.asarray(found.gap)
    assert gap.dtype == np.float32 and (gap.astype(float) >= np.asarray(wide.gap)).all()
    assert gap[0] == 0 and gap[3] == 3 and gap[2] == np.nextafter(np.float32(1), np.float32(2))


@pytest.mark.parametrize("maximize", [False, True])
def test_long_integers(maximize):
    """Transport takes them: exact up to half of what blocks take."""
    rng = np.random.default_rng(3)
    cost = rng.integers(-(2**50), 2**50, (4, 6, 7))
    with x64(True):
        assert targets(cost) == {"jaxmatch_transport"}
        res = to_numpy(solve(cost, maximize=maximize))
        native = jm.solve_assignment(cost, maximize=maximize)
        np.testing.assert_array_equal(res.cost, native.cost)
        check = jm.check_assignment(cost, res, maximize=maximize)
        assert (np.asarray(check.gap) <= 13 * 2.0**-2).all() and np.asarray(check.valid).all()
        tall = cost.transpose(0, 2, 1)
        np.testing.assert_array_equal(solve(tall, maximize=maximize).cost, native.cost)
        r = rng.integers(-(2**50), 2**50, (4, 6))
        res = solve(cost, maximize=maximize, unmatched_cost=r)
        native = jm.solve_assignment(cost, maximize=maximize, unmatched_cost=r)
        np.testing.assert_array_equal(res.cost, native.cost)
        huge = solve(cost * 2**8, maximize=maximize)
        np.testing.assert_array_equal(huge.status, jm.Status.OVERFLOW)


def test_unmatched_costs_of_64_bits_beside_32():
    rng = np.random.default_rng(4)
    cost = rng.integers(-(2**30), 2**30, (5, 6, 7)).astype(np.int32)
    with x64(True):
        r = rng.integers(-(2**30), 2**31, (5, 6))
        assert targets(cost, unmatched_cost=r) == {"jaxmatch_assignment_core", "jaxmatch_transport"}
        for given in (r, r + 2**31, r + 2**55):
            res, native = (
                to_numpy(f(cost, unmatched_cost=given)) for f in (solve, jm.solve_assignment)
            )
            np.testing.assert_array_equal(res.cost, native.cost)
            np.testing.assert_array_equal(res.col4row >= 0, native.col4row >= 0)
        narrow = np.iinfo(np.int32)
        edge = np.where(rng.random(r.shape) < 0.5, narrow.min, narrow.max)
        assert_as_native(cost, unmatched_cost=edge)
        assert_as_native(cost, True, unmatched_cost=edge)


def test_long_integers_beside_floats():
    rng = np.random.default_rng(5)
    cost = rng.integers(0, 2**40, (3, 4, 5))
    r = rng.integers(0, 2**40, (3, 4)) + 0.5
    with x64(True):
        assert_as_native(cost, unmatched_cost=r)
        r[:, 1] = INF
        assert_as_native(cost, unmatched_cost=r)
        # Too long for a float: the twin, whose gap tells what rounding may have cost.
        res = solve(cost * 2**14, unmatched_cost=r)
        native = jm.solve_assignment(cost * 2**14, unmatched_cost=np.where(r == INF, INF, r // 1))
        np.testing.assert_array_equal(res.status, native.status)


def test_overflow_of_floats_beside_integers():
    cost = np.ones((3, 2, 3), np.int32)
    r = np.array([[2.0**59, 1], [2.0**60, 1], [NAN, 2.0**60]], np.float32)
    expected = [jm.Status.OPTIMAL, jm.Status.OVERFLOW, jm.Status.INVALID_COST]
    for f in (solve, jm.solve_assignment):
        res = to_numpy(f(cost, unmatched_cost=r))
        assert res.status.tolist() == expected
    assert np.isnan(to_numpy(solve(cost, unmatched_cost=r)).col_dual[1:]).all()
    mask = np.array([[False, True]] * 3)
    res = solve(cost, unmatched_cost=r, row_mask=mask)
    np.testing.assert_array_equal(res.status, [0, 0, 0 if 2.0**60 < 2.0**61 else 3])


def test_which_solver():
    """The core method, unless the columns of rows would be most of what it reads."""
    core, units = {"jaxmatch_assignment_core"}, {"jaxmatch_transport"}
    r = np.ones((2, 9), np.float32)
    for m, expected in ((9, core), (3, core), (2, units), (0, units)):
        assert targets(np.ones((2, 9, m), np.float32), unmatched_cost=r) == expected
    assert targets(np.ones((9, 9), np.float32)) == core
    assert targets(np.ones((9, 9), np.int32), unmatched_cost=r[0].astype(np.int32)) == core
    assert targets(np.ones((9, 0), np.float32)) == units


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty(shape):
    cost = np.ones((2, *shape), np.float32)
    r = np.ones((2, shape[0]), np.float32)
    assert_as_native(cost, unmatched_cost=r)
    assert_as_native(cost)


def test_vmap():
    """One call for the batch; the choice of a solver is that of all of it."""
    cost, r = costs_and_gates((6, 7), np.dtype(np.int32))
    whole = solve(cost, unmatched_cost=r)
    each = [solve(c, unmatched_cost=x) for c, x in zip(cost, r, strict=True)]
    assert_same_bits(whole, jax.tree.map(lambda *x: jnp.stack(x), *each))
    call = jax.vmap(lambda c, r: solve(c, unmatched_cost=r))
    assert_same_bits(call(cost, r), whole)
    assert_same_bits(solve(cost, unmatched_cost=r), whole)
    with x64(True):
        wide = solve(cost, unmatched_cost=r.astype(np.int64))
        assert_same_bits(call(cost, r.astype(np.int64)), wide)
        np.testing.assert_array_equal(wide.col4row, whole.col4row)


def test_sharded_batches():
    devices = jax.devices("cpu")[:2]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh = jax.make_mesh((2,), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    cost, r = costs_and_gates((5, 6), np.dtype(np.int32))
    spec = PartitionSpec("batch")
    inside = jax.shard_map(
        lambda c, r: solve(c, unmatched_cost=r), mesh=mesh, in_specs=spec, out_specs=spec
    )
    for gates in (r, r.astype(np.float32) + np.float32(0.5)):
        assert_same_bits(jax.jit(inside)(cost, gates), solve(cost, unmatched_cost=gates))
