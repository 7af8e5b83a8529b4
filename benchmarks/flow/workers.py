"""Solves of the flow benchmark, by our methods and the peers, as a worker runs them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import cache, workers


PEERS = {"ortools": "ortools", "pymaxflow": "maxflow", "scipy": "scipy"}  # the module of each


@dataclass(frozen=True)
class Job(workers.Job):
    """An instance is solved as a "network", as the "grid" that it was made from, or as the
    "matching" that it stands for (`form`)."""

    form: str = "network"
    layout: str = "rcsr"

    @property
    def label(self) -> str:
        parts = [super().label]
        if self.method in ("thread_centric", "two_level"):
            parts.append(self.layout)
        return " ".join([*parts, *([self.form] if self.form != "network" else [])])

    @property
    def problem(self) -> str:
        """A grid's value has what both terms of a cell share; networks leave that out."""
        return f"{self.instance} {'grid' if self.form == 'grid' else 'network'}"


class Bench(workers.Bench):
    """Keeps the last instance."""

    peers = tuple(PEERS)

    def inside(self, job: Job) -> dict[str, Any]:
        import jax

        from jaxmatch._flow import native
        from jaxmatch._flow.methods import METHODS, cuda_options

        if job.form != "network":
            return {}
        arguments = self.loaded[job.instance, job.layout]
        solver = METHODS[job.method].cuda
        options = cuda_options(solver, job.layout, dict(job.options))
        how = {"method": solver, "options": options, "steps": 0, "platform": "cuda"}
        ends = [jax.numpy.int32(x) for x in arguments[2:]]
        _, buffers = jax.jit(lambda *given: native.flow(*given, **how))(*arguments[:2], *ends)
        cycles, searches = buffers.spent()
        shares = tuple((cycles / max(cycles.sum(), 1)).tolist())
        return {"searches": tuple(searches.tolist()), "shares": shares}

    def instance(self, job: Job) -> dict[str, Any]:
        key = (job.instance, "host")
        if key not in self.loaded:
            self.loaded = {key: cache.load(self.cache, job.instance)}
        return self.loaded[key]

    def solver(self, job: Job) -> workers.Solver:
        x = self.instance(job)
        if job.method in PEERS:
            make = {"ortools": _ortools, "pymaxflow": _pymaxflow, "scipy": _scipy}[job.method]
            return workers.Solver(*make(x), int)
        import jax

        make = {"network": _network, "grid": _grid, "matching": _matching}[job.form]
        arguments, call, check = make(x, job, self.loaded)
        solve = jax.jit(call).lower(*arguments).compile()
        return workers.Solver(
            lambda: arguments, lambda given: jax.block_until_ready(solve(*given)), check
        )


def peers_found() -> list[str]:
    return [peer for peer, module in PEERS.items() if importlib.util.find_spec(module)]


# ---------------------------------------------------------------------------------------------
# Ours


def _network(
    x: dict[str, Any], job: Job, kept: dict[Any, Any]
) -> tuple[tuple[Any, ...], Callable[..., Any], Callable[[Any], int]]:
    """The arguments, the function to compile, and the check."""
    import jax

    import jaxmatch as jm

    if (key := (job.instance, job.layout)) not in kept:
        network = jm.FlowNetwork.from_edges(x["src"], x["dst"], int(x["n"]), layout=job.layout)
        ends = int(x["source"]), int(x["sink"])
        kept[key] = network, jax.device_put(x["cap"].astype(np.int32)), *ends
    arguments = kept[key]

    def check(result: Any) -> int:
        verdict = jm.check_flow(*arguments, result)
        if not bool(verdict.optimal):
            raise AssertionError(f"{job.label} on {job.instance}: {verdict}, {result.status=}")
        return int(result.value)

    def solve(*arguments: Any) -> Any:
        return jm.maximum_flow(*arguments, method=job.method, options=dict(job.options))

    return arguments, solve, check


