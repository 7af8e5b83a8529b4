"""Arguments that change how a problem is solved, or what it is given as, but not the optimum."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxmatch as jm
from campaign import graphs, judges, networks
from campaign.calls import (
    ALL,
    WIDER,
    Solver,
    bipartite_matching,
    call,
    one_by_one,
    sparse_assignment,
)
from campaign.problems import Batch, Draw
from jaxmatch import Status


# Problems of which a call takes one


def divisible(d: Draw) -> Batch:
    """Both sides can be divided between four devices."""
    n, m = [(4, 4), (8, 4), (4, 8)][d.rng.integers(3)]
    return d.batch({"cost": d.numbers(n, m)}, options={"maximize": bool(d.rng.random() < 0.4)})


@lru_cache(maxsize=1)
def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:4]), ("x",))


def _sharded(by: str, **options: Any) -> Callable[[Batch], Any]:
    spec = PartitionSpec("x", None) if by == "row_axis" else PartitionSpec(None, "x")

    def one(cost: Any, **more: Any) -> Any:
        place = NamedSharding(_mesh(), spec)
        return jm.solve_assignment(jax.device_put(cost, place), **{by: "x"}, **options, **more)

    return one_by_one(one)


def stored_costs(d: Draw) -> Batch:
    """Sparse costs alone."""
    n, m = d.side([(3, 3), (4, 4), (3, 4), (4, 2), (1, 4), (4, 1)])
    arrays, known = graphs.graphs(d, n, m)
    maximize = d.maybe(0.4)
    known["cost"] = -d.numbers(n, m) if maximize else d.numbers(n, m)
    flat = known["cost"].reshape(d.count, n * m)
    arrays["cost"] = np.take_along_axis(flat, known["order"], 1)
    # scipy's function computes in 64 bits, whatever the mode.
    return d.batch(arrays, options={"maximize": maximize}, known=known, wide=True)


_SAID = {"no full matching": Status.INFEASIBLE, "invalid numeric": Status.INVALID_COST,
         "too large": Status.OVERFLOW}  # fmt: skip


def _as_scipy_sparse(batch: Batch) -> Any:
    """Its pairs or what it raises; everything else from the solver that gives a status."""
    res = call(sparse_assignment)(batch)
    there, cost = batch.known["there"], batch.known["cost"]
    n, m = there.shape[1:]
    status = np.zeros_like(res.status)
    col4row, row4col = np.full_like(res.col4row, -1), np.full_like(res.row4col, -1)
    for k in range(batch.count):
        pairs = np.nonzero(there[k])
        matrix = sp.coo_array((cost[k][pairs], pairs), (n, m)).tocsr()
        try:
            rows, cols = jm.min_weight_full_bipartite_matching(matrix, **batch.options)
            col4row[k, rows], row4col[k, cols] = cols, rows
        except ValueError as error:
            if _may_refuse(str(error), matrix.data):
                col4row[k], row4col[k] = res.col4row[k], res.row4col[k]
                continue
            status[k] = next(code for words, code in _SAID.items() if words in str(error))
    return res.replace(col4row=col4row, row4col=row4col, status=status)


def _may_refuse(error: str, cost: np.ndarray) -> bool:
    """Whether it gives no answer because rounding hides the best one, and may: some costs are below
    the rounding of others, or all are tiny."""
    sizes = np.abs(cost[np.isfinite(cost) & (cost != 0)])
    if "too far apart" not in error or sizes.size == 0:
        return False
    return bool(sizes.max() > 2.0**36 * sizes.min() or sizes.max() < 1e-290)


# Capacities of rows


def row_capacities(d: Draw) -> Batch:
    n, m = d.side([(3, 3), (2, 3), (3, 2)])
    cost, maximize = d.numbers(n, m), d.maybe(0.4)
    arrays = {"cost": -cost if maximize else cost}
    for name, size in (("row_capacity", n), ("col_capacity", m)):
        arrays[name] = d.rng.integers(0, 4, (d.count, size), np.int32)
    return d.batch(arrays, options={"maximize": maximize})


def of_row_capacities(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    """As the transport of as much as both sides can take."""
    arrays = dict(batch.arrays)
    a, b = arrays.pop("row_capacity"), arrays.pop("col_capacity")
    both = np.minimum(a.sum(1), b.sum(1)).astype(a.dtype)
    arrays |= {"supply": a, "demand": b, "partial": both}
    return judges.transport(dataclasses.replace(batch, arrays=arrays), res, twin)


# Time


def stopped(batch: Batch, res: Any, twin: bool) -> dict[int, str]:
    """Of results whose time was up: pairs and gap are as of an optimum, or pairs are missing and
    the gap is infinite."""
    late = res.status == Status.TIME_LIMIT
    wrong = judges.assignment(batch, res.replace(status=np.where(late, 0, res.status)), twin)
    incomplete = late & np.isinf(res.gap) & (res.cost == batch.sign * np.inf)
    return {k: reason for k, reason in wrong.items() if not incomplete[k]}


GENERATORS: dict[str, Callable[[Draw], Batch]] = {
    "divisible": divisible,
    "stored costs": stored_costs,
    "row capacities": row_capacities,
}


def solvers() -> dict[str, Solver]:
    dense = judges.assignment
    seldom: dict[str, Any] = {"compiled": True, "dtypes": WIDER}
    no_numbers: dict[str, Any] = {"families": ("small", "empty", "malformed"), "size": 300}
    narrow = tuple(x for x in ALL if x != "int64")
    found = {
        "assignment/in time": Solver("ungated", call(jm.solve_assignment, time_limit=3600.0),
                                     dense, narrow, 200),
        "assignment/no time": Solver("ungated", call(jm.solve_assignment, time_limit=1e-9),
                                     stopped, narrow, 200),
        "row capacities": Solver("row capacities", call(jm.solve_capacitated_assignment),
                                 of_row_capacities, size=100),
        "as scipy's sparse": Solver("stored costs", _as_scipy_sparse, dense, WIDER, 100),
        "flow/rcsr": Solver("flow", networks.flow(layout="rcsr"), judges.flow, WIDER, 100),
        "flow/bcsr": Solver("flow", networks.flow(layout="bcsr"), judges.flow, WIDER, 100),
        "flow/steps": Solver("flow", networks.flow(True, steps_per_call=1), judges.flow, size=100,
                             **seldom),
        "matching/steps": Solver(
            "matching", call(bipartite_matching, True, steps_per_call=1), judges.matching,
            ("int32",), compiled=True, forms=("usual", "empty", "malformed"), **no_numbers),
        "points/radius/room": Solver(
            "near points", one_by_one(jm.solve_assignment_points, max_pairs=12), dense,
            ("float32", "float64"), 30, compiled=True, forms=("usual",)),
    }  # fmt: skip
    for method in ("core", "auction", "classical", "tree"):
        solve = call(jm.solve_assignment, True, method=method, steps_per_call=2)
        found[f"assignment/{method}/steps"] = Solver(
            "ungated", solve, dense, ("float32", "float64", "int32"), 100, compiled=True
        )
    for by in ("row_axis", "col_axis"):
        dtypes = ("float32", "float64", "int32")  # of costs that are sharded
        found[f"assignment/{by}"] = Solver(
            "divisible", _sharded(by), dense, dtypes, 20, compiled=True, forms=("usual",)
        )
    return found
