"""Capacities in every dtype, in batches, on meshes, with masks, and the same bits again."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, numpy_dtype, problem, to_numpy, x64
from jax.sharding import AxisType, NamedSharding, PartitionSpec
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


@pytest.mark.parametrize("name", ["least", "rows"])
def test_the_same_bits(name, platform):
    """A hundred times, in batches, under `vmap`, and over the amounts alone."""
    rng = np.random.default_rng(6)
    cost = rng.integers(0, 3, (6, 5, 3)).astype(np.float32)
    cost[::2] = rng.random(cost[::2].shape)
    given = {k: jnp.asarray(x, jnp.int32) for k, x in GIVEN[name].items()}
    cost = jnp.asarray(cost)

    def one(c: Any, given: Any) -> Any:
        return solve(c, **given)

    run = jax.jit(one)
    expected = to_numpy(run(cost, given))
    assert (expected.status == 0).all()
    for _ in range(100):
        assert_same_bits(run(cost, given), expected)
    for k in range(0, 6, 2):
        assert_same_bits(run(cost[k], given), problem(expected, k))
    assert_same_bits(jax.vmap(one, (0, None))(cost, given), expected)
    nested = jax.jit(jax.vmap(jax.vmap(one, (0, None)), (0, None)))(cost.reshape(2, 3, 5, 3), given)
    assert_same_bits(jax.tree.map(lambda x: x.reshape(6, *x.shape[2:]), nested), expected)
    amounts = jnp.arange(2, 7)
    over = to_numpy(jax.vmap(lambda b: one(cost[0], given | {"col_capacity": b}))(amounts))
    for k in range(5):
        assert_same_bits(one(cost[0], given | {"col_capacity": amounts[k]}), problem(over, k))


@pytest.mark.parametrize(
    "name, axis",
    [("plain", AxisType.Auto), ("rows", AxisType.Auto), ("least", AxisType.Explicit)],
    ids=str,
)
def test_meshes(name, axis, platform):
    """Capacities of all problems, and capacities of each."""
    devices = jax.devices(platform)[:4]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    rng = np.random.default_rng(7)
    cost = jnp.asarray(rng.random((8, 5, 3)).astype(np.float32))
    capacity = jnp.asarray(rng.integers(2, 6, (8, 3)).astype(np.int32))
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(axis,), devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    given = {k: jnp.asarray(x, jnp.int32) for k, x in GIVEN[name].items()}

    def both(c: Any, b: Any) -> Any:
        return solve(c, **given), solve(c, **given | {"col_capacity": b})

    def slope(c: Any, b: Any) -> Any:
        return jax.grad(lambda c: sum(jnp.nansum(x.cost) for x in both(c, b)))(c)

    expected = to_numpy((jax.jit(both)(cost, capacity), jax.jit(slope)(cost, capacity)))
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, over) for x in (cost, capacity)]
        program = jax.jit(both).lower(*placed).compile()
        assert (
            re.findall(r"all-gather|all-to-all|collective-permute|all-reduce", program.as_text())
            == []
        )
        got = program(*placed), jax.jit(slope)(*placed)
        for x in jax.tree.leaves(got):
            assert x.sharding.is_equivalent_to(over, x.ndim)
    assert_same_bits(got, expected)


@pytest.mark.parametrize("name", ["plain", "rows"])
def test_checks_on_meshes(name, platform):
    devices = jax.devices(platform)[:4]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    cost = jnp.asarray(np.random.default_rng(9).random((8, 5, 3)).astype(np.float32))
    given = {k: jnp.asarray(x, jnp.int32) for k, x in GIVEN[name].items()}
    res = jax.jit(lambda c: solve(c, **given))(cost)
    kind = (AxisType.Auto,)
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=kind, devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    check = jax.jit(lambda c, res: jm.check_capacitated_assignment(c, res, **given))
    with jax.set_mesh(mesh):
        placed = jax.device_put((cost, res), over)
        program = check.lower(*placed).compile()
        assert re.findall(r"all-gather|collective-permute|all-reduce", program.as_text()) == []
        got = program(*placed)
    assert got.gap.sharding.is_equivalent_to(over, 1) and (np.asarray(got.gap) < 1e-5).all()


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


def test_no_problems(platform):
    for name, options in GIVEN.items():
        shape = (0, 5, 3) if name == "plain" else (2, 0, 5, 3)
        res = jax.jit(lambda c, options=options: solve(c, **options))(jnp.zeros(shape))
        assert res.cost.shape == shape[:-2]
        if name == "rows":
            assert res.todense().shape == shape
        else:
            assert res.col4row.shape == shape[:-1] and res.col_count.shape == (*shape[:-2], 3)
