"""The columns of least cost − price of each row, from all pairs."""

from __future__ import annotations

import numpy as np


METRICS = ["sqeuclidean", "euclidean", "l1", "cosine"]


def distances(x, y, metric):
    """In float64, coordinate by coordinate, rounded to the type of the points."""
    total = np.zeros((len(x), len(y)))
    with np.errstate(over="ignore", invalid="ignore"):
        for a, b in zip(x.astype(np.float64).T, y.astype(np.float64).T, strict=True):
            a, b = a[:, None], b[None]
            if metric == "cosine":
                total = total + a * b
            else:
                total = total + (np.abs(a - b) if metric == "l1" else (a - b) * (a - b))
        total = np.sqrt(total) if metric == "euclidean" else total
        return (1 - total if metric == "cosine" else total).astype(x.dtype)


def pair_hash(row, cols):
    """As in ffi/assignment/pair_hash.h."""
    mixed = (row * 0x9E3779B1 & 0xFFFFFFFF) ^ (cols * 0x85EBCA77 & 0xFFFFFFFF)
    return (mixed * 0xC2B2AE3D & 0xFFFFFFFF) >> 8


def assert_nearest(out, x, y, price, near, k, metric):
    """Asserts every bit of the columns, costs, reduced costs and costs of `near[:, 0]` in `out`."""
    col, cost, reduced, known = (np.asarray(a) for a in out)
    all_costs = distances(x, y, metric)
    with np.errstate(invalid="ignore"):
        slack = all_costs.astype(np.float64) - price.astype(np.float64)
    for i in range(len(x)):
        best = np.lexsort((pair_hash(i, np.arange(len(y))), slack[i]))[:k]
        best = best[slack[i][best] < np.inf]
        assert col[i, : len(best)].tolist() == best.tolist()
        assert (col[i, len(best) :] == (best[-1] if len(best) else 0)).all()
        assert np.array_equal(cost[i], all_costs[i, col[i]], equal_nan=True)
        assert np.array_equal(reduced[i], slack[i, col[i, 0]].astype(price.dtype), equal_nan=True)
    there = (near[:, 0] >= 0) & (near[:, 0] < len(y))
    own = all_costs[np.arange(len(x)), np.where(there, near[:, 0], 0)]
    assert np.array_equal(known, np.where(there, own, np.inf).astype(x.dtype), equal_nan=True)
