"""Optimal transport with costs as people have them, beside POT and Sinkhorn.

    python -m benchmarks.transport.solve [--quick] [--out FOLDER]

Families of `assignment/families.py` with Dirichlet weights; all solvers get the same numbers. Every
answer must be `OPTIMAL`, and its cost that of POT's network simplex (`ot.emd`) to 1e-9 in float64
and to 1e-5 in float32, relative to the mass times the costs that it moves. Where POT is not
installed, the reference is our own CPU solver in float64.

On a CPU: one problem by one thread, in float64 (as POT) and in float32, and a batch in one call,
beside POT in as many processes as there are cores. Read the ratios: absolute times on a CPU mean
little elsewhere. Writes `transport_cpu.json` and `.png`.

On a GPU: the same problems in float32 on the device, beside POT on the host and, where ott-jax is
installed, its Sinkhorn on the device, with epsilon 1e-2 and 1e-3 of the mean absolute cost, its
error (relative, of the primal cost) and the mass that its plan misplaces. Writes
`transport_gpu.json` and `.png`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES
from benchmarks.common import options, plots, record
from benchmarks.common.record import Row
from benchmarks.common.timing import timed


FEW = ["sphere to shape", "20 clusters", "uniform"]
SIZES = [256, 512, 1024, 2048]
QUICK_CASES = [(256, [*FAMILIES]), (512, FEW)]
CASES = [(n, [*FAMILIES]) for n in SIZES]
BATCH, BATCH_N = 32, 256
KINDS = {"float64": (np.float64, 1e-9), "float32": (np.float32, 1e-5)}  # the tolerance of values
EPSILONS = {"1e-2": 1e-2, "1e-3": 1e-3}
SINKHORN_ITERATIONS = 20_000
PACKAGES = ["jax", "jaxlib", "numpy", "scipy", "POT", "ott-jax"]
HAS_POT = find_spec("ot") is not None
HAS_OTT = find_spec("ott") is not None


class Problem(NamedTuple):
    """A problem or a batch of them, in float64."""

    cost: np.ndarray
    supply: np.ndarray
    demand: np.ndarray


@cache
def problem(name: str, n: int, seed: int = 0) -> Problem:
    cost = np.ascontiguousarray(FAMILIES[name](n, seed))
    rng = np.random.default_rng(1_000_000 + seed)
    supply, demand = (rng.dirichlet(np.ones(size)) for size in cost.shape)
    return Problem(cost, supply, demand)


# ---------------------------------------------------------------------------------------------
# Solvers


def by_pot(given: Problem) -> float:
    """The optimum, by POT."""
    import ot

    _, log = ot.emd(given.supply, given.demand, given.cost, numItermax=10**9, log=True)
    assert log["warning"] is None, log["warning"]
    return log["cost"]


def one_by_pot(name: str, n: int, seed: int) -> float:
    """In a worker, which makes each problem once."""
    return by_pot(problem(name, n, seed))


solve = jax.jit(jm.solve_transport)


def solve_ms(given: Problem, dtype: Any, budget: float) -> tuple[jm.Transport, float]:
    """The result and the median time of a call; float64 under x64."""
    with jax.enable_x64(dtype == np.float64):
        arrays = [jax.device_put(np.asarray(x, dtype)) for x in given]
        return timed(solve, *arrays, budget=budget, least=3)


def reference(given: Problem) -> np.ndarray:
    """Where there is no POT."""
    with jax.default_device(jax.devices("cpu")[0]), jax.enable_x64(True):
        return np.asarray(jm.solve_transport(*given).raise_for_status().cost)


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


@partial(jax.jit, static_argnames="epsilon")
def sinkhorn(cost: Any, supply: Any, demand: Any, epsilon: float) -> tuple[Any, Any]:
    """Its primal cost, and the mass that its plan misplaces."""
    from ott.geometry import geometry
    from ott.solvers import linear

    geom = geometry.Geometry(cost, epsilon=epsilon * jnp.abs(cost).mean())
    out = linear.solve(geom, supply, demand, max_iterations=SINKHORN_ITERATIONS)
    sides = ((out.marginal(1), supply), (out.marginal(0), demand))
    return out.primal_cost, sum(jnp.abs(x - y).sum() for x, y in sides)


# ---------------------------------------------------------------------------------------------
# Rows


def one_row(n: int, name: str, on_gpu: bool) -> Row:
    given = problem(name, n)
    best, pot_ms = None, None
    if HAS_POT:
        best, pot_ms = timed(by_pot, given, budget=0.2, least=1)
    row = _shape(given) | jaxmatch_part(given, best, pot_ms, on_gpu) | {"POT_ms": pot_ms}
    return row | (sinkhorn_part(given, best) if on_gpu and HAS_OTT else {})


def batch_row(name: str, pool: ProcessPoolExecutor | None, on_gpu: bool) -> Row:
    arguments = [BATCH * [name], BATCH * [BATCH_N], range(BATCH)]
    given = Problem(*(np.stack(x) for x in zip(*map(problem, *arguments), strict=True)))
    best, pot_ms = None, None
    if pool is not None:
        times = []
        for _ in range(5):  # in the first ones the workers make the problems
            start = time.perf_counter()
            best = np.array([*pool.map(one_by_pot, *arguments)])
            times.append(1e3 * (time.perf_counter() - start))
        pot_ms = min(times)
    part = jaxmatch_part(given, best, pot_ms, on_gpu)
    return _shape(given) | part | {"POT_processes_ms": pot_ms}


def _shape(given: Problem) -> Row:
    *batch, n, m = given.cost.shape
    return {"problems": batch[0] if batch else 1, "n": n, "m": m}


def jaxmatch_part(given: Problem, best: Any, pot_ms: float | None, on_gpu: bool) -> Row:
    best = reference(given) if best is None else best
    part: Row = {}
    for name, (dtype, tolerance) in KINDS.items():
        if on_gpu and name == "float64":
            continue
        res, ms = solve_ms(given, dtype, budget=0.5)
        check(given, best, res, tolerance)
        part |= {f"{name}_ms": ms, f"{name}_by_POT": record.ratio(ms, pot_ms)}
    return part


def sinkhorn_part(given: Problem, best: float | None) -> Row:
    best = float(reference(given)) if best is None else best
    part: Row = {}
    arrays = [jax.device_put(np.asarray(x, np.float32)) for x in given]
    for label, epsilon in EPSILONS.items():
        call = partial(sinkhorn, epsilon=epsilon)
        (cost, misplaced), ms = timed(call, *arrays, budget=0.5, least=1)
        part |= {
            f"sinkhorn_{label}_ms": ms,
            f"sinkhorn_{label}_error": abs(float(cost) - best) / abs(best),
            f"sinkhorn_{label}_misplaced": float(misplaced),
        }
    return part


def rows(quick: bool, on_gpu: bool) -> Iterator[Row]:
    cases = [(n, name) for n, names in (QUICK_CASES if quick else CASES) for name in names]
    for n, name in tqdm(cases):
        yield {"costs": name} | one_row(n, name, on_gpu)
        problem.cache_clear()
    pool = None
    if HAS_POT:
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(len(os.sched_getaffinity(0)), spawn)
    for name in tqdm(FEW[:1] if quick else FEW):
        yield {"costs": name} | batch_row(name, pool, on_gpu)
    if pool is not None:
        pool.shutdown()


# ---------------------------------------------------------------------------------------------
# Report


def plot(drawn: list[Row], title: str, path: Any) -> None:
    """Bars of times on a logarithmic axis, one group for each family."""
    names = {f"jaxmatch, {kind}": f"{kind}_ms" for kind in KINDS} | {"POT, one core": "POT_ms"}
    names |= {f"Sinkhorn, ε = {x} of the mean": f"sinkhorn_{x}_ms" for x in EPSILONS}
    series = {k: [row.get(v) for row in drawn] for k, v in names.items()}
    figure, axes = plots.plt.subplots(figsize=(9, 3.6))
    series = {k: v for k, v in series.items() if any(v)}
    plots.grouped_bars(axes, [row["costs"] for row in drawn], series)
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    axes.set_title(title, loc="left", fontsize=9)
    plots.legend(axes)
    axes.tick_params(axis="x", labelsize=7, rotation=15)
    print(plots.save(figure, path))


def means(found: list[Row]) -> dict[str, float]:
    """Geometric means of the times relative to POT's, of single problems and of batches."""
    result = {}
    for kind in KINDS:
        for what, single in (("one", True), ("batch", False)):
            of = [r.get(f"{kind}_by_POT") for r in found if (r["problems"] == 1) == single]
            if ratios := [x for x in of if x]:
                result[f"{what}_{kind}_by_POT"] = record.geometric_mean(ratios)
    return result


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer and smaller problems"))
    on_gpu = jax.default_backend() == "gpu"
    name = f"transport_{'gpu' if on_gpu else 'cpu'}"
    content = record.gpu() if on_gpu else {}
    content |= {"device": jax.devices()[0].device_kind} | record.environment(PACKAGES)
    content["rows"] = found = []
    for row in rows(args.quick, on_gpu):
        found.append(row)
        content["geometric_means"] = means(found)
        record.write_json(args.out, name, content)  # a run may be cut off
    record.print_table("optimal transport, ms", found)
    for label, value in means(found).items():
        print(f"{label}, geometric mean: {value:.3f}")
    n = QUICK_CASES[0][0] if args.quick else 1024
    drawn = [row for row in found if (row["problems"], row["n"]) == (1, n)]
    where = f"one {content['gpu']}" if on_gpu else "one CPU core"
    plot(drawn, f"one problem of {n} rows, Dirichlet weights, {where}", args.out / f"{name}.png")


if __name__ == "__main__":
    main()
