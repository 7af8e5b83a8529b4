"""The solvers of the sweeps: each with its subject, called on NumPy arrays or as a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from helpers import to_numpy

import jaxmatch as jm
from scaled.problems import Batch


ALL = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
WIDE = ("float32", "float64", "int32", "int64")
FLOATS = ("float32", "float64")


@dataclasses.dataclass(frozen=True)
class Solver:
    subject: str
    solve: Callable[[Batch], Any]
    dtypes: tuple[str, ...] = ALL
    compiled: bool = False  # a program for each shape and dtype
    twin: bool = False
    alone: bool = False  # one problem at a time


def _call(function: Callable[..., Any], traced: bool = False, **options: Any) -> Any:
    def solve(batch: Batch) -> Any:
        names = [x for x in batch.arrays if x not in ("there", "tail", "head", "nodes")]
        given = {name: batch.arrays[name] for name in names}
        if not traced:
            return to_numpy(function(**given, **options))
        return to_numpy(jax.jit(partial(function, **options))(**given))

    return solve


def _on_graph(**options: Any) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        there = batch.arrays["there"][0]
        graph = to_numpy(jm.BipartiteGraph.from_edges(*np.nonzero(there), there.shape))
        return _call(partial(jm.solve_sparse_assignment, graph), **options)(batch)

    return solve


def _on_network(function: Callable[..., Any], **options: Any) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        tail, head, nodes = (batch.arrays[x][0] for x in ("tail", "head", "nodes"))
        network = to_numpy(jm.FlowNetwork.from_edges(tail, head, int(nodes)))
        call = partial(function, network, source=0, sink=int(nodes) - 1)
        return _call(call, **options)(batch)

    return solve


def _on_priced_network(**options: Any) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        tail, head, nodes = (batch.arrays[x][0] for x in ("tail", "head", "nodes"))
        network = to_numpy(jm.FlowNetwork.from_edges(tail, head, int(nodes)))
        return _call(partial(jm.minimum_cost_flow, network), **options)(batch)

    return solve


def _on_points(**options: Any) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        found = [
            to_numpy(jm.solve_assignment_points(x, y, **options))
            for x, y in zip(batch.arrays["x"], batch.arrays["y"], strict=True)
        ]
        return jax.tree.map(lambda *x: np.stack(x), *found)

    return solve


def _table() -> dict[str, Solver]:
    assignment, transport = jm.solve_assignment, jm.solve_transport
    table = {"assignment": Solver("dense", _call(assignment))}
    narrow = tuple(x for x in ALL if x != "int64")
    for method in ("core", "auction", "classical", "tree"):
        table[f"assignment/{method}"] = Solver("dense", _call(assignment, method=method), narrow)
    capacitated = jm.solve_capacitated_assignment
    table |= {
        "unmatched costs": Solver("gated", _call(assignment)),
        "capacities of columns": Solver("columns", _call(capacitated)),
        "capacities of both": Solver("rows and columns", _call(capacitated)),
        "sparse": Solver("sparse", _on_graph()),
        "sparse/maximum": Solver("maximum cardinality", _on_graph(cardinality="maximum")),
        "k best": Solver("k best", _call(jm.k_best_assignments, k=5)),
        "transport": Solver("transport", _call(transport)),
        "transport of masses": Solver("masses", _call(transport)),
        "minimum cut": Solver("flow", _on_network(jm.minimum_cut), WIDE),
        "minimum cut/sink": Solver("flow", _on_network(jm.minimum_cut, nearest="sink"), WIDE),
        "grid cut": Solver("grid", _call(jm.grid_cut), WIDE),
    }
    for method in ("auto", "augment", "pseudoflow"):
        solve = _on_network(jm.maximum_flow, method=method)
        table[f"flow/{method}"] = Solver("flow", solve, WIDE)
    for method in ("auto", "cost_scaling"):
        solve = _on_priced_network(method=method)
        table[f"minimum cost flow/{method}"] = Solver("costs of edges", solve)
        table[f"minimum cost flow/masses/{method}"] = Solver("masses of edges", solve, WIDE)
    program: dict[str, Any] = {"compiled": True}
    for metric in ("sqeuclidean", "euclidean", "l1"):
        for method in ("auto", "core"):
            solve = _on_points(metric=metric, method=method)
            table[f"points/{metric}/{method}"] = Solver(
                metric, solve, FLOATS, **program, alone=True
            )
    bottleneck = jm.bottleneck_assignment
    table |= {
        "bottleneck": Solver("bottleneck", _call(bottleneck, True), **program),
        "bottleneck/lexicographic": Solver(
            "bottleneck", _call(bottleneck, True, lexicographic=True), **program),
    }  # fmt: skip
    twins = {
        "assignment": ("dense", _call(assignment, True, method="xla")),
        "unmatched costs": ("gated", _call(assignment, True, method="xla")),
        "sparse": ("sparse", _on_graph(traced=True, method="xla")),
        "k best": ("k best of the twin", _call(jm.k_best_assignments, True, k=5, method="xla")),
        "transport": ("transport", _call(transport, True, method="xla")),
        "grid cut": ("grid of the twin", _call(jm.grid_cut, True, method="xla")),
        "flow": ("flow", _on_network(jm.maximum_flow, traced=True, method="xla")),
        "minimum cost flow": ("costs of edges", _on_priced_network(traced=True, method="xla")),
    }
    for name, (subject, solve) in twins.items():
        table[f"{name}/xla"] = Solver(subject, solve, WIDE, **program, twin=True)
    return table


SOLVERS = _table()
