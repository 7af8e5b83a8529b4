"""Sharded costs inside everything that JAX does: meshes, gradients, what is exchanged; errors."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, native_calls, to_numpy, x64
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from sharded_helpers import (
    by_each_side,
    each_method,
    mesh_of,
    place,
    sharded,
    some_of_both,
    spec_of,
)

import jaxmatch as jm
from jaxmatch._library import libraries


def permutation_matrix(res, shape):
    expected = np.zeros(shape)
    rows = np.flatnonzero(np.asarray(res.col4row) >= 0)
    expected[rows, np.asarray(res.col4row)[rows]] = 1
    return expected


@by_each_side
def test_meshes(by):
    """Automatic and explicit axes, of one mesh or several dimensions, concrete and traced."""
    cost = np.random.default_rng(4).integers(0, 99, (24, 16)).astype(np.float32)
    spec = spec_of(by)
    expected = sharded(cost, by, 4)
    assert_same_bits(sharded(cost, by, 4, method="core"), expected)  # what "auto" is
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
            assert_same_bits(jax.jit(solve)(cost), expected)  # it is sharded here
        res = jax.jit(lambda c: solve(2 * c), in_shardings=NamedSharding(mesh, spec))
        with jax.set_mesh(mesh):
            np.testing.assert_array_equal(res(placed).col4row, expected.col4row)
    two = Mesh(np.array(jax.devices("cpu")[:4]).reshape(2, 2), ("x", "y"))
    over_two = sharded(cost, by, 2)
    assert_same_bits(solve(jax.device_put(cost, NamedSharding(two, spec))), over_two)
    crossed = jax.device_put(cost, NamedSharding(two, PartitionSpec("y", "x")))
    assert_same_bits(solve(crossed), over_two)  # gathered along the other axis


@some_of_both
def test_within_a_shard_map(method, by):
    """The cost is the device's own part, masks are those of the whole problem."""
    cost = np.random.default_rng(5).random((24, 16), np.float32)
    row_mask = np.arange(24) % 5 != 0
    expected = sharded(cost, by, 4, method=method, row_mask=row_mask)

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

    expected = permutation_matrix(sharded(np.array(cost), by, 4, method=method), cost.shape)
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
    """Devices tell each other of rows and columns, a few zeros of each row, or cores."""
    sharding = NamedSharding(mesh_of(DEVICES), spec_of(by))
    cost = jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32, sharding=sharding)

    def value(cost):
        return jm.solve_assignment(cost, method=method, **{by: "x"}).cost

    reduction, lists = 2 * (8 + 2 * SIDE), 16 * SIDE
    cores = SIDE // DEVICES * 32 * 12 if method == "core" else 0
    # Rows that wait in an auction: an eighth or a 64th of all, with number, horizon and padding.
    packed = [4 + SIDE // DEVICES // part * (32 * 12 + 16) for part in (8, 64) if cores]
    gathered = {("s32", DEVICES * words) for words in (reduction, lists, cores, *packed) if words}
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
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    sharding = NamedSharding(mesh_of(DEVICES), spec_of("col_axis"))
    cost = jax.ShapeDtypeStruct((20, 12), jnp.float32, sharding=sharding)

    @jax.jit
    def solve(cost):
        return jm.solve_assignment(cost, method=method, col_axis="x", col_mask=True, maximize=True)

    with jax.set_mesh(sharding.mesh):
        text = solve.trace(cost).lower(lowering_platforms=("cuda",)).as_text()
    assert set(re.findall(r"custom_call @(jaxmatch_\w+)", text)) == {"jaxmatch_assignment_sharded"}
    name = "auction" if method == "core" else method  # which may hold one
    for call in native_calls(text):
        assert call["present"] == "col_mask device reduction cores lists packed"
        assert call["method"] == name and int(call["devices"]) == DEVICES


# ---------------------------------------------------------------------------------------------
# Errors


OTHERS = {"unmatched_cost": 1.0, "warm_start": np.zeros(8), "steps_per_call": 1, "progress": print}


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
        refuses(f"`{by}`", "from 1 to 262143", "0 rows and 4 columns", cost=empty, **how)
    refuses("`row_mask`", "(5,)", "(8,)", row_mask=np.ones(5, bool))
    refuses("`col_mask`", "(5,)", "(8,)", col_mask=np.ones(5, bool))
    refuses("`col_mask`", "boolean", "int32", error=TypeError, col_mask=np.ones(8, np.int32))
    with x64(True):
        long = place(np.ones((8, 8), np.int64), "row_axis", mesh_of(4))
        refuses("int32", "`row_axis`", "int64", cost=long)


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
    assert f"`{by}`" in message and "262143" in message and "262144 rows and 4 columns" in message


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
def test_check_of_sharded_costs(by, n, m, monkeypatch):
    """The same as of costs that are not, also by blocks of rows of which the last ones overlap."""
    monkeypatch.setattr("jaxmatch._common.blocks._ON_DEVICE", 5 * m)
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
