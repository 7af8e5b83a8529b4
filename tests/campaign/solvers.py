"""The solvers of the campaign: each with the subject of its problems, and a judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign import judges, learning
from campaign.elsewhere import divided
from campaign.families import FLOATS, INTEGERS
from campaign.problems import Batch


ALL = (*FLOATS, *INTEGERS)
WIDER = ("float32", "float64", "int32", "int64")


@dataclasses.dataclass(frozen=True)
class Solver:
    """`solve` takes a batch and returns a result whose fields are NumPy arrays of the batch."""

    subject: str
    solve: Callable[[Batch], Any]
    judge: judges.Judge
    dtypes: tuple[str, ...] = ALL
    size: int = 1000  # of a batch
    compiled: bool = False  # a program for each shape and dtype, which takes seconds
    twin: bool = False
    forms: tuple[str, ...] = ("usual", "empty")
    families: tuple[str, ...] = ()  # that differ for it, if not all
    # The same on several devices; None of what it returns says that this batch can't be divided.
    elsewhere: Callable[[Batch], Any] | None = None
    portable: bool = False  # the same bits by all vector instructions of the CPU


def _given(batch: Batch, traced: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays: dict[str, Any] = dict(batch.arrays)
    if traced:
        arrays = jax.tree.map(jnp.asarray, arrays)
    return arrays, dict(batch.options)


@lru_cache(maxsize=256)
def _program(function: Any, names: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    """Compiled once for all batches of a kind."""
    return jax.jit(lambda *arrays: function(**dict(zip(names, arrays, strict=True)),
                                            **dict(options)))  # fmt: skip


def _call(function: Callable[..., Any], traced: bool = False, **more: Any) -> Any:
    """One call for the batch: on NumPy arrays, or in a compiled program."""

    def solve(batch: Batch) -> Any:
        with x64(batch.wide):
            arrays, options = _given(batch, traced)
            options |= more
            if not traced:
                return to_numpy(function(**arrays, **options))
            program = _program(function, tuple(arrays), tuple(sorted(options.items())))
            return to_numpy(program(*arrays.values()))

    return solve


def _on_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the arrays of a graph, in place of the graph."""
    names = [field.name for field in dataclasses.fields(jm.BipartiteGraph)]

    def solve(**given: Any) -> Any:
        graph = jm.BipartiteGraph(**{name: given.pop(name) for name in names})
        return function(graph, **given)

    return solve


sparse_assignment = _on_graph(jm.solve_sparse_assignment)
bipartite_matching = _on_graph(jm.maximum_bipartite_matching)


def _points(batch: Batch) -> Any:
    """One problem at a time, as the solver takes them."""
    found = []
    with x64(batch.wide):
        for k in range(batch.count):
            given = {name: x[k] for name, x in batch.arrays.items()}
            found.append(to_numpy(jm.solve_assignment_points(**given, **batch.options)))
    return jax.tree.map(lambda *x: np.stack(x), *found)


def _checked(solve: Callable[[Batch], Any], check: Callable[..., Any]) -> Callable[[Batch], Any]:
    """What the check proves in place of the solver's gap; -1 where it finds no solution."""

    def solve_and_check(batch: Batch) -> Any:
        res = solve(batch)
        found = _call(check, True)(dataclasses.replace(
            batch, arrays={k: x for k, x in batch.arrays.items() if k != "warm_start"}
            | {"result": res}))  # fmt: skip
        gap = np.where(found.valid, found.gap, -1)
        return res.replace(gap=np.where(res.status == 0, gap, res.gap).astype(res.gap.dtype))

    return solve_and_check


def _as_scipy(batch: Batch) -> Any:
    """`linear_sum_assignment` raises; of its pairs an `Assignment` is made."""
    with x64(batch.wide):
        return to_numpy(jax.jit(_from_pairs)(jnp.asarray(batch.arrays["cost"])))


_SAID = {"infeasible": 1, "invalid numeric": 2, "too large": 3}


def _scipy_here(batch: Batch) -> Any:
    """Outside of a program it raises what scipy does, of one problem after the other."""
    with x64(batch.wide):
        res = to_numpy(jm.solve_assignment(batch.arrays["cost"]))
        col4row, status = np.full_like(res.col4row, -1), np.zeros_like(res.status)
        for k, cost in enumerate(batch.arrays["cost"]):
            try:
                rows, cols = jm.linear_sum_assignment(cost)
                col4row[k, rows] = cols
            except ValueError as error:
                status[k] = next(code for words, code in _SAID.items() if words in str(error))
    return res.replace(col4row=col4row, status=status)


def _from_pairs(cost: Any) -> Any:
    """Its pairs, and everything else from the solver that gives a status."""
    res = jm.solve_assignment(cost)
    rows, cols = jm.linear_sum_assignment(cost)
    col4row = jnp.full_like(res.col4row, -1)
    at = jnp.where(rows < 0, cost.shape[-2], rows)
    place = tuple(jnp.indices(at.shape, sparse=True))[:-1]
    return res.replace(col4row=col4row.at[(*place, at)].set(cols, mode="drop"))


