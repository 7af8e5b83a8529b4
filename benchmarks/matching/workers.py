"""Solves of the matching benchmark, by our methods and the peers, as a worker runs them."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import cache, workers


PEERS = ("scipy", "igraph", "btf")
IGRAPH_MOST_EDGES = 8_000_000  # building its graph takes longer than all else


@dataclass(frozen=True)
class Job(workers.Job):
    """`start` is "cheap" for the time after the common cheap initialisation."""

    start: str = "nothing"

    @property
    def kind(self) -> tuple[Any, ...]:
        """All relabellings and starts of a method."""
        return (self.instance, self.method, *self.options[:1])

    @property
    def problem(self) -> str:
        return self.instance.removesuffix("_rcp")


class Bench(workers.Bench):
    peers = PEERS

    def __init__(self, folder: Path, budget: float):
        super().__init__(folder, budget)
        self.compiled: dict[Any, Callable[..., Any]] = {}

    def load(self, name: str) -> dict[str, Any]:
        if name != self.loaded.get("name"):
            import jax

            import jaxmatch as jm

            host = cache.load(self.cache, name)
            n, m, _ = (int(x) for x in host["size"])
            arrays = [host[k] for k in ("row_ptr", "col_ind", "col_ptr", "row_ind")]
            graph = jm.BipartiteGraph(*jax.device_put((*arrays, np.int32(n), np.int32(m))))
            start = jax.block_until_ready((graph, jax.device_put(host["start"])))[1]
            self.loaded = {"name": name, "host": host, "graph": graph, "start": start}
        return self.loaded

    def solver(self, job: Job) -> workers.Solver:
        """Of ours a compiled solve, for all graphs of one size."""
        if job.method in PEERS:
            make = {"scipy": _scipy, "igraph": _igraph, "btf": _btf}[job.method]
            solve = make(self.load(job.instance)["host"])
            return workers.Solver(lambda: None, lambda _: solve(), int)
        import jax

        import jaxmatch as jm

        graph, start = (self.load(job.instance)[k] for k in ("graph", "start"))
        key = (job.label, job.start, graph.shape, graph.max_edges)
        if key not in self.compiled:
            how: dict[str, Any] = {"method": job.method, "options": dict(job.options)}

            def from_start(graph: Any, start: Any) -> Any:
                warm = {"warm_start": start, "init": "none"} if job.start == "cheap" else {}
                return jm.maximum_bipartite_matching(graph, **how, **warm)

            self.compiled[key] = jax.jit(from_start).lower(graph, start).compile()
        compiled = self.compiled[key]
        return workers.Solver(
            lambda: (graph, start),
            lambda given: jax.block_until_ready(compiled(*given)),
            partial(self.check, job),
        )

    def answer(self, question: Any, report: Callable[[str], None]) -> Any:
        """Also the number of small graphs to solve in one call, and whether by scipy too."""
        if isinstance(question, tuple):
            return batch_of_small(*question, self.budget)
        return super().answer(question, report)

    def check(self, job: Job, result: Any) -> int:
        import jaxmatch as jm

        verdict = jm.check_matching(self.load(job.instance)["graph"], result)
        if not bool(verdict.optimal):
            raise AssertionError(f"{job.label} on {job.instance}: {verdict}, {result.status=}")
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


def batch_of_small(count: int, peers: bool, budget: float) -> dict[str, Any]:
    """Many graphs of 64 + 64 vertices with about four edges a row, in one call; scipy in a loop."""
    import jax
    import scipy.sparse as sp
    from scipy.sparse.csgraph import maximum_bipartite_matching

    import jaxmatch as jm
    from benchmarks.common.timing import device_times, median_ms

    random = np.random.default_rng(0)
    matrices = []
    for _ in range(count):
        edge = random.integers(0, 64, (2, 256))
        matrices.append(sp.csr_matrix((np.ones(256, np.int8), tuple(edge)), shape=(64, 64)))
    batch = jm.BipartiteGraph.stack([jm.BipartiteGraph.from_scipy(a) for a in matrices])
    solve = jax.jit(jm.maximum_bipartite_matching).lower(batch).compile()
    result = jax.block_until_ready(solve(batch))
    assert bool(jm.check_matching(batch, result).optimal.all())
    sizes = [int((maximum_bipartite_matching(a) >= 0).sum()) for a in matrices]
    assert sizes == np.asarray(result.cardinality).tolist()

    call_ms = median_ms(solve, batch, budget=budget, most=40)
    device_ms = workers.spread(device_times(lambda: solve(batch), 9)).get("device_ms")
    row: dict[str, Any] = {"graphs": count, "vertices": "64+64"}
    row["edges"] = float(np.mean([a.nnz for a in matrices]))
    row |= {"device_ms": device_ms, "call_ms": call_ms}
    if count == 4096 and device_ms is not None:
        row |= {"to_reach": 1.0, "met": "met" if device_ms <= 1 else "missed"}
    if not peers:
        return row
    scipy_ms = median_ms(
        lambda: [maximum_bipartite_matching(a) for a in matrices], budget=budget, most=40
    )
    return row | {"scipy_ms": scipy_ms, "ratio_scipy": scipy_ms / (device_ms or call_ms)}
