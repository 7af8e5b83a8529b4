"""What is solved at every power: bases, which of their numbers are scaled, and the truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from exact import as_fraction
from point_costs import distances

from jaxmatch import Status
from scaled import truths
from scaled.problems import (
    INTEGERS,
    Batch,
    at_every_power,
    bases,
    positive_bases,
)


Batches = Iterator[Batch]
Draw = Callable[[str, np.ndarray], Batches]
Failure = Callable[[truths.Problem], Status | None]


def greatest(problem: truths.Problem, *names: str) -> int:
    return max(int(np.abs(problem[x].astype(object)).max()) for x in names if x in problem)


def never(problem: truths.Problem) -> Status | None:
    del problem
    return None


def sums_of(factor: Callable[[int], int], bits: int, reach: bool = False) -> Failure:
    """Overflow of integers C if factor(min(n, m)) * max|C| exceeds, or reaches, 2^bits."""

    def failure(problem: truths.Problem) -> Status | None:
        cost = problem["cost"]
        if cost.dtype.kind != "i":
            return None
        size = factor(min(problem.get("there", cost).shape)) * greatest(
            problem, "cost", "unmatched_cost"
        )
        return Status.OVERFLOW if size + reach > 1 << bits else None

    return failure


@dataclasses.dataclass(frozen=True)
class Subject:
    """`draw` yields batches for the powers; `failure` is the status that is documented for what
    has none but this."""

    draw: Draw
    truth: Callable[[truths.Problem], truths.Truth]
    failure: Failure = never
    # A status that some problems, times 2^exponent, may have instead; of values of a dtype.
    may: Callable[[truths.Problem, int, np.dtype], Status | None] = lambda *_: None
    solution: tuple[str, ...] = ("col4row",)
    value: str = "cost"
    has_gap: bool = True
    must_fit: bool = False  # a value beyond its dtype is an overflow
    digits: int = 104  # in which native solvers add up the value
    underflow: int = 0  # how many of the least doubles its terms may lose


def _of_shapes(*shapes: tuple[int, int], **constant: Callable[[int, int], np.ndarray]) -> Draw:
    """Costs of these shapes, and arrays that are not scaled."""

    def draw(dtype: str, power: np.ndarray) -> Batches:
        for n, m in shapes:
            rest = {name: np.tile(of(n, m), (8, 1)) for name, of in constant.items()}
            yield at_every_power(dtype, {"cost": bases(n, m)}, power, **rest)

    return draw


def _gated(dtype: str, power: np.ndarray) -> Batches:
    for n, m in ((8, 8), (7, 5)):
        r = np.abs(bases(n, 1, seed=1)[..., 0]) / 2
        yield at_every_power(dtype, {"cost": bases(n, m), "unmatched_cost": r}, power)


def _sparse(there: np.ndarray) -> Draw:
    def draw(dtype: str, power: np.ndarray) -> Batches:
        cost = bases(*there.shape)[:, there]
        rest = np.tile(there, (8, 1, 1))
        yield at_every_power(dtype, {"cost": cost}, power, there=rest)

    return draw


def graph(n: int, m: int, *, full: bool) -> np.ndarray:
    """A diagonal and more, or of the last three rows one edge each to the first column."""
    there = (np.random.default_rng(3).random((n, m)) < 0.4) | np.eye(n, m, dtype=bool)
    if not full:
        there[-3:] = np.arange(m) == 0
    return there


def _masses(k: int, total: int) -> np.ndarray:
    """k integers of this sum."""
    return np.bincount(np.random.default_rng(k).integers(0, k, total), minlength=k)


def _scaled_masses(dtype: str, power: np.ndarray) -> Batches:
    """Multiples of a power of two, without rounding: at the least one, ones."""
    cost = bases(5, 7)
    supply, demand = (np.tile(_masses(k, 15) / 16, (8, 1)) for k in (5, 7))
    power = power[(power >= power.min() + 4) | (power > 0 if dtype in INTEGERS else False)]
    yield at_every_power(dtype, {"supply": supply, "demand": demand}, power, cost=cost)


def _points(metric: str) -> Draw:
    def draw(dtype: str, power: np.ndarray) -> Batches:
        x, y = (bases(k, 2, seed=2) for k in (8, 9))
        y[2:6] += 2.0**-6  # those on a grid would coincide
        batch = at_every_power(dtype, {"x": x, "y": y}, power)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            cost = distances(batch.arrays["x"], batch.arrays["y"], metric)
        yield dataclasses.replace(batch, arrays=batch.arrays | {"cost": cost}, scaled=("cost",))

    return draw


def _network(dtype: str, power: np.ndarray) -> Batches:
    rng = np.random.default_rng(4)
    tail = np.concatenate([[0, 0, 0], rng.integers(0, 6, 14), [4, 5, 6]])
    head = np.concatenate([[1, 2, 3], 1 + rng.integers(0, 6, 14), [7, 7, 7]])
    rest = {"tail": np.tile(tail, (8, 1)), "head": np.tile(head, (8, 1)), "nodes": np.full(8, 8)}
    yield at_every_power(dtype, {"capacity": positive_bases(20)}, power, **rest)


def _grid(dtype: str, power: np.ndarray) -> Batches:
    given = {"source_capacity": (2, 3), "sink_capacity": (2, 3), "pairwise": (2, 2, 3)}
    each = {name: positive_bases(*shape, seed=k) for k, (name, shape) in enumerate(given.items())}
    yield at_every_power(dtype, each, power)


def _priced_network(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Ends of edges, and capacities and supplies of 8 problems that have a flow."""
    rng = np.random.default_rng(seed)
    tail, head = rng.integers(0, 6, (2, 18))
    flow = rng.integers(0, 3, (8, 18))
    supply = np.zeros((8, 6), int)
    for node, sign in ((tail, 1), (head, -1)):
        np.add.at(supply.T, node, sign * flow.T)
    ends = {"tail": np.tile(tail, (8, 1)), "head": np.tile(head, (8, 1)), "nodes": np.full(8, 6)}
    return ends, flow + rng.integers(0, 3, flow.shape), supply


