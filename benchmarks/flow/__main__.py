"""Maximum flow and minimum cut: the GPU and CPU methods, the paper's layouts, and the peers.

    python -m benchmarks.flow [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]
        [--minutes 8] [--cache FOLDER] [PART ...]

Instances: those of $JAXMATCH_DATA/flow, where there are any, and generated ones (Washington's RLG,
Genrmf, images and volumes as networks and as grids). Parts:

- `targets`: method `"auto"` on the GPU, beside what it is to reach and what other codes took that
  were measured earlier on the same kind of card and host.
- `layouts`: `"thread_centric"` and `"two_level"` on the layouts csr, rcsr and bcsr (WBPR's tables I
  and III), with the spread of work over warps that follows from the degrees, and what searches and
  pushes have of a solve.
- `cpu`: our CPU methods, or-tools, PyMaxflow and scipy (those that are found) on one core.

Times are medians after a warm-up and without building the problem; `device_ms` by the GPU's own
clock where torch is there to ask for it (CUPTI), everything else wall time of a call. The GPU and
single cores measure side by side, each in its own process, where there are cores enough. A solve
over the limit is ended and marked ">"; one that takes long is repeated less often, or not at all.
Every flow of ours is proved by `check_flow`; all solvers agree on the values of networks, and ours
on those of grids. Times on a CPU mean little elsewhere: read ratios. Without a GPU its columns are
those of JAX's default device, to try this out.
Writes `flow.json` and `flow.png`. A row's name is like "gpu: auto grid on camera_512".
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import options, record
from benchmarks.common.cache import load
from benchmarks.common.lanes import Limits, Plan, Store, chosen, cores_of_lanes, run_lanes
from benchmarks.common.workers import Worker
from benchmarks.flow import instances, plots, tables
from benchmarks.flow.workers import Bench, Job, peers_found


PARTS = ("targets", "layouts", "cpu")
LIMITS = Limits(gpu=5, cpu=15, gpu_runs=0.25, cpu_runs=0.5)
QUICK = ("rlg_64x64", "genrmf_a8_b8", "grid_64x64")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "ortools", "PyMaxflow", "torch")


def jobs(
    parts: Sequence[str], networks: Sequence[str], grids: Sequence[str], peers: Sequence[str]
) -> Plan:
    """Groups of jobs for each lane: one instance each, what the criteria need first."""
    gpu, one = [], []
    for name in [*networks, *grids]:
        forms = ["network"] * (name in networks) + ["grid"] * (name in grids)
        if "targets" in parts:
            matching = ["matching"] * (name in instances.MATCHINGS)
            gpu.append([Job(name, "auto", form=form, runs=9) for form in forms + matching])
        if "cpu" in parts:
            ours = [Job(name, "auto", form=form) for form in forms]
            ours += [Job(name, m) for m in tables.SEQUENTIAL if "network" in forms]
            one.append(ours + [Job(name, p) for p in peers if "network" in forms])
    if "layouts" in parts:
        pairs = [(m, x) for x in reversed(tables.LAYOUTS) for m in reversed(tables.GPU_PAPER)]
        few = pairs[: len(tables.GPU_PAPER)]  # what takes seconds each time
        gpu += [
            [Job(n, m, layout=x, runs=1) for m, x in (few if n in tables.LARGEST else pairs)]
            for n in networks
        ]
    return {"gpu": gpu, "one": one}


def main() -> None:
    parser = options.parser(__doc__, "three small instances", selects=True)
    options.add_parts(parser, PARTS)
    parser.add_argument("--cache", type=Path, help="folder that keeps instances between runs")
    parser.add_argument("--minutes", type=float, default=8, help="then start no more solves")
    args = options.parse(parser)
    end = time.perf_counter() + 60 * args.minutes
    networks, grids = instances.names()
    if args.quick:
        networks, grids = list(QUICK), list(QUICK[-1:])
    peers = peers_found() if args.peers else []
    selected = chosen(jobs(args.parts, networks, grids, peers), args)
    needed = {job.instance for groups in selected.values() for group in groups for job in group}
    networks, grids = ([x for x in names if x in needed] for names in (networks, grids))
    cores = cores_of_lanes(most=6)  # memory is shared by all
    store = Store({f"{name} network": x for name, x in instances.KNOWN.items()})
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        sizes = instances.make_all([*networks, *grids], cache)
        spread = {n: instances.workload_spread(load(cache, n)) for n in networks}
        run_lanes(selected, cores, store, LIMITS, Bench, cache, end)
        worker = Worker(cores["gpu"][0], "", Bench, cache, 1.0)
        backend, device = worker.ask("device")
        worker.close()

    goals = [t for t in tables.TARGETS if t.instance in (*networks, *grids)]
    if args.quick:
        goals = [tables.Target(n) for n in networks] + [tables.Target(n, "grid") for n in grids]
    parts = {
        "targets": tables.targets(store, goals, backend == "gpu"),
        "layouts": tables.layouts(store, networks, spread),
        "breakdown": tables.breakdown(store, networks),
        "cpu": tables.on_one_core(store, networks, "network"),
        "grids_cpu": tables.on_one_core(store, grids, "grid"),
        "criteria": tables.criteria(store, networks),
    }
    for part, rows in parts.items():
        record.print_table(tables.TITLES[part], rows)
    about = record.environment(PACKAGES) | {"device": device, "backend": backend}
    about |= {"sizes": sizes, "limits_s": LIMITS._asdict(), "left_out": store.left_out}
    about |= {"failures": store.failures}
    content = about | parts | {"measurements": store.rows("instance", "value")}
    print(f"\nwrote {record.write_json(args.out, 'flow', content)}")
    if args.complete:
        plots.draw(parts, args.out / "flow.png")
    store.report()


if __name__ == "__main__":
    main()
