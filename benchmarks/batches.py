"""Batches on a GPU beside their problems one by one.

    python -m benchmarks.batches [--quick] [--out FOLDER]

For each solver: the wall milliseconds of one jitted call on a batch, and the sum of those of its
problems, each in a call of its own. `auto` should never take more than 1.2 times that sum. Costs
and values of both are compared. Writes `batches.json` and `batches.png`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES
from benchmarks.common import options, plots, record
from benchmarks.common.record import Row
from benchmarks.common.timing import timed


MOST_TIMES = 1.2


class Case(NamedTuple):
    """A batch: `solve` takes arrays with or without a batch dimension, and returns (value, gap)."""

    name: str
    shape: str
    solve: Callable[..., tuple[Any, Any]]
    arrays: tuple[np.ndarray, ...]


def exp_of_normal(scale: float) -> Callable[[int, int], np.ndarray]:
    return lambda n, seed: np.exp(scale * np.random.default_rng(seed).normal(size=(n, n)))


def power_of_uniform(power: float) -> Callable[[int, int], np.ndarray]:
    return lambda n, seed: np.random.default_rng(seed).random((n, n)) ** power


def with_outliers(n: int, seed: int) -> np.ndarray:
    """Clusters in a plane, where 2 % of the pairs cost up to 10^6 times as much."""
    rng, costs = np.random.default_rng(seed), FAMILIES["20 clusters"](n, seed)
    return np.where(rng.random(costs.shape) < 0.02, 1e6 * rng.random(costs.shape), costs)


COSTS = {
    "uniform": FAMILIES["uniform"],
    "sphere to shape": FAMILIES["sphere to shape"],
    "20 clusters": FAMILIES["20 clusters"],
    "exp(3 N)": exp_of_normal(3),
    "u^4": power_of_uniform(4),
    "clusters with outliers": with_outliers,
}


def batch_of(family: Callable[[int, int], np.ndarray], b: int, n: int) -> np.ndarray:
    return np.stack([family(n, seed) for seed in range(b)]).astype(np.float32)


def assignment(cost: Any) -> tuple[Any, Any]:
    res = jm.solve_assignment(cost)
    return res.cost, res.gap


def transport(cost: Any, supply: Any, demand: Any) -> tuple[Any, Any]:
    res = jm.solve_transport(cost, supply, demand)
    return res.cost, res.gap


def k_best(cost: Any) -> tuple[Any, Any]:
    res = jm.k_best_assignments(cost, 10)
    return res.cost.sum(-1), res.gap


def bottleneck(cost: Any) -> tuple[Any, Any]:
    value = jm.bottleneck_assignment(cost).bottleneck
    return value, jnp.zeros_like(value)


def grid_cut(source: Any, pairwise: Any) -> tuple[Any, Any]:
    value = jm.grid_cut(source, 1 - source, pairwise).value
    return value, 1e-6 * value


def sparse(graph: jm.BipartiteGraph) -> Callable[[Any], tuple[Any, Any]]:
    def solve(cost: Any) -> tuple[Any, Any]:
        res = jm.solve_sparse_assignment(graph, cost, unmatched_cost=1.0)
        return res.cost, res.gap

    return solve


def flow(network: jm.FlowNetwork) -> Callable[[Any], tuple[Any, Any]]:
    def solve(capacity: Any) -> tuple[Any, Any]:
        value = jm.maximum_flow(network, capacity, 0, network.num_nodes - 1).value
        return value, 1e-6 * value

    return solve


def cases(quick: bool) -> list[Case]:
    rng = np.random.default_rng(0)
    sizes = [(16, 256)] if quick else [(16, 1024), (16, 768), (8, 512), (64, 256)]
    some = [
        Case(f"assignment, {name}", f"{b} x {n}^2", assignment, (batch_of(family, b, n),))
        for b, n in sizes
        for name, family in COSTS.items()
    ]
    for b, n in [(16, 64)] if quick else [(8, 512), (64, 64)]:
        masses = rng.dirichlet(np.ones(n), (2, b)).astype(np.float32)
        for name in ("sphere to shape", "exp(3 N)"):
            arrays = (batch_of(COSTS[name], b, n), *masses)
            some.append(Case(f"transport, {name}", f"{b} x {n}^2", transport, arrays))
    uniform = batch_of(COSTS["uniform"], 16, 64)
    some += [Case("10 best", "16 x 64^2", k_best, (uniform,))]
    some += [Case("bottleneck", "16 x 64^2", bottleneck, (uniform,))]
    n = 500 if quick else 5000
    rows, cols = np.repeat(np.arange(n), 8), rng.integers(0, n, 8 * n)
    graph = jm.BipartiteGraph.from_edges(rows, cols, (n, n))
    cost = rng.random((8, graph.num_edges)).astype(np.float32)
    some += [Case("sparse", f"8 x {n} rows of 8", sparse(graph), (cost,))]
    ends = rng.integers(0, n, (2, 8 * n))
    network = jm.FlowNetwork.from_edges(*ends[:, ends[0] != ends[1]], num_nodes=n)
    capacity = rng.integers(1, 100, (8, network.num_edges)).astype(np.int32)
    some += [Case("flow", f"8 x {n} nodes", flow(network), (capacity,))]
    for b, n in [(4, 32)] if quick else [(8, 128), (32, 128), (4, 256)]:
        source = rng.random((b, n, n)).astype(np.float32)
        arrays = (source, np.full((b, 2, n, n), 0.6, np.float32))
        some.append(Case("grid cut of noise", f"{b} x {n}^2", grid_cut, arrays))
    return some


def measure(case: Case) -> Row:
    solve = jax.jit(case.solve)
    arrays = [jnp.asarray(x) for x in case.arrays]
    (values, gaps), batch_ms = timed(solve, *arrays, budget=0.2, least=3)
    singles = 0.0
    for k in range(len(arrays[0])):
        (value, gap), ms = timed(solve, *(x[k] for x in arrays), budget=0.05, least=2)
        apart = abs(float(value) - float(values[k]))
        assert apart <= float(gap) + float(gaps[k]) + 1e-6 * abs(float(value)), (case.name, k)
        singles += ms
    return {
        "problem": case.name,
        "shape": case.shape,
        "batch_ms": batch_ms,
        "one_by_one_ms": singles,
        "ratio": batch_ms / singles,
    }


def plot(rows: list[Row], path: Any, where: str) -> None:
    figure, axes = plots.plt.subplots(figsize=(10, 0.28 * len(rows) + 1))
    labels = [f"{row['problem']}, {row['shape']}" for row in rows]
    axes.barh(labels, [row["ratio"] for row in rows], color=plots.OURS)
    axes.axvline(MOST_TIMES, color="0.5", linewidth=1)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_title(f"Time of a batch by that of its problems one by one, {where}", loc="left")
    print(plots.save(figure, path))


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer and smaller problems"))
    on_gpu = jax.default_backend() == "gpu"
    content: Row = (record.gpu() if on_gpu else {}) | record.environment(["jax", "jaxlib", "numpy"])
    content["rows"] = rows = []
    for case in tqdm(cases(args.quick)):
        rows.append(measure(case))
        record.write_json(args.out, "batches", content)  # a run may be cut off
    record.print_table("batches and their problems one by one, ms", rows)
    late = [row for row in rows if row["ratio"] > MOST_TIMES]
    print(f"{len(late)} of {len(rows)} rows take more than {MOST_TIMES} times the sum")
    plot(rows, args.out / "batches.png", content.get("gpu", content["cpu"]))


if __name__ == "__main__":
    main()
