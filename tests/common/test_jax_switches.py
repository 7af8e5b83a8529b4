"""JAX's debugging switches: every public function does under each what it does without.

Results of problems that are not `OPTIMAL` hold NaN, and costs and capacities may be infinite; none
of this is an error that `debug_nans` or `debug_infs` are to find. Promotions are strict in all of
these tests (see conftest.py).
"""

import contextlib
import gc
import inspect
import types
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmatch as jm


SWITCHES = {
    "disable_jit": jax.disable_jit,
    "debug_nans": lambda: jax.debug_nans(True),
    "debug_infs": lambda: jax.debug_infs(True),
    "strict_dtypes": lambda: jax.numpy_dtype_promotion("strict"),
    "strict_ranks": lambda: jax.numpy_rank_promotion("raise"),
}

CASES = []  # names, function, inputs, whether it can be traced


def case(*names, inputs=tuple, traced=True):
    """A function of `inputs()` that calls what is named, and what else stands in a parameter id."""

    def register(function):
        CASES.append(pytest.param(function, inputs, traced, id=" ".join(names)))
        function.covers = names
        return function

    return register


def public_names():
    """Of all functions and classes, and of the methods that a class defines: `Class.method`."""
    names = set()
    for module in (jm, jm.estimators, jm.losses, jm.stepping):
        for name in module.__all__:
            x = getattr(module, name)
            if isinstance(x, types.ModuleType):
                continue
            assert x.__module__.startswith("jaxmatch"), name
            names.add(name)
            if inspect.isclass(x):
                for method, y in vars(x).items():
                    function = getattr(y, "__func__", y)
                    if method[0] != "_" and inspect.isfunction(function):
                        names.add(f"{name}.{method}")
    return names


def test_public_names_are_listed():
    for module in (jm, jm.estimators, jm.losses, jm.stepping):
        visible = {
            name
            for name, x in vars(module).items()
            if name[0] != "_" and not (isinstance(x, types.ModuleType) and module is not jm)
        }
        assert visible == set(module.__all__)
        assert len(module.__all__) == len(visible)


def test_every_public_name_is_called():
    covered = {name for entry in CASES for name in entry.values[0].covers}
    assert public_names() - covered == set()
    for name in covered - public_names():  # inherited
        owner, _, method = name.partition(".")
        assert owner in public_names() and hasattr(getattr(jm, owner), method)


# ---------------------------------------------------------------------------------------------
# The test


def plain(tree):
    return jax.tree.map(lambda x: np.asarray(jax.random.key_data(x) if is_key(x) else x), tree)


def is_key(x):
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def finite(tree):
    """A jitted function that returns NaN is an error under `debug_nans`, as it should be."""
    return jax.tree.map(
        lambda x: jnp.isfinite(x) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else x, tree
    )


def same(found, expected):
    found, expected = plain(found), plain(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-5), found, expected)


@pytest.mark.parametrize("function, inputs, traced", CASES)
def test_under_each_switch(function, inputs, traced):
    """All in one test, as what one has compiled serves the others. Promotions are strict anyway.

    A program is compiled anew under each switch, so NaN and infinities are errors at once;
    test_methods and test_over_devices have each alone.
    """
    arguments = inputs()
    in_jit = jax.jit(lambda *x: finite(function(*x)))
    expected = function(*arguments)
    for names in (("disable_jit",), ("debug_nans", "debug_infs")):
        try:
            with contextlib.ExitStack() as on:
                for name in names:
                    on.enter_context(SWITCHES[name]())
                same(function(*arguments), expected)
                if traced and "disable_jit" not in names:
                    same(in_jit(*arguments), finite(expected))
        except Exception as error:
            error.add_note(f"under {names}")
            raise


@pytest.mark.parametrize("function, inputs, traced", CASES)
def test_no_tracer_leaks(function, inputs, traced):
    """Where functions are traced, which is not done twice.

    The check for leaks collects garbage. Objects from before the trace are kept out of that.
    """
    arguments = inputs()
    jax.clear_caches()
    gc.freeze()
    try:
        with jax.checking_leaks():
            if traced:
                jax.jit(lambda *x: function(*x)).trace(*arguments)
            else:
                function(*arguments)
    finally:
        gc.unfreeze()


def pullback(function, *x):
    """The gradient of what `function` returns, each entry counted once. A sum would be NaN."""
    y, back = jax.vjp(function, *x)
    return back(jnp.ones_like(y))


def tangent(function, x):
    return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


# ---------------------------------------------------------------------------------------------
# Problems, of which some have no solution


INF, NAN = np.inf, np.nan


def costs():
    """Forbidden pairs in all, the second of three is infeasible and the third no problem."""
    good = [[INF, 1, 2, 4], [0.5, INF, 3, 3], [2, 1, INF, 5]]
    infeasible = [[1, INF, INF, INF], [2, INF, INF, INF], [2, 1, 1, 1]]
    invalid = [[NAN, 1, 2, 4], [0.5, INF, 3, 3], [2, 1, INF, 5]]
    return (np.array([good, infeasible, invalid], np.float32),)


def on_device(inputs):
    """`jnp.asarray` of NaN is refused under `debug_nans`."""
    return lambda: jax.tree.map(jnp.asarray, inputs())


def one_cost():
    return (costs()[0][0],)


def points():
    rng = np.random.default_rng(0)
    return rng.random((5, 2), np.float32), rng.random((6, 2), np.float32)


def graph():
    return (jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2], [0, 1, 0, 0, 1], shape=(3, 3)),)


def flows():
    """The second has no finite maximum, the third a capacity that is none."""
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], num_nodes=4)
    capacity = [[3, 1, INF, 1.5, 4], [INF, 1, INF, 1.5, INF], [3, 1, NAN, 1.5, 4]]
    return network, np.array(capacity, np.float32)


