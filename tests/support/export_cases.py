"""Calls of public functions to export, each with inputs and the sizes that may be symbolic."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from jaxmatch import estimators, losses


# The lengths of dimensions, none of which is that of another, by the name of their symbol.
_BATCH = {19: "b"}
_DENSE = _BATCH | {3: "n", 7: "m", 9: "n + m - 1"}
_GRAPH = _BATCH | {3: "n", 7: "m", 4: "n + 1", 8: "m + 1", 5: "e"}
_NETWORK = _BATCH | {4: "n", 5: "n + 1", 6: "e", 12: "a", 13: "a + 1"}
B, N, M = 19, 3, 7


class Case(NamedTuple):
    """A function and inputs; `symbols` says for each length which expression it may become."""

    function: Any
    inputs: tuple
    symbols: dict[int, str] = _BATCH
    constraints: tuple[str, ...] = ()

    def types(self, symbolic: bool = True) -> tuple:
        """The types of the inputs, with as many symbolic dimensions as the function takes."""
        shapes = {k: k for x in jax.tree.leaves(self.inputs) for k in np.shape(x)}
        if symbolic and self.symbols:
            text = ", ".join(self.symbols.values())
            symbols = jax.export.symbolic_shape(text, constraints=self.constraints)
            shapes |= dict(zip(self.symbols, symbols, strict=True))
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct([shapes[k] for k in np.shape(x)], x.dtype), self.inputs
        )


def exported(case: Case, *types: Any, platform: str = "cpu") -> jax.export.Exported:
    """The exported function of a case, for these types or its own."""
    export = jax.export.export(
        jax.jit(lambda *inputs: case.function(*inputs)),
        platforms=[platform],
        disabled_checks=jm.export_safety_checks(),
    )
    return export(*(types or case.types()))


def _matrix(rule: Any, cost: Any) -> Any:
    y, back = jax.vjp(
        lambda c: jm.assignment_matrix(c, estimator=rule, key=jax.random.key(0)), cost
    )
    return y, back(y)


def _gradients(cost: Any, a: Any, b: Any, mask: Any) -> Any:
    """With arguments that are constant."""

    def value(cost: Any, a: Any) -> Any:
        moved = jm.solve_transport(cost, a, b, row_mask=mask, unmatched_cost=0.5)
        return (moved.cost + jm.solve_assignment(cost, unmatched_cost=0.4).cost).sum()

    return jax.value_and_grad(value, (0, 1))(cost, a)


def _structured(oracle: Any, cost: Any, true_cost: Any, target: Any) -> Any:
    rule = estimators.Perturbed(num_samples=2)
    return (
        losses.fenchel_young_loss(oracle, cost, target, estimator=rule, key=jax.random.key(0)),
        losses.spo_plus_loss(oracle, cost, true_cost),
        losses.perturbation_gradient_loss(oracle, cost, true_cost, strength=0.1),
        losses.regret(oracle, cost, true_cost),
    )


def _dense(rng: np.random.Generator) -> dict[str, Case]:
    cost = rng.random((B, N, M), np.float32)
    one, a, b = cost[0], np.full((B, N), 7, np.int32), np.full((B, M), 3, np.int32)
    capacity = {"row_capacity": np.full(N, 2, np.int32), "col_capacity": 2}
    shared = jm.solve_capacitated_assignment(cost, **capacity)
    solved, listed = jm.solve_assignment(cost), jm.k_best_assignments(cost, 2)
    bottleneck, plan = jm.bottleneck_assignment(cost), jm.solve_transport(cost, a, b)
    found = {
        "solve_assignment": Case(jm.solve_assignment, (cost,), _DENSE),
        "linear_sum_assignment": Case(jm.linear_sum_assignment, (cost,), _DENSE, ("n <= m",)),
        "check_assignment": Case(jm.check_assignment, (cost, solved), _DENSE),
        "solve_capacitated_assignment": Case(
            partial(jm.solve_capacitated_assignment, **capacity), (cost,)
        ),
        "check_capacitated_assignment": Case(
            partial(jm.check_capacitated_assignment, **capacity), (cost, shared)
        ),
        "solve_alignment": Case(
            partial(jm.solve_alignment, starts=4), (cost[..., :3], cost[..., :3] + 1)
        ),
        "bottleneck_assignment": Case(jm.bottleneck_assignment, (cost,), _DENSE),
        "check_bottleneck": Case(jm.check_bottleneck, (cost, bottleneck), _DENSE),
        "k_best_assignments": Case(lambda c: jm.k_best_assignments(c, 2), (cost,), _DENSE),
        "check_k_best": Case(jm.check_k_best, (cost, listed), _DENSE),
        "solve_transport": Case(jm.solve_transport, (cost, a, b), _DENSE),
        "check_transport": Case(jm.check_transport, (cost, a, b, plan), _DENSE),
        "assignment_matrix": Case(partial(_matrix, estimators.Blackbox(1.0)), (cost,), _DENSE),
        "Perturbed": Case(partial(_matrix, estimators.Perturbed(num_samples=2)), (cost,), _DENSE),
        "gradients": Case(
            _gradients, (cost, cost[:, :, 0], cost[:, 0], cost[:, :, 1] < 0.9), _DENSE
        ),
    }
    if jm.has_cpu_library():  # there is no twin
        # The buffers hold times, which differ.
        step = lambda c, state: jm.stepping.step(c, state).result  # noqa: E731
        found["stepping"] = Case(step, (one, jm.stepping.init(one)), {})
    return found


def _points(rng: np.random.Generator) -> dict[str, Case]:
    x, y = rng.random((B, N, 2), np.float32), rng.random((B, M, 2), np.float32)
    a, b = np.full((B, N), 7, np.int32), np.full((B, M), 3, np.int32)
    one = x[0], y[0]
    near = partial(jm.solve_assignment_points, radius=0.9, unmatched_cost=1.0)
    plan, pairs = jm.solve_transport_points(x, y, a, b), jm.solve_assignment_points(*one)
    shared = jm.solve_capacitated_assignment_points(*one, col_capacity=2)
    of_shared = partial(jm.check_capacitated_assignment_points, col_capacity=2)
    return {
        "solve_transport_points": Case(jm.solve_transport_points, (x, y, a, b)),
        "check_transport_points": Case(jm.check_transport_points, (x, y, a, b, plan)),
        "solve_assignment_points": Case(jm.solve_assignment_points, one, {}),
        "check_assignment_points": Case(jm.check_assignment_points, (*one, pairs), {}),
        "solve_capacitated_assignment_points": Case(
            partial(jm.solve_capacitated_assignment_points, col_capacity=2), one, {}
        ),
        "check_capacitated_assignment_points": Case(of_shared, (*one, shared), {}),
        "radius": Case(near, one, {}),
        "earth_mover_distance": Case(
            jax.value_and_grad(lambda *z: losses.earth_mover_distance(*z).sum()), (x, y)
        ),
    }


def _graphs(rng: np.random.Generator) -> dict[str, Case]:
    graph = jm.BipartiteGraph.from_edges([0, 0, 1, 2, 2], [0, 1, 0, 1, 6], (N, M))
    graph = jax.tree.map(np.asarray, graph)
    cost = rng.integers(0, 9, (B, 5)).astype(np.int32)
    masses = [np.zeros((B, size), np.int32) for size in (N, M)]
    for mass in masses:
        mass[:, :2] = 1
    plan = graph, cost, *masses
    limited = partial(jm.solve_sparse_transport, limit=1, unmatched_cost=5)
    matching, found = jm.maximum_bipartite_matching(graph), jm.solve_sparse_assignment(graph, cost)
    return {
        "maximum_bipartite_matching": Case(jm.maximum_bipartite_matching, (graph,), _GRAPH),
        "check_matching": Case(jm.check_matching, (graph, matching), _GRAPH),
        "solve_sparse_transport": Case(jm.solve_sparse_transport, plan, _GRAPH),
        "check_sparse_transport": Case(
            jm.check_sparse_transport, (*plan, jm.solve_sparse_transport(*plan)), _GRAPH
        ),
        "limited transport": Case(limited, plan, _GRAPH),
        "partial transport on edges": Case(
            partial(jm.solve_sparse_transport, partial=2), plan, _GRAPH
        ),
        "solve_sparse_assignment": Case(jm.solve_sparse_assignment, (graph, cost), _GRAPH),
        "check_sparse_assignment": Case(jm.check_sparse_assignment, (graph, cost, found), _GRAPH),
    }


def _cuts(rng: np.random.Generator) -> dict[str, Case]:
    network = jm.FlowNetwork.from_edges([0, 0, 1, 1, 2, 0], [1, 2, 2, 3, 3, 3], 4, layout="bcsr")
    network = jax.tree.map(np.asarray, network)
    capacity = rng.integers(1, 9, (B, 6)).astype(np.int32)
    flow, cut = (f(network, capacity, 0, 3) for f in (jm.maximum_flow, jm.minimum_cut))
    grid = (
        *rng.integers(0, 9, (2, B, 2, 3)).astype(np.int32),
        rng.integers(0, 9, (B, 2, 2, 3)).astype(np.int32),
    )

    # The flow of least cost, from node 0 to node 3.
    supply = np.tile(np.array([1, 0, 0, -1], np.int32), (B, 1))
    priced = network, capacity, rng.integers(-3, 9, (B, 6)).astype(np.int32), supply
    least = jm.minimum_cost_flow(*priced)

    def case(function: Any, *result: Any) -> Case:
        call = lambda net, c, *res: function(net, c, 0, 3, *res)  # noqa: E731
        return Case(call, (network, capacity, *result), _NETWORK)

    return {
        "maximum_flow": case(jm.maximum_flow),
        "check_flow": case(jm.check_flow, flow),
        "minimum_cut": case(partial(jm.minimum_cut, nearest="sink")),
        "check_minimum_cut": case(jm.check_minimum_cut, cut),
        "minimum_cost_flow": Case(jm.minimum_cost_flow, priced, _NETWORK),
        "check_minimum_cost_flow": Case(jm.check_minimum_cost_flow, (*priced, least), _NETWORK),
        "grid_cut": Case(jm.grid_cut, grid),
        "check_grid_cut": Case(jm.check_grid_cut, (*grid, jm.grid_cut(*grid))),
    }


def _losses(rng: np.random.Generator) -> dict[str, Case]:
    cost = rng.random((B, N, N), np.float32)
    identity = np.tile(np.eye(N, dtype=np.float32), (B, 1, 1))
    signals = rng.random((2, B, N, 4), np.float32)
    weights = rng.random((2, B, M), np.float32)
    labels, classes = np.zeros((B, N), np.int32), rng.random((B, M, 2), np.float32)
    boxes = rng.uniform(0.4, 0.6, (B, M, 4)).astype(np.float32)
    mean = partial(
        losses.permutation_invariant_loss,
        pair_cost=lambda x, y: jnp.abs(x[..., :, None, :] - y[..., None, :, :]).mean(-1),
    )
    structured = partial(_structured, estimators.assignment_oracle())
    return {
        "permutation_invariant_loss": Case(mean, tuple(signals), _BATCH | {3: "n"}),
        "structured": Case(structured, (cost, cost[::-1].copy(), identity)),
        "DetectionCriterion": Case(
            losses.DetectionCriterion(), (classes, boxes, labels, boxes[:, :N]), _DENSE
        ),
        "wasserstein_1d": Case(losses.wasserstein_1d, tuple(weights), _BATCH | {7: "n"}),
        "histogram_distance": Case(losses.histogram_distance, tuple(weights), _BATCH | {7: "n"}),
    }


def _quadratic(rng: np.random.Generator) -> dict[str, Case]:
    one, other = rng.random((2, B, N, N), np.float32)
    many = {"starts": 3, "key": jax.random.key(0)}
    return {
        "quadratic_assignment": Case(
            partial(jm.quadratic_assignment, two_opt=True, **many), (one, other)
        ),
        "gromov_wasserstein": Case(
            lambda c1, c2, p: jm.gromov_wasserstein(c1, c2, p, **many),
            (one, other, one[:, 0] * 0 + 1 / N),
        ),
        "gromov_wasserstein of equal masses": Case(jm.gromov_wasserstein, (one, other)),
    }


def cases() -> dict[str, Case]:
    """By the name of what is exported."""
    rng = np.random.default_rng(0)
    found = {}
    for group in (_dense, _points, _graphs, _cuts, _quadratic, _losses):
        found |= group(rng)
    return found
