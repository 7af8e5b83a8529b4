"""The kernel for k best assignments, emulated on the CPU: threads take turns in a random order.

Whatever the order: the same bits, and the costs that the CPU finds.
"""

import ctypes

import emulated
import numpy as np
import pytest
from helpers import assert_same_bits, numpy_dtype, problem
from k_best_truth import assert_true

import jaxmatch as jm
from jaxmatch._ffi.sizes import size


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
_DTYPES = ["bfloat16", "float16", "float32", "float64", "int32", "int64"]
_ptr, _byte, _long = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64
_RESULTS = "col4row row4col value found row_dual col_dual gap status counts".split()


class _Problem(ctypes.Structure):
    """As in ffi/k_best/cpu/problem.h."""

    _fields_ = [
        ("cost", _ptr),
        ("cost_dtype", _byte),
        *((name, _long) for name in ("n", "m", "k")),
        ("maximize", ctypes.c_bool),
        *((name, _ptr) for name in ("row_mask", "col_mask")),
        ("result_dtype", _byte),
        *((name, _ptr) for name in _RESULTS),
    ]


@pytest.fixture(scope="session")
def library():
    return emulated.library("k_best")


def solve(library, cost, k, *, seed=0, shared=64 << 10, maximize=False, **masks):
    """A batch `[b, n, m]`, with float64 results; also the numbers of searches and of scans."""
    b, n, m = cost.shape
    bytes_of_one = 4 * size("k_best.workspace", n, m, k)
    shapes = [(k, n), (k, m), (k,), (), (n,), (m,), (), (), (2,)]
    index, real = np.int32, np.float64
    dtypes = [index, index, real, index, real, real, real, index, index]
    found = [np.full((b, *s), -7, d) for s, d in zip(shapes, dtypes, strict=True)]
    given = {"cost": cost, **masks}
    given = {name: emulated.guarded(np.ascontiguousarray(x)) for name, x in given.items()}
    first = _Problem(n=n, m=m, k=k, maximize=maximize)
    first.cost_dtype = _DTYPES.index(str(cost.dtype))
    first.result_dtype = _DTYPES.index("float64")
    for name, x in [*given.items(), *zip(_RESULTS, found, strict=True)]:
        setattr(first, name, x.ctypes.data)
    memory = emulated.guarded(np.full(b * bytes_of_one, 0xA5 if seed % 2 else 0xFF, np.uint8))
    library.emulate_k_best(
        ctypes.byref(first), _long(b), _ptr(memory.ctypes.data), _long(bytes_of_one),
        _long(shared), ctypes.c_uint(seed),
    )  # fmt: skip
    return jm.KBestAssignments(*found[:-1]), found[-1]


# Bytes of shared memory: everything fits, the state of searches fits, nothing does.
_ROOM = (64 << 10, 16 << 10, 0)


def assert_as_on_cpu(library, cost, k, *, seeds=(0, 1, 2), **given):
    """The costs that a CPU finds, and the same bits whatever the order of threads."""
    res, counts = solve(library, cost, k, seed=seeds[0], **given)
    for seed in seeds[1:]:
        again, same = solve(library, cost, k, seed=seed, shared=_ROOM[seed % 3], **given)
        assert_same_bits(again, res)
        assert (counts == same).all()
    for b in range(len(cost)):
        one = {name: x if name == "maximize" else x[b] for name, x in given.items()}
        on_cpu = jm.k_best_assignments(cost[b].astype(_wide(cost.dtype)), k, **one)
        for name in ("cost", "count", "gap", "status"):
            np.testing.assert_array_equal(getattr(res, name)[b], getattr(on_cpu, name))
        if on_cpu.status == jm.Status.OPTIMAL:
            check = jm.check_k_best(cost[b].astype(_wide(cost.dtype)), problem(res, b), **one)
            assert bool(check.valid) and float(check.gap) <= res.gap[b] + 1e-9
    return res, counts


def _wide(dtype):
    """The dtype that holds the same numbers, and whose results are float64."""
    return np.int64 if dtype.kind == "i" else np.float64


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (5, 3), (1, 1)], ids=str)
def test_all_of_small_problems(library, shape, dtype):
    random = np.random.default_rng(1)
    cost = random.integers(-9, 9, (2, *shape)).astype(numpy_dtype(dtype))
    res, _ = assert_as_on_cpu(library, cost, 70, maximize=shape == (2, 5))
    for b in range(2):
        assert_true(cost[b], problem(res, b), maximize=shape == (2, 5))