def grids():
    """Seeds without bound; the second has no finite cut, the third a capacity that is none."""
    rng = np.random.default_rng(1)
    source, sink = rng.random((2, 3, 3, 4), np.float32)
    pairs = rng.random((3, 2, 3, 4), np.float32)
    source[:, 0, 0] = sink[:, 2, 3] = INF
    pairs[1] = INF
    pairs[2, 0, 1, 1] = NAN
    return source, sink, pairs


# ---------------------------------------------------------------------------------------------
# Assignments


@case("solve_assignment", "check_assignment", "AssignmentCheck", inputs=costs)
def solved(cost):
    res = jm.solve_assignment(cost)
    slope = pullback(lambda c: jm.solve_assignment(c).cost, cost)
    along = tangent(lambda c: jm.solve_assignment(c).cost, cost)
    return res, jm.check_assignment(cost, res), slope, along


@case("solve_assignment", "check_assignment", inputs=costs)
def solved_with_everything(cost):
    given = {
        "row_mask": np.array([True, False, True]),
        "col_mask": np.array([[True, True, True, False]] * 3),
        "unmatched_cost": np.array([INF, 2, 1], np.float32),
    }
    res = jm.solve_assignment(-cost, maximize=True, **given | {"unmatched_cost": 0})
    again = jm.solve_assignment(cost, warm_start=res, **given)
    slope = pullback(
        lambda c, r: jm.solve_assignment(c, **given | {"unmatched_cost": r}).cost,
        cost,
        given["unmatched_cost"],
    )
    return again, jm.check_assignment(cost, again, **given), slope


@case("solve_assignment", "check_assignment", inputs=lambda: (np.array([[4, 1], [2, 0], [5, 6]]),))
def solved_integers(cost):
    res = jm.solve_assignment(cost.astype(np.int32), unmatched_cost=np.array([1, 2, 3]))
    bits = jm.solve_assignment(cost.astype(jnp.bfloat16))
    check = jm.check_assignment(cost.astype(np.int32), res, unmatched_cost=np.array([1, 2, 3]))
    return res, check, jm.check_assignment(cost.astype(jnp.bfloat16), bits)


@case(
    "solve_capacitated_assignment", "check_capacitated_assignment", "CapacitatedAssignment",
    "CapacitatedAssignment.empty", inputs=costs,
)  # fmt: skip
def solved_with_capacities(cost):
    given = {"col_capacity": 2, "col_minimum": np.array([0, 1, 0, 1])}
    start = jm.CapacitatedAssignment.empty(cost.shape)
    res = jm.solve_capacitated_assignment(cost, warm_start=start, **given)
    twin = jm.solve_capacitated_assignment(cost, method="xla", unmatched_cost=2.5, **given)
    plan = jm.solve_capacitated_assignment(cost, row_capacity=2, **given)
    slope = pullback(lambda c: jm.solve_capacitated_assignment(c, **given).cost, cost)
    check = jm.check_capacitated_assignment(cost, res, **given)
    return res.cost, twin.cost, plan.cost, check.valid, check.gap, slope


@case(
    "bottleneck_assignment", "BottleneckAssignment", "check_bottleneck", "BottleneckCheck",
    inputs=costs,
)  # fmt: skip
def bottlenecks(cost):
    found = []
    for given in ({}, {"lexicographic": True}, {"col_mask": np.arange(4) < 3}):
        res = jm.bottleneck_assignment(cost, **given)
        given.pop("lexicographic", None)
        found += [res, jm.check_bottleneck(cost, res, **given)]
    slope = pullback(lambda c: jm.bottleneck_assignment(c).bottleneck, cost)
    along = tangent(lambda c: jm.bottleneck_assignment(c, maximize=True).bottleneck, cost)
    return found, slope, along


@case(
    "quadratic_assignment", "QuadraticAssignment", "gromov_wasserstein", "GromovWasserstein",
    inputs=lambda: (costs()[0][0, :3, :3],),
)  # fmt: skip
def quadratic(cost):
    cost = jnp.where(jnp.isfinite(cost), cost, 9)
    many = {"starts": 3, "key": jax.random.key(0)}
    pairs = jm.quadratic_assignment(
        cost, cost.T, linear=cost, seeds=np.array([[0, 1]]), two_opt=True, **many
    )
    masses = jnp.asarray(np.array([0.5, 0.25, 0.25]))
    plan = jm.gromov_wasserstein(cost, cost.T, masses, feature_cost=cost, **many)
    slopes = [
        pullback(lambda c: jm.quadratic_assignment(c, cost).value, cost),
        pullback(lambda c: jm.gromov_wasserstein(c, cost, bounds=()).value, cost),
    ]
    return pairs.value, plan.value, slopes


@pytest.mark.parametrize("switch", ["disable_jit", "debug_nans", "debug_infs"])
@pytest.mark.parametrize("method", ["xla", "core", "auction", "classical", "tree"])
def test_methods(switch, method):
    (cost,) = costs()
    expected = jm.solve_assignment(cost)
    with SWITCHES[switch]():
        found = jm.solve_assignment(cost, method=method)
        if method != "xla":
            jm.solve_assignment(cost, method=method, steps_per_call=1)
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.cost, expected.cost)


@case("linear_sum_assignment", inputs=one_cost)
def scipys(cost):
    tall = jm.linear_sum_assignment(cost.T)
    return jm.linear_sum_assignment(cost), tall, jm.linear_sum_assignment(-cost, maximize=True)


@pytest.mark.parametrize("switch", SWITCHES)
def test_infeasible_costs_are_still_a_value_error(switch):
    with SWITCHES[switch](), pytest.raises(ValueError, match="infeasible"):
        jm.linear_sum_assignment(costs()[0])


@case("Assignment", "Assignment.empty", "Assignment.replace", inputs=costs)
def seed_of_a_scan(cost):
    def step(last, cost):
        res = jm.solve_assignment(cost, warm_start=last)
        return res, res.status

    last, statuses = jax.lax.scan(step, jm.Assignment.empty((3, 4)), cost[::-1])
    return last.replace(gap=last.cost), statuses


