"""Batches of assignments on one GPU: jaxmatch against its peers, side by side on the same inputs.

    python -m benchmarks.assignment.gpu [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]

Peers: torch-linear-assignment 0.1.0 (Triton), `optax.assignment.hungarian_algorithm` under vmap,
and scipy on 16 threads with the costs on the host already. A peer that is not installed is left
out. `device_ms` is the device time of each of several queued calls in one compiled function, by the
GPU's own clock where torch is there to ask for it (CUPTI), else the slope of the wall time;
`call_ms` is the wall time of one call; peers are timed by the call. Every answer is compared with
scipy's objective.
Writes `assignment_gpu.json` and `.png`. A row's name is like "batches 4096 of 32x32, to 320".
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import has_device_clock, kernel_ms, median_ms


UNIFORM, NORMAL = -1, -2

# rows, cols, batch, costs: the greatest integer, or a distribution; and the device time to reach.
CASES: list[tuple[int, int, int, int, float | None]] = [
    (100, 20, 16, UNIFORM, 0.008),
    (100, 20, 4096, UNIFORM, 0.017),
    (8, 8, 4096, UNIFORM, 0.010),
    (32, 32, 4096, 320, 0.032),
    (32, 32, 4096, 10**7, 0.032),
    (64, 64, 4096, 10**7, 0.11),
    (64, 64, 4096, 100, 0.10),
    (100, 100, 1024, UNIFORM, 0.10),
    (256, 256, 256, 10**7, 0.35),
    (256, 256, 256, 100, 0.13),
    (300, 300, 208, UNIFORM, 0.50),
    (512, 512, 256, 10**7, 1.8),
    (512, 512, 256, 100, 0.28),
    (300, 50, 64, UNIFORM, 0.020),
    (900, 100, 64, UNIFORM, 0.06),
    (1000, 1000, 16, UNIFORM, 3.0),
    (64, 64, 4096, NORMAL, None),  # float32 cannot decide these
    (256, 256, 256, NORMAL, None),
]


def costs_of(n: int, m: int, batch: int, kind: int, seed: int) -> jax.Array:
    key, shape = jax.random.key(seed), (batch, n, m)
    if kind == UNIFORM:
        return jax.random.uniform(key, shape)
    if kind == NORMAL:
        return jax.random.normal(key, shape)
    return jax.random.randint(key, shape, 0, kind + 1).astype(jnp.float32)


def named(kind: int) -> str:
    return {UNIFORM: "uniform", NORMAL: "normal"}.get(kind, f"to {kind}")


def busy(call: Callable[[], Any], seconds: float = 0.1) -> None:
    """Keeps the GPU at work until its clock has risen."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        jax.block_until_ready(call())


def device_ms(solve: Callable[..., Any], inputs: Sequence[Any]) -> float:
    """The device time of one of several queued calls: their kernels run back to back.

    The wall time of the same queue has a slope that is 15 to 25 us greater: JAX and XLA prepare
    every call on the host before the first one starts.
    """

    def run(count: int) -> Callable[[], Any]:
        compiled = jax.jit(lambda *xs: [solve(x) for x in xs])
        return lambda: compiled(*inputs[:count])

    long = run(len(inputs))
    busy(long)
    if (total := kernel_ms(long)) is not None:
        return total / len(inputs)
    return (call_ms(long) - call_ms(run(2))) / (len(inputs) - 2)


def call_ms(call: Callable[..., Any], *args: Any, budget: float = 0.4) -> float:
    return median_ms(call, *args, budget=budget, most=40)


def cost_and_status(costs: jax.Array) -> Any:
    res = jm.solve_assignment(costs)
    return res.cost, res.status


