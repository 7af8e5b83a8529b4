"""Batches of random networks on a GPU, by the call, beside one core of the host."""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import numpy as np

import jaxmatch as jm
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import one_core, timed


MOST_DRAWN = 16  # networks of a batch that differ; costs, capacities and supplies all do
CHECKED = 16
SHAPES = [(4096, 64, 400), (65_536, 32, 150), (256, 500, 4000), (1, 500, 4000), (1, 3000, 24_000)]
QUICK = [(64, 64, 400), (1, 500, 4000)]


class Case(NamedTuple):
    problems: int
    nodes: int
    arcs: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.problems} x ({self.nodes} nodes, {self.arcs} arcs), {self.dtype}"


def cases(quick: bool) -> list[Case]:
    return [Case(*shape, dtype) for shape in (QUICK if quick else SHAPES)
            for dtype in ("int32", "float32")]  # fmt: skip


def drawn(case: Case, seed: int = 0) -> tuple[jm.FlowNetwork, tuple[np.ndarray, ...]]:
    """Networks with a wide path through all nodes and back, so that there is a flow; other arcs are
    random. Arrays of NumPy: capacities, costs and supplies."""
    rng = np.random.default_rng([seed, *case[:3]])
    b, n, e, _ = case
    count = min(b, MOST_DRAWN)
    made = []
    for _ in range(count):
        path = rng.permutation(n)
        tail = np.append(path, rng.integers(0, n, e - n))
        head = np.append(np.roll(path, -1), (tail[n:] + rng.integers(1, n, e - n)) % n)
        made.append(jm.FlowNetwork.from_edges(tail, head, n))
    stacked = jax.tree.map(np.asarray, jm.FlowNetwork.stack(made))
    at = np.arange(b) % count
    network = jax.tree.map(lambda x: x[at] if b > 1 else x[0], stacked)
    supply = rng.integers(-100, 101, (b, n))
    supply[:, 0] -= supply.sum(1)
    capacity = rng.integers(1, 200, (b, e))
    capacity[:, :n] = 100 * n
    cost = rng.integers(1, 10_000, (b, e))
    arrays = (x.astype(case.dtype) for x in (capacity, cost, supply))
    return network, tuple(x if b > 1 else x[0] for x in arrays)


def measure(case: Case, on_core: bool) -> Row:
    network, arrays = drawn(case)
    solve = jax.jit(jm.minimum_cost_flow)
    there = jax.device_put((network, *arrays))
    res, ms = timed(solve, *there, budget=0.5, least=3)
    res = jax.tree.map(np.asarray, res)
    assert (res.status == jm.Status.OPTIMAL).all(), case
    some = (lambda x: x[:CHECKED]) if case.problems > 1 else (lambda x: x)
    with jax.default_device(jax.devices("cpu")[0]):
        proof = jm.check_minimum_cost_flow(*jax.tree.map(some, (network, *arrays, res)))
    assert np.asarray(proof.optimal).all(), case
    row: Row = {"row": case.name, **case._asdict(), "ms": ms, "core_ms": None, "core/gpu": None}
    if on_core:
        with one_core(), jax.default_device(jax.devices("cpu")[0]):
            start = time.perf_counter()
            other = jm.minimum_cost_flow(network, *arrays)
            row["core_ms"] = 1e3 * (time.perf_counter() - start)
        row["core/gpu"] = ratio(row["core_ms"], ms)
        tolerance = 0 if case.dtype == "int32" else 1e-5
        np.testing.assert_allclose(res.cost, other.cost, rtol=tolerance)
    return row
