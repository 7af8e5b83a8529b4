"""Instances of the quadratic assignment problem: of QAPLIB, and like those of QAPLIB."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np


DEBIAN = Path("/usr/lib/R/site-library/qap/qaplib")  # of the package r-cran-qap


class Instance(NamedTuple):
    name: str
    a: np.ndarray
    b: np.ndarray
    best_known: int | None


def chr12c() -> Instance:
    """Christofides and Benavent (1989): a tree of 12 nodes; as in the tests of scipy (BSD)."""
    edges = (
        "0 1 90  0 2 10  1 3 23  2 4 43  3 5 88  4 6 26  5 7 16  6 8 1  7 9 96  8 10 29  9 11 37"
    )
    distances = """
        36 54 26 59 72 9 34 79 17 46 95  73 35 90 58 30 78 35 44 79 36  21 10 97 58 66 69 61 54 63
        93 12 46 40 37 48 68 85  64 5 29 76 16 5 76  96 55 38 54 0 34  83 35 11 56 37
        44 12 15 80  64 39 33  70 86  18"""
    a, b = np.zeros((2, 12, 12), np.int64)
    for i, j, weight in np.array(edges.split(), int).reshape(-1, 3):
        a[i, j] = weight
    b[np.triu_indices(12, 1)] = np.array(distances.split(), int)
    return Instance("chr12c", a + a.T, b + b.T, 11156)


def tai64c() -> Instance:
    """Taillard (1995): 13 black cells of an 8x8 pattern, which repeats, far from each other."""
    a = np.zeros((64, 64), np.int64)
    a[:13, :13] = 1
    apart = np.abs(np.arange(8)[:, None] - np.arange(8))
    near = np.minimum(apart, 8 - apart) ** 2
    squared = (near[:, None, :, None] + near[None, :, None, :]).reshape(64, 64)
    b = np.round(1e5 * np.divide(1, squared, out=np.zeros((64, 64)), where=squared > 0))
    return Instance("tai64c", a, b.astype(np.int64), 1855928)


def grid100() -> Instance:
    """Flows drawn at random, between the cells of a 10x10 grid, as in the family of sko100a."""
    rng = np.random.default_rng(100)
    # Two thirds of the pairs exchange something, small flows more often than large ones.
    flow = np.where(rng.random((100, 100)) < 0.7, rng.geometric(0.3, (100, 100)).clip(max=10), 0)
    flow = np.triu(flow, 1)
    x, y = np.divmod(np.arange(100), 10)
    distance = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    return Instance("grid100", flow + flow.T, distance, None)


BUILT_IN = {"chr12c": chr12c, "tai64c": tai64c, "grid100": grid100}


def load(name: str, folder: Path) -> Instance:
    """A built-in instance, or one in the format of QAPLIB."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    file = folder / f"{name}.dat"
    if not file.exists():
        raise FileNotFoundError(
            f"no {file}. Built in are {', '.join(BUILT_IN)}. All of QAPLIB is in Debian's package "
            "r-cran-qap; or name another folder of its .dat and .sln files by --qaplib."
        )
    n, *entries = (int(float(x)) for x in file.read_text().split())
    a, b = np.array(entries[: 2 * n * n]).reshape(2, n, n)
    solution = file.with_suffix(".sln")
    best = int(float(solution.read_text().split()[1])) if solution.exists() else None
    return Instance(name, a, b, best)
