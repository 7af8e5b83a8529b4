"""The CUDA kernels against the CPU path: every family, dtype, feature, kernel, and JAX around."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DTYPES, assert_inverse, assert_same_bits, numpy_dtype, to_numpy, x64
from jax import lax
from scipy.optimize import linear_sum_assignment
from test_assignment_emulated import EDGES, one_of_each_status
from test_assignment_families import batch, families, few_roundings

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES


pytestmark = pytest.mark.gpu

GIVEN = ["", "maximize", "masks", "unmatched", "masks unmatched", "warm"]


def solve_on(platform, costs, **given):
    with jax.default_device(jax.devices(platform)[0]):
        # The kernels for batches, whatever "auto" would take.
        return to_numpy(jm.solve_assignment(costs, method="jonker_volgenant", **given))


def assert_agree(costs, given, most=None):
    """GPU and CPU find the same optimum; without rounding, to the last bit."""
    gpu, cpu = solve_on("cuda", costs, **given), solve_on("cpu", costs, **given)
    np.testing.assert_array_equal(gpu.status, cpu.status)
    solved = gpu.status == jm.Status.OPTIMAL
    exact = solved & (gpu.gap == 0) & (cpu.gap == 0)
    np.testing.assert_array_equal(gpu.cost[exact], cpu.cost[exact])
    if most is not None:
        assert (gpu.gap[solved] <= np.broadcast_to(most, solved.shape)[solved]).all(), gpu.gap
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(gpu.cost - cpu.cost)[solved & ~exact & np.isfinite(cpu.cost)]
    allowed = gpu.gap + cpu.gap + 4 * np.finfo(gpu.cost.dtype).eps * np.abs(cpu.cost)
    assert (apart <= allowed[solved & ~exact & np.isfinite(cpu.cost)]).all()
    for k in range(len(costs)):
        assert_inverse(gpu.col4row[k], gpu.row4col[k])
        assert (gpu.col4row[k] >= 0).sum() == (
            cpu.col4row[k] >= 0
        ).sum() or "unmatched_cost" in given
    for x in (gpu.cost, gpu.gap, gpu.row_dual, gpu.col_dual):
        assert np.isnan(x[~solved]).all()
    return gpu


def arguments(kinds, costs, rng):
    """Random masks, unmatched costs and duals for a batch of costs."""
    b, n, m = costs.shape
    given = {}
    if "maximize" in kinds:
        given["maximize"] = True
    if "masks" in kinds:
        given["row_mask"], given["col_mask"] = rng.random((b, n)) < 0.7, rng.random((b, m)) < 0.6
    if "unmatched" in kinds:
        finite = np.where(np.isfinite(costs.astype(np.float64)), costs.astype(np.float64), 0)
        given["unmatched_cost"] = np.quantile(finite, 0.2, axis=2)
        if np.issubdtype(costs.dtype, np.integer):
            given["unmatched_cost"] = given["unmatched_cost"].astype(np.int32)
        else:
            given["unmatched_cost"] = given["unmatched_cost"].astype(np.float32)
            given["unmatched_cost"][:, ::7] = np.inf
    if "warm" in kinds:
        given["warm_start"] = rng.normal(size=(b, m)).astype(np.float32)
    return given


@pytest.mark.parametrize("shape", [(7, 7), (33, 33), (24, 50), (100, 20), (140, 140)], ids=str)
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_families(dtype, wide, shape):
    exact, spread = families(dtype)
    for family, is_exact in ((exact, True), (spread, False)):
        if family:
            costs = batch(family, dtype, shape, False)
            with x64(wide):
                assert_agree(costs, {}, 0 if is_exact else few_roundings(costs))


@pytest.mark.parametrize("kinds", GIVEN)
@pytest.mark.parametrize("shape", [(1, 1), (6, 9), (9, 6), (64, 64), (150, 150)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int32", "float64", "int64"])
def test_features(dtype, shape, kinds):
    rng = np.random.default_rng([*shape, len(kinds)])
    costs = rng.normal(size=(12, *shape)) * 9
    costs[::3] = np.round(costs[::3])  # ties
    costs = costs.astype(numpy_dtype(dtype))
    with x64(dtype in ("float64", "int64")):
        assert_agree(costs, arguments(kinds, costs, rng))


# A shape and a batch for every line of the table of kernels, both sides of its limits.
KERNELS = [
    (1, 2, 2), (500, 8, 8), (300, 32, 32), (1, 33, 33), (2100, 64, 64), (700, 65, 65),
    (2100, 100, 100), (4, 100, 20), (2100, 100, 20), (3, 128, 128), (2, 129, 129), (9, 256, 256),
    (2, 300, 300), (3, 300, 50), (2, 900, 100), (1, 100, 900), (2, 512, 512), (1, 1000, 1000),
    (1, 1025, 1025), (1, 2000, 60), (1, 60, 4096), (1, 4096, 30),
]  # fmt: skip


@pytest.mark.parametrize("most", [9, 10**3, 2**24 - 1, None], ids=str)
@pytest.mark.parametrize("shape", KERNELS, ids=str)
def test_kernels(shape, most):
    """Ties, few ties, as many digits as float32 has; and costs that need float64."""
    rng = np.random.default_rng(shape)
    costs = rng.normal(size=shape) if most is None else rng.integers(0, most + 1, shape)
    assert_agree(costs.astype(np.float32), {}, 0)


# Sides that no block takes, with the dtypes of costs and of unmatched costs.
BEYOND_BLOCKS = [
    ((1, 4200, 4200), "float32", "float32"), ((2, 4100, 300), "float32", "float32"),
    ((1, 300, 5000), "int32", "int32"), ((1, 4200, 4200), "int32", "float32"),
    ((1, 4200, 4200), "int32", "int64"), ((1, 2100, 2100), "int64", "int64"),
    ((1, 2100, 2100), "int64", None), ((2, 100, 2100), "int64", "float64"),
    ((1, 4200, 4300), "float64", "float64"), ((1, 300_000, 8), "int32", "int32"),
]  # fmt: skip


@pytest.mark.parametrize("gate", [0.0001, 0.002, 1.0])
@pytest.mark.parametrize("shape, dtype, unmatched", BEYOND_BLOCKS, ids=str)
def test_beyond_blocks(shape, dtype, unmatched, gate):
    """Gates for most, some and none of the rows; whole numbers, so that nothing rounds."""
    rng = np.random.default_rng(shape)
    costs = rng.integers(0, 2**20, shape).astype(dtype)
    given = {}
    if unmatched is not None:
        given["unmatched_cost"] = np.full(shape[:2], int(gate * 2**20), unmatched)
    with x64("64" in dtype + str(unmatched)):
        gpu = assert_agree(costs, given, 0)
        assert_same_bits(gpu, solve_on("cuda", costs, **given))
        check = jm.check_assignment(costs, gpu, **given)
    assert np.asarray(check.optimal).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_random_shapes(dtype, wide, seed):
    """Many small problems of one shape: what goes wrong in one of a hundred shows up."""
    rng = np.random.default_rng(seed)
    shape = (96, *rng.integers(1, (12, 40, 70, 130)[seed % 4], 2))
    costs = rng.normal(size=shape) * 9
    costs[::3] = np.round(costs[::3])
    kinds = GIVEN[seed % len(GIVEN)]
    costs = costs.astype(numpy_dtype(dtype))
    with x64(wide):
        assert_agree(costs, arguments(kinds, costs, rng))


def test_a_problem_does_not_see_its_neighbours():
    """Same bits again, and in any company."""
    rng = np.random.default_rng(5)
    for n, b in ((8, 300), (32, 70), (64, 2100), (100, 9), (200, 7), (300, 5)):
        for costs in (rng.integers(0, 5, (b, n, n)), rng.random((b, n, n))):
            costs = costs.astype(np.float32)
            first = solve_on("cuda", costs)
            assert_same_bits(first, solve_on("cuda", costs))
            order = rng.permutation(b)
            shuffled = jax.tree.map(lambda x: x[np.argsort(order)], solve_on("cuda", costs[order]))  # noqa: B023
            assert_same_bits(first, shuffled)
            few = solve_on("cuda", costs[:2])
            assert_same_bits(jax.tree.map(lambda x: x[:2], first), few)  # in less company


def test_mixed_sizes_are_as_good_as_alone():
    rng = np.random.default_rng(6)
    sizes = rng.integers(0, 151, (40, 2))
    costs = np.full((40, 150, 150), np.nan, np.float32)
    rows, cols = (np.arange(150) < sizes[:, k : k + 1] for k in (0, 1))
    for k, (n, m) in enumerate(sizes):
        costs[k, :n, :m] = rng.random((n, m))
    padded = assert_agree(costs, {"row_mask": rows, "col_mask": cols}, 0)
    for k, (n, m) in enumerate(sizes[:6]):
        alone = solve_on("cuda", costs[k, :n, :m])
        np.testing.assert_array_equal(alone.cost, padded.cost[k])


@pytest.mark.parametrize("n", [3, 40, 150])
def test_statuses(n):
    costs, expected = one_of_each_status(n)
    assert assert_agree(costs, {}).status.tolist() == expected
    with x64(True):
        long = np.full((1, n, n), 2**61 // n + 1)
        assert assert_agree(long, {}).status.tolist() == [jm.Status.OVERFLOW]


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    dtype, costs, leave = EDGES[name]
    costs = np.asarray(costs).astype(dtype)[None]
    given = {} if leave is None else {"unmatched_cost": np.full((1, costs.shape[1]), leave)}
    with x64(True):
        assert_agree(costs, given)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)], ids=str)
def test_empty(shape):
    assert_agree(np.zeros((3, *shape), np.float32), {})
    assert solve_on("cuda", np.zeros((0, *shape), np.float32)).cost.shape == (0,)
    unmatched = np.ones((3, shape[0]), np.float32)
    assert_agree(np.zeros((3, *shape), np.float32), {"unmatched_cost": unmatched})


def test_more_entries_than_32_bits_count():
    one = np.random.default_rng(8).integers(0, 256, (1, 128, 128))
    costs = jnp.broadcast_to(jnp.asarray(one, jnp.bfloat16), (140_000, 128, 128))
    values = np.asarray(jax.jit(lambda c: jm.solve_assignment(c + 0).cost)(costs))
    assert (values == solve_on("cpu", one).cost).all()


def test_inside_loops_and_transformations():
    rng = np.random.default_rng(9)
    costs = jnp.asarray(rng.random((5, 4, 20, 20)), jnp.float32)

    def step(last, cost):
        res = jm.solve_assignment(cost, warm_start=last)
        return res, res.cost

    empty = jm.Assignment.empty((4, 20, 20))
    _, scanned = jax.jit(lambda c: lax.scan(step, empty, c))(costs)
    expected = solve_on("cpu", np.asarray(costs)).cost
    np.testing.assert_array_equal(scanned, expected)

    def body(state):
        k, total = state
        return k + 1, total + jm.solve_assignment(costs[k]).cost

    loop = jax.jit(lambda: lax.while_loop(lambda s: s[0] < 5, body, (0, jnp.zeros(4))))
    np.testing.assert_allclose(loop()[1], expected.sum(0), rtol=1e-6)
    grads = jax.jit(jax.vmap(jax.vmap(jax.grad(lambda c: jm.solve_assignment(c).cost))))(costs)
    np.testing.assert_array_equal(grads.sum(-1), 1)
    np.testing.assert_allclose((grads * costs).sum((-2, -1)), expected, rtol=1e-6)


def test_captured_as_a_cuda_graph():
    costs = jnp.asarray(np.random.default_rng(10).random((6, 40, 40)), jnp.float32)

    def chain(costs):
        """Costs that depend on the last result: each call of the graph sees new ones."""

        def body(_, state):
            costs, total = state
            res = jm.solve_assignment(costs)
            return costs + res.col_dual[:, None, :], total + res.cost

        return lax.fori_loop(0, 4, body, (costs, jnp.zeros(6)))[1]

    options = {
        "xla_gpu_enable_command_buffer": "FUSION,CUSTOM_CALL,CONDITIONAL,WHILE",
        "xla_gpu_graph_min_graph_size": 1,
    }
    captured = jax.jit(chain, compiler_options=options)
    for scale in (1.0, 2.0, 3.0):
        assert_same_bits(captured(scale * costs), jax.jit(chain)(scale * costs))


def test_several_streams_at_once():
    rng = np.random.default_rng(11)
    work = [rng.random((40, n, n)).astype(np.float32) for n in (8, 30, 64, 100, 200)]
    expected = [solve_on("cuda", costs) for costs in work]
    failures = []

    def run(k):
        for _ in range(10):
            try:
                assert_same_bits(solve_on("cuda", work[k]), expected[k])
            except Exception as e:  # noqa: BLE001
                failures.append((k, e))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(work))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_good_start_changes_nothing_but_the_time():
    rng = np.random.default_rng(12)
    costs = rng.random((8, 60, 60)).astype(np.float32)
    cold = solve_on("cuda", costs)
    near = (costs * (1 + 0.01 * rng.normal(size=costs.shape))).astype(np.float32)
    warm = solve_on("cuda", near, warm_start=cold.col_dual)
    np.testing.assert_array_equal(warm.cost, solve_on("cpu", near).cost)
    for bad in (np.nan, np.inf, 1e30):
        duals = cold.col_dual.copy()
        duals[:, 3] = bad
        np.testing.assert_array_equal(solve_on("cuda", near, warm_start=duals).cost, warm.cost)


SHAPES_OF_AUCTIONS = [(300, 300), (1025, 1025), (1281, 1281), (2049, 2049), (1023, 1024)]
SHAPES_OF_AUCTIONS += [(700, 1001), (1300, 1200)]


@pytest.mark.parametrize("given", ["", "unmatched", "masks"])
@pytest.mark.parametrize("n, m", SHAPES_OF_AUCTIONS)
@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "uniform"])
def test_auctions_of_all_clusters_give_the_same_bits(family, n, m, given, monkeypatch):
    """One block for each problem, two, and as many as the GPU has multiprocessors for."""
    random = np.random.default_rng(n)
    costs = FAMILIES[family](max(n, m), 1).astype(np.float32)[None, :n, :m]
    args = {}
    if given == "unmatched":
        args["unmatched_cost"] = (random.random((1, n)) * np.median(costs)).astype(np.float32)
    if given == "masks":
        args |= {"row_mask": random.random((1, n)) < 0.9, "col_mask": random.random((1, m)) < 0.8}
    results = []
    for asked in ("no-auction", "auction,cluster-1", "auction,cluster-2", "auction"):
        monkeypatch.setenv("JAXMATCH_CUDA_KERNEL", f"block,{asked}")
        results.append(solve_on("cuda", costs, **args))
    plain, *with_auction = results
    assert plain.status[0] == jm.Status.OPTIMAL
    for res in with_auction:
        assert_same_bits(res, with_auction[0])
    apart = abs(with_auction[0].cost - plain.cost)
    assert (apart <= with_auction[0].gap + plain.gap + 1e-6 * abs(plain.cost)).all()


@pytest.mark.parametrize("leave", [0.5, np.inf])
def test_auction_where_a_mask_hides_all_columns(leave):
    costs = FAMILIES["20 clusters"](256, 1).astype(np.float32)[None].repeat(2, 0)
    mask = np.array([[True], [False]]).repeat(256, 1)
    given = {"col_mask": mask, "unmatched_cost": np.full((2, 256), leave, np.float32)}
    assert_agree(costs, given)


@pytest.mark.parametrize("n", [600, 1024, 1700])
@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "uniform", "near"])
@pytest.mark.parametrize("method", ["auto", "core", "auction"])
def test_one_problem(family, n, method):
    """The core method, and an auction where bids leave many rows free, by a block or the GPU."""
    cost = FAMILIES[family](n, 2).astype(np.float32)
    with jax.default_device(jax.devices("cuda")[0]):
        res = jm.solve_assignment(cost, method=method)
        check = jm.check_assignment(cost, res)
    best = cost[linear_sum_assignment(cost)].sum(dtype=np.float64)
    assert int(res.status) == jm.Status.OPTIMAL and bool(check.valid)
    assert abs(float(res.cost) - best) <= float(res.gap) + 1e-6 * abs(best)
