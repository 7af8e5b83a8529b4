"""The solvers of the campaign: each with the subject of its problems, and a judge."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign import checks, derivatives, judges, learners, networks, options, priced_networks
from campaign.calls import (
    ALL,
    WIDER,
    Solver,
    bipartite_matching,
    call,
    one_by_one,
    sparse_assignment,
)
from campaign.elsewhere import divided
from campaign.problems import Batch


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


def _with_derivatives() -> dict[str, Solver]:
    floats: dict[str, Any] = {"dtypes": ("float32", "float64"), "size": 200, "forms": ("usual",)}
    is_, of = derivatives.derivative_is, derivatives.with_gradient
    assignment = of(jm.solve_assignment, "cost", "unmatched_cost")
    dense = is_(judges.assignment, derivatives.pairs_of)
    sparse = of(sparse_assignment, "cost", "unmatched_cost", "unmatched_col_cost")
    cells = "source_capacity", "sink_capacity", "pairwise"
    table = {
        "assignment/derivative": Solver("dense", assignment, dense),
        "capacities/derivative": Solver(
            "capacities", of(jm.solve_capacitated_assignment, "cost", "unmatched_cost"), dense),
        "sparse/derivative": Solver(
            "sparse", sparse, is_(judges.assignment, derivatives.edges_of)),
        "transport/derivative": Solver(
            "transport", of(jm.solve_transport, "cost"),
            is_(judges.transport, derivatives.plan_of)),
        "bottleneck/derivative": Solver(
            "ungated", of(jm.bottleneck_assignment, "cost", value="bottleneck"),
            is_(judges.bottleneck, derivatives.critical_pair)),
        "flow/derivative": Solver(
            "flow", of(networks.flow_of, "capacity", value="value"),
            is_(judges.flow, derivatives.arcs_across)),
        "grid cut/derivative": Solver(
            "grid", of(jm.grid_cut, *cells, value="value"),
            is_(judges.cut, derivatives.cut_of_grid)),
    }  # fmt: skip
    for name, solver in table.items():
        table[name] = dataclasses.replace(
            solver, compiled=True, varied=True, elsewhere=divided(solver.solve), **floats
        )
    for name in learners.LEARNERS:
        table[name] = Solver("neighbours", learners.learn(name), learners.learned(name),
                             compiled=True, **floats)  # fmt: skip
    return table


def _table() -> dict[str, Solver]:
    dense, sides = judges.assignment, {"forms": ("usual", "empty")}
    table = {"assignment": Solver("dense", call(jm.solve_assignment), dense, **sides)}
    for method in ("core", "auction", "classical", "tree"):
        solve = call(jm.solve_assignment, method=method)
        narrow = tuple(x for x in ALL if x != "int64")
        table[f"assignment/{method}"] = Solver("ungated", solve, dense, narrow, 200, **sides)
    table["assignment/both sides"] = Solver(
        "both sides", call(jm.solve_assignment), dense, size=200, **sides
    )
    graphs: dict[str, Any] = {"forms": ("usual", "empty", "malformed")}
    no_numbers = graphs | {"families": ("small", "empty", "malformed"), "size": 300}
    table |= {
        "capacities": Solver(
            "capacities", call(jm.solve_capacitated_assignment), dense, size=300, **sides
        ),
        "sparse": Solver("sparse", call(sparse_assignment), dense, **graphs),
        "scipy": Solver("scipy", _scipy_here, dense, size=100, **sides),
        "minimum cut": Solver(
            "flow",
            lambda x: networks.as_flow(x, networks.cut(x)),
            judges.cut_near_the_sink,
            WIDER,
            100,
        ),
        "k best": Solver(
            "ungated", call(jm.k_best_assignments, k=5), judges.k_best, size=100, **sides
        ),
        "transport": Solver("transport", call(jm.solve_transport), judges.transport, size=100),
        "grid cut": Solver("grid", call(jm.grid_cut), judges.cut, size=100),
    }
    for method in ("auto", "augment", "pseudoflow"):
        table[f"flow/{method}"] = Solver(
            "flow", networks.flow(method=method), judges.flow, WIDER, 100, **graphs
        )
    for method in ("auto", "hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_pfp"):
        solve = call(bipartite_matching, method=method)
        table[f"matching/{method}"] = Solver(
            "matching", solve, judges.matching, ("int32",), **no_numbers
        )
    # Programs: fewer shapes and dtypes.
    seldom: dict[str, Any] = {"compiled": True, "dtypes": WIDER}
    twin: dict[str, Any] = {"compiled": True, "twin": True, "dtypes": ("float32", "float64")}
    table |= {
        "assignment traced": Solver("dense", call(jm.solve_assignment, True), dense, **seldom),
        "scipy traced": Solver("scipy", _as_scipy, dense, **seldom),
        "points": Solver("points", one_by_one(jm.solve_assignment_points), dense,
                         ("float32", "float64"), 30, compiled=True, forms=("usual",)),
        "points/radius": Solver("near points", one_by_one(jm.solve_assignment_points), dense,
                                ("float32", "float64"), 30, compiled=True, forms=("usual",)),
        "points of masses": Solver(
            "points of masses", call(jm.solve_transport_points, True), judges.transport,
            ("float32", "float64"), 100, compiled=True, forms=("usual",)),
        "matching/flow": Solver("matching", call(bipartite_matching, True, method="flow"),
                                judges.matching, ("int32",), compiled=True, **no_numbers),
        "sparse traced": Solver("sparse", call(sparse_assignment, True), dense,
                                forms=graphs["forms"], **seldom),
        "matching traced": Solver("matching", call(bipartite_matching, True), judges.matching,
                                  ("int32",), compiled=True, **graphs),
        "flow traced": Solver("flow", networks.flow(True), judges.flow, size=100,
                              forms=graphs["forms"], **seldom),
        "transport traced": Solver("transport", call(jm.solve_transport, True), judges.transport,
                                   size=100, **seldom),
        "bottleneck": Solver("ungated", call(jm.bottleneck_assignment, True), judges.bottleneck,
                             size=200, **seldom),
        "bottleneck/lexicographic": Solver(
            "ungated", call(jm.bottleneck_assignment, True, lexicographic=True),
            judges.bottleneck, size=200, **seldom),
        "assignment/xla": Solver("dense", call(jm.solve_assignment, True, method="xla"), dense,
                                 **twin),
        "sparse/xla": Solver("sparse", call(sparse_assignment, True, method="xla"), dense, **twin),
        "k best/xla": Solver("ungated", call(jm.k_best_assignments, True, k=5, method="xla"),
                             judges.k_best, ("int32", "int64", "float64"), 100, compiled=True,
                             twin=True),
        "transport/xla": Solver("transport", call(jm.solve_transport, True, method="xla"),
                                judges.transport, ("int64", "float64"), 100, compiled=True),
        "flow/xla": Solver("flow", networks.flow(True, method="xla"), judges.flow, ("int64",), 100,
                           compiled=True),
        "grid cut/xla": Solver("grid", call(jm.grid_cut, True, method="xla"), judges.cut,
                               ("int64",), 100, compiled=True),
        "matching/xla": Solver("matching", call(bipartite_matching, True, method="xla"),
                               judges.matching, ("int32",), compiled=True, **no_numbers),
    }  # fmt: skip
    table |= options.solvers() | priced_networks.solvers()
    for name, solver in table.items():
        portable = not solver.compiled
        traced = name in _DIVISIBLE
        elsewhere = divided(solver.solve) if traced else None
        table[name] = dataclasses.replace(solver, portable=portable, elsewhere=elsewhere)
    return table | _with_derivatives() | checks.solvers()


_DIVISIBLE = (
    "assignment traced", "sparse traced", "matching traced", "flow traced", "transport traced",
    "bottleneck", "assignment/xla", "points of masses",
)  # fmt: skip
SOLVERS = _table()
