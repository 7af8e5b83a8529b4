"""The kernel for an assignment that is sharded over devices, emulated on the CPU.

All blocks of a grid run at once, as in test_core_emulated.py; devices run one after another, and
NumPy exchanges what they say. Whatever the order, the grid, the room in shared memory and what
memory held before: the same bits as the CPU's threads give.
"""

import ctypes
import dataclasses

import emulated
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64
from scipy.optimize import linear_sum_assignment
from sharded_helpers import METHODS, SIDES, sharded
from test_core_emulated import KINDS, costs
from test_core_structured import moved_classes
from test_sharded_costs import beyond_the_grid

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES
from jaxmatch._assignment.native_sharded import DeviceState, empty_state
from jaxmatch._common.distances import METRICS, directions


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
RUBBISH = 0xAB  # in memory of which nothing is known: nothing is zero by luck
DTYPES = ["int32", "float32", "float64"]
# Words of Control in ffi/assignment/large/state.h.
PRICINGS, DENSE_STEPS, FLIP, COARSE = 4, 5, 25, 26
# Of Continuation and Step in ffi/assignment/large/sharded/state.h.
RELAY_STEP, HEAR_ZEROS, PLAY_ROUNDS, TAKE_LABELS = 89, 15, 21, 23
# By request: the places of the block in what is gathered and in what is kept.
BLOCKS = {"cores": (1, 2), "lists": (2, 3), "some": (3, 4), "few": (3, 4)}


@pytest.fixture(scope="session")
def library():
    loaded = emulated.library("sharded")
    return loaded


def at(x):
    return ctypes.c_void_p(None if x is None else x.ctypes.data)


def buffer(words, fill=RUBBISH):
    """Memory at a multiple of 256 bytes, as XLA's, with a wall behind it."""
    memory = np.full(4 * words + 512, fill, np.uint8)
    first = -memory.ctypes.data % 256
    return memory[first : first + 4 * words + 256]


def wall_stands(memory, fill=RUBBISH):
    return (memory[-256:] == fill).all()


class Device:
    """What one of them has: its part of the costs, and what it keeps from launch to launch."""

    def __init__(self, cost, sizes, n, m):
        self.cost = np.ascontiguousarray(cost)
        self.kept = [buffer(words) for words in sizes]
        self.next_steps, self.requests = set(), set()
        self.kept[0][: 4 * sizes[0]] = 0
        self.indices = [np.full(k, -7, np.int32) for k in (n, m, 1)]
        self.reals = [np.full(k, -7.0) for k in (1, n, m, 1)]

    def control(self, at):
        return int(self.kept[0].view(np.int32)[at])

    @property
    def result(self):
        (col4row, row4col, status), (value, row_dual, col_dual, gap) = self.indices, self.reals
        return jm.Assignment(col4row, row4col, value[0], row_dual, col_dual, gap[0], status[0])


