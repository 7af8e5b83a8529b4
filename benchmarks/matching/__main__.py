"""Maximum bipartite matching: GPU and CPU methods, the papers' tables, and the peers.

    python -m benchmarks.matching [--quick] [--only PART] [--scale 22] [--minutes 8] [--cache DIR]

Graphs: those of $JAXMATCH_DATA/graphs, where there are any, and generated families, as they are and
with rows and columns in random order (RCP). Parts:

- `targets`: method `"auto"` on the GPU, whole solve from nothing, beside what it is to reach and
  ECL-MM's times, which were measured earlier on the same kind of card.
- `papers`: the papers' methods by their options, time after one cheap initialisation that all of
  them share: figures 1 to 3 of Deveci et al. 2013 (G-PR) and table 1 of their APsB and APFB paper.
- `scratch`: whole solves from nothing: the GPU, each CPU method, scipy, igraph and SuiteSparse BTF
  (those that are found) on one core, and what is to hold between them.
- `batch`: 4096 graphs of 64 + 64 vertices in one call.

Times are medians after a warm-up; `device_ms` by the GPU's own clock where torch is there to ask
for it (CUPTI), everything else wall time of a call on a graph that is on the device already. The
GPU, single cores and a group of 8 cores measure side by side, each in its own process, where there
are cores enough. A solve over the limit is ended, enters means with the limit, and is marked ">".
Every answer is proved by `check_matching`; all solvers agree on the cardinality, and with the known
one where there is one. Times on a CPU mean little elsewhere: read ratios. Without a GPU its columns
are those of JAX's default device, to try this out.
Writes `benchmarks/results/matching.json` and `matching_*.png` (`matching_quick*` with `--quick`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import record as common
from benchmarks.common.workers import Worker
from benchmarks.matching import plots, tables
from benchmarks.matching.graphs import Spec, make_all, real_graphs
from benchmarks.matching.lanes import Limits, Store, cores_of_lanes, run_lanes
from benchmarks.matching.workers import IGRAPH_MOST_EDGES, Bench, Job, peers_found


PARTS = ("targets", "papers", "scratch", "batch")
LIMITS = Limits(gpu=3, cpu=10, gpu_runs=0.25, cpu_runs=0.5)
QUICK = Limits(gpu=3, cpu=3, gpu_runs=0.05, cpu_runs=0.05)

# Graphs of the tables of the papers, beside the real ones of at least 100,000 edges.
PAPERS = [
    Spec("strip", 14), Spec("delaunay", 18), Spec("delaunay", 20), Spec("rgg", 18),
    Spec("kron", 16), Spec("dual", 20), Spec("road", 20), Spec("er", 20), Spec("rmat", 20),
]  # fmt: skip
LADDERS = [Spec("ladder_L28"), Spec("ladder_L40")]  # scipy is exponential on them
QUICK_REAL = ("copter2", "debian_depends")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "igraph", "torch")


class Plan(NamedTuple):
    """The graphs of each part, by name."""

    targets: list[tuple[str, tables.Target]]
    papers: list[str]  # each has an `_rcp` beside it
    scratch: list[str]
    small: list[str]  # on the CPU alone


def choose_graphs(only: Sequence[str], scale: int, quick: bool) -> tuple[list[Spec], Plan]:
    real = real_graphs(100_000)
    small = [*real_graphs(10_000, 100_000), *(s for s in real_graphs(0) if s in LADDERS)]
    if quick:
        real, small = [s for s in real if s.family in QUICK_REAL], small[-1:]
    targets = [(t.spec.capped(scale), t) for t in tables.TARGETS]
    have = {s.family for s in real_graphs(0)}
    targets = [(s, t) for s, t in targets if s.scale or s.family in have]
    papers = [*real, *dict.fromkeys(s.capped(scale) for s in PAPERS[: 4 if quick else None])]
    scratch = list(dict.fromkeys([*papers, *(s for s, _ in targets)]))
    if quick:
        targets = targets[-4:]
        scratch = papers
    specs: list[Spec] = []
    if "targets" in only:
        specs += [s for s, _ in targets]
    if "papers" in only or "scratch" in only:
        specs += [*papers, *(replace(s, rcp=True) for s in papers)]
    if "scratch" in only:
        specs += [*scratch, *small]
    names = [(s.name, t if s == t.spec else tables.Target(s)) for s, t in targets]
    return specs, Plan(
        names,
        [s.name for s in papers],
        [s.name for s in scratch],
        [s.name for s in small] if "scratch" in only else [],
    )


def jobs(
    only: Sequence[str], plan: Plan, sizes: dict[str, tuple[int, int, int]]
) -> dict[str, list[list[Job]]]:
    """What each lane measures: what the criteria need comes first, larger graphs before smaller."""
    gpu: list[list[Job]] = []
    one: list[list[Job]] = []
    threads: list[list[Job]] = []
    seen: set[tuple[str, str]] = set()
    by_size = sorted(sizes, key=lambda name: -sizes[name][2])
    both = [name for name in by_size if name.removesuffix("_rcp") in plan.papers]

    def whole(name: str, methods: Sequence[tuple[str, tuple[Any, ...]]], runs: int) -> list[Job]:
        return [Job(name, *how, runs=runs) for how in methods]

    if "targets" in only:
        gpu += [whole(name, [("auto", ())], 9) for name, _ in plan.targets]
        seen = {(name, "auto") for name, _ in plan.targets}
    if "scratch" in only:
        names = [n for n in by_size if n in plan.scratch or n in both]
        gpu += [
            [j for j in whole(n, tables.GPU_BEST, 5) if (n, j.method) not in seen] for n in names
        ]
        threads += [whole(n, [("auto", ())], 5) for n in names]
        found = peers_found()
        for name in [*names, *plan.small]:
            large = sizes[name][2] > IGRAPH_MOST_EDGES
            peers = [p for p in found if not (p == "igraph" and large)]
            ours = ["auto"] if name in plan.small else ["auto", *tables.SEQUENTIAL]
            one.append(whole(name, [(m, ()) for m in (*ours, *peers)], 15))
    if "papers" in only:
        for base in [n for n in by_size if n in plan.papers]:
            pair = (base, f"{base}_rcp")
            gpu.append(
                [Job(n, *how, start="cheap", runs=3) for n in pair for how in tables.GPU_PAPERS]
            )
            for lane, methods in ((one, tables.SEQUENTIAL), (threads, tables.MULTICORE)):
                lane.append([Job(n, m, start="cheap") for n in pair for m in methods])
        if "scratch" not in only and "scipy" in peers_found():
            one += [[Job(n, "scipy")] for n in both]
    return {"gpu": gpu, "one": one, "threads": threads}


def show(title: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        blank = [{k: "" if x is None else x for k, x in row.items()} for row in rows]
        common.print_table(title, blank)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few graphs of at most 2^13 vertices")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts alone")
    parser.add_argument("--cache", type=Path, help="folder that keeps the graphs between runs")
    parser.add_argument("--scale", type=int, default=22, help="generated graphs: at most 2^SCALE")
    parser.add_argument("--minutes", type=float, default=8, help="then start no more solves")
    args = parser.parse_args()
    end = time.perf_counter() + 60 * args.minutes
    only = args.only or PARTS
    specs, plan = choose_graphs(only, min(args.scale, 13) if args.quick else args.scale, args.quick)
    limits = QUICK if args.quick else LIMITS
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        sizes = make_all(specs, cache)
        store = Store()
        run_lanes(jobs(only, plan, sizes), store, limits, cache, end)
        worker = Worker(
            [c for cores in cores_of_lanes()["gpu"] for c in cores], "", Bench, cache, 1.0
        )
        backend, device = worker.ask("device")
        small = worker.ask(256 if args.quick else 4096) if "batch" in only else None
        worker.close()

    on_gpu = backend == "gpu"
    goals = [(n, t if on_gpu else tables.Target(t.spec)) for n, t in plan.targets]
    parts: dict[str, list[dict[str, Any]]] = {}
    if "targets" in only:
        parts["targets"] = tables.targets(store, goals, sizes)
    if "papers" in only:
        parts["push_relabel"] = tables.push_relabel(store, plan.papers)
        parts["breadth_first"] = tables.breadth_first(store, plan.papers)
        parts["after_cheap"] = tables.after_cheap(store, plan.papers, sizes)
    if "scratch" in only:
        everywhere = [n for n in sizes if (n, "one", "auto", "nothing") in store.found]
        parts["scratch_gpu"] = tables.gpu_from_scratch(store, everywhere, sizes)
        parts["scratch_cpu"] = tables.cpu_from_scratch(store, everywhere, sizes)
        parts["criteria"] = tables.criteria(store, everywhere, sizes, on_gpu)
    if small is not None:
        parts["batch"] = [small]

    name = "matching_quick" if args.quick else "matching"
    for part, rows in parts.items():
        show(tables.TITLES[part], rows)
    about = common.environment(PACKAGES) | {
        "device": device,
        "backend": backend,
        "cores_of_lanes": cores_of_lanes(),
        "lane_seconds": store.lane_seconds,
        "limits_s": limits._asdict(),
        "left_out": [f"{lane}: {job.label} on {job.graph}" for lane, job in store.dropped],
        "failures": store.failures,
    }
    if on_gpu:
        from benchmarks.assignment.gpu import gpu  # starts jax

        about |= gpu()
    path = common.write_json(name, about | parts | {"measurements": store.rows()})
    if "papers" in only:
        plots.papers(store, plan.papers, f"{name}_papers")
        plots.profiles(store, plan.papers, f"{name}_profiles")
    if "targets" in only or "scratch" in only:
        plots.whole_solves(parts.get("targets", []), parts.get("scratch_cpu", []), name)
    print(f"\nwrote {path}")
    if not on_gpu:
        print("There is no GPU: its columns are those of JAX's default device.")
    if store.dropped:
        print(f"{len(store.dropped)} solves were left out for time; --minutes gives more.")
    if store.failures:
        raise SystemExit("\n".join(["Failures:", *store.failures]))


if __name__ == "__main__":
    main()
