"""The kernel of sparse assignment, emulated on the CPU: threads take turns in a random order.

Whatever the order and the number of blocks: the same bits, and an optimum that the certificate
proves in exact integers.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import NamedTuple

import emulated
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from helpers import assert_same_bits

import jaxmatch as jm
from jaxmatch._ffi.sizes import size


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
_DTYPES = ["bfloat16", "float16", "float32", "float64", "int32", "int64"]
_ptr, _byte, _long = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64
_STAYS = ["unmatched_cost", "unmatched_col_cost"]
_OPTIONAL = ["row_mask", "col_mask", *_STAYS]
_START = ["start_dual", "start_edge"]
_RESULTS = ["col4row", "row4col", "edge", "value", "row_dual", "col_dual", "gap", "status"]


class _Problem(ctypes.Structure):
    """As in ffi/sparse_assignment/problem.h."""

    _fields_ = [
        *((name, _long) for name in ("n", "m", "capacity")),
        *((name, _ptr) for name in ("row_ptr", "col_ind", "col_ptr", "row_ind")),
        ("shared_graph", ctypes.c_bool),
        ("cost", _ptr),
        ("cost_dtype", _byte),
        ("maximize", ctypes.c_bool),
        *((name, _ptr) for name in _OPTIONAL),
        *((f"{name}_dtype", _byte) for name in _STAYS),
        *((name, _ptr) for name in _START),
        ("result_dtype", _byte),
        *((name, _ptr) for name in [*_RESULTS, "counts"]),
    ]


class Graph(NamedTuple):
    """The arrays of a graph, or of a batch of them."""

    row_ptr: np.ndarray
    col_ind: np.ndarray
    col_ptr: np.ndarray
    row_ind: np.ndarray

    @property
    def shape(self):
        return self.row_ptr.shape[-1] - 1, self.col_ptr.shape[-1] - 1


class Found(NamedTuple):
    col4row: np.ndarray
    row4col: np.ndarray
    edge: np.ndarray
    cost: np.ndarray
    row_dual: np.ndarray
    col_dual: np.ndarray
    gap: np.ndarray
    status: np.ndarray
    counts: np.ndarray


@pytest.fixture(scope="session")
def library():
    return emulated.library("sparse_assignment")


def graph_of(rows, cols, shape, *, room=0):
    """Of edges sorted by rows; `room` entries of padding follow."""
    n, m = shape
    by_col = np.lexsort((rows, cols))
    ptr = [
        np.concatenate([[0], np.bincount(x, minlength=k).cumsum()])
        for x, k in ((rows, n), (cols, m))
    ]
    ends = [np.pad(x, (0, room)) for x in (cols, rows[by_col])]
    return Graph(*(x.astype(np.int32) for x in (ptr[0], ends[0], ptr[1], ends[1])))


def solve(
    library, graph, cost, *, seed=0, blocks=1, threads=64, slots=128, maximize=False,
    real=np.float64, **optional,
):  # fmt: skip
    """A batch of costs `[b, e]`; the graph may have batch dimensions."""
    (n, m), (b, e) = graph.shape, cost.shape
    bytes_of_one = 4 * size("sparse_assignment.workspace", n, m, e)
    shapes = [(n,), (m,), (n,), (), (n,), (m,), (), (), (2,)]
    dtypes = [np.int32] * 3 + [real] * 4 + [np.int32] * 2
    found = Found(*(np.full((b, *s), -7, d) for s, d in zip(shapes, dtypes, strict=True)))
    given = {name: np.broadcast_to(x, (b, x.shape[-1])) for name, x in optional.items()}
    given |= graph._asdict() | {"cost": cost}
    given = {name: emulated.guarded(np.ascontiguousarray(x)) for name, x in given.items()}
    problem = _Problem(n=n, m=m, capacity=e, maximize=maximize)
    problem.shared_graph = graph.row_ptr.ndim == 1
    for name in _STAYS:
        dtype = given[name].dtype if name in given else "float32"
        setattr(problem, f"{name}_dtype", _DTYPES.index(str(dtype)))
    assert "start_dual" not in given or given["start_dual"].dtype == real
    problem.cost_dtype = _DTYPES.index(str(cost.dtype))
    problem.result_dtype = _DTYPES.index(np.dtype(real).name)
    for name, x in [*given.items(), *zip([*_RESULTS, "counts"], found, strict=True)]:
        setattr(problem, name, x.ctypes.data)
    memory = emulated.guarded(np.full(b * bytes_of_one, 0xA5 if seed % 2 else 0xFF, np.uint8))
    library.emulate_sparse_assignment(
        ctypes.byref(problem), _long(b), blocks, threads, slots,
        _ptr(memory.ctypes.data), _long(bytes_of_one), ctypes.c_uint(seed),
    )  # fmt: skip
    return found


def certify(graph, cost, found, *, maximize=False, row_mask=None, col_mask=None,
            unmatched_cost=None, unmatched_col_cost=None):  # fmt: skip
    """Proves one problem's optimum in exact arithmetic, for numbers of which floats are exact."""
    n, m = graph.shape
    rows = np.repeat(np.arange(n), np.diff(graph.row_ptr))
    cols = graph.col_ind[: len(rows)]
    sign = -1 if maximize else 1
    has_row = np.ones(n, bool) if row_mask is None else row_mask
    has_col = np.ones(m, bool) if col_mask is None else col_mask
    c = sign * cost[: len(rows)].astype(object)
    real = has_row[rows] & has_col[cols]
    with np.errstate(invalid="ignore"):
        real &= np.isfinite(cost[: len(rows)].astype(float))
    u, v = sign * found.row_dual.astype(object), sign * found.col_dual.astype(object)
    assert found.status == jm.Status.OPTIMAL and found.gap == 0
    on = has_row & (found.col4row >= 0)
    assert (found.row4col[found.col4row[on]] == np.flatnonzero(on)).all()
    assert on.sum() == (found.row4col >= 0).sum()
    assert (rows[found.edge[on]] == np.flatnonzero(on)).all() and (found.edge[~on] == -1).all()
    assert (cols[found.edge[on]] == found.col4row[on]).all() and real[found.edge[on]].all()
    assert all(u[rows[k]] + v[cols[k]] <= c[k] for k in np.flatnonzero(real))
    assert all(u[i] + v[found.col4row[i]] == c[found.edge[i]] for i in np.flatnonzero(on))
    stay_row = stay_col = None
    pays = sum(c[found.edge[on]])
    if unmatched_cost is not None:
        stay_row = sign * unmatched_cost.astype(object)
        stay_col = [0] * m if unmatched_col_cost is None else sign * unmatched_col_cost
    elif has_row.sum() > has_col.sum():
        stay_row = [0] * n
        assert on.sum() == has_col.sum()
    else:
        assert on.sum() == has_row.sum()
        stay_col = [0] * m if has_row.sum() < has_col.sum() else None
    total = pays
    for stay, dual, exists, pair in (
        (stay_row, u, has_row, found.col4row),
        (stay_col, v, has_col, found.row4col),
    ):
        assert (dual[~exists] == 0).all() and (pair[~exists] == -1).all()
        for k in np.flatnonzero(exists):
            if stay is None:
                assert pair[k] >= 0
                continue
            assert dual[k] <= stay[k]
            if pair[k] < 0:
                assert dual[k] == stay[k]
                total += stay[k]
    assert sum(u) + sum(v) == total
    assert found.cost == float(sign * total)


