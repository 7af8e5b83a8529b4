"""`jax.export` for CUDA, without a GPU: the native targets, with a symbolic batch."""

import pytest
from export_cases import cases, exported

import jaxmatch as jm
from jaxmatch._library import libraries


pytestmark = pytest.mark.skipif(
    not jm.has_cpu_library(), reason="nothing tells the sizes of buffers"
)

# A case for each native target of CUDA.
ON_CUDA = {
    "jaxmatch_assignment": "solve_assignment",
    "jaxmatch_assignment_core": "stepping",
    "jaxmatch_flow": "maximum_flow",
    "jaxmatch_grid_cut": "grid_cut",
    "jaxmatch_k_best": "k_best_assignments",
    "jaxmatch_matching": "maximum_bipartite_matching",
    "jaxmatch_min_cost_flow": "minimum_cost_flow",
    "jaxmatch_near_pairs": "radius",
    "jaxmatch_perturbed_assignment": "Perturbed",
    "jaxmatch_perturbed_jvp": "Perturbed",
    "jaxmatch_sparse_assignment": "solve_sparse_assignment",
    "jaxmatch_transport": "solve_transport",
    "jaxmatch_transport_points": "solve_transport_points",
}

WITHOUT_A_BATCH = (
    "Perturbed",  # the kernels are told how many samples fit the memory
    "maximum_bipartite_matching",
    "radius",
)
# One needs a mesh, another thousands of points: see tests/assignment/test_points_by_levels.py.
NOT_HERE = {"jaxmatch_assignment_sharded", "jaxmatch_nearest", "jaxmatch_noop"}


@pytest.fixture(scope="module")
def all_cases():
    """As if there were a CUDA library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libraries, "has_cuda_library", lambda: True)
        yield cases()


def test_all_targets_are_here():
    assert {*libraries._TARGETS["CUDA"]} == ON_CUDA.keys() | NOT_HERE


@pytest.mark.parametrize("target", ON_CUDA)
def test_lowers_for_cuda(target, all_cases):
    name = ON_CUDA[target]
    case = all_cases[name]._replace(symbols={} if name in WITHOUT_A_BATCH else {19: "b"})
    program = exported(case, *case.types(), platform="cuda")
    assert program.platforms == ("cuda",)
    assert f"@{target}(" in program.mlir_module()