@lru_cache(maxsize=64)
def _network(edges: Any) -> jm.FlowNetwork:
    tail, head, n = edges
    return to_numpy(jm.FlowNetwork.from_edges(tail, head, n))


@lru_cache(maxsize=64)
def _flow_program(method: str, last: int) -> Any:
    return jax.jit(lambda network, c: jm.maximum_flow(network, c, 0, last, method=method))


def _flow(method: str, traced: bool = False) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Any:
        network, last = _network(batch.options["edges"]), batch.options["edges"][2] - 1
        capacity = batch.arrays["capacity"]
        if "hurt" in batch.known:
            network = _malformed(network, batch)
        with x64(batch.wide):
            if traced:
                return to_numpy(_flow_program(method, last)(network, jnp.asarray(capacity)))
            return to_numpy(jm.maximum_flow(network, capacity, 0, last, method=method))

    return solve


def _cut_near_the_sink(batch: Batch) -> Any:
    """Its side, with the flow of the reversed network, so that it can be judged as a flow."""
    tail, head, n = batch.options["edges"]
    mirrored = tuple(n - 1 - v for v in head), tuple(n - 1 - v for v in tail), n
    capacity = batch.arrays["capacity"]
    with x64(batch.wide):
        back = to_numpy(jm.maximum_flow(_network(mirrored), capacity, 0, n - 1))
        cut = to_numpy(jm.minimum_cut(
            _network((tail, head, n)), capacity, 0, n - 1, nearest="sink"))  # fmt: skip
    side = ~cut.source_side[:, ::-1] & (cut.status == 0)[:, None]
    return back.replace(value=cut.value, source_side=side, status=cut.status)