@case("solve_assignment_points", "check_assignment_points", inputs=points)
def solved_points(x, y):
    found = []
    for metric in ("sqeuclidean", "euclidean", "l1", "cosine"):
        res = jm.solve_assignment_points(x, y, metric=metric)
        check = jm.check_assignment_points(x, y, res, metric=metric)
        found += [res.replace(gap=res.gap < 1e-3), check.valid]
        found += pullback(
            lambda x, y, m=metric: jm.solve_assignment_points(x, y, metric=m).cost, x, y
        )
    return found


@case("solve_assignment_points", "check_assignment_points", inputs=points)
def no_assignment_of_points(x, y):
    far = jnp.where(np.arange(5)[:, None] == 2, jnp.float32(3e38), x)
    mask = np.arange(5) != 2
    found = [
        jm.solve_assignment_points(far, -y, row_mask=mask),
        jm.solve_assignment_points(far, -y),
        jm.solve_assignment_points(jnp.where(mask[:, None], x, 0), y, metric="cosine"),
    ]
    checks = [jm.check_assignment_points(far, -y, found[1])]
    slope = pullback(lambda x: jm.solve_assignment_points(x, -y).cost, far)
    return [r.status for r in found], checks, slope


def on_a_mesh(kind):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(kind,))
    cost = np.stack([one_cost()[0], costs()[0][1]])
    rows = np.random.default_rng(2).random((4, 6), np.float32)
    rows[0, 1] = INF
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    return jax.device_put(cost, sharding), jax.device_put(rows, sharding)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=lambda kind: kind.name)
def test_over_devices(switch, kind):
    cost, rows = on_a_mesh(kind)
    x, y = (
        jax.device_put(np.nan_to_num(p, posinf=0), rows.sharding) for p in (rows, rows[:, ::-1])
    )
    explicit = jax.set_mesh(rows.sharding.mesh) if kind == AxisType.Explicit else None
    with SWITCHES[switch](), explicit or contextlib.nullcontext():
        res = jm.solve_assignment(cost)
        check = jm.check_assignment(cost, res)
        one = jm.solve_assignment(rows, row_axis="x")
        proof = jm.check_assignment(rows, one, row_axis="x")
        x = jm.solve_assignment_points(x, y, row_axis="x")
        rule = jm.estimators.Perturbed(num_samples=2)
        mean = jm.assignment_matrix(cost, estimator=rule, key=jax.random.key(0))
    assert res.status.tolist() == [0, 1] and check.valid.tolist() == [True, False]
    assert one.status == 0 and proof.valid and proof.gap == 0 and x.status == 0
    mean = np.asarray(mean)
    assert (mean[0].sum(-1) == 1).all() and not mean[1].any()


# ---------------------------------------------------------------------------------------------
# Matchings, flows, cuts


@case(
    "maximum_bipartite_matching", "MatchingOptions", "check_matching", "MatchingCheck",
    inputs=graph,
)  # fmt: skip
def matched(graph):
    res = jm.maximum_bipartite_matching(graph, warm_start=np.array([1, -1, -1]))
    twin = jm.maximum_bipartite_matching(graph, method="xla").cardinality
    by_flow = jm.maximum_bipartite_matching(graph, method="flow").cardinality
    start = jm.maximum_bipartite_matching(graph, method="init_only")
    options: jm.MatchingOptions = {"k": 0.5}
    pushed = jm.maximum_bipartite_matching(graph, method="push_relabel", options=options)
    checks = jm.check_matching(graph, res), jm.check_matching(graph, start)
    return res, *checks, twin, by_flow, pushed.cardinality


@case("Matching", "Matching.empty", "Matching.replace")
def no_matching():
    empty = jm.Matching.empty((2, 3))
    return empty.replace(status=empty.status + 0)


@case(
    "BipartiteGraph",
    "BipartiteGraph.from_dense",
    "BipartiteGraph.from_edges",
    "BipartiteGraph.from_scipy",
    "BipartiteGraph.from_networkx",
    "BipartiteGraph.from_bcoo",
    "BipartiteGraph.stack",
    traced=False,
)
def graphs():
    sparse = pytest.importorskip("scipy.sparse")
    networkx = pytest.importorskip("networkx")
    from jax.experimental import sparse as jax_sparse

    dense = np.array([[1, 1, 0], [0, 0, 1]], np.float32)
    pairs = networkx.Graph([("a", 0), ("a", 1), ("b", 2)])
    several = [
        jm.BipartiteGraph.from_dense(dense),
        jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 2], (2, 3)),
        jm.BipartiteGraph.from_scipy(sparse.csr_array(dense)),
        jm.BipartiteGraph.from_networkx(pairs, top_nodes=["a", "b"])[0],
        jm.BipartiteGraph.from_bcoo(
            jax_sparse.BCOO((np.ones(3), np.argwhere(dense)), shape=(2, 3))
        ),
    ]
    batch = jm.BipartiteGraph.stack([*several, jm.BipartiteGraph.from_edges([0], [0], (1, 1))])
    return batch, jm.check_matching(batch, jm.maximum_bipartite_matching(batch))


@case("maximum_flow", "Flow", "check_flow", "FlowCheck", "Flow.replace", inputs=flows)
def flowing(network, capacity):
    res = jm.maximum_flow(network, capacity, 0, 3)
    slope = pullback(lambda c: jm.maximum_flow(network, c, 0, 3).value, capacity)
    check = jm.check_flow(network, capacity, 0, np.array([3, 3, 3]), res.replace())
    return res, check, slope


@case("maximum_flow", "FlowOptions", "check_flow", inputs=flows)
def flowing_integers(network, capacity):
    options: jm.FlowOptions = {"tile": 8}
    whole = jnp.where(jnp.isfinite(capacity), capacity, 7).astype(jnp.int32)
    res = jm.maximum_flow(network, whole, 0, np.array([3, 3, 0]))
    twin = jm.maximum_flow(network, capacity, 0, 3, method="xla")
    tiled = jm.maximum_flow(network, whole, 0, 3, method="two_level", options=options).value
    return res, jm.check_flow(network, whole, 0, 3, res), twin, tiled


