"""Batches of small problems of each subject, a pure function of family, dtype and seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from grid_cut_helpers import arcs_of
from helpers import numpy_dtype
from point_costs import distances

from campaign.exactly import flat
from campaign.families import FLOATS, INTEGERS, Family


@dataclasses.dataclass
class Batch:
    """Problems of one shape: arrays with a leading dimension, and what all of them share."""

    dtype: str
    count: int
    arrays: dict[str, np.ndarray]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # What judges need to know and solvers don't get.
    known: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    wide: bool = False  # under x64

    @property
    def sign(self) -> int:
        return -1 if self.options.get("maximize") else 1

    def take(self, index: Any) -> Batch:
        """The problems at these places."""
        arrays, known = ({k: x[index] for k, x in y.items()} for y in (self.arrays, self.known))
        return dataclasses.replace(self, count=len(index), arrays=arrays, known=known)


@dataclasses.dataclass
class Draw:
    """What a batch is drawn from."""

    rng: np.random.Generator
    family: Family
    dtype: str
    count: int
    few: bool  # programs are compiled: a shape, and options, of a few

    def side(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """A shape, without anything in it where that is the family."""
        shape = shapes[0 if self.few else self.rng.integers(len(shapes))]
        if self.family.form == "empty" and not self.few:
            kind = self.rng.integers(4)
            if kind == 0:
                self.count = 0
            else:
                shape = (*(0 if kind & 1 << axis else x for axis, x in enumerate(shape[:2])),
                         *shape[2:])  # fmt: skip
        return shape

    def maybe(self, share: float) -> bool:
        return bool(self.rng.random() < share) and not self.few

    def numbers(self, *shape: int) -> np.ndarray:
        return self.family.draw(self.rng, self.dtype, (self.count, *shape))

    def positive(self, *shape: int) -> np.ndarray:
        """Without signs, but for a few problems; what is no number remains."""
        x = self.numbers(*shape)
        sign = self.rng.random((self.count, *(1 for _ in shape))) < 0.02
        return np.where(sign | (x == -np.inf), x, np.abs(x)).astype(x.dtype)

    def wide(self) -> bool:
        return self.dtype in ("float64", "int64") or self.maybe(0.3)

    def batch(self, arrays: dict[str, np.ndarray], **rest: Any) -> Batch:
        rest.setdefault("wide", self.wide())
        return Batch(self.dtype, self.count, arrays, **rest)


SHAPES = [(3, 3), (4, 4), (2, 4), (4, 2), (3, 4), (1, 1), (1, 4), (4, 1), (5, 5), (2, 5)]


def _masks(d: Draw, n: int, m: int, arrays: dict[str, np.ndarray]) -> None:
    """Masks of rows and columns, with NaN or the greatest number beneath."""
    rows, cols = d.rng.random((d.count, n)) < 0.8, d.rng.random((d.count, m)) < 0.8
    arrays |= {"row_mask": rows, "col_mask": cols}
    beneath = np.nan if d.dtype in FLOATS else np.iinfo(d.dtype).max
    there = rows[:, :, None] & cols[:, None, :] | (d.rng.random((d.count, 1, 1)) < 0.5)
    arrays["cost"] = np.where(there, arrays["cost"], beneath).astype(arrays["cost"].dtype)


def dense(d: Draw, gates: bool = True) -> Batch:
    n, m = d.side(SHAPES)
    maximize = d.maybe(0.4)
    arrays = {"cost": d.numbers(n, m)}
    if max(n, m) < 5:
        if gates and d.maybe(0.4):
            arrays["unmatched_cost"] = d.numbers(n)
        if d.maybe(0.4):
            _masks(d, n, m, arrays)
    for name in ("cost", "unmatched_cost"):
        if maximize and name in arrays:
            arrays[name] = -arrays[name]
    if d.maybe(0.3):
        starts = d.rng.choice([0, 1, -1e3, 1e30, np.nan, np.inf], (d.count, m))
        arrays["warm_start"] = np.where(d.rng.random((d.count, m)) < 0.1, starts, 0.5)
    return d.batch(arrays, options={"maximize": maximize})


def without_gates(d: Draw) -> Batch:
    batch = dense(d, gates=False)
    batch.arrays.pop("warm_start", None)
    return batch


def costs_alone(d: Draw) -> Batch:
    n, m = d.side(SHAPES)
    return d.batch({"cost": d.numbers(n, m)})


def points(d: Draw) -> Batch:
    """Costs in the points' own dtype, as documented."""
    d.count = min(d.count, 30)
    n, m, metric = [(3, 3, "sqeuclidean"), (4, 3, "l1"), (2, 4, "euclidean")][d.rng.integers(3)]
    maximize = bool(d.rng.random() < 0.3)
    arrays = {"x": d.numbers(n, 2), "y": d.numbers(m, 2)}
    with np.errstate(all="ignore"):
        known = {"cost": distances(arrays["x"], arrays["y"], metric)}
    options = {"maximize": maximize, "metric": metric}
    return d.batch(arrays, options=options, known=known, wide=d.dtype == "float64")


