"""`solve_transport`: the same bits again, in any batch, under `vmap` and on meshes; warm starts."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, problem, to_numpy, x64
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from transport_truth import assert_true

import jaxmatch as jm


METHODS = ("network_simplex", "xla")
KINDS = ("all", "partial", "unmatched", "masked")
BATCH, N, M = 8, 7, 9


def problems(seed: int, kind: str, *, size: int = BATCH, n: int = N, m: int = M) -> dict[str, Any]:
    """Ties in every other problem, so that there are several optima; one problem has none."""
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=(size, n, m)).astype(np.float32)
    cost[::2] = rng.integers(0, 3, cost[::2].shape)
    cost[rng.random(cost.shape) < 0.05] = np.inf
    cost[1, 0] = np.inf
    a, b = (rng.dirichlet(np.ones(k), size).astype(np.float32) for k in (n, m))
    a[2:4], b[2:4] = 1 / n, 1 / m
    given = {"cost": cost, "supply": a, "demand": b}
    if kind == "partial":
        given["partial"] = rng.random(size).astype(np.float32) * 0.9
    if kind == "unmatched":
        given["unmatched_cost"] = rng.normal(size=(size, n)).astype(np.float32)
    if kind == "masked":
        given["row_mask"], given["col_mask"] = (
            rng.random((size, n)) < 0.8,
            rng.random((size, m)) < 0.8,
        )
        for name, mask in (("supply", "row_mask"), ("demand", "col_mask")):
            given[mask][:, 0] = True
            x = np.where(given[mask], given[name], 0)
            x = x / x.sum(1, keepdims=True)
            given[name] = np.where(given[mask], x, np.nan).astype(np.float32)
    return given


def solver(given: dict[str, Any], method: str, *others: str) -> Any:
    """The function of the arrays in their order; `others` come last."""
    names = [*given, *others]

    def solve(*arrays: Any) -> jm.Transport:
        return jm.solve_transport(**dict(zip(names, arrays, strict=True)), method=method)

    return solve


def arrays_of(given: dict[str, Any]) -> list[Any]:
    return [jnp.asarray(x) for x in given.values()]


# ---------------------------------------------------------------------------------------------
# The same bits


@pytest.mark.parametrize("mass", ["float32", "int32"])
def test_a_hundred_times_the_same_bits(mass, platform):
    """Also where several plans are optimal, with and without `jit`."""
    given = problems(0, "all", n=24, m=31)
    if mass == "int32":
        rng = np.random.default_rng(1)
        given["supply"] = rng.integers(0, 9, (BATCH, 24)).astype(np.int32)
        each = [rng.multinomial(x.sum(), np.ones(31) / 31) for x in given["supply"]]
        given["demand"] = np.stack(each).astype(np.int32)
    arrays, solve = arrays_of(given), solver(given, "network_simplex")
    expected = to_numpy(solve(*arrays))
    assert (expected.status == 0).sum() >= BATCH - 2
    compiled = jax.jit(solve)
    for k in range(100):
        assert_same_bits((compiled if k % 2 else solve)(*arrays), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_in_any_company(kind, platform):
    """One call, a loop, `vmap`, nested `vmap`, another order, and other leading axes."""
    given = problems(2, kind)
    arrays, solve = arrays_of(given), solver(given, METHODS[0])
    solve = jax.jit(solve) if platform == "cuda" else solve
    together = to_numpy(solve(*arrays))
    assert together.status[1] == jm.Status.INFEASIBLE or kind != "all"
    for k in range(0, BATCH, 3):
        assert_same_bits(solve(*(x[k] for x in arrays)), problem(together, k))
    assert_same_bits(jax.vmap(solve)(*arrays), together)
    nested = [x.reshape(2, 4, *x.shape[1:]) for x in arrays]
    for res in (solve(*nested), jax.jit(jax.vmap(jax.vmap(solve), 1, 1))(*nested)):
        assert_same_bits(jax.tree.map(lambda x: x.reshape(BATCH, *x.shape[2:]), res), together)
    order = np.random.default_rng(3).permutation(BATCH)
    assert_same_bits(solve(*(x[order] for x in arrays)), problem(together, order))


# Over which arguments, and the axes of these.
OVER = {
    "cost": (0, None, None),
    "supply": (None, 0, None),
    "demand": (None, None, 0),
    "cost and demand": (0, None, 0),
    "last axis of the costs": (2, None, None),
}


@pytest.mark.parametrize(
    "over, method", [*((x, METHODS[0]) for x in OVER), ("cost and demand", "xla")]
)
def test_vmap_over_some_arguments(over, method, platform):
    given = problems(4, "all")
    axes = OVER[over]
    arrays = [x[5] if axis is None else x for x, axis in zip(arrays_of(given), axes, strict=True)]
    if axes[0] == 2:
        arrays[0] = jnp.moveaxis(arrays[0], 0, 2)
    solve = solver(given, method)
    res = to_numpy(jax.jit(jax.vmap(solve, axes))(*arrays))
    for k in range(0, BATCH, 3):
        one = [
            x if axis is None else jnp.take(x, k, axis)
            for x, axis in zip(arrays, axes, strict=True)
        ]
        own = jax.jit(solve)(*one) if method == "xla" else solve(*one)
        assert_same_bits(own, problem(res, k))


def test_vmap_over_masks_and_amounts(platform):
    given = problems(5, "masked")
    cost, a, b = (jnp.asarray(given[name][5]) for name in ("cost", "supply", "demand"))
    a, b = jnp.full(N, 9), jnp.full(M, 7)

    def masked(rows: Any) -> jm.Transport:
        return jm.solve_transport(cost, a, b, row_mask=rows, partial=8)

    def moving(amount: Any) -> jm.Transport:
        return jm.solve_transport(cost, a, b, partial=amount)

    def staying(r: Any) -> jm.Transport:
        return jm.solve_transport(cost, a, b, unmatched_cost=r)

    masks = jnp.eye(N, dtype=bool) | (jnp.arange(N)[None] < 2)
    for f, xs in ((masked, masks), (moving, jnp.arange(0, 60, 7)), (staying, jnp.arange(-2.0, 3))):
        res = to_numpy(jax.vmap(f)(xs))
        assert (res.status == 0).sum() >= len(xs) - 1
        for k in range(len(xs)):
            assert_same_bits(f(xs[k]), problem(res, k))


def test_leading_axes_broadcast(platform):
    given = problems(6, "all")
    cost, a, b = arrays_of(given)
    res = to_numpy(jm.solve_transport(cost[4:, None], a[4], b[2:5]))
    assert res.status.shape == (4, 3) and res.mass.shape == (4, 3, N + M - 1)
    for i, j in np.ndindex(4, 3):
        assert_same_bits(jm.solve_transport(cost[4 + i], a[4], b[2 + j]), problem(res, (i, j)))
    with pytest.raises(ValueError, match="broadcast"):
        jm.solve_transport(cost, a[:3], b)


def test_numpy_and_jax_arrays_give_the_same_bits():
    for kind in KINDS:
        given = problems(7, kind)
        res = jm.solve_transport(**given)
        assert all(type(x) is np.ndarray for x in jax.tree.leaves(res))
        assert_same_bits(solver(given, "auto")(*arrays_of(given)), res)
        # 64-bit NumPy arrays are solved as under x64.
        wide = {k: x if x.dtype == bool else x.astype(np.float64) for k, x in given.items()}
        res = jm.solve_transport(**wide)
        assert res.cost.dtype == res.mass.dtype == np.float64
        with x64(True):
            assert_same_bits(jax.jit(solver(wide, "auto"))(*arrays_of(wide)), res)


def test_methods_agree(platform):
    """On the optimum; the plans may differ, so each is proved by itself."""
    given = problems(9, "unmatched")
    arrays = arrays_of(given)
    one, other = (to_numpy(jax.jit(solver(given, method))(*arrays)) for method in METHODS)
    np.testing.assert_array_equal(one.status, other.status)
    np.testing.assert_allclose(one.cost, other.cost, rtol=1e-5, atol=1e-6)
    for res in (one, other):
        check = jm.check_transport(*arrays[:3], res, unmatched_cost=arrays[3])
        assert (np.asarray(check.valid) | (res.status != 0)).all()
        assert (np.asarray(check.gap)[res.status == 0] < 1e-5).all()


# ---------------------------------------------------------------------------------------------
# Meshes


@pytest.fixture
def devices(platform):
    found = jax.devices(platform)
    if len(found) < 2:
        pytest.skip("needs two devices")
    return found[: 4 if len(found) >= 4 else 2]


def collectives(program: str) -> list[str]:
    return re.findall(
        r"(?:all-gather|all-to-all|collective-permute|reduce-scatter)[a-z-]*\(", program
    )


AXES = (AxisType.Auto, AxisType.Explicit, AxisType.Auto)


@pytest.mark.parametrize("kind, axis", zip(KINDS[1:], AXES, strict=True), ids=str)
def test_meshes(axis, kind, devices):
    """What else a problem has is placed as its costs are."""
    given = problems(10, kind)
    arrays, solve = arrays_of(given), jax.jit(solver(given, "network_simplex"))
    expected = to_numpy(solve(*arrays))
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(axis,), devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, over) for x in arrays]
        program = solve.lower(*placed).compile()
        res = program(*placed)
        assert collectives(program.as_text()) == []
    for x in jax.tree.leaves(res):
        assert x.sharding.is_equivalent_to(over, x.ndim)
        assert x.addressable_shards[0].data.shape[0] == BATCH // len(devices)
    assert_same_bits(res, expected)


@pytest.mark.parametrize("axis", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_dense_plans_on_meshes(axis, devices):
    given = problems(16, "all")
    arrays, solve = arrays_of(given), solver(given, "network_simplex")
    dense = jax.jit(lambda *x: solve(*x).todense())
    expected = to_numpy(dense(*arrays))
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(axis,), devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    with jax.set_mesh(mesh):
        placed = [jax.device_put(x, over) for x in arrays]
        program = dense.lower(*placed).compile()
        assert collectives(program.as_text()) == []
        got = program(*placed)
    assert got.sharding.is_equivalent_to(over, 3)
    assert_same_bits(got, expected)


def test_vmap_in_a_shard_map(devices):
    """Costs are everywhere, unmatched costs are not."""
    given = problems(11, "unmatched")
    arrays, solve = arrays_of(given), solver(given, "network_simplex")
    spec = PartitionSpec("batch")
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(AxisType.Auto,), devices=devices)
    mapped = jax.shard_map(
        lambda *x: jax.vmap(solve, (None, None, None, 0))(*x),
        mesh=mesh, in_specs=(PartitionSpec(),) * 3 + (spec,), out_specs=spec,
    )  # fmt: skip
    one = [x[4] for x in arrays[:3]]
    res = to_numpy(jax.jit(mapped)(*one, arrays[3]))
    for k in range(0, BATCH, 3):
        assert_same_bits(jax.jit(solve)(*one, arrays[3][k]), problem(res, k))


def test_problems_that_lie_on_several_devices(devices):
    """Costs sharded by columns are gathered, and a batch that does not divide is padded."""
    given = problems(12, "all", m=8)
    arrays, solve = arrays_of(given), jax.jit(solver(given, "network_simplex"))
    mesh = jax.make_mesh((len(devices),), ("x",), axis_types=(AxisType.Auto,), devices=devices)
    by_cols = jax.device_put(arrays[0], NamedSharding(mesh, PartitionSpec(None, None, "x")))
    assert_same_bits(solve(by_cols, *arrays[1:]), solve(*arrays))
    some = jax.jit(lambda *x: solve(*(y[: BATCH - 1] for y in x)))
    over = NamedSharding(mesh, PartitionSpec("x"))
    assert_same_bits(some(*(jax.device_put(x, over) for x in arrays)), some(*arrays))


# ---------------------------------------------------------------------------------------------
# Warm starts


def starts(rng: Any, res: Any) -> dict[str, Any]:
    v = np.asarray(res.col_dual)
    return {
        "own": res,
        "duals": v,
        "shifted": v + np.float32(1000),
        "near": v + 1e-3 * rng.normal(size=v.shape).astype(v.dtype),
        "random": 1e3 * rng.normal(size=v.shape).astype(v.dtype),
        "huge": np.full_like(v, np.finfo(v.dtype).max),
        "tiny": np.full_like(v, np.finfo(v.dtype).tiny),
        "nan": np.full_like(v, np.nan),
        "some infinite": np.where(np.arange(v.shape[-1]) % 2, np.inf, v),
        "one for all": v[0],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_warm_starts(kind, platform):
    """Whatever the duals are, the optimum is the same, and it is proved."""
    rng = np.random.default_rng(13)
    given = problems(14, kind)
    given["cost"] = np.round(8 * given["cost"])  # exact in float32
    arrays, masks = arrays_of(given), list(given.items())[3:]
    res = to_numpy(jm.solve_transport(*arrays[:3], **dict(masks)))
    for maximize in (False, True):
        sign = -1 if maximize else 1
        options = {k: sign * x if k == "unmatched_cost" else x for k, x in masks}
        signed = sign * arrays[0], *arrays[1:3]
        for name, start in starts(rng, res).items():
            start = -start if maximize and name != "own" else start
            again = jm.solve_transport(*signed, maximize=maximize, warm_start=start, **options)
            np.testing.assert_array_equal(again.status, res.status, err_msg=name)
            np.testing.assert_allclose(
                sign * again.cost, res.cost, rtol=1e-6, atol=1e-6, err_msg=name
            )
            check = jm.check_transport(*signed, again, maximize=maximize, **options)
            assert (np.asarray(check.gap)[res.status == 0] < 1e-4).all(), name


def test_warm_starts_of_other_sizes_of_masses():
    """From a problem whose masses or costs have changed, as in training."""
    rng = np.random.default_rng(15)
    cost = rng.integers(0, 99, (30, 20)).astype(np.float64)
    last = None
    for _ in range(6):
        a = rng.integers(0, 9, 30)
        b = rng.multinomial(a.sum(), np.ones(20) / 20)
        cost = cost + rng.integers(-2, 3, cost.shape)
        res = jm.solve_transport(cost, a, b, warm_start=last)
        cold = jm.solve_transport(cost, a, b)
        assert (res.status, res.gap) == (0, 0)
        assert res.cost == cold.cost
        last = res
    assert assert_true(cost[:4, :4], a[:4], a[3::-1], jm.solve_transport(
        cost[:4, :4], a[:4], a[3::-1], warm_start=last.col_dual[:4]
    )) == "OPTIMAL"  # fmt: skip


def test_errors_of_warm_starts():
    cost, a = np.ones((2, 2), np.float32), np.ones(2, np.int32)
    with pytest.raises(ValueError, match="warm_start"):
        jm.solve_transport(cost, a, a, warm_start=np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="warm_start"):
        jm.solve_transport(cost, a, a, warm_start="cold")


@pytest.mark.gpu
def test_repeats_with_more_candidates_than_threads():
    """Many ties, and more arcs that may enter a basis at once than a block has threads."""
    n = 4096
    rng = np.random.default_rng(0)
    centers = rng.integers(0, 1000, (20, 2))
    x, y = (centers[rng.integers(0, 20, n)] + rng.integers(-20, 21, (n, 2)) for _ in range(2))
    cost = ((x[:, None] - y) ** 2).sum(-1).astype(np.int32)
    supply = rng.integers(1, 10**6, n).astype(np.int32)
    arrays = [jax.device_put(a) for a in (cost, supply, rng.permutation(supply))]
    solve = jax.jit(jm.solve_transport)
    res = solve(*arrays)
    assert jm.check_transport(*arrays, res).valid
    for _ in range(10):
        assert_same_bits(solve(*arrays), res)