@case("minimum_cost_flow", "MinimumCostFlow", "MinimumCostFlow.replace", inputs=flows)
def flowing_cheaply(network, capacity):
    cost, supply = jnp.ones_like(capacity), jnp.array([1.0, 0, 0, -1])
    res = jm.minimum_cost_flow(network, capacity, cost, supply, warm_start=jnp.zeros(4))
    slopes = [
        pullback(lambda c: jm.minimum_cost_flow(network, capacity, c, supply).cost, cost),
        pullback(lambda c: jm.minimum_cost_flow(network, c, cost, supply).cost, capacity),
        pullback(lambda b: jm.minimum_cost_flow(network, capacity, cost, b).cost, supply),
    ]
    return res.replace(), slopes


@case("check_minimum_cost_flow", "MinimumCostFlowCheck", inputs=flows)
def cheap_flow(network, capacity):
    cost, supply = -jnp.ones_like(capacity), jnp.array([1.0, 0, 0, -1])
    res = jm.minimum_cost_flow(network, capacity, cost, supply)
    twin = jm.minimum_cost_flow(network, capacity, cost, supply, method="xla")
    return jm.check_minimum_cost_flow(network, capacity, cost, supply, res), twin


@case("minimum_cut", "MinimumCut", "check_minimum_cut", "MinimumCutCheck", inputs=flows)
def cut(network, capacity):
    res = jm.minimum_cut(network, capacity, 0, 3)
    value, side, status = res
    return value, side, status, jm.check_minimum_cut(network, capacity, 0, 3, res)


@case(
    "FlowNetwork",
    "FlowNetwork.from_edges",
    "FlowNetwork.from_scipy",
    "FlowNetwork.from_networkx",
    "FlowNetwork.stack",
    traced=False,
)
def networks():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(np.array([[0, 2, 1], [0, 0, 3], [0, 0, 0]]))
    network, capacity = jm.FlowNetwork.from_scipy(matrix)
    edge = jm.FlowNetwork.from_edges([0], [1], 2)
    networkx = pytest.importorskip("networkx")
    path, _, _ = jm.FlowNetwork.from_networkx(networkx.DiGraph([(0, 1), (1, 2)]))
    stack = jm.FlowNetwork.stack([network, edge, path])
    return jm.maximum_flow(network, capacity, 0, 2), stack


@case("grid_cut", "MinimumCut", "MinimumCut.replace", inputs=grids)
def grid(source, sink, pairs):
    res = jm.grid_cut(source, sink, pairs)
    twin = jm.grid_cut(source, sink, pairs, method="xla").source_side
    slope = pullback(lambda *x: jm.grid_cut(*x).value, source, sink, pairs)
    along = tangent(lambda x: jm.grid_cut(x, sink, pairs).value, source)
    return res.replace(), twin, slope, along


@case(
    *("grid_cut", "check_grid_cut", "GridCut", "GridCut.empty"),
    inputs=lambda: (np.array([[9, 8, 1], [9, 2, 1]], np.int32),),
)
def grid_of_integers(image):
    smooth = np.full((4, 2, 3), 3, np.int32)
    wide = jnp.broadcast_to(smooth, (2, *smooth.shape))
    res = jm.grid_cut(image, 10 - image, wide)
    check = jm.check_grid_cut(image, 10 - image, wide, res)
    first = jm.GridCut.empty(image.shape, 4, image.dtype)
    warm = jm.grid_cut(image, 9 - image, smooth, warm_start=first)
    again = jm.grid_cut(image, 10 - image, smooth, warm_start=warm)
    return jm.grid_cut(image, 10 - image, smooth), res, check, again.value


# ---------------------------------------------------------------------------------------------
# Steps


@case(
    "init",
    "step",
    "AssignmentState",
    "AssignmentState.stage_ms",
    inputs=lambda: (np.random.default_rng(0).random((8, 8), np.float32),),
    traced=False,
)
def stepped(cost):
    state = jm.stepping.init(jnp.asarray(cost), row_mask=np.ones(8, bool))
    for _ in range(100):
        state = jm.stepping.step(jnp.asarray(cost), state, row_mask=np.ones(8, bool))
        counts = (state.matched_rows, state.rows, state.steps, state.pricings)
        counts += (state.dense_steps, state.termination_rounds)
        if state.done:
            break
    assert sorted(state.stage_ms()) == [
        "auction", "augment", "bid", "look", "price", "refine", "select",
    ]  # fmt: skip
    return state.result, counts


@case("step", inputs=lambda: (np.random.default_rng(0).random((8, 8), np.float32),))
def stepped_in_a_loop(cost):
    cost = jnp.asarray(cost)
    body = lambda state: jm.stepping.step(cost, state)  # noqa: E731
    start = jm.stepping.init(cost)
    return jax.lax.while_loop(lambda state: ~state.done, body, start).result


# ---------------------------------------------------------------------------------------------
# Estimators


RULES = {
    "Identity": [jm.estimators.Identity(p) for p in ("invariant", "none", "mean", "norm", "std")],
    "Blackbox": [jm.estimators.Blackbox(2.0), jm.estimators.Blackbox(2.0, central=True)],
    "Perturbed": [
        jm.estimators.Perturbed(0.5, num_samples=3),
        jm.estimators.Perturbed(
            0.5, num_samples=2, noise="gumbel", control_variate="solution", symmetric=True
        ),
    ],
    "ImplicitMLE": [
        jm.estimators.ImplicitMLE(2.0, num_samples=2),
        jm.estimators.ImplicitMLE(2.0, noise="normal", central=True),
    ],
    "AdaptiveImplicitMLE": [jm.estimators.AdaptiveImplicitMLE(num_samples=2)],
    "Entropic": [jm.estimators.Entropic(0.5, max_iterations=50)],
}


