"""`jax.export`: what is exported here, with a symbolic batch, gives its bits in a new process."""

import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT
from export_cases import cases

import jaxmatch as jm
from jaxmatch._ffi import libraries


PROGRAM = ROOT / "tests" / "common" / "programs" / "reload_exported.py"
CASES = cases()

# Public functions of one's own problem that never run on the device, or that make constants.
NOT_EXPORTED = {
    "export_safety_checks", "has_cpu_library", "has_cuda_library",
    "min_weight_full_bipartite_matching",
}  # fmt: skip


def specs(case, symbolic):
    leaves, tree = jax.tree.flatten(case.inputs)
    (b,) = jax.export.symbolic_shape("b")
    shapes = [(b, *x.shape[1:]) if symbolic and k in case.batched else x.shape
              for k, x in enumerate(leaves)]  # fmt: skip
    pairs = zip(shapes, leaves, strict=True)
    return tree.unflatten([jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in pairs])


def exported(name, platform="cpu", symbolic=True):
    case = CASES[name]
    function = jax.jit(lambda *inputs: case.function(*inputs))
    export = jax.export.export(
        function, platforms=[platform], disabled_checks=jm.export_safety_checks()
    )
    return export(*specs(case, symbolic))


def solve(shape, platforms=("cpu",), constraints=(), function=jm.solve_assignment, **options):
    """The exported dense solver for costs of a symbolic shape."""
    shape = jax.export.symbolic_shape(shape, constraints=constraints)
    export = jax.export.export(
        jax.jit(lambda cost: function(cost, **options)),
        platforms=platforms,
        disabled_checks=jm.export_safety_checks(),
    )
    return export(jax.ShapeDtypeStruct(shape, jnp.float32))


def test_every_public_function_is_exported():
    functions = {n for n in jm.__all__ if callable(getattr(jm, n)) and n[0].islower()}
    assert functions - CASES.keys() == NOT_EXPORTED


def test_targets_are_all_that_are_registered():
    checks = {check.is_custom_call() for check in jm.export_safety_checks()}
    assert checks == {target for targets in libraries._TARGETS.values() for target in targets}


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
def test_without_the_checks_jax_refuses():
    cost = jax.ShapeDtypeStruct((2, 3, 4), jnp.float32)
    with pytest.raises(ValueError, match="jaxmatch_assignment"):
        jax.export.export(jax.jit(jm.solve_assignment))(cost)


def test_reloaded_in_a_new_process(tmp_path):
    """With a symbolic batch wherever there is one, results and graphs in the signature."""
    pytest.importorskip("flatbuffers")
    expected = {}
    for name, case in CASES.items():
        program = exported(name)
        (tmp_path / f"{name}.exported").write_bytes(program.serialize())
        (tmp_path / f"{name}.inputs").write_bytes(pickle.dumps(case.inputs))
        expected[name] = program.call(*case.inputs)
    subprocess.run([sys.executable, PROGRAM, tmp_path], check=True)
    for name, result in expected.items():
        tree, leaves = pickle.loads((tmp_path / f"{name}.result").read_bytes())
        assert tree == str(jax.tree.structure(result)), name
        for found, x in zip(leaves, jax.tree.leaves(result), strict=True):
            assert found.dtype == x.dtype and found.shape == x.shape, name
            assert found.tobytes() == np.asarray(x).tobytes(), name


@pytest.mark.parametrize("name", ["solve_assignment", "maximum_flow", "solve_transport"])
def test_same_bits_as_without_export(name):
    case = CASES[name]
    found, result = exported(name).call(*case.inputs), jax.jit(case.function)(*case.inputs)
    jax.tree.map(np.testing.assert_array_equal, found, result)


@pytest.mark.parametrize("name", CASES)
def test_lowers_for_cuda(name):
    """Without a GPU; where there is a CUDA library, to its targets."""
    if name == "AssignmentState" and not libraries.has_cuda_library():
        pytest.skip("has no pure-JAX twin")
    program = exported(name, "cuda", symbolic=bool(CASES[name].batched))
    assert program.platforms == ("cuda",)
    if libraries.has_cuda_library() and name == "solve_assignment":
        assert "jaxmatch_assignment" in program.mlir_module()


def test_large_sides_with_a_symbolic_batch():
    """The choice of a method asks for the batch."""
    assert solve("b, 600, 600", ("cuda",)).platforms == ("cuda",)


# ---------------------------------------------------------------------------------------------
# Symbolic n and m


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
def test_symbolic_sizes_on_the_cpu():
    program, rng = solve("b, n, m"), np.random.default_rng(0)
    for shape in ((2, 3, 4), (1, 5, 2), (3, 30, 30)):
        cost = jnp.asarray(rng.random(shape, np.float32))
        found, result = program.call(cost), jax.jit(jm.solve_assignment)(cost)
        jax.tree.map(np.testing.assert_array_equal, found, result)


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
def test_scipys_function_must_know_the_longer_side():
    cost = jnp.asarray(np.random.default_rng(0).random((3, 5), np.float32))
    options = {"function": jm.linear_sum_assignment}
    found = solve("n, m", constraints=["n <= m"], **options).call(cost)
    jax.tree.map(np.testing.assert_array_equal, found, jm.linear_sum_assignment(cost))
    with pytest.raises(ValueError, match=r"symbolic sizes \(n, m\) of `cost_matrix`.*'n <= m'"):
        solve("n, m", **options)


def test_symbolic_sizes_elsewhere_are_an_error():
    words = r"`cost` has the symbolic sizes \(n, m\).*for each size.*`row_mask`"
    for options in ({"method": "xla"}, {"method": "core"}, {"col_capacity": 2}):
        with pytest.raises(ValueError, match=words):
            solve("n, m", **options)
    with pytest.raises(ValueError, match=words):
        solve("n, m", function=jm.bottleneck_assignment)


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
def test_symbolic_sizes_for_a_gpu_are_an_error():
    with pytest.raises(NotImplementedError, match=r"symbolic.*'cuda'.*for each size"):
        solve("n, m", ("cuda",))


def resized(tree, field):
    """Types of a graph or a network in which one array has a symbolic length."""
    (k,) = jax.export.symbolic_shape("k")
    types = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)
    object.__setattr__(types, field, jax.ShapeDtypeStruct((k,), jnp.int32))
    return types


def test_symbolic_sizes_of_graphs_networks_grids_and_points_are_an_error():
    h, w = jax.export.symbolic_shape("h, w")
    cells = jax.ShapeDtypeStruct((h, w), jnp.float32)
    (graph,), (network, capacity) = (
        CASES[name].inputs for name in ("maximum_bipartite_matching", "maximum_flow")
    )
    flow = lambda n: jm.maximum_flow(n, capacity, 0, 3)  # noqa: E731
    for function, inputs, words in (
        (jm.maximum_bipartite_matching, [resized(graph, "row_ptr")], "`graph.row_ptr`.*`Bip"),
        (flow, [resized(network, "arc_ptr")], "`network.arc_ptr`.*`FlowNetwork.stack`"),
        (lambda x: jm.grid_cut(x, x, x[None]), [cells], "`source_capacity`.*no capacities"),
        (jm.solve_assignment_points, [cells, cells], "`x` has the symbolic sizes"),
        (jm.losses.earth_mover_distance, [cells, cells], "`x_mask`"),
    ):
        with pytest.raises(ValueError, match=words):
            jax.export.export(jax.jit(function))(*inputs)
