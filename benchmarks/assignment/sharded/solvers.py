"""Batches of each solver over the mesh: as many problems for each device, none of which move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmatch as jm
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import timed
from benchmarks.min_cost_flow import batches as networks


Case = dict[str, Any]
Arrays = tuple[np.ndarray, ...]
DRAWN = 16  # problems that differ; the batch repeats them
QUEUE = 10


class Solver(NamedTuple):
    """Problems for each device, and `draw(count, quick)`: a solver of a batch, and its arrays."""

    each: int
    draw: Callable[[int, bool], tuple[Callable[..., Any], Arrays]]


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng([*name.encode()])


def _transport(weights: str) -> Callable[[int, bool], tuple[Callable[..., Any], Arrays]]:
    def draw(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
        rng, n = _rng(weights), 20 if quick else 100
        cost = ((rng.random((count, n, 1, 2)) - rng.random((count, 1, n, 2))) ** 2).sum(-1)
        equal = np.full((2, count, n), 1 / n)
        masses = equal if weights == "equal" else rng.dirichlet(np.ones(n), (2, count))
        masses[1] *= masses[0].sum(-1, keepdims=True) / masses[1].sum(-1, keepdims=True)
        return jm.solve_transport, tuple(x.astype(np.float32) for x in (cost, *masses))

    return draw


def _capacities(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    n, m = (60, 5) if quick else (500, 20)
    cost = _rng("capacities").random((count, n, m), np.float32)
    capacity = np.full((count, m), n // m + 3, np.int32)
    return lambda c, most: jm.solve_capacitated_assignment(c, col_capacity=most), (cost, capacity)


def _sparse(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    n, k = (50, 5) if quick else (2000, 10)
    rng = _rng("sparse")
    # k permutations without a common pair, so that there is a solution.
    steps = rng.choice(n, k, replace=False)
    cols = rng.permutation(n)[(np.arange(n)[:, None] + steps) % n]
    graph = jm.BipartiteGraph.from_edges(np.repeat(np.arange(n), k), cols.ravel(), shape=(n, n))
    cost = rng.random((count, n * k), np.float32)
    return partial(jm.solve_sparse_assignment, graph), (cost,)


def _network(count: int, quick: bool) -> tuple[jm.FlowNetwork, Arrays]:
    shape = (20, 80) if quick else (64, 400)
    network, arrays = networks.drawn(networks.Case(count, *shape, "int32"))
    return jax.tree.map(lambda x: x[0], network), arrays


def _minimum_cost_flow(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    network, arrays = _network(count, quick)
    return partial(jm.minimum_cost_flow, network), arrays


def _maximum_flow(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    network, (capacity, *_) = _network(count, quick)
    return lambda c: jm.maximum_flow(network, c, 0, network.num_nodes - 1), (capacity,)


def _grid_cut(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    n, rng = 32 if quick else 128, _rng("grid")
    terminals = rng.random((2, count, n, n), np.float32)
    pairwise = np.full((count, 2, n, n), 0.3, np.float32)
    return jm.grid_cut, (*terminals, pairwise)


class _Sums(NamedTuple):
    cost: Any
    status: Any


def _sums(count: int, quick: bool) -> tuple[Callable[..., Any], Arrays]:
    x = _rng("sums").random((count, 100), np.float32)
    return lambda x: _Sums(x.sum(-1), (x[:, 0] < 0).astype(np.int32)), (x,)


SOLVERS = {
    "no solver: sums of 100 numbers": Solver(1024, _sums),  # what any call takes
    "transport, equal weights, 100 x 100": Solver(1024, _transport("equal")),
    "transport, random weights, 100 x 100": Solver(1024, _transport("random")),
    "capacities, 500 x 20": Solver(1024, _capacities),
    "sparse assignment, 2000 rows, 10 edges a row": Solver(64, _sparse),
    "minimum-cost flow, 64 nodes, 400 edges": Solver(4096, _minimum_cost_flow),
    "maximum flow, 64 nodes, 400 edges": Solver(4096, _maximum_flow),
    "grid cut, 128 x 128": Solver(64, _grid_cut),
}


def cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for name, solver in SOLVERS.items():
        for devices in counts:
            each = DRAWN if quick else solver.each
            yield {"solver": name, "batch": each * devices, "devices": devices, "quick": quick}


def measure(case: Case) -> Row:
    """One call after another, and a queue of calls. Repeats of a problem have the same optimum."""
    devices, batch = case["devices"], case["batch"]
    mesh = jax.make_mesh((devices,), ("x",), (AxisType.Auto,), devices=jax.devices()[:devices])
    solve, drawn = SOLVERS[case["solver"]].draw(DRAWN, case["quick"])
    by_batch = NamedSharding(mesh, P("x"))
    arrays = [jax.device_put(np.resize(x, (batch, *x.shape[1:])), by_batch) for x in drawn]
    compiled = jax.jit(solve).lower(*arrays).compile()
    text = compiled.as_text() or ""
    moves = [x for x in ("all-gather", "all-to-all", "collective-permute") if x in text]
    res, ms = timed(compiled, *arrays, least=3, most=30)
    _, queued = timed(lambda: [compiled(*arrays) for _ in range(QUEUE)], least=2, most=10)
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all(), case
    values = np.asarray(res.value if hasattr(res, "value") else res.cost)
    assert (values == np.resize(values[:DRAWN], values.shape)).all(), case
    return {"ms": ms, "queued_ms": queued / QUEUE, "moves": ", ".join(moves)}


def table(rows: Sequence[Row]) -> list[Row]:
    found = []
    for row in rows:
        alone = (r for r in rows if r["solver"] == row["solver"] and r["devices"] == 1)
        first = next(alone, {})
        efficiencies = {
            "efficiency": ratio(first.get("ms"), row["ms"]),
            "queued_efficiency": ratio(first.get("queued_ms"), row["queued_ms"]),
        }
        found.append({k: x for k, x in row.items() if k != "quick"} | efficiencies)
    return found