def estimate(rules, cost):
    """The first in several ways, the others by their gradients."""
    found = []
    for rule in rules:
        rest = {"key": jax.random.key(0) if rule.needs_key else None}
        if isinstance(rule, jm.estimators.AdaptiveImplicitMLE):
            rest["state"] = rule.init(0.5)
        matrix = partial(jm.assignment_matrix, estimator=rule, **rest)
        found.append(pullback(matrix, cost))
        if rule is rules[0]:
            alone = np.array([4, 4, INF], np.float32)
            found.append(pullback(partial(matrix, unmatched_cost=alone), cost))
            oracle = jm.estimators.assignment_oracle(row_mask=np.array([True, True, False]))
            found.append(rule.solution(oracle, cost, **rest))
            found.append(rule.jvp(oracle, cost, jnp.ones_like(cost), **rest))
    return found


@case("Identity", "Estimator", "Estimator.solution", "Estimator.jvp", inputs=costs)
def identity(cost):
    return estimate(RULES["Identity"], cost)


@case("Blackbox", inputs=costs)
def blackbox(cost):
    return estimate(RULES["Blackbox"], cost)


@case("assignment_matrix", "Perturbed", inputs=costs)
def perturbed(cost):
    return estimate(RULES["Perturbed"], cost)


@case("ImplicitMLE", inputs=costs)
def implicit(cost):
    return estimate(RULES["ImplicitMLE"], cost)


@case(
    "AdaptiveImplicitMLE",
    "AdaptiveState",
    "AdaptiveImplicitMLE.init",
    "AdaptiveImplicitMLE.update",
    inputs=costs,
)
def adaptive(cost):
    (rule,) = RULES["AdaptiveImplicitMLE"]
    return estimate([rule], cost), rule.update(rule.init(), jnp.ones_like(cost))


@case("Entropic", inputs=costs)
def entropic(cost):
    pytest.importorskip("ott")
    return estimate(RULES["Entropic"], cost)


@case("Perturbed.value", "Entropic.value", inputs=costs)
def smoothed(cost):
    pytest.importorskip("ott")
    oracle, key = jm.estimators.assignment_oracle(), jax.random.key(0)
    found = []
    for rule in (RULES["Perturbed"][0], RULES["Entropic"][0]):
        value = lambda c: rule.value(oracle, c, key=key)  # noqa
        found += [value(cost), pullback(value, cost)]
    return found


def ones_where_least(cost):
    return jax.nn.one_hot(cost.argmin(-1), cost.shape[-1])


@case(
    "oracle_of",
    "LinearOracle.convert_closures",
    inputs=lambda: (jnp.array([[3.0, 1, 2], [NAN, 1, 2]]),),
)
def own_solver(cost):
    oracle = jm.estimators.oracle_of(ones_where_least, core_dims=1)
    key = jax.random.key(0)
    found = [oracle.convert_closures(cost).solve(cost).y]
    for name in ("Identity", "Blackbox", "Perturbed", "ImplicitMLE"):
        rule = RULES[name][-1]
        rest = {"key": key if rule.needs_key else None}
        found += [pullback(lambda c: rule.solution(oracle, c, **rest), cost[:1])]  # noqa: B023
    return found


@case(
    "LinearOracle",
    "Solution",
    "assignment_oracle",
    "LinearOracle.solve",
    "LinearOracle.per_problem",
    "LinearOracle.dot",
    "LinearOracle.objective",
    "LinearOracle.better",
    inputs=on_device(costs),
)
def oracle(cost):
    oracle = jm.estimators.assignment_oracle(col_mask=np.array([True, True, True, False]))
    found = oracle.solve(cost)
    other = oracle.solve(cost, found.warm_start)
    better = oracle.better(cost, found, other)
    value = oracle.dot(cost, found.y), oracle.objective(cost, found.y)
    return found, better, value, oracle.per_problem(found.solved)


@case("cut_oracle", inputs=on_device(flows))
def cuts(network, capacity):
    oracle = jm.estimators.cut_oracle(network, 0, np.int32(3))
    key, found = jax.random.key(0), []
    for name in ("Blackbox", "Perturbed"):
        rule = RULES[name][0]
        rest = {"key": key if rule.needs_key else None}
        found += [pullback(lambda c: rule.solution(oracle, c, **rest), capacity)]  # noqa: B023
    return found, oracle.solve(capacity)


@case("labelling_oracle", inputs=lambda: (np.array([[-3.0, 1, -3], [2, -1, 2]], np.float32),))
def labels(cost):
    oracle = jm.estimators.labelling_oracle(np.full((2, 2, 3), 2, np.float32))
    found = oracle.solve(jnp.asarray(cost))
    rule = RULES["Blackbox"][0]
    slope = pullback(lambda c: rule.solution(oracle, c), cost)
    return found, slope, oracle.objective(jnp.asarray(cost), found.y)


# ---------------------------------------------------------------------------------------------
# Losses of decisions


def decisions():
    (cost,) = costs()
    return jnp.asarray(cost), jnp.asarray(cost[..., ::-1])


@case("spo_plus_loss", "StructuredLoss", inputs=decisions)
def spo_plus(cost, true_cost):
    oracle = jm.estimators.assignment_oracle()
    target = oracle.solve(true_cost).y
    loss = lambda c, **y: jm.losses.spo_plus_loss(oracle, c, true_cost, **y).loss  # noqa: E731
    return loss(cost, true_solution=target), pullback(loss, cost)


@case("perturbation_gradient_loss", inputs=decisions)
def perturbation_gradient(cost, true_cost):
    oracle = jm.estimators.assignment_oracle()

    def loss(c, central):
        return jm.losses.perturbation_gradient_loss(
            oracle, c, true_cost, strength=0.5, central=central
        ).loss

    return [pullback(lambda c, by=central: loss(c, by), cost) for central in (False, True)]


@case("regret", "Regret", inputs=decisions)
def regrets(cost, true_cost):
    oracle = jm.estimators.assignment_oracle()
    found = [jm.losses.regret(oracle, cost, true_cost)]
    for name in ("Identity", "Blackbox", "Perturbed", "ImplicitMLE"):
        rule = RULES[name][0]
        rest = {"estimator": rule, "key": jax.random.key(0) if rule.needs_key else None}
        loss = lambda c: jm.losses.regret(oracle, c, true_cost, **rest).regret  # noqa
        found.append(pullback(loss, cost))
    return found