def test_masks_and_forbidden_pairs(library):
    random = np.random.default_rng(2)
    cost = random.integers(0, 4, (6, 5, 5)).astype(np.float32)
    cost[random.random(cost.shape) < 0.3] = np.inf
    rows, cols = random.random((2, 6, 5)) < 0.8
    rows[0], cols[1] = False, np.arange(5) < 2
    cost[~(rows[:, :, None] & cols[:, None])] = np.nan
    masks = {"row_mask": rows, "col_mask": cols}
    res, _ = assert_as_on_cpu(library, cost, 50, **masks)
    for b in range(6):
        assert_true(cost[b], problem(res, b), **{name: x[b] for name, x in masks.items()})


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_empty_shapes(library, shape):
    assert_as_on_cpu(library, np.zeros((2, *shape)), 3)


def test_failures(library):
    cost = np.ones((4, 3, 3))
    cost[0, 1, 1], cost[1, 2, 0], cost[2, :, :2] = np.nan, -np.inf, np.inf
    res, _ = assert_as_on_cpu(library, cost, 7)
    expected = ["INVALID_COST", "INVALID_COST", "INFEASIBLE", "OPTIMAL"]
    assert [jm.Status(int(x)).name for x in res.status] == expected
    whole = np.full((2, 2, 3), 2**56 // 3, np.int64)
    whole[1, 0, 0] += 1
    res, _ = assert_as_on_cpu(library, whole, 4)
    assert [jm.Status(int(x)).name for x in res.status] == ["OPTIMAL", "OVERFLOW"]


@pytest.mark.parametrize("k", [1, 2, 24])
def test_number_of_places(library, k):
    cost = np.random.default_rng(3).random((1, 9, 9)).astype(np.float32)
    assert_as_on_cpu(library, cost, k)


@pytest.mark.parametrize("shape", [(24, 24), (12, 40), (40, 12)], ids=str)
@pytest.mark.parametrize("kind", ["uniform", "ties", "points"])
def test_larger_problems(library, kind, shape):
    """More rows than warps, more columns than lanes; searches stay few."""
    random = np.random.default_rng(4)
    cost = random.random((1, *shape)).astype(np.float32)
    if kind == "ties":
        cost = random.integers(0, 5, cost.shape).astype(np.int32)
    if kind == "points":
        x, y = (random.random((size, 2)) for size in shape)
        cost = ((x[:, None] - y) ** 2).sum(-1)[None]
    _, counts = assert_as_on_cpu(library, cost, 30, seeds=(0, 1))
    assert 30 <= counts[0, 0] < 500


def test_costs_that_are_rounded_are_sorted(library):
    random = np.random.default_rng(5)
    cost = 1 + random.random((2, 4, 4)) * 2.0**-48
    res, _ = assert_as_on_cpu(library, cost, 24)
    assert (res.gap > 0).all()
    for b in range(2):
        assert_true(cost[b], problem(res, b))


@pytest.mark.parametrize("large", [1e9, 1e30, float(np.finfo(np.float64).max)])
def test_large_numbers(library, large):
    """They come last, and round nothing; the second problem needs one, the third several."""
    random = np.random.default_rng(6)
    cost = random.random((3, 4, 5))
    forbidden = random.random(cost.shape) < 0.4
    forbidden[1, 2] = forbidden[2, 1:] = True
    for numbers, maximize in ((np.where(forbidden, large, cost), False), (cost, True)):
        numbers = np.where(forbidden, -large, cost) if maximize else numbers
        res, _ = solve(library, numbers, 5, maximize=maximize)
        again, _ = solve(library, numbers, 5, seed=1, shared=0, maximize=maximize)
        assert_same_bits(again, res)
        assert (res.status == jm.Status.OPTIMAL).all() and (res.count == 5).all()
        for b in range(3):
            on_cpu = jm.k_best_assignments(numbers[b], 5, maximize=maximize)
            np.testing.assert_array_equal(res.col4row[b], on_cpu.col4row)
            np.testing.assert_array_equal(res.cost[b], on_cpu.cost)
            np.testing.assert_array_equal(res.row_dual[b], on_cpu.row_dual)
        assert res.gap[0] <= 1e-12
