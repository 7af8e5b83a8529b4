"""Writes the corpus again: `python -m fuzz.record` in `tests`, after operands or names change.

Problems are solved through the public functions, once for every kind of call: a target, the names
of its operands, its dtypes and its attributes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuzz.calls import CALLS, Call, to_json


os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from sharded_helpers import sharded  # noqa: E402

import jaxmatch as jm  # noqa: E402
from jaxmatch._assignment_points.nearest import nearest  # noqa: E402
from jaxmatch._common.result import result_float  # noqa: E402
from jaxmatch._ffi import call as calls  # noqa: E402
from jaxmatch._flow.stencil import stencil_flow, stencil_of  # noqa: E402
from jaxmatch.estimators import Perturbed  # noqa: E402


_MOST_OF_A_TARGET = 14
_found: dict[str, list[Call]] = {}


def _note(call: Call) -> None:
    kept = _found.setdefault(call.target, [])
    kind = (call.attributes, [x.dtype for x in call.operands], call.results[0][1])
    kinds = [(x.attributes, [y.dtype for y in x.operands], x.results[0][1]) for x in kept]
    if kind not in kinds and len(kept) < _MOST_OF_A_TARGET:
        kept.append(call)


def _listen() -> None:
    """Notes what goes to handlers, from programs and without them."""
    host_call, bind = calls.host_call, calls._bind

    def on_host(target: Any, operands: Any, results: Any, batch_operand: Any, attributes: Any):
        at, core = batch_operand
        batch = operands[at].shape[: operands[at].ndim - core]
        shapes = [((*batch, *shape), np.dtype(dtype)) for shape, dtype in results]
        _note(Call(target, [np.array(x) for x in operands], shapes, {}, dict(attributes)))
        return host_call(target, operands, results, batch_operand, attributes)

    def in_program(operands: Any, call: Any) -> Any:
        batch = call.batch(operands)
        shapes = [((*batch, *r.shape), np.dtype(r.dtype)) for r in call.results]

        def note(*given: Any) -> None:
            arrays = [np.array(x) for x in given]
            _note(Call(call.target, arrays, shapes, dict(call.aliases), dict(call.attributes)))

        if not call.by_batch:
            jax.debug.callback(note, *operands)
        return bind(operands, call)

    calls.host_call, calls._bind = on_host, in_program


def _graph(rng: np.random.Generator, n: int, m: int) -> jm.BipartiteGraph:
    rows, cols = np.nonzero(rng.random((n, m)) < 0.7)
    return jm.BipartiteGraph.from_edges(rows, cols, (n, m))


def _problems(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    cost = rng.normal(size=(2, 4, 3)).astype(np.float32)
    masks = {
        "row_mask": np.array([[True, True, False, True]] * 2),
        "col_mask": np.ones((2, 3), bool),
    }
    integers = rng.integers(-9, 9, (2, 4, 5), np.int32)
    for given in (cost, cost.astype(np.float64), integers, integers.astype(np.int64),
                  cost.astype(jnp.bfloat16), cost.astype(np.float16)):  # fmt: skip
        yield lambda c=given: jm.solve_assignment(c)
    leave = rng.normal(size=(2, 4)).astype(np.float32)
    yield lambda: jm.solve_assignment(cost, maximize=True, unmatched_cost=leave, **masks)
    yield lambda: jm.solve_assignment(cost, warm_start=np.zeros((2, 3), np.float32))
    for method in ("core", "auction", "classical", "tree"):
        yield lambda m=method: jm.solve_assignment(cost, method=m)
        yield lambda m=method: jm.solve_assignment(integers, method=m)
        yield lambda m=method: jm.solve_assignment(cost, method=m, **masks)
    yield lambda: jm.k_best_assignments(cost, k=3)
    yield lambda: jm.k_best_assignments(integers, k=4, maximize=True)
    yield lambda: jm.k_best_assignments(cost, k=3, **masks)
    yield from _graphs(rng)
    yield from _masses(rng)
    yield from _capacities(np.random.default_rng(1))
    yield from _stencils(np.random.default_rng(2))
    yield from _priced_networks(np.random.default_rng(3))
    yield from _points(rng)
    yield from _nearest(np.random.default_rng(2))
    yield from _volume(np.random.default_rng(3))
    yield from _sharded(rng)
    yield from _learning(cost, masks)


def _graphs(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    graph = _graph(rng, 5, 6)
    for method in ("auto", "hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_pfp"):
        yield lambda m=method: jm.maximum_bipartite_matching(graph, method=m)
    edges = graph.row_ind.shape[-1]
    for dtype in (np.float32, np.int32, np.float64, np.int64):
        cost = rng.integers(0, 9, edges).astype(dtype)
        yield lambda c=cost: jm.solve_sparse_assignment(graph, c)
        leave = np.full(5, 4, dtype)
        yield lambda c=cost, x=leave: jm.solve_sparse_assignment(graph, c, unmatched_cost=x)
    tail, head = rng.integers(0, 6, (2, 14))
    network = jm.FlowNetwork.from_edges(tail, head, 6)
    for dtype in (np.int32, np.int64, np.float32, np.float64):
        capacity = rng.integers(0, 9, (2, 14)).astype(dtype)
        for method in ("auto", "augment", "pseudoflow"):
            yield lambda c=capacity, m=method: jm.maximum_flow(network, c, 0, 5, method=m)
        yield lambda c=capacity: jm.maximum_flow(
            network, c, 0, 5, warm_start=jm.maximum_flow(network, c, 0, 5)
        )
        for arcs, shape in ((4, (3, 4)), (8, (3, 4)), (6, (2, 3, 4))):
            sides = (2, *shape), (2, *shape), (2, arcs, *shape)
            grid = [rng.integers(0, 9, x).astype(dtype) for x in sides]
            yield lambda c=grid, k=arcs: jm.grid_cut(*c, connectivity=k)
            yield lambda c=grid, k=arcs: jm.grid_cut(*c, connectivity=k, return_flow=True)


def _volume(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    sides = (2, 2, 2, 3), (2, 2, 2, 3), (2, 26, 2, 2, 3)
    grid = [rng.integers(0, 9, x).astype(np.int32) for x in sides]
    yield lambda: jm.grid_cut(*grid, connectivity=26)


def _stencils(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    """A grid of 3 by 4 cells, joined to both terminals, with the form of 4 and of 8 neighbours."""
    cell = np.arange(12)
    for distances in ((1, 4), (1, 3, 4, 5)):
        ends = [(i, i + d) for d in distances for i in range(12 - d)]
        tail, head = np.concatenate([ends, np.flip(ends, 1)]).T
        tail, head = np.append(tail, [*cell, *[12] * 12]), np.append(head, [*[13] * 12, *cell])
        network = jax.tree.map(np.asarray, jm.FlowNetwork.from_edges(tail, head, 14))
        form = stencil_of(network, 12, 13)
        assert form is not None
        capacity = rng.integers(0, 9, len(tail)).astype(np.int32)
        yield lambda f=form, c=capacity: stencil_flow(f, c)


def _priced_networks(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    """With an edge without a limit and a forbidden one; with lower bounds, and warm starts."""
    ends = rng.integers(0, 5, (2, 9))
    network = jm.FlowNetwork.from_edges(*ends, 5)
    for mass, of_costs in ((np.int32, np.int64), (np.int64, np.int32), (np.float32, np.int32),
                           (np.float64, np.float32), (np.float32, np.float64)):  # fmt: skip
        whole = issubclass(mass, np.integer)
        capacity = rng.integers(2, 9, (2, 9)).astype(mass)
        capacity[:, 0] = np.iinfo(mass).max if whole else np.inf
        cost = rng.integers(-3, 9, (2, 9)).astype(of_costs)
        cost[:, 1] = cost[:, 1] if issubclass(of_costs, np.integer) else np.inf
        supply = rng.integers(-1, 2, (2, 5)).astype(mass)
        supply[:, 0] -= supply.sum(1)
        given, lower = (network, capacity, cost, supply), np.full((2, 9), -1, mass)
        res = jm.minimum_cost_flow(*given, method="xla")
        for method in ("auto", "network_simplex", "cost_scaling"):
            yield lambda g=given, m=method: jm.minimum_cost_flow(*g, method=m)
        yield lambda g=given, x=lower, r=res: jm.minimum_cost_flow(*g, lower=x, warm_start=r)


def _masses(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    supply, demand = np.array([[3, 1, 2]] * 2, np.int32), np.array([[2, 4]] * 2, np.int32)
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.float16, jnp.bfloat16):
        cost = rng.integers(0, 9, (2, 3, 2)).astype(dtype)
        yield lambda c=cost: jm.solve_transport(c, supply, demand)
    shares = supply.astype(np.float32), demand.astype(np.float32)
    cost = rng.random((2, 3, 2), np.float32)
    yield lambda: jm.solve_transport(cost, *shares, partial=np.full(2, 2, np.float32))
    yield lambda: jm.solve_transport(cost, *shares, unmatched_cost=np.ones((2, 3), np.float32))
    yield lambda: jm.solve_transport(cost, *shares, row_mask=np.ones((2, 3), bool))
    yield lambda: jm.solve_transport(cost, supply, demand, partial=np.full(2, 2, np.int32))
    x, y = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 2, 2))
    for metric in ("sqeuclidean", "l1", "euclidean"):
        yield lambda m=metric: jm.solve_transport_points(x, y, supply, demand, metric=m)


def _capacities(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    cols, rows, least = np.array([[2, 4]] * 2), np.array([[1, 2, 1]] * 2, np.int32), np.eye(2)
    given: dict[str, Any] = {"col_capacity": cols, "col_minimum": least.astype(np.int32)}
    masks = {"row_mask": np.ones((2, 3), bool), "col_mask": np.ones((2, 2), bool)}
    for dtype in (np.float32, np.int32, np.int64, np.float16, jnp.bfloat16):
        cost = rng.integers(-9, 9, (2, 3, 2)).astype(dtype)
        stay = np.ones((2, 3), dtype)
        yield lambda c=cost: jm.solve_capacitated_assignment(c, col_capacity=2)
        yield lambda c=cost, r=stay: jm.solve_capacitated_assignment(c, unmatched_cost=r, **given)
    cost = rng.random((2, 3, 2))
    yield lambda: jm.solve_capacitated_assignment(cost, row_capacity=rows, **given, **masks)
    start = np.zeros((2, 2))
    yield lambda: jm.solve_capacitated_assignment(cost, col_capacity=cols, warm_start=start)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)).astype(np.float32)
    for sets in ((x, y), (x.astype(np.float32), y)):
        yield lambda s=sets: jm.solve_capacitated_assignment_points(*s, col_capacity=2)
        yield lambda s=sets: jm.solve_capacitated_assignment_points(
            *s, metric="l1", row_capacity=np.arange(5), col_capacity=3, col_minimum=np.ones(4, int)
        )


def _points(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    x, y = rng.normal(size=(5, 2)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    for metric in ("sqeuclidean", "l1", "euclidean"):
        yield lambda m=metric: jm.solve_assignment_points(x, y, metric=m)
    yield lambda: jm.solve_assignment_points(x, y, row_mask=np.arange(5) != 2)
    leave = np.ones(5, np.float32)
    yield lambda: jm.solve_assignment_points(x, y, radius=1.0, unmatched_cost=leave)
    yield lambda: jm.solve_assignment_points(x, y, method="core")


def _nearest(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    near = rng.integers(-1, 40, (2, 6, 4)).astype(np.int32)
    for dims, metric in ((2, "sqeuclidean"), (3, "euclidean"), (1, "l1"), (3, "cosine")):
        x, y = rng.normal(size=(2, 6, dims)), rng.normal(size=(2, 40, dims))
        price = rng.random((2, 40))
        for point in (np.float32, np.float64):
            given = x.astype(point), y.astype(point), price.astype(result_float()), near
            yield lambda g=given, m=metric: nearest(*g, 3, m)


def _sharded(rng: np.random.Generator) -> Iterator[Callable[[], Any]]:
    cost = rng.normal(size=(6, 6)).astype(np.float32)
    for method in ("core", "classical", "tree"):
        for by in ("row_axis", "col_axis"):
            yield lambda m=method, b=by: sharded(cost, b, 2, method=m)


def _learning(cost: np.ndarray, masks: dict[str, np.ndarray]) -> Iterator[Callable[[], Any]]:
    key = jax.random.key(0)
    for given in ({}, masks):
        for noise in ("normal", "gumbel"):
            rule = Perturbed(0.5, 3, noise)
            yield lambda r=rule, g=given: jax.jit(jax.grad(
                lambda c: (jm.assignment_matrix(c, estimator=r, key=key, **g) ** 2).sum()
            ))(cost)  # fmt: skip
    from jaxmatch.estimators._noise import noise_of, noise_streams

    yield lambda: noise_of(noise_streams(key, (2,), 3), 3, 5, "normal")


def main() -> None:
    _listen()
    for wide in (False, True):
        with jax.enable_x64(wide):
            for problem in _problems(np.random.default_rng(0)):
                jax.block_until_ready(problem())
    jax.effects_barrier()
    lines = [json.dumps(to_json(x)) for name in sorted(_found) for x in _found[name]]
    CALLS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print({name: len(x) for name, x in _found.items()})


if __name__ == "__main__":
    main()
