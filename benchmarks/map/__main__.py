"""A map of all solvers: problems drawn at random, on a GPU, on one core, and by others.

    python -m benchmarks.map [--seed S] [--count N] [--quick] [--rows PATTERN] [--out FOLDER]

Times are wall milliseconds of one call: jitted on the GPU, and outside of `jit` on one core of its
host. Peers solve one problem after another on that core. Every answer is checked by its `check_*`
function, and all values are compared. Without a GPU only the core and its peers are timed. Prints
the worst rows, the geometric mean of each solver, and how many rows above 1 ms on the core take a
GPU longer. Writes `map_gpu.json` and `.png`, or `map_cpu`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from benchmarks.common import options, plots, record
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import one_core, timed
from benchmarks.map.draws import DRAW, Draw, draw


LEAST_CORE_MS = 1.0  # below that a call to a GPU is most of the time
QUICK_ELEMENTS = 2**20


def once(call: Callable[[], Any], least: int = 3, budget: float = 1.0) -> tuple[Any, float]:
    """The result of a call and the median of its milliseconds; one run if it is long."""
    times: list[float] = []
    result = None
    while not times or (len(times) < least and sum(times) < 1e3 * budget):
        start = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - start))
    return result, float(np.median(times))


def measure(given: Draw, on_gpu: bool, with_peers: bool) -> Row:
    row: Row = {"solver": given.solver, "problem": given.what, "gpu_ms": None}
    with one_core(), jax.default_device(jax.devices("cpu")[0]):
        given.solve(*given.arrays)  # what is prepared or compiled once
        found, row["core_ms"] = once(lambda: jax.block_until_ready(given.solve(*given.arrays)))
    values = np.asarray(getattr(found, given.value), np.float64)
    check = given.check(*given.arrays, found)
    assert np.asarray(check.valid).all(), f"{given.solver}, {given.what}: the core's answer"
    if on_gpu:
        solve = jax.jit(given.solve)
        other, row["gpu_ms"] = timed(solve, *jax.device_put(given.arrays), least=3)
        _compare(given, values, np.asarray(getattr(other, given.value), np.float64), "a GPU")
        check = given.check(*given.arrays, jax.tree.map(np.asarray, other))
        assert np.asarray(check.valid).all(), f"{given.solver}, {given.what}: the GPU's answer"
    row["gpu/core"] = ratio(row["gpu_ms"], row["core_ms"])
    for name, solve in (given.peers or {}).items() if with_peers else ():
        theirs, row[f"{name}_ms"] = _by_peer(given, solve)
        _compare(given, values, theirs, name)
    every = [ms for name, ms in row.items() if name.endswith("_ms") and name[:4] not in OURS]
    row["peer_ms"] = min(every, default=None)
    row["core/peer"] = ratio(row["core_ms"], row["peer_ms"])
    return row


OURS = ("gpu_", "core")


def _by_peer(given: Draw, solve: Callable[..., float]) -> tuple[np.ndarray, float]:
    count = given.problems

    def all_of_them() -> list[float]:
        if count is None:
            return [solve(*given.arrays)]
        return [solve(*(x[k] for x in given.arrays)) for k in range(count)]

    with one_core():
        values, ms = once(all_of_them)
    return np.asarray(values if count is not None else values[0]), ms


def _compare(given: Draw, ours: np.ndarray, theirs: np.ndarray, who: str) -> None:
    scale = np.abs(np.nan_to_num(given.arrays[0])).max() if _is_array(given.arrays[0]) else 1
    words = f"{given.solver}, {given.what}: {who} found another value"
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6 * scale, err_msg=words)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def summary(rows: list[Row]) -> list[Row]:
    """Geometric means of each solver."""
    found = []
    for name in DRAW:
        own = [row for row in rows if row["solver"] == name]
        if not own:
            continue
        means: Row = {"solver": name, "rows": len(own)}
        for column in ("gpu/core", "core/peer"):
            known = [row[column] for row in own if row[column]]
            means[column] = record.geometric_mean(known) if known else None
        worst = [row["gpu/core"] for row in own if row["gpu/core"]]
        means["worst gpu/core"] = max(worst, default=None)
        found.append(means)
    return found


def slower_on_a_gpu(rows: list[Row]) -> list[Row]:
    slow = [row for row in rows if row["core_ms"] > LEAST_CORE_MS and (row["gpu/core"] or 0) > 1]
    return sorted(slow, key=lambda row: -row["gpu/core"])


def plot(rows: list[Row], path: Path, gpu: str) -> Path:
    """Each row a point: the time on one core and that on the GPU, or of the fastest peer."""
    other = "gpu_ms" if any(row["gpu_ms"] for row in rows) else "peer_ms"
    figure, axes = plots.plt.subplots(figsize=(7, 6))
    for k, name in enumerate(DRAW):
        own = [row for row in rows if row["solver"] == name and row[other]]
        if own:
            x, y = ([row[column] for row in own] for column in ("core_ms", other))
            axes.scatter(x, y, s=18, label=name, color=f"C{k}")
    ends = [min(axes.get_xlim()[0], 0.05), axes.get_xlim()[1]]
    axes.plot(ends, ends, color="#808080", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="one core, ms")
    axes.set_ylabel(f"{gpu}, ms" if other == "gpu_ms" else "the fastest peer on that core, ms")
    plots.legend(axes)
    return plots.save(figure, path)


def main() -> None:
    parser = options.parser(__doc__, "few rows, of at most 2^20 numbers", selects=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    args = options.parse(parser)
    on_gpu = jax.default_backend() == "gpu"
    name = "map_gpu" if on_gpu else "map_cpu"
    packages = ["jax", "jaxlib", "numpy", "scipy", "lapx", "POT", "ortools"]
    content: Row = (record.gpu() if on_gpu else {}) | record.environment(packages)
    content |= {"seed": args.seed, "rows": []}
    rows: list[Row] = content["rows"]
    for make in tqdm(draw(args.seed, 40 if args.quick else args.count)):
        given = make()
        size = sum(x.size for x in given.arrays if _is_array(x))
        if not args.rows.search(f"{given.solver} {given.what}"):
            continue
        if args.quick and size > QUICK_ELEMENTS:
            continue
        rows.append(measure(given, on_gpu, args.peers))
        content["summary"] = summary(rows)
        record.write_json(args.out, name, content)  # a run may be cut off
    column = "gpu/core" if on_gpu else "core/peer"
    worst = sorted(rows, key=lambda row: -(row[column] or 0))
    record.print_table(f"The worst of {len(rows)} rows by {column}", worst[:20])
    record.print_table("Geometric means", content.get("summary", []))
    slow = slower_on_a_gpu(rows)
    print(f"{len(slow)} rows of more than {LEAST_CORE_MS:g} ms on the core take the GPU longer")
    if args.complete and rows:
        print(plot(rows, args.out / f"{name}.png", content.get("gpu", "")))


if __name__ == "__main__":
    main()
