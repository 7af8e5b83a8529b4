"""One assignment whose costs are divided over devices: exact arithmetic, scipy, and one device."""

import math
import re

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import prove
from helpers import (
    assert_checked,
    assert_failed,
    assert_inverse,
    assert_proved,
    assert_same_bits,
    native_calls,
    to_numpy,
    x64,
)
from hypothesis import given, settings
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from oracles import brute_force, scipy_optimum
from test_assignment_families import batch, families, few_roundings, hidden
from test_assignment_features import hide
from test_core_structured import KINDS, assert_optimal, costs, moved_classes, solved_in_steps

import jaxmatch as jm
from jaxmatch import _native


METHODS = ["core", "classical", "tree"]
SIDES = ["row_axis", "col_axis"]
DTYPES = [("bfloat16", False), ("float16", True), ("float32", False), ("float32", True)]
DTYPES += [("float64", True), ("int32", True)]

pytestmark = pytest.mark.usefixtures("compile_quickly")
each_method = pytest.mark.parametrize("method", METHODS)
by_each_side = pytest.mark.parametrize("by", SIDES)
some_of_both = pytest.mark.parametrize("method, by", [
    ("core", "row_axis"), ("core", "col_axis"), ("classical", "row_axis"), ("tree", "col_axis"),
])  # fmt: skip


def mesh_of(devices, axis_type=AxisType.Auto):
    return Mesh(np.array(jax.devices("cpu")[:devices]), ("x",), axis_types=(axis_type,))


def spec_of(by):
    return PartitionSpec("x", None) if by == "row_axis" else PartitionSpec(None, "x")


def place(cost, by, mesh):
    return jax.device_put(cost, NamedSharding(mesh, spec_of(by)))


def divided(cost, by, devices, **how):
    return jm.solve_assignment(place(cost, by, mesh_of(devices)), **{by: "x"}, **how)


def permutation_matrix(res, shape):
    expected = np.zeros(shape)
    rows = np.flatnonzero(np.asarray(res.col4row) >= 0)
    expected[rows, np.asarray(res.col4row)[rows]] = 1
    return expected


# ---------------------------------------------------------------------------------------------
# Solutions


@by_each_side
@each_method
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_family(dtype, wide, method, by):
    """Ties, denormals, 1e30, ranges that no grid holds."""
    turn = DTYPES.index((dtype, wide)) + METHODS.index(method)
    shape = [(12, 12), (12, 24), (24, 12)][turn % 3]
    devices, maximize = 1 + (turn + 2 * SIDES.index(by)) % 4, turn % 2 == 0
    exact, spread = families(dtype)
    for family, is_exact in ((exact, True), (spread, False)):
        if not family:
            continue
        problems = batch(family, dtype, shape, maximize)
        provable = is_exact and wide
        with x64(wide):
            each = [divided(c, by, devices, method=method, maximize=maximize) for c in problems]
            res = jax.tree.map(lambda *x: np.stack(x), *to_numpy(each))
            assert res.cost.dtype == (np.float64 if wide else np.float32)
            assert_proved(problems, res, exact=provable, maximize=maximize)
            most = 0 if is_exact else 4 * few_roundings(problems)
            claimed = dict(zip(family, res.gap, strict=True))
            assert (res.gap <= most).all(), claimed
            most = most + hidden(problems, wide)
            if not provable:
                duals = abs(res.col_dual).max(-1) + abs(res.row_dual).max(-1)
                most += 4 * sum(shape) * np.finfo(duals.dtype).eps * duals
            assert_checked(problems, res, 24, most=most, block=24, maximize=maximize)