@case("fenchel_young_loss", inputs=on_device(costs))
def fenchel_young(cost):
    pytest.importorskip("ott")
    oracle, found = jm.estimators.assignment_oracle(), []
    target = oracle.solve(cost).y
    for rule in (RULES["Perturbed"][0], RULES["Entropic"][0]):
        given = {"estimator": rule, "key": jax.random.key(0)}
        loss = lambda c: jm.losses.fenchel_young_loss(oracle, c, target, **given).loss  # noqa
        found += [loss(cost), pullback(loss, cost)]
    return found


# ---------------------------------------------------------------------------------------------
# Losses between sets


def sets():
    """A batch of two; the second has padding, which is NaN, and an output that is NaN."""
    rng = np.random.default_rng(3)
    outputs, targets = rng.random((2, 4, 6), np.float32), rng.random((2, 3, 6), np.float32)
    targets[1, 2] = NAN
    outputs[0, 1] = NAN
    return outputs, targets, np.array([[True, True, True], [True, True, False]])


@case("hungarian_loss", "HungarianLoss", "hungarian_matching", "matched_loss", inputs=sets)
def set_loss(outputs, targets, mask):
    def cost(o, t):
        return jnp.abs(o[..., :, None, :] - t[..., None, :, :]).sum(-1)

    def loss(outputs, targets=targets):
        return jm.losses.hungarian_loss(
            outputs,
            targets,
            matching_cost=cost,
            pair_loss=lambda o, t: ((o - t) ** 2).sum(-1),
            unmatched_loss=lambda o: (o**2).sum(-1),
            target_mask=mask,
            output_mask=np.array([True, True, True, False]),
        ).loss

    clean = jnp.where(jnp.isnan(targets), 0, targets)
    values = cost(jnp.where(jnp.isnan(outputs), 0, outputs), clean)
    matching = jm.losses.hungarian_matching(
        values, mask, unmatched_cost=np.array([INF, 1, 1, 1], np.float32)
    )
    given = jm.losses.matched_loss(
        outputs, targets, matching, pair_loss=lambda o, t: jnp.abs(o - t).sum(-1)
    )
    # A function of one's own has a derivative of NaN where targets are NaN.
    return loss(outputs), pullback(lambda x: loss(x, clean), outputs), given


@case("gather_matched", inputs=sets)
def gathered(outputs, targets, mask):
    index = np.array([[0, 2, -1], [1, -1, 0]], np.int32)
    return jm.losses.gather_matched({"x": outputs, "mask": mask}, index)


@case("permutation_invariant_loss", "negative_si_snr", inputs=sets)
def speakers(outputs, targets, mask):
    def loss(outputs):
        return jm.losses.permutation_invariant_loss(
            outputs, targets, pair_cost=jm.losses.negative_si_snr, target_mask=mask
        ).loss

    return loss(outputs), pullback(loss, outputs), jm.losses.negative_si_snr(outputs, targets)


def scenes():
    """Two layers, two images; the second image has padding and a label that is no class."""
    rng = np.random.default_rng(4)
    logits, boxes = rng.random((2, 2, 4, 3), np.float32), rng.random((2, 2, 4, 4), np.float32)
    labels, target_boxes = np.array([[0, 1], [7, 1]], np.int32), rng.random((2, 2, 4), np.float32)
    target_boxes[1, 1] = NAN
    return logits, boxes, labels, target_boxes, np.array([[True, True], [True, False]])


@case("DetectionCriterion", "DetectionLoss", "DetectionCriterion.matching_cost", inputs=scenes)
def detection(logits, boxes, labels, target_boxes, mask):
    found, rest = [], (labels, target_boxes, mask)
    for kind in ("cross_entropy", "focal"):
        criterion = jm.losses.DetectionCriterion(classification=kind)
        found += [criterion(logits, boxes, *rest)]
        found += [jax.grad(lambda x, c=criterion: c(x, boxes, *rest).total)(logits)]
        found += [jax.grad(lambda x, c=criterion: c(logits, x, *rest).total)(boxes)]
        cost = criterion.matching_cost(logits, boxes, labels, target_boxes)
        found += [jnp.isnan(cost)]
    return found


@case("sigmoid_focal_loss", inputs=lambda: (np.array([3.0, -400, 400], np.float32),))
def focal(logits):
    return jm.losses.sigmoid_focal_loss(logits, np.array([True, False, True]))


def weighted_clouds():
    """Of the second problem, one point is NaN; the third has no mass."""
    rng = np.random.default_rng(5)
    x, y = rng.random((3, 4, 2), np.float32), rng.random((3, 5, 2), np.float32)
    a, b = rng.random((3, 4), np.float32), rng.random((3, 5), np.float32)
    x[1, 2], a[2] = NAN, 0
    return x, y, a, b


@case("earth_mover_distance", "wasserstein_1d", "histogram_distance", inputs=weighted_clouds)
def distributions(x, y, a, b):
    losses, found = jm.losses, []
    for metric in ("sqeuclidean", "euclidean"):
        for rest in ((), (a, b)):
            loss = lambda x, y, *w, m=metric: losses.earth_mover_distance(x, y, *w, metric=m)  # noqa
            found += [loss(x, y, *rest), pullback(loss, x, y, *rest)]
    found += [losses.earth_mover_distance(x, y[:, :4], y_mask=np.ones(4, bool))]
    found += [losses.earth_mover_distance(x, y[:, :4])]
    for p in (1, 1.5, 2):
        line, on_line = partial(losses.wasserstein_1d, p=p), (x[..., 0], y[..., 1], a, b)
        found += [line(*on_line), pullback(line, *on_line)]
        bins = lambda a, b, p=p: losses.histogram_distance(a, b[:, :4], b[0, :4], p=p)  # noqa
        found += [bins(a, b), pullback(bins, a, b)]
    return found


