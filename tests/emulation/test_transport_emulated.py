"""The kernels for transport problems, emulated on the CPU: threads take turns in a random order.

Whatever the order: the same bits, and an optimum that the certificate proves.
"""

import ctypes

import emulated
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm
from jaxmatch._ffi.sizes import size


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
_DTYPES = ["bfloat16", "float16", "float32", "float64", "int32", "int64"]
_ptr, _byte, _long = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64
_RESULTS = ["rows", "cols", "mass", "value", "row_dual", "col_dual", "gap", "status", "counts"]


class _Problem(ctypes.Structure):
    """As in ffi/transport/cpu/problem.h."""

    _fields_ = [
        ("cost", _ptr),
        ("cost_dtype", _byte),
        *((name, _long) for name in ("n", "m")),
        ("maximize", ctypes.c_bool),
        *((name, _ptr) for name in ("supply", "demand")),
        *((name, _byte) for name in ("mass_dtype", "coarsest")),
        *((name, _ptr) for name in ("row_points", "col_points")),
        ("dims", _long),
        ("metric", ctypes.c_int),
        *((name, _ptr) for name in ("last_row", "last_col")),
        *((name, _ptr) for name in ("row_mask", "col_mask", "moved", "start_dual", "start_col")),
        ("result_dtype", _byte),
        *((name, _ptr) for name in _RESULTS),
    ]


@pytest.fixture(scope="session")
def library():
    loaded = emulated.library("transport")
    loaded.emulate_transport.restype = _long
    return loaded


def solve(
    library, cost, supply, demand, *, seed=0, blocks=1, one_warp=False, leaves=None,
    maximize=False, dims=0, metric=0, **optional,
):  # fmt: skip
    """A batch `[b, n, m]`, with float64 results; also the numbers of bids and of pivots.

    With `row_points` and `col_points` `cost` is a dtype alone. `one_warp`: the kernel for small
    problems comes first, and leaves `leaves` problems to the other one.
    """
    b, n, m = *supply.shape, demand.shape[-1]
    bytes_of_one = 4 * size("transport.workspace", n, m)
    entries = max(n + m - 1, 0)
    shapes = [(entries,)] * 3 + [(), (n,), (m,), (), (), (2,)]
    dtypes = [np.int32, np.int32, supply.dtype, *[np.float64] * 4, np.int32, np.int32]
    found = [np.full((b, *s), -7, d) for s, d in zip(shapes, dtypes, strict=True)]
    given = {"supply": supply, "demand": demand, **optional}
    given |= {} if isinstance(cost, type) else {"cost": cost}
    given = {name: emulated.guarded(np.ascontiguousarray(x)) for name, x in given.items()}
    problem = _Problem(n=n, m=m, maximize=maximize, dims=dims, metric=metric)
    problem.cost_dtype = _DTYPES.index(
        str(np.dtype(cost if isinstance(cost, type) else cost.dtype))
    )
    problem.mass_dtype = _DTYPES.index(str(supply.dtype))
    problem.coarsest = problem.mass_dtype
    problem.result_dtype = _DTYPES.index("float64")
    for name, x in [*given.items(), *zip(_RESULTS, found, strict=True)]:
        setattr(problem, name, x.ctypes.data)
    memory = emulated.guarded(np.full(b * bytes_of_one, 0xA5 if seed % 2 else 0xFF, np.uint8))
    left = library.emulate_transport(
        ctypes.byref(problem), _long(b), blocks, one_warp,
        _ptr(memory.ctypes.data), _long(bytes_of_one), ctypes.c_uint(seed),
    )  # fmt: skip
    assert leaves is None or left == leaves
    return jm.Transport(*found[:-1]), found[-1]


def assert_as_on_cpu(library, cost, supply, demand, **given):
    """The same optimum as on a CPU, proved, and the same bits whatever the order of threads."""
    shape = cost.shape[-2:]
    if max(shape) <= 128 and given.get("blocks", 1) == 1 and "one_warp" not in given:
        _assert_as_on_cpu(library, cost, supply, demand, one_warp=True, **given)
    return _assert_as_on_cpu(library, cost, supply, demand, **given)


