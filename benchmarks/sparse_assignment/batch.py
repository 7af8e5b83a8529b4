"""Batches of small sparse problems: one call on a GPU, beside scipy in a loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.record import Row, ratio
from benchmarks.sparse_assignment import peers
from benchmarks.sparse_assignment.workers import options_of


SIDE, EDGES, GREATEST = 64, 600, 1000


@dataclass(frozen=True)
class Case:
    """So many problems of 64 + 64 vertices and 600 edges, on one graph or on one each."""

    problems: int
    shared: bool
    form: str
    dtype: str
    with_peer: bool

    def row(self, budget: float) -> Row:
        import jax

        import jaxmatch as jm
        from benchmarks.common.timing import device_times, timed
        from benchmarks.common.workers import spread

        given = [self._problem(seed) for seed in range(self.problems)]
        options = options_of(given[0])
        graph, cost = jax.device_put((_graph(given[:1] if self.shared else given), _costs(given)))
        solve = jax.jit(partial(jm.solve_sparse_assignment, **options)).lower(graph, cost).compile()
        res, call_ms = timed(solve, graph, cost, budget=budget)
        check = jm.check_sparse_assignment(graph, cost, res, **options)
        assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
        assert (np.asarray(check.valid) & (np.asarray(check.gap) <= 1e-6 * GREATEST * SIDE)).all()
        values = [peers.value_of(*x) for x in zip(given, np.asarray(res.col4row), strict=True)]
        clock = spread(device_times(lambda: solve(graph, cost), 9))
        row: Row = {"problems": self.problems, "graph": "shared" if self.shared else "own"}
        row |= {"form": self.form, "dtype": self.dtype, "call_ms": call_ms}
        row |= {"device_ms": clock.get("device_ms")}
        return row | (_by_scipy(given, values, call_ms) if self.with_peer else {})

    def _problem(self, seed: int) -> peers.Arrays:
        """A graph with a perfect matching, and costs of its own."""
        rng = np.random.default_rng(0 if self.shared else seed)
        own = np.arange(SIDE) * SIDE + rng.permutation(SIDE)
        others = rng.choice(np.setdiff1d(np.arange(SIDE**2), own), EDGES - SIDE, replace=False)
        edges = np.sort(np.concatenate([own, others]))
        cost = np.random.default_rng(seed).integers(1, GREATEST + 1, EDGES).astype(self.dtype)
        starts = np.searchsorted(edges, np.arange(SIDE + 1) * SIDE).astype(np.int32)
        arrays = {"row_ptr": starts, "col_ind": (edges % SIDE).astype(np.int32), "cost": cost}
        return arrays | {
            "size": np.array([SIDE, SIDE, EDGES]),
            "form": np.array(self.form),
            "gate": np.array(GREATEST // 5),
        }


def _graph(given: list[peers.Arrays]) -> Any:
    import jaxmatch as jm

    rows = np.arange(SIDE)
    graphs = [
        jm.BipartiteGraph.from_edges(
            np.repeat(rows, np.diff(x["row_ptr"])), x["col_ind"], (SIDE, SIDE)
        )
        for x in given
    ]
    return graphs[0] if len(graphs) == 1 else jm.BipartiteGraph.stack(graphs)


def _costs(given: list[peers.Arrays]) -> np.ndarray:
    return np.stack([x["cost"] for x in given])


def _by_scipy(given: list[peers.Arrays], values: list[Any], call_ms: float) -> Row:
    """A loop on one core, which must find the same values."""
    from benchmarks.common.timing import timed

    solvers = [peers.by_scipy(x) for x in given]
    found, ms = timed(lambda: [solve() for solve in solvers], least=3, most=3)
    for one, value, col4row in zip(given, values, found, strict=True):
        best = peers.value_of(one, col4row)
        assert abs(best - value) <= 1e-6 * abs(best), (best, value)
    return {"scipy_ms": ms, "scipy/ours": ratio(ms, call_ms)}


def cases(quick: bool, with_peer: bool) -> list[Case]:
    kinds = [(form, "float32") for form in ("full", "gated", "maximum")] + [("full", "int32")]
    count = 32 if quick else 4096
    return [Case(count, shared, *kind, with_peer) for shared in (True, False) for kind in kinds]