@case("split_groups", "one_to_many", inputs=sets)
def groups(outputs, targets, mask):
    return jm.losses.split_groups(outputs, 2), jm.losses.one_to_many((targets, mask), 3)


@case(
    "box_area",
    "box_cxcywh_to_xyxy",
    "box_iou",
    "box_xyxy_to_cxcywh",
    "elementwise_box_iou",
    "elementwise_generalized_box_iou",
    "generalized_box_iou",
    inputs=lambda: (np.random.default_rng(5).random((2, 3, 4), np.float32),),
)
def boxes(given):
    losses = jm.losses
    corners = losses.box_cxcywh_to_xyxy(given)
    pairs = [losses.box_iou(corners, corners), losses.generalized_box_iou(corners, corners[:1])]
    one = [losses.elementwise_box_iou(corners, corners[0, 0])]
    one += [losses.elementwise_generalized_box_iou(corners[0, 0], corners)]
    return losses.box_area(corners), losses.box_xyxy_to_cxcywh(corners), pairs, one


@case("dice_cost", "dice_loss", "sigmoid_mask_loss", "sigmoid_mask_cost", inputs=sets)
def segments(outputs, targets, mask):
    losses = jm.losses
    found = []
    for cost in (losses.dice_cost, losses.sigmoid_mask_cost):
        found += [cost(outputs, targets), cost(outputs.astype(jnp.bfloat16), targets > 0.5)]
    for loss in (losses.dice_loss, losses.sigmoid_mask_loss):
        found += [loss(outputs[:, :3], targets), loss(outputs, outputs > 0.5)]
    return found


# ---------------------------------------------------------------------------------------------
# What is neither


def masses():
    """Of the second problem, a cost is NaN; the third is not balanced."""
    rng = np.random.default_rng(6)
    cost, supply = rng.random((3, 3, 4), np.float32), np.array([[3, 2, 1]] * 3, np.int32)
    demand = np.array([[1, 2, 2, 1]] * 3, np.int32)
    cost[1, 0, 0], cost[0, 2, 1], demand[2, 0] = NAN, INF, 5
    return cost, supply, demand


@case(
    "solve_transport", "Transport", "Transport.empty", "Transport.todense", "check_transport",
    "TransportCheck", inputs=masses,
)  # fmt: skip
def transported(cost, supply, demand):
    start = jm.Transport.empty(cost.shape)
    res, found = jm.solve_transport(cost, supply, demand, warm_start=start), []
    for given in ({}, {"partial": 4}, {"unmatched_cost": 0.5}):
        res = jm.solve_transport(cost, supply, demand, warm_start=res, **given)
        check = jm.check_transport(cost, supply, demand, res, **given)
        found += [res.cost, res.status, res.todense(), check.valid, check.gap]
        found.append(
            pullback(lambda c, g=given: jm.solve_transport(c, supply, demand, **g).cost, cost)
        )
    twin = jm.solve_transport(cost, supply, demand, method="xla")
    slope = pullback(
        lambda a, b: jm.solve_transport(cost, a, b).cost, supply.astype("f4"), demand.astype("f4")
    )
    return found, twin.cost, slope


@case("k_best_assignments", "KBestAssignments", "check_k_best", "KBestCheck", inputs=costs)
def listed(cost):
    res, twin = jm.k_best_assignments(cost, 4), jm.k_best_assignments(cost, 3, method="xla")
    rows = np.arange(cost.shape[-2]) > 0
    masked = jm.k_best_assignments(cost, 2, row_mask=rows, maximize=True)
    checks = jm.check_k_best(cost, res), jm.check_k_best(cost, masked, row_mask=rows, maximize=True)
    slope = pullback(lambda c: jm.k_best_assignments(c, 4).cost, cost)
    return res, twin.cost, masked.cost, res.first, checks, slope


def clouds_with_masses():
    """Of the second problem, a point is NaN; the third is not balanced."""
    rng = np.random.default_rng(7)
    x, y = rng.random((3, 3, 2), np.float32), rng.random((3, 4, 2), np.float32)
    _, supply, demand = masses()
    x[1, 0], x[0, 2] = NAN, INF
    return x, y, supply, demand


@case("solve_transport_points", "check_transport_points", inputs=clouds_with_masses)
def transported_points(x, y, supply, demand):
    res, found = jm.solve_transport_points(x, y, supply, demand), []
    for given in ({}, {"partial": 3}, {"unmatched_cost": 0.5, "metric": "euclidean"}):
        res = jm.solve_transport_points(x, y, supply, demand, warm_start=res, **given)
        check = jm.check_transport_points(x, y, supply, demand, res, **given)
        found += [res.cost, res.status, check.valid, check.gap]
        found.append(
            pullback(
                lambda x, g=given: jm.solve_transport_points(x, y, supply, demand, **g).cost, x
            )
        )
    twin = jm.solve_transport_points(x, y, supply, demand, metric="l1", method="xla")
    return found, twin.cost


@case(
    "solve_capacitated_assignment_points", "check_capacitated_assignment_points",
    inputs=clouds_with_masses,
)  # fmt: skip
def capacitated_points(x, y, supply, demand):
    given = {"col_capacity": 2, "col_minimum": 1, "metric": "cosine"}
    matched = jm.solve_capacitated_assignment_points(y[0], x[2], **given)
    check = jm.check_capacitated_assignment_points(y[0], x[2], matched, **given)
    return matched.cost, check.valid


def sparse_costs():
    """Of the second problem, a cost is NaN; the third has no full matching."""
    (edges,) = graph()
    cost = np.random.default_rng(8).random((3, 5), np.float32)
    cost[1, 0], cost[2, 1] = NAN, INF
    return edges, cost