def _assert_as_on_cpu(library, cost, supply, demand, *, seeds=(0, 1), **given):
    res, counts = solve(library, cost, supply, demand, seed=seeds[0], **given)
    for seed in seeds[1:]:
        again, same = solve(library, cost, supply, demand, seed=seed, **given)
        assert_same_bits(again, res)
        assert (counts == same).all()
    with x64(True):
        arrays = [jnp.asarray(x) for x in (cost, supply, demand)]
        masks = {name: jnp.asarray(x) for name, x in given.items() if "mask" in name}
        options = {"maximize": given.get("maximize", False), **masks}
        on_cpu = to_numpy(jm.solve_transport(*arrays, **options))
        check = jm.check_transport(*arrays, res, **options)
    solved = on_cpu.status == jm.Status.OPTIMAL
    assert (res.status == on_cpu.status).all()
    assert (np.asarray(check.valid) == solved).all()
    assert (np.asarray(check.gap)[solved] <= res.gap[solved] + 1e-9 * abs(res.cost[solved])).all()
    np.testing.assert_allclose(res.cost, on_cpu.cost, rtol=1e-12, atol=1e-12)
    return res, counts


def solve_in_one_warp(library, *arrays, **given):
    """As `assert_as_on_cpu`, in the kernel for small problems."""
    given = {"one_warp": True, "leaves": 0} | given
    return assert_as_on_cpu(library, *arrays, **given)


def integers(seed, batch, n, m, low=0, high=9):
    """Integer masses with equal totals, some of them 0."""
    random = np.random.default_rng(seed)
    supply = random.integers(low, high, (batch, n))
    demand = np.array([random.multinomial(x.sum(), np.ones(m) / m) for x in supply])
    return random, supply.astype(np.int32), demand.astype(np.int32)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (3, 9), (40, 7), (1, 1)], ids=str)
def test_dtypes(library, shape, dtype):
    random, supply, demand = integers(1, 2, *shape)
    cost = random.integers(-9, 9, (2, *shape)).astype(jnp.dtype(dtype))
    assert_as_on_cpu(library, cost, supply, demand, maximize=shape == (3, 9))


@pytest.mark.parametrize("dtype", _DTYPES[:-1])
@pytest.mark.parametrize(
    "shape", [(5, 5), (1, 1), (32, 32), (20, 50), (64, 3), (64, 64), (7, 128), (100, 90)], ids=str
)
def test_one_warp(library, shape, dtype):
    """Many plans cost the same: the one that is found is a forest all the same."""
    random, supply, demand = integers(31, 2, *shape, 1)
    cost = random.integers(-5, 5, (2, *shape)).astype(jnp.dtype(dtype))
    solve_in_one_warp(library, cost, supply, demand, maximize=shape == (20, 50))


@pytest.mark.parametrize("family", ["uniform", "20 clusters", "sphere to shape", "equal", "heavy"])
@pytest.mark.parametrize("masses", ["equal", "any"])
@pytest.mark.parametrize("n", [16, 33, 100])
def test_families_in_one_warp(library, n, masses, family):
    from benchmarks.assignment.families import FAMILIES

    random = np.random.default_rng(32)
    cost = {
        "equal": lambda: np.full((2, n, n), 0.7),
        "heavy": lambda: np.exp(3 * random.normal(size=(2, n, n))),
    }.get(family, lambda: np.stack([FAMILIES[family](n, s) for s in range(2)]))()
    if masses == "equal":
        supply = demand = np.full((2, n), 1 / n, np.float32)
    else:
        supply, demand = (random.dirichlet(np.ones(n), 2).astype(np.float32) for _ in range(2))
    _, counts = solve_in_one_warp(library, cost.astype(np.float32), supply, demand)
    assert (counts[:, 0] < 2 * n * n).all() and (counts[:, 1] == 0).all()


