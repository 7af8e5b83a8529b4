"""`jax.export`: what is exported here, with symbolic sizes, gives its bits in a new process."""

import pickle
import subprocess
import sys
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT
from export_cases import Case, cases, exported
from helpers import assert_same_bits

import jaxmatch as jm
from jaxmatch._library import libraries


PROGRAM = ROOT / "tests" / "common" / "programs" / "reload_exported.py"

# Public functions that never run on the device, or that make constants.
NOT_EXPORTED = {
    "export_safety_checks", "has_cpu_library", "has_cuda_library", "show_config",
    "min_weight_full_bipartite_matching",
}  # fmt: skip

needs_library = pytest.mark.skipif(
    not jm.has_cpu_library(), reason="needs the native library, as symbolic sizes do"
)

the_cases = lru_cache(cases)


def solve(shape, platform="cpu", constraints=(), function=jm.solve_assignment, **options):
    """The exported dense solver for costs of a symbolic shape."""
    shape = jax.export.symbolic_shape(shape, constraints=constraints)
    case = Case(partial(function, **options), ())
    return exported(case, jax.ShapeDtypeStruct(shape, jnp.float32), platform=platform)


def test_every_public_function_is_exported():
    functions = {n for n in jm.__all__ if callable(getattr(jm, n)) and n[0].islower()}
    assert functions - the_cases().keys() == NOT_EXPORTED


def test_targets_are_all_that_are_registered():
    checks = {check.is_custom_call() for check in jm.export_safety_checks()}
    assert checks == {target for targets in libraries._TARGETS.values() for target in targets}


@needs_library
def test_without_the_checks_jax_refuses():
    cost = jax.ShapeDtypeStruct((2, 3, 4), jnp.float32)
    with pytest.raises(ValueError, match="jaxmatch_assignment"):
        jax.export.export(jax.jit(jm.solve_assignment))(cost)


@needs_library
def test_reloaded_in_a_new_process(tmp_path):
    """With symbolic sizes wherever there are any, results and graphs in the signature."""
    pytest.importorskip("flatbuffers")
    expected = {}
    for name, case in the_cases().items():
        program = exported(case)
        (tmp_path / f"{name}.exported").write_bytes(program.serialize())
        (tmp_path / f"{name}.inputs").write_bytes(pickle.dumps(case.inputs))
        expected[name] = jax.tree.map(np.asarray, program.call(*case.inputs))
    subprocess.run([sys.executable, PROGRAM, tmp_path], check=True)
    for name, result in expected.items():
        tree, leaves = pickle.loads((tmp_path / f"{name}.result").read_bytes())
        assert tree == str(jax.tree.structure(result)), name
        assert_same_bits(leaves, result)


@needs_library
def test_as_many_pairs_as_possible_of_symbolic_graphs():
    found = the_cases()
    for name in ("solve_sparse_assignment", "check_sparse_assignment"):
        _, *rest = found[name]
        case = Case(partial(getattr(jm, name), cardinality="maximum"), *rest)
        assert_same_bits(exported(case).call(*case.inputs), jax.jit(case.function)(*case.inputs))


@needs_library
@pytest.mark.parametrize(
    "name", ["check_assignment", "maximum_flow", "gradients", "solve_sparse_assignment"]
)
def test_same_bits_as_without_export(name):
    case = the_cases()[name]
    assert_same_bits(exported(case).call(*case.inputs), jax.jit(case.function)(*case.inputs))


# ---------------------------------------------------------------------------------------------
# Symbolic n and m


@needs_library
def test_one_program_for_several_sizes():
    program, rng = solve("b, n, m"), np.random.default_rng(0)
    for shape in ((2, 3, 4), (1, 5, 2), (3, 30, 30)):
        cost = jnp.asarray(rng.random(shape, np.float32))
        assert_same_bits(program.call(cost), jax.jit(jm.solve_assignment)(cost))


@needs_library
def test_scipys_function_must_know_the_longer_side():
    function = jm.linear_sum_assignment
    with pytest.raises(ValueError, match=r"symbolic sizes \(n, m\) of `cost_matrix`.*'n <= m'"):
        solve("n, m", function=function)
    program = solve("n, m", constraints=["m <= n - 1"], function=function)
    cost = jnp.asarray(np.random.default_rng(0).random((5, 3), np.float32))
    assert_same_bits(program.call(cost), function(cost))


def test_methods_that_need_sizes_say_what_to_do():
    words = r"`cost` has the symbolic sizes \(n, m\).*for each size.*`row_mask`"
    for options in (
        {"method": "xla"},
        {"method": "core"},
        {"function": jm.solve_capacitated_assignment, "col_capacity": 2},
    ):
        with pytest.raises(ValueError, match=words):
            solve("n, m", **options)


@needs_library
def test_symbolic_sizes_for_a_gpu_are_an_error():
    with pytest.raises(ValueError, match=r"symbolic.*'cuda'.*for each size"):
        solve("n, m", "cuda")


def test_symbolic_sizes_of_grids_points_and_twins_are_an_error():
    found = the_cases()
    h, w = jax.export.symbolic_shape("h, w")
    cells = jax.ShapeDtypeStruct((h, w), jnp.float32)
    match = partial(jm.maximum_bipartite_matching, method="xla")
    graph = Case(match, *found["maximum_bipartite_matching"][1:])
    for case, types, words in (
        (Case(lambda x: jm.grid_cut(x, x, x[None]), ()), [cells], "`source_capacity`.*no capac"),
        (Case(jm.solve_assignment_points, ()), [cells, cells], "`x` has the symbolic sizes"),
        (Case(jm.losses.earth_mover_distance, ()), [cells, cells], "`x_mask`"),
        (graph, graph.types(), r"symbolic sizes \(n, m, e\).*default method"),
    ):
        with pytest.raises(ValueError, match=words):
            exported(case, *types)
