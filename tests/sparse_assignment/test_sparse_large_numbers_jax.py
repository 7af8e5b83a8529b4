"""Numbers far above all others in the pure-JAX twin and on CUDA, and in each dtype on the CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse as sp
from helpers import to_numpy, x64

import jaxmatch as jm
from jaxmatch._sparse_assignment import large_numbers, scipy_like, solve


SOLVERS = ["xla", pytest.param("cuda", marks=pytest.mark.gpu)]


def full_graph(n: int, m: int) -> jm.BipartiteGraph:
    return jm.BipartiteGraph.from_edges(
        np.repeat(np.arange(n), m), np.tile(np.arange(m), n), (n, m)
    )


def solve_on(solver: str, graph: Any, cost: Any, **given: Any) -> jm.Assignment:
    """The result of the twin, or that of the kernels."""
    maximize = given.pop("maximize", False)
    method = "xla" if solver == "xla" else "auto"

    def run(graph: Any, cost: Any, given: Any) -> jm.Assignment:
        return jm.solve_sparse_assignment(graph, cost, maximize=maximize, method=method, **given)

    with jax.default_device(jax.devices("cpu" if solver == "xla" else solver)[0]):
        arguments = jax.device_put((graph, jnp.asarray(cost), jax.tree.map(jnp.asarray, given)))
        return to_numpy(jax.jit(run)(*arguments))


def marked(seed: int, shape: tuple[int, ...], share: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Costs, and pairs that nobody should choose; those of the diagonal stay."""
    random = np.random.default_rng(seed)
    forbidden = random.random(shape) < share
    k = np.arange(min(shape[-2:]))
    forbidden[..., k, k] = False
    return random.random(shape), forbidden


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:-2], -1)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("side", [6, pytest.param(200, marks=pytest.mark.gpu)])
def test_as_with_infinity(side, wide, maximize, solver):
    """Costs, duals and gaps are those of +inf, also of a batch of which one holds +inf itself."""
    real, sign = np.float64 if wide else np.float32, -1 if maximize else 1
    cost, forbidden = marked(1, (5, side, side + 1))
    bigs = np.array([1e9, 1e15, 1e30, float(np.finfo(real).max), np.inf])[:, None, None]
    graph = full_graph(side, side + 1)
    with x64(wide):
        run = partial(solve_on, solver, graph, maximize=maximize)
        res = run(sign * flat(np.where(forbidden, bigs, cost)).astype(real))
        want = run(sign * flat(np.where(forbidden, np.inf, cost)).astype(real))
    for field in ("col4row", "cost", "gap", "row_dual", "col_dual", "status"):
        np.testing.assert_array_equal(getattr(res, field), getattr(want, field))
    assert (res.status == jm.Status.OPTIMAL).all()
    # Kernels count units of 2^-50 of the largest cost.
    least = 2.0**-50 if solver == "cuda" else 0.0
    assert (res.gap <= side * max(np.finfo(real).eps, least)).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_prices_that_demand_a_pair(dtype, solver):
    """Large prices of rows and columns; integers beside such prices."""
    cost, forbidden = marked(2, (3, 6, 7))
    cost, real = np.floor(cost * 100), np.dtype(getattr(ml_dtypes, dtype, dtype))
    big = 1e18
    given = np.where(forbidden & (dtype != "int32"), big, cost)
    r, s = np.where(np.arange(6) % 2, big, 20.0), np.where(np.arange(7) % 3, 0.0, big)
    with x64(dtype == "float64"):
        res = solve_on(
            solver, full_graph(6, 7), flat(given).astype(real),
            unmatched_cost=r, unmatched_col_cost=s,
        )  # fmt: skip
        wide = float if dtype == "float64" else np.float32
        want = jm.solve_sparse_assignment(
            full_graph(6, 7),
            flat(np.where(given == big, np.inf, given)).astype(real).astype(wide),
            unmatched_cost=np.where(r == big, np.inf, r),
            unmatched_col_cost=np.where(s == big, np.inf, s),
        )
    assert (res.status == jm.Status.OPTIMAL).all()
    np.testing.assert_array_equal(res.cost, want.cost)
    assert (res.gap <= 1e-3).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_numbers_that_must_be_paid(solver):
    """The next tier, all costs, or no solution: what a large number means depends on the others."""
    base, _ = marked(3, (4, 4, 4))
    cost = np.where(np.eye(4), 1e18, base)
    cost[0, 0] = 1e6  # the second tier is needed, not the third
    cost[1, 0] = 1e18  # all are needed
    cost[2, :2] = [[np.inf, np.inf, np.inf, 1e18]] * 2  # infeasible
    cost[3, 0, 0] = np.nan
    with x64(True):
        res = solve_on(solver, full_graph(4, 4), flat(cost))
        want = jm.solve_sparse_assignment(full_graph(4, 4), flat(cost))
    np.testing.assert_array_equal(res.status, want.status)
    np.testing.assert_allclose(res.cost, want.cost, rtol=1e-14)
    assert (res.gap[:2] <= 1e-13 * res.cost[:2]).all()
    assert res.cost[0] < 2e6