def one(found, k):
    return Found(*(x[k] for x in found))


def check(library, graph, cost, *, seeds=(0, 1), blocks=(1,), threads=64, **given):
    """Certified, and the same bits whatever the order of threads and the number of blocks."""
    found = solve(library, graph, cost, seed=seeds[0], threads=threads, **given)
    for seed in seeds[1:]:
        assert_same_bits(solve(library, graph, cost, seed=seed, threads=threads, **given), found)
    for count in blocks[1:]:
        again = solve(library, graph, cost, seed=count, blocks=count, threads=threads, **given)
        assert_same_bits(again, found)
    for k in range(len(cost)):
        if found.status[k] != jm.Status.OPTIMAL:
            continue
        parts = {a: x[k] if isinstance(x, np.ndarray) else x for a, x in given.items()}
        parts.pop("real", None)
        parts.pop("slots", None)
        own = Graph(*(x[k] if x.ndim > 1 else x for x in graph))
        certify(own, cost[k], one(found, k), **parts)
    return found


def random_graph(seed, shape, degree, *, planted=True, room=0):
    """Random edges, some of them parallel; `planted`: one matching of the smaller side."""
    random = np.random.default_rng(seed)
    n, m = shape
    count = int(n * degree)
    rows, cols = random.integers(0, n, count), random.integers(0, m, count)
    if planted:
        k = min(shape)
        rows = np.concatenate([rows, random.permutation(n)[:k]])
        cols = np.concatenate([cols, random.permutation(m)[:k]])
    order = np.lexsort((cols, rows))
    return random, graph_of(rows[order], cols[order], shape, room=room), len(rows)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(30, 30), (12, 40), (40, 12), (1, 1)], ids=str)