def test_masks_in_one_warp(library):
    """Masked costs are anything, and nodes without mass get duals that check."""
    random = np.random.default_rng(33)
    cost = random.random((4, 40, 24)).astype(np.float32)
    rows, cols = (random.random((4, k)) < 0.8 for k in (40, 24))
    supply = random.integers(0, 3, (4, 40)).astype(np.int32)
    demand = np.zeros((4, 24), np.int32)
    for k in range(4):
        at = np.flatnonzero(cols[k])[3:]
        demand[k, at] = random.multinomial(supply[k][rows[k]].sum(), np.ones(at.size) / at.size)
        cost[k][:, ~cols[k]], cost[k][~rows[k]] = np.nan, -np.inf
    masks = {"row_mask": rows, "col_mask": cols}
    _, counts = solve_in_one_warp(library, cost, supply, demand, **masks)
    zero = np.where(rows[:, :, None] & cols[:, None], cost, 0)
    _, same = solve_in_one_warp(library, zero, supply, demand, **masks)
    assert (counts == same).all()  # they do not disturb the ascent


def test_warm_starts_in_one_warp(library):
    """Duals of the optimum leave few searches, others cost time alone."""
    random = np.random.default_rng(34)
    cost = random.random((2, 40, 40)).astype(np.float32)
    supply, demand = (random.dirichlet(np.ones(40), 2) for _ in range(2))
    res, cold = solve(library, cost, supply, demand, one_warp=True)
    for start in (res.col_dual, res.col_dual[::-1].copy(), np.full((2, 40), np.nan)):
        _, counts = solve_in_one_warp(library, cost, supply, demand, start_dual=start)
        assert start is not res.col_dual or (counts[:, 0] < cold[:, 0]).all()


@pytest.mark.parametrize("n", [32, 64, 128])
def test_cycles_in_one_warp(library, n):
    """Ties give plans in which all rows may be on cycles. Whole costs have whole duals."""
    random = np.random.default_rng(37)
    for _ in range(24 // (n // 32) ** 2 + 1):
        cost = random.integers(0, 4, (8, n, n)).astype(np.float32)
        supply = random.integers(100, 200, (8, n)).astype(np.int32)
        demand = np.array([random.multinomial(x.sum(), np.ones(n) / n) for x in supply])
        demand = demand.astype(np.int32)
        start = np.zeros((8, n))
        res, _ = solve(library, cost, supply, demand, start_dual=start, one_warp=True, leaves=0)
        _assert_moves(res, supply, demand, 0)
        duals = res.row_dual[:, :, None] + res.col_dual[:, None]
        assert (duals == np.rint(duals)).all() and (duals <= cost).all()
        value = (res.row_dual * supply).sum(1) + (res.col_dual * demand).sum(1)
        np.testing.assert_array_equal(value, res.cost)


def test_levels_in_one_warp(library):
    """A level above those of rows and columns with mass does not coarsen the units."""
    random, supply, demand = integers(38, 2, 12, 12, 1)
    cost = random.random((2, 12, 12)).astype(np.float32)
    cost[:, :6] += 1e15  # every plan needs some
    supply[:, 11] = 0
    for k in range(2):
        demand[k] = random.multinomial(supply[k].sum(), np.ones(12) / 12)
    cost[:, 11] = 1e30
    assert_as_on_cpu(library, cost, supply, demand, one_warp=True)


def test_what_one_warp_leaves(library):
    """Forbidden pairs, levels of costs, masses of many scales, and problems without a plan."""
    random, supply, demand = integers(36, 6, 12, 12, 1)
    cost = random.random((6, 12, 12)).astype(np.float32)
    cost[0, 0, 0], cost[1, 2, 3], cost[2, 0, 1] = np.inf, 1e30, np.nan
    demand[3, 0] += 1
    supply[4] = demand[4] = 0
    assert_as_on_cpu(library, cost, supply, demand, one_warp=True, leaves=5)
    supply, demand = (10.0 ** -random.uniform(0, 36, (6, 12)) for _ in range(2))
    supply, demand = (x / x.sum(1, keepdims=True) for x in (supply, demand))
    res, _ = solve(library, abs(cost[:]), supply, demand, one_warp=True, leaves=6)
    assert (res.status[3:] == jm.Status.OPTIMAL).all()


@pytest.mark.parametrize("mass", [np.float32, np.float64])
def test_float_masses(library, mass):
    random = np.random.default_rng(2)
    cost = random.random((2, 50, 60)).astype(np.float32)
    supply, demand = (random.dirichlet(np.ones(k), 2).astype(mass) for k in (50, 60))
    supply[0, ::3] = 0
    supply[0] /= supply[0].sum()
    assert_as_on_cpu(library, cost, supply, demand)


def test_masks_and_forbidden_pairs(library):
    random, supply, demand = integers(3, 6, 12, 12)
    cost = random.integers(0, 9, (6, 12, 12)).astype(np.float32)
    cost[random.random(cost.shape) < 0.4] = np.inf
    cost[5, 0, 0], supply[4, 0] = np.nan, -1
    assert_as_on_cpu(library, cost, supply, demand)
    rows, cols = random.random((6, 12)) < 0.8, np.ones((6, 12), bool)
    supply[:, 0], rows[:, 0] = 3, True
    for k in range(6):
        demand[k] = random.multinomial(np.where(rows[k], supply[k], 0).sum(), np.ones(12) / 12)
    cost[~rows] = np.nan
    assert_as_on_cpu(library, cost, supply, demand, row_mask=rows, col_mask=cols)


def test_structured_costs(library):
    """Clusters, with more pivots than rows."""
    from benchmarks.assignment.families import FAMILIES

    random = np.random.default_rng(4)
    cost = FAMILIES["20 clusters"](90, 0).astype(np.float32)[None]
    supply, demand = (random.dirichlet(np.ones(90), 1) for _ in range(2))
    _, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(0, 1, 2))
    bids, pivots = counts[0]
    assert bids > 90 and 0 < pivots < 900


