"""Assignments between many points by levels of resolution, against solvers that use all pairs."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy
from jax.sharding import NamedSharding, PartitionSpec
from scipy.optimize import linear_sum_assignment
from sharded_helpers import mesh_of

import jaxmatch as jm
from jaxmatch._assignment_points import levels, on_host
from jaxmatch._assignment_points.curve import orders_along_curve
from jaxmatch._assignment_points.nearest import Nearest
from jaxmatch._assignment_points.pair_graph import Near, pair_graph
from jaxmatch._common.distances import directions, distances
from jaxmatch._library import libraries


METRICS = ["sqeuclidean", "euclidean", "l1", "cosine"]


@pytest.fixture
def small(monkeypatch):
    """Small problems have levels, too."""
    monkeypatch.setitem(levels._DENSE, "cpu", 60)


def solve(x, y, metric="sqeuclidean", compiled=False):
    """By NumPy and native calls, or in a program of XLA."""
    by_levels = partial(levels.solve, metric=metric, platform="cpu")
    res, solved = jax.jit(by_levels)(x, y) if compiled else by_levels(np.asarray(x), np.asarray(y))
    assert {type(a) for a in jax.tree.leaves(res)} <= (
        {type(jnp.zeros(()))} if compiled else {np.ndarray, np.float32, np.float64}
    )
    return res, solved


def draw(name, n, m, dims, rng):
    if name == "uniform":
        return rng.random((n, dims)), rng.random((m, dims))
    if name == "clusters":
        centres = rng.random((7, dims))
        return tuple(
            centres[rng.choice(7, size, p=rng.dirichlet(np.ones(7)))]
            + 0.02 * rng.normal(size=(size, dims))
            for size in (n, m)
        )
    if name == "ties":
        return tuple(rng.integers(0, 6, (size, dims)).astype(float) for size in (n, m))
    if name == "moved":
        x = rng.normal(size=(max(n, m), dims))
        return x[:n], rng.permutation(x * 1.1 + 0.3)[:m]
    return np.ones((n, dims)), np.ones((m, dims))


@pytest.mark.parametrize(
    ("name", "sides", "dims"),
    [
        ("uniform", (700, 700), 2),
        ("uniform", (503, 503), 3),
        ("clusters", (700, 700), 3),
        ("clusters", (301, 422), 2),
        ("clusters", (611, 260), 3),
        ("clusters", (277, 278), 1),
        ("ties", (700, 700), 2),
        ("ties", (503, 503), 1),
        ("ties", (301, 422), 3),
        ("moved", (503, 503), 2),
        ("moved", (611, 260), 1),
        ("equal", (277, 278), 2),
    ],
)
def test_is_optimal(small, name, sides, dims):
    x, y = draw(name, *sides, dims, np.random.default_rng([*sides, dims]))
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    res, solved = solve(x, y)
    assert solved
    assert res.cost.dtype == jnp.float32
    cost = np.asarray(distances(x[:, None], y[None], "sqeuclidean"), np.float64)
    rows, cols = linear_sum_assignment(cost)
    assert np.isclose(res.cost, cost[rows, cols].sum(), rtol=1e-5, atol=1e-6)
    check = jm.check_assignment_points(x, y, res)
    assert check.valid
    assert check.optimal
    assert check.gap <= 1e-5 * abs(float(res.cost)) + 1e-6


@pytest.mark.parametrize("sides", [(503, 503), (301, 422), (611, 260)])
def test_a_program_finds_the_same(small, sides):
    x, y = draw("clusters", *sides, 2, np.random.default_rng(7))
    x, y = x.astype(np.float32), y.astype(np.float32)
    (res, solved), (other, also) = solve(x, y), solve(x, y, compiled=True)
    assert solved and also
    assert np.isclose(res.cost, other.cost, rtol=1e-6)
    assert jm.check_assignment_points(x, y, other).optimal


@pytest.mark.parametrize("metric", METRICS[1:])
def test_other_metrics(small, metric):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, y = (jnp.asarray(rng.random((400, 3)) - 0.5) for _ in range(2))
        if metric == "cosine":
            x, y = directions(x), directions(y)
        res, solved = solve(x, y, metric)
        assert solved
        assert res.cost.dtype == jnp.float64
        check = jm.check_assignment_points(x, y, res, metric=metric)
        assert check.optimal
        assert check.gap <= 2**-35 * res.cost


def test_points_along_the_curve():
    """Every order is a permutation, and neighbours in it are near."""
    rng = np.random.default_rng(0)
    for dims, most in ((1, 0.01), (2, 0.08), (3, 0.2)):
        x = jnp.asarray(rng.random((2000, dims)), jnp.float32)
        with jax.enable_x64(True):
            order, same = orders_along_curve(x, x)
            again = orders_along_curve(*[np.asarray(x)] * 2)[0]
        assert np.array_equal(np.sort(order), np.arange(2000))
        assert np.array_equal(order, same)
        assert np.array_equal(order, again)
        step = np.linalg.norm(np.diff(np.asarray(x)[order], axis=0), axis=1)
        assert np.quantile(step, 0.99) < most


@pytest.mark.parametrize(("dims", "far"), [(1, 1e6), (2, 1e6), (3, 1e3)])
def test_a_point_far_away_leaves_the_order_of_the_others(dims, far):
    x = np.random.default_rng(1).random((2000, dims))
    x[77] = far
    with jax.enable_x64(True):
        order, _ = orders_along_curve(jnp.asarray(x), jnp.asarray(x))
    step = np.linalg.norm(np.diff(x[np.asarray(order)], axis=0), axis=1)
    assert np.quantile(step, 0.9) < 0.2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_point_without_a_place_leaves_the_order_of_the_others(bad):
    x = np.random.default_rng(1).random((2000, 2))
    x[77, 1] = bad
    order, _ = orders_along_curve(x, x)
    step = np.linalg.norm(np.diff(x[order[order != 77]], axis=0), axis=1)
    assert np.quantile(step, 0.9) < 0.2


@pytest.mark.parametrize("sides", [(8, 8), (9, 9), (11, 14), (8, 30), (10, 12), (7, 7)])
def test_pairs_of_groups_are_a_matching(sides):
    n, m = sides
    rng = np.random.default_rng(0)
    groups = m // 4
    of_groups = jnp.asarray(rng.permutation(groups)[: n // 4], jnp.int32)
    pairs = np.asarray(levels._pairs_of_groups(of_groups, n, m, groups))
    assert len(set(pairs.tolist())) == n
    assert ((pairs >= 0) & (pairs < m)).all()
    assert (pairs[: n // 4 * 4] // 4 == np.repeat(of_groups, 4)).all()


def test_a_pair_comes_once():
    """The graph lists a row's pair first, and forbids what comes again."""

    def near(cols, of_cols):
        rows = Nearest(
            jnp.array(cols, jnp.int32),
            jnp.array(cols, jnp.float32) + 1,
            jnp.zeros(2),
            jnp.array([2.0, 5.0]),
        )
        cols = Nearest(
            jnp.array(of_cols, jnp.int32)[:, None],
            jnp.array(of_cols, jnp.float32)[:, None] + 7,
            jnp.zeros(3),
            jnp.zeros(3),
        )
        return Near(rows, cols)

    pair = jnp.array([1, 2], jnp.int32)
    graph, cost, edge = pair_graph(
        pair, (near([[0, 1], [1, 0]], [0, 0, 1]), near([[2, 0], [0, 1]], [1, 0, 0]))
    )
    assert graph.row_ptr.tolist() == [0, 9, 16]
    assert edge.tolist() == [0, 9]
    inf = float("inf")
    # The pair, the best columns at either prices, then those that the row is best for.
    assert graph.col_ind[:5].tolist() == [1, 0, 1, 2, 0]
    assert cost[:5].tolist() == [2.0, 1.0, inf, 3.0, inf]
    rows = np.repeat([0, 1], np.diff(graph.row_ptr))
    there = np.isfinite(cost)
    pairs = list(zip(rows[there].tolist(), graph.col_ind[there].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)}
    assert np.bincount(graph.col_ind, minlength=3).tolist() == np.diff(graph.col_ptr).tolist()


