"""Batches over a mesh: every solver stays on the device that has the problems, and nothing changes.

Meshes with explicit axes and `shard_map` have tests beside those of each solver, too.
"""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmatch as jm
from jaxmatch import losses, stepping
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._flow import native
from jaxmatch.estimators import (
    AdaptiveImplicitMLE,
    Blackbox,
    Entropic,
    Identity,
    ImplicitMLE,
    Perturbed,
    assignment_oracle,
)


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
OVER, WHOLE = PartitionSpec("batch"), PartitionSpec()
KEY = jax.random.key(5)
BATCH = 8


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def devices(request):
    found = jax.devices(request.param)
    if len(found) < 2:
        pytest.skip("needs two devices")
    with jax.default_device(found[0]):
        yield found[: 4 if len(found) >= 4 else 2]


def mesh_of(devices, kind=AUTO):
    return jax.make_mesh((len(devices),), ("batch",), axis_types=(kind,), devices=devices)


def collectives(program):
    """Those of a compiled program, but for numbers that loops and sums over the batch exchange."""
    found = re.findall(r"= (\S+|\(.*?\)) ((?:all|collective)-[a-z-]+|reduce-scatter)\(", program)
    assert not re.search(r"(all-gather|all-to-all|collective-permute)-start", program)
    few = re.compile(r"\(?(\w+\[[1-4]?\](\{0\})?(, )?)+\)?")  # XLA may join some to one
    return [(x, name) for x, name in found if name != "all-reduce" or not few.fullmatch(x)]


def assert_sharded(f, arguments, mesh, *, shared=0, exact=True):
    """No device has to do with the problems of others. Of the arguments, the first so many belong
    to all problems."""
    arguments = jax.tree.map(jnp.asarray, arguments)
    expected = jax.jit(f)(*arguments)
    specs = [WHOLE if k < shared else OVER for k in range(len(arguments))]
    given = [
        jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(arguments, specs, strict=True)
    ]
    with jax.set_mesh(mesh):
        program = jax.jit(f).lower(*given).compile()
        got = program(*given)
    assert collectives(program.as_text()) == []
    for x in jax.tree.leaves(got):
        assert x.ndim == 0 or x.sharding.is_equivalent_to(NamedSharding(mesh, OVER), x.ndim)
    if exact:
        assert_same_bits(got, expected)
    else:  # XLA may add in another order
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), got, expected)


# ---------------------------------------------------------------------------------------------
# All solvers

RNG = np.random.default_rng(3)
WEIGHTS = RNG.random(BATCH).astype(np.float32)
COST = RNG.random((BATCH, 5, 6)).astype(np.float32)
TALL = np.moveaxis(COST, 1, 2).copy()
OTHER = RNG.random((BATCH, 5, 6)).astype(np.float32)
ROWS, COLS = RNG.random((BATCH, 5)) < 0.7, RNG.random((BATCH, 6)) < 0.8
ALONE, DUALS = RNG.random((2, BATCH, 5)).astype(np.float32)
NETWORK = jm.FlowNetwork.from_edges(*RNG.integers(0, 6, (2, 14)), 6)
NETWORKS = jax.tree.map(lambda x: jnp.stack([x] * BATCH), NETWORK)
CAPACITY = RNG.integers(0, 9, (BATCH, 14)).astype(np.float32)
ENDS = np.arange(BATCH, dtype=np.int32) % 5
GRAPHS = jm.BipartiteGraph.stack(
    [jm.BipartiteGraph.from_dense(RNG.random((5, 6)) < 0.4) for _ in range(BATCH)]
)
GRID = RNG.random((2, BATCH, 4, 5)).astype(np.float32)
PAIRWISE = RNG.random((BATCH, 2, 4, 5)).astype(np.float32)


def solve(**how):
    return partial(jm.solve_assignment, **how)


def solve_masked(cost, rows, cols, **how):
    return jm.solve_assignment(cost, row_mask=rows, col_mask=cols, **how)


def cut(network, capacity, source=0, **how):
    """Of a flow, what is the same for every solver."""
    found = jm.maximum_flow(network, capacity, source, 5, **how)
    return found.value, found.source_side, found.status


def check_cuts(capacity):
    return jm.check_minimum_cut(NETWORK, capacity, 0, 5, jm.minimum_cut(NETWORK, capacity, 0, 5))


def check_grids(*grid):
    return jm.check_grid_cut(*grid, jm.grid_cut(*grid))


def gradient(value, *which):
    """With respect to the first argument, or to those that are named."""
    return jax.grad(lambda *x: (WEIGHTS * value(*x)).sum(), which or 0)


def matrix(rule, cost, **others):
    state = rule.init(0.5) if hasattr(rule, "init") else None
    return jm.assignment_matrix(cost, estimator=rule, key=KEY, state=state, **others)