def solve(library, cost, by, count, method, *, seed, grid=(2, 64), arcs=500, **given):
    """The devices, after the last launch. `points`: both sets of them, instead of costs."""
    rows, points = by == "row_axis", given.get("points")
    if points is None:
        others, dims, (n, m) = None, 0, cost.shape
        parts = np.split(cost, count, axis=0 if rows else 1)
    else:
        mine, others = (np.ascontiguousarray(x.T) for x in (points if rows else points[::-1]))
        dims, n, m = len(others), *map(len, points)
        parts = np.split(mine, count, axis=1)
    masks = [given.get(name) for name in ("row_mask", "col_mask")]
    masks = [None if x is None else np.ascontiguousarray(x, np.uint8) for x in masks]
    how = {"method": method, "rows": rows, "devices": count}
    masked = any(x is not None for x in masks)
    kept, _ = jax.eval_shape(lambda: empty_state(n, m, masked=masked, **how))
    sizes = [x.size for x in kept]
    maximize = ctypes.c_bool(given.get("maximize", False))
    metric = given.get("metric", "sqeuclidean").encode()
    name = {"core": "auction"}.get(method, method).encode()  # which may hold one
    devices = [Device(part, sizes, n, m) for part in parts]
    heard = [buffer(count * size) for size in (sizes[5], *sizes[2:5])]

    def hear(what, kept):
        for k, device in enumerate(devices):
            size = 4 * sizes[kept]
            heard[what][k * size : (k + 1) * size] = device.kept[kept][:size]

    random = np.random.default_rng(seed)
    for launch in range(100_000):
        for k in random.permutation(count):
            device = devices[k]
            device.kept[5] = buffer(sizes[5])  # the reduction buffer is not kept
            pointers = [
                (ctypes.c_void_p * len(x))(*(y.ctypes.data for y in x))
                for x in (heard, device.kept)
            ]
            library.emulate_sharded(
                *map(at, (device.cost, others)), ctypes.c_int64(dims), metric,
                ctypes.c_int64(DTYPES.index(str(device.cost.dtype))),
                ctypes.c_int64(n), ctypes.c_int64(m), *map(at, masks), maximize, name,
                ctypes.c_bool(rows), ctypes.c_int64(count), ctypes.c_int32(k), *pointers,
                ctypes.c_uint(seed + 97 * launch + int(k)), ctypes.c_uint(grid[0]),
                ctypes.c_int(grid[1]), ctypes.c_int(arcs),
                *map(at, (*device.indices, *device.reals)),
            )  # fmt: skip
            assert all(map(wall_stands, device.kept))
        states = [DeviceState(*(x.view(np.int32) for x in device.kept)) for device in devices]
        asked = {
            tuple(what for what in ("reduction", *BLOCKS) if state.requests(what))
            for state in states
        }
        assert len(asked) == 1, "they all ask for the same at the same time"
        request = asked.pop()
        for device in devices:
            device.next_steps.add(device.control(RELAY_STEP))
            device.requests.update(request)
        if all(state.done for state in states):
            assert not request
            return devices
        (request,) = request
        if request not in ("some", "few"):
            hear(0, 5)
        if request != "reduction":
            hear(*BLOCKS[request])
    raise AssertionError("this does not end")


def assert_as_on_cpu(library, cost, by, count, method, schedules, **given):
    """Returns what a device keeps, and the result."""
    with x64(True):
        expected = to_numpy(sharded(cost, by, count, method=method, **given))
    for schedule in schedules:
        devices = solve(library, cost, by, count, method, **schedule, **given)
        for device in devices:
            assert_same_bits(device.result, expected)
    return devices[0], expected


SCHEDULES = [
    {"seed": 1}, {"seed": 2, "grid": (1, 96), "arcs": 0},
    {"seed": 3, "grid": (3, 32), "arcs": 5000},
]  # fmt: skip
both_sides = pytest.mark.parametrize("by", SIDES)


@both_sides
@pytest.mark.parametrize("kind", KINDS)
def test_core_as_on_cpu(library, kind, by):
    for k, (shape, count) in enumerate([((8, 40), 4), ((21, 21), 3), ((40, 8), 2), ((4, 1040), 2)]):
        assert_as_on_cpu(library, costs(kind, *shape), by, count, "core", SCHEDULES[k % 3 :][:1])


@both_sides
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", METHODS)
def test_points_as_on_cpu(library, metric, method, by):
    random = np.random.default_rng(3)
    shape, dtype = ((6, 264), np.float64) if method == "core" else ((12, 20), np.float32)
    points = [random.normal(size=(k, 3)).astype(dtype) for k in shape]
    points[1][::7] = points[1][0]  # ties
    with x64(True):
        expected = to_numpy(
            jm.solve_assignment_points(
                *points, metric=metric, method=method, maximize=by == "col_axis"
            )
        )
        if metric == "cosine":
            points = [np.asarray(directions(jnp.asarray(x))) for x in points]
    how = {"points": points, "metric": metric, "maximize": by == "col_axis"}
    for device in solve(library, None, by, 2, method, **SCHEDULES[2], **how):
        np.testing.assert_allclose(device.result.cost, expected.cost, rtol=1e-6)
        if method == "core" and by == "col_axis":  # the longer side: one of several optima
            proof = jm.check_assignment_points(
                *how["points"], device.result, metric=metric, maximize=True
            )
            assert proof.optimal and device.result.gap <= 1e-9
            continue
        # What the caller gets is added up anew, to be differentiable.
        assert_same_bits(dataclasses.replace(device.result, cost=expected.cost), expected)


