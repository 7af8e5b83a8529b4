"""Exact optimal transport with costs and weights as people have them, beside its peers.

    python -m benchmarks.transport.solve [--quick] [--out FOLDER]

All solvers get the same numbers. Every answer must be `OPTIMAL`, pass `check_transport`, and cost
what POT's network simplex (`ot.emd`) finds, to 1e-9 in float64 and 1e-5 in float32, relative to the
mass times the costs that it moves.

On a CPU: one problem by one core, in float64 (as POT) and in float32, beside `ot.emd`, LEMON's
network simplex (pylmcf, on integers), and for n = 256 or-tools and HiGHS. "Balanced clusters" is a
step of balanced k-means by `solve_assignment` with bounds of sizes, cold, and from the duals of the
step before. Absolute times on a CPU mean little elsewhere: the columns are times of a peer by ours
in float64, greater than 1 where we are faster. Writes `transport_cpu.json` and `.png`.

On a GPU: single problems in float32 on the device beside POT on one core of the host and, where
ott-jax is installed, its Sinkhorn on the device with the greatest epsilon whose cost is within 1 %
of the optimum; batches beside POT in up to 16 processes. Writes `transport_gpu.json` and `.png`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, plots, record
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import timed
from benchmarks.transport import peers
from benchmarks.transport.problems import (
    COSTS,
    FEW,
    WEIGHTS,
    Clusters,
    Problem,
    as_transport,
    clusters,
    problem,
    rectangle,
)


SIZES = [256, 512, 1024, 2048, 4096]
MOST_WITH_LEMON = 1024  # above, an arc for each of the n² pairs takes its time
SMALLEST = 256
LARGE = 2048  # from here on, fewer families
LARGEST = 8192  # on a GPU
RECTANGLE, QUICK_RECTANGLE = (23_000, 50), (2_000, 20)
BATCHES = [(64, 256), (32, 1024)]
PROCESSES = 16
KINDS = {"float64": (np.float64, 1e-9), "float32": (np.float32, 1e-5)}  # the tolerance of values
TOLERANCE_OF_PEERS = 1e-5  # some round to integers
EPSILONS = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4]  # of the mean absolute cost
SINKHORN_ERROR, SINKHORN_ITERATIONS, MOST_FOR_SINKHORN = 0.01, 20_000, 4096
PACKAGES = ["jax", "jaxlib", "numpy", "scipy", "POT", "pylmcf", "ortools", "ott-jax"]


# ---------------------------------------------------------------------------------------------
# Ours

solve = jax.jit(jm.solve_transport)


def on_device(given: Problem, dtype: Any) -> list[jax.Array]:
    """Masses that are integers stay so."""
    masses = (x if x.dtype == np.int32 else np.asarray(x, dtype) for x in given[1:])
    return [jax.device_put(x) for x in (np.asarray(given.cost, dtype), *masses)]


def check(given: Problem, best: Any, res: jm.Transport, tolerance: float) -> None:
    """Raises an AssertionError unless every problem is solved to the known optimum."""
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all(), res.status
    # Costs of either sign may cancel in the optimum, but not in this.
    at = np.maximum(res.rows, 0) * given.cost.shape[-1] + np.maximum(res.cols, 0)
    flat = given.cost.reshape(*given.cost.shape[:-2], -1)
    scale = (np.abs(np.take_along_axis(flat, at, -1)) * np.asarray(res.mass)).sum(-1)
    apart = np.abs(np.asarray(res.cost, np.float64) - best)
    assert (apart <= tolerance * scale).all(), (res.cost, best)
    assert (np.asarray(res.gap) <= tolerance * scale).all(), (res.gap, best)


def ours(given: Problem, best: Any, kind: str, budget: float) -> float:
    """The median time of a call, in float64 under x64. The answer is proved."""
    dtype, tolerance = KINDS[kind]
    with jax.enable_x64(dtype == np.float64):
        cost, supply, demand = on_device(given, dtype)
        res, ms = timed(solve, cost, supply, demand, budget=budget, least=2)
        check(given, best, res, tolerance)
        proof = jm.check_transport(cost, supply, demand, res)
    assert np.asarray(proof.valid).all()
    return ms


def our_clusters(given: Clusters, best: float, dtype: Any, warm: bool) -> float:
    """A step, from nothing or from the duals of the step before."""
    bounds: dict[str, Any] = {"col_minimum": given.least, "col_capacity": given.most}
    with jax.enable_x64(dtype == np.float64):
        cost, before = (jax.device_put(np.asarray(x, dtype)) for x in given[:2])
        start = jm.solve_capacitated_assignment(before, **bounds).col_dual if warm else None
        call = jax.jit(partial(jm.solve_capacitated_assignment, **bounds))
        res, ms = timed(lambda: call(cost, warm_start=start), budget=0.5, least=3)
    assert res.status == jm.Status.OPTIMAL, res.status
    counts = np.bincount(res.col4row, minlength=given.cost.shape[1])
    assert given.least <= counts.min() and counts.max() <= given.most
    total = np.take_along_axis(given.cost, np.asarray(res.col4row)[:, None], 1).sum()
    assert abs(total - best) <= 1e-5 * best, (total, best)
    return ms


# ---------------------------------------------------------------------------------------------
# Single problems


def by_peers(given: Problem, names: list[str]) -> tuple[float, dict[str, float]]:
    """The optimum, by POT or the first of those that are installed, and their milliseconds."""
    solvers = {name: peer for name, peer in peers.known().items() if name in names}
    found = {name: peers.measure(peer, given) for name, peer in solvers.items()}
    best = next(iter(found.values()))[0]
    scale = float(np.abs(given.cost).mean() * given.supply.sum())
    for name, (value, _) in found.items():
        apart = abs(value - best)
        assert apart <= TOLERANCE_OF_PEERS * max(abs(best), 1e-2 * scale), (name, value, best)
    return best, {name: ms for name, (_, ms) in found.items()}


def names_of_peers(n: int, weights: str, quick: bool) -> list[str]:
    names = ["POT"]
    if n <= MOST_WITH_LEMON:
        names.append("LEMON")
    if n == SMALLEST and not quick:
        names += ["ortools"] * (weights == "integers") + ["HiGHS"]
    return names


def on_one_core(given: Problem, names: list[str]) -> Row:
    """Times of peers by ours."""
    best, spent = by_peers(given, names)
    own = {kind: ours(given, best, kind, budget=0.5) for kind in KINDS}
    ratios = {f"{name}/ours": ratio(ms, own["float64"]) for name, ms in spent.items()}
    return {**ratios, "POT/ours, float32": ratio(spent.get("POT"), own["float32"])}


def cluster_rows(shape: tuple[int, int]) -> Iterator[Row]:
    for dimensions in (2, 16):
        given = clusters(*shape, dimensions, slack=0.1)
        best, spent = by_peers(as_transport(given), ["POT", "LEMON"])
        for warm in (False, True):
            own = {k: our_clusters(given, best, KINDS[k][0], warm) for k in KINDS}
            row = {f"{name}/ours": ratio(ms, own["float64"]) for name, ms in spent.items()}
            name = f"balanced clusters {dimensions}-D, {'warm' if warm else 'cold'}"
            yield {
                **{"costs": name, "weights": "bounds", "n": shape[0], "m": shape[1]},
                **row,
                "POT/ours, float32": ratio(spent.get("POT"), own["float32"]),
            }
        clusters.cache_clear()


def cpu_rows(quick: bool) -> Iterator[Row]:
    cases = []
    for n in SIZES[:2] if quick else SIZES:
        names = FEW if quick or n >= LARGE else [*COSTS]
        cases += [(n, name, weights) for name in names for weights in WEIGHTS]
    for n, name, weights in tqdm(cases):
        given = problem(name, weights, n)
        problem.cache_clear()
        row = {"costs": name, "weights": weights, "n": n, "m": given.cost.shape[1]}
        yield row | on_one_core(given, names_of_peers(n, weights, quick))
    shape = QUICK_RECTANGLE if quick else RECTANGLE
    for weights in tqdm(WEIGHTS):
        row = {"costs": "plane, few columns", "weights": weights, "n": shape[0], "m": shape[1]}
        yield row | on_one_core(rectangle(*shape, weights), ["POT", "LEMON"])
    yield from cluster_rows(shape)


# ---------------------------------------------------------------------------------------------
# On a GPU


@jax.jit
def sinkhorn(cost: Any, supply: Any, demand: Any, epsilon: Any) -> tuple[Any, Any]:
    """Its primal cost, and the mass that its plan misplaces."""
    from ott.geometry import geometry
    from ott.solvers import linear

    geom = geometry.Geometry(cost, epsilon=epsilon * jnp.abs(cost).mean())
    out = linear.solve(geom, supply, demand, max_iterations=SINKHORN_ITERATIONS)
    sides = ((out.marginal(1), supply), (out.marginal(0), demand))
    return out.primal_cost, sum(jnp.abs(x - y).sum() for x, y in sides)


def sinkhorn_part(given: Problem, best: float) -> Row:
    """The first epsilon that is precise enough; or the last one, and its error."""
    total = given.supply.sum()
    masses = (np.asarray(x / total, np.float32) for x in given[1:])
    arrays = [jax.device_put(x) for x in (np.asarray(given.cost, np.float32), *masses)]
    part: Row = {}
    for epsilon in EPSILONS:
        (cost, misplaced), ms = timed(sinkhorn, *arrays, epsilon, least=1)
        error = abs(float(cost) * total - best) / abs(best)
        part = {"Sinkhorn_ms": ms, "epsilon": epsilon, "error": error}
        part["misplaced"] = float(misplaced)
        if error <= SINKHORN_ERROR:
            break
    return part


def pot_optimum(name: str, n: int, seed: int) -> float:
    """In a worker, which makes each problem once."""
    return peers.by_pot(problem(name, "Dirichlet", n, seed))[0]


def batch_row(name: str, size: int, n: int, pool: ProcessPoolExecutor) -> Row:
    seeds = range(size)
    given = Problem(*(np.stack(x) for x in zip(*(problem(name, "Dirichlet", n, s) for s in seeds))))  # noqa: B905
    problem.cache_clear()
    best, times = np.empty(0), []
    for _ in range(4):  # in the first ones the workers make the problems
        start = time.perf_counter()
        best = np.array([*pool.map(pot_optimum, size * [name], size * [n], seeds)])
        times.append(1e3 * (time.perf_counter() - start))
    own = ours(given, best, "float32", budget=0.5)
    row = {"costs": name, "weights": "Dirichlet", "problems": size, "n": n, "float32_ms": own}
    return row | {"POT_processes_ms": min(times), "POT/ours": min(times) / own}


def gpu_rows(quick: bool) -> Iterator[Row]:
    workers = min(PROCESSES, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _on_cpu) as pool:
        for size, n in [(4, 256)] if quick else BATCHES:
            for name in tqdm(FEW[:1] if quick else FEW):
                yield batch_row(name, size, n, pool)
    cases = [(n, name, w) for n in SIZES[: 2 if quick else None] for name in FEW for w in WEIGHTS]
    if not quick:  # POT needs most of a minute
        cases += [(LARGEST, name, WEIGHTS[0]) for name in FEW]
    for n, name, weights in tqdm(cases):
        given = problem(name, weights, n)
        problem.cache_clear()
        best, spent = by_peers(given, ["POT"])
        own = ours(given, best, "float32", budget=0.5)
        row: Row = {"costs": name, "weights": weights, "problems": 1, "n": n, "float32_ms": own}
        row |= {"POT_ms": spent["POT"], "POT/ours": spent["POT"] / own}
        if n <= MOST_FOR_SINKHORN and find_spec("ott"):
            row |= sinkhorn_part(given, best)
        yield row


def _on_cpu() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"


# ---------------------------------------------------------------------------------------------
# Report


def plot_cpu(found: list[Row], path: Any) -> None:
    """Times of peers relative to ours, a mark for each problem."""
    figure, axes = plots.plt.subplots(figsize=(15, 5.5))
    labels = [f"{r['n']}×{r['m']} {r['costs']}, {r['weights']}" for r in found]
    names = {"POT": "POT", "LEMON": "LEMON", "HiGHS": "HiGHS"}
    series = {k: [r.get(f"{v}/ours") for r in found] for k, v in names.items()}
    plots.relative_to_ours(axes, labels, {k: v for k, v in series.items() if any(v)})
    axes.tick_params(axis="x", labelsize=5)
    axes.set_title("Time of one problem on one core, relative to jaxmatch (higher is slower)")
    plots.legend(axes)
    print(plots.save(figure, path))


def plot_gpu(found: list[Row], path: Any, where: str) -> None:
    """Bars of times on a logarithmic axis, one group for each family."""
    largest = max(r["n"] for r in found if r["problems"] == 1 and r["n"] <= MOST_FOR_SINKHORN)
    drawn = [r for r in found if (r["problems"], r["n"]) == (1, largest)]
    names = {"jaxmatch": "float32_ms", "POT, one core": "POT_ms", "Sinkhorn": "Sinkhorn_ms"}
    figure, axes = plots.plt.subplots(figsize=(9, 3.6))
    series = {k: [row.get(v) for row in drawn] for k, v in names.items()}
    labels = [f"{row['costs']}, {row['weights']}" for row in drawn]
    series = {k: v for k, v in series.items() if any(v)}
    bars = plots.grouped_bars(axes, labels, series)
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    title = (
        f"one problem of {largest} rows, {where}; Sinkhorn within 1 % of the optimum, or as marked"
    )
    axes.set_title(title, loc="left", fontsize=9)
    off = [r.get("error", 0) for r in drawn]
    if "Sinkhorn" in series:
        marks = [f"{100 * x:.1f} %" if x > 0.01 else "" for x in off]
        axes.bar_label(bars[-1], marks, fontsize=7)
    plots.legend(axes)
    axes.tick_params(axis="x", labelsize=6, rotation=20)
    print(plots.save(figure, path))


def summary(found: list[Row]) -> Row:
    """Geometric mean and least of each ratio."""
    names = dict.fromkeys(key for row in found for key in row if "/ours" in key)
    result = {}
    for name in names:
        values = [x for row in found if (x := row.get(name))]
        result |= {f"{name}, mean": record.geometric_mean(values), f"{name}, least": min(values)}
    return result


def has_gpu() -> bool:
    """Asked in another process: XLA sizes its pool of threads by the cores that it finds."""
    ask: Callable[[], str] = jax.default_backend
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(ask).result() == "gpu"


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer and smaller problems"))
    on_gpu = has_gpu()
    if not on_gpu:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    name = f"transport_{'gpu' if on_gpu else 'cpu'}"
    content: Row = (record.gpu() if on_gpu else {}) | record.environment(PACKAGES)
    found: list[Row] = []
    content["rows"] = found
    for row in (gpu_rows if on_gpu else cpu_rows)(args.quick):
        found.append(row)
        content["summary"] = summary(found)
        record.write_json(args.out, name, content)  # a run may be cut off
    title = "one problem or batch, ms" if on_gpu else "times of peers by ours, one core"
    record.print_table(f"optimal transport, {title}", found)
    record.print_table("of all rows", [summary(found)])
    path = args.out / f"{name}.png"
    if on_gpu:
        plot_gpu(found, path, f"one {content['gpu']}")
    else:
        plot_cpu(found, path)


if __name__ == "__main__":
    main()
