"""Bipartite graphs for the matching benchmark: real ones, and families made from a seed.

A symmetric graph is read as rows against columns, as Deveci et al. 2013 do. The families follow the
recipes of the DIMACS10 challenge, on which the papers measured; `dual` is like its `hugetrace` and
`hugebubbles`, `road` like `roadNet` and `osm`. RCP is a graph with rows and columns in random order
(the papers' second set). Each is made once, in a process of its own, and kept in a folder: CSR both
ways as `BipartiteGraph` has it, and the cheap matching from which the papers' methods begin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.common.cache import keep, make_in_parallel, path_of


Edges = tuple[np.ndarray, np.ndarray, tuple[int, int]]  # rows, columns, shape

# The maximum matching, on which four solvers agree. RCP does not change it.
KNOWN = {
    "4elt": 15606, "Franz6_id1959_aug": 3016, "Groebner_id2003_aug": 2456, "bcsstk13": 2003,
    "NotreDame_www": 102992, "PGPgiantcompo": 8159, "as-22july06": 6601, "astro-ph": 15716,
    "cond-mat-2005": 37968, "copter2": 55476, "cryg2500": 2500, "debian_basename": 32179,
    "debian_depends": 32457, "email-Enron": 25119, "kahip_delaunay_n15": 32768,
    "kahip_rgg_n_2_15_s0": 32766, "ladder_L28": 85, "ladder_L40": 121, "pgp-strong-2009": 32852,
    "polblogs": 788, "wing": 62032, "strip_4x16384": 32762,
    "delaunay_n18": 262144, "delaunay_n20": 1048576, "rgg_n_2_18": 262143,
    "kron_g500-logn16": 41106, "dual_20": 1048539, "road_20": 1508374, "rmat_20_18": 143551,
    "er_20_ef3": 972604,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Families


def _both_ways(a: np.ndarray, b: np.ndarray, n: int) -> Edges:
    return np.concatenate([a, b]), np.concatenate([b, a]), (n, n)


def _points(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 2))


def _grid_edges(vertex: np.ndarray) -> np.ndarray:
    """Pairs of neighbours of a grid of vertex numbers, `[e, 2]`."""
    across = np.stack([vertex[:, :-1].ravel(), vertex[:, 1:].ravel()], 1)
    down = np.stack([vertex[:-1].ravel(), vertex[1:].ravel()], 1)
    return np.concatenate([across, down])


def delaunay(scale: int, seed: int = 0) -> Edges:
    """Triangulation of 2^scale random points in the unit square."""
    from scipy.spatial import Delaunay

    triangle = Delaunay(_points(1 << scale, seed)).simplices
    side = np.concatenate([triangle[:, :2], triangle[:, 1:], triangle[:, ::2]])
    return _both_ways(side[:, 0], side[:, 1], 1 << scale)


def dual(scale: int, seed: int = 0) -> Edges:
    """Triangles of such a triangulation that share a side: planar, of degree 3."""
    from scipy.spatial import Delaunay

    neighbor = Delaunay(_points(1 << (scale - 1), seed)).neighbors
    row = np.repeat(np.arange(len(neighbor)), 3)
    inner = neighbor.ravel() >= 0
    return row[inner], neighbor.ravel()[inner], (len(neighbor), len(neighbor))


def rgg(scale: int, seed: int = 0) -> Edges:
    """Random points that are closer than 0.55·sqrt(ln n / n)."""
    from scipy.spatial import KDTree

    n = 1 << scale
    radius = 0.55 * np.sqrt(np.log(n) / n)
    pair = KDTree(_points(n, seed)).query_pairs(radius, output_type="ndarray")
    return _both_ways(pair[:, 0], pair[:, 1], n)


def er(scale: int, ef: int = 3, seed: int = 0) -> Edges:
    """2^scale rows and columns, `ef` times as many edges, all at random."""
    n, random = 1 << scale, np.random.default_rng(seed)
    return random.integers(0, n, n * ef), random.integers(0, n, n * ef), (n, n)


def road(scale: int, seed: int = 0, kept: float = 0.68, divided: float = 0.35) -> Edges:
    """A grid that has lost a third of its edges, many of the others with a vertex inside."""
    random = np.random.default_rng(seed)
    side = round(2 ** (scale / 2))
    edge = _grid_edges(np.arange(side * side).reshape(side, side))
    edge = edge[random.random(len(edge)) < kept]
    has_middle = random.random(len(edge)) < divided
    whole, halved = edge[~has_middle], edge[has_middle]
    middle = side * side + np.arange(len(halved))
    a = np.concatenate([whole[:, 0], halved[:, 0], middle])
    b = np.concatenate([whole[:, 1], middle, halved[:, 1]])
    return _both_ways(a, b, side * side + len(middle))


def _quadrants(random: np.random.Generator, count: int, scales: tuple[int, int]) -> np.ndarray:
    """Recursive matrix edges with probabilities 0.57, 0.19, 0.19, 0.05, `[2, count]`."""
    edge = np.zeros((2, count), np.int64)
    for level in range(max(scales)):
        u = random.random(count)
        lower = u >= 0.76
        right = u >= np.where(lower, 0.95, 0.57)
        for axis, bit in enumerate((lower, right)):
            if level < scales[axis]:
                edge[axis] = 2 * edge[axis] + bit
    return edge


def kron(scale: int, ef: int = 48, seed: int = 0) -> Edges:
    """Graph500's Kronecker graph."""
    n, random = 1 << scale, np.random.default_rng(seed)
    edge = _quadrants(random, n * ef, (scale, scale))
    a, b = random.permutation(n)[edge]
    return _both_ways(a[a != b], b[a != b], n)