def _malformed(network: jm.FlowNetwork, batch: Batch) -> jm.FlowNetwork:
    """One network for each problem, of which some have a number out of range."""
    copies = {
        name: np.tile(x, (batch.count, 1)) for name, x in vars(network).items() if name != "layout"
    }
    values = [-1, -(2**31), 2**31 - 1, 2**16]
    names = ("arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge")
    for k in np.flatnonzero(batch.known["hurt"]):
        where = int(batch.known["where"][k])
        x = copies[names[where % len(names)]]
        x[k, where // 8 % x.shape[1]] = values[where // 1024 % len(values)]
    return dataclasses.replace(network, **copies)


def _divisible(
    subject: str, solve: Callable[[Batch], Any], judge: judges.Judge, **rest: Any
) -> Solver:
    """A program whose batches may lie on several devices."""
    return Solver(subject, solve, judge, compiled=True, elsewhere=divided(solve), **rest)


def _with_derivatives() -> dict[str, Solver]:
    floats: dict[str, Any] = {"dtypes": ("float32", "float64"), "size": 200, "forms": ("usual",)}
    gates = "cost", "unmatched_cost"
    dense = learning.derivative_is(judges.assignment, learning.pairs_of)
    transport = learning.derivative_is(judges.transport, learning.plan_of)
    by_cost = learning.with_gradient(jm.solve_transport, "cost")
    table = {
        "assignment/derivative": _divisible(
            "dense", learning.with_gradient(jm.solve_assignment, *gates), dense, **floats),
        "capacities/derivative": _divisible(
            "capacities", learning.with_gradient(jm.solve_assignment, *gates), dense, **floats),
        "transport/derivative": _divisible("transport", by_cost, transport, **floats),
    }  # fmt: skip
    for name in learning.LEARNERS:
        table[name] = Solver("neighbours", learning.learn(name), learning.learned(name),
                             compiled=True, **floats)  # fmt: skip
    return table


def _table() -> dict[str, Solver]:
    dense, sides = judges.assignment, {"forms": ("usual", "empty")}
    table = {"assignment": Solver("dense", _call(jm.solve_assignment), dense, **sides)}
    for method in ("core", "auction", "classical", "tree"):
        solve = _call(jm.solve_assignment, method=method)
        narrow = tuple(x for x in ALL if x != "int64")
        table[f"assignment/{method}"] = Solver("ungated", solve, dense, narrow, 200, **sides)
    graphs: dict[str, Any] = {"forms": ("usual", "empty", "malformed")}
    no_numbers = graphs | {"families": ("small", "empty", "malformed"), "size": 300}
    table |= {
        "capacities": Solver("capacities", _call(jm.solve_assignment), dense, size=300, **sides),
        "sparse": Solver("sparse", _call(sparse_assignment), dense, **graphs),
        "scipy": Solver("scipy", _scipy_here, dense, size=100, **sides),
        "minimum cut": Solver("flow", _cut_near_the_sink, judges.cut_near_the_sink, WIDER, 100),
        "k best": Solver(
            "ungated", _call(jm.k_best_assignments, k=5), judges.k_best, size=100, **sides
        ),
        "transport": Solver("transport", _call(jm.solve_transport), judges.transport, size=100),
        "grid cut": Solver("grid", _call(jm.grid_cut), judges.cut, size=100),
    }
    for method in ("auto", "augment", "push_relabel", "pseudoflow"):
        table[f"flow/{method}"] = Solver("flow", _flow(method), judges.flow, WIDER, 100, **graphs)
    for method in ("auto", "hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_dbfs",
                   "p_pfp", "p_hk"):  # fmt: skip
        solve = _call(bipartite_matching, method=method)
        table[f"matching/{method}"] = Solver(
            "matching", solve, judges.matching, ("int32",), **no_numbers
        )
    # Programs: fewer shapes and dtypes.
    seldom: dict[str, Any] = {"compiled": True, "dtypes": WIDER}
    twin: dict[str, Any] = {"compiled": True, "twin": True, "dtypes": ("float32", "float64")}
    table |= {
        "assignment traced": Solver("dense", _call(jm.solve_assignment, True), dense, **seldom),
        "scipy traced": Solver("scipy", _as_scipy, dense, **seldom),
        "points": Solver("points", _points, dense, ("float32", "float64"), 30, compiled=True,
                         forms=("usual",)),
        "points/radius": Solver("near points", _points, dense, ("float32", "float64"), 30,
                                compiled=True, forms=("usual",)),
        "points of masses": Solver(
            "points of masses", _call(jm.solve_transport_points, True), judges.transport,
            ("float32", "float64"), 100, compiled=True, forms=("usual",)),
        "assignment checked": Solver(
            "dense", _checked(_call(jm.solve_assignment), jm.check_assignment), dense, **seldom),
        "capacities checked": Solver(
            "capacities", _checked(_call(jm.solve_assignment), jm.check_assignment), dense,
            **seldom),
        "sparse checked": Solver(
            "sparse", _checked(_call(sparse_assignment), _on_graph(jm.check_sparse_assignment)),
            dense, forms=graphs["forms"], **seldom),
        "transport checked": Solver(
            "transport", _checked(_call(jm.solve_transport), jm.check_transport),
            judges.transport, size=100, **seldom),
        "matching/flow": Solver("matching", _call(bipartite_matching, True, method="flow"),
                                judges.matching, ("int32",), compiled=True, **no_numbers),
        "sparse traced": Solver("sparse", _call(sparse_assignment, True), dense,
                                forms=graphs["forms"], **seldom),
        "matching traced": Solver("matching", _call(bipartite_matching, True), judges.matching,
                                  ("int32",), compiled=True, **graphs),
        "flow traced": Solver("flow", _flow("auto", True), judges.flow, size=100,
                              forms=graphs["forms"], **seldom),
        "transport traced": Solver("transport", _call(jm.solve_transport, True), judges.transport,
                                   size=100, **seldom),
        "bottleneck": Solver("ungated", _call(jm.bottleneck_assignment, True), judges.bottleneck,
                             size=200, **seldom),
        "bottleneck/lexicographic": Solver(
            "ungated", _call(jm.bottleneck_assignment, True, lexicographic=True),
            judges.bottleneck, size=200, **seldom),
        "assignment/xla": Solver("dense", _call(jm.solve_assignment, True, method="xla"), dense,
                                 **twin),
        "sparse/xla": Solver("sparse", _call(sparse_assignment, True, method="xla"), dense, **twin),
        "k best/xla": Solver("ungated", _call(jm.k_best_assignments, True, k=5, method="xla"),
                             judges.k_best, ("int32", "int64", "float64"), 100, compiled=True,
                             twin=True),
        "transport/xla": Solver("transport", _call(jm.solve_transport, True, method="xla"),
                                judges.transport, ("int64", "float64"), 100, compiled=True),
        "flow/xla": Solver("flow", _flow("xla", True), judges.flow, ("int64",), 100,
                           compiled=True),
        "grid cut/xla": Solver("grid", _call(jm.grid_cut, True, method="xla"), judges.cut,
                               ("int64",), 100, compiled=True),
        "matching/xla": Solver("matching", _call(bipartite_matching, True, method="xla"),
                               judges.matching, ("int32",), compiled=True, **no_numbers),
    }  # fmt: skip
    for name, solver in table.items():
        portable = not solver.compiled
        traced = name in _DIVISIBLE
        elsewhere = divided(solver.solve) if traced else None
        table[name] = dataclasses.replace(solver, portable=portable, elsewhere=elsewhere)
    return table | _with_derivatives()


_DIVISIBLE = (
    "assignment traced", "sparse traced", "matching traced", "flow traced", "transport traced",
    "bottleneck", "assignment/xla", "points of masses",
)  # fmt: skip
SOLVERS = _table()