def test_wanted_numbers_are_not_forbidden():
    """A large gain is the aim, and a large cost that buys it is paid."""
    cost = np.array([[-1e12, 1.0, 2.0], [3.0, 1e11, 1.0], [1.0, 2.0, 1e14]])
    with x64(True):
        for c in (cost, cost[:, ::-1]):
            res = jm.solve_sparse_assignment(full_graph(3, 3), c.ravel(), method="xla")
            assert float(res.cost) == -1e12 + 3
        # The first pair pays for the second one.
        res = jm.solve_sparse_assignment(
            full_graph(2, 2), np.array([-1e12, 1.0, 1.0, 1e11]), method="xla"
        )
        assert float(res.cost) == -9e11


def test_mapped_and_differentiated():
    """Each of a mapped batch has its own limit; the derivative is that of the costs given."""
    cost, forbidden = marked(4, (3, 5, 5))
    cost[1] *= 1e15
    given = flat(np.where(forbidden, 1e12 * cost.max((1, 2), keepdims=True), cost))
    graph = full_graph(5, 5)

    def value(c: Any) -> Any:
        return jm.solve_sparse_assignment(graph, c, method="xla").cost

    with x64(True):
        got, slope = jax.jit(jax.vmap(jax.value_and_grad(value)))(given)
        want = jm.solve_sparse_assignment(graph, flat(np.where(forbidden, np.inf, cost)))
    np.testing.assert_array_equal(got, want.cost)
    chosen = np.zeros((3, 5, 5))
    np.put_along_axis(chosen, np.asarray(want.col4row)[..., None], 1, -1)
    np.testing.assert_array_equal(slope, flat(chosen))


@pytest.mark.parametrize("maximize", [False, True])
def test_forbidden_in_the_costs_that_a_kernel_reads(maximize):
    """Kernels take no limit: what reaches it is infinite in the arrays of the problem."""
    sign, graph = -1 if maximize else 1, full_graph(5, 5)
    cost, forbidden = marked(5, (3, 5, 5))
    cost[2, 0] = 1e20  # must be paid
    given, r = sign * np.where(forbidden, 1e20, cost), sign * np.float32([1e20, 1e20, 0.2, 1, 1])
    problem = solve.SparseProblem(
        jnp.asarray(flat(given), jnp.float32), unmatched_cost=jnp.tile(r, (3, 1))
    )
    calls = []

    def kernel(graph, problem):
        """Reports a gap of the roundings at the scale of the greatest number, as a kernel does."""
        numbers = jnp.concatenate([problem.cost, problem.unmatched_cost], -1)
        calls.append(numbers)
        most = jnp.where(jnp.isfinite(numbers), jnp.abs(numbers), 0).max(-1)
        res, edge = solve._native(graph, problem, maximize=maximize, platform="cpu")
        return res.replace(gap=most * 2.0**-50), edge

    solve_all = jax.jit(
        partial(large_numbers.solve_without_large_numbers, kernel, maximize=maximize)
    )
    res, _ = solve_all(graph, problem)
    want = jm.solve_sparse_assignment(
        graph, flat(given).astype(np.float32), unmatched_cost=r, maximize=maximize
    )
    np.testing.assert_array_equal(res.cost, want.cost)
    assert (res.gap[:2] < 1e-14).all() and res.gap[2] > 1e4
    assert len(calls) == 2  # one call in the program, traced for its shapes and in the loop


