"""What a worker of the flow benchmark does: our methods and the peers, one solve at a time."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.workers import device, device_times
from benchmarks.flow import instances


PEERS = {"ortools": "ortools", "pymaxflow": "maxflow", "scipy": "scipy"}  # the module of each


class Job(NamedTuple):
    """Which instance to solve, how, and as what: a "network", the "grid" it was made from, or the
    "matching" that it stands for."""

    instance: str
    method: str  # of jaxmatch, or one of PEERS
    form: str = "network"
    layout: str = "rcsr"
    options: tuple[tuple[str, Any], ...] = ()
    runs: int = 5

    @property
    def label(self) -> str:
        parts = [self.method, *(str(value) for _, value in self.options)]
        if self.method in ("thread_centric", "two_level"):
            parts.append(self.layout)
        return " ".join([*parts, *([self.form] if self.form != "network" else [])])


class Measured(NamedTuple):
    """Times in ms of a solve without building. Over the limit `ms` is the limit, the rest empty."""

    ms: float
    least: float | None = None
    device_ms: float | None = None
    device_spread: float | None = None  # (greatest − least) / median
    value: int | None = None
    over: bool = False
    searches: tuple[int, ...] | None = None  # global relabellings: to the preflow, and back
    shares: tuple[float, ...] | None = None  # of the parts of FlowBuffers.spent()


# What makes a problem anew, what solves it (which alone is timed), and what checks its result and
# returns the value.
Solver = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], int]]


class Bench:
    """Keeps the last instance; `budget` is for how many seconds a solve is repeated."""

    def __init__(self, cache: Path, budget: float):
        self.cache, self.budget = cache, budget
        self.loaded: dict[Any, Any] = {}

    def answer(self, question: Any, report: Callable[[Any], None]) -> Any:
        """A job, or "device"."""
        return self.measure(question, report) if isinstance(question, Job) else device()

    def measure(self, job: Job, report: Callable[[Any], None]) -> Measured:
        build, solve, value_of = self.peer(job) if job.method in PEERS else self.ours(job)

        def timed() -> Any:
            problem = build()
            start = time.perf_counter()
            result = solve(problem)
            times.append(1e3 * (time.perf_counter() - start))
            return result

        times: list[float] = []
        report("prepared")
        result = timed()
        report("first")
        left = self.budget
        while len(times) <= job.runs and (left := left - times[-1] / 1e3) > 0:
            timed()
        times = times[1:] or times  # the first one was warm-up
        on_device = None
        if job.method not in PEERS and len(times) >= 3:
            on_device = device_times(lambda: solve(build()), len(times))
        middle = statistics.median(on_device) if on_device else None
        spread = (max(on_device) - min(on_device)) / middle if on_device and middle else None
        ms = statistics.median(times)
        on_gpu = job.method not in PEERS and device()[0] == "gpu"
        inside = self.inside(job) if on_gpu and job.form == "network" else ()
        return Measured(ms, min(times), middle, spread, value_of(result), False, *inside)

    def inside(self, job: Job) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """What the kernels tell of one more solve."""
        import jax

        from jaxmatch._flow import native
        from jaxmatch._flow.methods import METHODS, choice_and_k

        arguments = self.loaded[job.instance, job.layout]
        solver = METHODS[job.method].cuda
        choice, k = choice_and_k(solver, job.layout, job.options)
        how = {"method": solver, "choice": choice, "k": k, "rounds": 0, "platform": "cuda"}
        ends = [jax.numpy.int32(x) for x in arguments[2:]]
        _, buffers = jax.jit(lambda *given: native.flow(*given, **how))(*arguments[:2], *ends)
        cycles, searches = buffers.spent()
        return tuple(searches.tolist()), tuple((cycles / max(cycles.sum(), 1)).tolist())

    def instance(self, job: Job) -> dict[str, Any]:
        key = (job.instance, "host")
        if key not in self.loaded:
            self.loaded = {key: instances.load(self.cache, job.instance)}
        return self.loaded[key]

    def ours(self, job: Job) -> Solver:
        import jax

        x = self.instance(job)
        make = {"network": _network, "grid": _grid, "matching": _matching}[job.form]
        arguments, call, check = make(x, job, self.loaded)
        solve = jax.jit(call).lower(*arguments).compile()
        return lambda: arguments, lambda given: jax.block_until_ready(solve(*given)), check

    def peer(self, job: Job) -> Solver:
        make = {"ortools": _ortools, "pymaxflow": _pymaxflow, "scipy": _scipy}[job.method]
        return *make(self.instance(job)), int


def peers_found() -> list[str]:
    return [peer for peer, module in PEERS.items() if importlib.util.find_spec(module)]


# ---------------------------------------------------------------------------------------------
# Ours


def _network(
    x: dict[str, Any], job: Job, kept: dict[Any, Any]
) -> tuple[tuple[Any, ...], Callable[..., Any], Callable[[Any], int]]:
    """The arguments, what to compile, and the check."""
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
