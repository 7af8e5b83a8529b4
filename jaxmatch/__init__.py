"""Assignment, matching and flow for JAX: exact solvers inside a compiled training step."""

from importlib import metadata as _metadata

from jaxmatch import estimators as estimators
from jaxmatch import losses as losses
from jaxmatch import stepping as stepping
from jaxmatch._alignment.result import Alignment as Alignment
from jaxmatch._alignment.solve import solve_alignment as solve_alignment
from jaxmatch._assignment.capacity_check import (
    check_capacitated_assignment as check_capacitated_assignment,
)
from jaxmatch._assignment.capacity_points import (
    check_capacitated_assignment_points as check_capacitated_assignment_points,
)
from jaxmatch._assignment.capacity_points import (
    solve_capacitated_assignment_points as solve_capacitated_assignment_points,
)
from jaxmatch._assignment.capacity_solve import (
    solve_capacitated_assignment as solve_capacitated_assignment,
)
from jaxmatch._assignment.certificate import AssignmentCheck as AssignmentCheck
from jaxmatch._assignment.check import check_assignment as check_assignment
from jaxmatch._assignment.solve import linear_sum_assignment as linear_sum_assignment
from jaxmatch._assignment.solve import solve_assignment as solve_assignment
from jaxmatch._assignment_points.check import check_assignment_points as check_assignment_points
from jaxmatch._assignment_points.solve import solve_assignment_points as solve_assignment_points
from jaxmatch._bottleneck.check import check_bottleneck as check_bottleneck
from jaxmatch._bottleneck.result import BottleneckAssignment as BottleneckAssignment
from jaxmatch._bottleneck.result import BottleneckCheck as BottleneckCheck
from jaxmatch._bottleneck.solve import bottleneck_assignment as bottleneck_assignment
from jaxmatch._common.result import Assignment as Assignment
from jaxmatch._common.result import CapacitatedAssignment as CapacitatedAssignment
from jaxmatch._common.result import Flow as Flow
from jaxmatch._common.result import Matching as Matching
from jaxmatch._common.result import MinimumCut as MinimumCut
from jaxmatch._common.result import Transport as Transport
from jaxmatch._common.status import Status as Status
from jaxmatch._ffi.export import export_safety_checks as export_safety_checks
from jaxmatch._flow.check import FlowCheck as FlowCheck
from jaxmatch._flow.check import check_flow as check_flow
from jaxmatch._flow.cut_check import MinimumCutCheck as MinimumCutCheck
from jaxmatch._flow.cut_check import check_minimum_cut as check_minimum_cut
from jaxmatch._flow.methods import FlowOptions as FlowOptions
from jaxmatch._flow.network import FlowNetwork as FlowNetwork
from jaxmatch._flow.solve import maximum_flow as maximum_flow
from jaxmatch._flow.solve import minimum_cut as minimum_cut
from jaxmatch._grid_cut.check import check_grid_cut as check_grid_cut
from jaxmatch._grid_cut.result import GridCut as GridCut
from jaxmatch._grid_cut.solve import grid_cut as grid_cut
from jaxmatch._gromov.result import GromovWasserstein as GromovWasserstein
from jaxmatch._gromov.solve import gromov_wasserstein as gromov_wasserstein
from jaxmatch._k_best.check import KBestCheck as KBestCheck
from jaxmatch._k_best.check import check_k_best as check_k_best
from jaxmatch._k_best.result import KBestAssignments as KBestAssignments
from jaxmatch._k_best.solve import k_best_assignments as k_best_assignments
from jaxmatch._library.libraries import has_cpu_library as has_cpu_library
from jaxmatch._library.libraries import has_cuda_library as has_cuda_library
from jaxmatch._matching.check import MatchingCheck as MatchingCheck
from jaxmatch._matching.check import check_matching as check_matching
from jaxmatch._matching.graph import BipartiteGraph as BipartiteGraph
from jaxmatch._matching.options import MatchingOptions as MatchingOptions
from jaxmatch._matching.solve import maximum_bipartite_matching as maximum_bipartite_matching
from jaxmatch._min_cost_flow.check import check_minimum_cost_flow as check_minimum_cost_flow
from jaxmatch._min_cost_flow.result import MinimumCostFlow as MinimumCostFlow
from jaxmatch._min_cost_flow.result import MinimumCostFlowCheck as MinimumCostFlowCheck
from jaxmatch._min_cost_flow.solve import minimum_cost_flow as minimum_cost_flow
from jaxmatch._quadratic.result import QuadraticAssignment as QuadraticAssignment
from jaxmatch._quadratic.solve import quadratic_assignment as quadratic_assignment
from jaxmatch._show_config import show_config as show_config
from jaxmatch._sparse_assignment.check import (
    check_sparse_assignment as check_sparse_assignment,
)
from jaxmatch._sparse_assignment.scipy_like import (
    min_weight_full_bipartite_matching as min_weight_full_bipartite_matching,
)
from jaxmatch._sparse_assignment.solve import (
    solve_sparse_assignment as solve_sparse_assignment,
)
from jaxmatch._sparse_transport.check import check_sparse_transport as check_sparse_transport
from jaxmatch._sparse_transport.result import SparseTransport as SparseTransport
from jaxmatch._sparse_transport.result import SparseTransportCheck as SparseTransportCheck
from jaxmatch._sparse_transport.solve import solve_sparse_transport as solve_sparse_transport
from jaxmatch._transport.check import check_transport as check_transport
from jaxmatch._transport.check_plan import TransportCheck as TransportCheck
from jaxmatch._transport.points import solve_transport_points as solve_transport_points
from jaxmatch._transport.points_check import check_transport_points as check_transport_points
from jaxmatch._transport.solve import solve_transport as solve_transport
from jaxmatch.estimators import assignment_matrix as assignment_matrix


