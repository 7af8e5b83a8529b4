"""Problems large enough for several threads, and for what small ones do not reach.

With `--threads` only those that share a problem among threads, or whose batches are shared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from fuzz.calls import run, stored
from grid_networks import SHAPES, grid_network

import jaxmatch as jm
from jaxmatch._assignment_points.nearest import nearest


Problem = tuple[str, Callable[[], Any]]
T = TypeVar("T")
_PARALLEL = ("p_pfp", "auto")


def _of_numpy(tree: T) -> T:
    """JAX's arrays lead to results of JAX, which a function that XLA compiles converts."""
    return jax.tree.map(np.asarray, tree)


def _refuse_compilation(event: str, duration_secs: float, **_: Any) -> None:
    """Threads of XLA's compiler have races of their own, or what ThreadSanitizer takes for them."""
    assert "backend_compile" not in event, "sanitize.larger compiled a function with XLA"


def _dense(rng: np.random.Generator, n: int) -> Iterator[Problem]:
    cost = rng.random((n, n + 5), np.float32)
    yield f"core, {n} rows", lambda: jm.solve_assignment(cost, method="core")
    for method in ("core", "auction", "classical", "tree"):
        tied = rng.integers(0, 50, (n // 5, n // 5), np.int32)
        yield f"{method}, {n // 5} rows", lambda m=method, c=tied: jm.solve_assignment(c, method=m)


def _matchings(rng: np.random.Generator, n: int) -> Iterator[Problem]:
    rows, cols = rng.integers(0, n, (2, 2 * n))
    graph = _of_numpy(jm.BipartiteGraph.from_edges(rows, cols, (n, n)))
    for method in _PARALLEL:
        yield f"{method}, {n} rows", lambda m=method: jm.maximum_bipartite_matching(graph, method=m)


def _points(rng: np.random.Generator, n: int) -> Iterator[Problem]:
    x, y = np.sort(rng.random((2, n, 1), np.float32), axis=1)
    price, near = 0.1 * rng.random(n), np.zeros((n, 5), np.int32)
    for metric in ("sqeuclidean", "l1"):
        yield f"nearest of {n} rows", lambda m=metric: nearest(x, y, price, near, 5, m)


def _batches(rng: np.random.Generator) -> Iterator[Problem]:
    cost = rng.random((500, 12, 15), np.float32)
    yield "a batch of assignments", lambda: jm.solve_assignment(cost)
    yield "a batch of k best", lambda: jm.k_best_assignments(cost[:50], k=5)
    tail, head = rng.integers(0, 40, (2, 200))
    network = _of_numpy(jm.FlowNetwork.from_edges(tail, head, 40))
    capacity = rng.integers(0, 9, (100, 200), np.int32)
    yield "a batch of flows", lambda: jm.maximum_flow(network, capacity, 0, 39)
    given = _priced(rng, tail, head, 40, (100, 200))
    yield "a batch of minimum-cost flows", lambda: jm.minimum_cost_flow(network, *given)


def _priced(
    rng: np.random.Generator, tail: np.ndarray, head: np.ndarray, n: int, shape: tuple[int, ...]
) -> list[np.ndarray]:
    """Capacities of one unit and of more, costs, and supplies that they can carry."""
    capacity = np.where(rng.random(shape) < 0.5, 1, rng.integers(0, 100, shape))
    flow, supply = rng.integers(0, capacity + 1), np.zeros((*shape[:-1], n), int)
    for node, sign in ((tail, 1), (head, -1)):
        np.add.at(supply.T, node, sign * flow.T)
    return [x.astype(np.int32) for x in (capacity, rng.integers(-9, 99, shape), supply)]


def _images(rng: np.random.Generator) -> Iterator[Problem]:
    """Networks that are solved as grids, whose nodes are shared among threads."""
    for name in SHAPES:
        for extra in (0, 200):
            edges, capacity, n, *ends = grid_network(rng, *SHAPES[name], extra=extra)
            network = _of_numpy(jm.FlowNetwork.from_edges(*edges, n))
            yield f"{name}, {n} nodes", lambda x=(network, capacity, *ends): jm.maximum_flow(*x)


def _alone(rng: np.random.Generator, n: int) -> Iterator[Problem]:
    yield f"assignment, {n} rows", lambda: jm.solve_assignment(rng.random((n, n), np.float32))
    few = n // 4
    supply, demand = np.full(2 * few, 3, np.int32), np.full(few, 6, np.int32)
    cost = rng.random((2 * few, few), np.float32)
    yield f"transport, {2 * few} rows", lambda: jm.solve_transport(cost, supply, demand)
    tail, head = rng.integers(0, n, (2, 6 * n))
    network = _of_numpy(jm.FlowNetwork.from_edges(tail, head, n))
    capacity = rng.integers(0, 100, 6 * n, np.int32)
    for method in ("auto", "augment", "pseudoflow"):
        yield f"{method}, {n} nodes", lambda m=method: jm.maximum_flow(
            network, capacity, 0, n - 1, method=m)  # fmt: skip
    given = _priced(rng, tail, head, n, capacity.shape)
    for method in ("network_simplex", "cost_scaling"):
        yield f"{method}, {n} nodes", lambda m=method: jm.minimum_cost_flow(
            network, *given, method=m)  # fmt: skip
    rows, cols = rng.integers(0, n, (2, 8 * n))
    graph = _of_numpy(jm.BipartiteGraph.from_edges(rows, cols, (n, n)))
    weight, leave = rng.random(graph.row_ind.shape[-1], np.float32), np.full(n, 0.6, np.float32)
    yield f"sparse, {n} rows", lambda: jm.solve_sparse_assignment(
        graph, weight, unmatched_cost=leave)  # fmt: skip
    side = max(n // 20, 8)
    grid = [rng.integers(0, 9, (*k, side, side)) for k in ((), (), (8,))]
    yield f"grid of {side} x {side}", lambda: jm.grid_cut(*grid, connectivity=8)


def _far(rng: np.random.Generator) -> Iterator[Problem]:
    """Numbers whose differences may leave the range of integers."""
    row = np.arange(9)
    rows, cols = np.r_[row, row[1:]], np.r_[row, row[1:] - 1]  # row 0 has one pair
    graph = _of_numpy(jm.BipartiteGraph.from_edges(rows, cols, (9, 9)))
    weight = rng.integers(-100, -1, len(rows))
    yield "sparse, a row of one pair", lambda: jm.solve_sparse_assignment(graph, weight)
    # A cycle without limits, whose cost is as negative as can be.
    network = _of_numpy(jm.FlowNetwork.from_edges(np.arange(3), np.r_[1, 2, 0], 3))
    given = np.full(3, np.inf), np.full(3, -1e300), np.zeros(3)
    for method in ("network_simplex", "cost_scaling"):
        yield f"{method}, unbounded", lambda m=method: jm.minimum_cost_flow(
            network, *given, method=m).flow  # fmt: skip


def _shards() -> Iterator[Problem]:
    """The first step of a device, as XLA calls it."""
    for call in stored():
        if call.target == "jaxmatch_assignment_sharded":
            yield f"sharded, {call.attributes['method']}", lambda c=call: run(c)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sanitize.larger", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", action="store_true")
    given = parser.parse_args()
    jax.monitoring.register_event_duration_secs_listener(_refuse_compilation)
    rng = np.random.default_rng(0)
    n = 300 if given.quick else 2000
    problems = [*_dense(rng, n), *_matchings(rng, 10 * n), *_points(rng, 5 * n)]
    problems += [*_batches(rng), *_shards()]
    problems += _images(np.random.default_rng(1))
    problems += [] if given.threads else [*_alone(rng, n // 2), *_far(rng)]
    for name, solve in problems:
        start = time.monotonic()
        status = np.asarray(getattr(solve(), "status", 0))
        print(f"{time.monotonic() - start:6.1f} s  {name}", flush=True)
        assert (status == 0).all(), (name, status)


if __name__ == "__main__":
    main()