@by_each_side
@each_method
@pytest.mark.parametrize("devices", [3, 4])
def test_masks(devices, method, by):
    """Prefixes, windows and scattered entries, that turn which side is longer and leave parts of
    the costs, or all of them, without an entry; what is masked may be anything."""
    shape = (24, 36)
    rng = np.random.default_rng([devices, METHODS.index(method)])

    def patterns(size):
        at = np.arange(size)
        scattered = rng.random(size) < 0.6
        return [at < size // 3, at >= size // 2, at % 3 != 1, scattered, at == 11, at < 0, at >= 0]

    rows, cols = (patterns(size) for size in shape)
    masks = [(r, c) for r in rows for c in cols] + [(r, None) for r in rows]
    masks += [(None, c) for c in cols]
    maximize = devices == 3
    for row_mask, col_mask in masks[devices - 3 :: 4]:
        given = {"row_mask": row_mask, "col_mask": col_mask}
        given = {name: mask for name, mask in given.items() if mask is not None}
        cost = rng.integers(-40, 40, shape).astype(np.float32)
        cost[rng.random(shape) < 0.2] = -np.inf if maximize else np.inf
        cost = hide(rng, cost, row_mask, col_mask)
        res = divided(cost, by, devices, method=method, maximize=maximize, **given)
        optimum = scipy_optimum(cost, maximize, **given)
        if optimum is None:
            assert_failed(res, jm.Status.INFEASIBLE)
            continue
        one = jax.tree.map(lambda x: x[None], (to_numpy(res), given))
        assert assert_proved(cost[None], one[0], maximize=maximize, **one[1]) == [optimum]
        assert_checked(cost[None], one[0], 36, block=1, maximize=maximize, **one[1])


@by_each_side
@each_method
def test_statuses(method, by):
    rng = np.random.default_rng(1)
    inf, nan, cost = np.inf, np.nan, rng.random((12, 12)).astype(np.float32)

    def status(cost, expected, devices=4):
        for sign, maximize in ((1, False), (-1, True)):
            res = divided(sign * cost, by, devices, method=method, maximize=maximize)
            assert int(res.status) == expected
            if expected != jm.Status.OPTIMAL:
                assert_failed(res, expected)

    for at in [(0, 0), (4, 7), (11, 11)]:  # whichever device has it
        for wrong in (nan, -inf):
            bad = cost.copy()
            bad[at] = wrong
            status(bad, jm.Status.INVALID_COST)
        for where in ((at[0], slice(None)), (slice(None), at[1])):
            bad = cost.copy()
            bad[where] = inf
            status(bad, jm.Status.INFEASIBLE)
    status(np.full((12, 12), inf, np.float32), jm.Status.INFEASIBLE)
    # Rows with too few columns between them (Hall), found out after a search.
    hall = rng.random((60, 60)).astype(np.float32)
    hall[:31, 30:] = inf
    status(hall, jm.Status.INFEASIBLE, 3)
    hall[30, 59] = 1
    status(hall, jm.Status.OPTIMAL, 3)
    hall[0, 0] = nan  # told first
    status(hall, jm.Status.INVALID_COST, 3)


def beyond_the_grid():
    """Costs with which prices come to many times the greatest of them: too much for the grid."""
    rng = np.random.default_rng(0)
    cost = np.where(rng.random((12, 12)) < 0.25, rng.choice([-1e30, 1e30], (12, 12)), np.inf)
    cost[np.arange(12), rng.permutation(12)] = 1e30 * rng.random(12)
    return cost


@some_of_both
def test_walls_do_not_blunt_the_rest(method, by):
    """The grid is cut far above what columns cost at least, and where that was too low, coarser."""
    rng = np.random.default_rng(8)
    for wall in (1e9, 1e30):
        walled = np.where(rng.random((40, 40)) < 0.5, wall, rng.random((40, 40))).astype("f4")
        other = to_numpy(jm.solve_assignment(walled, method="jonker_volgenant"))
        res = to_numpy(divided(walled, by, 4, method=method))
        assert (res.status, res.gap, res.cost) == (jm.Status.OPTIMAL, 0, other.cost)
        walled[3] = wall  # now somebody has to
        other = to_numpy(jm.solve_assignment(walled, method="jonker_volgenant"))
        res = to_numpy(divided(walled, by, 4, method=method))
        assert res.status == jm.Status.OPTIMAL and res.gap <= 1e-10 * wall
        assert abs(res.cost - other.cost) <= res.gap + other.gap
    most = np.finfo(np.float64).max
    wide = [most / 64 * rng.random((40, 40)), np.full((40, 40), 5e-324), most * np.eye(40)]
    for cost in (*wide, beyond_the_grid()):
        with x64(True):
            res = to_numpy(divided(cost, by, 4, method=method))
            assert res.status == jm.Status.OPTIMAL
            np.testing.assert_allclose(res.cost, float(scipy_optimum(cost)), rtol=1e-12)


@some_of_both
@pytest.mark.parametrize("shape", [(132, 132), (120, 140), (140, 124)], ids=str)
def test_structured_costs(shape, method, by):
    """Where the first candidates mislead. Cores that lead nowhere are left to the trees."""
    with x64(True):
        for kind in KINDS if method == "core" and by == "col_axis" else KINDS[shape[1] % 3 :: 3]:
            if method == "classical" and "products" in kind:
                continue  # it tells of all zeros again for each of n² / 2 updates
            cost = costs(kind, *shape)
            assert_optimal(cost, divided(cost, by, 4, method=method))
        for seed in (2, 4, 16) if method == "core" and shape == (132, 132) else ():
            cost = moved_classes(seed).astype(np.int32)
            assert_optimal(cost, divided(cost, by, 4))


@by_each_side
def test_integers_that_a_float_does_not_hold(by):
    cost = 2**24 + 1 + np.add.outer(np.arange(8), np.arange(8)).astype(np.int32) % 8
    cost[range(8), range(8)] = 2**24 + 1
    with x64(True):
        for method in METHODS:
            res = divided(cost, by, 4, method=method)
            assert (float(res.cost), float(res.gap)) == (8 * (2**24 + 1), 0)


always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=60)
numbers = st.integers(-9, 9).map(float)
shapes = st.sampled_from([(4, 4), (4, 8), (8, 4)])


