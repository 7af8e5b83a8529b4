"""A map of all solvers: problems drawn at random, on a GPU, on one core, and by others.

    python -m benchmarks.map [--seed S] [--count N] [--workers W] [--quick] [--rows PATTERN]
                             [--out FOLDER]

Times are wall milliseconds of one call: jitted on the GPU, and outside of `jit` on one core of its
host. Peers solve one problem after another on that core, if a problem has at most 4 million
numbers. With several workers so many cores are busy at a time, each with problems of its own. Every
answer is checked by its `check_*` function, and all values are compared. Without a GPU only the
core and its peers are timed. Prints the worst rows, the geometric mean of each solver, and how many
rows above 1 ms on the core take a GPU longer. Writes `map_gpu.json` and `.png`, or `map_cpu`.
"""

from __future__ import annotations

import math
from pathlib import Path

import jax
from tqdm import tqdm

from benchmarks.common import options, plots, record
from benchmarks.common.record import Row
from benchmarks.map.draws import DRAW
from benchmarks.map.measure import Task, answers, with_gpu


LEAST_CORE_MS = 1.0  # below that a call to a GPU is most of the time
QUICK_ELEMENTS = 2**20


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
    parser.add_argument("--workers", type=int, default=1, help="cores that solve at a time")
    args = options.parse(parser)
    on_gpu = jax.default_backend() == "gpu"
    name = "map_gpu" if on_gpu else "map_cpu"
    packages = ["jax", "jaxlib", "numpy", "scipy", "lapx", "POT", "ortools"]
    content: Row = (record.gpu() if on_gpu else {}) | record.environment(packages)
    content |= {"seed": args.seed, "workers": args.workers, "rows": []}
    count, most = (40, QUICK_ELEMENTS) if args.quick else (args.count, math.inf)
    tasks = [Task(args.seed, k, args.rows, most, args.peers) for k in range(count)]
    solve = with_gpu if on_gpu else answers
    found = [x for x in tqdm(solve(tasks, args.workers), total=count) if x is not None]
    rows: list[Row] = content["rows"]
    for answer in tqdm(sorted(found, key=lambda x: x.row["k"]), disable=not on_gpu):
        if answer.set_gpu_time:
            answer.set_gpu_time()  # nothing else runs now
        rows.append(answer.row)
    content["summary"] = summary(rows)
    record.write_json(args.out, name, content)
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