@pytest.mark.parametrize("size", [20_000, 2**18 + 3])
def test_many_points_go_by_levels_on_cuda(size, monkeypatch):
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    x = jax.ShapeDtypeStruct((size, 2), jnp.float32)
    lowered = jax.jit(jm.solve_assignment_points).trace(x, x).lower(lowering_platforms=("cuda",))
    text = lowered.as_text()
    assert "@jaxmatch_nearest(" in text
    assert "@jaxmatch_sparse_assignment(" in text
    few = jax.ShapeDtypeStruct((9000, 2), jnp.float32)
    lowered = jax.jit(jm.solve_assignment_points).trace(few, x).lower(lowering_platforms=("cuda",))
    assert ("@jaxmatch_nearest(" in lowered.as_text()) == (size > 2**18)


@pytest.mark.parametrize("size", [4000, 2**18 + 3])
def test_many_points_go_by_levels_on_the_cpu(size):
    def text(x, **options):
        solve = partial(jm.solve_assignment_points, **options)
        return jax.jit(solve).trace(x, x).lower(lowering_platforms=("cpu",)).as_text()

    x = jax.ShapeDtypeStruct((size, 2), jnp.float32)
    assert "@jaxmatch_nearest(" in text(x)
    assert "@jaxmatch_nearest(" not in text(jax.ShapeDtypeStruct((3000, 2), jnp.float32))
    few = jax.ShapeDtypeStruct((1025, 2), jnp.float32)
    assert "@jaxmatch_nearest(" in text(few, method="levels")


