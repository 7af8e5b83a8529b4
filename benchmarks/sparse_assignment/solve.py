"""Assignment on sparse graphs, and what stands on it or beside it: gates, k best, graph matching.

    python -m benchmarks.sparse_assignment.solve [--quick] [--rows PATTERN] [--no-peers]
        [--out FOLDER] [--most 1000000] [--minutes 8] [--limit 60] [--cache FOLDER] [PART ...]

Families: points against their 10 or 50 nearest in two and three dimensions, random edges with
integer weights, spots of cells in two frames within a gate, and the graphs of $JAXMATCH_DATA/graphs
with integer weights, from 1 to 10^6 or to 3 ("ties"). `problems.py` says what the forms are. Parts:

- `cpu`: one problem on one core, in float64 or integers: times of scipy's LAPJVsp and, where they
  are installed, kwok and or-tools by ours. A solver of full matchings gets a column more for each
  row that may stay.
  "drop-in" is `min_weight_full_bipartite_matching` with ours in it, which makes its graph anew.
- `gpu`: one problem on a GPU beside our own method on one core of its host, in float32. Four cores
  solve a problem each side by side where there are enough.
- `batch`: 4096 problems of 64 + 64 vertices and 600 edges in one call, beside scipy in a loop.
- `radius`: points of which only pairs within a radius exist, about 10 a point, found by the call;
  on a GPU and on one core of its host.
- `dense`: 8192 rows and columns that may stay at the price of a gate, beside the same without it.
- `k_best`: the 100 best of 100 rows and columns: on one core beside fastlap; 256 problems on a GPU.
- `faq`: the quadratic assignment problem from 256 starts beside scipy, which is measured on 8.

Parts that need a GPU are left out where there is none. Times are medians after a warm-up, of a call
on arrays that are on the device already. Every answer is proved or compared with the peer's. A
solve over `--limit` seconds (ours beside peers: ten times that) is ended and enters means with the
limit: ">" marks the ratio of a peer that was ended, "<" that of ours. That method then tries no
larger problem of the family. After `--minutes` a part starts no more rows. Times on a CPU mean
little elsewhere: there are only ratios, greater than 1 where we are faster.
Each part writes `sparse_assignment_PART.json`, `cpu` and `gpu` also `.png`. A row's name is like
"near 2-D, 10 gated 100000".
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import options, plots, record
from benchmarks.common.record import Row, Table
from benchmarks.common.workers import Worker
from benchmarks.sparse_assignment import batch, dense, faq, k_best, radius, single
from benchmarks.sparse_assignment.single import Setting
from benchmarks.sparse_assignment.workers import Bench


PARTS = ("cpu", "gpu", "batch", "radius", "dense", "k_best", "faq")
NEED_A_GPU = ("gpu", "batch", "radius", "dense")
TITLES = {
    "cpu": "times of peers by ours, one core",
    "gpu": "one problem on a GPU and on one core of its host, ms",
    "batch": f"problems of {batch.SIDE} + {batch.SIDE} vertices and {batch.EDGES} edges, ms",
    "radius": "points within a radius of each other, ms",
    "dense": "rows that may stay, and all matched, ms",
    "k_best": "the k best assignments",
    "faq": "quadratic assignment from many starts",
}
LARGE = 10**6  # edges, for the means of a GPU
PACKAGES = ["jax", "jaxlib", "numpy", "scipy", "kwok", "ortools", "fastlap"]


# ---------------------------------------------------------------------------------------------
# Rows that a process makes by itself


def by_themselves(
    cases: Sequence[Any], setting: Setting, failures: list[str], *, platform: str, wide: bool
) -> Iterator[Row]:
    """The row of each case, from a process on one core of the CPU or on the GPU."""
    cores = single.one_core() if platform == "cpu" else single.cores_beside_a_gpu()
    worker = Worker(cores, platform, Bench, setting.folder, setting.budget, wide)
    for case in cases:
        if setting.is_over():
            break
        if not setting.rows.search(str(case)):
            continue
        try:
            row = worker.ask(case)
        except RuntimeError as error:
            failures.append(f"{case}: {error}")
            continue
        if row is None:
            failures.append(f"{case}: took too long")
        else:
            yield row
    worker.close()


def batch_rows(setting: Setting, failures: list[str], on_gpu: bool) -> Iterator[Row]:
    cases = batch.cases(setting.quick, setting.peers)
    yield from by_themselves(cases, setting, failures, platform="", wide=False)


def radius_rows(setting: Setting, failures: list[str], on_gpu: bool) -> Iterator[Row]:
    cases = radius.cases(setting.quick, setting.most)
    yield from by_themselves(cases, setting, failures, platform="", wide=False)


def dense_rows(setting: Setting, failures: list[str], on_gpu: bool) -> Iterator[Row]:
    yield from by_themselves(dense.cases(setting.quick), setting, failures, platform="", wide=False)


def k_best_rows(setting: Setting, failures: list[str], on_gpu: bool) -> Iterator[Row]:
    if setting.peers and k_best.has_peer():
        cases = k_best.one_core_cases(setting.quick)
        yield from by_themselves(cases, setting, failures, platform="cpu", wide=True)
    else:
        print(f"k_best: no rows of one core without {k_best.PEER}.")
    if on_gpu:
        batches = k_best.batch_cases(setting.quick)
        yield from by_themselves(batches, setting, failures, platform="", wide=False)
    else:
        print("k_best: no batch without a GPU.")


def faq_rows(setting: Setting, failures: list[str], on_gpu: bool) -> Iterator[Row]:
    cases = faq.cases(setting.quick, on_gpu)
    platform = "" if on_gpu else "cpu"
    yield from by_themselves(cases, setting, failures, platform=platform, wide=False)


ROWS: dict[str, Callable[[Setting, list[str], bool], Iterator[Row]]] = {
    "cpu": lambda setting, failures, _: single.cpu_rows(setting, failures),
    "gpu": lambda setting, failures, _: single.gpu_rows(setting, failures),
    "batch": batch_rows,
    "radius": radius_rows,
    "dense": dense_rows,
    "k_best": k_best_rows,
    "faq": faq_rows,
}


# ---------------------------------------------------------------------------------------------
# Report


def summary(rows: Sequence[Row]) -> Row:
    """Geometric mean and extremes of each ratio; of a GPU, of large graphs.

    Bounds enter the mean as they are. The least is of what ended.
    """
    if rows and "cpu/gpu" in rows[0]:
        rows = [row for row in rows if row["edges"] >= LARGE]
    result: Row = {}
    for name in dict.fromkeys(key for row in rows for key in row if "/" in key):
        texts = [str(x) for row in rows if (x := row.get(name))]
        values = [float(x.lstrip("<>")) for x in texts]
        if values:
            result |= {f"{name}, rows": len(values)}
            result |= {f"{name}, stopped": sum(x.startswith(">") for x in texts)}
            result |= {f"{name}, ours stopped": sum(x.startswith("<") for x in texts)}
            result |= {f"{name}, mean": record.geometric_mean(values)}
            ended = [float(x.lstrip("<")) for x in texts if not x.startswith(">")]
            result |= {f"{name}, least": min(ended, default=None)}
            result |= {f"{name}, greatest": max(values)}
    return result


def plot_cpu(rows: list[Row], path: Path) -> None:
    """Times of peers relative to ours, a mark for each problem."""
    figure, axes = plots.plt.subplots(figsize=(15, 6))
    labels = [f"{r['graph']}, {r['form']}, {r['n']}" for r in rows]
    names = {"scipy": "scipy (LAPJVsp)", "kwok": "kwok", "ortools": "or-tools (cost scaling)"}
    series = {v: [r.get(f"{k}/ours") for r in rows] for k, v in names.items()}
    plots.relative_to_ours(axes, labels, {k: v for k, v in series.items() if any(v)})
    axes.tick_params(axis="x", labelsize=5)
    title = "Time of one problem on one core, relative to jaxmatch"
    axes.set_title(f"{title} (higher is slower; hollow: stopped there)")
    plots.legend(axes)
    print(plots.save(figure, path))


def plot_gpu(rows: list[Row], path: Path, where: str) -> None:
    """Times by the number of edges, on logarithmic axes."""
    figure, axes = plots.plt.subplots(figsize=(8, 5))
    series = {where: ("call_ms", plots.OURS), "one core of its host": ("cpu_ms", plots.OTHER)}
    for (label, (key, color)), marker in zip(series.items(), plots.MARKERS, strict=False):
        shown = [row for row in rows if row[key]]
        x, y = ([row[k] for row in shown] for k in ("edges", key))
        axes.plot(x, y, marker, color=color, label=label, markersize=5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("edges")
    axes.set_ylabel("ms")
    axes.set_title("sparse assignment by jaxmatch, one problem", loc="left", fontsize=9)
    plots.legend(axes)
    print(plots.save(figure, path))


def run(part: str, setting: Setting, about: Row, out: Path, *, on_gpu: bool) -> list[Row]:
    """Prints a part's rows as they come, and writes them: a run may be cut off."""
    found: list[Row] = []
    failures: list[str] = []
    table = Table(f"{part}: {TITLES[part]}")
    limits = {"limit_s": setting.limit, "most": setting.most}
    content = about | limits | {"rows": found, "failures": failures}
    for row in ROWS[part](setting, failures, on_gpu):
        table.add(row)
        found.append(row)
        content["summary"] = summary(found)
        record.write_json(out, f"sparse_assignment_{part}", content)
    if found:
        record.print_table("of all rows", _lines(summary(found)))
    if failures:
        record.write_json(out, f"sparse_assignment_{part}", content)
        print("\n".join(["Failures:", *failures]))
    return found