def test_integers_beside_large_prices():
    """A kernel gets integers as they are, and prices far above them as infinite ones."""
    graph, seen = full_graph(6, 7), []
    cost = np.random.default_rng(8).integers(0, 2**30, (2, 42), np.int32)
    r = np.where(np.arange(6) % 2, 1e18, 20.0).astype(np.float32)

    def kernel(graph, problem):
        seen.append(problem.cost.dtype)
        jax.debug.callback(lambda x: seen.append(x), problem.unmatched_cost)
        return solve._native(graph, problem, maximize=False, platform="cpu")

    problem = solve.SparseProblem(jnp.asarray(cost), unmatched_cost=jnp.tile(r, (2, 1)))
    solve_all = partial(large_numbers.solve_without_large_numbers, kernel, maximize=False)
    res, _ = jax.jit(solve_all)(graph, problem)
    jax.effects_barrier()
    want = jm.solve_sparse_assignment(graph, cost, unmatched_cost=r)
    np.testing.assert_array_equal(res.cost, want.cost)
    assert (res.status == jm.Status.OPTIMAL).all()
    dtypes, prices = seen[:-1], seen[-1]
    assert dtypes and all(x == jnp.int32 for x in dtypes)
    np.testing.assert_array_equal(np.isinf(prices), np.tile(np.arange(6) % 2 == 1, (2, 1)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_each_dtype_on_the_cpu(dtype):
    """Batches of native solves, whose costs round to 8, 24 or 53 bits."""
    real = np.dtype(getattr(ml_dtypes, dtype, dtype))
    cost, forbidden = marked(6, (4, 20, 20))
    bigs = np.array([1e6, 1e12, 1e30, 3e38])[:, None, None]
    with x64(dtype == "float64"):
        res = jm.solve_sparse_assignment(
            full_graph(20, 20), flat(np.where(forbidden, bigs, cost)).astype(real)
        )
        want = jm.solve_sparse_assignment(
            full_graph(20, 20), flat(np.where(forbidden, np.inf, cost)).astype(real)
        )
    np.testing.assert_array_equal(res.cost, want.cost)
    assert (np.asarray(res.gap) <= 1e-5).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n", [5, 40])
def test_integers_up_to_the_greatest_on_the_cpu(n, dtype):
    """Sums of such integers would leave 64 bits, those of what is chosen do not."""
    cost, forbidden = marked(7, (2, n, n))
    cost = np.floor(cost * 1000)
    most = np.iinfo(dtype).max
    for big in (most, most // 2, 2**61 // n if dtype == "int64" else 10**9):
        given = cost.astype(dtype)
        given[forbidden] = big
        with x64(dtype == "int64"):
            res = jm.solve_sparse_assignment(full_graph(n, n), flat(given))
        want = jm.solve_sparse_assignment(
            full_graph(n, n), flat(np.where(forbidden, np.inf, cost)).astype(np.float32)
        )
        np.testing.assert_array_equal(res.status, [jm.Status.OPTIMAL] * 2)
        np.testing.assert_array_equal(res.cost, want.cost)
        np.testing.assert_array_equal(res.gap, 0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_in_the_twin(dtype):
    """It computes in floats: what these round of large integers is no part of the gap."""
    cost, forbidden = marked(8, (6, 6))
    given = np.floor(cost * 1000).astype(dtype)
    given[forbidden] = np.iinfo(dtype).max // 4 - 2
    with x64(dtype == "int64"):
        res = jm.solve_sparse_assignment(full_graph(6, 6), given.ravel(), method="xla")
        want = jm.solve_sparse_assignment(full_graph(6, 6), given.ravel())
    assert int(res.cost) == int(want.cost) and float(res.gap) == 0


def test_the_function_without_a_gap_raises_if_rounding_hides_the_optimum(monkeypatch):
    A = sp.csr_array(np.array([[1.0, 2.0], [3.0, 5.0]]))
    rows, cols = jm.min_weight_full_bipartite_matching(A)
    assert cols.tolist() == [1, 0]
    native = scipy_like._solve_here
    for part, raises in ((2.0**-37, False), (2.0**-35, True), (np.nan, False), (np.inf, True)):

        def solve_here(*given, part=part):
            status, col4row, _, edge = native(*given)
            return status, col4row, 5 * part, edge

        monkeypatch.setattr(scipy_like, "_solve_here", solve_here)
        if raises:
            with pytest.raises(ValueError, match="too far apart"):
                jm.min_weight_full_bipartite_matching(A)
        else:
            jm.min_weight_full_bipartite_matching(A)
