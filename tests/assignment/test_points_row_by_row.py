"""Points on the CPU whose distances are computed row by row, and when `"auto"` takes which method,
against the same solver on the matrix of the same costs."""

import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from jax.sharding import Mesh

import jaxmatch as jm
from jaxmatch._common.distances import directions


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")
row_by_row = partial(jm.solve_assignment_points, method="jonker_volgenant")


def clouds(n, m, d, seed=0, shift=0.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + shift
    return x.astype(dtype), y.astype(dtype)


def far_clusters(n, d, seed=0):
    """Of unequal populations: mass has to be moved far."""
    rng = np.random.default_rng(seed)
    centers = 10 * rng.random((20, d))
    shares = rng.dirichlet(np.ones(20), 2)
    near = [centers[rng.choice(20, n, p=p)] + 0.3 * rng.normal(size=(n, d)) for p in shares]
    return near[0].astype(np.float32), near[1].astype(np.float32)


def matrix(x, y, metric="sqeuclidean"):
    """In float64, coordinate after coordinate, then rounded. The cosine: of unit vectors."""
    cost = np.zeros((len(x), len(y)))
    for a, b in zip(x.T.astype(np.float64), y.T.astype(np.float64), strict=True):
        apart = a[:, None] - b[None]
        if metric == "cosine":
            cost += a[:, None] * b[None]
        else:
            cost += abs(apart) if metric == "l1" else apart * apart
    cost = {"euclidean": np.sqrt, "cosine": lambda c: 1 - c}.get(metric, np.asarray)(cost)
    with np.errstate(over="ignore"):
        return cost.astype(x.dtype)


def assert_optimal(cost, res, *, maximize=False, **masks):
    """The certificate is about these costs, to the bit: a gap of 0 is exact arithmetic."""
    assert res.status == jm.Status.OPTIMAL and res.gap == 0
    check = jm.check_assignment(cost, res, maximize=maximize, **masks)
    assert check.valid and check.gap == 0
    truth = jm.solve_assignment(cost, maximize=maximize, **masks)
    np.testing.assert_allclose(res.cost, truth.cost, rtol=1e-13)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n, m, d, shift", [(90, 90, 2, 1.0), (61, 157, 5, 0.0), (157, 150, 3, 4)])
def test_certificate_for_the_matrix_of_rounded_distances(metric, n, m, d, shift):
    maximize = (METRICS.index(metric) + n) % 2 == 1
    with x64(True):
        x, y = clouds(n, m, d, shift=shift)
        res = row_by_row(x, y, metric=metric, maximize=maximize)
        if metric == "cosine":  # as JAX rounds unit vectors; NumPy rounds some in another way
            x, y = (np.asarray(directions(jnp.asarray(p))) for p in (x, y))
        assert_optimal(matrix(x, y, metric), res, maximize=maximize)


@pytest.mark.parametrize("n, m", [(80, 80), (70, 95), (95, 70)])
@pytest.mark.parametrize("maximize", [False, True])
def test_masks(n, m, maximize):
    x, y = clouds(n, m, 3, shift=2.0)
    rng = np.random.default_rng(1)
    masks = {"row_mask": rng.random(n) < 0.7, "col_mask": rng.random(m) < 0.8}
    x[~masks["row_mask"]] = np.nan
    y[~masks["col_mask"]] = np.inf
    with x64(True):
        res = row_by_row(x, y, maximize=maximize, **masks)
        assert_optimal(matrix(x, y), res, maximize=maximize, **masks)
        assert (res.col4row[~masks["row_mask"]] == -1).all()


def test_float64():
    with x64(True):
        x, y = clouds(120, 130, 3, shift=1.0, dtype=np.float64)
        cost = matrix(x, y, "euclidean")
        res = row_by_row(x, y, metric="euclidean")
        check = jm.check_assignment(cost, res)
        assert check.valid and check.gap <= 1e-12 and res.gap <= 1e-12
        np.testing.assert_allclose(res.cost, jm.solve_assignment(cost).cost, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-15, 1e15, 3e18])
