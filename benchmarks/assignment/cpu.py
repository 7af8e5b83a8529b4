"""jaxmatch on CPU against its exact peers, side by side on the same inputs.

    python -m benchmarks.assignment.cpu [--quick]

Peers: scipy, lapx `lapjvx` and `lapjvs(prefer_float32=False)` (all float64, their native input),
`optax.assignment.hungarian_algorithm` under vmap, and a scipy loop behind `jax.pure_callback`.
Every answer is compared with scipy's objective. Times on a CPU mean little elsewhere: read ratios.
Writes `benchmarks/results/assignment_cpu.json` and `.png`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import record as common


SQUARES = (100, 300, 1000, 5000)
RECTANGLES = ((100, 20), (300, 50), (900, 100))


def cases(quick: bool) -> Iterator[tuple[int, int, str, np.ndarray]]:
    """(n, m, name, costs [batch, n, m]), each in the dtype that jaxmatch is given."""
    squares = [(n, n) for n in SQUARES if not (quick and n == 5000)]
    for n, m in (*squares, *RECTANGLES):
        batch = max(1, min(64, 4_000_000 // (n * m)))
        ranges = {"n/10": n // 10, "n": n, "10n": 10 * n} if n == m else {}
        ranges["1e9"] = 10**9
        for name, greatest in ranges.items():
            cost = common.uniform_integers(n, m, greatest, seed=1, batch=batch)
            yield n, m, name, cost.astype(np.int32)
        for dtype in (np.float32, np.float64):
            rng = np.random.default_rng(1)
            yield n, m, np.dtype(dtype).name, rng.random((batch, n, m), dtype=dtype)


def _each(solve: Callable[[np.ndarray], Any], costs: np.ndarray) -> None:
    for cost in costs:
        solve(cost)


def single(quick: bool) -> list[dict[str, Any]]:
    """One thread: mean time of a solve inside one jitted call that solves a small batch."""
    import jax
    import lap
    from scipy.optimize import linear_sum_assignment

    import jaxmatch as jm

    jax.config.update("jax_enable_x64", True)
    peers: dict[str, Callable[[np.ndarray], Any]] = {
        "scipy": linear_sum_assignment,
        "lapjvx": partial(lap.lapjvx, extend_cost=True),
        "lapjvs": partial(lap.lapjvs, extend_cost=True, prefer_float32=False),
    }
    solve = jax.jit(jm.solve_assignment)
    rows = []
    for n, m, name, cost in cases(quick):
        budget = 0.6 if n < 5000 else 4.0
        on_device = jax.device_put(cost)
        wide = cost.astype(np.float64)
        batch = len(cost)
        res = solve(on_device)
        exact = [c[linear_sum_assignment(c)].sum() for c in wide]
        np.testing.assert_allclose(res.cost, exact, rtol=1e-12)
        assert not np.any(res.status)
        ours = common.median_seconds(solve, on_device, budget=budget)
        times = {
            peer: common.median_seconds(_each, f, wide, budget=budget) / batch
            for peer, f in peers.items()
        }
        ours /= batch
        fastest = min(times.values())
        rows.append(
            {"n": n, "m": m, "costs": name, "jaxmatch_ms": ours * 1e3}
            | {f"{peer}_ms": t * 1e3 for peer, t in times.items()}
            | {"ratio_fastest": fastest / ours, "ratio_scipy": times["scipy"] / ours}
        )
        print(".", end="", flush=True, file=sys.stderr)
    return rows


def batches(quick: bool) -> list[dict[str, Any]]:
    """Wall time of one jitted call for a whole batch, on the cores of this process."""
    import jax
    import jax.numpy as jnp
    import optax
    from scipy.optimize import linear_sum_assignment

    import jaxmatch as jm

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
        row: dict[str, Any] = {"batch": shape[0], "n": shape[1]}
        for name, method in methods.items():
            f = jax.jit(method)
            i, j = f(cost)
            chosen = cost[jnp.arange(len(cost))[:, None], i, j]
            exact = [c[linear_sum_assignment(c)].sum() for c in np.asarray(cost)]
            np.testing.assert_allclose(chosen.sum(-1), exact, rtol=1e-5)
            row[f"{name}_ms"] = 1e3 * common.median_seconds(f, cost, budget=2.0)
        rows.append(row)
    return rows


def overhead(quick: bool) -> list[dict[str, Any]]:
    """One 1x8x8 problem: a jitted call against a jitted call that does nothing."""
    import jax
    import jax.numpy as jnp

    import jaxmatch as jm
    from jaxmatch._ffi.noop import noop

    cost = jnp.asarray(np.random.default_rng(1).random((1, 8, 8), dtype=np.float32))
    specs = jax.eval_shape(jm.solve_assignment, cost)
    leaves, tree = jax.tree.flatten(specs)
    solve = jax.jit(jm.solve_assignment)
    nothing = jax.jit(lambda c: jax.tree.unflatten(tree, noop(leaves, c)))
    # In turns, so that a slower moment of the machine meets both.
    pairs = [
        [common.median_seconds(f, cost, most=2000) for f in (solve, nothing)] for _ in range(5)
    ]
    solve_us, nothing_us = (1e6 * float(x) for x in np.median(pairs, axis=0))
    return [{"solve_us": solve_us, "nothing_us": nothing_us, "ratio": solve_us / nothing_us}]


def warm(quick: bool) -> list[dict[str, Any]]:
    """Costs C·(1 + 0.01·N(0, 1)), started from the duals of C."""
    import jax
    import jax.numpy as jnp

    import jaxmatch as jm

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
        cold_s = common.median_seconds(cold, after)
        warm_s = common.median_seconds(warmed, after, duals)
        rows.append(
            {"n": n, "cold_ms": 1e3 * cold_s / batch, "warm_ms": 1e3 * warm_s / batch}
            | {"ratio": cold_s / warm_s}
        )
    return rows


PARTS = {"single": single, "batches": batches, "overhead": overhead, "warm": warm}


def run_part(name: str, cores: int, quick: bool) -> list[dict[str, Any]]:
    """A part in a process of its own, with as many cores as it asks for."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.assignment.cpu",
        "--part",
        name,
        "--cores",
        str(cores),
    ]
    done = subprocess.run([*command, *(["--quick"] * quick)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def plot(rows: list[dict[str, Any]], batch_rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5), width_ratios=(3, 1))
    x = np.arange(len(rows))
    styles = {"scipy": ("#b0b0b0", "s"), "lapjvx": ("#d08c60", "^"), "lapjvs": ("#a05070", "v")}
    for peer, (color, marker) in styles.items():
        ratio = [r[f"{peer}_ms"] / r["jaxmatch_ms"] for r in rows]
        left.plot(x, ratio, marker, color=color, label=peer, markersize=6)
    left.axhline(1, color="#2060a0", linewidth=2)
    left.text(len(x) - 0.4, 1.04, "jaxmatch", color="#2060a0", ha="right", va="bottom")
    left.set_yscale("log")
    left.set_yticks([1, 2, 5, 10, 20, 50], ["1x", "2x", "5x", "10x", "20x", "50x"])
    labels = [f"{r['n']}×{r['m']} {r['costs']}" for r in rows]
    left.set_xticks(x, labels, rotation=90, fontsize=8)
    left.set_title("Time of one solve, one thread, relative to jaxmatch (higher is slower)")
    left.grid(axis="y", alpha=0.3)
    left.legend(frameon=False)

    names = {"jaxmatch_ms": "jaxmatch", "pure_callback_ms": "scipy callback"}
    names["optax_ms"] = "optax, vmap"
    for k, row in enumerate(batch_rows):
        values = [row[key] / row["jaxmatch_ms"] for key in names]
        bars = right.bar(np.arange(3) + 0.4 * k, values, 0.38, color=("#2060a0", "#80a8d0")[k])
        bars.set_label(f"{row['batch']}×{row['n']}×{row['n']}")
        right.bar_label(bars, [f"{v:.3g}x" for v in values], fontsize=8)
    right.set_yscale("log")
    right.set_xticks(np.arange(3) + 0.2, list(names.values()), fontsize=8)
    right.set_title("A batch in one jitted call, 2 threads")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(common.RESULTS / "assignment_cpu.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out n = 5000")
    parser.add_argument("--part", choices=PARTS, help="print one part alone, as JSON")
    parser.add_argument("--cores", type=int, default=1, help="cores for --part")
    args = parser.parse_args()
    if args.part:
        common.pin_to_cores(args.cores)
        print("\n" + json.dumps(PARTS[args.part](args.quick)))
        return

    rows = run_part("single", 1, args.quick)
    batch_one, batch_two = run_part("batches", 1, args.quick), run_part("batches", 2, args.quick)
    overheads, warms = run_part("overhead", 2, args.quick), run_part("warm", 1, args.quick)
    for one, two in zip(batch_one, batch_two, strict=True):
        two["speedup_2_threads"] = one["jaxmatch_ms"] / two["jaxmatch_ms"]
        two["ratio_pure_callback"] = two["pure_callback_ms"] / two["jaxmatch_ms"]
        two["ratio_optax"] = two["optax_ms"] / two["jaxmatch_ms"]
    summary = {
        "geomean_ratio_fastest_peer": common.geometric_mean([r["ratio_fastest"] for r in rows]),
        "least_ratio_fastest_peer": min(r["ratio_fastest"] for r in rows),
        "geomean_ratio_scipy": common.geometric_mean([r["ratio_scipy"] for r in rows]),
    }
    common.print_table("One problem, one thread (ms a solve)", rows)
    common.print_table("Batches in one jitted call, two threads (ms)", batch_two)
    common.print_table("Overhead of a jitted call, 1x8x8", overheads)
    common.print_table("Warm start, float32, one thread (ms a solve)", warms)
    common.print_table("Summary", [summary])
    path = common.write_json(
        "assignment_cpu",
        {
            "environment": common.environment(["jax", "jaxlib", "numpy", "scipy", "lapx", "optax"]),
            "summary": summary,
            "single": rows,
            "batches_one_thread": batch_one,
            "batches_two_threads": batch_two,
            "overhead": overheads,
            "warm_start": warms,
        },
    )
    plot(rows, batch_two)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
