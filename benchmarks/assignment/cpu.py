"""jaxmatch on CPU against its exact peers, side by side on the same inputs.

    python -m benchmarks.assignment.cpu [--quick] [--out FOLDER]

Peers: scipy, lapx `lapjvx` and `lapjvs(prefer_float32=False)` (all float64, their native input),
lapx `lapjvh`, lapcpp and laprust (in float64 or the dtype of the costs, whichever is faster),
`optax.assignment.hungarian_algorithm` under vmap, and a scipy loop behind `jax.pure_callback`.
"Call" is one problem in a jitted call of its own. Every answer is compared with scipy's objective.
Times on a CPU mean little elsewhere: read ratios. Writes `assignment_cpu.json` and `.png`.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.costs import uniform_integers
from benchmarks.common.record import Row, geometric_mean
from benchmarks.common.timing import median_ms


SQUARES = (100, 300, 1000, 5000)
RECTANGLES = ((100, 20), (300, 50), (900, 100))
TAKE_ANY_DTYPE = ("lapjvh", "lapcpp", "laprust")
PEERS = ("scipy", "lapjvx", "lapjvs", *TAKE_ANY_DTYPE)


def cases(quick: bool) -> Iterator[tuple[int, int, str, np.ndarray]]:
    """(n, m, name, costs [batch, n, m]), each in the dtype that jaxmatch is given."""
    squares = [(n, n) for n in SQUARES if not (quick and n == 5000)]
    for n, m in (*squares, *RECTANGLES):
        batch = max(1, min(64, 4_000_000 // (n * m)))
        ranges = {"n/10": n // 10, "n": n, "10n": 10 * n} if n == m else {}
        ranges["1e9"] = 10**9
        for name, greatest in ranges.items():
            cost = uniform_integers(n, m, greatest, seed=1, batch=batch)
            yield n, m, name, cost.astype(np.int32)
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(1)
            yield n, m, np.dtype(dtype).name, rng.random((batch, n, m), dtype=dtype)


def _each(solve: Callable[[np.ndarray], Any], costs: np.ndarray) -> None:
    for cost in costs:
        solve(cost)


def single(quick: bool) -> list[Row]:
    """One thread: mean time of a solve inside one jitted call that solves a small batch."""
    import lap
    import lapcpp
    import laprust

    jax.config.update("jax_enable_x64", True)
    peers: dict[str, Callable[[np.ndarray], Any]] = {
        "scipy": linear_sum_assignment,
        "lapjvx": partial(lap.lapjvx, extend_cost=True),
        "lapjvs": partial(lap.lapjvs, extend_cost=True, prefer_float32=False),
        "lapjvh": partial(lap.lapjvh, extend_cost=True),
        "lapcpp": partial(lapcpp.lapjv, extend_cost=True),
        "laprust": partial(laprust.lapjv, extend_cost=True),
    }
    solve = jax.jit(jm.solve_assignment)
    rows = []
    for n, m, name, cost in tqdm(cases(quick), desc="single", unit="problem"):
        budget = 0.6 if n < 5000 else 4.0
        on_device = jax.device_put(cost)
        wide = cost.astype(np.float64)
        res = solve(on_device)
        exact = [c[linear_sum_assignment(c)].sum() for c in wide]
        np.testing.assert_allclose(res.cost, exact, rtol=1e-12)
        assert not np.any(res.status)
        ours = median_ms(solve, on_device, budget=budget) / len(cost)
        call = median_ms(solve, on_device[0], budget=budget / 2)
        times = {}
        for peer, f in peers.items():
            inputs = [wide, cost] if peer in TAKE_ANY_DTYPE else [wide]
            least = min(median_ms(_each, f, given, budget=budget) for given in inputs)
            times[f"{peer}_ms"] = least / len(cost)
        ratios = {"call_ms": call, "ratio_fastest": min(times.values()) / ours}
        ratios["ratio_scipy"] = times["scipy_ms"] / ours
        rows.append({"n": n, "m": m, "costs": name, "jaxmatch_ms": ours, **times, **ratios})
    return rows


def batches(quick: bool) -> list[Row]:
    """Wall time of one jitted call for a whole batch, on the cores of this process."""
    import optax

    def scipy_loop(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = np.array([linear_sum_assignment(c) for c in np.asarray(costs)], np.int32)
        return pairs[:, 0], pairs[:, 1]

    def scipy_callback(costs: jax.Array) -> Any:
        shape = jax.ShapeDtypeStruct(costs.shape[:2], jnp.int32)
        return jax.pure_callback(scipy_loop, (shape, shape), costs)

    methods = {
        "jaxmatch": lambda c: (jnp.arange(c.shape[1]), jm.solve_assignment(c).col4row),
        "pure_callback": scipy_callback,
        "optax": jax.vmap(optax.assignment.hungarian_algorithm),
    }
    rows = []
    for shape in ((64, 100, 100), (4096, 16, 16)):
        cost = jnp.asarray(np.random.default_rng(1).random(shape, dtype=np.float32))
        row: Row = {"batch": shape[0], "n": shape[1]}
        for name, method in methods.items():
            f = jax.jit(method)
            i, j = f(cost)
            chosen = cost[jnp.arange(len(cost))[:, None], i, j]
            exact = [c[linear_sum_assignment(c)].sum() for c in np.asarray(cost)]
            np.testing.assert_allclose(chosen.sum(-1), exact, rtol=1e-5)
            row[f"{name}_ms"] = median_ms(f, cost, budget=2.0)
        rows.append(row)
    return rows


def overhead(quick: bool) -> list[Row]:
    """One 1x8x8 problem: a jitted call against a jitted call that does nothing."""
    from jaxmatch._ffi.noop import noop

    cost = jnp.asarray(np.random.default_rng(1).random((1, 8, 8), dtype=np.float32))
    specs = jax.eval_shape(jm.solve_assignment, cost)
    leaves, tree = jax.tree.flatten(specs)
    solve = jax.jit(jm.solve_assignment)
    nothing = jax.jit(lambda c: jax.tree.unflatten(tree, noop(leaves, c)))
    # In turns, so that a slower moment of the machine meets both.
    pairs = [[median_ms(f, cost, most=2000) for f in (solve, nothing)] for _ in range(5)]
    solve_us, nothing_us = (1e3 * float(x) for x in np.median(pairs, axis=0))
    return [{"solve_us": solve_us, "nothing_us": nothing_us, "ratio": solve_us / nothing_us}]


def warm(quick: bool) -> list[Row]:
    """Costs C·(1 + 0.01·N(0, 1)), started from the duals of C."""
    cold = jax.jit(jm.solve_assignment)
    warmed = jax.jit(lambda c, v: jm.solve_assignment(c, warm_start=v))
    rows = []
    for n in (100, 300, 1000):
        rng = np.random.default_rng(n)
        batch = max(4, 2_000_000 // (n * n))
        before = rng.random((batch, n, n), dtype=np.float32)
        noise = 1 + 0.01 * rng.standard_normal(before.shape)
        after = jnp.asarray((before * noise).astype(np.float32))
        duals = jm.solve_assignment(before).col_dual
        np.testing.assert_allclose(cold(after).cost, warmed(after, duals).cost, rtol=1e-6)
        cold_ms = median_ms(cold, after) / batch
        warm_ms = median_ms(warmed, after, duals) / batch
        rows.append({"n": n, "cold_ms": cold_ms, "warm_ms": warm_ms, "ratio": cold_ms / warm_ms})
    return rows


def on_cores(count: int, part: Callable[[bool], list[Row]], quick: bool) -> list[Row]:
    """A part in a process of its own with `count` cores, by which XLA sizes its thread pool."""
    cores = os.sched_getaffinity(0)
    if len(cores) < count:
        raise SystemExit(f"This benchmark needs {count} cores, this process has {len(cores)}.")
    os.sched_setaffinity(0, sorted(cores)[:count])  # the new process inherits it
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(part, quick).result()
    finally:
        os.sched_setaffinity(0, cores)


def plot(rows: Sequence[Row], batch_rows: Sequence[Row], path: Path) -> None:
    from benchmarks.common.plots import OURS, grouped_bars, legend, plt, relative_to_ours, save

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5), width_ratios=(3, 1))
    labels = [f"{r['n']}×{r['m']} {r['costs']}" for r in rows]
    peers = {peer: [r[f"{peer}_ms"] / r["jaxmatch_ms"] for r in rows] for peer in PEERS}
    relative_to_ours(left, labels, peers)
    left.set_yticks([1, 2, 5, 10, 20, 50], ["1x", "2x", "5x", "10x", "20x", "50x"])
    left.text(len(rows) - 0.4, 1.04, "jaxmatch", color=OURS, ha="right", va="bottom")
    left.set_title("Time of one solve, one thread, relative to jaxmatch (higher is slower)")

    names = {"jaxmatch": "jaxmatch", "pure_callback": "scipy callback", "optax": "optax, vmap"}
    series = {
        f"{row['batch']}×{row['n']}×{row['n']}": [
            row[f"{name}_ms"] / row["jaxmatch_ms"] for name in names
        ]
        for row in batch_rows
    }
    for bars, values in zip(
        grouped_bars(right, [*names.values()], series, colors=(OURS, "#80a8d0")),
        series.values(),
        strict=True,
    ):
        right.bar_label(bars, [f"{v:.3g}x" for v in values], fontsize=8)
    right.set_yscale("log")
    right.set_title("A batch in one jitted call, 2 threads")
    for axes in (left, right):
        legend(axes)
    save(figure, path)


def main() -> None:
    args = options.parse(options.parser(__doc__, "leave out n = 5000"))
    rows = on_cores(1, single, args.quick)
    batch_one, batch_two = (on_cores(cores, batches, args.quick) for cores in (1, 2))
    overheads, warms = on_cores(2, overhead, args.quick), on_cores(1, warm, args.quick)
    for one, two in zip(batch_one, batch_two, strict=True):
        two["speedup_2_threads"] = one["jaxmatch_ms"] / two["jaxmatch_ms"]
        two["ratio_pure_callback"] = two["pure_callback_ms"] / two["jaxmatch_ms"]
        two["ratio_optax"] = two["optax_ms"] / two["jaxmatch_ms"]
    summary = {
        "geomean_ratio_fastest_peer": geometric_mean([r["ratio_fastest"] for r in rows]),
        "least_ratio_fastest_peer": min(r["ratio_fastest"] for r in rows),
        "geomean_ratio_scipy": geometric_mean([r["ratio_scipy"] for r in rows]),
    }
    record.print_table("One problem, one thread (ms a solve)", rows)
    record.print_table("Batches in one jitted call, two threads (ms)", batch_two)
    record.print_table("Overhead of a jitted call, 1x8x8", overheads)
    record.print_table("Warm start, float32, one thread (ms a solve)", warms)
    record.print_table("Summary", [summary])
    packages = ["jax", "jaxlib", "numpy", "scipy", "lapx", "lapcpp", "laprust", "optax"]
    content = {
        "environment": record.environment(packages),
        "summary": summary,
        "single": rows,
        "batches_one_thread": batch_one,
        "batches_two_threads": batch_two,
        "overhead": overheads,
        "warm_start": warms,
    }
    path = record.write_json(args.out, "assignment_cpu", content)
    plot(rows, batch_two, path.with_suffix(".png"))
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