def test_heavy_tails(library):
    """Nearly all rows pay far less than the spread of the costs."""
    random = np.random.default_rng(6)
    cost = np.stack([np.exp(5 * random.normal(size=(60, 60))), random.random((60, 60)) ** 12])
    supply, demand = (random.dirichlet(np.ones(60), 2) for _ in range(2))
    _, counts = assert_as_on_cpu(library, cost, supply, demand)
    assert (counts[:, 1] < 200).all()


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("masses", ["equal", "any", "integers"])
@pytest.mark.parametrize("shape", [(200, 6), (96, 1), (6, 200), (1, 40)], ids=str)
def test_paths_among_columns(library, shape, masses, blocks):
    """Shortest paths among few columns, or few rows, leave no pivot."""
    random, supply, demand = integers(12, 2, *shape, 1)
    cost = random.random((2, *shape)).astype(np.float32)
    if masses == "equal":
        supply, demand = (np.full((2, k), 1 / k) for k in shape)
    elif masses == "any":
        supply, demand = (random.dirichlet(np.ones(k), 2) for k in shape)
    _, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(0, 1), blocks=blocks)
    assert (counts[:, 1] == 0).all()


@pytest.mark.parametrize("shape", [(560, 35), (70, 1120), (2100, 130)], ids=str)
def test_paths_among_more_columns_than_lanes(library, shape):
    random = np.random.default_rng(15)
    cost = random.random((1, *shape)).astype(np.float32)
    supply, demand = (random.dirichlet(np.ones(k), 1) for k in shape)
    _, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(1,), blocks=3)
    assert (counts[:, 1] == 0).all()


