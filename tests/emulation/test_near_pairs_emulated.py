"""The pairs of points within a radius, by the emulated CUDA kernel, against all pairs."""

from __future__ import annotations

import ctypes

import emulated
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64

from jaxmatch._assignment_points import near_pairs
from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.distances import directions


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
METRICS = ["sqeuclidean", "euclidean", "l1", "cosine"]
_ptr, _long = ctypes.c_void_p, ctypes.c_int64


class _Pairs(ctypes.Structure):
    """As in ffi/sparse_assignment/cuda/near_pairs.cuh."""

    _fields_ = [
        ("x", _ptr), ("y", _ptr), ("n", _long), ("m", _long), ("dims", _long),
        ("row_mask", _ptr), ("col_mask", _ptr), ("metric", ctypes.c_int),
        ("own_radius", ctypes.c_double), ("radius", _ptr), ("radius_dtype", ctypes.c_uint8),
        *((name, _ptr) for name in ("of_row", "strip", "first_coordinate", "col", "row_ptr")),
        ("capacity", _long),
        *((name, _ptr) for name in ("count", "col_ind", "cost")),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def library():
    return emulated.library("sparse_assignment")


def pairs_of(library, problem, metric, room=None, seed=0):
    """The counts of all rows, then rows, columns and costs of all pairs."""
    strips = near_pairs._strips(problem, metric)
    given = [np.asarray(a) for a in (problem.x, problem.y, problem.radius, *strips)]
    given = [emulated.guarded(np.ascontiguousarray(a)) for a in given]
    x, y, radius, *strips = given
    count = emulated.guarded(np.full(len(x), -7, np.int32))
    pairs = _Pairs(n=len(x), m=len(y), dims=x.shape[1], metric=METRICS.index(metric))
    pairs.radius_dtype = 2 if radius.dtype == np.float32 else 3
    fields = ("x", "y", "radius", *near_pairs.Strips._fields)
    for name, a in zip(fields, (x, y, radius, *strips), strict=True):
        setattr(pairs, name, a.ctypes.data)
    pairs.count = count.ctypes.data
    run = (x.dtype == np.float64, ctypes.byref(pairs), 3, ctypes.c_uint(seed))
    library.emulate_near_pairs(*run)
    total = int(count.sum())
    room = total if room is None else room
    row_ptr, fits = (np.asarray(a) for a in near_pairs._pointers(jnp.asarray(count), room))
    assert fits == (total <= room)
    row_ptr = emulated.guarded(np.concatenate([[0], count.cumsum()]).astype(np.int32))
    col_ind = emulated.guarded(np.full(room, -7, np.int32))
    cost = emulated.guarded(np.full(room, -7, x.dtype))
    pairs.row_ptr, pairs.capacity = row_ptr.ctypes.data, room
    pairs.col_ind, pairs.cost = col_ind.ctypes.data, cost.ctypes.data
    library.emulate_near_pairs(*run)
    return count, np.repeat(np.arange(len(x)), count)[:room], col_ind, cost


def distances(x, y, metric):
    """In float64, coordinate by coordinate."""
    total = np.zeros((len(x), len(y)))
    for k in range(x.shape[1]):
        a, b = x[:, None, k].astype(np.float64), y[None, :, k].astype(np.float64)
        total += {"l1": abs(a - b), "cosine": a * b}.get(metric, (a - b) ** 2)
    return np.sqrt(total) if metric == "euclidean" else 1 - total if metric == "cosine" else total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dims", [1, 2, 3, 5])
def test_all_pairs_within_the_radius(library, dims, metric, dtype):
    random = np.random.default_rng(dims)
    for seed, (n, m, radius, shift) in enumerate(
        [(90, 70, 0.3, 0), (40, 150, 0.05, 1e4), (70, 90, 30.0, 0), (50, 60, 0.0, 0), (1, 1, 1, 0)]
    ):
        x, y = (shift + random.normal(size=(k, dims)) for k in (n, m))
        x[:5], y[-5:] = 3 * shift + 50, -50
        k = min(n, m) // 4
        y[:k] = x[:k] + (random.integers(-1, 2, size=(k, dims)) * radius if metric == "l1" else 0)
        if dims == 1 and metric == "cosine":
            x, y = abs(x) + 0.1, y + 0.1
        radius = min(radius, 2.0) if metric == "cosine" else radius
        with x64(dtype == np.float64):
            points = [jnp.asarray(p.astype(dtype)) for p in (x, y)]
            if metric == "cosine":
                points = [directions(p) for p in points]
            masks = [jnp.asarray(random.random(k) < 0.9) for k in (n, m)]
            problem = NearProblem(*points, jnp.asarray(radius, dtype), *masks, None)
            count, rows, cols, cost = pairs_of(library, problem, metric, seed=seed)
        x, y, row_mask, col_mask = (np.asarray(a) for a in (*points, *masks))
        apart = distances(x, y, metric)
        limit = np.float64(dtype(radius))
        near = apart <= (limit**2 if metric == "sqeuclidean" else limit)
        near &= row_mask[:, None] & col_mask
        found = np.zeros_like(near)
        found[rows, cols] = True
        np.testing.assert_array_equal(found, near)
        np.testing.assert_array_equal(count, near.sum(1))
        np.testing.assert_array_equal(cost, apart[rows, cols].astype(dtype))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150, 1e300])
def test_squares_out_of_range(library, scale):
    random = np.random.default_rng(0)
    x, y = random.random((2, 60, 2)) * scale
    with x64(True):
        problem = NearProblem(*map(jnp.asarray, (x, y)), jnp.asarray(0.3 * scale), *[None] * 3)
        count, rows, cols, _ = pairs_of(library, problem, "sqeuclidean")
    near = distances(x / scale, y / scale, "euclidean") <= 0.3
    found = np.zeros_like(near)
    found[rows, cols] = True
    np.testing.assert_array_equal(found, near)


def test_pairs_without_room(library):
    random = np.random.default_rng(0)
    x, y = random.random((2, 50, 2)).astype(np.float32)
    radius = jnp.asarray(0.5, jnp.float32)
    problem = NearProblem(jnp.asarray(x), jnp.asarray(y), radius, *[None] * 3)
    count, _, cols, _ = pairs_of(library, problem, "euclidean", room=100)
    assert count.sum() > 100 and (cols >= 0).all()


def test_sums_beyond_31_bits_do_not_fit():
    for counts in ([1 << 30] * 2, [1 << 30] * 3, [1 << 30] * 4, [1 << 30] * 9):
        row_ptr, fits = near_pairs._pointers(jnp.asarray(counts, jnp.int32), 2**31 - 1)
        assert not fits and not row_ptr.any()
    row_ptr, fits = near_pairs._pointers(jnp.asarray([3, 0, 4], jnp.int32), 7)
    assert fits and row_ptr.tolist() == [0, 3, 3, 7]