def _costs_of_edges(dtype: str, power: np.ndarray) -> Batches:
    ends, capacity, supply = _priced_network(5)
    masses = {"capacity": capacity.astype(np.int32), "supply": supply.astype(np.int32)}
    yield at_every_power(dtype, {"cost": bases(18, 1)[..., 0]}, power, **masses, **ends)


def _masses_of_edges(dtype: str, power: np.ndarray) -> Batches:
    """Multiples of a power of two, without rounding."""
    ends, capacity, supply = _priced_network(6)
    given = {"capacity": capacity / 32, "supply": supply / 32}
    power = power[(power >= power.min() + 5) | (power > 4 if dtype in INTEGERS else False)]
    cost = bases(18, 1)[..., 0]
    yield at_every_power(dtype, given, power, cost=cost, **ends)


def _too_dear(problem: truths.Problem) -> Status | None:
    """Integers that the cost does not fit."""
    if problem["cost"].dtype.kind != "i":
        return None
    best = truths.PricedNetwork(problem).optimum
    most = np.iinfo(problem["cost"].dtype).max
    return Status.OVERFLOW if best is not None and abs(best) > most else None


def _potentials_too_great(problem: truths.Problem, exponent: int, dtype: np.dtype) -> Status | None:
    """Sums of costs along paths: of integers, or of floats times 2^exponent."""
    cost = problem["cost"]
    size = problem["supply"].size * as_fraction(np.abs(cost.astype(object)).max())
    info: Any = (np.iinfo if dtype.kind == "i" else np.finfo)(dtype)
    fits = size * Fraction(2) ** exponent <= as_fraction(info.max)
    return None if fits else Status.OVERFLOW


def _too_much_to_send(problem: truths.Problem) -> Status | None:
    """All that can flow: positive supplies, and capacities of edges of negative cost."""
    capacity, supply = (problem[x].astype(object) for x in ("capacity", "supply"))
    if problem["supply"].dtype.kind != "i":
        return None
    much = supply[supply > 0].sum() + capacity[problem["cost"] < 0].sum()
    return Status.OVERFLOW if much >= 1 << 60 else None


def _too_much_flow(problem: truths.Problem, exponent: int, dtype: np.dtype) -> Status | None:
    """At source and sink 2^61, or 2^59 in a grid: then a cut tells whether so much flows."""
    del exponent, dtype
    if "capacity" in problem:
        tail, head, capacity = (problem[x] for x in ("tail", "head", "capacity"))
        ends, bits = (capacity[tail == 0], capacity[head == problem["nodes"] - 1]), 61
    else:
        ends, bits = (problem["source_capacity"], problem["sink_capacity"]), 59
    if ends[0].dtype.kind != "i":
        return None
    least = min(int(x.astype(object).sum()) for x in ends)
    return Status.OVERFLOW if least >= 1 << bits else None