def test_coordinates_of_any_size(scale):
    """Costs may be tiny, or infinite where they overflow."""
    with x64(True):
        x, y = clouds(60, 60, 2, shift=1.0)
        x, y = (p * np.float32(scale) for p in (x, y))
        assert_optimal(matrix(x, y), row_by_row(x, y))


def test_infinite_points_forbid():
    x, y = clouds(50, 55, 2)
    y[:5] = np.inf
    res = row_by_row(x, y)
    assert res.status == jm.Status.OPTIMAL and (res.row4col[:5] == -1).all()
    with x64(True):
        truth = jm.solve_assignment(matrix(x, y[5:]))
        np.testing.assert_allclose(res.cost, truth.cost, rtol=1e-6)
    y[5] = np.inf
    assert row_by_row(x, y).status == jm.Status.INFEASIBLE
    assert row_by_row(x, y, maximize=True).status == jm.Status.INVALID_COST


def test_single_points_and_no_coordinates():
    one = row_by_row(np.ones((1, 2)), np.full((1, 2), 3.0))
    assert one.cost == 8 and one.col4row == 0
    flat = row_by_row(np.zeros((4, 0)), np.zeros((5, 0)))
    assert flat.status == jm.Status.OPTIMAL and flat.cost == 0


def test_under_vmap_and_jit():
    x, y = (np.stack(sets) for sets in zip(*(clouds(9, 12, 2, k) for k in range(3)), strict=True))
    res = jax.jit(jax.vmap(row_by_row))(x, y)
    for k in range(3):
        np.testing.assert_array_equal(res.cost[k], row_by_row(x[k], y[k]).cost)


def test_not_of_sharded_points():
    x, y = clouds(8, 8, 2)
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    with jax.set_mesh(mesh), pytest.raises(ValueError, match="`method` must be 'auto' or one of"):
        row_by_row(x, y, row_axis="i")


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "l1"])
def test_clouds_that_lie_apart_take_no_longer_than_their_matrix(metric):
    """Cores alone take 12 times as long at n = 1000, and more for larger ones."""
    x, y = clouds(1000, 1000, 2, shift=1.0)
    x, y, cost = (jnp.asarray(a) for a in (x, y, matrix(x, y, metric)))

    def least_time(solve):
        jax.block_until_ready(solve())
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(solve())
            times.append(time.perf_counter() - start)
        return min(times)

    of_matrix = least_time(lambda: jm.solve_assignment(cost))
    assert least_time(lambda: jm.solve_assignment_points(x, y, metric=metric)) <= 3 * of_matrix


@pytest.mark.parametrize("kind", ["normal", "far clusters", "masks", "unequal masks"])
def test_auto_begins_with_cores_and_leaves_them_where_they_lead_nowhere(kind):
    """More distances than are kept, of eight coordinates."""
    n, masks = 2100, {}
    x, y = far_clusters(n, 8) if kind == "far clusters" else clouds(n, n, 8)
    if kind == "masks":
        masks = {"row_mask": np.arange(n) % 9 != 0, "col_mask": np.arange(n) % 9 != 1}
    if kind == "unequal masks":
        masks = {"row_mask": np.arange(n) % 9 != 0, "col_mask": np.arange(n) % 8 != 1}
    with x64(True):
        res = jm.solve_assignment_points(x, y, **masks)
        assert_optimal(matrix(x, y), res, **masks)
        if kind == "unequal masks":
            return  # "core" runs an auction there, and "auto" does not
        # Whose result it is: they start from different duals.
        method = "jonker_volgenant" if kind == "far clusters" else "core"
        other = jm.solve_assignment_points(x, y, method=method, **masks)
        np.testing.assert_array_equal(res.col_dual, other.col_dual)


def test_process_holds_no_matrix():
    """Of 7000 points one would take 196 MB."""
    code = """
import resource
import jax, numpy as np, jaxmatch as jm
x = np.random.default_rng(0).random((7000, 2)).astype("f4")
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
jax.block_until_ready(jm.solve_assignment_points(x[:3000], x[:3000]))
before = most()
res = jax.block_until_ready(jm.solve_assignment_points(x, x[::-1]))
assert res.cost == 0 and res.status == 0
print(most() - before)
"""
    run = [sys.executable, "-c", code]
    grown = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert int(grown) < 60_000  # in KB
