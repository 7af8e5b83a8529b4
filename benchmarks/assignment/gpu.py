"""Batches of assignments on one GPU: jaxmatch against its peers, side by side on the same inputs.

    python -m benchmarks.assignment.gpu [--quick]

Peers: torch-linear-assignment 0.1.0 (Triton), `optax.assignment.hungarian_algorithm` under vmap,
and scipy on 16 threads with the costs on the host already. A peer that is not installed is left
out. `device_ms` is the device time of each of several queued calls in one compiled function, by the
GPU's own clock where torch is there to ask for it (CUPTI), else the slope of the wall time;
`call_ms` is the wall time of one call; peers are timed by the call. Every answer is compared with
scipy's objective.
Writes `benchmarks/results/assignment_gpu.json` and `.png`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from benchmarks.common import record as common


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


def median_ms(call: Callable[[], Any], budget: float = 0.4, most: int = 40) -> float:
    jax.block_until_ready(call())
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < 5 or (time.perf_counter() < end and len(times) < most):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def kernel_ms(run: Callable[[], Any], times: int = 5) -> float | None:
    """What all kernels of one run take, by the GPU's clock; None without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(times):
            jax.block_until_ready(run())
    spans = [e.time_range.elapsed_us() for e in trace.events() if e.device_type == DeviceType.CUDA]
    assert spans, "the profiler saw no kernel"
    return sum(spans) / times / 1e3


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
    return (median_ms(long) - median_ms(run(2))) / (len(inputs) - 2)


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

    return median_ms(call)


def optax_ms(costs: jax.Array) -> float | None:
    if importlib.util.find_spec("optax") is None or costs.shape[1] > 300:
        return None
    from optax.assignment import hungarian_algorithm

    solve = jax.jit(jax.vmap(hungarian_algorithm))
    return median_ms(lambda: solve(costs), budget=0.2)


def compare(quick: bool) -> Iterator[dict[str, Any]]:
    for n, m, batch, kind, goal in CASES:
        size = 4 * n * m * batch
        count = 12 if size < 3e8 else 6
        inputs = [costs_of(n, m, batch, kind, seed) for seed in range(count)]
        res = jax.jit(cost_and_status)(inputs[0])
        assert (np.asarray(res[1]) == jm.Status.OPTIMAL).all()
        host = np.asarray(inputs[0])
        checked = host[:: max(1, batch * n * m // 2**26)]
        best, _ = scipy_objectives(checked)
        found = np.asarray(res[0])[:: max(1, batch * n * m // 2**26)]
        np.testing.assert_allclose(found, best, rtol=3e-7)
        single = jax.jit(cost_and_status)
        row: dict[str, Any] = {
            "shape": f"{n}x{m}",
            "batch": batch,
            "costs": named(kind),
            "device_ms": device_ms(cost_and_status, inputs),
            "call_ms": median_ms(lambda: single(inputs[0])),  # noqa: B023
            "to_reach": goal if goal is not None else "",
        }
        peers = {"scipy16_ms": scipy_objectives(host)[1], "triton_ms": triton_ms(host)}
        if not quick:
            peers["optax_ms"] = optax_ms(inputs[0])
        row |= {name: x if x is not None else "" for name, x in peers.items()}
        known = [x for x in peers.values() if x is not None]
        row["ratio"] = min(known) / row["call_ms"]
        yield row


def mixed_sizes() -> dict[str, Any]:
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
    apart = kernel_ms(lambda: grouped(*exact)) or median_ms(lambda: grouped(*exact))
    times = device_ms(padded, costs), apart
    return {"padded_ms": times[0], "grouped_ms": times[1], "ratio": times[0] / times[1]}


def warm_start() -> dict[str, Any]:
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
    return {"cold_ms": cold_ms, "warm_ms": warm_ms, "ratio": cold_ms / warm_ms}


@contextmanager
def kernel(name: str) -> Iterator[None]:
    os.environ["JAXMATCH_CUDA_KERNEL"] = name
    try:
        yield
    finally:
        del os.environ["JAXMATCH_CUDA_KERNEL"]


def sweep(quick: bool) -> Iterator[dict[str, Any]]:
    """One warp for each problem against one block: what the kernel table is made of."""
    squares = (16, 64, 128) if quick else (8, 32, 64, 96, 128)
    for n, m in (*((n, n) for n in squares), (100, 20)):
        for batch in (16, 1024) if quick else (16, 256, 1024, 4096):
            inputs = [costs_of(n, m, batch, UNIFORM, seed) for seed in range(6)]
            row: dict[str, Any] = {"shape": f"{n}x{m}", "batch": batch}
            for name in ("warp", "block"):
                with kernel(name):
                    row[f"{name}_ms"] = device_ms(cost_and_status, inputs)
            yield row


def plot(rows: Sequence[dict[str, Any]], path: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = [f"{r['batch']} of {r['shape']}, {r['costs']}" for r in rows]
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(rows) + 1.2))
    places = np.arange(len(rows))[::-1]
    for name, style in {
        "device_ms": ("o", "tab:blue", "jaxmatch, device time"),
        "call_ms": ("|", "tab:blue", "jaxmatch, one call"),
        "triton_ms": ("s", "tab:orange", "torch-linear-assignment 0.1.0"),
        "scipy16_ms": ("^", "tab:green", "scipy, 16 threads"),
        "optax_ms": ("x", "tab:red", "optax under vmap"),
    }.items():
        marker, color, label = style
        known = [
            (r[name], y) for r, y in zip(rows, places, strict=True) if r.get(name) not in ("", None)
        ]
        if known:
            axes.plot(*zip(*known, strict=True), marker, color=color, label=label)
    axes.set(xscale="log", xlabel="ms for the batch", yticks=places, yticklabels=labels)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="best", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def gpu() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.check_output(query, text=True).splitlines()[0].split(", ")
    return {"gpu": name, "driver": driver}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points, and no optax")
    quick = parser.parse_args().quick
    rows = []
    for row in compare(quick):
        rows.append(row)
        print(row, flush=True)
    common.print_table("Batches (ratio: fastest peer over one call)", rows)
    packages = ["jax", "jaxlib", "numpy", "scipy", "optax", "torch-linear-assignment"]
    installed = [p for p in packages if importlib.util.find_spec(p.replace("-", "_"))]
    clock = "wall" if importlib.util.find_spec("torch") is None else "CUPTI"
    content = gpu() | common.environment(installed) | {"device_clock": clock}
    # Written after every part: the last one takes the longest.
    content["batches"] = rows
    path = common.write_json("assignment_gpu", content)
    plot(rows, path.with_suffix(".png"))
    content["mixed_sizes"] = mixed_sizes()
    common.print_table("256 problems of 50 to 450, padded to 450", [content["mixed_sizes"]])
    content["warm_start"] = warm_start()
    common.print_table("Warm start, 256 of 256x256", [content["warm_start"]])
    common.write_json("assignment_gpu", content)
    content["kernels"] = list(sweep(quick))
    common.print_table("One warp or one block for a problem, uniform", content["kernels"])
    print(f"\nwrote {common.write_json('assignment_gpu', content)}")


if __name__ == "__main__":
    main()