@both_sides
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["classical", "tree"])
def test_hungarian_as_on_cpu(library, kind, method, by):
    shape, count = ((8, 20), 4) if (by == "row_axis") == (method == "tree") else ((12, 12), 3)
    assert_as_on_cpu(library, costs(kind, *shape), by, count, method, SCHEDULES[count - 3 :][:1])


@both_sides
@pytest.mark.parametrize("method", ["classical", "tree"])
@pytest.mark.parametrize("zeros", [14, 15, 16, 32])
def test_lists_of_zeros(library, zeros, method, by):
    """A row's list has room for 15 zeros of all parts. With more devices exchange levels."""
    random = np.random.default_rng(zeros)
    side, every = 36, np.arange(36)
    cost = random.integers(1, 9, (side, side)).astype(np.int32)
    cost[every[:, None], (every[:, None] // 3 * 3 + np.arange(zeros)) % side] = 0
    device, expected = assert_as_on_cpu(library, cost, by, 4, method, SCHEDULES[:1])
    assert expected.cost == 0  # duals never move
    assert (HEAR_ZEROS in device.next_steps) == (zeros > 15)


@both_sides
@pytest.mark.parametrize("method", ["classical", "tree"])
def test_levels_between_dual_updates(library, method, by):
    """Rows have more zeros than a list has room for, and cannot all be matched along them."""
    random = np.random.default_rng(3)
    cost = random.integers(1, 4, (24, 40))
    cost[:, random.permutation(40)[:18]] = 0
    masks = {"row_mask": random.random(24) < 0.9, "col_mask": random.random(40) < 0.95}
    for dtype, given in [(np.int32, {}), (np.float32, masks)]:
        device, expected = assert_as_on_cpu(
            library, cost.astype(dtype), by, 4, method, SCHEDULES[1:2], **given
        )
        assert expected.cost > 0 and device.control(PRICINGS) > 0
        assert HEAR_ZEROS in device.next_steps


@both_sides
@pytest.mark.parametrize("method", METHODS)
def test_masks(library, method, by):
    random = np.random.default_rng(5)
    for shape, row_share, col_share in [((18, 24), 0.9, 0.4), ((24, 24), 0.5, 1), ((9, 9), 0, 0.5)]:
        cost = random.random(shape, np.float32)
        row_mask, col_mask = (
            random.random(shape[0]) < row_share,
            random.random(shape[1]) < col_share,
        )
        cost[~row_mask] = np.nan
        maximize = by == "col_axis"
        given = {"row_mask": row_mask, "col_mask": col_mask, "maximize": maximize}
        device, _ = assert_as_on_cpu(
            library, cost, by, 3, method, SCHEDULES[maximize:][:1], **given
        )
        turns = row_mask.sum() > col_mask.sum()
        assert device.control(FLIP) == turns or row_mask.sum() == col_mask.sum()


@both_sides
def test_every_schedule(library, by):
    """The same bits whatever the seed, the grid and the arcs that shared memory has room for."""
    for kind in ("tied", "wide exponents"):
        cost = costs(kind, 36, 48)  # more rows than threads of the first grid
        schedules = [
            {"seed": 10 * blocks + warps, "grid": (blocks, 32 * warps), "arcs": arcs}
            for blocks, warps, arcs in [(1, 1, 0), (2, 3, 70), (5, 1, 20), (2, 2, 5000)]
        ]
        assert_as_on_cpu(library, cost, by, 4, "core", schedules)


def one_class(easy, step, m):
    """Five rows and five good columns of one class, of which a core holds four; rows with a cheap
    column of their own; and a masked row."""
    random = np.random.default_rng(7)
    cost = random.integers(1000, 2000, (6 + easy, m)).astype(np.int32)
    cost[:5, np.arange(5) * step] = np.arange(5) + random.integers(0, 2, (5, 1))
    rest = np.setdiff1d(np.arange(m), np.arange(0, m, 16))
    cost[np.arange(easy) + 5, rest[:easy]] = 0
    return cost, {"row_mask": np.arange(6 + easy) < 5 + easy}


@both_sides
def test_classes_are_turned(library, by):
    """The next choice of candidates has the good columns in several classes. Two devices share the
    classes of divided columns. So few rows are free that there is no auction."""
    cost, given = one_class(60, 32 if by == "row_axis" else 16, 160)
    device, _ = assert_as_on_cpu(library, cost, by, 2, "core", SCHEDULES[:2], **given)
    assert device.control(PRICINGS) > 1 and device.control(DENSE_STEPS) == 0
    assert PLAY_ROUNDS not in device.next_steps


@both_sides
def test_auction(library, by):
    """With more columns than candidates, so that rows wait for new ones."""
    cost = FAMILIES["shifted clouds"](160, 1).astype(np.float32)
    for schedule in SCHEDULES[1:]:
        device, _ = assert_as_on_cpu(library, cost, by, 2, "core", [schedule])
        assert {PLAY_ROUNDS, TAKE_LABELS} <= device.next_steps
        assert {"cores", "some"} <= device.requests
    assert_as_on_cpu(library, costs("tied", 24, 24), by, 4, "core", SCHEDULES[:1])


@both_sides
def test_trees_take_over(library, by):
    """An auction of five rows leaves all of them to searches, and these to trees."""
    cost, given = one_class(0, 32, 160)
    if by == "col_axis":
        cost, given = cost.T.copy(), {"col_mask": given["row_mask"]}
    device, _ = assert_as_on_cpu(library, cost, by, 2, "core", SCHEDULES[2:], **given)
    assert device.control(DENSE_STEPS) > 0


@both_sides
def test_few_rows_in_classes(library, by):
    cost = moved_classes(45).astype(np.int32)
    cost = cost if by == "row_axis" else cost.T
    device, _ = assert_as_on_cpu(library, cost, by, 2, "core", SCHEDULES[2:])
    assert PLAY_ROUNDS in device.next_steps


@both_sides
@pytest.mark.parametrize("shape", [(40, 40), (20, 44)], ids=str)
def test_trees_find_out_that_there_is_no_assignment(library, shape, by):
    cost = costs("uniform", *shape)
    cost[: shape[0] // 2 + 2, shape[1] // 5 :] = np.inf
    _, expected = assert_as_on_cpu(library, cost, by, 4, "core", SCHEDULES[1:2])
    assert expected.status == jm.Status.INFEASIBLE


@both_sides
@pytest.mark.parametrize("method", METHODS)
def test_coarse_grid(library, method, by):
    """Prices that become too large for the grid: all begin again on a coarser one."""
    cost = beyond_the_grid()
    device, expected = assert_as_on_cpu(library, cost, by, 4, method, SCHEDULES[:1])
    assert device.control(COARSE) == 1 and expected.status == jm.Status.OPTIMAL


@both_sides
def test_denormal_doubles(library, by):
    whole = np.random.default_rng(6).integers(1, 2**20, (8, 12))
    _, expected = assert_as_on_cpu(library, whole * 5e-324, by, 4, "core", SCHEDULES[1:2])
    row, col = linear_sum_assignment(whole)
    assert expected.status == jm.Status.OPTIMAL and expected.gap == 0
    assert whole[row, expected.col4row].sum() == whole[row, col].sum()


@both_sides
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_invalid_costs(library, bad, by):
    cost = costs("uniform", 8, 12)
    cost[5, 9] = bad
    _, expected = assert_as_on_cpu(library, cost, by, 4, "core", SCHEDULES[:2])
    assert expected.status == jm.Status.INVALID_COST
