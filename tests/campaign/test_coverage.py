"""What is public, and the solver of the campaign that calls it, or why there is none."""

import importlib

import pytest

from campaign.solvers import SOLVERS


CALLED = {
    "jaxmatch": {
        "assignment_matrix": "Identity",
        "bottleneck_assignment": "bottleneck",
        "check_assignment": "assignment checked",
        "check_assignment_points": "points checked",
        "check_bottleneck": "bottleneck checked",
        "check_capacitated_assignment": "capacities checked",
        "check_flow": "flow checked",
        "check_grid_cut": "grid cut checked",
        "check_matching": "matching checked",
        "check_minimum_cost_flow": "minimum cost flow checked",
        "check_minimum_cut": "minimum cut checked",
        "check_sparse_assignment": "sparse checked",
        "check_transport": "transport checked",
        "check_transport_points": "points of masses checked",
        "grid_cut": "grid cut",
        "k_best_assignments": "k best",
        "linear_sum_assignment": "scipy",
        "maximum_bipartite_matching": "matching/auto",
        "maximum_flow": "flow/auto",
        "min_weight_full_bipartite_matching": "as scipy's sparse",
        "minimum_cost_flow": "minimum cost flow/auto",
        "minimum_cut": "minimum cut",
        "solve_assignment": "assignment",
        "solve_capacitated_assignment": "capacities",
        "solve_assignment_points": "points",
        "solve_sparse_assignment": "sparse",
        "solve_transport": "transport",
        "solve_transport_points": "points of masses",
    },
    "jaxmatch.losses": {
        "DetectionCriterion": "DetectionCriterion",
        "earth_mover_distance": "earth_mover_distance",
        "fenchel_young_loss": "fenchel_young_loss",
        "histogram_distance": "histogram_distance",
        "hungarian_loss": "hungarian_loss",
        "hungarian_matching": "hungarian_loss",
        "matched_loss": "hungarian_loss",
        "gather_matched": "hungarian_loss",
        "permutation_invariant_loss": "permutation_invariant_loss",
        "perturbation_gradient_loss": "perturbation_gradient_loss",
        "regret": "regret",
        "spo_plus_loss": "spo_plus_loss",
        "wasserstein_1d": "wasserstein_1d",
    },
    "jaxmatch.estimators": {
        "AdaptiveImplicitMLE": "AdaptiveImplicitMLE",
        "Blackbox": "Blackbox",
        "Entropic": "Entropic",
        "Identity": "Identity",
        "ImplicitMLE": "ImplicitMLE",
        "Perturbed": "Perturbed",
        "assignment_matrix": "Identity",
        "assignment_oracle": "spo_plus_loss",
        "cut_oracle": "cut_oracle",
        "labelling_oracle": "labelling_oracle",
    },
}
NOT_CALLED = {
    # They solve nothing.
    "jaxmatch": {"estimators", "losses", "export_safety_checks", "has_cpu_library",
                 "has_cuda_library", "show_config"}
    # Points with capacities are proved equal to a matrix, in assignment/test_capacities_points.py.
    | {"check_capacitated_assignment_points", "solve_capacitated_assignment_points"}
    # The state of one large problem between calls.
    | {"stepping"}
    # Its proof is of the first assignment alone, and refuses some lists near the limits of float32.
    | {"check_k_best"}
    # They call the native target of minimum_cost_flow.
    | {"check_sparse_transport", "solve_sparse_transport"}
    # Local optima, of which nothing is proved.
    | {"gromov_wasserstein", "quadratic_assignment", "solve_alignment"}
    # What results, checks and graphs are.
    | {"Alignment", "Assignment", "AssignmentCheck", "BipartiteGraph", "BottleneckAssignment",
       "BottleneckCheck", "CapacitatedAssignment", "Flow", "FlowCheck", "FlowNetwork",
       "FlowOptions", "GridCut", "GromovWasserstein", "KBestAssignments", "KBestCheck",
       "Matching", "MatchingCheck", "MatchingOptions", "MinimumCostFlow",
       "MinimumCostFlowCheck", "MinimumCut", "MinimumCutCheck", "QuadraticAssignment",
       "SparseTransport", "SparseTransportCheck", "Status", "Transport", "TransportCheck"},
    "jaxmatch.losses": {"DetectionLoss", "HungarianLoss", "Regret", "StructuredLoss"}
    # Formulas without a solver.
    | {"box_area", "box_cxcywh_to_xyxy", "box_iou", "box_xyxy_to_cxcywh", "dice_cost",
       "dice_loss", "elementwise_box_iou", "elementwise_generalized_box_iou",
       "generalized_box_iou", "negative_si_snr", "one_to_many", "sigmoid_focal_loss",
       "sigmoid_mask_cost", "sigmoid_mask_loss", "split_groups"},
    # Base classes and states; an oracle of a user's own solver.
    "jaxmatch.estimators": {"AdaptiveState", "Estimator", "LinearOracle", "Solution", "oracle_of"},
}  # fmt: skip


@pytest.mark.parametrize("module", CALLED)
def test_all_that_is_public_is_listed(module):
    public = set(importlib.import_module(module).__all__)
    assert not CALLED[module].keys() & NOT_CALLED[module]
    assert CALLED[module].keys() | NOT_CALLED[module] == public


@pytest.mark.parametrize("module", CALLED)
def test_solvers_exist(module):
    missing = {*CALLED[module].values()} - SOLVERS.keys()
    assert missing <= {"Entropic"}  # which needs ott-jax