@case("solve_sparse_transport", "SparseTransport", "SparseTransport.replace", inputs=sparse_costs)
def transporting_on_edges(edges, cost):
    supply, demand = jnp.array([1.0, 2, 1]), jnp.array([2.0, 1, 1])
    solve = partial(jm.solve_sparse_transport, edges)
    stay = {"limit": 2, "unmatched_cost": 3.0}
    res = solve(cost, supply, demand, **stay, warm_start=jnp.zeros(3))
    slopes = [
        pullback(lambda c: solve(c, supply, demand, **stay).cost, cost),
        pullback(lambda a: solve(cost, a, demand, limit=2.0, partial=2).cost, supply),
        pullback(lambda w: solve(cost, supply, demand, limit=w, partial=2).cost, cost + 1),
    ]
    return res.replace(), slopes


@case("check_sparse_transport", "SparseTransportCheck", inputs=sparse_costs)
def transported_on_edges(edges, cost):
    supply, demand = jnp.array([1.0, 2, 1]), jnp.array([2.0, 1, 1])
    found = []
    for how in ({}, {"partial": 2}, {"limit": 2, "unmatched_cost": 3.0}):
        res = jm.solve_sparse_transport(edges, cost, supply, demand, **how)
        twin = jm.solve_sparse_transport(edges, cost, supply, demand, method="xla", **how)
        found += [jm.check_sparse_transport(edges, cost, supply, demand, res, **how), twin]
    return found


@case("solve_sparse_assignment", "check_sparse_assignment", inputs=sparse_costs)
def on_edges(edges, cost):
    found, res = [], None
    for given in ({}, {"cardinality": "maximum"}, {"unmatched_cost": INF}, {"unmatched_cost": 0.5}):
        for method in ("auto", "xla"):
            options = {"method": method, "warm_start": res} | given
            res = jm.solve_sparse_assignment(edges, cost, **options)
            check = jm.check_sparse_assignment(edges, cost, res, **given)
            found += [res.cost, res.status, check.valid, check.gap]
        found.append(
            pullback(lambda c, g=given: jm.solve_sparse_assignment(edges, c, **g).cost, cost)
        )
    return found


@case(
    "min_weight_full_bipartite_matching",
    "BipartiteGraph.from_edges_with_cost",
    "BipartiteGraph.from_scipy_with_cost",
    traced=False,
)
def costs_from_the_host():
    sparse = pytest.importorskip("scipy.sparse")
    rows, cols, cost = [0, 0, 1, 1], [0, 1, 0, 0], np.array([1.0, 2, INF, 3])
    A = sparse.csr_array((cost, (rows, cols)), shape=(2, 2))
    _, best = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (2, 2))
    _, entries = jm.BipartiteGraph.from_scipy_with_cost(A)
    return best, entries, jm.min_weight_full_bipartite_matching(sparse.csr_array([[1, 2.0]]))


def molecules():
    """The second cannot be aligned, as kinds differ; a point of the third is NaN."""
    rng = np.random.default_rng(3)
    x, y = rng.random((2, 3, 4, 3), np.float32)
    x[2, 1, 0] = NAN
    kinds = np.array([[1, 1, 2, 2], [1, 1, 1, 2], [1, 1, 2, 2]])
    return x, y, kinds, kinds[[0, 0, 2]]


@case("solve_alignment", "Alignment", inputs=molecules)
def aligned(x, y, x_kind, y_kind):
    given = {"x_kind": x_kind, "y_kind": y_kind, "starts": 2}
    res = jm.solve_alignment(x, y, reflections=True, **given)
    cell = 3 * np.eye(3, dtype=np.float32)
    moved = jm.solve_alignment(x, y, motion="translation", cell=cell, **given)
    slope = pullback(lambda x: jm.solve_alignment(x, y, **given).rmsd[0], x)
    names = ("value", "rmsd", "bound", "status")
    return [[getattr(r, name) for name in names] for r in (res, moved)], slope


@case(
    *("Status", "export_safety_checks", "has_cpu_library", "has_cuda_library", "show_config"),
    traced=False,
)
def others():
    jm.show_config()
    assert jm.Status.INFEASIBLE.advice and jm.Status(0) == jm.Status.OPTIMAL
    return jm.has_cpu_library() | jm.has_cuda_library()


@pytest.mark.parametrize("switch", ["debug_nans", "debug_infs"])
def test_what_a_user_asked_for_is_checked(switch):
    """NaN that a jitted function returns, or that one computes with, is found as ever."""
    value = NAN if switch == "debug_nans" else INF
    with SWITCHES[switch]():
        res = jm.solve_assignment(costs()[0])
        flow = jm.maximum_flow(*flows(), 0, 3)
        with pytest.raises(FloatingPointError):
            jax.jit(lambda x: jm.solve_assignment(x).cost + value)(costs()[0])
        with pytest.raises(FloatingPointError):
            jnp.asarray(res.cost if switch == "debug_nans" else flow.value) + 1
        with contextlib.suppress(FloatingPointError):
            jnp.log(jnp.zeros(3)) * 0
            raise AssertionError("checks are off after a call")


def test_a_problem_of_a_batch_without_solutions():
    costs = jnp.full((2, 3, 3), jnp.inf)
    with jax.debug_nans(True), jax.debug_infs(True):
        res = jm.solve_assignment(costs)
        assert res[0].status == jm.Status.INFEASIBLE and np.isnan(res[1].cost)


def test_boxes_and_focal_losses_promote_what_they_document():
    boxes = jnp.array([[0, 0, 2, 2], [1, 1, 3, 3]])
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        turned = jm.losses.box_cxcywh_to_xyxy(jm.losses.box_xyxy_to_cxcywh(boxes))
        np.testing.assert_array_equal(turned, boxes)
        iou = jm.losses.box_iou(boxes.astype(jnp.float32), boxes.astype(jnp.bfloat16)[None])
        np.testing.assert_allclose(iou, [[[1, 1 / 7], [1 / 7, 1]]], rtol=1e-6)
        logits = jnp.ones((3, 2, 2))
        loss = jm.losses.sigmoid_focal_loss(logits, jnp.eye(2, dtype=bool))
        np.testing.assert_array_equal(
            loss, jm.losses.sigmoid_focal_loss(logits, jnp.broadcast_to(jnp.eye(2), (3, 2, 2)))
        )