def test_full(library, shape, dtype):
    random, graph, count = random_graph(1, shape, 4, room=3)
    cost = random.integers(-99, 99, (2, count + 3)).astype(jnp.dtype(dtype))
    found = check(library, graph, cost, maximize=shape == (12, 40), real=np.float64)
    assert (found.status == jm.Status.OPTIMAL).all()


def test_against_scipy(library):
    random, graph, count = random_graph(2, (50, 60), 5)
    cost = random.integers(1, 10**6, (1, count)).astype(np.int64)
    found = check(library, graph, cost, blocks=(1, 2, 3))
    best = {}
    rows = np.repeat(np.arange(50), np.diff(graph.row_ptr))
    for i, j, c in zip(rows, graph.col_ind, cost[0], strict=True):
        best[i, j] = min(c, best.get((i, j), c))
    ends = np.array([*best])
    dense = scipy.sparse.csr_array(([*best.values()], ends.T), shape=(50, 60))
    i, j = scipy.sparse.csgraph.min_weight_full_bipartite_matching(dense)
    assert found.cost[0] == dense.toarray()[i, j].sum()


@pytest.mark.parametrize("shape", [(25, 25), (20, 35), (35, 20)], ids=str)
def test_as_many_pairs_as_possible(library, shape):
    """At a cost of staying that outweighs all others; without it there is no solution."""
    random, graph, count = random_graph(3, shape, 0.9, planted=False)
    cost = random.integers(-50, 50, (3, count)).astype(np.int32)
    cost[2] = 0
    found = check(library, graph, cost, unmatched_cost=dear(3, shape[0]), blocks=(1, 2))
    assert (found.status == jm.Status.OPTIMAL).all()
    rows = np.repeat(np.arange(shape[0]), np.diff(graph.row_ptr))
    csr = scipy.sparse.csr_array((np.ones(count), (rows, graph.col_ind)), shape=shape)
    most = scipy.sparse.csgraph.maximum_bipartite_matching(csr, perm_type="column")
    assert ((found.col4row >= 0).sum(-1) == (most >= 0).sum()).all()
    failed = solve(library, graph, cost)
    assert (most >= 0).sum() < min(shape)
    assert (failed.status == jm.Status.INFEASIBLE).all() and (failed.col4row == -1).all()
    assert np.isnan(failed.cost).all() and np.isnan(failed.row_dual).all()