def _too_much_for_the_twin(
    problem: truths.Problem, exponent: int, dtype: np.dtype
) -> Status | None:
    """Around a cell of a grid of int32, which has no wider integers without x64."""
    if (found := _too_much_flow(problem, exponent, dtype)) is not None:
        return found
    source, sink, arcs = (problem[x] for x in ("source_capacity", "sink_capacity", "pairwise"))
    if source.dtype != np.int32:
        return None
    most = int(source.max()) + int(sink.max()) + 8 * int(arcs.max())
    return Status.OVERFLOW if most >= 1 << 30 else None


def _too_much_mass(problem: truths.Problem) -> Status | None:
    whole = problem["supply"].dtype.kind == "i"
    full = whole and int(problem["supply"].astype(object).sum()) >= 1 << 60
    return Status.OVERFLOW if full else sums_of(lambda k: 2 * (k + 1), 61)(problem)


_CUT: dict[str, Any] = {"may": _too_much_flow, "solution": ("source_side",), "value": "value",
                        "has_gap": False, "must_fit": True}  # fmt: skip
_PLAN: dict[str, Any] = {"solution": ("rows", "cols", "mass")}
_of_pairs = sums_of(lambda k: k, 61, reach=True)
_of_transport = sums_of(lambda k: 2 * (k + 1), 61)

SUBJECTS = {
    "dense": Subject(_of_shapes((8, 8), (6, 12), (9, 6)), truths.Dense,
                     _of_pairs),
    "gated": Subject(_gated, truths.Dense, _of_pairs),
    "columns": Subject(_of_shapes((8, 5), col_capacity=lambda _, m: np.arange(m) % 3 + 1),
                       truths.Dense, _of_transport),
    "rows and columns": Subject(
        _of_shapes((5, 6), row_capacity=lambda n, _: np.arange(n) % 3 + 1,
                   col_capacity=lambda _, m: np.arange(m) % 2 + 1),
        truths.Capacities, _of_transport, **_PLAN),
    "sparse": Subject(_sparse(graph(8, 10, full=True)), truths.Sparse,
                      may=lambda problem, *_: _of_transport(problem)),
    "maximum cardinality": Subject(
        _sparse(graph(8, 8, full=False)), truths.MaximumCardinality,
        sums_of(lambda k: 2 * k + 1, 57)),
    "k best": Subject(_of_shapes((6, 6), (4, 6)), truths.KBest, sums_of(lambda k: k + 1, 56)),
    "k best of the twin": Subject(_of_shapes((6, 6), (4, 6)), truths.KBest, _of_pairs),
    "bottleneck": Subject(_of_shapes((7, 7), (6, 8)), truths.Bottleneck, value="bottleneck",
                          has_gap=False),
    "transport": Subject(
        _of_shapes((5, 7), supply=lambda n, _: _masses(n, 20), demand=lambda _, m: _masses(m, 20)),
        truths.Transport, _of_transport, **_PLAN),
    "masses": Subject(_scaled_masses, truths.ScaledMasses, _too_much_mass, underflow=12,
                      **_PLAN),
    "costs of edges": Subject(_costs_of_edges, truths.PricedNetwork, _too_dear,
                              may=_potentials_too_great, solution=("flow",), must_fit=True),
    "masses of edges": Subject(_masses_of_edges, truths.ScaledPricedNetwork, _too_much_to_send,
                               solution=("flow",), underflow=18),
    "flow": Subject(_network, truths.Cut, **_CUT),
    "grid": Subject(_grid, truths.GridCut, **_CUT | {"digits": 52}),
    "grid of the twin": Subject(
        _grid, truths.GridCut, **_CUT | {"digits": 52, "may": _too_much_for_the_twin}),
    "sqeuclidean": Subject(_points("sqeuclidean"), truths.Dense),
    "euclidean": Subject(_points("euclidean"), truths.Dense),
    "l1": Subject(_points("l1"), truths.Dense),
}  # fmt: skip