def perturbed(cost, rows, cols, alone):
    others = {"row_mask": rows, "col_mask": cols, "unmatched_cost": alone}
    return matrix(Perturbed(0.5, 6), cost, **others)


SOLVERS = {
    "scipy": (jm.linear_sum_assignment, COST),
    "scipy, tall": (jm.linear_sum_assignment, TALL),
    **{m: (solve(method=m), COST) for m in ("auto", "core", "classical", "tree", "xla")},
    "one mask for all": (lambda c: jm.solve_assignment(c, row_mask=ROWS[0]), COST),
    "masks": (solve_masked, COST, ROWS, COLS),
    "masks, core": (partial(solve_masked, method="core"), COST, ROWS, COLS),
    "unmatched": (lambda c, r: jm.solve_assignment(c, unmatched_cost=r), COST, ALONE),
    "warm": (lambda c, v: jm.solve_assignment(c[..., :5], warm_start=v), COST, DUALS),
    "steps": (solve(method="core", steps_per_call=1), COST),
    "masked steps": (partial(solve_masked, method="tree", steps_per_call=2), COST, ROWS, COLS),
    "certificate": (lambda c: jm.check_assignment(c, jm.solve_assignment(c)), COST),
    "perturbed": (perturbed, COST, ROWS, COLS, ALONE),
    "matching": (jm.maximum_bipartite_matching, GRAPHS),
    "matching, xla": (partial(jm.maximum_bipartite_matching, method="xla"), GRAPHS),
    "flow": (partial(cut, NETWORK), CAPACITY),
    "flow, xla": (partial(cut, NETWORK, method="xla"), CAPACITY),
    "flow between ends": (partial(cut, NETWORK), CAPACITY, ENDS),
    "flow of ends": (partial(cut, NETWORK, CAPACITY[0]), ENDS),
    "flow in networks": (cut, NETWORKS, CAPACITY),
    "grid": (jm.grid_cut, *GRID, PAIRWISE),
    "grid, xla": (partial(jm.grid_cut, method="xla"), *GRID, PAIRWISE),
    "cuts checked": (check_cuts, CAPACITY),
    "grids checked": (check_grids, *GRID, PAIRWISE),
}
GRADIENTS = {
    "assignment": (gradient(lambda c: jm.solve_assignment(c).cost), COST),
    "unmatched": (
        gradient(lambda c, r: jm.solve_assignment(c, unmatched_cost=r).cost, 0, 1),
        *(COST, ALONE),
    ),
    "flow": (gradient(lambda c: jm.maximum_flow(NETWORK, c, 0, 5).value), CAPACITY),
    "grid": (gradient(lambda *x: jm.grid_cut(*x).value, 0, 1, 2), *GRID, PAIRWISE),
}
RULES = (
    Identity(), Perturbed(0.5, 6), Perturbed(0.5, 6, "gumbel", symmetric=True), Blackbox(3.0),
    ImplicitMLE(2.0, 0.5, 3), AdaptiveImplicitMLE(num_samples=3),
)  # fmt: skip


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers(name, devices):
    f, *arguments = SOLVERS[name]
    assert_sharded(f, arguments, mesh_of(devices))


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, devices):
    f, *arguments = GRADIENTS[name]
    assert_sharded(f, arguments, mesh_of(devices))


def matrix_and_gradient(rule, cost, along):
    y, back = jax.vjp(partial(matrix, rule), cost)
    return y, back(along)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_estimators(rule, devices):
    assert_sharded(partial(matrix_and_gradient, rule), [COST, OTHER], mesh_of(devices))


def test_entropic(devices):
    pytest.importorskip("ott")
    f = partial(matrix_and_gradient, Entropic(0.5, 20))
    assert_sharded(f, [COST, OTHER], mesh_of(devices), exact=False)


# On a mesh with explicit axes the mapped dimension is sharded, but the solver's types do
# not show it.
MAPPED = ("scipy, tall", "auto", "steps", "masks", "matching", "flow", "grid")


@pytest.mark.parametrize("kind", [AUTO, EXPLICIT], ids=str)
@pytest.mark.parametrize("name", MAPPED)
def test_vmap(name, kind, devices):
    f, *arguments = SOLVERS[name]
    assert_sharded(jax.vmap(f), arguments, mesh_of(devices, kind))


@pytest.mark.parametrize("kind", [AUTO, EXPLICIT], ids=str)
def test_vmap_of_gradients(kind, devices):
    def f(cost, along):
        each = jax.vmap(jax.grad(lambda c: jm.solve_assignment(c).cost))(cost)
        y, back = jax.vjp(jax.vmap(partial(matrix, Perturbed(0.5, 6))), cost)
        return each, y, back(along)

    assert_sharded(f, [COST, OTHER], mesh_of(devices, kind))