def rmat(scale: int, ef: int = 8, seed: int = 0) -> Edges:
    """Its rectangular relative: 2^scale rows, a quarter as many columns."""
    n, m, random = 1 << scale, 1 << (scale - 2), np.random.default_rng(seed)
    row, col = _quadrants(random, n * ef, (scale, scale - 2))
    return random.permutation(n)[row], random.permutation(m)[col], (n, m)


def strip(scale: int, width: int = 4, holes: int = 4, seed: int = 0) -> Edges:
    """A grid of `width` by 2^scale, its cells coloured like a chessboard.

    `holes` black cells are missing at the left end and as many white ones at the right: augmenting
    paths are about as long as the strip.
    """
    length = 1 << scale
    x = np.tile(np.arange(length), width)
    white = (np.repeat(np.arange(width), length) + x) % 2 == 1
    random = np.random.default_rng(seed)
    alive = np.ones(width * length, bool)
    for end in (~white & (x < length // 16), white & (x >= length - length // 16)):
        alive[random.choice(np.flatnonzero(end), holes, replace=False)] = False
    number = np.zeros(width * length, np.int64)
    for side in (~white & alive, white & alive):
        number[side] = np.arange(side.sum())
    edge = _grid_edges(np.arange(width * length).reshape(width, length))
    edge = edge[alive[edge].all(1)]
    edge = np.where(white[edge[:, :1]], edge[:, ::-1], edge)
    rows, cols = number[edge].T
    return rows, cols, (int((~white & alive).sum()), int((white & alive).sum()))


def real(name: str) -> Edges:
    with np.load(data_folder() / f"{name}.npz") as file:
        rows = np.repeat(np.arange(len(file["indptr"]) - 1), np.diff(file["indptr"]))
        n, m = (int(size) for size in file["shape"])
        return rows, file["indices"], (n, m)


def permuted(edges: Edges, seed: int = 0) -> Edges:
    rows, cols, (n, m) = edges
    random = np.random.default_rng(seed)
    new_row, new_col = (np.argsort(random.permutation(size)) for size in (n, m))
    return new_row[rows], new_col[cols], (n, m)


# ---------------------------------------------------------------------------------------------
# Names

FAMILIES: dict[str, tuple[Callable[..., Edges], str]] = {
    "delaunay": (delaunay, "delaunay_n{}"), "dual": (dual, "dual_{}"), "rgg": (rgg, "rgg_n_2_{}"),
    "er": (er, "er_{}_ef3"), "road": (road, "road_{}"), "kron": (kron, "kron_g500-logn{}"),
    "rmat": (rmat, "rmat_{}_{}"), "strip": (strip, "strip_4x{}"),
}  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """A graph by its recipe: a family of 2^scale vertices, or a real graph by name."""

    family: str
    scale: int = 0
    rcp: bool = False

    @property
    def name(self) -> str:
        name = self.family
        if self.family in FAMILIES:
            numbers = (1 << self.scale,) if self.family == "strip" else (self.scale, self.scale - 2)
            name = FAMILIES[self.family][1].format(*numbers)
        return f"{name}_rcp" if self.rcp else name

    def capped(self, most: int) -> Spec:
        return replace(self, scale=min(self.scale, most))

    def edges(self) -> Edges:
        return FAMILIES[self.family][0](self.scale) if self.scale else real(self.family)


def data_folder() -> Path:
    return Path(os.environ.get("JAXMATCH_DATA", "data")) / "graphs"


def real_graphs(least_edges: int, most_edges: int = sys.maxsize) -> list[Spec]:
    """The real graphs that are there, with so many edges, smallest first."""
    found = []
    for path in sorted(data_folder().glob("*.npz")):
        with np.load(path) as file:
            if path.stem in KNOWN and least_edges <= len(file["indices"]) < most_edges:
                found.append((len(file["indices"]), path.stem))
    return [Spec(name) for _, name in sorted(found) if not name.startswith("strip_")]


# ---------------------------------------------------------------------------------------------
# Making and keeping


def make_all(specs: Iterable[Spec], cache: Path) -> dict[str, tuple[int, int, int]]:
    """Makes what `cache` lacks, in parallel. Rows, columns and edges of each graph by name.

    A file has `row_ptr`, `col_ind`, `col_ptr`, `row_ind`, `size` and `start`, the cheap matching.
    """
    cache.mkdir(parents=True, exist_ok=True)
    tasks: dict[Spec, list[Spec]] = {}
    specs = list(dict.fromkeys(specs))
    for spec in specs:
        if not path_of(cache, spec.name).exists():
            tasks.setdefault(replace(spec, rcp=False), []).append(spec)
    order = sorted(tasks, key=lambda s: (s.scale + (s.family == "delaunay"), s.name), reverse=True)
    make_in_parallel(_make, [(base, tasks[base], cache) for base in order], 14)
    sizes = {}
    for spec in specs:
        with np.load(path_of(cache, spec.name)) as file:
            sizes[spec.name] = tuple(int(x) for x in file["size"])
    return sizes


def _make(base: Spec, wanted: list[Spec], cache: Path) -> None:
    import jaxmatch as jm  # in a process of its own, on the CPU

    edges = base.edges()
    for spec in wanted:
        graph = jm.BipartiteGraph.from_edges(*(permuted(edges) if spec.rcp else edges))
        start = jm.maximum_bipartite_matching(graph, method="init_only", init="cheap")
        parts = ("row_ptr", "col_ind", "col_ptr", "row_ind")
        arrays = {part: np.asarray(getattr(graph, part)) for part in parts}
        size = np.array([*graph.shape, graph.max_edges])
        keep(cache, spec.name, arrays | {"start": np.asarray(start.col4row), "size": size})
