"""Solves of the benchmark of sparse assignment, by jaxmatch and by peers, as a worker runs them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import cache, workers
from benchmarks.common.record import Row
from benchmarks.sparse_assignment import peers


class Job(workers.Job):
    """Methods: `"ours"`; `"drop-in"`, scipy's function with ours in it; `"from points"`; a peer."""


class Found(NamedTuple):
    value: Any
    gap: float  # relative to the value; 0 of peers, which prove nothing


class Bench(workers.Bench):
    """Floats are float64 with `wide`, else float32."""

    peers = (*peers.PEERS, "drop-in")

    def __init__(self, folder: Path, budget: float, wide: bool):
        import jax

        super().__init__(folder, budget)
        self.wide = wide
        jax.config.update("jax_enable_x64", wide)

    def answer(self, question: Any, report: Any) -> Any:
        """Also a case that makes a row by itself."""
        if isinstance(question, workers.Job) or question == "device":
            return super().answer(question, report)
        row: Row = question.row(self.budget)
        return row

    def load(self, name: str) -> dict[str, Any]:
        if self.loaded.get("name") != name:
            given = cache.load(self.cache, name)
            if not self.wide and given["cost"].dtype == np.float64:
                given["cost"] = given["cost"].astype(np.float32)
            self.loaded = {"name": name, "given": given}
        return self.loaded["given"]

    def solver(self, job: Any) -> workers.Solver:
        given = self.load(job.instance)
        if job.method in peers.PEERS:
            solve = peers.PEERS[job.method](given)
            return workers.Solver(lambda: None, lambda _: solve(), partial(_of_peer, given))
        make = {"ours": _on_edges, "drop-in": _drop_in, "from points": _from_points}[job.method]
        return make(given)


def _of_peer(given: peers.Arrays, col4row: np.ndarray) -> Found:
    return Found(peers.value_of(given, col4row), 0.0)


def options_of(given: peers.Arrays) -> dict[str, Any]:
    form = str(given["form"])
    if form == "maximum":
        return {"cardinality": "maximum"}
    return {"unmatched_cost": given["gate"].item()} if form == "gated" else {}


def _on_edges(given: peers.Arrays) -> workers.Solver:
    """A compiled solve of a graph and costs that are on the device."""
    import jax

    import jaxmatch as jm

    n, m, _ = (np.int32(x) for x in given["size"])
    parts = {k: given[k] for k in ("row_ptr", "col_ind", "col_ptr", "row_ind")}
    graph = jm.BipartiteGraph(**parts, num_rows=n, num_cols=m)  # type: ignore[arg-type]
    graph, cost = jax.device_put((graph, given["cost"]))
    options = options_of(given)
    solve = jax.jit(partial(jm.solve_sparse_assignment, **options)).lower(graph, cost).compile()

    def value_of(res: jm.Assignment) -> Found:
        assert res.status == jm.Status.OPTIMAL, jm.Status(int(res.status))
        check = jm.check_sparse_assignment(graph, cost, res, **options)
        duals = sum(
            np.abs(np.asarray(x)).sum(dtype=np.float64) for x in (res.row_dual, res.col_dual)
        )
        rounded = np.finfo(res.cost.dtype).eps * duals
        assert check.valid and check.gap <= rounded + res.gap, (check, res.gap)
        value = peers.value_of(given, np.asarray(res.col4row))
        return Found(value, float(res.gap) / max(abs(value), 1e-300))

    return workers.Solver(
        lambda: None, lambda _: jax.block_until_ready(solve(graph, cost)), value_of
    )


def _drop_in(given: peers.Arrays) -> workers.Solver:
    """Makes its graph in every call, as scipy does."""
    import jaxmatch as jm

    matrix, m = peers.as_matrix(given), int(given["size"][1])
    solve = jm.min_weight_full_bipartite_matching
    return workers.Solver(
        lambda: None,
        lambda _: peers.full_matching(matrix, m, solve),
        partial(_of_peer, given),
    )


def _from_points(given: peers.Arrays) -> workers.Solver:
    """Pairs within the radius are found in every call."""
    import jax

    import jaxmatch as jm

    points = jax.device_put((given["x"], given["y"]))
    options = {"radius": given["radius"].item(), "unmatched_cost": given["gate"].item()}
    solve = jax.jit(partial(jm.solve_assignment_points, **options)).lower(*points).compile()

    def value_of(res: jm.Assignment) -> Found:
        assert res.status == jm.Status.OPTIMAL, jm.Status(int(res.status))
        return _of_peer(given, np.asarray(res.col4row))

    return workers.Solver(lambda: None, lambda _: jax.block_until_ready(solve(*points)), value_of)
