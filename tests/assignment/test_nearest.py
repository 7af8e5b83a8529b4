"""The columns of least cost − price of each row, by the search on the CPU, against all pairs."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from nearest_truth import METRICS, assert_nearest, distances

import jaxmatch as jm
from jaxmatch._assignment_points.nearest import nearest


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")


def check(x, y, price, k, metric="sqeuclidean", near=None):
    if near is None:
        near = np.arange(k) + np.zeros((len(x), 1), int)
    near = near.astype(np.int32)
    assert_nearest(nearest(x, y, price, near, k, metric), x, y, price, near, k, metric)


def along_a_curve(points):
    return points[np.argsort(points[:, 0])]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_finds_the_best_columns(metric, dtype, dims):
    rng = np.random.default_rng([METRICS.index(metric), dims])
    for n, m, k in ((41, 1100, 7), (21, 700, 3), (9, 65, 32), (5, 4096, 1), (3, 1, 1)):
        x, y = (along_a_curve(rng.random((size, dims))) for size in (n, m))
        if metric == "cosine":
            x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x - 0.5, y - 0.5))
        for price in (rng.random(m) * 0.01, (rng.random(m) + y[:, 0]).astype(np.float32)):
            check(x.astype(dtype), y.astype(dtype), price, k, metric)


def test_near_columns_save_time_alone():
    """The result does not depend on them: on far ones, absent ones, ones that come again."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((size, 2)).astype(np.float32) for size in (30, 600))
    price, k = rng.random(600), 4
    columns = distances(x, y, "sqeuclidean").argsort(axis=1)
    for near in (
        columns[:, :k],
        columns[:, -9:],
        np.full((30, k), -1),
        np.full((30, k), 2**31 - 1),
        np.full((30, k), 17),
        rng.integers(0, 600, (30, 6)),
    ):
        check(x, y, price, k, near=near)


def test_fewer_columns_than_are_asked_for():
    rng = np.random.default_rng(1)
    x, y = rng.random((5, 3)), rng.random((2, 3))
    check(x, y, np.zeros(2), 4, "l1", np.full((5, 4), -1))


@pytest.mark.parametrize("metric", METRICS[:3])
@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e15, 1e25])
def test_squares_out_of_range(metric, scale):
    """Of floats: squares are denormal, zero or infinite, and the costs may be, too."""
    rng = np.random.default_rng(2)
    x, y = ((rng.random((size, 2)) * scale).astype(np.float32) for size in (20, 560))
    check(x, y, np.zeros(560), 3, metric)
    check(x.astype(np.float64) ** 5, y.astype(np.float64) ** 5, np.zeros(560), 3, metric)


@pytest.mark.parametrize("metric", METRICS[:3])
def test_ties_and_equal_points(metric):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, (size, 2)).astype(np.float32) for size in (40, 1200))
    check(x, y, rng.integers(0, 2, 1200).astype(np.float64), 9, metric)
    check(x * 0, y * 0, np.zeros(1200), 9, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_and_prices_that_are_not_finite(metric, dtype):
    rng = np.random.default_rng(4)
    x, y = ((rng.random((size, 2)) - 0.5).astype(dtype) for size in (25, 900))
    x[rng.integers(0, 25, 6), rng.integers(0, 2, 6)] = [0, np.nan, np.inf, -np.inf, 0, np.nan]
    check(x, y, rng.random(900) * 1e6 + 1e9, 5, metric)
    for bad in (np.nan, np.inf, -np.inf):
        y[rng.integers(0, 900, 9), rng.integers(0, 2, 9)] = bad
        check(x, y, rng.random(900), 5, metric)
    price = rng.random(900)
    price[rng.integers(0, 900, 9)] = [np.nan, np.inf, -np.inf] * 3
    check(x, y, price, 5, metric)
    check(x, np.full_like(y, np.nan), price, 5, metric)


def test_a_batch_is_its_problems():
    rng = np.random.default_rng(5)
    x, y, price = rng.random((3, 70, 2)), rng.random((3, 90, 2)), rng.random((3, 90))
    near = rng.integers(0, 90, (3, 70, 5)).astype(np.int32)
    with jax.enable_x64(True):
        batched = jax.jit(jax.vmap(partial(nearest, k=5, metric="l1")))(x, y, price, near)
    for b in range(3):
        of_b = (a[b] for a in batched)
        assert_nearest(of_b, x[b], y[b], price[b], near[b], 5, "l1")


def test_the_order_of_points_saves_time_alone():
    rng = np.random.default_rng(6)
    x, y = (rng.normal(size=(size, 3)) for size in (50, 20_000))
    price = 0.3 * np.abs(y).sum(1)
    check(x, y, price, 8, near=np.zeros((50, 8), int))
    check(along_a_curve(x), along_a_curve(y), price, 8)