@pytest.mark.parametrize("family", ["uniform", "heavy", "clusters"])
def test_the_ascent_leaves_few_rows(library, family):
    """Its curvature makes it converge: without it, these take 50 searches and more."""
    random = np.random.default_rng(16)
    n, m = 3000, 12
    if family == "clusters":
        center = 3 * random.normal(size=(9, 8))
        x, y = (center[random.integers(0, 9, k)] + random.normal(size=(k, 8)) for k in (n, m))
        cost = ((x[:, None] - y) ** 2).sum(-1)
    else:
        cost = (
            np.exp(3 * random.normal(size=(n, m))) if family == "heavy" else random.random((n, m))
        )
    supply, demand = (random.dirichlet(np.ones(k), 1) for k in (n, m))
    cost = cost[None].astype(np.float32)
    _, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(0,))
    assert (counts[:, 0] < 20).all()


@pytest.mark.parametrize("kind", ["equal", "alike", "few values"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float64"])
def test_ties_of_few_columns(library, kind, dtype):
    """Rows that are alike go to different columns at once, in few searches."""
    random, supply, demand = integers(14, 2, 600, 4, 1)
    cost = {
        "equal": np.full((2, 600, 4), 3),
        "alike": np.tile(random.integers(0, 99, (2, 1, 4)), (1, 600, 1)),
        "few values": random.integers(0, 3, (2, 600, 4)),
    }[kind].astype(dtype)
    _, counts = assert_as_on_cpu(library, cost, supply, demand)
    assert (counts[:, 0] < 300).all()
    assert (counts[:, 1] == 0).all()


def test_masked_numbers_do_not_disturb_the_ascent(library):
    """It leaves few rows to move: without it there are 25 searches."""
    random = np.random.default_rng(17)
    cost = random.random((1, 400, 6)).astype(np.float32)
    mask = np.arange(6)[None] != 1
    supply = random.integers(1, 9, (1, 400)).astype(np.int32)
    demand = np.zeros((1, 6), np.int32)
    demand[mask] = random.multinomial(supply.sum(), np.ones(5) / 5)
    cost[..., 1] = np.nan
    _, counts = assert_as_on_cpu(library, cost, supply, demand, col_mask=mask)
    assert (counts[:, 0] < 12).all()


@pytest.mark.parametrize("shape", [(130, 6), (5, 90)], ids=str)
def test_few_columns_with_masks_and_forbidden_pairs(library, shape):
    """The bits do not depend on the number of blocks; masked costs are anything."""
    random = np.random.default_rng(17)
    cost = random.random((3, *shape)).astype(np.float32)
    cost[1][random.random(shape) < 0.3] = np.inf
    cost[2][random.random(shape) < 0.1] = 1e30
    rows, cols = (random.random((3, k)) < 0.8 for k in shape)
    supply, demand = (random.integers(1, 9, (3, k)).astype(np.int32) for k in shape)
    for k in range(3):
        total = supply[k][rows[k]].sum()
        demand[k][cols[k]] = random.multinomial(total, np.ones(cols[k].sum()) / cols[k].sum())
        cost[k][:, ~cols[k]], cost[k][~rows[k]] = np.nan, -np.inf
    given = {"row_mask": rows, "col_mask": cols}
    res, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(0, 1, 2), **given)
    assert (counts[0] < 60).all()
    again, same = solve(library, cost, supply, demand, blocks=3, seed=1, **given)
    assert_same_bits(again, res)
    assert (counts == same).all()


@pytest.mark.parametrize("kind", ["optimal", "any", "part", "forbidden"])
def test_given_plans(library, kind):
    """Equal masses begin with an assignment; a wrong one costs time alone."""
    random = np.random.default_rng(13)
    n = 40
    cost = random.random((2, n, n)).astype(np.float32)
    masses = np.full((2, n), 1 / n)
    best = jm.solve_assignment(cost)
    start = np.array(best.col4row)
    if kind != "optimal":
        start = np.stack([random.permutation(n) for _ in range(2)]).astype(np.int32)
    if kind == "part":
        start[:, 1::3] = -1
    if kind == "forbidden":
        cost[:, np.arange(n), start[0]] = np.inf
    given = {"start_col": start, "start_dual": np.array(best.col_dual, np.float64)}
    _, counts = assert_as_on_cpu(library, cost, masses, masses, seeds=(0, 1), **given)
    assert (counts[:, 0] == 0).all()
    assert kind != "optimal" or (counts[:, 1] == 0).all()


@pytest.mark.parametrize("most", [1, 9])
@pytest.mark.parametrize("few", [0, 5])
def test_many_bids_for_a_column(library, few, most):
    """Columns hold far more than lanes, or get far more bids than they hold."""
    random, supply, demand = integers(11, 2, 300, 3, 1, most + 1)
    cost = random.integers(0, 99, (2, 300, 20)).astype(np.int32)
    demand = np.concatenate([demand, np.zeros((2, 17), np.int32)], 1)
    if few:  # the rest goes to a column that costs more
        demand[:, 2] += demand[:, 0] - few
        demand[:, 0] = few
        cost[..., 2] += 50
    _, counts = assert_as_on_cpu(library, cost, supply, demand)
    assert (counts[:, 0] > 300).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(30, 20), (5, 150)], ids=str)
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "l1", "cosine"])
def test_points(library, metric, shape, dtype):
    """The bits of stored distances; a dummy row and a dummy column have stored costs."""
    random = np.random.default_rng(9)
    rows, cols = shape
    x, y = (random.normal(size=(2, k, 3)) for k in shape)
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=-1, keepdims=True) for p in (x, y))
    x, y = x.astype(dtype), y.astype(dtype)
    total = 0.0
    for k in range(3):
        near, far = x[:, :, None, k].astype(float), y[:, None, :, k].astype(float)
        term = {"l1": abs(near - far), "cosine": near * far}.get(metric, (near - far) ** 2)
        total = total + term
    cost = {"euclidean": np.sqrt(abs(total)), "cosine": 1 - total}.get(metric, total).astype(dtype)
    supply, demand = (random.dirichlet(np.ones(k + 1), 2) for k in shape)
    last_row = random.random((2, cols + 1)).astype(dtype)
    last_col = random.random((2, rows)).astype(dtype)
    cost = np.concatenate([cost, last_col[..., None]], -1)
    cost = np.concatenate([cost, last_row[:, None]], -2)
    points = {"row_points": x.swapaxes(1, 2), "col_points": y.swapaxes(1, 2)}
    at = ["sqeuclidean", "euclidean", "l1", "cosine"].index(metric)
    dummies = {"last_row": last_row, "last_col": last_col}
    options = {"dims": 3, "metric": at, **points, **dummies}
    for one_warp in (False, True) if max(cost.shape[1:]) <= 128 else (False,):
        kernel = {"one_warp": one_warp, "leaves": 0 if one_warp else None}
        expected, counts = solve(library, cost, supply, demand, **kernel)
        assert (expected.status == jm.Status.OPTIMAL).all()
        res, same = solve(library, dtype, supply, demand, seed=1, **options, **kernel)
        assert_same_bits(res, expected)
        assert (counts == same).all()


