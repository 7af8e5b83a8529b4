"""Batches of small problems of each subject, a pure function of family, dtype and seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
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


def both_sides(d: Draw) -> Batch:
    """Rows and columns may stay, each at a cost."""
    batch = dense(d, gates=False)
    n, m = batch.arrays["cost"].shape[1:]
    sign = -1 if batch.options["maximize"] else 1
    batch.arrays |= {"unmatched_cost": sign * d.numbers(n)}
    batch.arrays |= {"unmatched_col_cost": sign * d.numbers(m)}
    return batch


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


def near_points(d: Draw) -> Batch:
    """With a radius that is not near any distance."""
    d.count = min(d.count, 30)
    n, m = 4, 3
    arrays = {"x": d.numbers(n, 2), "y": d.numbers(m, 2)}
    with np.errstate(all="ignore"):
        cost = distances(arrays["x"], arrays["y"], "sqeuclidean")
        apart = np.hypot(*np.moveaxis(arrays["x"].astype(float)[:, :, None] -
                                      arrays["y"].astype(float)[:, None], -1, 0))  # fmt: skip
        steps = np.sort(flat(apart), 1)
        at = d.rng.integers(0, n * m - 1, d.count)
        low, high = steps[np.arange(d.count), at], steps[np.arange(d.count), at + 1]
        radius = np.where(high > 1.01 * low, low + (high - low) / 2, 2 * steps[:, -1])
        finite = np.isfinite(radius)
        radius = np.where(finite, radius, 1.0).astype(cost.dtype)
        there = apart <= radius[:, None, None].astype(float)
    arrays |= {"radius": radius, "unmatched_cost": np.abs(d.numbers(n))}
    known = {"cost": cost, "there": there}
    return d.batch(arrays, known=known, wide=d.dtype == "float64")


def points_of_masses(d: Draw) -> Batch:
    batch = transport(d)
    cost = batch.arrays.pop("cost")
    metric = str(d.rng.choice(["sqeuclidean", "l1"]))
    x, y = d.numbers(cost.shape[1], 2), d.numbers(cost.shape[2], 2)
    with np.errstate(all="ignore"):
        known = {"cost": distances(x, y, metric)}
    options = batch.options | {"metric": metric}
    return d.batch({"x": x, "y": y} | batch.arrays, options=options, known=known, wide=batch.wide)


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


def transport(d: Draw) -> Batch:
    n, m = d.side([(2, 3), (3, 3), (3, 2), (1, 3), (3, 1), (2, 2)])
    cost, maximize = d.numbers(n, m), d.maybe(0.4)
    whole = d.dtype in INTEGERS or d.maybe(0.4)
    mass: Any = numpy_dtype("int32" if whole else d.dtype if d.dtype == "float64" else "float32")
    masked = d.maybe(0.3)
    rows, cols = (d.rng.random((d.count, k)) < (0.8 if masked else 1) for k in (n, m))
    a = d.rng.integers(0, 9, (d.count, n))
    total = (a * rows).sum(1)
    shares = cols / np.maximum(cols.sum(1, keepdims=True), 1)
    b = np.zeros((d.count, m), int)
    for k in np.flatnonzero(cols.any(1)):
        b[k] = d.rng.multinomial(total[k], shares[k])
    scale = 1 if whole else 2.0 ** d.rng.integers(-90, 90, (d.count, 1))
    arrays = {"cost": cost, "supply": (a * scale).astype(mass), "demand": (b * scale).astype(mass)}
    form = 0 if d.few else d.rng.integers(3)
    if form == 1 and n and m:
        arrays["partial"] = (d.rng.integers(0, total + 2) * np.ravel(scale)).astype(mass)
    if form == 2:
        arrays["unmatched_cost"] = d.numbers(n)
    for name in ("cost", "unmatched_cost") if maximize else ():
        arrays |= {name: -arrays[name]} if name in arrays else {}
    if masked:
        arrays |= {"row_mask": rows, "col_mask": cols}
        for name, there in (("supply", rows), ("demand", cols)):
            arrays[name] = np.where(there, arrays[name], -1).astype(mass)
    for name in ("supply", "demand"):
        wrong = d.rng.random(arrays[name].shape) < 0.02 * d.rng.choice([0, 1])
        bad = -1 if whole else d.rng.choice([-1, np.nan, np.inf])
        arrays[name] = np.where(wrong, bad, arrays[name]).astype(mass)
    return d.batch(arrays, options={"maximize": maximize})


GENERATORS: dict[str, Callable[[Draw], Batch]] = {
    "dense": dense,
    "ungated": without_gates,
    "both sides": both_sides,
    "scipy": costs_alone,
    "points": points,
    "capacities": capacities,
    "transport": transport,
    "near points": near_points,
    "points of masses": points_of_masses,
}