def capacities(d: Draw) -> Batch:
    n, m = d.side([(3, 3), (4, 3), (2, 4), (3, 2), (4, 1)])
    arrays = {"cost": d.numbers(n, m)}
    maximize = d.maybe(0.4)
    if d.maybe(0.5):
        arrays["unmatched_cost"] = d.numbers(n)
    for name in arrays if maximize else ():
        arrays[name] = -arrays[name]
    capacity = d.rng.integers(0, 4, (d.count, m), np.int32)
    hostile = d.rng.random((d.count, m)) < 0.02 * d.rng.choice([0, 1])
    arrays["col_capacity"] = np.where(hostile, -1, capacity).astype(np.int32)
    if d.maybe(0.4):
        arrays["col_minimum"] = d.rng.integers(0, 3, (d.count, m), np.int32)
    return d.batch(arrays, options={"maximize": maximize})


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
    """Writes a number out of range into half of the graphs; which ones."""
    hurt = d.rng.random(d.count) < 0.5
    for k in np.flatnonzero(hurt):
        name = d.rng.choice([name for name in tops if arrays[name].shape[1]])
        top, at = tops[name], d.rng.integers(arrays[name].shape[1])
        values = [-1, -(2**31), 2**31 - 1, top + 1, top + 2**16]
        arrays[name][k, at] = d.rng.choice(values)
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
        known["hurt"] = damage(d, arrays, {"row_ptr": n * m})  # columns' edges are not read
    return d.batch(arrays, options=options, known=known, wide=wide)


def matching(d: Draw) -> Batch:
    n, m = d.side([(4, 4), (6, 6), (3, 7), (7, 3), (1, 4), (10, 10)])
    arrays, known = graphs(d, n, m)
    if d.family.form == "malformed":
        known["hurt"] = damage(d, arrays, {"row_ptr": n * m, "col_ptr": n * m})
    init = "auto" if d.few else str(d.rng.choice(["auto", "none", "cheap", "karp_sipser"]))
    if d.maybe(0.3):
        arrays["warm_start"] = d.rng.integers(-2, m + 2, (d.count, n), np.int32)
    return d.batch(arrays, options={"init": init}, known=known)


def transport(d: Draw) -> Batch:
    n, m = d.side([(2, 3), (3, 3), (3, 2), (1, 3), (3, 1), (2, 2)])
    cost, maximize = d.numbers(n, m), d.maybe(0.4)
    whole = d.dtype in INTEGERS or d.maybe(0.4)
    mass: Any = numpy_dtype("int32" if whole else d.dtype if d.dtype == "float64" else "float32")
    a = d.rng.integers(0, 9, (d.count, n))
    total = a.sum(1)
    b = d.rng.multinomial(total, np.ones(m) / m) if m else np.zeros((d.count, 0), int)
    scale = 1 if whole else 2.0 ** d.rng.integers(-90, 90, (d.count, 1))
    arrays = {"cost": cost, "supply": (a * scale).astype(mass), "demand": (b * scale).astype(mass)}
    form = 0 if d.few else d.rng.integers(3)
    if form == 1 and n and m:
        arrays["partial"] = (d.rng.integers(0, total + 2) * np.ravel(scale)).astype(mass)
    if form == 2:
        arrays["unmatched_cost"] = d.numbers(n)
    for name in ("cost", "unmatched_cost") if maximize else ():
        arrays |= {name: -arrays[name]} if name in arrays else {}
    for name in ("supply", "demand"):
        wrong = d.rng.random(arrays[name].shape) < 0.02 * d.rng.choice([0, 1])
        bad = -1 if whole else d.rng.choice([-1, np.nan, np.inf])
        arrays[name] = np.where(wrong, bad, arrays[name]).astype(mass)
    return d.batch(arrays, options={"maximize": maximize})


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
    "dense": dense,
    "ungated": without_gates,
    "scipy": costs_alone,
    "points": points,
    "capacities": capacities,
    "sparse": sparse,
    "matching": matching,
    "transport": transport,
    "flow": flow,
    "grid": grid,
}