def test_many_holdings(library):
    """More holdings of a column than a warp has lanes."""
    random = np.random.default_rng(8)
    cost = random.random((2, 150, 12)).astype(np.float32)
    cost[1] = cost[1].argsort(1) + cost[1] / 99
    supply, demand = (random.dirichlet(np.ones(k), 2) for k in (150, 3))
    demand = np.concatenate([demand, np.zeros((2, 9))], 1)
    _, counts = assert_as_on_cpu(library, cost, supply, demand, seeds=(0, 1, 2))
    assert (counts[:, 0] > 150).all()


def test_dummies_do_not_set_the_scale(library):
    """Each row has a dummy column at cost 0. Bids as small as that would take 100 times as many."""
    random, (n, m) = np.random.default_rng(18), (90, 70)
    cost = np.zeros((1, n + 1, m + 1), np.float32)
    cost[:, :n, :m] = random.random((1, n, m))
    cost[:, n, m] = np.inf
    supply, demand = (
        np.append(random.dirichlet(np.ones(k)), 0)[None].astype(np.float32) for k in (n, m)
    )
    moved = np.full(1, 0.7, np.float32)
    res, counts = solve(library, cost, supply, demand, moved=moved)
    with x64(True):
        pairs = (jnp.asarray(x) for x in (cost[:, :n, :m], supply[:, :n], demand[:, :m]))
        expected = to_numpy(jm.solve_transport(*pairs, partial=moved))
    np.testing.assert_allclose(res.cost, expected.cost, rtol=1e-6)
    assert (res.status == jm.Status.OPTIMAL).all() and (counts[:, 0] < 20 * n).all()


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_duals_without_mass(library, turned, blocks):
    """The greatest ones that the duals of the other side allow."""
    random, supply, demand = integers(19, 1, 700, 9, 1)
    cost = random.random((1, 700, 9)).astype(np.float32)
    demand[:, [0, 4, 8]] = 0
    demand[:, 1] += supply.sum() - demand.sum()
    supply[:, -3:], supply[:, 5] = 0, supply[:, 5] + supply[:, -3:].sum()
    if turned:
        cost, supply, demand = cost.swapaxes(-1, -2), demand, supply
    res, _ = assert_as_on_cpu(library, cost, supply, demand, seeds=(0, 1), blocks=blocks)
    allowed = cost[0].astype(np.float64) - res.row_dual[0, :, None]
    free = demand[0] == 0
    np.testing.assert_allclose(res.col_dual[0, free], allowed[:, free].min(0), rtol=1e-12)


