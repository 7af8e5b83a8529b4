"""What a worker of the matching benchmark does: our methods and the peers, one solve at a time."""

from __future__ import annotations

import ctypes
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import _matching_graphs as graphs
import numpy as np
from _workers import device, device_times


PEERS = ("scipy", "igraph", "btf")
IGRAPH_MOST_EDGES = 8_000_000  # building its graph takes longer than all else


class Job(NamedTuple):
    """What to solve, how, and from which matching."""

    graph: str
    method: str  # of jaxmatch, or one of PEERS
    options: tuple[tuple[str, Any], ...] = ()
    start: str = "nothing"  # or "cheap": time after the common cheap initialisation
    runs: int = 5

    @property
    def label(self) -> str:
        return " ".join([self.method, *(str(value) for _, value in self.options)])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is not tried again on a graph once it took too long: all relabellings and starts."""
        return (self.graph, self.method, *self.options[:1])


class Measured(NamedTuple):
    """Times in ms. Over the limit `ms` is the limit and the rest empty."""

    ms: float
    least: float | None = None
    greatest: float | None = None
    device_ms: float | None = None
    device_spread: float | None = None  # (greatest − least) / median
    cardinality: int | None = None
    over: bool = False


class Bench:
    def __init__(self, cache: Path, budget: float):
        self.cache, self.budget = cache, budget
        self.name, self.loaded = "", {}
        self.compiled: dict[Any, Callable[..., Any]] = {}

    def load(self, name: str) -> dict[str, Any]:
        if name != self.name:
            import jax

            import jaxmatch as jm

            host = graphs.load(self.cache, name)
            n, m, _ = (int(x) for x in host["size"])
            arrays = [host[k] for k in ("row_ptr", "col_ind", "col_ptr", "row_ind")]
            graph = jm.BipartiteGraph(*jax.device_put((*arrays, np.int32(n), np.int32(m))))
            self.loaded = {"host": host, "graph": graph, "start": jax.device_put(host["start"])}
            jax.block_until_ready((graph, self.loaded["start"]))
            self.name = name
        return self.loaded

    def ours(self, job: Job) -> Callable[[], Any]:
        """A compiled solve, for all graphs of one size."""
        import jax

        import jaxmatch as jm

        graph, start = (self.load(job.graph)[k] for k in ("graph", "start"))
        key = (job.label, job.start, graph.shape, graph.max_edges)
        if key not in self.compiled:
            how: dict[str, Any] = {"method": job.method, "options": dict(job.options)}

            def from_start(graph: Any, start: Any) -> Any:
                warm = {"warm_start": start, "init": "none"} if job.start == "cheap" else {}
                return jm.maximum_bipartite_matching(graph, **how, **warm)

            self.compiled[key] = jax.jit(from_start).lower(graph, start).compile()
        solve = self.compiled[key]
        return lambda: jax.block_until_ready(solve(graph, start))

    def peer(self, job: Job) -> Callable[[], int]:
        host = self.load(job.graph)["host"]
        return {"scipy": _scipy, "igraph": _igraph, "btf": _btf}[job.method](host)

    def measure(self, job: Job, report: Callable[[Any], None]) -> Measured:
        solve = self.peer(job) if job.method in PEERS else self.ours(job)
        report("prepared")
        start = time.perf_counter()
        result = solve()
        times = [1e3 * (time.perf_counter() - start)]
        report("first")
        left = self.budget
        while len(times) <= job.runs and (left := left - times[-1] / 1e3) > 0:
            start = time.perf_counter()
            solve()
            times.append(1e3 * (time.perf_counter() - start))
        times = times[1:] or times  # the first one was warm-up
        on_device = None
        if job.start == "nothing" and len(times) >= 3 and job.method not in PEERS:
            on_device = device_times(solve, len(times))
        middle = statistics.median(on_device) if on_device else None
        return Measured(
            statistics.median(times),
            min(times),
            max(times),
            middle,
            (max(on_device) - min(on_device)) / middle if on_device and middle else None,
            result if isinstance(result, int) else self.check(job, result),
        )

    def answer(self, question: Any, report: Callable[[Any], None]) -> Any:
        """A job, or "device", or the number of small graphs to solve in one call."""
        if isinstance(question, Job):
            return self.measure(question, report)
        return device() if question == "device" else batch_of_small(int(question), self.budget)

    def check(self, job: Job, result: Any) -> int:
        import jaxmatch as jm

        verdict = jm.check_matching(self.load(job.graph)["graph"], result)
        if not bool(verdict.optimal):
            raise AssertionError(f"{job.label} on {job.graph}: {verdict}, {result.status=}")
        return int(result.cardinality)


def _scipy(host: dict[str, Any]) -> Callable[[], int]:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n, m, edges = host["size"]
    A = sp.csr_matrix((np.ones(edges, np.int8), host["col_ind"], host["row_ptr"]), shape=(n, m))
    return lambda: int((maximum_bipartite_matching(A, perm_type="column") >= 0).sum())


def _igraph(host: dict[str, Any]) -> Callable[[], int]:
    import igraph

    n, m, _ = (int(x) for x in host["size"])
    rows = np.repeat(np.arange(n), np.diff(host["row_ptr"]))
    graph = igraph.Graph(n + m, np.stack([rows, host["col_ind"] + n], 1))
    graph.vs["type"] = [False] * n + [True] * m
    return lambda: len(graph.maximum_bipartite_matching("type"))


def _btf_library() -> ctypes.CDLL | None:
    for name in ("libbtf.so.2", "libbtf.so.1", "libbtf.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _btf(host: dict[str, Any]) -> Callable[[], int]:
    library = _btf_library()
    assert library is not None
    n, m, _ = (int(x) for x in host["size"])
    match, work = np.empty(n, np.int32), np.empty(5 * m, np.int32)
    operations = ctypes.c_double()
    arrays = [np.ascontiguousarray(host[k]) for k in ("col_ptr", "row_ind")]
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, match, work)]

    def solve(keep: Any = (arrays, match, work)) -> int:
        no_limit = ctypes.c_double(0)
        a, b, c, d = pointers
        return library.btf_maxtrans(n, m, a, b, no_limit, ctypes.byref(operations), c, d)

    return solve


def peers_found() -> list[str]:
    found = [p for p in ("scipy", "igraph") if importlib.util.find_spec(p)]
    return found + ["btf"] * (_btf_library() is not None)


def batch_of_small(count: int, budget: float) -> dict[str, Any]:
    """Many graphs of 64 + 64 vertices with about four edges a row, in one call; scipy in a loop."""
    import jax
    import scipy.sparse as sp
    from scipy.sparse.csgraph import maximum_bipartite_matching

    import jaxmatch as jm

    random = np.random.default_rng(0)
    matrices = []
    for _ in range(count):
        edge = random.integers(0, 64, (2, 256))
        matrices.append(sp.csr_matrix((np.ones(256, np.int8), tuple(edge)), shape=(64, 64)))
    batch = jm.BipartiteGraph.stack([jm.BipartiteGraph.from_scipy(a) for a in matrices])
    solve = jax.jit(jm.maximum_bipartite_matching).lower(batch).compile()
    result = jax.block_until_ready(solve(batch))
    assert bool(jm.check_matching(batch, result).optimal.all())

    def times(call: Callable[[], Any]) -> list[float]:
        spent: list[float] = []
        while len(spent) < 5 or (sum(spent) < 1e3 * budget and len(spent) < 40):
            start = time.perf_counter()
            call()
            spent.append(1e3 * (time.perf_counter() - start))
        return spent

    call_ms = statistics.median(times(lambda: jax.block_until_ready(solve(batch))))
    on_device = device_times(lambda: solve(batch), 9)
    sizes = [int((maximum_bipartite_matching(a) >= 0).sum()) for a in matrices]
    assert sizes == np.asarray(result.cardinality).tolist()
    scipy_ms = statistics.median(times(lambda: [maximum_bipartite_matching(a) for a in matrices]))
    device_ms = statistics.median(on_device) if on_device else None
    row: dict[str, Any] = {"graphs": count, "vertices": "64+64"}
    row["edges"] = float(np.mean([a.nnz for a in matrices]))
    row |= {"device_ms": device_ms, "call_ms": call_ms}
    if count == 4096 and device_ms is not None:
        row |= {"to_reach": 1.0, "met": "met" if device_ms <= 1 else "missed"}
    return row | {"scipy_ms": scipy_ms, "ratio_scipy": scipy_ms / (device_ms or call_ms)}
