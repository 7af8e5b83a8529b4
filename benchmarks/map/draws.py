"""Problems drawn at random for every solver: family, shape, weights and options, from a seed.

Nothing here was chosen by a time that was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES
from benchmarks.batches import exp_of_normal, power_of_uniform, with_outliers
from benchmarks.map import peers
from benchmarks.map.peers import Peer


Rng = np.random.Generator
Arrays = tuple[Any, ...]


class Draw(NamedTuple):
    """`solve` takes `arrays`, and `check` these and its result; `value` is a field of that.

    `peers` take the arrays of one problem and return its value. `problems` counts those of the
    batch, None if the arrays have no batch dimension.
    """

    solver: str
    what: str
    arrays: Arrays
    solve: Callable[..., Any]
    check: Callable[..., Any]
    value: str = "cost"
    peers: dict[str, Peer] | None = None
    problems: int | None = None


COSTS: dict[str, Callable[[int, int], np.ndarray]] = {
    name: family for name, family in FAMILIES.items() if name != "uniform, m = 2n"
} | {
    "exp(3 N)": exp_of_normal(3),
    "u^8": power_of_uniform(8),
    "clusters with outliers": with_outliers,
}
SQUARES = [(1, 256), (1, 1024), (1, 2048), (1, 4096), (8, 512), (8, 1024), (64, 256), (512, 64)]
SMALL = [(256, 16), (64, 64), (8, 128), (1, 256)]


def _pick(rng: Rng, names: Any) -> Any:
    return list(names)[rng.integers(len(names))]


def _batch(rng: Rng, name: str, b: int, n: int) -> np.ndarray:
    seed = int(rng.integers(1 << 30))
    drawn = np.stack([COSTS[name](n, seed + k) for k in range(min(b, 8))]).astype(np.float32)
    return drawn[np.arange(b) % len(drawn)]


def _bound(known: dict[str, Peer], *first: Any) -> dict[str, Peer]:
    """The peers with their first arguments."""
    return {name: partial(peer, *first) for name, peer in known.items()}


def _text(b: int, n: int, m: int) -> str:
    return f"{b} x ({n} x {m})" if b > 1 else f"{n} x {m}"


def _features(rng: Rng, n: int, m: int) -> np.ndarray:
    """Squared distances from points in nine clusters of eight dimensions to others of them."""

    def points(count: int) -> np.ndarray:
        return rng.normal(size=(count, 8)) + centers[rng.integers(0, 9, count)]

    centers = 2 * rng.normal(size=(9, 8))
    x, y = points(n), points(m)
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
    return np.maximum(squares, 0).astype(np.float32)


def assignment(rng: Rng) -> Draw:
    (b, n), family = _pick(rng, SQUARES), _pick(rng, COSTS)
    cost = _batch(rng, family, b, n)
    option = _pick(rng, ["", "wide", "masks", "unmatched"])
    solve, check, others = jm.solve_assignment, jm.check_assignment, peers.ASSIGNMENT
    if option == "wide":
        cost = np.ascontiguousarray(cost[:, : n // 2])
    if option == "masks":
        masks = {"row_mask": rng.random((b, n)) < 0.7, "col_mask": rng.random((b, n)) < 0.9}
        solve, check, others = partial(solve, **masks), partial(check, **masks), {}
    if option == "unmatched":
        price = {"unmatched_cost": float(np.median(cost.min(-1)))}
        solve, check, others = partial(solve, **price), partial(check, **price), {}
    what = f"{family} {option} {_text(*cost.shape)}"
    return Draw("assignment", what, (cost,), solve, check, peers=others, problems=b)


def _weights(rng: Rng, kind: str, shape: tuple[int, int]) -> np.ndarray:
    b, size = shape
    drawn = {
        "equal": lambda: np.full(shape, 1 / size),
        "Zipf": lambda: rng.permuted(np.tile(1 / np.arange(1, size + 1), (b, 1)), axis=1),
        "Dirichlet": lambda: rng.dirichlet(np.ones(size), b),
        "gamma": lambda: rng.gamma(0.5, 1.0, shape) + 1e-9,
        "histogram": lambda: rng.poisson(rng.gamma(0.5, 8.0, shape)) + (np.arange(size) == 0),
    }[kind]()
    return (drawn / drawn.sum(-1, keepdims=True)).astype(np.float32)


WEIGHTS = ["equal", "Zipf", "Dirichlet", "gamma", "histogram"]
FEW = [(1, 5000, 20), (1, 20, 5000), (16, 1000, 10), (1, 20_000, 64), (1, 2000, 500), (1, 2000, 8)]


def transport(rng: Rng) -> Draw:
    weights = _pick(rng, WEIGHTS)
    if rng.random() < 0.4:
        b, n, m = _pick(rng, FEW)
        family, cost = "features", np.stack([_features(rng, n, m) for _ in range(b)])
    else:
        (b, n), family = _pick(rng, SQUARES), _pick(rng, COSTS)
        cost = _batch(rng, family, b, n)
    arrays = (cost, _weights(rng, weights, cost.shape[:2]), _weights(rng, weights, cost.shape[::2]))
    option = _pick(rng, ["", "", "partial"])
    solve, check, others = jm.solve_transport, jm.check_transport, peers.TRANSPORT
    if option == "partial":
        given = {"partial": np.float32(0.7)}
        solve, check, others = partial(solve, **given), partial(check, **given), {}
    what = f"{family} {weights} {option} {_text(*cost.shape)}"
    return Draw("transport", what, arrays, solve, check, peers=others, problems=b)


POINTS = {
    "cube": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "clusters": lambda rng, shape: (
        rng.normal(size=shape) + 4 * rng.normal(size=(9, shape[-1]))[rng.integers(0, 9, shape[:-1])]
    ),
}


def _clouds(rng: Rng, family: str, *shape: tuple[int, ...]) -> Arrays:
    d = int(_pick(rng, [2, 3, 8]))
    return tuple(POINTS[family](rng, (*of_one, d)).astype(np.float32) for of_one in shape)


def assignment_of_points(rng: Rng) -> Draw:
    n, family = int(_pick(rng, [256, 1024, 2048, 4096, 8192])), _pick(rng, POINTS)
    arrays = _clouds(rng, family, (n,), (n,))
    what = f"{family} in {arrays[0].shape[-1]} dimensions {n} x {n}"
    solve, check = jm.solve_assignment_points, jm.check_assignment_points
    others = peers.ASSIGNMENT_OF_POINTS if n <= 2048 else {}  # a minute for 4096 in clusters
    return Draw("assignment of points", what, arrays, solve, check, peers=others)


def transport_of_points(rng: Rng) -> Draw:
    b, n, m = _pick(rng, [*FEW, *((b, n, n) for b, n in SQUARES)])
    family, weights = _pick(rng, POINTS), _pick(rng, WEIGHTS)
    masses = (_weights(rng, weights, (b, k)) for k in (n, m))
    arrays = (*_clouds(rng, family, (b, n), (b, m)), *masses)
    what = f"{family} in {arrays[0].shape[-1]} dimensions {weights} {_text(b, n, m)}"
    solve, check = jm.solve_transport_points, jm.check_transport_points
    others = peers.TRANSPORT_OF_POINTS
    return Draw("transport of points", what, arrays, solve, check, peers=others, problems=b)


def capacities(rng: Rng) -> Draw:
    n, m = _pick(rng, [(2000, 8), (5000, 20), (10_000, 64), (2000, 200), (500, 500)])
    cost = _features(rng, n, m)
    given = {"col_capacity": -(-n // m)}
    option = _pick(rng, ["", "balanced"])
    if option:
        given["col_minimum"] = n // m
    solve = partial(jm.solve_capacitated_assignment, **given)
    check = partial(jm.check_capacitated_assignment, **given)
    # Peers have no minima.
    others = {} if option else _bound(peers.CAPACITIES, given["col_capacity"])
    what = f"features {option} {n} x {m}"
    return Draw("capacities", what, (cost,), solve, check, peers=others)


def sparse(rng: Rng) -> Draw:
    n, k, d = int(_pick(rng, [2000, 20_000])), int(_pick(rng, [5, 10, 20])), int(rng.integers(2, 4))
    x = rng.random((n, d))
    y = (x + rng.normal(size=x.shape) * 0.3 * n ** (-1 / d))[rng.permutation(n)]
    distance, cols = KDTree(y).query(x, k)
    rows = np.repeat(np.arange(n), k)
    graph = jm.BipartiteGraph.from_edges(rows, cols.ravel(), (n, n))
    order = np.lexsort((cols.ravel(), rows))
    cost = (distance.ravel() ** 2)[order].astype(np.float32)
    option = _pick(rng, ["maximum", "gated"])
    given: dict[str, Any] = {"cardinality": "maximum"}
    others: dict[str, Peer] = {}
    if option == "gated":
        price = float(np.float32(np.quantile(cost, 0.7)))
        given = {"unmatched_cost": price}
        edges = np.stack([rows, cols.ravel()], 1)[order]
        others = {"scipy": partial(peers.scipy_gated, edges, n, price)}
    solve = partial(jm.solve_sparse_assignment, graph, **given)
    check = partial(jm.check_sparse_assignment, graph, **given)
    what = f"{k} nearest in {d} dimensions {option} {n}"
    return Draw("sparse assignment", what, (cost,), solve, check, peers=others)


def k_best(rng: Rng) -> Draw:
    (b, n), family = _pick(rng, SMALL), _pick(rng, COSTS)
    cost, k = _batch(rng, family, b, n), int(_pick(rng, [5, 20]))
    solve = partial(jm.k_best_assignments, k=k)
    what = f"{family} {k} of {_text(*cost.shape)}"
    return Draw("k best", what, (cost,), solve, jm.check_k_best, problems=b)


def bottleneck(rng: Rng) -> Draw:
    (b, n), family = _pick(rng, SQUARES[:5]), _pick(rng, COSTS)
    cost = _batch(rng, family, b, n)
    solve, check = jm.bottleneck_assignment, jm.check_bottleneck
    what = f"{family} {_text(*cost.shape)}"
    return Draw("bottleneck", what, (cost,), solve, check, "bottleneck", problems=b)


def matching(rng: Rng) -> Draw:
    n, degree = int(_pick(rng, [10_000, 100_000])), int(_pick(rng, [2, 3, 8]))
    kind = _pick(rng, ["random", "power law"])
    share = np.ones(n) if kind == "random" else 1 / np.arange(1, n + 1)
    rows, cols = rng.integers(0, n, n * degree), rng.choice(n, n * degree, p=share / share.sum())
    edges = np.unique(np.stack([rows, cols], 1), axis=0)
    graph = jm.BipartiteGraph.from_edges(edges[:, 0], edges[:, 1], (n, n))
    others = {"scipy": partial(peers.scipy_matching, edges, n)}
    what = f"{kind} {n}, {len(edges)} edges"
    check = jm.check_matching
    return Draw(
        "matching", what, (graph,), jm.maximum_bipartite_matching, check, "cardinality", others
    )


def flow(rng: Rng) -> Draw:
    n, degree = int(_pick(rng, [1000, 10_000])), int(_pick(rng, [4, 10]))
    tails, heads = rng.integers(0, n, (2, n * degree))
    edges = np.unique(np.stack([tails, heads], 1)[tails != heads], axis=0)
    network = jm.FlowNetwork.from_edges(edges[:, 0], edges[:, 1], n)
    capacity = rng.integers(1, 1000, len(edges)).astype(np.int32)
    solve = partial(jm.maximum_flow, network, source=0, sink=n - 1)

    def check(capacity: Any, result: Any) -> Any:
        return jm.check_flow(network, capacity, 0, n - 1, result)

    what, others = f"random {n}, {len(edges)} arcs", _bound(peers.FLOW, edges, n)
    return Draw("flow", what, (capacity,), solve, check, "value", others)


def grid_cut(rng: Rng) -> Draw:
    b, n = _pick(rng, [(1, 128), (8, 128), (1, 512), (4, 256)])
    noise = float(_pick(rng, [0.2, 0.6, 1.0]))
    r = np.hypot(*(np.indices((n, n)) - n / 2)) < n / 3
    source = np.clip(r + noise * rng.normal(size=(b, n, n)), 0, 1).astype(np.float32)
    smoothness = float(_pick(rng, [0.1, 0.6]))
    arrays = (source, 1 - source, np.full((b, 2, n, n), smoothness, np.float32))
    what = f"disc, noise {noise}, smoothness {smoothness}, {_text(b, n, n)}"
    check = jm.check_grid_cut
    return Draw("grid cut", what, arrays, jm.grid_cut, check, "value", problems=b)


DRAW: dict[str, Callable[[Rng], Draw]] = {
    "assignment": assignment,
    "transport": transport,
    "assignment of points": assignment_of_points,
    "transport of points": transport_of_points,
    "capacities": capacities,
    "sparse assignment": sparse,
    "k best": k_best,
    "bottleneck": bottleneck,
    "matching": matching,
    "flow": flow,
    "grid cut": grid_cut,
}
SHARES = {"assignment": 3, "transport": 4, "capacities": 2, "sparse assignment": 2}


def draw(seed: int, count: int) -> list[Callable[[], Draw]]:
    """`count` problems, made when they are called for. A longer list begins with the same ones."""
    names = [name for name in DRAW for _ in range(SHARES.get(name, 1))]

    def one(rng: Rng) -> Callable[[], Draw]:
        return partial(DRAW[names[rng.integers(len(names))]], rng)

    return [one(np.random.default_rng([seed, k])) for k in range(count)]