@always_the_same
@given(
    shapes.flatmap(
        lambda s: hnp.arrays(np.float32, s, elements=st.one_of(numbers, numbers, st.just(np.inf)))
    ),
    st.sampled_from(METHODS), st.sampled_from(SIDES), st.sampled_from([2, 4]),
)  # fmt: skip
def test_agrees_with_exhaustive_search(cost, method, by, devices):
    res = to_numpy(divided(cost, by, devices, method=method))
    optimum = brute_force(cost) if max(cost.shape) < 8 else scipy_optimum(cost)
    if optimum is None:
        assert_failed(res, jm.Status.INFEASIBLE)
        return
    assert_inverse(res.col4row, res.row4col)
    assert prove(cost, res.col4row, res.col_dual) == (optimum, 0)
    assert (res.status, res.cost, res.gap) == (jm.Status.OPTIMAL, optimum, 0)


# ---------------------------------------------------------------------------------------------
# The same bits


@each_method
@pytest.mark.parametrize("shape", [(132, 132), (84, 156)], ids=str)
def test_same_bits_as_on_one_device(shape, method):
    """Where rows are divided and are not the longer side."""
    rng = np.random.default_rng(3)
    many = [costs(kind, *shape) for kind in KINDS]
    many += [rng.integers(-(2**31), 2**31, shape).astype(np.int32), rng.random(shape, np.float32)]
    many += [np.where(rng.random(shape) < 0.7, np.inf, many[-1]).astype("f4")]
    many += [(rng.random(shape) * 2.0 ** rng.integers(-60, 60, shape)).astype("f4")]
    for k, cost in enumerate(many):
        if (k + (shape[0] == 84)) % 2 and method != "core":
            continue  # enough is enough
        if method == "classical" and k < len(KINDS) and "products" in KINDS[k]:
            continue
        one = jm.solve_assignment(cost, method=method)
        assert_same_bits(divided(cost, "row_axis", 2 + k % 3, method=method), one)


def test_trees_end_what_cores_cannot():
    """Bit for bit as on one device, whose state tells."""
    cost = costs("products", 132, 140)
    state = solved_in_steps(cost)
    assert int(state.dense_phases) > 0
    assert_same_bits(divided(cost, "row_axis", 4), state.result)


@some_of_both
def test_same_bits_again(method, by):
    cost = costs("random products" if method == "core" else "clusters", 132, 140)
    first = divided(cost, by, 4, method=method)
    for _ in range(3):
        assert_same_bits(divided(cost, by, 4, method=method), first)


# ---------------------------------------------------------------------------------------------
# A citizen of JAX