def _grid(
    x: dict[str, Any], job: Job, kept: dict[Any, Any]
) -> tuple[tuple[Any, ...], Callable[..., Any], Callable[[Any], int]]:
    """The same for a grid. The value of a batch is the sum of its values."""
    import jax

    import jaxmatch as jm

    if (key := (job.instance, "grid")) not in kept:
        kept[key] = tuple(jax.device_put(x[name]) for name in ("us", "ut", "pairwise"))

    def check(result: Any) -> int:
        if (np.asarray(result.status) != jm.Status.OPTIMAL).any():
            raise AssertionError(f"{job.label} on {job.instance}: {result.status=}")
        if "optimum" in x and (np.asarray(result.value) != x["optimum"]).any():
            raise AssertionError(f"{job.label} on {job.instance}: not the known optimum")
        return int(np.asarray(result.value, np.int64).sum())

    def solve(*arguments: Any) -> Any:
        how = {"connectivity": int(x["connectivity"]), "method": job.method}
        return jm.grid_cut(*arguments, **how)

    return kept[key], solve, check


def _matching(
    x: dict[str, Any], job: Job, kept: dict[Any, Any]
) -> tuple[tuple[Any, ...], Callable[..., Any], Callable[[Any], int]]:
    """Matching through flow, in one call that also makes the network from the graph."""
    import jaxmatch as jm

    rows = int((x["src"] == x["source"]).sum())
    edge = (x["src"] != x["source"]) & (x["dst"] != x["sink"])
    shape = rows, int(x["n"]) - 2 - rows
    graph = jm.BipartiteGraph.from_edges(x["src"][edge], x["dst"][edge] - rows, shape=shape)

    def check(result: Any) -> int:
        verdict = jm.check_matching(graph, result)
        if not bool(verdict.optimal):
            raise AssertionError(f"{job.label} on {job.instance}: {verdict}, {result.status=}")
        return int(result.cardinality)

    return (graph,), lambda graph: jm.maximum_bipartite_matching(graph, method="flow"), check


# ---------------------------------------------------------------------------------------------
# Peers: what builds a problem, and what solves it


def _ortools(x: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    from ortools.graph.python import max_flow

    solver = max_flow.SimpleMaxFlow()
    solver.add_arcs_with_capacity(x["src"], x["dst"], x["cap"].astype(np.int64))

    def solve(solver: Any) -> int:
        if solver.solve(int(x["source"]), int(x["sink"])) != solver.OPTIMAL:
            raise AssertionError("or-tools: not optimal")
        return solver.optimal_flow()

    return lambda: solver, solve


def _pymaxflow(x: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """The arcs at source and sink become its terminal arcs."""
    import maxflow

    n, source, sink = (int(x[name]) for name in ("n", "source", "sink"))
    src, dst, cap = x["src"], x["dst"], x["cap"].astype(np.int64)
    through = (src == source) & (dst == sink)
    inner = ~((src == source) | (src == sink) | (dst == source) | (dst == sink))
    terminals = np.zeros((2, n), np.int64)
    for side, node, there in ((0, dst, src == source), (1, src, dst == sink)):
        np.add.at(terminals[side], node[there & ~through], cap[there & ~through])

    def build() -> Any:
        graph = maxflow.GraphInt(n, int(inner.sum()))
        nodes = graph.add_nodes(n)
        graph.add_edges(src[inner], dst[inner], cap[inner], np.zeros(int(inner.sum()), np.int64))
        graph.add_grid_tedges(nodes, *terminals)
        return graph

    return build, lambda graph: int(graph.maxflow()) + int(cap[through].sum())


def _scipy(x: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import maximum_flow

    n = int(x["n"])
    matrix = sp.coo_matrix((x["cap"], (x["src"], x["dst"])), (n, n)).tocsr().astype(np.int32)
    ends = int(x["source"]), int(x["sink"])
    return lambda: matrix, lambda matrix: int(maximum_flow(matrix, *ends).flow_value)
