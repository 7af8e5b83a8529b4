"""Calls of public functions to export, each with its inputs and how many may have a new batch."""

from typing import Any, NamedTuple

import jax
import numpy as np

import jaxmatch as jm


_BATCH = 3


class Case(NamedTuple):
    function: Any
    inputs: tuple
    batched: tuple[int, ...]  # leaves of the inputs whose leading dimension may be symbolic


def _inputs() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2], [1, 2, 2, 3, 3], 4, layout="bcsr")
    graph = jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2], [0, 1, 0, 1, 2], (3, 3))
    return {
        "cost": rng.random((_BATCH, 3, 4), np.float32),
        "points": (rng.random((_BATCH, 3, 2), np.float32), rng.random((_BATCH, 4, 2), np.float32)),
        "masses": (np.array([[3, 2, 1]] * 3, np.int32), np.array([[1, 2, 2, 1]] * 3, np.int32)),
        "graph": graph,
        "edge_cost": rng.random((_BATCH, 5), np.float32),
        "network": network,
        "capacity": rng.integers(1, 9, (_BATCH, 5)).astype(np.int32),
        "grid": (
            *rng.integers(0, 9, (2, _BATCH, 2, 3)).astype(np.int32),
            rng.integers(0, 9, (_BATCH, 2, 2, 3)).astype(np.int32),
        ),
    }


def _key() -> jax.Array:
    return jax.random.key(0)


def _matrix(cost: Any) -> Any:
    rule = jm.estimators.Perturbed(num_samples=3)
    value = lambda c: jm.assignment_matrix(c, estimator=rule, key=_key())  # noqa: E731
    y, back = jax.vjp(value, cost)
    return y, back(y)


def _steps(cost: Any, state: jm.stepping.AssignmentState) -> jm.Assignment:
    """The buffers hold times, which differ."""
    return jm.stepping.step(cost, state).result


def cases() -> dict[str, Case]:
    """By the public function that is called last."""
    x = _inputs()
    cost, (a, b), points, graph, network = (
        x[k] for k in ("cost", "masses", "points", "graph", "network")
    )
    solved, bottleneck = jm.solve_assignment(cost), jm.bottleneck_assignment(cost)
    plan = jm.solve_transport(cost, a, b)
    by_points = jm.solve_transport_points(*points, a, b)
    pairs = tuple(p[0] for p in points)
    matching = jm.maximum_bipartite_matching(graph)
    sparse = jm.solve_sparse_assignment(graph, x["edge_cost"])
    flow, cut = (f(network, x["capacity"], 0, 3) for f in (jm.maximum_flow, jm.minimum_cut))
    flow_of = (network, x["capacity"], flow)
    cut_of = (network, x["capacity"], cut)
    found = {
        "solve_assignment": (jm.solve_assignment, (cost,)),
        "linear_sum_assignment": (jm.linear_sum_assignment, (cost,)),
        "check_assignment": (jm.check_assignment, (cost, solved)),
        "bottleneck_assignment": (jm.bottleneck_assignment, (cost,)),
        "check_bottleneck": (jm.check_bottleneck, (cost, bottleneck)),
        "k_best_assignments": (lambda c: jm.k_best_assignments(c, 3), (cost,)),
        "solve_transport": (jm.solve_transport, (cost, a, b)),
        "check_transport": (jm.check_transport, (cost, a, b, plan)),
        "solve_transport_points": (jm.solve_transport_points, (*points, a, b)),
        "check_transport_points": (jm.check_transport_points, (*points, a, b, by_points)),
        "maximum_bipartite_matching": (jm.maximum_bipartite_matching, (graph,)),
        "check_matching": (jm.check_matching, (graph, matching)),
        "solve_sparse_assignment": (jm.solve_sparse_assignment, (graph, x["edge_cost"])),
        "check_sparse_assignment": (
            jm.check_sparse_assignment, (graph, x["edge_cost"], sparse),
        ),
        "maximum_flow": (lambda n, c: jm.maximum_flow(n, c, 0, 3), (network, x["capacity"])),
        "check_flow": (lambda n, c, f: jm.check_flow(n, c, 0, 3, f), flow_of),
        "minimum_cut": (lambda n, c: jm.minimum_cut(n, c, 0, 3), (network, x["capacity"])),
        "check_minimum_cut": (lambda n, c, f: jm.check_minimum_cut(n, c, 0, 3, f), cut_of),
        "grid_cut": (jm.grid_cut, x["grid"]),
        "check_grid_cut": (jm.check_grid_cut, (*x["grid"], jm.grid_cut(*x["grid"]))),
        "assignment_matrix": (_matrix, (cost,)),
        "solve_assignment_points": (jm.solve_assignment_points, pairs),
        "check_assignment_points": (
            jm.check_assignment_points, (*pairs, jm.solve_assignment_points(*pairs)),
        ),
        "earth_mover_distance": (jm.losses.earth_mover_distance, points),
        "AssignmentState": (_steps, (cost[0], jm.stepping.init(cost[0]))),
    }  # fmt: skip

    def shared(name: str) -> bool:
        return name in ("maximum_bipartite_matching", "check_matching", "AssignmentState") or (
            name.endswith("assignment_points")
        )

    made = {}
    for name, (function, inputs) in found.items():
        leaves = jax.tree_util.tree_leaves_with_path(inputs)
        batched = () if shared(name) else tuple(
            k
            for k, (path, leaf) in enumerate(leaves)
            if not isinstance(inputs[path[0].idx], (jm.FlowNetwork, jm.BipartiteGraph))
            and np.shape(leaf)[:1] == (_BATCH,)
        )  # fmt: skip
        made[name] = Case(function, inputs, batched)
    return made
