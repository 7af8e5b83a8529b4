"""Maximum bipartite matching: GPU and CPU methods, the papers' tables, and the peers.

    python -m benchmarks.matching [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]
        [--scale 22] [--minutes 8] [--cache FOLDER] [PART ...]

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
Writes `matching.json` and `matching*.png`. A row's name is like "gpu: auto on delaunay_n20".
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import options, record
from benchmarks.common.lanes import Limits, Plan, Store, chosen, cores_of_lanes, run_lanes
from benchmarks.common.workers import Worker
from benchmarks.matching import plots, tables
from benchmarks.matching.graphs import KNOWN, Spec, make_all, real_graphs
from benchmarks.matching.workers import IGRAPH_MOST_EDGES, Bench, Job, peers_found


PARTS = ("targets", "papers", "scratch", "batch")
LIMITS = Limits(gpu=3, cpu=10, gpu_runs=0.25, cpu_runs=0.5)
QUICK = Limits(gpu=3, cpu=3, gpu_runs=0.05, cpu_runs=0.05)
THREADS = 8  # of the multicore methods, as in the papers

# Graphs of the tables of the papers, beside the real ones of at least 100,000 edges.
PAPERS = [
    Spec("strip", 14), Spec("delaunay", 18), Spec("delaunay", 20), Spec("rgg", 18),
    Spec("kron", 16), Spec("dual", 20), Spec("road", 20), Spec("er", 20), Spec("rmat", 20),
]  # fmt: skip
LADDERS = [Spec("ladder_L28"), Spec("ladder_L40")]  # scipy is exponential on them
QUICK_REAL = ("copter2", "debian_depends")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "igraph", "torch")


class Graphs(NamedTuple):
    """The graphs of each part, by name."""

    targets: list[tuple[str, tables.Target]]
    papers: list[str]  # each has an `_rcp` beside it
    scratch: list[str]
    small: list[str]  # on the CPU alone


def choose_graphs(parts: Sequence[str], scale: int, quick: bool) -> tuple[list[Spec], Graphs]:
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
    if "targets" in parts:
        specs += [s for s, _ in targets]
    if "papers" in parts or "scratch" in parts:
        specs += [*papers, *(replace(s, rcp=True) for s in papers)]
    if "scratch" in parts:
        specs += [*scratch, *small]
    names = [(s.name, t if s == t.spec else tables.Target(s)) for s, t in targets]
    return specs, Graphs(
        names,
        [s.name for s in papers],
        [s.name for s in scratch],
        [s.name for s in small] if "scratch" in parts else [],
    )


def jobs(parts: Sequence[str], plan: Graphs, sizes: tables.Sizes, found: Sequence[str]) -> Plan:
    """The jobs of each lane: what the criteria need comes first, larger graphs before smaller.
    `found`: the peers to measure."""
    gpu: list[list[Job]] = []
    one: list[list[Job]] = []
    threads: list[list[Job]] = []
    seen: set[tuple[str, str]] = set()
    by_size = sorted(sizes, key=lambda name: -sizes[name][2])
    both = [name for name in by_size if name.removesuffix("_rcp") in plan.papers]

    def whole(name: str, methods: Sequence[tuple[str, tuple[Any, ...]]], runs: int) -> list[Job]:
        return [Job(name, *how, runs=runs) for how in methods]

    if "targets" in parts:
        gpu += [whole(name, [("auto", ())], 9) for name, _ in plan.targets]
        seen = {(name, "auto") for name, _ in plan.targets}
    if "scratch" in parts:
        names = [n for n in by_size if n in plan.scratch or n in both]
        gpu += [
            [j for j in whole(n, tables.GPU_BEST, 5) if (n, j.method) not in seen] for n in names
        ]
        threads += [whole(n, [("auto", ())], 5) for n in names]
        for name in [*names, *(n for n in plan.small if n in sizes)]:
            large = sizes[name][2] > IGRAPH_MOST_EDGES
            peers = [p for p in found if not (p == "igraph" and large)]
            ours = ["auto"] if name in plan.small else ["auto", *tables.SEQUENTIAL]
            one.append(whole(name, [(m, ()) for m in (*ours, *peers)], 15))
    if "papers" in parts:
        for base in [n for n in by_size if n in plan.papers]:
            pair = (base, f"{base}_rcp")
            gpu.append(
                [Job(n, *how, start="cheap", runs=3) for n in pair for how in tables.GPU_PAPERS]
            )
            for lane, methods in ((one, tables.SEQUENTIAL), (threads, tables.MULTICORE)):
                lane.append([Job(n, m, start="cheap") for n in pair for m in methods])
        if "scratch" not in parts and "scipy" in found:
            one += [[Job(n, "scipy")] for n in both]
    return {"gpu": gpu, "one": one, "threads": threads}


def main() -> None:
    parser = options.parser(__doc__, "few graphs of at most 2^13 vertices", selects=True)
    options.add_parts(parser, PARTS)
    parser.add_argument("--cache", type=Path, help="folder that keeps the graphs between runs")
    parser.add_argument("--scale", type=int, help="generated graphs: at most 2^SCALE, usually 2^22")
    parser.add_argument("--minutes", type=float, default=8, help="then start no more solves")
    args = options.parse(parser)
    end = time.perf_counter() + 60 * args.minutes
    specs, plan = choose_graphs(args.parts, args.scale or (13 if args.quick else 22), args.quick)
    limits = QUICK if args.quick else LIMITS
    cores = cores_of_lanes(THREADS)
    peers = peers_found() if args.peers else []
    store, small = Store(KNOWN), None
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        unknown = {spec.name: (0, 0, 0) for spec in specs}
        all_jobs = chosen(jobs(args.parts, plan, unknown, peers), args)
        needed = {job.instance for groups in all_jobs.values() for group in groups for job in group}
        sizes = make_all([spec for spec in specs if spec.name in needed], cache)
        selected = chosen(jobs(args.parts, plan, sizes, peers), args)
        run_lanes(selected, cores, store, limits, Bench, cache, end)
        worker = Worker([c for mine in cores["gpu"] for c in mine], "", Bench, cache, 1.0)
        backend, device = worker.ask("device")
        if "batch" in args.parts and args.rows.search("batch"):
            small = worker.ask((256 if args.quick else 4096, args.peers))
        worker.close()

    on_gpu = backend == "gpu"
    goals = [(n, t if on_gpu else tables.Target(t.spec)) for n, t in plan.targets]
    parts: dict[str, list[record.Row]] = {}
    if "targets" in args.parts:
        parts["targets"] = tables.targets(store, goals, sizes)
    if "papers" in args.parts:
        parts["push_relabel"] = tables.push_relabel(store, plan.papers)
        parts["breadth_first"] = tables.breadth_first(store, plan.papers)
        parts["after_cheap"] = tables.after_cheap(store, plan.papers, sizes)
    if "scratch" in args.parts:
        everywhere = [n for n in sizes if (n, "one", "auto", "nothing") in store.found]
        parts["scratch_gpu"] = tables.gpu_from_scratch(store, everywhere, sizes)
        parts["scratch_cpu"] = tables.cpu_from_scratch(store, everywhere, sizes)
        parts["criteria"] = tables.criteria(store, everywhere, sizes, on_gpu)
    if small is not None:
        parts["batch"] = [small]

    for part, rows in parts.items():
        record.print_table(tables.TITLES[part], rows)
    about = record.environment(PACKAGES) | (record.gpu() if on_gpu else {})
    about |= {"device": device, "backend": backend, "cores_of_lanes": cores}
    about |= {"lane_seconds": store.lane_seconds, "limits_s": limits._asdict()}
    about |= {"left_out": store.left_out, "failures": store.failures}
    content = about | parts | {"measurements": store.rows("graph", "cardinality")}
    print(f"\nwrote {record.write_json(args.out, 'matching', content)}")
    if args.complete and "papers" in args.parts:
        plots.papers(store, plan.papers, args.out / "matching_papers.png")
        plots.profiles(store, plan.papers, args.out / "matching_profiles.png")
    if args.complete and ("targets" in args.parts or "scratch" in args.parts):
        shown = parts.get("targets", []), parts.get("scratch_cpu", [])
        plots.whole_solves(*shown, args.out / "matching.png")
    if not on_gpu:
        print("There is no GPU: its columns are those of JAX's default device.")
    store.report()


if __name__ == "__main__":
    main()
