"""The CUDA kernels, emulated on the CPU: their logic and their synchronisation, without a GPU.

Threads take turns in a random order, so that two seeds differ where a race decides.
"""

import emulated
import jax
import numpy as np
import pytest
from extreme_helpers import Kind, judge, problems
from helpers import assert_same_bits, numpy_dtype, x64
from scipy.optimize import linear_sum_assignment
from test_assignment_families import batch, families, hidden

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")


def assert_agree(costs, kernel, *, wide=False, in_workspace=False, exact=False, **given):
    """As the CPU solver, whatever the order of the threads; bits where nothing was rounded."""
    how = {"kernel": kernel, "wide": wide, "in_workspace": in_workspace}
    first, second = (emulated.solve(costs, seed=s, **how, **given) for s in (1, 2))
    assert_same_bits(first, second)
    with x64(wide):
        cpu = jax.tree.map(np.asarray, jm.solve_assignment(costs, **given))
    np.testing.assert_array_equal(first.status, cpu.status)
    solved = cpu.status == jm.Status.OPTIMAL
    unrounded = solved & (first.gap == 0) & (cpu.gap == 0)
    np.testing.assert_array_equal(first.cost[unrounded], cpu.cost[unrounded])
    rounded = solved & ~unrounded & np.isfinite(cpu.cost)
    eps = np.finfo(first.cost.dtype).eps
    apart = np.abs(first.cost[rounded].astype(np.float64) - cpu.cost[rounded])
    assert (apart <= (first.gap + cpu.gap + 4 * eps * np.abs(cpu.cost))[rounded]).all()
    if exact:
        assert (first.gap[solved] == 0).all()
    with x64(wide):
        masks = {k: x for k, x in given.items() if k in ("row_mask", "col_mask", "unmatched_cost")}
        maximize = given.get("maximize", False)
        check = jm.check_assignment(costs, first, maximize=maximize, **masks)
    assert np.asarray(check.valid)[solved].all()
    # What the duals prove, as far as their dtype and XLA's denormals let them.
    if solved.any() and min(costs.shape[1:]):
        with np.errstate(over="ignore", invalid="ignore"):
            duals = np.abs(first.col_dual).max(-1) + np.abs(first.row_dual).max(-1)
            most = first.gap + 4 * sum(costs.shape[1:]) * eps * duals
        proved = solved & np.isfinite(most)
        assert (np.asarray(check.gap) <= most + hidden(costs, wide))[proved].all()
    return first


KERNELS = [
    *(("", shape) for shape in [(4, 1, 1), (3, 8, 8), (3, 7, 20), (2, 40, 9), (2, 64, 64)]),
    *(("", shape) for shape in [(2, 100, 100), (1, 20, 100), (1, 100, 20)]),
    *(("block", shape) for shape in [(2, 5, 5), (2, 33, 33), (1, 100, 20), (1, 130, 140)]),
    *(("block", shape) for shape in [(1, 200, 200), (1, 60, 300), (1, 300, 60), (1, 520, 40)]),
]


@pytest.mark.parametrize("most", [3, 10**3, 2**24 - 1], ids=str)
@pytest.mark.parametrize("kernel, shape", KERNELS, ids=str)
def test_kernels(kernel, shape, most):
    """Many ties, few ties, and as many digits as float32 has."""
    costs = np.random.default_rng(shape).integers(0, most + 1, shape).astype(np.float32)
    assert_agree(costs, kernel, exact=True)


SHAPES_OF_FEATURES = [
    *(("", shape) for shape in [(3, 9, 6), (2, 37, 37)]),
    *(("block", shape) for shape in [(2, 24, 40), (1, 140, 50), (2, 50, 50)]),
]
GIVEN = ["", "maximize", "masks", "unmatched", "masks unmatched", "warm"]
DTYPES_OF_FEATURES = ["bfloat16", "float32", "int32", "float64", "int64"]