__all__ = [
    "Alignment",
    "Assignment",
    "AssignmentCheck",
    "BipartiteGraph",
    "BottleneckAssignment",
    "BottleneckCheck",
    "CapacitatedAssignment",
    "Flow",
    "FlowCheck",
    "FlowNetwork",
    "FlowOptions",
    "GridCut",
    "GromovWasserstein",
    "KBestAssignments",
    "KBestCheck",
    "Matching",
    "MatchingCheck",
    "MatchingOptions",
    "MinimumCostFlow",
    "MinimumCostFlowCheck",
    "MinimumCut",
    "MinimumCutCheck",
    "QuadraticAssignment",
    "SparseTransport",
    "SparseTransportCheck",
    "Status",
    "Transport",
    "TransportCheck",
    "assignment_matrix",
    "bottleneck_assignment",
    "check_assignment",
    "check_assignment_points",
    "check_bottleneck",
    "check_capacitated_assignment",
    "check_capacitated_assignment_points",
    "check_flow",
    "check_grid_cut",
    "check_k_best",
    "check_matching",
    "check_minimum_cost_flow",
    "check_minimum_cut",
    "check_sparse_assignment",
    "check_sparse_transport",
    "check_transport",
    "check_transport_points",
    "estimators",
    "export_safety_checks",
    "grid_cut",
    "gromov_wasserstein",
    "has_cpu_library",
    "has_cuda_library",
    "k_best_assignments",
    "linear_sum_assignment",
    "losses",
    "maximum_bipartite_matching",
    "maximum_flow",
    "minimum_cost_flow",
    "minimum_cut",
    "min_weight_full_bipartite_matching",
    "quadratic_assignment",
    "show_config",
    "solve_alignment",
    "solve_assignment",
    "solve_assignment_points",
    "solve_capacitated_assignment",
    "solve_capacitated_assignment_points",
    "solve_sparse_assignment",
    "solve_sparse_transport",
    "solve_transport",
    "solve_transport_points",
    "stepping",
]


try:
    __version__ = _metadata.version("jaxmatch")
except _metadata.PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