@pytest.mark.parametrize("axis", ["row_axis", "col_axis"])
@pytest.mark.parametrize("inside", [False, True])
def test_sharded_points_are_solved_alike_on_each_device(axis, inside, monkeypatch):
    """As on one device; also within a `shard_map`, and where the divided method must follow."""
    monkeypatch.setitem(levels._PAYS, "cpu", 1200)
    rng = np.random.default_rng(5)
    x, y = (rng.random((size, 2), np.float32) for size in (1600, 2000))
    mesh, spec = mesh_of(4), PartitionSpec("x")
    specs = (spec, PartitionSpec()) if axis == "row_axis" else (PartitionSpec(), spec)
    placed = [jax.device_put(p, NamedSharding(mesh, s)) for p, s in zip((x, y), specs, strict=True)]
    solve = partial(jm.solve_assignment_points, **{axis: "x"})
    if inside:
        solve = jax.shard_map(solve, mesh=mesh, in_specs=specs, out_specs=PartitionSpec())
    text = jax.jit(solve).lower(*placed).as_text()
    assert "@jaxmatch_nearest(" in text and "@jaxmatch_assignment_sharded(" in text
    res = to_numpy(jax.jit(solve)(*placed))
    alone = to_numpy(jax.jit(partial(jm.solve_assignment_points, method="levels"))(x, y))
    assert_same_bits(res, alone)
    cost = ((x[:, None].astype(float) - y[None]) ** 2).sum(-1)
    best = cost[linear_sum_assignment(cost)].sum()
    np.testing.assert_allclose(cost[np.arange(1600), res.col4row].sum(), best, rtol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_arrays_at_hand_are_not_compiled(metric, monkeypatch):
    monkeypatch.setattr(levels, "_PAYS", {"cpu": 1300, "cuda": 1300})
    rng = np.random.default_rng(METRICS.index(metric))
    x, y = rng.random((1500, 2)) - 0.5, rng.random((1600, 2)) - 0.5
    solved = []
    by_jax = on_host.levels.solve
    monkeypatch.setattr(
        on_host.levels, "solve", lambda a, *b, **c: solved.append(type(a)) or by_jax(a, *b, **c)
    )
    for a, b in ((x, y), (y.astype(np.float32), x.astype(np.float32))):
        res = jm.solve_assignment_points(a, b, metric=metric)
        assert res.status == jm.Status.OPTIMAL
        assert isinstance(res.cost, np.ndarray) and res.cost.dtype == a.dtype
        assert jm.check_assignment_points(a, b, res, metric=metric).optimal
    res = jm.solve_assignment_points(jnp.asarray(x), jnp.asarray(y), metric=metric)
    assert isinstance(res.cost, jax.Array)
    assert solved == [np.ndarray] * 3  # none was traced


def test_points_at_hand_that_have_no_solution(monkeypatch):
    x = np.random.default_rng(0).random((1100, 2)).astype(np.float32)
    for bad, status in ((np.nan, jm.Status.INVALID_COST), (np.inf, jm.Status.INFEASIBLE)):
        y = x.copy()
        y[17, 1] = bad
        for take in (np.asarray, jnp.asarray):
            res = jm.solve_assignment_points(take(x), take(y), method="levels")
            assert res.status == status
            assert (res.col4row == -1).all()
    monkeypatch.setattr(on_host.native_large, "longest_side", lambda: 1000)
    assert jm.solve_assignment_points(x, y).status == jm.Status.TIME_LIMIT


def test_what_levels_do_not_take():
    def refused(size, dims=2, **options):
        x = jax.ShapeDtypeStruct((size, dims), jnp.float32)
        with pytest.raises(ValueError, match="levels|from 1 to 262143") as error:
            jax.eval_shape(lambda x: jm.solve_assignment_points(x, x, **options), x)
        return str(error.value)

    assert "got 1024 and 1024 points in 2 dimensions" in refused(1024, method="levels")
    assert "in 4 dimensions" in refused(5000, 4, method="levels")
    refused(5000, method="levels", maximize=True)
    refused(5000, method="levels", time_limit=1.0)
    refused(5000, method="levels", row_mask=np.ones(5000, bool))
    refused(2**18, 4)
    refused(2**18, maximize=True)
    refused(2**24)


def test_an_answer_without_a_proof_says_so():
    found = jm.solve_assignment_points(np.eye(3), np.eye(3))
    found = jax.tree.map(jnp.asarray, found)
    for solved, status in ((True, jm.Status.OPTIMAL), (False, jm.Status.TIME_LIMIT)):
        res = levels.with_status(found, jnp.asarray(solved))
        assert res.status == status
        assert res.col4row.tolist() == found.col4row.tolist()
    # That the pairs which were tried have no assignment says nothing about all pairs.
    for code, status in (("INVALID_COST", "INVALID_COST"), ("INFEASIBLE", "TIME_LIMIT")):
        failed = found.replace(status=jnp.int32(jm.Status[code]))
        res = levels.with_status(failed, jnp.asarray(False))
        assert res.status == jm.Status[status]
        assert res.col4row.tolist() == [-1, -1, -1]
        assert np.isnan(res.cost) if code == status else res.cost == res.gap == np.inf


def test_distances_that_are_infinite(small):
    """Either the pairs that were tried have an assignment, or all pairs are left to `"core"`."""
    rng = np.random.default_rng(0)
    for near_x, near_y in ((150, 150), (50, 172), (172, 150)):
        x, y = (
            (rng.random((322, 2)) + 1e20 * (np.arange(322) >= near)[:, None] * [1, 0])
            for near in (near_x, near_y)
        )
        x, y = x[:200].astype(np.float32), y.astype(np.float32)
        res, solved = solve(x, y)
        status = levels.with_status(res, solved).status
        assert status == (jm.Status.OPTIMAL if solved else jm.Status.TIME_LIMIT)
        if solved:
            assert jm.check_assignment_points(x, y, res).optimal


@pytest.mark.gpu
@pytest.mark.parametrize("metric", METRICS[:3])
@pytest.mark.parametrize("sides", [(6000, 6000), (5001, 7003), (8000, 5002)])
def test_on_a_gpu(metric, sides):
    for name, dims in (("uniform", 2), ("clusters", 3), ("ties", 2)):
        x, y = draw(name, *sides, dims, np.random.default_rng([*sides, dims]))
        x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        res = jm.solve_assignment_points(x, y, metric=metric, method="levels")
        assert res.status == jm.Status.OPTIMAL
        other = jm.solve_assignment_points(x, y, metric=metric, method="core")
        assert np.isclose(res.cost, other.cost, rtol=1e-6, atol=1e-6)
        assert jm.check_assignment_points(x, y, res, metric=metric).optimal
        again = jm.solve_assignment_points(x, y, metric=metric, method="levels")
        assert (again.col4row == res.col4row).all()


@pytest.mark.gpu
def test_points_that_are_not_finite_on_a_gpu():
    x = np.random.default_rng(0).random((5000, 2)).astype(np.float32)
    for bad in (np.nan, np.inf):
        y = x.copy()
        y[17, 1] = bad
        res = jm.solve_assignment_points(jnp.asarray(x), jnp.asarray(y), method="levels")
        other = jm.solve_assignment_points(jnp.asarray(x), jnp.asarray(y), method="core")
        assert res.status == other.status
