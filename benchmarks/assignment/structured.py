"""Assignments with costs as people have them, beside uniform ones.

    python -m benchmarks.assignment.structured [--quick] [--out FOLDER]

Families of `assignment/families.py` in float32. Every answer is held against its duals, and up to
n = 4096 compared with scipy's optimum of the same float32 costs.

On a GPU: batches and single problems by `method="auto"` and by the methods that it chooses from;
wall milliseconds of a call, and those of scipy on the host: up to eight problems at once, a thread
for each, and for a larger batch their time by as many times as it is larger. Writes
`assignment_structured_gpu.json` and `.png`.

Without one: `method="auto"` on one core beside scipy, lapx (`lapjvx`, `lapjvh`), lapcpp, laprust
and the network simplex of POT (`ot.emd`), as far as they are installed. Absolute times on a CPU
mean little elsewhere: read the ratios. Writes `assignment_structured_cpu.json` and `.png`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES, MISLEADING, POINTS, Family
from benchmarks.common import options, plots, record
from benchmarks.common.record import Row
from benchmarks.common.timing import median_ms


SQUARE = [name for name in FAMILIES if name != "uniform, m = 2n"]
FEW = ["sphere to shape", "20 clusters", "uniform"]
METHODS = ("auto", "jonker_volgenant", "core", "auction")
# (problems, n, families): scipy takes a minute for the largest.
GPU_CASES = [(32, 1024, SQUARE), (1, 1024, SQUARE), (256, 256, FEW), (32, 512, FEW)]
GPU_CASES += [(256, 512, FEW), (1, 2048, FEW)]
# scipy takes a minute for each.
SLOW_GPU_CASES = [(32, 2048, FEW), (1, 4096, FEW), (1, 8192, FEW)]
MISLEADING_CASES = [(name, 1000 if name == "outer product" else 5000) for name in MISLEADING]
POINT_CASES = [(4000, [*POINTS]), (50_000, ["sphere to shape", "uniform in the plane"])]
PACKAGES = ["jax", "jaxlib", "numpy", "scipy", "lapx", "lapcpp", "laprust", "POT"]
# (name, package, function)
PEERS = [("lapjvx", "lap", "lapjvx"), ("lapjvh", "lap", "lapjvh")]
PEERS += [("lapcpp", "lapcpp", "lapjv"), ("laprust", "laprust", "lapjv")]
SLOWER = {"lapjvx", "lapjvh", "lapcpp", "laprust"}  # half a minute for each of the largest
MOST_BY_SCIPY, MOST_IN_A_BLOCK = 4096, 4096  # longer sides are held against duals alone
# (problems, n, part of the rows that is missing)
MISSING_GPU_CASES = [(32, 1024, 1 / 1024), (32, 1024, 0.1), (1, 4096, 1 / 4096), (1, 4096, 0.1)]
MISSING_CPU_CASES = [(1024, 1 / 1024), (1024, 0.1), (2048, 0.1)]
CPU_CASES = [(256, SQUARE), (1024, SQUARE)]
SLOW_CPU_CASES = [(2048, SQUARE), (4096, FEW)]


def best_of(cost: np.ndarray) -> float:
    return float(cost[linear_sum_assignment(cost)].sum(dtype=np.float64))


def without_rows(family: Family, part: float) -> Family:
    """The family without this part of its rows: columns stay free."""
    return lambda n, seed: family(n, seed)[: n - int(part * n)]


_check = jax.jit(jm.check_assignment)
SOLVERS = {m: jax.jit(partial(jm.solve_assignment, method=m)) for m in METHODS}


def prove(cost: np.ndarray, best: np.ndarray | None, res: jm.Assignment) -> None:
    """Raises an AssertionError unless every problem is solved, to scipy's optimum if known."""
    rows = np.arange(cost.shape[-2])
    for k, (c, cols, gap) in enumerate(zip(cost, np.asarray(res.col4row), np.asarray(res.gap))):  # noqa: B905
        paid = c[rows, cols].sum(dtype=np.float64)
        apart = 0 if best is None else abs(paid - best[k])
        assert apart <= 1e-9 * max(1, abs(paid)) + gap and gap <= 1e-6 * abs(paid), (paid, gap)
    check = _check(jnp.asarray(cost), res)  # by the duals, which float32 rounds
    assert np.asarray(check.valid).all()
    duals = np.concatenate([np.asarray(res.row_dual), np.asarray(res.col_dual)], -1)
    rounded = np.finfo(np.float32).eps * np.abs(duals).sum(-1)
    assert (np.asarray(check.gap) <= rounded + 1e-6 * np.abs(np.asarray(res.cost))).all(), check.gap


