"""Sparse assignment problems as people have them: families by name, form and size.

Forms: `"full"` matches all of the smaller side, also as `"rectangular"`, which has 70 % of the
rows, and as `"escape"`, where each row has an edge of its own that costs far more than others;
`"gated"` may leave a row at the price of the gate; `"maximum"` matches as many as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import gamma, pi
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from benchmarks.common.cache import keep, make_in_parallel, path_of
from benchmarks.matching.graphs import KNOWN, real, real_graphs


GREATEST, TIES = 10**6, 3  # integer weights are from 1 to these
SIZES = [10**3, 10**4, 10**5, 10**6]
CELLS = 20_000
PART_OF_ROWS = 0.7
FULL = ("full", "rectangular", "escape")
ESCAPE = 100.0  # far above all distances
WITH_TIES = ", ties"


class Problem(NamedTuple):
    """Edges in any order, maybe twice, with costs in float64 or int32."""

    rows: np.ndarray
    cols: np.ndarray
    cost: np.ndarray
    shape: tuple[int, int]
    gate: float = 0.0
    points: tuple[np.ndarray, np.ndarray] | None = None  # where edges are all pairs within a radius
    radius: float = 0.0


@dataclass(frozen=True)
class Spec:
    """A problem by its recipe; `n` counts the points of a side, or is 0 for a graph of a file."""

    family: str
    form: str
    n: int = 0

    @property
    def name(self) -> str:
        return " ".join([self.family, self.form, *([str(self.n)] if self.n else [])])

    def problem(self) -> Problem:
        if self.family in FAMILIES:
            return FAMILIES[self.family](self.n, self.form)
        return weighted_graph(self.family.removesuffix(WITH_TIES), WITH_TIES in self.family)


# ---------------------------------------------------------------------------------------------
# Families


def near(dimensions: int, k: int, n: int, form: str) -> Problem:
    """Each point against its k nearest of the other side, by squared distances.

    Gated, and with escapes: two clouds that have nothing to do with each other; half of the rows
    have an edge that costs more than the gate. Otherwise the second cloud is the first one after
    each point has moved by about half as far as its neighbours reach; a pair of old and new place
    is always an edge.
    """
    rng = np.random.default_rng(0)
    x = rng.random((n, dimensions))
    order = rng.permutation(n)
    rows = np.arange(int(PART_OF_ROWS * n) if form == "rectangular" else n)
    if form in ("gated", "escape"):
        y = rng.random((n, dimensions))
    else:
        y = np.empty_like(x)
        y[order] = x + 0.5 * _reach(dimensions, k, n) * rng.normal(size=x.shape)
    x = x[: len(rows)]
    apart, cols = KDTree(y).query(x, k)
    cost = np.asarray(apart) ** 2
    if form == "gated":
        gate = float(np.median(cost[:, -1]))
        return Problem(np.repeat(rows, k), np.ravel(cols), cost.ravel(), (n, n), gate)
    partner = rows if form == "escape" else order[: len(rows)]
    own = ((x - y[partner]) ** 2).sum(-1)
    if form == "escape":
        own = np.full(n, ESCAPE)
    return Problem(
        np.concatenate([np.repeat(rows, k), rows]),
        np.concatenate([np.ravel(cols), partner]),
        np.concatenate([cost.ravel(), own]),
        (len(rows), n),
    )


def _reach(dimensions: int, k: int, n: int) -> float:
    """The radius of a ball that has k of n points of the unit cube."""
    ball = pi ** (dimensions / 2) / gamma(dimensions / 2 + 1)
    return (k / (n * ball)) ** (1 / dimensions)


def random_edges(degree: int, greatest: int, n: int, form: str) -> Problem:
    """Edges and integer weights at random, and a matching of weights at random that is perfect."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.repeat(np.arange(n), degree - 1), np.arange(n)])
    cols = np.concatenate([rng.integers(0, n, n * (degree - 1)), rng.permutation(n)])
    cost = _weights(rng, len(rows), greatest)
    return Problem(rows, cols, cost, (n, n), max(greatest // 5, 2) if form == "gated" else 0)


def cells(n: int, form: str) -> Problem:
    """Spots of two frames: one of twenty is gone, as many are new, the others have moved by about
    half of the mean distance to a neighbour; the gate is four times that distance."""
    assert form == "gated"
    rng = np.random.default_rng(0)
    apart = 0.5 / np.sqrt(n)
    x = rng.random((n, 2))
    y = x + 0.5 * apart * rng.normal(size=x.shape)
    new = rng.random(n) < 0.05
    y[new] = rng.random((new.sum(), 2))
    y = rng.permutation(y)
    rows, cols, cost = pairs_within(x, y, 4 * apart)
    return Problem(rows, cols, cost, (n, n), (4 * apart) ** 2, (x, y), 4 * apart)


def pairs_within(
    x: np.ndarray, y: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and squared distances of all pairs within the radius."""
    found = KDTree(x).sparse_distance_matrix(KDTree(y), radius, output_type="ndarray")
    return found["i"], found["j"], found["v"] ** 2


def weighted_graph(name: str, ties: bool) -> Problem:
    rows, cols, shape = real(name)
    greatest = TIES if ties else GREATEST
    cost = _weights(np.random.default_rng(0), len(rows), greatest)
    return Problem(rows, cols, cost, shape)


def _weights(rng: np.random.Generator, count: int, greatest: int) -> np.ndarray:
    return rng.integers(1, greatest + 1, count, np.int32)


FAMILIES: dict[str, Callable[[int, str], Problem]] = {
    **{f"near {d}-D, {k}": partial(near, d, k) for d in (2, 3) for k in (10, 50)},
    "random, 10": partial(random_edges, 10, GREATEST),
    "random, 10" + WITH_TIES: partial(random_edges, 10, TIES),
    "cells": cells,
}


# ---------------------------------------------------------------------------------------------
# Choices


def specs(least: int, most: int, least_edges: int) -> list[Spec]:
    """Families from `least` to `most` points a side, smallest first, then the graphs that are
    there with `least_edges` or more."""
    found = []
    for n in [n for n in SIZES if least <= n <= most]:
        for family in FAMILIES:
            if family.startswith("near"):
                found += [Spec(family, form, n) for form in ("gated", *FULL)]
            elif family.startswith("random"):
                found += [Spec(family, form, n) for form in ("gated", "full")]
    if least <= CELLS <= most:
        found.append(Spec("cells", "gated", CELLS))
    for graph in real_graphs(least_edges):
        name = graph.family
        form = "full" if KNOWN[name] == min(real(name)[2]) else "maximum"
        found += [Spec(name, form), Spec(name + WITH_TIES, form)]
    return found


# ---------------------------------------------------------------------------------------------
# Making and keeping


def make_all(specs: Iterable[Spec], cache: Path) -> None:
    """Makes what `cache` lacks, large problems first: CSR both ways as `BipartiteGraph` has it."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [spec for spec in specs if not path_of(cache, spec.name).exists()]
    missing.sort(key=lambda spec: (spec.n, spec.name), reverse=True)
    if missing:
        make_in_parallel(_make, [(spec, cache) for spec in missing], 14)


def _make(spec: Spec, cache: Path) -> None:
    keep(cache, spec.name, arrays_of(spec))


def arrays_of(spec: Spec) -> dict[str, Any]:
    import jaxmatch as jm  # in a process of its own, on the CPU

    given = spec.problem()
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(
        given.rows, given.cols, given.cost, given.shape
    )
    parts = ("row_ptr", "col_ind", "col_ptr", "row_ind")
    arrays = {part: np.asarray(getattr(graph, part)) for part in parts}
    arrays |= {"cost": cost, "size": np.array([*graph.shape, graph.max_edges])}
    arrays |= {"form": np.array(spec.form), "gate": np.array(given.gate)}
    if given.points is not None:
        arrays |= dict(zip("xy", given.points, strict=True)) | {"radius": np.array(given.radius)}
    return arrays