@pytest.mark.parametrize("in_workspace", [False, True])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dtype", DTYPES_OF_FEATURES)
def test_features(dtype, given, in_workspace):
    """On each kernel; shapes in turn, so that every dtype and every argument comes with all."""
    rng = np.random.default_rng(len(given))
    turn = DTYPES_OF_FEATURES.index(dtype) + GIVEN.index(given)
    for kernel in ("", "block"):
        shapes = [shape for of, shape in SHAPES_OF_FEATURES if of == kernel]
        shape = shapes[turn % len(shapes)]
        b, n, m = shape
        costs = rng.normal(size=shape) * 9
        costs[0] = np.round(costs[0])  # ties
        costs = costs.astype(numpy_dtype(dtype))
        args = {"maximize": "maximize" in given}
        if "masks" in given:
            args |= {"row_mask": rng.random((b, n)) < 0.7, "col_mask": rng.random((b, m)) < 0.6}
        if "unmatched" in given:
            integral = dtype.startswith("int")
            args["unmatched_cost"] = np.full((b, n), -2, np.int32 if integral else np.float32)
            if not integral:
                args["unmatched_cost"][:, ::5] = np.inf
        if "warm" in given:
            args["warm_start"] = rng.normal(size=(b, m)).astype(np.float32)
        wide = dtype in ("float64", "int64")
        assert_agree(costs, kernel, wide=wide, in_workspace=in_workspace, **args)


