"""The columns of least cost − price of each row, by the emulated CUDA kernel, against all pairs."""

from __future__ import annotations

import ctypes

import emulated
import numpy as np
import pytest
from nearest_truth import METRICS, assert_nearest, distances


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
_ptr, _long = ctypes.c_void_p, ctypes.c_int64


class _Problem(ctypes.Structure):
    """As in ffi/nearest/problem.h."""

    _fields_ = [
        *((name, _long) for name in ("n", "m", "dims", "known", "k")),
        ("metric", ctypes.c_int),
        ("dtype", ctypes.c_uint8),
        ("price_dtype", ctypes.c_uint8),
        *((name, _ptr) for name in ("x", "y", "price", "near")),
        *((name, _ptr) for name in ("col", "cost", "reduced", "known_cost")),
    ]


@pytest.fixture(scope="session")
def library():
    return emulated.library("sparse_assignment")


def found(library, x, y, price, near, k, metric, lanes, seed=0):
    """Arrays have a batch dimension. Returns columns, costs, reduced costs, costs of `near[0]`."""
    batch, n, dims = x.shape
    numbers = {np.dtype(np.float32): 2, np.dtype(np.float64): 3}
    p = _Problem(n=n, m=y.shape[1], dims=dims, known=near.shape[2], k=k)
    p.metric, p.dtype = METRICS.index(metric), numbers[x.dtype]
    p.price_dtype = numbers[price.dtype]
    given = {"x": x, "y": y, "price": price, "near": near.astype(np.int32)}
    results = {
        "col": np.full((batch, n, k), -7, np.int32),
        "cost": np.full((batch, n, k), np.nan, x.dtype),
        "reduced": np.full((batch, n), np.nan, price.dtype),
        "known_cost": np.full((batch, n), np.nan, x.dtype),
    }
    arrays = {name: emulated.guarded(np.ascontiguousarray(a)) for name, a in given.items()}
    arrays |= {name: emulated.guarded(a) for name, a in results.items()}
    for name, a in arrays.items():
        setattr(p, name, a.ctypes.data)
    library.emulate_nearest(ctypes.byref(p), _long(batch), lanes, ctypes.c_uint(seed))
    return tuple(arrays[name] for name in results)


def check(library, x, y, price, k, metric, lanes, near=None, seed=0):
    if near is None:
        near = np.arange(k) + np.zeros((len(x), 1), int)
    out = found(library, x[None], y[None], price[None], near[None], k, metric, lanes, seed)
    assert_nearest((a[0] for a in out), x, y, price, near, k, metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_finds_the_best_columns(library, metric, dtype, dims):
    rng = np.random.default_rng([METRICS.index(metric), dims])
    for lanes, n, m, k in ((8, 41, 1100, 7), (32, 21, 700, 3)):
        x, y = (np.sort(rng.random((size, dims)), axis=0) for size in (n, m))
        if metric == "cosine":
            x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x - 0.5, y - 0.5))
        price = rng.random(m) * 0.01
        check(library, x.astype(dtype), y.astype(dtype), price, k, metric, lanes)


def test_near_columns_save_time_alone(library):
    """The result does not depend on them: on far ones, absent ones, or more than k."""
    rng = np.random.default_rng(0)
    x, y = (rng.random((size, 2)).astype(np.float32) for size in (30, 600))
    price, k = rng.random(600), 4
    columns = distances(x, y, "sqeuclidean").argsort(axis=1)
    for near in (
        columns[:, :k],
        columns[:, -9:],
        np.full((30, k), -1),
        np.full((30, k), 2**31 - 1),
        rng.integers(0, 600, (30, 6)),
    ):
        check(library, x, y, price, k, "sqeuclidean", 8, near)


def test_fewer_columns_than_are_asked_for(library):
    rng = np.random.default_rng(1)
    x, y = rng.random((5, 3)), rng.random((2, 3))
    near = np.zeros((5, 4), int)
    near[:, 1:] = -1
    check(library, x, y, np.zeros(2), 4, "l1", 32, near)


@pytest.mark.parametrize("metric", METRICS[:3])
@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e15, 1e25])
def test_squares_out_of_range(library, metric, scale):
    """Of floats: squares are denormal, zero or infinite, and the costs may be, too."""
    rng = np.random.default_rng(2)
    x, y = ((rng.random((size, 2)) * scale).astype(np.float32) for size in (20, 560))
    check(library, x, y, np.zeros(560), 3, metric, 8)


def test_ties_and_equal_points(library):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, (size, 2)).astype(np.float32) for size in (40, 1200))
    for lanes in (8, 32):
        check(library, x, y, rng.integers(0, 2, 1200).astype(np.float64), 9, "sqeuclidean", lanes)


def test_large_prices_and_points_that_are_not_finite(library):
    rng = np.random.default_rng(4)
    x, y = (rng.random((size, 2)).astype(np.float32) for size in (20, 900))
    price = rng.random(900) * 1e6 + 1e9
    price[5] = -np.inf
    check(library, x, y, price, 5, "sqeuclidean", 8)
    y[7, 1], y[600, 0] = np.nan, np.inf
    check(library, x, y, price.astype(np.float32), 5, "sqeuclidean", 8)


def test_a_batch_is_its_problems(library):
    rng = np.random.default_rng(5)
    x, y, price = rng.random((3, 70, 2)), rng.random((3, 90, 2)), rng.random((3, 90))
    near = rng.integers(0, 90, (3, 70, 5))
    all_of = found(library, x, y, price, near, 5, "l1", 8)
    for b in range(3):
        one = (a[b : b + 1] for a in (x, y, price, near))
        for mine, of_all in zip(found(library, *one, 5, "l1", 8, seed=1), all_of, strict=True):
            assert np.array_equal(mine[0], of_all[b])