def test_vmap_over_another_axis(devices):
    """Problems of a sharded batch, each with three matrices of costs."""
    costs = np.stack([COST, OTHER, COST[::-1]], 1)
    assert_sharded(jax.vmap(jm.solve_assignment), [costs], mesh_of(devices))
    assert_sharded(jax.vmap(jm.solve_assignment, 1, 1), [costs], mesh_of(devices))
    assert_sharded(jm.solve_assignment, [costs], mesh_of(devices))


def test_a_network_that_all_share_stays_whole(devices):
    assert_sharded(cut, [NETWORK, CAPACITY], mesh_of(devices), shared=1)
    over_capacities = jax.vmap(cut, (None, 0))
    assert_sharded(over_capacities, [NETWORK, CAPACITY], mesh_of(devices), shared=1)


# ---------------------------------------------------------------------------------------------
# Losses


def squares(x, y):
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


def hungarian(x, y, mask):
    pair_loss = lambda x, y: jnp.abs(x - y).sum(-1)  # noqa: E731
    given = {"matching_cost": squares, "pair_loss": pair_loss, "target_mask": mask}
    return losses.hungarian_loss(x, y, **given).loss


def permutation_invariant(x, y, mask):
    given = {"pair_cost": squares, "target_mask": mask, "output_mask": mask}
    return losses.permutation_invariant_loss(x, y, **given).loss


def detection(logits, labels, mask):
    boxes = jax.nn.sigmoid(logits[..., :4])
    targets = jnp.full((*labels.shape, 4), 0.5)
    return losses.DetectionCriterion(classification="focal")(
        logits, boxes, labels, targets, mask
    ).total


def earth_mover(x, y, mask):
    plain = losses.earth_mover_distance(x, y)
    masked = losses.earth_mover_distance(x, y[:, :4], x_mask=mask, metric="euclidean")
    weighted = losses.earth_mover_distance(x, y, x[..., 0], y[..., 1])
    line = losses.wasserstein_1d(x[..., 0], y[..., 1], x[..., 2], p=2)
    bins = losses.histogram_distance(x[..., 0], y[..., 1])
    return plain + jnp.nan_to_num(masked) + weighted + line + bins


LABELS = np.arange(BATCH * 3, dtype=np.int32).reshape(BATCH, 3) % 5
LOSSES = {
    "earth_mover": (earth_mover, COST, OTHER, ROWS),
    "hungarian": (hungarian, COST, OTHER[:, :4], ROWS[:, :4]),
    "permutation_invariant": (permutation_invariant, COST, OTHER, ROWS),
    "detection": (detection, COST, LABELS, COLS[:, :3]),
    "spo_plus": (lambda *x: losses.spo_plus_loss(assignment_oracle(), *x).loss, COST, OTHER),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, devices):
    loss, *arguments = LOSSES[name]
    value_and_grad = jax.value_and_grad(lambda *x: loss(*x).sum())
    assert_sharded(value_and_grad, arguments, mesh_of(devices), exact=False)


# ---------------------------------------------------------------------------------------------
# Other meshes, and parts that are no whole ones


def test_two_axes(devices):
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AUTO, AUTO), devices=devices)
    for shape, spec in (((BATCH,), (("a", "b"),)), ((BATCH,), ("b",)), ((4, 2), ("b", "a"))):
        sharding = NamedSharding(mesh, PartitionSpec(*spec))
        for how in ({}, {"method": "core", "steps_per_call": 1}):
            run, expected = jax.jit(solve(**how)), jm.solve_assignment(COST, **how)
            cost = jax.device_put(COST.reshape(*shape, 5, 6), sharding)
            assert collectives(run.lower(cost).compile().as_text()) == []
            got = run(cost)
            assert got.cost.sharding.is_equivalent_to(sharding, len(shape))
            assert_same_bits(jax.tree.map(lambda x, y: x.reshape(y.shape), got, expected), expected)


def test_some_axes_taken_by_shard_map(devices):
    """The others are the compiler's. Steps are gathered over these, and right."""
    if len(devices) < 4:
        pytest.skip("needs four devices")
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(AUTO, AUTO), devices=devices)
    cost = jax.device_put(COST, NamedSharding(mesh, PartitionSpec(("a", "b"))))
    over = PartitionSpec("a")
    for how in ({}, {"method": "core", "steps_per_call": 1}):
        f = jax.shard_map(solve(**how), mesh=mesh, in_specs=over, out_specs=over, axis_names={"a"})
        assert how or collectives(jax.jit(f).lower(cost).compile().as_text()) == []
        assert_same_bits(jax.jit(f)(cost), jm.solve_assignment(COST, **how))


