"""Batches of small graphs, networks and grids, whole and malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from grid_cut_helpers import arcs_of

from campaign.exactly import flat
from campaign.families import FLOATS
from campaign.problems import Batch, Draw


def _csr(there: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pointers and indices of the pairs of [b, n, m], and their places in the flat matrix."""
    count, n, m = there.shape
    flat = there.reshape(count, n * m)
    order = np.argsort(~flat, axis=1, kind="stable")
    pointers = np.zeros((count, n + 1), np.int32)
    np.cumsum(there.sum(2), axis=1, out=pointers[:, 1:])
    return pointers, (order % max(m, 1)).astype(np.int32), order


def graphs(d: Draw, n: int, m: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Graphs as CSR both ways, and their pairs. What is beyond the last pointer is anything."""
    there = d.rng.random((d.count, n, m)) < d.rng.choice([0, 0.3, 0.6, 1], (d.count, 1, 1))
    row_ptr, col_ind, order = _csr(there)
    col_ptr, row_ind, _ = _csr(there.transpose(0, 2, 1))
    arrays = {"row_ptr": row_ptr, "col_ind": col_ind, "col_ptr": col_ptr, "row_ind": row_ind}
    arrays["num_rows"] = np.full(d.count, n, np.int32)
    arrays["num_cols"] = np.full(d.count, m, np.int32)
    return arrays, {"there": there, "order": order}


def damage(d: Draw, arrays: dict[str, np.ndarray], tops: dict[str, int]) -> np.ndarray:
    """Writes a number out of range into half of the graphs; which ones.

    Pointers are read up to the last, indices up to the edges there are.
    """
    hurt = d.rng.random(d.count) < 0.5
    edges = arrays["row_ptr"][:, -1].copy()
    for k in np.flatnonzero(hurt):
        name = str(d.rng.choice([x for x in tops if x.endswith("ptr") or edges[k]]))
        top, end = tops[name], arrays[name].shape[1] if name.endswith("ptr") else edges[k]
        values = [-1, -(2**31), 2**31 - 1, top + 1, top + 2**16]
        arrays[name][k, d.rng.integers(end)] = d.rng.choice(values)
    return hurt


def sparse(d: Draw) -> Batch:
    n, m = d.side([(3, 3), (4, 4), (3, 4), (4, 2), (1, 4), (4, 1)])
    arrays, known = graphs(d, n, m)
    maximize = d.maybe(0.4)
    options: dict[str, Any] = {"maximize": maximize}
    cost = d.numbers(n, m)
    real = np.float64 if (wide := d.wide()) else np.float32
    form = 0 if d.few else d.rng.integers(4)
    if form == 1:
        options["cardinality"] = "maximum"
    if form >= 2:
        arrays["unmatched_cost"] = d.numbers(n).astype(real)
    if form == 3:
        arrays["unmatched_col_cost"] = d.numbers(m).astype(real)
    if maximize:
        cost = -cost
        for name in ("unmatched_cost", "unmatched_col_cost"):
            arrays |= {name: -arrays[name]} if name in arrays else {}
    if d.maybe(0.4):
        arrays["row_mask"] = d.rng.random((d.count, n)) < 0.8
        arrays["col_mask"] = d.rng.random((d.count, m)) < 0.8
    arrays["cost"] = np.take_along_axis(flat(cost), known["order"], 1)
    known["cost"] = cost
    if d.family.form == "malformed":
        known["hurt"] = damage(
            d, arrays, {"row_ptr": n * m, "col_ind": m - 1}
        )  # columns' edges are not read
    return d.batch(arrays, options=options, known=known, wide=wide)


def matching(d: Draw) -> Batch:
    n, m = d.side([(4, 4), (6, 6), (3, 7), (7, 3), (1, 4), (10, 10)])
    arrays, known = graphs(d, n, m)
    if d.family.form == "malformed":
        known["hurt"] = damage(
            d, arrays, {"row_ptr": n * m, "col_ptr": n * m, "col_ind": m - 1, "row_ind": n - 1}
        )
    init = "auto" if d.few else str(d.rng.choice(["auto", "none", "cheap", "karp_sipser"]))
    if d.maybe(0.3):
        arrays["warm_start"] = d.rng.integers(-2, m + 2, (d.count, n), np.int32)
    return d.batch(arrays, options={"init": init}, known=known)


def flow(d: Draw) -> Batch:
    """One network for the batch, from its first node to its last."""
    n, e = (4, 6) if d.few else [(4, 6), (5, 9), (2, 3), (3, 1)][d.rng.integers(4)]
    rng = np.random.default_rng(1) if d.few else d.rng
    d.count = 0 if d.family.form == "empty" and not d.few else d.count
    tail = rng.integers(0, n, e)
    head = (tail + rng.integers(1, n, e)) % n
    ends = {"senders": np.tile(tail, (d.count, 1)), "receivers": np.tile(head, (d.count, 1))}
    known = ends | {"nodes": np.full(d.count, n)}
    arrays = {"capacity": d.positive(e)}
    options = {"edges": (tuple(tail.tolist()), tuple(head.tolist()), n)}
    if d.family.form == "malformed":
        known["hurt"] = d.rng.random(d.count) < 0.5
        known["where"] = d.rng.integers(0, 2**31, d.count)
    return d.batch(arrays, options=options, known=known)


GRIDS = [((2, 2), 4), ((1, 5), 4), ((2, 3), 8), ((1, 2, 2), 6), ((1, 1), 4)]
GRIDS += [((2, 1, 2), 18), ((2, 2, 2), 26)]


def grid(d: Draw) -> Batch:
    shape, connectivity = GRIDS[0 if d.few else d.rng.integers(len(GRIDS))]
    d.count = 0 if d.family.form == "empty" and not d.few else d.count
    arcs = connectivity // (1 if d.maybe(0.5) else 2)
    arrays = {"source_capacity": d.positive(*shape), "sink_capacity": d.positive(*shape)}
    pairwise = d.positive(arcs, *shape)
    beyond = np.ones((arcs, *shape), bool)
    beyond.ravel()[arcs_of(pairwise[0] if d.count else beyond, connectivity)[3]] = False
    pairwise[:, beyond] = np.nan if d.dtype in FLOATS else -1
    known = {"inside": np.tile(~beyond, (d.count, *(1 for _ in beyond.shape)))}
    options = {"connectivity": connectivity}
    return d.batch(arrays | {"pairwise": pairwise}, options=options, known=known)


GENERATORS: dict[str, Callable[[Draw], Batch]] = {
    "sparse": sparse,
    "matching": matching,
    "flow": flow,
    "grid": grid,
}
