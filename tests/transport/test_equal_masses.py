"""Transport between equal masses begins with an assignment on a GPU, problem by problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import to_numpy, x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from jaxmatch._assignment import native
from jaxmatch._transport import equal_masses
from jaxmatch._transport.problem import as_problem


_N = 6


def batch(kinds):
    """A batch of problems, of which those of kind "equal" have equal masses."""
    random = np.random.default_rng(len(kinds))
    cost = random.random((len(kinds), _N, _N)).astype(np.float32)
    supply, demand = (
        random.dirichlet(np.ones(_N), len(kinds)).astype(np.float32) for _ in range(2)
    )
    for k, kind in enumerate(kinds):
        if kind == "equal":
            supply[k] = demand[k] = 1 / _N
        if kind == "rows":
            supply[k] = 1 / _N
        if kind == "nothing":
            supply[k] = demand[k] = 0
        if kind == "forbidden":
            supply[k] = demand[k] = 1 / _N
            cost[k, 0] = np.inf
    return cost, supply, demand


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [["equal"] * 3, ["any", "rows"], ["equal", "any", "nothing", "rows", "forbidden", "equal"]],
    ids=["all", "none", "some"],
)
def test_starts(monkeypatch, kinds, maximize):
    """Where all masses are alike: the columns of the optimum, and its duals. Nothing elsewhere."""

    def on_cpu(problem, *, maximize):
        return native.assignment(*problem, maximize=maximize, platform="cpu")

    monkeypatch.setattr(equal_masses, "on_cuda", on_cpu)
    cost, supply, demand = batch(kinds)
    cost = -cost if maximize else cost

    @jax.jit
    def starts(*arrays):
        return equal_masses.starts(as_problem(*arrays), maximize)

    cols, duals = (np.asarray(x) for x in starts(cost, supply, demand))
    for k, kind in enumerate(kinds):
        if kind != "equal":
            assert (cols[k] == -1).all() and np.isnan(duals[k]).all()
            continue
        assert (cols[k] == linear_sum_assignment(cost[k], maximize)[1]).all()
        sign = -1 if maximize else 1
        reduced = sign * (cost[k] - duals[k])
        assert (reduced[np.arange(_N), cols[k]] <= reduced.min(1) + 1e-6).all()


def test_shapes_without_assignments():
    cost = jnp.zeros((4, 3, 3))
    ones, mask = jnp.ones((4, 3)), jnp.ones((4, 3), bool)
    assert equal_masses.may_be_equal(as_problem(cost, ones, ones))
    assert not equal_masses.may_be_equal(as_problem(cost, ones, ones, mask))
    assert not equal_masses.may_be_equal(as_problem(cost, ones, ones, partial=1.0))
    assert not equal_masses.may_be_equal(as_problem(cost[..., :2], ones, ones[..., :2]))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
@pytest.mark.parametrize("maximize", [False, True])
def test_on_a_gpu(dtype, maximize):
    """The optimum of the CPU, and the same bits under `vmap`."""
    kinds = ["equal", "any", "nothing", "rows", "forbidden", "equal"]
    with x64(True):
        cost, supply, demand = batch(kinds)
        cost = np.where(np.isinf(cost), cost, np.round(cost * 100))
        cost = -cost if maximize else cost
        if dtype == "int32":
            cost = np.where(np.isinf(cost), 200, cost)
        arrays = [jnp.asarray(cost).astype(dtype), jnp.asarray(supply), jnp.asarray(demand)]
        gpu = [jax.device_put(x, jax.devices("cuda")[0]) for x in arrays]

        def solve(*arrays):
            return jm.solve_transport(*arrays, maximize=maximize)

        res = to_numpy(jax.jit(solve)(*gpu))
        mapped = to_numpy(jax.jit(jax.vmap(solve))(*gpu))
        on_cpu = to_numpy(jm.solve_transport(*map(np.asarray, arrays), maximize=maximize))
        for x, y in zip(jax.tree.leaves(res), jax.tree.leaves(mapped), strict=True):
            np.testing.assert_array_equal(x, y)
        assert (res.status == on_cpu.status).all()
        np.testing.assert_allclose(res.cost, on_cpu.cost, rtol=1e-12)
        check = jm.check_transport(*arrays, res, maximize=maximize)
        assert (np.asarray(check.valid) == (res.status == jm.Status.OPTIMAL)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(1, 700), (3, 200)], ids=str)
def test_no_pivots(size):
    b, n = size
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, b, n, 3))
    cost = jnp.asarray(((x[:, :, None] - y[:, None]) ** 2).sum(-1).astype(np.float32))
    masses = jnp.full((b, n), 1 / n, jnp.float32)
    problem = as_problem(cost, masses, masses)
    solve = jax.jit(equal_masses.counted_on_cuda, static_argnames="maximize")
    res, counts = solve(problem, maximize=False)
    assert (counts == 0).all()
    check = jm.check_transport(cost, masses, masses, res)
    assert np.asarray(check.valid).all()
    for k in range(b):
        rows, cols = linear_sum_assignment(cost[k])
        np.testing.assert_allclose(res.cost[k], np.asarray(cost[k])[rows, cols].mean(), rtol=1e-6)