def dear(batch, rows):
    return np.full((batch, rows), 10**5, np.int32)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_unmatched_costs(library, dtype):
    random, graph, count = random_graph(4, (30, 24), 4, planted=False)
    cost = random.integers(-40, 40, (3, count)).astype(dtype)
    rows, cols = random.integers(-9, 30, (3, 30)) / 2, random.integers(-9, 9, (3, 24)) / 2
    check(library, graph, cost, unmatched_cost=rows)
    check(library, graph, cost, unmatched_cost=rows, unmatched_col_cost=cols, blocks=(1, 2))
    whole = np.zeros((3, 30), np.int32)
    check(library, graph, cost, unmatched_cost=whole, maximize=True)


def test_graphs_of_a_batch(library):
    graphs = [random_graph(k, (20, 20), 3, planted=False)[1] for k in range(3)]
    graph = Graph(*(np.stack(x) for x in zip(*graphs, strict=True)))
    cost = np.random.default_rng(0).integers(-9, 9, (3, 60)).astype(np.int32)
    check(library, graph, cost, unmatched_cost=dear(3, 20), blocks=(1, 2))


def test_masks_and_forbidden_edges(library):
    random, graph, count = random_graph(5, (30, 30), 6)
    cost = random.integers(0, 9, (4, count)).astype(np.float32)
    cost[random.random(cost.shape) < 0.1] = np.inf
    row_mask, col_mask = (random.random((4, 30)) < 0.8 for _ in range(2))
    rows = np.repeat(np.arange(30), np.diff(graph.row_ptr))
    for k in range(4):
        off = ~(row_mask[k][rows] & col_mask[k][graph.col_ind])
        cost[k, off] = np.where(random.random(off.sum()) < 0.5, np.nan, cost[k, off])
    masks = {"row_mask": row_mask, "col_mask": col_mask}
    check(library, graph, cost, **masks)
    found = check(library, graph, cost, **masks, unmatched_cost=dear(4, 30))
    assert (found.status == jm.Status.OPTIMAL).all()
    col_mask[:] = row_mask  # of equal numbers
    check(library, graph, np.nan_to_num(cost, nan=4, posinf=np.inf), **masks)


def test_structure_and_ties(library):
    """Neighbours of points; equal costs; rows that all want the same columns."""
    random = np.random.default_rng(6)
    x = random.random((60, 2))
    y = x[random.permutation(60)] + random.normal(size=(60, 2)) * 0.02
    far = ((x[:, None] - y[None]) ** 2).sum(-1)
    near = far.argsort(1)[:, :6]
    own = scipy.optimize.linear_sum_assignment(far)[1]
    near = np.sort(np.concatenate([near, own[:, None]], 1), 1)
    graph = graph_of(np.repeat(np.arange(60), 7), near.ravel(), (60, 60))
    cost = np.rint(np.take_along_axis(far, near, 1).ravel() * 2**16) / 2**16
    cost = np.stack([cost, np.ones(420), np.tile(np.arange(7.0), 60), cost > 0.1])
    found = check(library, graph, cost.astype(np.float64), blocks=(1, 2), seeds=(0, 1, 2))
    assert (found.status == jm.Status.OPTIMAL).all()
    assert found.cost[0] == cost[0][found.edge[0]].sum() <= far[np.arange(60), own].sum() * 1.01


def test_warm_start(library):
    random, graph, count = random_graph(7, (40, 40), 5)
    cost = random.integers(0, 10**6, (3, count)).astype(np.int32)
    cold = check(library, graph, cost)
    start = cold.col_dual.copy()
    start[1, 3] = np.nan
    start[2] = random.normal(size=40) * 1e6
    warm = solve(library, graph, cost, start_dual=start)
    for k in range(3):
        certify(graph, cost[k], one(warm, k))
    assert (warm.cost == cold.cost).all()


