"""Outside of a trace, arrays on the CPU are solved at once, and 64-bit input in 64 bits."""

import os
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from helpers import assert_same_bits, x64

import jaxmatch as jm
from jaxmatch._common import place as _host


@pytest.fixture
def no_compilation(monkeypatch):
    """Whatever would trace or compile fails."""

    def refuse(*_, **__):
        raise AssertionError("compiled")

    monkeypatch.setattr("jaxmatch._assignment.solve._solve", refuse)
    monkeypatch.setattr("jaxmatch._matching.solve._solve", refuse)
    monkeypatch.setattr("jaxmatch._flow.solve._solve", refuse)
    monkeypatch.setattr("jaxmatch._grid_cut.solve._solve", refuse)


def optimum(costs, maximize=False):
    return costs[scipy.optimize.linear_sum_assignment(costs, maximize)].sum()


# ---------------------------------------------------------------------------------------------
# Exact for the numbers that the caller passed


@pytest.mark.parametrize(
    "method", ["auto", "jonker_volgenant", "core", "auction", "tree", "classical", "xla"]
)
def test_numpy_float64_is_solved_in_float64(method):
    """Rounded to float32, these are 50 times the same number."""
    costs = 1e8 + np.random.default_rng(0).random((50, 50))
    res = jm.solve_assignment(costs, method=method)
    best = optimum(costs)
    assert res.cost.dtype == res.row_dual.dtype == res.gap.dtype == np.float64
    assert abs(res.cost - best) <= 1e-5 and 0 <= res.gap <= 1e-5
    assert costs[np.arange(50), res.col4row].sum() - best <= 1e-5
    check = jm.check_assignment(costs, res)
    assert check.valid and check.gap <= 1e-5
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]


def test_check_judges_the_numbers_that_were_passed():
    """The identity is optimal for the costs as float32, and not for the costs."""
    costs = np.array([[1, 1 - 2e-9], [1 - 2e-9, 1]])
    identity = jm.solve_assignment(costs.astype(np.float32)).replace(
        col4row=np.array([0, 1]), row4col=np.array([0, 1])
    )
    check = jm.check_assignment(costs, identity)
    assert check.valid and not check.optimal and check.gap >= 3.9e-9
    assert jm.check_assignment(costs, jm.solve_assignment(costs)).optimal
    np.testing.assert_array_equal(jm.linear_sum_assignment(costs)[1], [1, 0])


def test_long_integers_are_exact():
    costs = np.array([[2**59, 2**59 - 1], [5, 5]])
    res = jm.solve_assignment(costs)
    np.testing.assert_array_equal(res.col4row, [1, 0])
    assert res.status == jm.Status.OPTIMAL and res.gap == 0
    assert jm.check_assignment(costs, res).optimal
    np.testing.assert_array_equal(jm.linear_sum_assignment(costs, maximize=True)[1], [0, 1])
    # Made for 32 bits, in which these numbers fit.
    for method in ("core", "auction", "tree", "classical"):
        assert jm.solve_assignment(np.array([[7, 1], [1, 9]]), method=method).cost == 2


def test_unmatched_costs_of_float64():
    costs = np.array([[1 + 1e-12]])
    assert jm.solve_assignment(costs, unmatched_cost=1.0).col4row[0] == -1
    assert jm.solve_assignment(costs, unmatched_cost=np.array([1 + 2e-12])).col4row[0] == 0


def test_flows_and_cuts_of_64_bits():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    res = jm.maximum_flow(network, np.array([2**40 + 1, 2**41]), 0, 2)
    assert res.value == 2**40 + 1 and res.value.dtype == np.int64
    assert jm.maximum_flow(network, [1 + 1e-12, 2.0], 0, 2).value == 1 + 1e-12
    assert jm.minimum_cut(network, [2**40 + 1, 2**41], 0, 2).value == 2**40 + 1
    cut = jm.grid_cut(np.array([[2**40 + 1, 0]]), np.array([[0, 2**40]]), np.full((2, 1, 2), 2**50))
    assert cut.value == 2**40


def test_points_of_float64():
    """Far away, where float32 does not tell them from each other."""
    rng = np.random.default_rng(1)
    x, y = (1e6 + rng.random((40, 2)) for _ in range(2))
    costs = ((x[:, None] - y) ** 2).sum(-1)
    res = jm.solve_assignment_points(x, y)
    assert res.cost.dtype == np.float64
    np.testing.assert_allclose(res.cost, optimum(costs), rtol=1e-9)
    check = jm.check_assignment_points(x, y, res)
    assert check.valid and check.gap <= 1e-9


