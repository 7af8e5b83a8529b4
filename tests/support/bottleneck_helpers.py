"""What the tests of bottleneck assignments share: brute force, thresholds, and assertions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from helpers import assert_inverse, to_numpy

import jaxmatch as jm


def brute_force(cost: np.ndarray, maximize: bool = False) -> np.ndarray | None:
    """The costs of a lexicographic bottleneck assignment, worst first; None if there is none."""
    sign = -1 if maximize else 1
    c = sign * (cost if cost.shape[0] <= cost.shape[1] else cost.T)
    k, m = c.shape
    if k == 0:
        return np.zeros(0, c.dtype)
    columns = np.array([*itertools.permutations(range(m), k)], int).reshape(-1, k)
    own = np.sort(c[np.arange(k), columns], axis=1)[:, ::-1]
    best = own[np.lexsort(own.T[::-1])[0]]
    return None if best[0] == np.inf else sign * best


def threshold(cost: np.ndarray) -> Any:
    """The bottleneck, by scipy's matchings of all pairs up to a cost."""
    values = np.unique(cost)
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        graph = sp.csr_matrix(cost <= values[middle])
        matched = sp.csgraph.maximum_bipartite_matching(graph, perm_type="column")
        if (matched >= 0).sum() == min(cost.shape):
            high = middle
        else:
            low = middle + 1
    return values[low]


def own_costs(cost: np.ndarray, res: Any, maximize: bool = False) -> np.ndarray:
    """The costs of the pairs of one problem, worst first."""
    rows = np.flatnonzero(res.col4row >= 0)
    own = np.sort(cost[rows, res.col4row[rows]])
    return own if maximize else own[::-1]


def assert_proved(
    cost: np.ndarray,
    res: Any,
    *,
    maximize: bool = False,
    row_mask: Any = True,
    col_mask: Any = True,
) -> None:
    """The assignment of one problem is complete, and its cover proves the bottleneck."""
    res = to_numpy(res)
    assert res.status == jm.Status.OPTIMAL
    rows = np.broadcast_to(row_mask, cost.shape[:1])
    cols = np.broadcast_to(col_mask, cost.shape[1:])
    assert_inverse(res.col4row, res.row4col)
    assert not (res.col4row[~rows] >= 0).any() and not (res.row4col[~cols] >= 0).any()
    own, size = own_costs(cost, res, maximize), min(rows.sum(), cols.sum())
    assert len(own) == size
    if size == 0:
        assert res.bottleneck == (np.inf if maximize else -np.inf)
        return
    worst = own[0]
    assert np.isfinite(worst) and res.bottleneck == res.bottleneck.dtype.type(worst)
    assert not res.row_cover[~rows].any() and not res.col_cover[~cols].any()
    assert res.row_cover.sum() + res.col_cover.sum() < size
    with np.errstate(invalid="ignore"):
        better = cost > worst if maximize else cost < worst
    open_pairs = rows[:, None] & cols & better & ~res.row_cover[:, None] & ~res.col_cover
    assert not open_pairs.any()


def assert_failed(res: Any, status: jm.Status) -> None:
    """A problem ended with this status, and everything else says so."""
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, status)
    np.testing.assert_array_equal(res.col4row, -1)
    np.testing.assert_array_equal(res.row4col, -1)
    assert np.isnan(res.bottleneck).all()
    assert not res.row_cover.any() and not res.col_cover.any()


# ---------------------------------------------------------------------------------------------
# Costs with structure, (seed, n, m) -> [n, m]


def _points(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    x, y = rng.random((n, 2)), rng.random((m, 2))
    return ((x[:, None] - y) ** 2).sum(-1)


def _shifted(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) / 2 + 1
    return np.sqrt(((x[:, None] - y) ** 2).sum(-1))


def _band(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Long alternating paths: pairs near the diagonal alone are cheap."""
    apart = np.abs(np.arange(n)[:, None] - np.arange(m) - (m - n) // 2)
    return np.where(apart <= 1, rng.random((n, m)), 1 + apart)


FAMILIES = {
    "uniform": lambda rng, n, m: rng.random((n, m)),
    "negative": lambda rng, n, m: -1e3 * rng.random((n, m)),
    "powers": lambda rng, n, m: 10.0 ** rng.uniform(-30, 30, (n, m)),
    "few values": lambda rng, n, m: rng.integers(0, 4, (n, m)) / 4,
    "integers": lambda rng, n, m: rng.integers(-500, 500, (n, m)) * 1.0,
    "points": _points,
    "shifted points": _shifted,
    "products": lambda rng, n, m: rng.random((n, 1)) * rng.random((1, m)),
    "sums": lambda rng, n, m: rng.random((n, 1)) + rng.random((1, m)),
    "features": lambda rng, n, m: rng.normal(size=(n, 8)) @ rng.normal(size=(8, m)),
    "band": _band,
    "constant": lambda rng, n, m: np.full((n, m), 2.5),
    "sparse": lambda rng, n, m: np.where(rng.random((n, m)) < 0.9, np.inf, rng.random((n, m))),
}


def family(name: str, seed: int, n: int, m: int) -> np.ndarray:
    return FAMILIES[name](np.random.default_rng(seed), n, m).astype(np.float32)