@pytest.mark.parametrize("how", [{}, {"method": "core", "steps_per_call": 1}], ids=str)
def test_batches_that_do_not_divide_and_problems_that_are_sharded(how, devices):
    """The first is padded with anything, the second gathered."""
    first = jax.jit(lambda c: jm.solve_assignment((2 * c)[: BATCH - 1], **how))
    mesh = mesh_of(devices)
    got = first(jax.device_put(COST, NamedSharding(mesh, OVER)))
    assert_same_bits(got, first(COST))
    by_cols = NamedSharding(mesh, PartitionSpec(None, None, "batch"))
    wide = np.concatenate([COST, OTHER], -1)
    assert_same_bits(jax.jit(solve(**how))(jax.device_put(wide, by_cols)), solve(**how)(wide))


def test_steps_keep_their_state_in_place(devices):
    """XLA's own way to divide a call forgets aliases, and a state would be lost."""
    mesh = mesh_of(devices)
    cost = jax.device_put(COST, NamedSharding(mesh, OVER))
    step = jax.jit(partial(stepping.step, steps=1))
    state = jax.jit(stepping.init)(cost)
    program = step.lower(cost, state).compile().as_text()
    assert collectives(program) == [] and "output_to_operand_aliasing" in program
    while not state.done.all():
        state = step(cost, state)
    assert_same_bits(state.result, jm.solve_assignment(COST, method="core"))
    # The state is typed as what becomes of it, by `shard_map` and on a mesh of explicit axes.
    run = solve(method="core", steps_per_call=1)
    mapped = jax.shard_map(run, mesh=mesh, in_specs=OVER, out_specs=OVER)
    assert_same_bits(jax.jit(mapped)(cost), state.result)
    assert_sharded(run, [COST], mesh_of(devices, EXPLICIT))


# ---------------------------------------------------------------------------------------------
# The native call


def nothing(*operands, **given):
    return native_call("jaxmatch_noop", operands, [Result((3,), np.float32)], **given)[0]


def test_attributes_that_grow_with_the_batch(devices):
    """They know how many problems a device has, outside of meshes, under `vmap` and on meshes."""
    call = partial(nothing, core_dims=[2], by_batch={"room": 7})
    whole = jnp.asarray(COST)
    for f in (call, jax.vmap(call)):
        assert f"room = {7 * BATCH} : i64" in jax.jit(f).lower(whole).as_text()
        over = jax.device_put(COST, NamedSharding(mesh_of(devices), OVER))
        program = jax.jit(f).lower(over).compile().as_text()
        assert f"room = {7 * BATCH // len(devices)} : i64" in program
        assert collectives(program) == []


def test_state_beside_what_is_shared(devices):
    """As in the steps of flows on CUDA: a loop's state is not copied, and nothing is gathered."""

    def step(network, state):
        how = {"core_dims": [1, 1], "shared": [0], "aliases": {1: 0}}
        return native_call("jaxmatch_noop", [network, state], [Result((6,), np.float32)], **how)[0]

    def loop(network, state):
        return jax.lax.while_loop(lambda x: x.sum() < 0, partial(step, network), state)

    mesh = mesh_of(devices)
    state = jax.device_put(COST[:, 0], NamedSharding(mesh, OVER))
    network = jax.device_put(COST[0, 0], NamedSharding(mesh, WHOLE))
    program = jax.jit(loop, donate_argnums=1).lower(network, state).compile().as_text()
    assert collectives(program) == [] and "output_to_operand_aliasing" in program
    assert not re.search(rf" = f32\[{BATCH // len(devices)},(1,)?6\]\S* copy\(", program)


def test_many_dimensions(devices):
    """More than the letters that name them in a sharding rule."""
    operands = [np.ones((BATCH, 1, 2, 1, 3, 2), np.float32)] * 6
    call = partial(nothing, core_dims=[5] * 6)
    over = jax.device_put(operands, NamedSharding(mesh_of(devices), OVER))
    program = jax.jit(call).lower(*over).compile()
    assert collectives(program.as_text()) == []
    assert program(*over).sharding.spec == OVER


def test_what_is_shared_may_be_mapped():
    """Then it is there once for each, beside whatever other dimensions the batch has."""
    how = {"method": "auto", "options": {}, "steps": 0, "platform": "cpu"}
    ends = jnp.zeros(BATCH, jnp.int32), jnp.full(BATCH, 5)
    with jax.default_device(jax.devices("cpu")[0]):
        two = jax.tree.map(lambda x: jnp.stack([x, x]), NETWORK)
        run = jax.vmap(lambda n: native.flow(n, jnp.asarray(CAPACITY), *ends, **how)[0].value)
        expected = jm.maximum_flow(NETWORK, CAPACITY, 0, 5).value
        np.testing.assert_array_equal(jax.jit(run)(two), np.stack([expected, expected]))


def test_it_has_no_derivative():
    with pytest.raises(ValueError, match="`jaxmatch_noop` cannot be differentiated"):
        jax.grad(lambda x: nothing(x, core_dims=[2]).sum())(jnp.asarray(COST))