def test_in_a_trace_jax_has_rounded_before():
    """As README and docstrings say."""
    costs = 1e8 + np.random.default_rng(0).random((50, 50))
    assert jax.jit(lambda c: jm.solve_assignment(c))(costs).cost.dtype == jnp.float32


# ---------------------------------------------------------------------------------------------
# Kinds of arrays


def test_results_are_of_the_kind_that_came(no_compilation):
    costs = np.random.default_rng(2).random((6, 7)).astype(np.float32)
    for given, kind in (
        (costs, np.ndarray),
        (costs.tolist(), np.ndarray),
        (jnp.array(costs), jax.Array),
    ):
        for leaf in jax.tree.leaves((jm.solve_assignment(given), jm.linear_sum_assignment(given))):
            assert isinstance(leaf, kind)
    graph = jm.BipartiteGraph.from_dense(costs > 0.7)
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    results = jm.maximum_bipartite_matching(graph), jm.maximum_flow(network, jnp.ones(2), 0, 2)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(results))
    flow = jm.maximum_flow(network, np.ones(2), 0, 2)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(flow))


def test_jax_arrays_stay_on_their_device():
    there = jax.devices("cpu")[2]
    costs = jax.device_put(jnp.eye(4), there)
    assert jm.solve_assignment(costs).col4row.devices() == {there}
    assert jm.linear_sum_assignment(costs)[0].devices() == {there}


@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"unmatched_cost": 0.3}], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16", "float16"])
@pytest.mark.parametrize("wide", [False, True])
def test_same_bits_as_compiled(dtype, options, wide):
    rng = np.random.default_rng(3)
    costs = jnp.dtype(dtype).type(
        rng.integers(-40, 40, (3, 9, 12)) / (1 if dtype == "int32" else 8)
    )
    row_mask, start = rng.random((3, 9)) < 0.8, rng.random(12)
    if dtype == "float64" and not wide:
        pytest.skip("JAX has no float64 without x64")
    with x64(wide):
        for more in ({}, {"row_mask": row_mask}, {"warm_start": start.astype(np.float32)}):
            here = jm.solve_assignment(costs, **options, **more)
            assert isinstance(here.cost, np.ndarray)
            compiled = jax.jit(lambda c, m=more: jm.solve_assignment(c, **options, **m))(costs)
            assert_same_bits(here, compiled)
            assert_same_bits(here, jm.solve_assignment(jnp.asarray(costs), **options, **more))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 2), (2, 0, 3)], ids=str)
def test_nothing(shape, no_compilation):
    res = jm.solve_assignment(np.zeros(shape))
    assert res.col4row.shape == shape[:-1] and (res.cost == 0).all() and (res.status == 0).all()


def test_a_batch_on_all_threads(no_compilation):
    costs = np.random.default_rng(5).random((300, 40, 40))
    res = jm.solve_assignment(costs)
    for k in (0, 150, 299):
        assert_same_bits(jax.tree.map(lambda x, k=k: x[k], res), jm.solve_assignment(costs[k]))


def test_constants_within_a_trace():
    costs = np.random.default_rng(6).random((5, 5)).astype(np.float32)
    total = jax.jit(lambda x: x + jm.solve_assignment(costs).cost)(1.0)
    np.testing.assert_allclose(total, 1 + optimum(costs), rtol=1e-6)


PLACES = {
    "xla": {"method": "xla"},
    "core": {"method": "core", "steps_per_call": 2},
    "native": {},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PLACES)
def test_constants_are_solved_where_they_are(name, dtype):
    """Within a trace, too, by whatever solves them outside."""
    costs = (1e6 + np.random.default_rng(6).random((5, 5))).astype(dtype)
    alone = jm.solve_assignment(costs, **PLACES[name])

    def body(total, _):
        res = jm.solve_assignment(costs, **PLACES[name])
        gap = jm.check_assignment(costs, res).gap
        points = jm.solve_assignment_points(costs[:, :2], costs[:, 2:4]).cost
        return total + float(res.col4row[0] + points + gap), np.float32(gap)

    total, gaps = jax.jit(lambda: jax.lax.scan(body, 0.0, length=2))()
    outside = jm.check_assignment(costs, alone).gap
    points = jm.solve_assignment_points(costs[:, :2], costs[:, 2:4]).cost
    np.testing.assert_allclose(gaps, np.float32(outside))
    np.testing.assert_allclose(total, 2 * (alone.col4row[0] + points + outside), rtol=1e-6)