def test_teams_of_blocks(library):
    """The bits do not depend on the number of blocks."""
    from benchmarks.assignment.families import FAMILIES

    random = np.random.default_rng(6)
    cost = np.stack([FAMILIES["sphere to shape"](40, s) for s in range(2)]).astype(np.float32)
    supply, demand = (random.dirichlet(np.ones(40), 2) for _ in range(2))
    res, counts = solve(library, cost, supply, demand)
    assert (res.status == jm.Status.OPTIMAL).all() and (counts[:, 0] > 300).all()
    for blocks in (2, 3):
        again, same = solve(library, cost, supply, demand, blocks=blocks, seed=blocks)
        assert_same_bits(again, res)
        assert (counts == same).all()


def test_failures_of_teams(library):
    random, supply, demand = integers(7, 3, 6, 6, low=1)
    cost = random.random((3, 6, 6))
    demand[0, 0] += 1
    cost[1, 1, 1] = np.nan
    cost[2, :, 0], demand[2, 0] = np.inf, demand[2, 0] + 1
    supply[2, 0] += 1
    res, _ = solve(library, cost, supply, demand, blocks=2)
    expected = ["UNBALANCED", "INVALID_COST", "INFEASIBLE"]
    assert [jm.Status(int(x)).name for x in res.status] == expected