@by_each_side
def test_meshes(by):
    """Automatic and explicit axes, of one mesh or several dimensions, concrete and traced."""
    cost = np.random.default_rng(4).integers(0, 99, (24, 16)).astype(np.float32)
    spec = spec_of(by)
    expected = divided(cost, by, 4)
    assert_same_bits(divided(cost, by, 4, method="core"), expected)  # what "auto" is
    assert expected.col4row.sharding.is_fully_replicated

    def solve(cost):
        return jm.solve_assignment(cost, **{by: "x"})

    for axis_type in (AxisType.Auto, AxisType.Explicit):
        mesh = mesh_of(4, axis_type)
        placed = place(cost, by, mesh)
        assert_same_bits(solve(placed), expected)
        with jax.set_mesh(mesh):
            for program in (solve, jax.jit(solve)):
                assert_same_bits(program(placed), expected)
            assert_same_bits(jax.jit(solve)(cost), expected)  # it is divided here
        res = jax.jit(lambda c: solve(2 * c), in_shardings=NamedSharding(mesh, spec))
        with jax.set_mesh(mesh):
            np.testing.assert_array_equal(res(placed).col4row, expected.col4row)
    two = Mesh(np.array(jax.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
    over_two = divided(cost, by, 2)
    assert_same_bits(solve(jax.device_put(cost, NamedSharding(two, spec))), over_two)
    crossed = jax.device_put(cost, NamedSharding(two, PartitionSpec("y", "x")))
    assert_same_bits(solve(crossed), over_two)  # gathered along the other axis


@some_of_both
def test_within_a_shard_map(method, by):
    """The cost is the device's own part, masks are those of the whole problem."""
    cost = np.random.default_rng(5).random((24, 16), np.float32)
    row_mask = np.arange(24) % 5 != 0
    expected = divided(cost, by, 4, method=method, row_mask=row_mask)

    def solve(part, row_mask):
        return jm.solve_assignment(part, method=method, row_mask=row_mask, **{by: "x"})

    mesh, everywhere = mesh_of(4), PartitionSpec()
    inside = jax.shard_map(
        solve, mesh=mesh, in_specs=(spec_of(by), everywhere), out_specs=everywhere, check_vma=True
    )
    assert_same_bits(jax.jit(inside)(cost, row_mask), expected)
    gradient = jax.jit(jax.grad(lambda c: 3 * inside(c, row_mask).cost))(place(cost, by, mesh))
    np.testing.assert_array_equal(gradient, 3 * permutation_matrix(expected, cost.shape))


@some_of_both
def test_gradient(method, by):
    """The permutation matrix, which lies as the costs do, whatever the mesh."""
    rng = np.random.default_rng(6)
    dtype = jnp.bfloat16 if by == "col_axis" else jnp.float32
    mesh = mesh_of(4, AxisType.Explicit if method != "core" else AxisType.Auto)
    cost, along = (place(jnp.asarray(rng.random((16, 24)), dtype), by, mesh) for _ in range(2))

    def value(cost, scale=1):
        return scale * jm.solve_assignment(cost, method=method, **{by: "x"}).cost

    expected = permutation_matrix(divided(np.array(cost), by, 4, method=method), cost.shape)
    with jax.set_mesh(mesh):
        differentiate = jax.grad(value)
        for gradient in (differentiate(cost), jax.jit(differentiate)(cost)):
            np.testing.assert_array_equal(gradient, expected)
            assert gradient.dtype == dtype
            assert gradient.sharding.is_equivalent_to(cost.sharding, 2)
        primal, dot = jax.jvp(value, (cost,), (along,))
        assert (primal, primal.dtype) == (value(cost), dot.dtype)
        np.testing.assert_allclose(dot, (np.asarray(along, "f8") * expected).sum(), rtol=1e-2)
        forbidden = np.array(cost)
        forbidden[3] = np.inf
        forbidden = place(forbidden, by, mesh)
        for scale in (1, np.nan):  # what a loss sends back where the value is NaN
            np.testing.assert_array_equal(differentiate(forbidden, scale), 0)
        assert jax.jvp(value, (forbidden,), (along,))[1] == 0


OPERATION = re.compile(
    r" = (?P<type>.*?) (?P<name>all-gather|all-reduce|all-to-all|reduce-scatter|"
    r"collective-permute|collective-broadcast)(-start)?\("
)
SIDE, DEVICES = 1024, 4


def exchanged(compiled):
    """What a compiled program exchanges: dtypes and numbers of entries, by operation."""
    found = {}
    for line in compiled.as_text().splitlines():
        if match := OPERATION.search(line):
            for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", match["type"]):
                size = math.prod(int(d) for d in dims.split(",") if d)
                found.setdefault(match["name"], set()).add((dtype, size))
    return found


@some_of_both
def test_costs_stay_where_they_are(method, by):
    """Devices tell each other of rows and columns, a few zeros of each row, cores, or bits."""
    sharding = NamedSharding(mesh_of(DEVICES), spec_of(by))
    cost = jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32, sharding=sharding)

    def value(cost):
        return jm.solve_assignment(cost, method=method, **{by: "x"}).cost

    mail, zeros = 2 * (8 + 2 * SIDE), SIDE // DEVICES * SIDE // 32
    cores = SIDE // DEVICES * 32 * 12 if method == "core" else 0
    mail += 16 * SIDE * (method != "core")
    gathered = {("s32", DEVICES * words) for words in (mail, zeros, cores) if words}
    assert max(size for _, size in gathered) < SIDE * SIDE / 2
    with jax.set_mesh(sharding.mesh):
        for function, reduced in [
            (value, set()),
            (jax.value_and_grad(value), set()),
            (lambda c: jax.jvp(value, (c,), (c,)), {("f32", 1)}),
        ]:
            compiled = jax.jit(function).lower(cost).compile()
            expected = {"all-gather": gathered} | ({"all-reduce": reduced} if reduced else {})
            assert exchanged(compiled) == expected
            if method != "core":  # whose cores are larger than these costs
                copied = compiled.memory_analysis().temp_size_in_bytes
                assert copied < 4 * SIDE * SIDE // DEVICES


@each_method
def test_lowers_for_cuda(method, monkeypatch):
    monkeypatch.setattr(_native, "has_cuda_library", lambda: True)
    sharding = NamedSharding(mesh_of(DEVICES), spec_of("col_axis"))
    cost = jax.ShapeDtypeStruct((20, 12), jnp.float32, sharding=sharding)

    @jax.jit
    def solve(cost):
        return jm.solve_assignment(cost, method=method, col_axis="x", col_mask=True, maximize=True)

    with jax.set_mesh(sharding.mesh):
        text = solve.trace(cost).lower(lowering_platforms=("cuda",)).as_text()
    assert set(re.findall(r"custom_call @(jaxmatch_\w+)", text)) == {"jaxmatch_assignment_divided"}
    for call in native_calls(text):
        assert int(call["given"]) == 2 and int(call["devices"]) == DEVICES
        assert int(call["method"]) == METHODS.index(method)


# ---------------------------------------------------------------------------------------------
# Errors


OTHERS = {"unmatched_cost": 1.0, "warm_start": np.zeros(8), "rounds_per_call": 1, "progress": print}


def test_what_is_not_taken_is_said():
    """An error names the argument, what was got, and what to do."""
    cost = place(np.ones((8, 8), np.float32), "row_axis", mesh_of(4))

    def refuses(*parts, cost=cost, error=ValueError, **how):
        with pytest.raises(error) as caught:
            jm.solve_assignment(cost, **({"row_axis": "x"} | how))
        for part in parts:
            assert part in str(caught.value)

    refuses("`row_axis='x'`", "`col_axis='y'`", "rows or by columns", col_axis="y")
    for name, x in OTHERS.items():
        refuses(f"`{name}`", "`row_axis`", "leave it out", **{name: x})
    refuses("`row_axis`", "'z'", "jax.device_put", "jax.set_mesh", row_axis="z")
    refuses(
        "`col_axis`", "'x'", "jax.device_put", cost=np.ones((4, 4)), row_axis=None, col_axis="x"
    )
    refuses("`row_axis`", "[2, 8, 8]", "batch dimension", cost=jnp.stack([cost, cost]))
    for method in ("xla", "jonker_volgenant", "best"):
        refuses("`method`", "'core', 'classical', 'tree'", repr(method), method=method)
    for by, what in (("row_axis", ("rows", "`row_mask`")), ("col_axis", ("columns", "`col_mask`"))):
        uneven = jax.device_put(np.ones((6, 6)), NamedSharding(mesh_of(4), PartitionSpec()))
        how = {"row_axis": None, by: "x"}
        refuses(*what, "4 devices", "'x'", "got 6", "pad them", cost=uneven, **how)
        empty = jax.device_put(np.ones((0, 4)), NamedSharding(mesh_of(4), PartitionSpec()))
        refuses(f"`{by}`", "from 1 to 2^18 - 1", "[0, 4]", cost=empty, **how)
    refuses("`row_mask`", "(5,)", "(8,)", row_mask=np.ones(5, bool))
    refuses("`col_mask`", "(5,)", "(8,)", col_mask=np.ones(5, bool))
    refuses("`col_mask`", "boolean", "int32", error=TypeError, col_mask=np.ones(8, np.int32))
    with x64(True):
        long = place(np.ones((8, 8), np.int64), "row_axis", mesh_of(4))
        refuses("32-bit", "`row_axis`", "int64[8, 8]", cost=long)


@by_each_side
def test_what_is_too_large_is_said(by):
    def refused(shape, mesh):
        with jax.sharding.use_abstract_mesh(mesh), pytest.raises(ValueError) as caught:
            cost = jax.ShapeDtypeStruct(shape, jnp.float32)
            jax.eval_shape(lambda c: jm.solve_assignment(c, **{by: "x"}), cost)
        return str(caught.value)

    message = refused((66, 66), AbstractMesh((33,), ("x",)))
    assert f"`{by}`" in message and "at most 32 devices, got 33" in message
    message = refused((2**18, 4), AbstractMesh((4,), ("x",)))
    assert f"`{by}`" in message and "2^18 - 1" in message and "[262144, 4]" in message


@by_each_side
def test_sides_are_those_of_the_whole_problem(by):
    """Within a shard_map, too."""
    parts = jax.ShapeDtypeStruct((2**18, 4) if by == "row_axis" else (4, 2**18), jnp.float32)
    with jax.set_mesh(mesh_of(4)), pytest.raises(ValueError, match="262144"):
        jax.eval_shape(
            jax.shard_map(
                lambda c: jm.solve_assignment(c, **{by: "x"}),
                in_specs=spec_of(by),
                out_specs=PartitionSpec(),
            ),
            parts,
        )


# ---------------------------------------------------------------------------------------------
# The certificate


@by_each_side
@pytest.mark.parametrize("n, m", [(16, 24), (24, 16)])
def test_check_of_divided_costs(by, n, m, monkeypatch):
    """The same as of costs that are not, also by blocks of rows of which the last ones overlap."""
    monkeypatch.setattr("jaxmatch._divided_check._MOST_ENTRIES", 5 * m)
    cost = (np.random.default_rng(0).random((n, m)) * 2**28).astype(np.float32)
    placed = place(cost, by, mesh_of(4))
    res = to_numpy(jm.solve_assignment(placed, **{by: "x"}))
    worse = {"col4row": np.roll(res.col4row, 1), "row4col": np.full(m, -1, np.int32)}
    matched = np.flatnonzero(worse["col4row"] >= 0)
    worse["row4col"][worse["col4row"][matched]] = matched
    broken = {"col4row": np.where(np.arange(n) == 3, 1, res.col4row)}
    for claimed in (res, res.replace(**worse), res.replace(**broken)):
        found = jm.check_assignment(placed, claimed, **{by: "x"})
        assert_same_bits(found, jm.check_assignment(cost, claimed))
    with pytest.raises(ValueError, match="`unmatched_cost` does not go"):
        jm.check_assignment(placed, res, unmatched_cost=1.0, **{by: "x"})
    with pytest.raises(ValueError, match=r"`result.col_dual` must have shape"):
        jm.check_assignment(placed, res.replace(col_dual=res.col_dual[1:]), **{by: "x"})


def test_one_after_another_under_vmap():
    cost = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    with jax.set_mesh(mesh_of(4)):
        found = jax.jit(jax.vmap(lambda c: jm.solve_assignment(c, row_axis="x").cost))(cost)
    np.testing.assert_array_equal(found, jm.solve_assignment(cost).cost)


def test_different_problems_along_another_axis():
    """Rows over one axis of a mesh, problems over the other, all axes in one `shard_map`."""
    cost = np.random.default_rng(0).random((2, 8, 10)).astype(np.float32)
    mesh = jax.make_mesh((2, 2), ("data", "x"), axis_types=(AxisType.Auto,) * 2)
    solve = jax.shard_map(
        lambda c: jm.solve_assignment(c[0], row_axis="x").cost[None],
        mesh=mesh,
        in_specs=PartitionSpec("data", "x"),
        out_specs=PartitionSpec("data"),
    )
    np.testing.assert_array_equal(solve(cost), jm.solve_assignment(cost).cost)
