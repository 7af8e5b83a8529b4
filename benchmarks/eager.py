"""Calls outside of `jax.jit` on a CPU: what one call takes, on shapes known and new.

    python -m benchmarks.eager [--out FOLDER]

NumPy and JAX arrays by `linear_sum_assignment` and `solve_assignment`, with capacities, transport
and distances beside POT and scipy, matchings and flows; a sequence of 300 frames whose every cost
matrix has another shape, evaluated by motmetrics with scipy and with jaxmatch. Peers and jaxmatch
take turns in one process. Every answer is compared with that of a peer. Times of one CPU are worth
only their ratios. Writes `eager.json`.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse.csgraph

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import in_turn


CALLS = 500
Call = Callable[[Any], Any]


def microseconds(seconds: dict[str, float]) -> Row:
    return {f"{name}_us": 1e6 * x for name, x in seconds.items()}


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.median(x)) for name, x in times.items()}


def timed(times: list[float], call: Callable[..., Any], *args: Any) -> Any:
    start = time.perf_counter()
    result = call(*args)
    times.append(time.perf_counter() - start)
    return result


def assignments() -> Iterator[Row]:
    scipy_call = scipy.optimize.linear_sum_assignment
    calls: dict[str, Call] = {
        "scipy": scipy_call,
        "linear_sum_assignment": jm.linear_sum_assignment,
        "solve_assignment": jm.solve_assignment,
        "capacities": partial(jm.solve_capacitated_assignment, col_capacity=1),
        "linear_sum_assignment_jax": jm.linear_sum_assignment,
        "solve_assignment_jax": jm.solve_assignment,
    }
    for n in (5, 10, 20, 50):
        for dtype in ("float64", "float32"):
            cost = np.random.default_rng(n).random((n, n)).astype(dtype)
            best = cost[scipy_call(cost)].sum(dtype=np.float64)
            assert abs(cost[jm.linear_sum_assignment(cost)].sum(dtype=np.float64) - best) < 1e-9
            given = {True: jnp.asarray(cost), False: cost}
            bound = {name: partial(call, given["jax" in name]) for name, call in calls.items()}
            yield {"n": n, "dtype": dtype, **microseconds(in_turn(bound, CALLS))}


def transports() -> Iterator[Row]:
    import ot

    for n in (5, 10, 20, 50):
        rng = np.random.default_rng(n)
        cost, a, b = rng.random((n, n)), rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
        assert abs(ot.emd2(a, b, cost) - jm.solve_transport(cost, a, b).cost) < 1e-9
        on_jax = [jnp.asarray(x) for x in (cost, a, b)]
        calls = {
            "pot": partial(ot.emd, a, b, cost),
            "solve_transport": partial(jm.solve_transport, cost, a, b),
            "solve_transport_jax": partial(jm.solve_transport, *on_jax),
        }
        yield {"n": n, **microseconds(in_turn(calls, CALLS))}


def distances() -> Iterator[Row]:
    """Of samples and of points, a new pair of sizes each time."""
    import scipy.stats

    rng = np.random.default_rng(3)
    calls: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
        "scipy_wasserstein": lambda x, y: scipy.stats.wasserstein_distance(x[:, 0], y[:, 0]),
        "wasserstein_1d": lambda x, y: jm.losses.wasserstein_1d(x[:, 0], y[:, 0]),
        "earth_mover_distance": jm.losses.earth_mover_distance,
        "box_iou": lambda x, y: jm.losses.box_iou(x, y),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for n, m in rng.integers(20, 120, (200, 2)):
        x, y = rng.random((n, 4)), rng.random((m, 4))
        found = {name: timed(times[name], call, x, y) for name, call in calls.items()}
        assert abs(found["scipy_wasserstein"] - found["wasserstein_1d"]) < 1e-9
    yield microseconds(medians(times))


def new_shapes() -> Iterator[Row]:
    """Each shape once, so that nothing that was kept for a shape is of use."""
    rng = np.random.default_rng(0)
    shapes = iter(rng.permutation([(i, j) for i in range(10, 51) for j in range(10, 51)]).tolist())
    names = ("scipy", "linear_sum_assignment", "solve_assignment", "solve_assignment_jax")
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(400):
        n, m = next(shapes)
        for name in names:
            if name != "scipy":
                n, m = next(shapes)
            cost = rng.random((n, m))
            given = jnp.asarray(cost) if name == "solve_assignment_jax" else cost
            call = scipy.optimize.linear_sum_assignment if name == "scipy" else None
            call = call or getattr(jm, name.removesuffix("_jax"))
            timed(times[name], call, given)
    yield microseconds(medians(times))


def graphs() -> Iterator[Row]:
    """A new size each time; building graph and network is not counted."""
    rng = np.random.default_rng(1)
    times: dict[str, list[float]] = {
        name: [] for name in ("scipy_matching", "matching", "scipy_flow", "flow")
    }

    for n in range(20, 60):
        A = scipy.sparse.csr_array((rng.random((n, n)) < 0.1).astype(np.int32))
        graph = jm.BipartiteGraph.from_scipy(A)
        res = timed(times["matching"], jm.maximum_bipartite_matching, graph)
        theirs = timed(times["scipy_matching"], scipy.sparse.csgraph.maximum_bipartite_matching, A)
        assert int(res.cardinality) == (theirs >= 0).sum()
        weights = scipy.sparse.csr_array(np.triu(rng.integers(0, 9, (n, n)), 1).astype(np.int32))
        network, capacity = jm.FlowNetwork.from_scipy(weights)
        flow = timed(times["flow"], jm.maximum_flow, network, capacity, 0, n - 1)
        maximum_flow = scipy.sparse.csgraph.maximum_flow
        theirs = timed(times["scipy_flow"], maximum_flow, weights, 0, n - 1)
        assert int(flow.value) == theirs.flow_value
    yield microseconds(medians(times))


def tracking() -> Iterator[Row]:
    """The accumulator of motmetrics over 300 frames."""
    import motmetrics

    rng = np.random.default_rng(2)
    frames = []
    for _ in range(300):
        truth, found = rng.random((rng.integers(5, 40), 2)), rng.random((rng.integers(5, 40), 2))
        frames.append(((truth[:, None] - found) ** 2).sum(-1))

    def solve(costs: np.ndarray) -> Any:
        return jm.linear_sum_assignment(motmetrics.lap.add_expensive_edges(costs))

    def evaluate(solver: Any) -> tuple[float, int]:
        with motmetrics.lap.set_default_solver(solver):
            accumulator = motmetrics.MOTAccumulator(auto_id=True)
            start = time.perf_counter()
            for costs in frames:
                accumulator.update(np.arange(len(costs)), np.arange(costs.shape[1]), costs)
            seconds = time.perf_counter() - start
        events = accumulator.events  # assembled here, whatever the solver
        return seconds, int((events.Type == "MATCH").sum() + (events.Type == "SWITCH").sum())

    times: dict[str, list[float]] = {"scipy": [], "jaxmatch": []}
    for _ in range(5):
        matches = set()
        for name, solver in (("scipy", "scipy"), ("jaxmatch", solve)):
            seconds, found = evaluate(solver)
            times[name].append(seconds)
            matches.add(found)
        assert len(matches) == 1
    yield {f"{name}_s": x for name, x in medians(times).items()}


def main() -> None:
    args = options.parse(options.parser(__doc__))
    content = record.environment(["jax", "jaxlib", "numpy", "scipy", "pot", "motmetrics"])
    parts = {"assignments": assignments, "new_shapes": new_shapes, "graphs": graphs}
    parts["distances"] = distances
    if importlib.util.find_spec("ot"):
        parts["transports"] = transports
    if importlib.util.find_spec("motmetrics"):
        parts["tracking"] = tracking
    for name, part in parts.items():
        content[name] = list(part())
        record.print_table(name, content[name])
    record.write_json(args.out, "eager", content)


if __name__ == "__main__":
    main()