def _lines(of_all: Row) -> list[Row]:
    """A line for each ratio."""
    lines: dict[str, Row] = {}
    for key, x in of_all.items():
        name, what = key.rsplit(", ", 1)
        lines.setdefault(name, {"ratio": name})[what] = x
    return [*lines.values()]


def has_gpu() -> bool:
    """Asked in another process: this one leaves the GPU to its workers."""
    worker = Worker(single.cores_beside_a_gpu(), "", Bench, Path(), 0.0, False)
    backend, _ = worker.ask("device")
    worker.close()
    return backend == "gpu"


def main() -> None:
    parser = options.parser(__doc__, "small problems", selects=True)
    options.add_parts(parser, PARTS)
    parser.add_argument("--cache", type=Path, help="folder that keeps problems between runs")
    parser.add_argument("--most", type=int, default=10**6, help="points of a side")
    parser.add_argument("--minutes", type=float, default=8, help="then a part starts no more rows")
    parser.add_argument("--limit", type=float, default=60, help="seconds of a solve")
    args = options.parse(parser)
    on_gpu = has_gpu()
    about = (record.gpu() if on_gpu else {}) | record.environment(PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts:
            if part in NEED_A_GPU and not on_gpu:
                print(f"{part}: left out, there is no GPU.")
                continue
            end = time.perf_counter() + 60 * args.minutes
            numbers = (end, args.limit, args.most, args.quick)
            setting = Setting(args.cache or Path(folder), *numbers, args.peers, args.rows)
            found = run(part, setting, about, args.out, on_gpu=on_gpu)
            path = args.out / f"sparse_assignment_{part}.png"
            if found and args.complete and part == "cpu":
                plot_cpu(found, path)
            elif found and args.complete and part == "gpu":
                plot_gpu(found, path, f"one {about['gpu']}")


if __name__ == "__main__":
    main()