def test_constants_of_other_solvers():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    capacity, grid = np.array([2.0, 3.0]), np.ones((2, 2))
    pairs = np.ones((2, 2, 2))

    def values():
        flow = jm.maximum_flow(network, capacity, 0, 2, method="xla")
        cut = jm.grid_cut(grid, 2 * grid, pairs, method="xla")
        valid = jm.check_flow(network, capacity, 0, 2, flow).valid
        return float(flow.value), float(cut.value), bool(valid)

    assert [float(x) for x in jax.jit(values)()] == [float(x) for x in values()] == [2, 4, 1]


def test_constants_without_libraries():
    code = """
import jax, numpy as np, jaxmatch as jm
print(jax.jit(lambda: jm.solve_assignment(np.array([[2, 1], [1, 3]], np.float32)).cost + 1.0)())
"""
    env = os.environ | {"JAXMATCH_LIB_DIR": "none", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "3.0", done.stderr


def test_numpy_beside_jax_arrays_is_cut_as_jax_does(monkeypatch):
    """Natively and compiled alike, and integers that do not fit are an error."""
    cost = jnp.array([[1.0]])
    for threshold in (0, 1000):
        monkeypatch.setattr(_host, "CALLS_BEFORE_COMPILATION", threshold)
        res = jm.solve_assignment(cost, unmatched_cost=np.array([1 - 1e-12]))
        assert res.col4row.tolist() == [0]
        with pytest.raises(ValueError, match="`unmatched_cost` holds integers that do not fit"):
            jm.solve_assignment(jnp.array([[1]]), unmatched_cost=np.array([2**40 + 1]))
        with pytest.raises(ValueError, match="`sink_capacity` holds integers"):
            jm.grid_cut(jnp.array([[3]]), np.array([[2**32 + 1]]), np.full((2, 1, 1), 1))


def test_the_other_byte_order():
    turned = [np.array(x, ">i8") for x in ([[2**32 + 7, 0]], [[0, 2**33]])]
    cut = jm.grid_cut(*turned, np.full((2, 1, 2), 2**33, ">i8"))
    assert int(cut.value) == 2**32 + 7
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    assert jm.maximum_flow(network, np.array([2**40 + 1, 2**41], ">i8"), 0, 2).value == 2**40 + 1
    costs = 1e8 + np.random.default_rng(0).random((8, 8))
    rounded = jm.solve_assignment(costs.astype(np.float32))
    check = jm.check_assignment(costs.astype(">f8"), rounded)
    assert not check.optimal and check.gap == jm.check_assignment(costs, rounded).gap


def test_points_of_integers():
    x, y = np.array([[2**24 + 1, 0]]), np.array([[2**24, 0]])
    res = jm.solve_assignment_points(x, y)
    assert res.cost == 1 and jm.check_assignment_points(x, y, res).optimal


def test_results_lie_where_jitted_ones_do():
    costs = jnp.eye(3)
    res = jm.solve_assignment(costs)
    assert res.row_dual.committed == jax.jit(jm.solve_assignment)(costs).row_dual.committed
    other = jax.device_put(jnp.ones(3), jax.devices()[1])
    assert (res.row_dual + other).devices() == other.devices()
    there = jm.solve_assignment(jax.device_put(costs, jax.devices()[1]))
    assert there.row_dual.committed and there.row_dual.devices() == other.devices()
    mesh = jax.make_mesh((1,), ("x",), devices=jax.devices()[:1])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    sharded = jax.device_put(jnp.stack([costs] * 2), sharding)
    expected = jax.jit(jm.solve_assignment)(sharded).cost.sharding
    assert jm.solve_assignment(sharded).cost.sharding == expected


def test_gradients_are_traced():
    costs = np.random.default_rng(7).random((5, 5)).astype(np.float32)
    slope = jax.grad(lambda c: jm.solve_assignment(c).cost)(costs)
    rows, cols = jm.linear_sum_assignment(costs)
    np.testing.assert_array_equal(np.argwhere(slope), np.stack([rows, cols], -1))


def test_a_signature_that_comes_often_is_compiled(monkeypatch):
    """A compiled program makes JAX arrays faster than this path can."""
    monkeypatch.setattr(_host, "_calls", {})
    costs = jax.random.uniform(jax.random.key(0), (5, 6))
    monkeypatch.setattr(_host, "CALLS_BEFORE_COMPILATION", 20)
    places = [_host.place_of(costs, options="some").native for _ in range(40)]
    assert places[0] and not places[-1] and sorted(places, reverse=True) == places
    assert _host.place_of(costs[:4], options="some").native
    results = [jm.solve_assignment(costs) for _ in range(40)]
    assert_same_bits(results[0], results[-1])


def test_errors_are_those_of_the_compiled_path():
    for costs in (np.ones(3), np.ones((2, 2), complex)):
        with pytest.raises((TypeError, ValueError), match="cost"):
            jm.solve_assignment(costs)
    with pytest.raises(ValueError, match="infeasible"):
        jm.linear_sum_assignment(np.full((2, 2), np.inf))
    with pytest.raises(ValueError, match="row_mask"):
        jm.solve_assignment(np.ones((2, 2)), row_mask=[True] * 3)


# ---------------------------------------------------------------------------------------------
# Matchings and flows


def test_matchings(no_compilation):
    rng = np.random.default_rng(8)
    for n in range(1, 12):
        A = rng.random((n, 10)) < 0.2
        res = jm.maximum_bipartite_matching(jm.BipartiteGraph.from_dense(A))
        theirs = scipy.sparse.csgraph.maximum_bipartite_matching(scipy.sparse.csr_array(A))
        assert res.cardinality == (theirs >= 0).sum()
        warm = jm.maximum_bipartite_matching(jm.BipartiteGraph.from_dense(A), warm_start=res)
        assert warm.cardinality == res.cardinality


def test_flows(no_compilation):
    rng = np.random.default_rng(9)
    for n in range(2, 12):
        matrix = scipy.sparse.csr_array(np.triu(rng.integers(0, 9, (n, n)), 1).astype(np.int32))
        network, capacity = jm.FlowNetwork.from_scipy(matrix)
        res = jm.maximum_flow(network, capacity, 0, n - 1)
        assert res.value == scipy.sparse.csgraph.maximum_flow(matrix, 0, n - 1).flow_value
    batch = jm.maximum_flow(network, np.stack([capacity, 2 * capacity]), 0, n - 1)
    np.testing.assert_array_equal(batch.value, [res.value, 2 * res.value])


def test_stacked_graphs(no_compilation):
    graphs = [jm.BipartiteGraph.from_edges([0, 1], [0, k], (2, 2)) for k in (0, 1)]
    res = jm.maximum_bipartite_matching(jm.BipartiteGraph.stack(graphs))
    np.testing.assert_array_equal(res.cardinality, [1, 2])


# ---------------------------------------------------------------------------------------------
# Speed and robustness


def test_new_shapes_take_no_longer_than_known_ones():
    """What takes a compilation of 50 ms for each shape takes 200 times as long."""
    rng = np.random.default_rng(10)
    known, new = rng.random((20, 20)), [rng.random((10 + k % 40, 10 + k // 40)) for k in range(200)]
    jm.linear_sum_assignment(known)
    start = time.perf_counter()
    for _ in new:
        jm.linear_sum_assignment(known)
    middle = time.perf_counter()
    for costs in new:
        jm.linear_sum_assignment(costs)
    assert time.perf_counter() - middle <= 20 * (middle - start)


_FORK = """
import os, sys
import numpy as np, jaxmatch as jm
costs = np.random.default_rng(0).random((2000, 20, 20))
expected = jm.solve_assignment(costs).cost
child = os.fork()
if child == 0:
    os._exit(0 if (jm.solve_assignment(costs).cost == expected).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_no_threads_and_goes_on():
    environment = dict(os.environ, JAX_PLATFORMS="cpu")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORK], env=environment, check=True, timeout=120
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_warnings_of_numpy(dtype):
    """Outside of a trace NumPy shifts the duals of dummies, which may overflow."""
    most, random = np.finfo(dtype).max, np.random.default_rng(0)
    costs = random.choice(np.array([-most, -most / 2, 0, 1, most / 2, most], dtype), (40, 3, 4))
    left = random.choice(np.array([-most, 1, most], dtype), (40, 3))
    supply, demand = (random.random((40, k)).astype(dtype) for k in (3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        jm.solve_capacitated_assignment(
            costs, row_capacity=np.full((40, 3), 2), unmatched_cost=left
        )
        jm.solve_transport(costs, supply, demand, partial=np.full(40, 0.5, dtype))
