"""Assignments between points against distance matrices by SciPy, and finite differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import jaxmatch as jm


SCIPYS = {
    "sqeuclidean": "sqeuclidean",
    "euclidean": "euclidean",
    "l1": "cityblock",
    "cosine": "cosine",
}


def points(n, m, d, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)


def optimum(cost, **how):
    row, col = linear_sum_assignment(cost, **how)
    return cost[row, col].sum()


def mesh_of(count):
    return Mesh(np.array(jax.devices()[:count]), ("i",))


@pytest.mark.parametrize("metric", SCIPYS)
@pytest.mark.parametrize("n, m, d, maximize", [(60, 60, 2, False), (40, 83, 1, True)])
def test_optimum(metric, n, m, d, maximize):
    x, y = points(n, m, d)
    cost = cdist(x.astype(np.float64), y.astype(np.float64), SCIPYS[metric])
    res = jm.solve_assignment_points(x, y, metric=metric, maximize=maximize)
    assert res.status == jm.Status.OPTIMAL
    truth = optimum(cost, maximize=maximize)
    np.testing.assert_allclose(res.cost, truth, rtol=1e-5, atol=1e-5)
    check = jm.check_assignment(cost.astype(np.float32), res, maximize=maximize)
    assert check.valid and check.gap <= 1e-4 * abs(truth)
    check = jm.check_assignment_points(x, y, res, metric=metric, maximize=maximize)
    assert check.valid and check.gap <= 1e-4 * abs(truth)


@pytest.mark.parametrize(
    "metric, method", [("sqeuclidean", "core"), ("euclidean", "tree"), ("l1", "classical")]
)
def test_same_bits_as_the_matrix_of_rounded_distances(metric, method):
    """Distances are computed in float64 in the order of the coordinates, then rounded."""
    x, y = points(90, 70, 4)
    terms = (x.astype(np.float64)[:, None] - y.astype(np.float64)[None]).transpose(2, 0, 1)
    cost = np.zeros(terms.shape[1:])
    for term in terms:
        cost += abs(term) if metric == "l1" else term * term
    cost = (np.sqrt(cost) if metric == "euclidean" else cost).astype(np.float32)
    mine = jm.solve_assignment_points(x, y, metric=metric, method=method)
    theirs = jm.solve_assignment(cost, method=method)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_certificate_finds_out():
    x, y = points(40, 40, 2)
    with x64(True):
        res = jm.solve_assignment_points(x, y)
        assert jm.check_assignment_points(x, y, res).gap == 0
        swapped = np.array(res.col4row)
        swapped[:2] = swapped[1::-1]
        worse = res.replace(col4row=swapped, row4col=np.argsort(swapped).astype(np.int32))
        check = jm.check_assignment_points(x, y, worse)
        cost = cdist(x, y, "sqeuclidean")
        beyond = cost[np.arange(40), swapped].sum() - optimum(cost)
        assert check.valid and 0 < beyond <= check.gap * (1 + 1e-6)
        broken = res.replace(col4row=np.zeros(40, np.int32))
        assert not jm.check_assignment_points(x, y, broken).valid


def test_masks():
    x, y = points(50, 60, 3)
    rng = np.random.default_rng(1)
    row_mask, col_mask = rng.random(50) < 0.8, rng.random(60) < 0.5
    x[~row_mask] = np.nan
    res = jm.solve_assignment_points(x, y, row_mask=row_mask, col_mask=col_mask)
    truth = optimum(cdist(x[row_mask], y[col_mask], "sqeuclidean"))
    np.testing.assert_allclose(res.cost, truth, rtol=1e-5)
    assert (res.col4row[~row_mask] == -1).all() and (res.row4col[~col_mask] == -1).all()


@pytest.mark.parametrize("platform", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
@pytest.mark.parametrize("m", [70_001, 80_000])
def test_more_points_than_threads(m, platform):
    """An H200 runs 67,584: labels are kept by rows."""
    del platform
    x, y = points(70_001, m, 8)
    res = jm.solve_assignment_points(x, y)
    assert res.status == jm.Status.OPTIMAL
    check = jm.check_assignment_points(x, y, res)
    assert check.valid and check.gap <= 1e-4 * res.cost


@pytest.mark.parametrize("metric", ["euclidean", "l1"])
@pytest.mark.parametrize("scale", [1e-30, 1e18, 1e30, 1e37])
def test_distances_whose_squares_are_no_numbers(metric, scale):
    """Without x64, where these overflow or vanish: found and proved as at any scale."""
    x, y = (p * np.float32(scale) for p in points(30, 40, 2))
    cost = cdist(x.astype(np.float64), y.astype(np.float64), SCIPYS[metric])
    res = jm.solve_assignment_points(x, y, metric=metric)
    assert res.status == jm.Status.OPTIMAL
    np.testing.assert_allclose(res.cost, optimum(cost), rtol=1e-5)
    check = jm.check_assignment_points(x, y, res, metric=metric)
    assert check.valid and check.gap <= 1e-5 * optimum(cost)
    slope = jax.grad(lambda x: jm.solve_assignment_points(x, y, metric=metric).cost)(jnp.asarray(x))
    np.testing.assert_allclose(
        jnp.linalg.norm(slope, axis=1), 1 if metric == "euclidean" else 2**0.5, rtol=1e-5
    )


@pytest.mark.parametrize("method", ["core", "jonker_volgenant"])
@pytest.mark.parametrize("spoil", [np.nan, np.inf])
def test_points_that_are_not_finite(spoil, method):
    x, y = points(6, 6, 2)
    x[2] = spoil
    res = jm.solve_assignment_points(x, y, method=method)
    wanted = jm.Status.INVALID_COST if np.isnan(spoil) else jm.Status.INFEASIBLE
    assert res.status == wanted and np.isnan(res.cost) and (res.col4row == -1).all()


def test_a_point_without_a_direction():
    x, y = points(4, 4, 2)
    x[1] = 0
    assert jm.solve_assignment_points(x, y, metric="cosine").status == jm.Status.INVALID_COST


def test_float64():
    with x64(True):
        x, y = points(30, 30, 3, dtype=np.float64)
        res = jm.solve_assignment_points(x, y, metric="euclidean")
        assert res.cost.dtype == jnp.float64
        np.testing.assert_allclose(res.cost, optimum(cdist(x, y)), rtol=1e-13)


def test_integers_and_halves_become_float32():
    x, y = np.arange(12).reshape(6, 2), np.arange(12, 24).reshape(6, 2)[::-1]
    whole = jm.solve_assignment_points(x, y, metric="l1")
    halves = jm.solve_assignment_points(jnp.bfloat16(x), jnp.float16(y), metric="l1")
    assert whole.cost == halves.cost == optimum(cdist(x, y, "cityblock"))


@pytest.mark.parametrize("metric", SCIPYS)
def test_gradient_against_finite_differences(metric):
    with x64(True):
        x, y = points(12, 15, 3, dtype=np.float64)
        value = jax.jit(lambda x, y: jm.solve_assignment_points(x, y, metric=metric).cost)
        by_x, by_y = jax.grad(value, argnums=(0, 1))(x, y)
        step = 1e-6
        for at in [(0, 0), (5, 2), (11, 1)]:
            for k, found in ((0, by_x), (1, by_y)):
                moved = [x.copy(), y.copy()]
                moved[k][at] += step
                high = float(value(*moved))  # done before its arguments change
                moved[k][at] -= 2 * step
                slope = (high - float(value(*moved))) / (2 * step)
                np.testing.assert_allclose(found[at], slope, atol=1e-6)
        tangents = points(12, 15, 3, seed=1, dtype=np.float64)
        _, dot = jax.jvp(value, (x, y), tangents)
        np.testing.assert_allclose(dot, (by_x * tangents[0]).sum() + (by_y * tangents[1]).sum())


@pytest.mark.parametrize("metric", SCIPYS)
@pytest.mark.parametrize("spoilt", [np.nan, np.inf, 0.0])
def test_points_that_do_not_exist_have_no_gradient_and_spoil_none(metric, spoilt):
    x, y = points(6, 7, 2)
    x[1] = y[0] = y[3] = spoilt
    masks = {"row_mask": np.arange(6) != 1, "col_mask": ~np.isin(np.arange(7), [0, 3])}

    def value(x, y):
        return jm.solve_assignment_points(x, y, metric=metric, **masks).cost

    by_x, by_y = jax.grad(value, argnums=(0, 1))(x, y)
    assert np.isfinite(by_x).all() and np.isfinite(by_y).all()
    assert (by_x[1] == 0).all() and (by_y[3] == 0).all() and np.abs(by_x).sum() > 0
    _, dot = jax.jvp(value, (x, y), (np.ones_like(x), np.ones_like(y)))
    assert np.isfinite(dot)
    if not np.isfinite(spoilt):
        bad = jax.grad(lambda x: jm.solve_assignment_points(x, y, metric=metric).cost)(x)
        assert (bad == 0).all()


def test_cosine_of_long_and_short_points():
    x, y = points(20, 20, 3)
    truth = jm.solve_assignment_points(x, y, metric="cosine")
    for scale in (1e25, 1e-30):
        res = jm.solve_assignment_points(x * np.float32(scale), y, metric="cosine")
        np.testing.assert_allclose(res.cost, truth.cost, rtol=1e-4)


def test_one_after_another_under_vmap():
    x, y = (np.stack(sets) for sets in zip(*(points(9, 12, 2, k) for k in range(3)), strict=True))
    res = jax.vmap(jm.solve_assignment_points)(x, y)
    for k in range(3):
        np.testing.assert_array_equal(res.cost[k], jm.solve_assignment_points(x[k], y[k]).cost)


def test_points_that_differ_within_a_shard_map():
    x, y = points(8, 8, 2)
    spec = PartitionSpec("i")
    solve = jax.shard_map(
        lambda x, y: jm.solve_assignment_points(x, y, row_axis="i").cost,
        mesh=mesh_of(4),
        in_specs=(spec, spec),
        out_specs=PartitionSpec(),
    )
    with pytest.raises(ValueError, match="must be the same on all devices of 'i'"):
        solve(x, y)
    alike = jax.shard_map(
        lambda x, y: jm.solve_assignment_points(x, y, row_axis="i").cost,
        mesh=mesh_of(4),
        in_specs=(spec, PartitionSpec()),
        out_specs=PartitionSpec(),
    )
    np.testing.assert_array_equal(alike(x, y), jm.solve_assignment_points(x, y).cost)


def test_gradient_where_points_coincide():
    x, _ = points(5, 5, 2)
    grad = jax.grad(
        lambda x: jm.solve_assignment_points(x, jnp.asarray(x + 0), metric="euclidean").cost
    )
    assert (grad(x) == 0).all()


@pytest.mark.parametrize("count, rows", [(1, True), (4, True), (2, False), (4, False)])
def test_sharded_over_devices(count, rows):
    x, y = points(48, 64, 2)
    axis = {"row_axis" if rows else "col_axis": "i"}
    spread = NamedSharding(mesh_of(count), PartitionSpec("i"))
    shared = jax.device_put((x, y)[rows], NamedSharding(mesh_of(count), PartitionSpec()))
    mine = jax.device_put((y, x)[rows], spread)
    arguments = (mine, shared) if rows else (shared, mine)
    solve = partial(jm.solve_assignment_points, **axis)
    res, alone = solve(*arguments), jm.solve_assignment_points(x, y, method="core")
    np.testing.assert_allclose(res.cost, alone.cost, rtol=1e-6)
    check = jm.check_assignment_points(*arguments, res, **axis)
    assert check.valid and check.gap < 1e-4
    if rows:
        for a, b in zip(jax.tree.leaves(res), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(a, b)
    grads = jax.grad(lambda *points: solve(*points).cost, argnums=(0, 1))(*arguments)
    truth = jax.grad(lambda *points: jm.solve_assignment_points(*points).cost, argnums=(0, 1))(x, y)
    for a, b in zip(grads, truth, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"x": np.zeros((3, 2, 2))}, ValueError, ["`x`", "[3, 2, 2]", "solve_assignment"]),
        ({"y": np.zeros((3, 4))}, ValueError, ["same dimension", "[3, 4]"]),
        ({"x": np.zeros((3, 2), complex)}, TypeError, ["`x`", "complex128"]),
        ({"metric": "chebyshev"}, ValueError, ["`metric`", "chebyshev", "cosine"]),
        ({"method": "xla"}, ValueError, ["`method`", "xla", "tree"]),
        ({"x": np.zeros((0, 2))}, ValueError, ["at least one point", "[0, 2]"]),
        ({"row_axis": "j"}, ValueError, ["`row_axis`", "'j'", "set_mesh"]),
        ({"row_mask": np.ones(4, bool)}, ValueError, ["`row_mask`", "(4,)"]),
    ],
)
def test_errors(change, error, words):
    arguments = {"x": np.zeros((3, 2)), "y": np.zeros((3, 2)), "metric": "l1"} | change
    with pytest.raises(error) as raised:
        jm.solve_assignment_points(**arguments)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize("method, d", [("auto", 2), ("auto", 8), ("core", 2)])
def test_memory_grows_with_the_points_only(method, d):
    def needed(n):
        x = jax.ShapeDtypeStruct((n, d), np.float32)
        solve = jax.jit(partial(jm.solve_assignment_points, method=method))
        return solve.lower(x, x).compile().memory_analysis().temp_size_in_bytes

    # A bit for each of 16,384^2 pairs would be 32 MB. Parts end at multiples of 256 bytes.
    assert needed(16_384) <= 2 * needed(8192) + 16_384


def test_the_metric_is_named():
    x = np.zeros((3, 2), np.float32)
    res = jm.solve_assignment_points(x, x, metric="l1")
    for call, given in (
        (jm.solve_assignment_points, (x, x)),
        (jm.check_assignment_points, (x, x, res)),
    ):
        with pytest.raises(TypeError, match="positional argument"):
            call(*given, "l1")