def scipy_objectives(costs: np.ndarray) -> tuple[np.ndarray, float]:
    """The optimum of each problem, and the milliseconds that 16 threads take for the batch."""
    from scipy.optimize import linear_sum_assignment

    def solve(c: np.ndarray) -> float:
        rows, cols = linear_sum_assignment(c)
        return float(c[rows, cols].astype(np.float64).sum())

    with ThreadPoolExecutor(16) as pool:
        start = time.perf_counter()
        values = list(pool.map(solve, costs, chunksize=max(1, len(costs) // 64)))
        return np.array(values), 1e3 * (time.perf_counter() - start)


def triton_ms(costs: np.ndarray) -> float | None:
    if importlib.util.find_spec("torch_linear_assignment") is None:
        return None
    import torch
    from torch_linear_assignment import batch_linear_assignment

    x = torch.from_numpy(costs).cuda()

    def call() -> None:
        batch_linear_assignment(x)
        torch.cuda.synchronize()

    return call_ms(call)


def optax_ms(costs: jax.Array) -> float | None:
    if importlib.util.find_spec("optax") is None or costs.shape[1] > 300:
        return None
    from optax.assignment import hungarian_algorithm

    solve = jax.jit(jax.vmap(hungarian_algorithm))
    return call_ms(solve, costs, budget=0.2)


def batches(args: argparse.Namespace) -> Iterator[Row]:
    solve = jax.jit(cost_and_status)
    for n, m, batch, kind, goal in CASES:
        if not args.rows.search(f"batches {batch} of {n}x{m}, {named(kind)}"):
            continue
        count = 12 if 4 * n * m * batch < 3e8 else 6
        inputs = [costs_of(n, m, batch, kind, seed) for seed in range(count)]
        found, status = map(np.asarray, solve(inputs[0]))
        assert (status == jm.Status.OPTIMAL).all()
        host = np.asarray(inputs[0])
        some = slice(None, None, max(1, batch * n * m // 2**26))
        np.testing.assert_allclose(found[some], scipy_objectives(host[some])[0], rtol=3e-7)
        row: Row = {
            "shape": f"{n}x{m}",
            "batch": batch,
            "costs": named(kind),
            "device_ms": device_ms(cost_and_status, inputs),
            "call_ms": call_ms(solve, inputs[0]),
            "to_reach": goal if goal is not None else "",
        }
        if args.peers:
            peers = {"scipy16_ms": scipy_objectives(host)[1], "triton_ms": triton_ms(host)}
            if not args.quick:
                peers["optax_ms"] = optax_ms(inputs[0])
            row |= {name: x if x is not None else "" for name, x in peers.items()}
            row["ratio"] = min(x for x in peers.values() if x is not None) / row["call_ms"]
        print(row, flush=True)
        yield row


def mixed_sizes(args: argparse.Namespace) -> Iterator[Row]:
    """256 problems of 50 to 450 rows, padded to 450; and the same, each alone without padding."""
    sizes = np.random.default_rng(0).integers(50, 451, 256)
    inside = np.arange(450) < sizes[:, None]
    costs = [costs_of(450, 450, 256, UNIFORM, seed) for seed in range(6)]
    mask = jnp.asarray(inside)

    def padded(c: jax.Array) -> Any:
        return jm.solve_assignment(c, row_mask=mask, col_mask=mask).cost

    groups = {n: np.flatnonzero(sizes == n) for n in np.unique(sizes)}
    exact = [jnp.asarray(costs[0][g, :n, :n]) for n, g in groups.items()]
    grouped = jax.jit(lambda *xs: [jm.solve_assignment(x).cost for x in xs])
    values = np.asarray(jax.jit(padded)(costs[0]))
    for g, part in zip(groups.values(), grouped(*exact), strict=True):
        np.testing.assert_array_equal(values[g], part)
    busy(lambda: grouped(*exact))
    apart = kernel_ms(lambda: grouped(*exact)) or call_ms(grouped, *exact)
    times = device_ms(padded, costs), apart
    yield {"padded_ms": times[0], "grouped_ms": times[1], "ratio": times[0] / times[1]}


def warm_start(args: argparse.Namespace) -> Iterator[Row]:
    """256 x 256, 256, after costs changed by a hundredth."""
    old = [costs_of(256, 256, 256, UNIFORM, seed) for seed in range(8)]
    noise = [costs_of(256, 256, 256, NORMAL, 100 + seed) for seed in range(8)]
    new = [c * (1 + 0.01 * e) for c, e in zip(old, noise, strict=True)]
    duals = [jm.solve_assignment(c).col_dual for c in old]
    pairs = list(zip(new, duals, strict=True))

    def warm(pair: tuple[jax.Array, jax.Array]) -> Any:
        return jm.solve_assignment(pair[0], warm_start=pair[1]).cost

    np.testing.assert_array_equal(jax.jit(warm)(pairs[0]), jm.solve_assignment(new[0]).cost)
    cold_ms, warm_ms = device_ms(cost_and_status, new), device_ms(warm, pairs)
    yield {"cold_ms": cold_ms, "warm_ms": warm_ms, "ratio": cold_ms / warm_ms}


@contextmanager
def kernel(name: str) -> Iterator[None]:
    os.environ["JAXMATCH_CUDA_KERNEL"] = name
    try:
        yield
    finally:
        del os.environ["JAXMATCH_CUDA_KERNEL"]


def kernels(args: argparse.Namespace) -> Iterator[Row]:
    """One warp for each problem against one block: the kernel table is made of these."""
    squares = (16, 64, 128) if args.quick else (8, 32, 64, 96, 128)
    for n, m in (*((n, n) for n in squares), (100, 20)):
        for batch in (16, 1024) if args.quick else (16, 256, 1024, 4096):
            if not args.rows.search(f"kernels {batch} of {n}x{m}"):
                continue
            inputs = [costs_of(n, m, batch, UNIFORM, seed) for seed in range(6)]
            row: Row = {"shape": f"{n}x{m}", "batch": batch}
            for name in ("warp", "block"):
                with kernel(name):
                    row[f"{name}_ms"] = device_ms(cost_and_status, inputs)
            yield row


def plot(rows: Sequence[Row], path: Path) -> None:
    from benchmarks.common.plots import FIFTH, FOURTH, OTHER, OURS, legend, plt, save

    labels = [f"{r['batch']} of {r['shape']}, {r['costs']}" for r in rows]
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(rows) + 1.2))
    places = np.arange(len(rows))[::-1]
    for name, marker, color, label in (
        ("device_ms", "o", OURS, "jaxmatch, device time"),
        ("call_ms", "|", OURS, "jaxmatch, one call"),
        ("triton_ms", "s", OTHER, "torch-linear-assignment 0.1.0"),
        ("scipy16_ms", "^", FOURTH, "scipy, 16 threads"),
        ("optax_ms", "x", FIFTH, "optax under vmap"),
    ):
        known = [(r[name], y) for r, y in zip(rows, places, strict=True) if r.get(name, "") != ""]
        if known:
            axes.plot(*zip(*known, strict=True), marker, color=color, label=label)
    axes.set(xscale="log", xlabel="ms for the batch", yticks=places, yticklabels=labels)
    axes.grid(axis="x", alpha=0.3)
    legend(axes, loc="best", frameon=True)
    save(figure, path)


PARTS = {
    "batches": (batches, "Batches (ratio: fastest peer over one call)"),
    "mixed_sizes": (mixed_sizes, "256 problems of 50 to 450, padded to 450"),
    "warm_start": (warm_start, "Warm start, 256 of 256x256"),
    "kernels": (kernels, "One warp or one block for a problem, uniform"),
}


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer points, and no optax", selects=True))
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    packages = ["jax", "jaxlib", "numpy", "scipy", "optax", "torch-linear-assignment"]
    clock = "CUPTI" if has_device_clock() else "wall"
    content = record.gpu() | record.environment(packages) | {"device_clock": clock}
    for name, (part, title) in PARTS.items():
        one_row = name in ("mixed_sizes", "warm_start")
        rows = list(part(args)) if not one_row or args.rows.search(name) else []
        if rows:
            content[name] = rows[0] if one_row else rows
            record.print_table(title, rows)
        # Written after every part: the last one takes the longest.
        path = record.write_json(args.out, "assignment_gpu", content)
        if name == "batches" and args.complete and importlib.util.find_spec("matplotlib"):
            plot(rows, path.with_suffix(".png"))
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