@pytest.mark.parametrize("shape", [(20, 20), (12, 35), (35, 12)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int32", "float64", "int64"])
def test_families(dtype, shape):
    exact, spread = families(dtype)
    wide = dtype in ("float64", "int64")
    for family, is_exact in ((exact, True), (spread, False)):
        if family:
            costs = batch(family, dtype, shape, False)
            assert_agree(costs, "", wide=wide, exact=is_exact)


def one_of_each_status(n):
    """Costs that end in different ways, and how."""
    costs = np.random.default_rng(7).random((6, n, n)).astype(np.float32)
    costs[1, n // 2] = np.inf
    costs[2, 0, 0] = np.nan
    costs[3, 1, 2] = -np.inf
    costs[4, :, n - 1] = np.inf
    expected = [jm.Status.OPTIMAL, jm.Status.INFEASIBLE, jm.Status.INVALID_COST]
    return costs, [*expected, jm.Status.INVALID_COST, jm.Status.INFEASIBLE, jm.Status.OPTIMAL]


@pytest.mark.parametrize("kernel, n", [("", 3), ("", 40), ("block", 40), ("block", 150)])
def test_statuses(kernel, n):
    costs, expected = one_of_each_status(n)
    assert assert_agree(costs, kernel).status.tolist() == expected
    tied = np.where(np.isfinite(costs), np.round(3 * costs), costs)  # the stage for ties
    assert assert_agree(tied, kernel).status.tolist() == expected


EDGES = {
    "a leave that only 64 bits hold": ("int32", [[1, 2], [3, 4]], 1e16),
    "a bid without a second choice, too wide for float32": (
        "float32",
        [[-16777215, 0, np.inf], [16777216, np.inf, np.inf], [np.inf, np.inf, -16777216]],
        None,
    ),
    "a dual one unit too wide for float32": ("int32", [[-16777216, 1], [-16777116, 0]], None),
    "a unit below float32": ("float32", [[0.0]], -(2.0**-200)),
    "more rows leave than the sums were checked for": ("int64", [[0]] * 16, 2**60),
    "the largest sum that is no overflow": ("int64", [[0] * 3] * 3, 768614336404564650),
    "no column": ("int64", np.zeros((3, 0)), 2**61),
    "a leave beyond any sum, and no column": ("int32", np.zeros((3, 0)), 1e308),
    "a tie for float32 but not for int32": ("int32", [[2**30 + 60, 10], [2**30, 0]], None),
    "a tie for float64 but not for int64": ("int64", [[2**59 + 60, 10], [2**59, 0]], None),
    "huge and denormal": ("float64", [[1.7e308, 5e-324], [5e-324, 1.7e308]], None),
}


@pytest.mark.parametrize("kernel", ["", "block"])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name, kernel):
    dtype, costs, leave = EDGES[name]
    costs = np.asarray(costs).astype(dtype)[None]
    given = {} if leave is None else {"unmatched_cost": np.full((1, costs.shape[1]), leave)}
    assert_agree(costs, kernel, wide=True, **given)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int64"])
@pytest.mark.parametrize("leave", [None, 0.5])
def test_masks_that_hide_everything(dtype, leave):
    costs = np.ones((4, 5, 4)).astype(numpy_dtype(dtype))
    row_mask, col_mask = np.ones((4, 5), bool), np.zeros((4, 4), bool)
    row_mask[1, ::2] = row_mask[2] = False
    col_mask[3] = True
    row_mask[3] = False
    given = {"row_mask": row_mask, "col_mask": col_mask, "wide": dtype == "int64"}
    if leave is not None:
        given["unmatched_cost"] = np.full((4, 5), 1 if dtype == "int64" else leave)
    for kernel in ("", "block"):
        assert_agree(costs, kernel, **given)


@pytest.mark.parametrize("shape", [(3, 64, 128), (1, 8, 60), (1, 200, 400)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_beyond_the_costs_is_read(dtype, shape):
    """A mask that leaves the end of each row; behind the costs nothing can be read."""
    b, n, m = shape
    costs = np.random.default_rng(3).random(shape).astype(dtype)
    for first in (m // 2, m // 4 + 2, m - 5, 0):
        mask = np.broadcast_to(np.arange(m) >= first, (b, m))
        for kernel in ("", "block"):
            how = {"wide": dtype == "float64", "in_workspace": n > 100}
            assert_agree(costs, kernel, col_mask=mask, **how)


# Where copies in shared memory are largest.
SHAPES_TO_FIT = [(1000, 1000), (768, 8), (1536, 4), (400, 30), (200, 60), (100, 100), (50, 300)]


@pytest.mark.parametrize(
    "gpu, most_bytes, longest, shortest",
    [
        ("H100", 232_448, 4096, 2048),
        ("A100", 166_912, 3000, 1500),
        ("consumer", 101_376, 1900, 950),
    ],
)
def test_sides_that_are_promised_fit(gpu, most_bytes, longest, shortest):
    """`shortest` is the side for int64."""
    for dtype in ("bfloat16", "float32", "float64", "int32", "int64"):
        side = shortest if dtype == "int64" else longest
        for given in ([], ["row_mask", "col_mask"], ["row_mask", "col_mask", "unmatched_cost"]):
            for shape in (*((side, m) for m in (side, 30, 128)), (30, side), *SHAPES_TO_FIT):
                if max(shape) <= side:
                    asked = emulated.plan(shape, most_bytes, dtype=dtype, given=given)
                    assert asked <= most_bytes, (dtype, given, shape, asked)


@pytest.mark.parametrize("kernel", ["", "block"])
@pytest.mark.parametrize("dtype, wide", [("float64", True), ("float32", False), ("bfloat16", True)])
def test_hostile_numbers(kernel, dtype, wide):
    """Costs and duals to start from, up to the ends of their dtype."""

    def solve(kind, given):
        rest = {name: x for name, x in given.items() if name != "cost"}
        how = {"kernel": kernel, "wide": wide, "maximize": kind.maximize}
        return emulated.solve(given["cost"], **how, **rest)

    for kind in [
        Kind("", dtype, wide, (3, 3), warm=True),
        Kind("", dtype, wide, (4, 2), maximize=True, masks=True),
        Kind("", dtype, wide, (3, 4), unmatched=True),
    ]:
        judge(kind, problems(kind, 60, seed=2), solve)


AUCTIONS = [  # rows, columns, what is given
    (70, 70, ""),
    (130, 130, "maximize"),
    (70, 70, "masks"),
    (69, 70, ""),
    (90, 130, "maximize"),
    (130, 80, ""),
    (80, 82, "few rows"),
    (82, 80, "few columns"),
    (80, 84, "few columns"),  # fewer than rows
    (70, 70, "unmatched"),
    (60, 90, "unmatched maximize"),
    (90, 60, "unmatched few rows"),
]


@pytest.mark.parametrize("n, m, given", AUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES_OF_FEATURES)
def test_auction(dtype, n, m, given):
    """Prices of an auction change nothing but the way to the optimum, and the pairs of ties."""
    rng = np.random.default_rng(len(given))
    longest = max(n, m)
    costs = np.stack(
        [FAMILIES[name](longest, 3) for name in ("20 clusters", "sphere to shape", "near")]
    )[:, :n, :m]
    costs = (costs * 1e5 if dtype.startswith("int") else costs).astype(numpy_dtype(dtype))
    args = {"maximize": "maximize" in given}
    if "masks" in given:  # as many rows as columns
        for mask in ("row_mask", "col_mask"):
            args[mask] = np.stack([rng.permutation(n) < 50 for _ in costs])
    if "few rows" in given:
        args["row_mask"] = rng.random((3, n)) < 0.8
    if "few columns" in given:
        args["col_mask"] = rng.random((3, m)) < 0.9
    if "unmatched" in given:  # some rows pay more than for a column, and some must be matched
        typical = np.median(costs.astype(np.float64), (1, 2))[:, None]
        args["unmatched_cost"] = (rng.random((3, n)) * typical).astype(numpy_dtype(dtype))
        if costs.dtype.kind != "i":
            args["unmatched_cost"][:, :3] = -np.inf if args["maximize"] else np.inf
    if costs.dtype.kind != "i":
        rows, cols = (args.get(f"{k}_mask", np.array([[True]])) for k in ("row", "col"))
        costs = np.where(rows[..., None] & cols[:, None], costs, costs.dtype.type(np.nan))
    wide = dtype in ("float64", "int64")
    assert_agree(costs, "block,auction", wide=wide, in_workspace=True, **args)


@pytest.mark.parametrize("n, m, given", [(70, 70, ""), (66, 72, ""), (60, 66, "unmatched")])
def test_auction_on_wide_integers(n, m, given):
    """128-bit integers decide."""
    costs = np.stack([FAMILIES[name](72, 3) for name in ("20 clusters", "shifted clouds")])
    costs = (costs[:, :n, :m] * 2**47).astype(np.int64)
    args = {"unmatched_cost": np.full((2, n), np.median(costs), np.int64)} if given else {}
    assert_agree(costs, "block,auction", wide=True, in_workspace=True, exact=True, **args)


@pytest.mark.parametrize("hidden", ["row_mask", "col_mask"])
@pytest.mark.parametrize("leave", [0.5, np.inf])
def test_auction_where_masks_hide_everything(hidden, leave):
    """In one problem of two, of which all others' rows may stay unmatched."""
    costs = FAMILIES["20 clusters"](70, 3).astype(np.float32)[None].repeat(2, 0)
    mask = np.ones((2, 70), bool)
    mask[1] = False
    args = {hidden: mask, "unmatched_cost": np.full((2, 70), leave, np.float32)}
    res = assert_agree(costs, "block,auction", in_workspace=True, **args)
    solved = hidden == "row_mask" or leave < np.inf
    assert res.status[1] == (jm.Status.OPTIMAL if solved else jm.Status.INFEASIBLE)


def test_unmatched_costs_do_not_set_the_scale_of_an_auction():
    costs = FAMILIES["20 clusters"](128, 5).astype(np.float32)[None]
    prices, _ = emulated.auction(costs)
    far, _ = emulated.auction(costs, unmatched_cost=np.full((1, 128), 1e6))
    far, prices = far - far.max(), prices - prices.max()
    np.testing.assert_allclose(far, prices, atol=0.1 * np.ptp(prices))


def test_pairs_of_an_auction():
    """They are distinct, nearly all there, and nearly the best for their rows at its prices."""
    n = 200
    costs = FAMILIES["shifted clouds"](n, 5).astype(np.float32)
    prices, pairs = (x[0] for x in emulated.auction(costs[None], pairs=True))
    rows = np.flatnonzero(pairs >= 0)
    assert len(rows) >= n - 4 and len(set(pairs[rows])) == len(rows)
    reduced = costs.astype(np.float64) - prices
    pays = reduced[rows, pairs[rows]] - reduced[rows].min(-1)
    assert pays.max() <= 4e-6 * np.ptp(costs)


@pytest.mark.parametrize("n, m, given", [(256, 256, ""), (255, 256, ""), (256, 230, "unmatched")])
@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "cube 3-D", "uniform"])
def test_rounds_of_an_auction(family, n, m, given):
    """Far fewer than the n^2 steps that searches take on such costs."""
    costs = FAMILIES[family](max(n, m), 5).astype(np.float32)[None, :n, :m]
    args = {"unmatched_cost": np.full((1, n), np.median(costs), "f4")} if given else {}
    prices, counts = emulated.auction(costs, seed=1, **args)
    again, _ = emulated.auction(costs, seed=2, **args)
    np.testing.assert_array_equal(prices, again)
    rounds, scanned = counts[0]
    assert rounds < 4 * n and scanned < 90 * n


def heavy_tailed(family, n):
    random = np.random.default_rng(8)
    if family == "exp(3 N)":
        return np.exp(3 * random.normal(size=(n, n)))
    if family == "u^4":
        return random.random((n, n)) ** 4
    costs = FAMILIES["20 clusters"](n, 5)
    return np.where(random.random((n, n)) < 0.02, 1e7 * np.ptp(costs), costs)


@pytest.mark.parametrize("family", ["exp(3 N)", "u^4", "clusters with far outliers"])
def test_prices_of_an_auction_on_costs_with_a_heavy_tail(family):
    """They prove half of the optimum, although the spread of the costs is 10^4 to 10^8 times it.

    The other half are the last few rows, which searches match.
    """
    n = 160
    costs = heavy_tailed(family, n).astype(np.float32)
    prices, pairs = (x[0].astype(np.float64) for x in emulated.auction(costs[None], pairs=True))
    bound = (costs - prices).min(-1).sum() + prices.sum()
    optimum = costs[linear_sum_assignment(costs)].sum(dtype=np.float64)
    assert 0.5 * optimum <= bound <= optimum * (1 + 1e-6)
    assert (pairs >= 0).sum() >= n - 4


def test_auction_is_not_held_where_few_pairs_are_of_use():
    """Searches are short there."""
    costs = FAMILIES["20 clusters"](256, 5).astype(np.float32)[None]
    low = np.full((1, 256), 3 * np.median(costs.min(-1)), np.float32)
    prices, _ = emulated.auction(costs, unmatched_cost=low, always=False)
    assert np.isnan(prices).all()
    prices, _ = emulated.auction(costs, unmatched_cost=100 * low, always=False)
    assert not np.isnan(prices).any()


def test_auction_on_infeasible_costs():
    costs = np.random.default_rng(0).random((2, 64, 64)).astype(np.float32)
    costs[0, :20, 19:] = np.inf
    costs[1, 5] = np.inf
    assert assert_agree(costs, "block,auction").status.tolist() == [jm.Status.INFEASIBLE] * 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value, is_held", [(1e6, True), (1e30, False)])
def test_auction_is_not_held_at_the_scale_of_big_m(value, is_held, dtype):
    """1e30 in place of infinity would leave nothing of the other costs in its duals."""
    random = np.random.default_rng(6)
    costs = FAMILIES["sphere to shape"](70, 3).astype(dtype)[None]
    big = random.random(costs.shape) < 0.5
    big[0, np.arange(70), random.permutation(70)] = False
    costs = np.where(big, costs.dtype.type(value), costs)
    prices, _ = emulated.auction(costs, seed=1)
    assert np.isnan(prices).all() != is_held
    res = assert_agree(costs, "block,auction", wide=dtype == "float64")
    assert res.gap[0] <= 1e-9 * res.cost[0]


def test_auction_is_not_held_for_ties_or_constants():
    costs = np.random.default_rng(0).integers(0, 9, (2, 64, 64)).astype(np.float32)
    costs[1] = 7
    prices, _ = emulated.auction(costs, seed=1)
    assert np.isnan(prices).all()
