"""All solvers: one row each, with problems, the call, the check, and a truth by somebody else.

`tests/conformance` proves each property for every row. Numbers are such that sums are exact in
every dtype, so that values equal the truth without a tolerance.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flow_helpers import by_networkx, random_edges
from grid_cut_helpers import exact_cut
from helpers import numpy_dtype, to_numpy
from matching_helpers import edges_of
from min_cost_flow_helpers import by_ortools
from oracles import scipy_optimum
from point_costs import distances
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import jaxmatch as jm
from jaxmatch._assignment.methods import METHODS as DENSE_METHODS


# Every problem has these sizes, so that a method compiles once for all properties. No two lengths
# that a dimension can have are the same.
BATCH, SHAPE = 4, (5, 7)

Rng = np.random.Generator
Arguments = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A solver. Its arguments are those of `make`, of which the first `shared` have no batch.

    `make(rng, count, (n, m), dtype)` gives `count` problems, `truth` the value of one of them.
    `numbers` are the arguments with costs or capacities: floats have derivatives there.
    """

    solve: Callable[..., Any]
    make: Callable[[Rng, int, tuple[int, int], str], Arguments]
    truth: Callable[..., Any]
    check: Callable[..., Any] | None = None
    value: str = "cost"
    methods: tuple[str, ...] = ("auto", "xla")
    dtypes: tuple[str, ...] = ("bfloat16", "float16", "float32", "float64", "int32", "int64")
    numbers: tuple[int, ...] = (0,)
    shared: int = 0
    alone: bool = False  # takes one problem: batches by `vmap`
    smooth: bool = True  # the value is an integral of costs, so it has a derivative

    def one(self, method: str = "auto") -> Callable[..., Any]:
        """The solver of a problem."""
        return self.solve if method == "auto" else partial(self.solve, method=method)

    def call(self, method: str = "auto") -> Callable[..., Any]:
        """The solver of a batch."""
        return self.mapped(self.one(method)) if self.alone else self.one(method)

    def checked(self) -> Callable[..., Any]:
        """The check of a batch."""
        assert self.check is not None
        return self.mapped(self.check) if self.alone else self.check

    def mapped(self, solve: Callable[..., Any]) -> Callable[..., Any]:
        """By `vmap`, over all arguments that are not shared."""
        axes = (None,) * self.shared
        return lambda *x: jax.vmap(solve, axes + (0,) * (len(x) - self.shared))(*x)

    def problem(self, arguments: Arguments, k: Any) -> Arguments:
        """Problem k of a batch, or those at several places."""
        own = jax.tree.map(lambda x: x[k], arguments[self.shared :])
        return (*arguments[: self.shared], *own)

    def instance(
        self, dtype: str = "float32", count: int = BATCH, shape: tuple[int, int] = SHAPE
    ) -> Arguments:
        return self.make(np.random.default_rng(0), count, shape, dtype)

    def truths(self, arguments: Arguments) -> list[Any]:
        return [self.truth(*self.problem(arguments, k)) for k in range(BATCH)]


def numbers(rng: Rng, shape: tuple[int, ...], dtype: str, most: int = 99) -> np.ndarray:
    """Not negative. In wide floats multiples of 2^-10, of which hardly two sums are alike."""
    if dtype in ("float32", "float64"):
        return (rng.integers(0, most << 10, shape) / 1024).astype(dtype)
    return rng.integers(0, most, shape).astype(numpy_dtype(dtype))


# ---------------------------------------------------------------------------------------------
# Problems