def gpu_rows(quick: bool) -> Iterator[Row]:
    def of_families(cases: list[tuple[int, int, list[str]]]) -> Iterator[Row]:
        for b, n, name in tqdm([(b, n, name) for b, n, names in cases for name in names]):
            yield one_gpu_row(b, n, name, FAMILIES[name])

    yield from of_families(GPU_CASES)
    if quick:
        return
    for b, n, part in tqdm(MISSING_GPU_CASES):
        for name in FEW:
            yield one_gpu_row(b, n, name, without_rows(FAMILIES[name], part))
    for name, n in tqdm(MISLEADING_CASES):
        yield one_gpu_row(1, n, name, MISLEADING[name], by_scipy=False)
    for n, name in tqdm([(n, name) for n, names in POINT_CASES for name in names]):
        yield points_row(n, name)
    yield from of_families(SLOW_GPU_CASES)  # last, as a run may be cut off


def one_gpu_row(b: int, n: int, name: str, family: Family, by_scipy: bool = True) -> Row:
    # Few different problems: scipy has to solve each.
    some = np.stack([family(n, seed) for seed in range(min(b, 8))]).astype(np.float32)
    start, known = time.perf_counter(), None
    if by_scipy and n <= MOST_BY_SCIPY:
        with ThreadPoolExecutor() as pool:  # scipy releases the GIL
            known = np.array([*pool.map(best_of, some)])
    scipy_ms = (time.perf_counter() - start) * 1e3 * max(1, b / 8)
    cost = jnp.asarray(np.tile(some, (b // len(some), 1, 1)))
    cost = cost if b > 1 else cost[0]
    row: Row = {"problems": b, "rows": some.shape[1], "n": n, "costs": name}
    methods = METHODS if b == 1 else METHODS[:2]
    # A single block takes seconds where searches are long.
    methods = [m for m in methods if m != METHODS[1] or (n <= MOST_IN_A_BLOCK and by_scipy)]
    for method in methods:
        solve = SOLVERS[method]
        res = solve(cost)
        prove(some, known, res[: len(some)] if b > 1 else jax.tree.map(lambda x: x[None], res))
        row[f"{method}_ms"] = median_ms(solve, cost, budget=0.1)
    row["auto_by_best"] = row["auto_ms"] / min(row[f"{m}_ms"] for m in methods[1:])
    if known is not None:  # one thread where there is one problem
        row |= {"scipy_threads_ms": scipy_ms, "speedup": scipy_ms / row["auto_ms"]}
    return row


def points_row(n: int, name: str) -> Row:
    """Points whose distances are computed on each access, proved by their duals."""
    x, y = (jnp.asarray(p, jnp.float32) for p in POINTS[name](n, 0))
    res = jax.jit(jm.solve_assignment_points)(x, y)
    assert int(res.status) == jm.Status.OPTIMAL and float(res.gap) <= 1e-6 * float(res.cost)
    check = jm.check_assignment_points(x, y, res)
    assert bool(check.valid) and float(check.gap) <= 1e-5 * float(res.cost), check.gap
    solve = jax.jit(jm.solve_assignment_points)
    return {
        "problems": 1,
        "rows": n,
        "n": n,
        "costs": f"points, {name}",
        "auto_ms": median_ms(solve, x, y, budget=0.1),
    }


def peers() -> dict[str, Callable[[np.ndarray], Any]]:
    """The peers that are installed."""
    found: dict[str, Callable[[np.ndarray], Any]] = {"scipy": linear_sum_assignment}
    for name, package, function in PEERS:
        with suppress(ImportError):
            solve = getattr(import_module(package), function)
            found[name] = partial(solve, extend_cost=True)
    with suppress(ImportError):
        found["POT"] = partial(import_module("ot").emd, [], [], numItermax=10**9)
    return found


def cpu_rows(quick: bool) -> Iterator[Row]:
    for n, names in tqdm(CPU_CASES + ([] if quick else SLOW_CPU_CASES)):
        for name in names:
            leaves_out = SLOWER if n > 2048 else {"lapjvx"} if n > 1024 else set()
            yield one_cpu_row(n, name, FAMILIES[name], leaves_out)
    if quick:
        return
    for n, part in tqdm(MISSING_CPU_CASES):
        for name in FEW:
            yield one_cpu_row(n, name, without_rows(FAMILIES[name], part), {"POT", "lapjvx"})


def one_cpu_row(n: int, name: str, family: Family, leaves_out: set[str]) -> Row:
    cost, solve = family(n, 0).astype(np.float32), SOLVERS["auto"]
    res = solve(jnp.asarray(cost))
    prove(cost[None], np.array([best_of(cost)]), jax.tree.map(lambda x: x[None], res))
    row: Row = {"rows": len(cost), "n": n, "costs": name}
    row["jaxmatch_ms"] = median_ms(solve, jnp.asarray(cost), budget=0.5)
    double = cost.astype(np.float64)  # what the peers take without a copy
    times = {
        peer: median_ms(call, double, budget=0.2, least=1)
        for peer, call in peers().items()
        if peer not in leaves_out
    }
    row["by_fastest"] = row["jaxmatch_ms"] / min(times.values())
    return row | {f"{peer}_ms": ms for peer, ms in times.items()}


def plot_gpu(rows: list[Row], path: Any, where: str) -> None:
    """Bars of times of the batches of 32 on a logarithmic axis, one group for each family."""
    drawn = [row for row in rows if (row["problems"], row["rows"]) == (32, 1024)]
    figure, axes = plots.plt.subplots(figsize=(9, 3.6))
    values = {"jaxmatch": "auto_ms", "scipy, 8 threads": "scipy_threads_ms"}
    series = {name: [row.get(value) for row in drawn] for name, value in values.items()}
    plots.grouped_bars(axes, [row["costs"] for row in drawn], series)
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    title = f"32 problems of 1024 × 1024, float32, {where}; scipy on its host: 8 problems, time × 4"
    axes.set_title(title, loc="left", fontsize=9)
    plots.legend(axes)
    axes.tick_params(axis="x", labelsize=7)
    print(plots.save(figure, path))


def plot_cpu(rows: list[Row], path: Any) -> None:
    """Times of peers relative to ours, a mark for each problem; those not timed are left out."""
    figure, axes = plots.plt.subplots(figsize=(13, 5.5))
    labels = [f"{row['rows']}×{row['n']} {row['costs']}" for row in rows]
    peers = ["scipy", *(name for name, _, _ in PEERS), "POT"]
    series = {
        peer: [record.ratio(row.get(f"{peer}_ms"), row["jaxmatch_ms"]) for row in rows]
        for peer in peers
    }
    plots.relative_to_ours(axes, labels, {k: v for k, v in series.items() if any(v)})
    axes.set_yticks([1, 2, 5, 10, 20, 50, 100], [f"{x}x" for x in (1, 2, 5, 10, 20, 50, 100)])
    axes.text(len(rows) - 0.4, 1.04, "jaxmatch", color=plots.OURS, ha="right", va="bottom")
    axes.set_title("Time of one problem on one core, relative to jaxmatch (higher is slower)")
    plots.legend(axes, loc="upper left", ncols=len(peers))
    axes.set_ylim(top=300)
    print(plots.save(figure, path))


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer and smaller problems"))
    on_gpu = jax.default_backend() == "gpu"
    name = f"assignment_structured_{'gpu' if on_gpu else 'cpu'}"
    content: Row = record.gpu() if on_gpu else {"cores": os.cpu_count()}
    content |= record.environment(PACKAGES)
    content["rows"] = rows = []
    for row in (gpu_rows if on_gpu else cpu_rows)(args.quick):
        rows.append(row)
        record.write_json(args.out, name, content)  # a run may be cut off
    record.print_table("assignments, float32, ms", rows)
    path = args.out / f"{name}.png"
    if on_gpu:
        plot_gpu(rows, path, f"one {content['gpu']}")
    else:
        plot_cpu(rows, path)


if __name__ == "__main__":
    main()
