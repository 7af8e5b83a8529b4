"""The CUDA engine for sparse costs against the CPU's: optima, certificates, the same bits again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.gpu

KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "partial": {"unmatched_cost": 30},
    "columns pay": {"unmatched_cost": 30, "unmatched_col_cost": 20},
    "maximum weight": {"maximize": True, "unmatched_cost": 0},
    "maximum": {"cardinality": "maximum"},
}


def sparse(seed: int, n: int, m: int, degree: int, high: int) -> tuple[Any, np.ndarray]:
    """Random edges, with a dear matching of the smaller side."""
    random = np.random.default_rng(seed)
    rows, cols = np.repeat(np.arange(n), degree), random.integers(0, m, n * degree)
    size = min(n, m)
    rows = np.concatenate([rows, random.permutation(n)[:size]])
    cols = np.concatenate([cols, random.permutation(m)[:size]])
    cost = random.integers(0, high + 1, len(rows))
    cost[-size:] += high
    return jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (n, m))


def on(platform: str, graph: Any, cost: np.ndarray, **given: Any) -> Any:
    with jax.default_device(jax.devices(platform)[0]):
        graph, cost = jax.device_put((graph, jnp.asarray(cost)))
        solve = jax.jit(lambda g, c: jm.solve_sparse_assignment(g, c, **given))
        return to_numpy(solve(graph, cost))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(200, 200), (150, 400), (3000, 2500), (2000, 2000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64"])
def test_as_on_the_cpu(dtype, shape, kind):
    for high in (5, 1000):
        graph, cost = sparse(sum(shape), *shape, 5, high)
        cost, given = cost.astype(dtype), KINDS[kind]
        with x64("64" in dtype):
            gpu, cpu = (on(p, graph, cost, **given) for p in ("cuda", "cpu"))
            check = jm.check_sparse_assignment(graph, cost, gpu, **given)
            again = on("cuda", graph, cost, **given)
        assert gpu.status == cpu.status == jm.Status.OPTIMAL
        np.testing.assert_allclose(gpu.cost, cpu.cost, rtol=1e-6)
        assert check.valid and check.gap <= 1e-6 * abs(float(gpu.cost))
        assert_same_bits(gpu, again)


def test_batches_and_failures():
    graph, cost = sparse(1, 300, 300, 4, 100)
    random = np.random.default_rng(2)
    costs = (cost + random.random((9, len(cost)))).astype(np.float32)
    costs[3] = np.nan
    costs[5, : len(cost) // 2] = np.inf
    gpu, cpu = (on(p, graph, costs) for p in ("cuda", "cpu"))
    np.testing.assert_array_equal(gpu.status, cpu.status)
    np.testing.assert_allclose(gpu.cost, cpu.cost, rtol=1e-6)
    assert gpu.status[3] == jm.Status.INVALID_COST and gpu.status[5] == jm.Status.INFEASIBLE
    small, few = sparse(3, 40, 50, 3, 100)
    large, many = sparse(4, 400, 350, 3, 100)
    graphs = jm.BipartiteGraph.stack([small, large])
    both = np.zeros((2, graphs.max_edges), np.float32)
    both[0, : len(few)], both[1, : len(many)] = few, many
    gpu = on("cuda", graphs, both)
    for k, (g, c) in enumerate(((small, few), (large, many))):
        np.testing.assert_allclose(gpu.cost[k], on("cpu", g, c.astype(np.float32)).cost, rtol=1e-6)


def test_many_small_problems_are_dense():
    graph, cost = sparse(5, 64, 64, 8, 1000)
    costs = np.random.default_rng(6).random((500, len(cost))).astype(np.float32)
    gpu, cpu = (on(p, graph, costs) for p in ("cuda", "cpu"))
    np.testing.assert_array_equal(gpu.status, cpu.status)
    np.testing.assert_allclose(gpu.cost, cpu.cost, rtol=1e-5)


def test_a_large_problem():
    n = 20_000
    graph, cost = sparse(8, n, n, 8, 10**6)
    gpu = on("cuda", graph, cost.astype(np.int32))
    assert gpu.status == jm.Status.OPTIMAL
    assert jm.check_sparse_assignment(graph, cost.astype(np.int32), gpu).valid


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_as_many_pairs_as_possible_of_near_points(dtype):
    """Many updates, in which prices move by up to that of a row: sums must fit."""
    n, random = 40_000, np.random.default_rng(7)
    x, y = random.random((2, n, 2))
    apart, near = scipy.spatial.cKDTree(y).query(x, 10)
    cost = (apart**2 * n * 1000).astype(dtype).ravel()
    rows = np.repeat(np.arange(n), 10)
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, near.ravel(), cost, (n, n))
    gpu, cpu = (on(p, graph, cost, cardinality="maximum") for p in ("cuda", "cpu"))
    assert gpu.status == cpu.status == jm.Status.OPTIMAL
    assert (gpu.col4row >= 0).sum() == (cpu.col4row >= 0).sum()
    np.testing.assert_allclose(gpu.cost, cpu.cost, rtol=1e-6)