def dense(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    return (numbers(rng, (count, *shape), dtype),)


def gappy(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Most pairs are forbidden, so that some rows or columns of the smaller side must stay."""
    (cost,) = dense(rng, count, shape, dtype)
    return (np.where(rng.random(cost.shape) < 0.8, np.inf, cost).astype(dtype),)


def masked(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    n, m = shape
    (cost,) = dense(rng, count, shape, dtype)
    prices = numbers(rng, (count, n), dtype, 50)
    return cost, rng.random((count, n)) < 0.8, rng.random((count, m)) < 0.8, prices


def points(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Squares of their coordinates are multiples of 2^-10."""
    return tuple((rng.integers(0, 200, (count, k, 2)) / 32).astype(dtype) for k in shape)


def priced_points(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Points that may stay unmatched, each at a cost."""
    sides = [numbers(rng, (count, k), dtype, 10) for k in shape]
    return *points(rng, count, shape, dtype), *sides


def masses(rng: Rng, count: int, shape: tuple[int, int]) -> Arguments:
    """Integers, with one sum."""
    n, m = shape
    share = [rng.multinomial(4 * n, np.full(k, 1 / k), count).astype(np.int32) for k in (n, m)]
    return tuple(share)


def plans(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    return *dense(rng, count, shape, dtype), *masses(rng, count, shape)


def clouds(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    return *points(rng, count, shape, dtype), *masses(rng, count, shape)


def edges(rng: Rng, n: int, m: int, e: int) -> np.ndarray:
    """`[e, 2]` different pairs: a full matching among them."""
    full = np.arange(n) * m + np.arange(n) % m
    others = np.setdiff1d(np.arange(n * m), full)
    chosen = np.sort(np.concatenate([full, rng.choice(others, e - n, replace=False)]))
    return np.stack(np.divmod(chosen, m), 1)


def sparse(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    n, m = shape
    e = 2 * n + m - 3
    graph = jm.BipartiteGraph.from_edges(*edges(rng, n, m, e).T, shape)
    return to_numpy(graph), numbers(rng, (count, e), dtype)


def graphs(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Of which few have full matchings."""
    n, m = shape
    found = [
        jm.BipartiteGraph.from_edges(rng.integers(0, n, m), rng.integers(0, m, m), shape)
        for _ in range(count)
    ]
    return (to_numpy(jm.BipartiteGraph.stack(found)),)


def networks(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """One network, from its first node to its last."""
    nodes = shape[0] + 1
    ends = random_edges(rng, nodes, 2 * shape[0], 2 * max(shape))
    network = to_numpy(jm.FlowNetwork.from_edges(*ends.T, nodes, layout="bcsr"))
    source, sink = np.zeros(count, np.int32), np.full(count, nodes - 1, np.int32)
    return network, numbers(rng, (count, len(ends)), dtype), source, sink


def priced_networks(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """One network with a ring that can carry every supply, by an edge without a limit too."""
    nodes = shape[0] + 1
    ring = np.stack([np.arange(nodes), np.roll(np.arange(nodes), -1)], 1)
    ends = np.concatenate([ring, rng.integers(0, nodes, (nodes + max(shape), 2))])
    network = to_numpy(jm.FlowNetwork.from_edges(*ends.T, nodes))
    supply = rng.integers(-9, 10, (count, nodes)).astype(np.int32)
    supply[:, 0] -= supply.sum(1, dtype=np.int32)
    capacity = rng.integers(0, 9, (count, len(ends))).astype(numpy_dtype(dtype))
    capacity[:, :nodes] = 99
    is_float = jnp.issubdtype(capacity.dtype, jnp.floating)
    capacity[:, 1] = np.inf if is_float else np.iinfo(dtype).max
    cost = numbers(rng, (count, len(ends)), dtype)
    cost[:, nodes:] -= numpy_dtype(dtype).type(30)  # the ring has no negative costs
    return network, capacity, cost, supply


def with_both_gates(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Rows and columns of a matrix that may stay unmatched, each at a cost."""
    sides = [numbers(rng, (count, k), dtype, 50) for k in shape]
    return *dense(rng, count, shape, dtype), *sides


def partial_plans(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Of which a part of the mass moves."""
    return *plans(rng, count, shape, dtype), rng.integers(1, 2 * shape[0], count).astype(np.int32)


def limited_matrices(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Masses of some plan, and limits of pairs that this plan obeys."""
    plan = rng.integers(0, 5, (count, *shape)).astype(np.int32)
    sums = [plan.sum(side, dtype=np.int32) for side in (2, 1)]
    limit = plan + rng.integers(0, 3, plan.shape).astype(np.int32)
    return *dense(rng, count, shape, dtype), *sums, limit


def gated_sparse(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Rows and columns that may stay unmatched, each at a cost."""
    sides = [numbers(rng, (count, k), dtype, 50) for k in shape]
    return *sparse(rng, count, shape, dtype), *sides


def sparse_plans(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Masses that can move: those of some plan."""
    graph, cost = sparse(rng, count, shape, dtype)
    plan = rng.integers(0, 5, cost.shape).astype(np.int32)
    return graph, cost, *sums_of_edges(graph, plan)


def limited_plans(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    """Limits of edges, and supply that may stay at a cost."""
    graph, cost = sparse(rng, count, shape, dtype)
    plan = rng.integers(0, 5, cost.shape).astype(np.int32)
    limit = rng.integers(0, 6, cost.shape).astype(np.int32)
    return graph, cost, *sums_of_edges(graph, plan), limit, numbers(rng, (count, shape[0]), dtype)


def sums_of_edges(graph: Any, mass: np.ndarray) -> Arguments:
    """What each row sends, and what each column gets."""
    found = [np.zeros((len(mass), size), np.int32) for size in graph.shape]
    for total, at in zip(found, edges_of(graph), strict=True):
        np.add.at(total, (slice(None), at), mass)
    return tuple(found)


def grids(rng: Rng, count: int, shape: tuple[int, int], dtype: str) -> Arguments:
    h, w = shape
    source, sink = numbers(rng, (2, count, h, w), dtype)
    return source, sink, numbers(rng, (count, 2, h, w), dtype, 30)


# ---------------------------------------------------------------------------------------------
# Truths


def least(cost: Any) -> float:
    cost = np.asarray(cost).astype(float)
    return cost[linear_sum_assignment(cost)].sum()


def of_most_pairs(cost: Any) -> float:
    """A forbidden pair costs more than all others together."""
    cost = np.asarray(cost).astype(float)
    exists = np.isfinite(cost)
    whole = np.where(exists, cost, 1 + 4 * np.abs(cost[exists]).sum())
    pairs = linear_sum_assignment(whole)
    return whole[pairs][exists[pairs]].sum()


def of_masks(cost: Any, row_mask: Any, col_mask: Any, unmatched_cost: Any) -> float:
    found = scipy_optimum(cost, False, row_mask, col_mask, unmatched_cost)
    assert found is not None
    return float(found)


def of_points(x: Any, y: Any) -> float:
    return least(distances(x, y, "sqeuclidean"))


def of_both_gates(cost: Any, of_row: Any, of_col: Any) -> float:
    """Each row and each column has one more, which it takes to stay."""
    (n, m), cost = cost.shape, np.asarray(cost).astype(float)
    whole = np.zeros((n + m, m + n))
    whole[:n, :m] = cost
    whole[:n, m:] = np.asarray(of_row).astype(float)[:, None]
    whole[n:, :m] = np.asarray(of_col).astype(float)
    return least(whole)


RADIUS = 4.0


def of_near_points(x: Any, y: Any) -> float:
    cost = distances(x, y, "sqeuclidean")
    cost = np.where(cost <= RADIUS**2, cost, np.inf)
    found = scipy_optimum(cost, unmatched_cost=10.0)
    assert found is not None
    return float(found)


def of_most_near_points(x: Any, y: Any) -> float:
    cost = distances(np.asarray(x), np.asarray(y), "sqeuclidean")
    return of_most_pairs(np.where(cost <= FEW["radius"] ** 2, cost, np.inf))


def of_near_points_of_both_sides(x: Any, y: Any, of_row: Any, of_col: Any) -> float:
    cost = distances(np.asarray(x), np.asarray(y), "sqeuclidean")
    return of_both_gates(np.where(cost <= RADIUS**2, cost, 2.0**20), of_row, of_col)


def of_bottleneck(cost: Any) -> float:
    """The least value of which the costs up to it have a full matching."""
    values = np.unique(np.asarray(cost).astype(float))
    return next(x for x in values if pairs(np.asarray(cost).astype(float) <= x) == min(cost.shape))


def of_lists(cost: Any) -> np.ndarray:
    n, m = cost.shape
    every = np.array(list(itertools.permutations(range(m), n)))
    return np.sort(np.asarray(cost).astype(float)[np.arange(n), every].sum(1))[:K]


def of_plan(cost: Any, supply: Any, demand: Any) -> float:
    """Each unit of mass is a row, and a column."""
    return least(np.repeat(np.repeat(np.asarray(cost).astype(float), supply, 0), demand, 1))


def of_partial_plan(cost: Any, supply: Any, demand: Any, moved: Any) -> float:
    """Units that stay are matched to others of no cost, but not to each other."""
    units = np.repeat(np.repeat(np.asarray(cost).astype(float), supply, 0), demand, 1)
    n, m = units.shape
    square = np.zeros((n + m - moved,) * 2)
    square[:n, :m] = units
    square[n:, m:] = 2.0**20
    return least(square)


def of_minima(cost: Any) -> float:
    """Two of each row, and three of each column, one of which must be matched."""
    cost, must = np.repeat(np.asarray(cost).astype(float), 2, 0), 2.0**20
    return least(np.concatenate([cost - must, cost, cost], 1)) + must * cost.shape[1]


def of_clouds(x: Any, y: Any, supply: Any, demand: Any) -> float:
    return of_plan(distances(x, y, "sqeuclidean"), supply, demand)


def of_sparse(graph: Any, cost: Any) -> float:
    whole = np.full(graph.shape, np.inf)
    whole[edges_of(graph)] = np.asarray(cost).astype(float)
    return least(whole)


def of_gated_sparse(graph: Any, cost: Any, of_row: Any, of_col: Any) -> float:
    """Each row and each column has one more, which it takes to stay."""
    n, m = graph.shape
    whole = np.full((n + m, m + n), np.inf)
    whole[edges_of(graph)] = np.asarray(cost).astype(float)
    np.fill_diagonal(whole[:n, m:], np.asarray(of_row).astype(float))
    np.fill_diagonal(whole[n:, :m], np.asarray(of_col).astype(float))
    whole[n:, m:] = 0
    return least(whole)


def of_sparse_plan(graph: Any, cost: Any, supply: Any, demand: Any) -> float:
    return of_limited_plan(graph, cost, supply, demand, np.full(len(cost), np.inf), None)


def of_limited_plan(
    graph: Any, cost: Any, supply: Any, demand: Any, limit: Any, unmatched_cost: Any
) -> float:
    """One more node takes the supply that stays, and brings the demand that does."""
    (n, m), ends = graph.shape, edges_of(graph)
    ends, more = [ends[0], n + ends[1]], np.arange(n + m)
    price, room = np.asarray(cost).astype(float), np.asarray(limit).astype(float)
    masses = [supply, -demand, [demand.sum() - supply.sum()]]
    if unmatched_cost is not None:
        ends[0] = np.append(ends[0], np.where(more < n, more, n + m))
        ends[1] = np.append(ends[1], np.where(more < n, n + m, more))
        price = np.concatenate([price, np.asarray(unmatched_cost).astype(float), np.zeros(m)])
        room = np.append(room, np.full(n + m, np.inf))
    units = (price * 1024).astype(np.int64)
    found = by_ortools(*ends, room, units, np.concatenate(masses).astype(np.int64))
    assert found is not None
    return found / 1024


def of_limits(cost: Any, supply: Any, demand: Any, limit: Any) -> float:
    ends = np.indices(cost.shape).reshape(2, -1) + [[0], [len(cost)]]
    units = (np.asarray(cost).astype(float) * 1024).astype(np.int64)
    found = by_ortools(*ends, limit.ravel(), units.ravel(), np.concatenate([supply, -demand]))
    assert found is not None
    return found / 1024


def of_different_pairs(cost: Any) -> float:
    """Each row has three different columns, and each column at most three rows."""
    (n, m), three = cost.shape, np.full(len(cost), 3)
    wider = np.concatenate([np.asarray(cost).astype(float), np.zeros((1, m))])  # takes what is left
    limit = np.concatenate([np.ones((n, m), int), np.full((1, m), 3)])
    return of_limits(wider, np.append(three, 3 * (m - n)), np.full(m, 3), limit)


def pairs(there: np.ndarray) -> int:
    return int((maximum_bipartite_matching(csr_array(there)) >= 0).sum())


def of_graph(graph: Any) -> int:
    there = np.zeros(SHAPE, bool)
    there[edges_of(graph)] = True
    return pairs(there)


def of_network(network: Any, capacity: Any, source: Any, sink: Any) -> float:
    given = np.asarray(capacity).astype(float)
    nodes = len(network.arc_ptr) - 1
    ends = network.senders, network.receivers
    return float(by_networkx(nodes, *ends, given, int(source), int(sink)))


def of_priced_network(network: Any, capacity: Any, cost: Any, supply: Any) -> float:
    """Costs are multiples of 2^-10, and masses are whole."""
    ends, units = (network.senders, network.receivers), np.asarray(cost).astype(float) * 1024
    return by_ortools(*ends, capacity, units.astype(np.int64), supply) / 1024


def of_grid(*grid: Any) -> float:
    return float(exact_cut(*(np.asarray(x).astype(float) for x in grid), 4)[0])


# ---------------------------------------------------------------------------------------------
# Solvers


def gated(solve: Callable[..., Any], first: int, *names: str) -> Callable[..., Any]:
    """With keywords for what comes behind the first arguments. Checks get a result after these."""

    def call(*given: Any, **how: Any) -> Any:
        last = first + len(names)
        options = dict(zip(names, given[first:last], strict=True))
        return solve(*given[:first], *given[last:], **options, **how)

    return call


K = 3
MASKED = ("row_mask", "col_mask", "unmatched_cost")
CAPACITIES = {"col_capacity": 2}
DIFFERENT = {"row_capacity": 3, "col_capacity": 3, "limit": 1}
MINIMA = {"row_capacity": 2, "col_capacity": 3, "col_minimum": 1}
UNMATCHED = ("unmatched_cost", "unmatched_col_cost")
LIMITED = ("limit", "unmatched_cost")
FLOW_METHODS = ("auto", "network_simplex", "cost_scaling", "xla")
FEW: dict[str, Any] = {"radius": 1.75, "cardinality": "maximum"}
NEAR = {"radius": RADIUS, "unmatched_cost": 10.0}
WIDE = ("float32", "float64", "int32", "int64")
FLOATS = ("float32", "float64")

# One line for each thing whose name or form may change.
solve_capacities = partial(jm.solve_capacitated_assignment, **CAPACITIES)
check_capacities = partial(jm.check_capacitated_assignment, **CAPACITIES)
solve_capacities_of_points = partial(jm.solve_capacitated_assignment_points, **CAPACITIES)
check_capacities_of_points = partial(jm.check_capacitated_assignment_points, **CAPACITIES)


def solve_points_of_both_sides(
    x: Any, y: Any, of_row: Any, of_col: Any, method: str = "auto"
) -> jm.Assignment:
    """Takes no start, unlike `gated` functions."""
    how = dict(zip(UNMATCHED, (of_row, of_col), strict=True))
    return jm.solve_assignment_points(x, y, radius=RADIUS, method=method, **how)


SUBJECTS = {
    "assignment": Subject(
        jm.solve_assignment, dense, least, jm.check_assignment, methods=(*DENSE_METHODS,)
    ),
    "gated assignment": Subject(
        gated(jm.solve_assignment, 1, *MASKED), masked, of_masks,
        gated(jm.check_assignment, 1, *MASKED), numbers=(0, 3),
    ),
    "assignment with gates of both sides": Subject(
        gated(jm.solve_assignment, 1, *UNMATCHED), with_both_gates, of_both_gates,
        gated(jm.check_assignment, 1, *UNMATCHED), numbers=(0, 1, 2),
    ),
    "assignment of most pairs": Subject(
        partial(jm.solve_assignment, cardinality="maximum"), gappy, of_most_pairs,
        partial(jm.check_assignment, cardinality="maximum"), dtypes=FLOATS,
    ),
    "points": Subject(
        jm.solve_assignment_points, points, of_points, jm.check_assignment_points,
        methods=("auto",), dtypes=FLOATS, numbers=(0, 1), alone=True,
    ),
    "points within a radius": Subject(
        partial(jm.solve_assignment_points, **NEAR), points, of_near_points,
        partial(jm.check_assignment_points, **NEAR),
        methods=("auto",), dtypes=FLOATS, numbers=(0, 1), alone=True,
    ),
    "most points within a radius": Subject(
        partial(jm.solve_assignment_points, **FEW), points, of_most_near_points,
        partial(jm.check_assignment_points, **FEW),
        dtypes=FLOATS, numbers=(0, 1), alone=True,
    ),
    "points of both sides within a radius": Subject(
        solve_points_of_both_sides, priced_points, of_near_points_of_both_sides,
        gated(partial(jm.check_assignment_points, radius=RADIUS), 2, *UNMATCHED),
        dtypes=FLOATS, numbers=(0, 1, 2, 3), alone=True,
    ),
    "capacities": Subject(
        solve_capacities, dense, lambda c: least(np.repeat(c, 2, -1)), check_capacities
    ),
    "capacities with gates of both sides": Subject(
        gated(solve_capacities, 1, *UNMATCHED), with_both_gates,
        lambda c, r, s: of_both_gates(np.repeat(c, 2, -1), r, np.repeat(s, 2)),
        gated(check_capacities, 1, *UNMATCHED), numbers=(0, 1, 2),
    ),
    "minima": Subject(
        partial(jm.solve_capacitated_assignment, **MINIMA), dense, of_minima,
        partial(jm.check_capacitated_assignment, **MINIMA),
    ),
    "capacities with limits": Subject(
        partial(jm.solve_capacitated_assignment, **DIFFERENT), dense, of_different_pairs,
        partial(jm.check_capacitated_assignment, **DIFFERENT),
    ),
    "capacities of points": Subject(
        solve_capacities_of_points, points, lambda x, y: of_points(x, np.repeat(y, 2, 0)),
        check_capacities_of_points, dtypes=FLOATS, numbers=(0, 1), alone=True,
    ),
    "sparse": Subject(
        jm.solve_sparse_assignment, sparse, of_sparse, jm.check_sparse_assignment,
        numbers=(1,), shared=1,
    ),
    "gated sparse": Subject(
        gated(jm.solve_sparse_assignment, 2, *UNMATCHED), gated_sparse, of_gated_sparse,
        gated(jm.check_sparse_assignment, 2, *UNMATCHED), numbers=(1, 2, 3), shared=1,
    ),
    "bottleneck": Subject(
        jm.bottleneck_assignment, dense, of_bottleneck, jm.check_bottleneck, "bottleneck"
    ),
    "k best": Subject(partial(jm.k_best_assignments, k=K), dense, of_lists, jm.check_k_best),
    "transport": Subject(jm.solve_transport, plans, of_plan, jm.check_transport),
    "partial transport": Subject(
        gated(jm.solve_transport, 3, "partial"), partial_plans, of_partial_plan,
        gated(jm.check_transport, 3, "partial"),
    ),
    "transport with limits": Subject(
        gated(jm.solve_transport, 3, "limit"), limited_matrices, of_limits,
        gated(jm.check_transport, 3, "limit"),
    ),
    "transport of points": Subject(
        jm.solve_transport_points, clouds, of_clouds, jm.check_transport_points,
        dtypes=FLOATS, numbers=(0, 1),
    ),
    "transport on edges": Subject(
        jm.solve_sparse_transport, sparse_plans, of_sparse_plan, jm.check_sparse_transport,
        methods=FLOW_METHODS, numbers=(1,), shared=1,
    ),
    "limited transport": Subject(
        gated(jm.solve_sparse_transport, 4, *LIMITED), limited_plans, of_limited_plan,
        gated(jm.check_sparse_transport, 4, *LIMITED), numbers=(1, 5), shared=1,
    ),
    "matching": Subject(
        jm.maximum_bipartite_matching, graphs, of_graph, jm.check_matching, "cardinality",
        methods=("auto", "hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_pfp", "flow",
                 "xla"),
        dtypes=("int32",), numbers=(), smooth=False,
    ),
    "flow": Subject(
        jm.maximum_flow, networks, of_network, jm.check_flow, "value",
        methods=("auto", "augment", "pseudoflow", "xla"), dtypes=WIDE, numbers=(1,), shared=1,
    ),
    "minimum cut": Subject(
        jm.minimum_cut, networks, of_network, jm.check_minimum_cut, "value",
        dtypes=WIDE, numbers=(1,), shared=1,
    ),
    "minimum-cost flow": Subject(
        jm.minimum_cost_flow, priced_networks, of_priced_network, jm.check_minimum_cost_flow,
        methods=FLOW_METHODS, numbers=(1, 2), shared=1,
    ),
    "grid cut": Subject(
        jm.grid_cut, grids, of_grid, jm.check_grid_cut, "value",
        methods=("auto", "augment", "push_relabel", "xla"), dtypes=WIDE, numbers=(0, 1, 2),
    ),
}  # fmt: skip

# Every method of every solver.
METHODS = [(name, method) for name, row in SUBJECTS.items() for method in row.methods]