def test_failures(library):
    random, supply, demand = integers(5, 4, 6, 6, low=1)
    cost = random.random((4, 6, 6))
    demand[0, 0] += 1
    supply[1, 2] = -1
    cost[2, 1, 1] = -np.inf
    cost[3, :, 0], demand[3, 0] = np.inf, demand[3, 0] + 1
    supply[3, 0] += 1
    res, _ = assert_as_on_cpu(library, cost, supply, demand)
    expected = ["UNBALANCED", "INVALID_MASS", "INVALID_COST", "INFEASIBLE"]
    assert [jm.Status(int(x)).name for x in res.status] == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_large_numbers(library, dtype, blocks):
    """They act as +inf does; where some mass needs one, the rest is optimal."""
    random, supply, demand = integers(7, 4, 6, 9, low=1)
    cost = random.random((4, 6, 9)).astype(dtype)
    forbidden = random.random(cost.shape) < np.array([0.2, 0.4, 0.7, 0.9])[:, None, None]
    for large in (1e6, 1e18, float(np.finfo(dtype).max)):
        numbers = np.where(forbidden, large, cost).astype(dtype)
        res, _ = assert_as_on_cpu(library, numbers, supply, demand, blocks=blocks)
        infinite = np.where(forbidden, np.inf, cost).astype(dtype)
        want, _ = solve(library, infinite, supply, demand, blocks=blocks)
        solved = want.status == jm.Status.OPTIMAL
        assert (res.cost[solved] == want.cost[solved]).all() and solved.any()
        assert (res.gap[solved] <= want.gap[solved] + 1e-12).all()
        # A number that outweighs all others, and rounds none.
        moderate = np.where(forbidden, 1024, cost).astype(dtype)
        want, _ = solve(library, moderate, supply, demand, blocks=blocks)
        assert not solved.all()
        for b in range(4):
            parts = []
            for plan in (res, want):
                used = plan.rows[b] >= 0
                at = b, plan.rows[b][used], plan.cols[b][used]
                small = np.where(forbidden[at], 0, cost[at].astype(float))
                parts.append((small @ plan.mass[b][used], forbidden[at] @ plan.mass[b][used]))
            np.testing.assert_allclose(*parts, rtol=1e-12)


def _assert_moves(res, supply, demand, near):
    """Each row and column moves its mass."""
    for k, (rows, cols, mass) in enumerate(zip(res.rows, res.cols, res.mass, strict=True)):
        used = rows >= 0
        for index, wanted in ((rows, supply[k]), (cols, demand[k])):
            found = np.bincount(index[used], mass[used].astype(float), wanted.size)
            assert (found[wanted == 0] == 0).all()
            positive = wanted > 0
            assert (abs(found - wanted)[positive] <= near * wanted[positive].astype(float)).all()


@pytest.mark.parametrize("mass", [np.float32, np.float64])
def test_masses_far_below_the_total(library, mass):
    random = np.random.default_rng(12)
    cost = random.random((2, 24, 17)).astype(np.float32)
    least = 36 if mass == np.float32 else 200
    supply, demand = (10.0 ** -random.uniform(0, least, (2, k)) for k in (24, 17))
    supply, demand = ((x / x.sum(1, keepdims=True)).astype(mass) for x in (supply, demand))
    res, _ = solve(library, cost, supply, demand)
    assert (res.status == jm.Status.OPTIMAL).all()
    _assert_moves(res, supply, demand, 1e-12 if mass == np.float64 else 1e-6)
    for seed, blocks in ((1, 1), (2, 2)):
        assert_same_bits(solve(library, cost, supply, demand, seed=seed, blocks=blocks)[0], res)


def test_parts_that_forbidden_pairs_cut_off(library):
    """Each balances but for roundings; the third problem does not."""
    random = np.random.default_rng(13)
    cost, part = random.random((3, 20, 15)), (np.arange(20) % 3, np.arange(15) % 3)
    cost[:, part[0][:, None] != part[1]] = np.inf
    supply, demand = (random.random((3, k)) for k in (20, 15))
    for k in range(3):
        for p in range(3):
            own, other = part[0] == p, part[1] == p
            demand[k, other] *= supply[k, own].sum() / demand[k, other].sum()
    demand[2, :2] += np.array([0.1, -0.1]) * demand[2, :2].min()
    res, _ = solve(library, cost, supply, demand)
    assert res.status.tolist() == [0, 0, jm.Status.INFEASIBLE]
    _assert_moves(res[:2], supply[:2], demand[:2], 1e-12)
    assert_same_bits(solve(library, cost, supply, demand, seed=1, blocks=2)[0], res)


def test_the_gap_of_an_unbalanced_problem(library):
    cost, a, b = np.ones((1, 2, 2)), np.full((1, 2), 0.5), np.array([[0.5, 0.75]])
    res, _ = solve(library, cost, a, b)
    assert res.status == jm.Status.UNBALANCED and res.gap == 0.25