def test_starts_with_pairs(library):
    """Pairs of any kind: optimal ones, wrong ones, none, edges of other rows, absent ones."""
    random, graph, count = random_graph(8, (60, 60), 5)
    cost = random.integers(0, 10**6, (6, count)).astype(np.int32)
    cold = check(library, graph, cost)
    start, edge = cold.col_dual + random.integers(-9, 9, (6, 60)), cold.edge.copy()
    start[0] = cold.col_dual[0]
    edge[1] = graph.row_ptr[:-1]
    edge[2] = -1
    edge[3, ::2] = random.integers(-5, count + 5, 30)
    edge[4] = random.permutation(edge[4])
    edge[5] = 2**31 - 1
    for blocks, seed in ((1, 0), (1, 1), (2, 2)):
        warm = solve(
            library, graph, cost, start_dual=start, start_edge=edge, blocks=blocks, seed=seed
        )
        for k in range(6):
            certify(graph, cost[k], one(warm, k))
        assert (warm.cost == cold.cost).all()
        assert warm.counts[0, 0] == 0, "optimal pairs are kept without a bid"


@pytest.mark.parametrize("big", [2**50, 2**56, 2**57])
def test_an_edge_too_long_for_a_label(library, big):
    """A long edge is better than a detour of two that each have a label."""
    x, h, other_h, g, other_g = range(5)
    a, other_a, b, other_b, f = range(5)
    edges = [
        (x, a, -big), (x, other_a, -big), (x, f, big + 1), (h, a, -big), (h, b, big // 2),
        (other_h, other_a, -big), (other_h, other_b, big // 2), (g, b, -big), (g, f, big // 2),
        (other_g, other_b, -big), (other_g, f, big // 2),
    ]  # fmt: skip
    rows, cols, cost = (np.array(k) for k in zip(*edges, strict=True))
    graph = graph_of(rows, cols, (5, 5))
    start = {"start_dual": np.zeros((1, 5)), "start_edge": np.array([[-1, 3, 5, 7, 9]], np.int32)}
    known = dict(zip(zip(rows.tolist(), cols.tolist(), strict=True), cost.tolist(), strict=True))
    totals = [
        sum(known[pair] for pair in enumerate(order))
        for order in itertools.permutations(range(5))
        if all(pair in known for pair in enumerate(order))
    ]
    for given in ({}, start):
        found = solve(library, graph, cost[None], **given)
        assert found.status[0] == 0
        assert sum(cost[k] for k in found.edge[0].tolist()) == min(totals)


def test_prices_of_an_auction_that_would_overflow(library):
    """A chain of the largest costs that fit: updates of its prices sum to more."""
    n = 40
    most = 2**61 // (2 * n + 2)
    rows = np.r_[0, np.repeat(np.arange(1, n), 2)]
    cols = np.r_[0, np.stack([np.arange(n - 1), np.arange(1, n)], 1).ravel()]
    graph = graph_of(rows, cols, (n, n))
    cost = np.r_[most, np.tile([-most, most], n - 1)].astype(np.int64)
    found = solve(library, graph, cost[None])
    assert_same_bits(solve(library, graph, cost[None], blocks=3, seed=1), found)
    # The only way to match all: row i takes column i.
    assert found.status[0] == jm.Status.OPTIMAL and (found.col4row[0] == np.arange(n)).all()


@pytest.mark.parametrize("seed", [270, 271])
def test_ties_go_to_columns_whatever_matches_a_row(library, seed):
    """Small tables leave rows to price updates that larger ones match by searches."""
    random = np.random.default_rng(seed)
    n, m = random.integers(6, 24, 2)
    rows, cols = np.nonzero(random.random((n, m)) < 0.25)
    cost, gate = random.integers(0, 3, (1, len(rows))), random.integers(0, 4, (1, n))
    graph = graph_of(rows, cols, (n, m))
    few, many = (solve(library, graph, cost, unmatched_cost=gate, slots=k) for k in (8, 128))
    assert few.cost == many.cost
    assert (few.col4row >= 0).sum() == (many.col4row >= 0).sum()


def test_starts_far_away(library):
    most = 2**61 // 6
    graph = graph_of(np.array([0, 1, 1]), np.array([1, 0, 1]), (2, 2))
    cost = np.array([[-most // 2, most, -most]])
    start = np.array([[-3.0, 3.0]]) * 2**57
    found = solve(library, graph, cost, start_dual=start)
    assert found.status[0] == 0 and found.col4row[0].tolist() == [1, 0]


def test_float32_results_and_rounding(library):
    random, graph, count = random_graph(8, (30, 30), 5)
    cost = random.random((1, count)) * 2.0 ** random.integers(-40, 40, (1, count))
    found = solve(library, graph, cost)
    rows = np.repeat(np.arange(30), np.diff(graph.row_ptr))
    c = cost[0]
    u, v = found.row_dual[0], found.col_dual[0]
    excess = np.maximum(u[rows] + v[graph.col_ind] - c, 0).max()
    assert found.status[0] == jm.Status.OPTIMAL and 0 < found.gap[0] < 1e-12 * c.max()
    assert excess <= found.gap[0]
    assert abs(u.sum() + v.sum() - found.cost[0]) <= 30 * found.gap[0] + 1e-12 * c.max()
    narrow = solve(library, graph, cost.astype(np.float32), real=np.float32)
    np.testing.assert_allclose(narrow.cost, found.cost, rtol=1e-6)


def test_failures(library):
    random, graph, count = random_graph(9, (12, 12), 4)
    cost = random.random((3, count))
    cost[0, 3], cost[1, 5] = np.nan, -np.inf
    found = solve(library, graph, cost)
    names = ["INVALID_COST", "INVALID_COST", "OPTIMAL"]
    assert [jm.Status(int(x)).name for x in found.status] == names
    huge = np.full((1, count), 2**60, np.int64)
    assert solve(library, graph, huge).status[0] == jm.Status.OVERFLOW
    for name, at, value in [
        ("row_ptr", 0, 1), ("row_ptr", 4, 99), ("col_ptr", -1, 10**6), ("col_ind", 2, 12),
        ("row_ind", 5, -1), ("col_ptr", 3, -1),
    ]:  # fmt: skip
        wrong = graph._replace(**{name: getattr(graph, name).copy()})
        getattr(wrong, name)[at] = value
        for blocks in (1, 2):
            res = solve(library, wrong, cost[2:], blocks=blocks)
            assert res.status[0] == jm.Status.INVALID_GRAPH, name


def test_directions_that_differ(library):
    random, graph, count = random_graph(10, (15, 20), 4)
    cost = random.random((1, count))
    other = random_graph(11, (15, 20), 4)[1]
    mixed = graph._replace(col_ptr=other.col_ptr, row_ind=other.row_ind)
    found = solve(library, mixed, cost, unmatched_cost=dear(len(cost), graph.shape[0]))
    assert found.status[0] == jm.Status.INVALID_GRAPH


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (4, 4)], ids=str)
def test_without_edges(library, shape):
    graph = graph_of(np.zeros(0, int), np.zeros(0, int), shape, room=1)
    cost = np.zeros((2, 1), np.float32)
    found = check(library, graph, cost)
    expected = jm.Status.INFEASIBLE if min(shape) else jm.Status.OPTIMAL
    assert (found.status == expected).all()
    found = check(library, graph, cost, unmatched_cost=dear(2, shape[0]))
    assert (found.status == jm.Status.OPTIMAL).all()
    check(library, graph, cost, unmatched_cost=np.ones((2, shape[0])))


def test_any_number_of_threads(library):
    """Ties among points of a small grid, in a graph of which a warp has room for all columns."""
    random = np.random.default_rng(1152)
    n = int(random.integers(60, 150))
    random.integers(0, 3)
    x, y = (random.integers(0, 12, (n, 2)) for _ in range(2))
    far = np.abs(x[:, None] - y[None]).sum(-1)
    degree = int(random.integers(4, 9))
    near = (far + random.random(far.shape) * 0.01).argsort(1)[:, :degree]
    on = np.zeros((n, n), bool)
    np.put_along_axis(on, near, True, 1)
    rows, cols = np.nonzero(on)
    graph, cost = graph_of(rows, cols, (n, n)), far[rows, cols].astype(np.int32)[None]
    given = {"slots": 256, "unmatched_cost": np.full((1, n), 30.0)}
    found = check(library, graph, cost, threads=128, **given)
    assert_same_bits(solve(library, graph, cost, threads=512, **given), found)


@pytest.mark.parametrize("blocks", [1, 2])
def test_wide_blocks(library, blocks):
    """As many threads as on a GPU."""
    random, graph, count = random_graph(12, (80, 80), 6)
    cost = random.integers(1, 10**6, (1, count)).astype(np.int32)
    found = check(library, graph, cost, threads=512 if blocks == 2 else 128, blocks=(1, blocks))
    assert_same_bits(found, solve(library, graph, cost))


@pytest.mark.parametrize(
    "kind", ["random", "near", "ties", "planted", "few columns", "more rows", "square", "path"]
)
def test_large_trees(library, kind):
    """Trees that do not fit the table of a warp, or that of a block: price updates follow."""
    random = np.random.default_rng(13)
    n = 300
    if kind in ("near", "ties", "planted"):
        x, y = random.random((2, n, 2))
        far = ((x[:, None] - y[None]) ** 2).sum(-1)
        cols = far.argsort(1)[:, :8]
        if kind == "planted":  # at high costs
            cols[:, 7] = random.permutation(n)
        cols.sort(1)
        graph = graph_of(np.repeat(np.arange(n), 8), cols.ravel(), (n, n))
        cost = np.rint(np.take_along_axis(far, cols, 1).reshape(1, -1) * 2**24).astype(np.int64)
        if kind == "ties":
            cost = np.minimum(cost >> 16, 3)
        most = 3 if kind == "ties" else 2**20
        given = {} if kind == "planted" else {"unmatched_cost": np.full((1, n), most, np.int64)}
    elif kind == "path":  # the last row has one column, which starts a chain through all others
        cols = np.stack([np.arange(n), np.maximum(np.arange(n) - 1, 0)], 1)
        rows = np.repeat(np.arange(n + 1), [2] * n + [1])
        graph = graph_of(rows, np.append(np.sort(cols, 1).ravel(), n - 1), (n + 1, n + 1))
        cost = np.tile([1, 2], n + 1)[None, : len(rows)].astype(np.int32)
        given = {"unmatched_cost": np.full((1, n + 1), 9, np.int32)}
    else:
        shape = (n, n if kind in ("random", "square") else 150)
        _, graph, count = random_graph(14, shape, 10 if kind == "square" else 4)
        ties = kind in ("more rows", "square")
        cost = random.integers(1, 4 if ties else 1000, (1, count)).astype(np.int32)
        given = {"unmatched_cost": dear(1, n)} if kind == "few columns" else {}
    found = check(library, graph, cost, blocks=(1, 2, 3), **given)
    assert found.status[0] == jm.Status.OPTIMAL


def test_gaps_count_the_unit_to_which_costs_were_rounded(library):
    """Rounded costs are wholes, so the kernel takes 1 for its unit."""
    rows = np.repeat(np.arange(6), 2)
    cols = np.stack([np.arange(6), (np.arange(6) + 1) % 6], 1)
    graph = graph_of(rows, np.sort(cols, 1).ravel(), (6, 6))
    cost = np.tile([1.0, -1.0, 1e-60], 4)[None]
    found = solve(library, graph, cost)
    assert found.status[0] == jm.Status.OPTIMAL and 0 <= found.gap[0] < 1e-12
