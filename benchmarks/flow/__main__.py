"""Maximum flow and minimum cut: the GPU and CPU methods, the paper's layouts, and the peers.

    python -m benchmarks.flow [--quick] [--only PART] [--minutes 8] [--cache DIR]

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
Writes `benchmarks/results/flow.json` and `flow.png` (`flow_quick*` with `--quick`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common import record as common
from benchmarks.common.workers import TooLong, Worker
from benchmarks.flow import instances, plots, tables
from benchmarks.flow.workers import Bench, Job, Measured, peers_found


PARTS = ("targets", "layouts", "cpu")
LIMIT_S = {"gpu": 5.0, "one": 15.0}  # for one solve
RUNS_S = {"gpu": 0.25, "one": 0.5}  # for repeating it
QUICK = ("rlg_64x64", "genrmf_a8_b8", "grid_64x64")
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "ortools", "PyMaxflow", "torch")


class Store:
    """What was measured, by lane, instance and label. All solvers must agree on the value."""

    def __init__(self, values: dict[str, int]) -> None:
        self.found: tables.Found = {}
        self.values = dict(values)
        self.failures: list[str] = []
        self.dropped: list[str] = []
        self._lock = threading.Lock()

    def add(self, lane: str, job: Job, measured: Measured) -> None:
        with self._lock:
            self.found[lane, job.instance, job.label] = measured
            # A grid's value has what both terms of a cell share; networks leave that out.
            form = "grid" if job.form == "grid" else "network"
            key = f"{job.instance} {form}"
            if measured.value is None:
                return
            expected = self.values.setdefault(key, measured.value)
            if measured.value != expected:
                self.failures.append(f"{job.label} on {key}: {measured.value}, not {expected}")


def jobs(only: Sequence[str], networks: Sequence[str], grids: Sequence[str]) -> dict[str, Any]:
    """Groups of jobs for each lane: one instance each, what the criteria need first."""
    gpu, one = [], []
    for name in [*networks, *grids]:
        forms = ["network"] * (name in networks) + ["grid"] * (name in grids)
        if "targets" in only:
            matching = ["matching"] * (name in instances.MATCHINGS)
            gpu.append([Job(name, "auto", form, runs=9) for form in forms + matching])
        if "cpu" in only:
            ours = [Job(name, "auto", form) for form in forms]
            ours += [Job(name, m) for m in tables.SEQUENTIAL if "network" in forms]
            one.append(ours + [Job(name, p) for p in peers_found() if "network" in forms])
    if "layouts" in only:
        pairs = [(m, x) for x in reversed(tables.LAYOUTS) for m in reversed(tables.GPU_PAPER)]
        few = pairs[: len(tables.GPU_PAPER)]  # what takes seconds each time
        gpu += [
            [Job(n, m, layout=x, runs=1) for m, x in (few if n in tables.LARGEST else pairs)]
            for n in networks
        ]
    return {"gpu": gpu, "one": one}


def cores_of_lanes() -> dict[str, list[list[int]]]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 4:
        return {"gpu": [cores], "one": [cores[:1]]}
    return {"gpu": [cores[:2]], "one": [[c] for c in cores[2:8]]}  # memory is shared by all


def run(plan: dict[str, Any], store: Store, cache: Path, end: float) -> None:
    count = sum(len(group) for groups in plan.values() for group in groups)

    def work(lane: str, cores: list[int], queue: deque[list[Job]]) -> None:
        worker = Worker(cores, "" if lane == "gpu" else "cpu", Bench, cache, RUNS_S[lane])
        while queue:
            try:
                group = queue.popleft()
            except IndexError:
                break
            for job in group:
                bar.set_postfix_str(f"{lane}: {job.label} on {job.instance}", refresh=False)
                try:
                    if time.perf_counter() > end:
                        store.dropped.append(f"{lane}: {job.label} on {job.instance}")
                    else:
                        store.add(lane, job, worker.measure(job, LIMIT_S[lane]))
                except TooLong:
                    store.add(lane, job, Measured(1e3 * LIMIT_S[lane], over=True))
                except RuntimeError as error:
                    store.failures.append(f"{lane}: {job.label} on {job.instance}: {error}")
                bar.update()
        worker.close()

    with tqdm(total=count, desc="solves", smoothing=0) as bar:
        threads = [
            threading.Thread(target=work, args=(lane, mine, queue), daemon=True)
            for lane, groups in plan.items()
            for queue in [deque(groups)]
            for mine in cores_of_lanes()[lane]
        ]
        together = len(threads) > len(plan)
        for thread in threads:
            thread.start()
            if not together:
                thread.join()
        for thread in threads:
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three small instances")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts alone")
    parser.add_argument("--cache", type=Path, help="folder that keeps instances between runs")
    parser.add_argument("--minutes", type=float, default=8, help="then start no more solves")
    args = parser.parse_args()
    end = time.perf_counter() + 60 * args.minutes
    only = args.only or PARTS
    networks, grids = instances.names()
    if args.quick:
        networks, grids = list(QUICK), list(QUICK[-1:])
    with tempfile.TemporaryDirectory() as folder:
        cache = args.cache or Path(folder)
        sizes = instances.make_all([*networks, *grids], cache)
        spread = {n: instances.workload_spread(instances.load(cache, n)) for n in networks}
        store = Store({f"{name} network": x for name, x in instances.KNOWN.items()})
        run(jobs(only, networks, grids), store, cache, end)
        worker = Worker(cores_of_lanes()["gpu"][0], "", Bench, cache, 1.0)
        backend, device = worker.ask("device")
        worker.close()

    found = store.found
    goals = [t for t in tables.TARGETS if t.instance in (*networks, *grids)]
    if args.quick:
        goals = [tables.Target(n) for n in networks] + [tables.Target(n, "grid") for n in grids]
    parts = {
        "targets": tables.targets(found, goals, backend == "gpu"),
        "layouts": tables.layouts(found, networks, spread),
        "breakdown": tables.breakdown(found, networks),
        "cpu": tables.on_one_core(found, networks, "network"),
        "grids_cpu": tables.on_one_core(found, grids, "grid"),
        "criteria": tables.criteria(found, networks),
    }
    for part, rows in parts.items():
        if rows:
            blank = [{k: "" if x is None else x for k, x in row.items()} for row in rows]
            common.print_table(tables.TITLES[part], blank)
    name = "flow_quick" if args.quick else "flow"
    about = common.environment(PACKAGES) | {"device": device, "backend": backend}
    about |= {"sizes": sizes, "limits_s": LIMIT_S, "left_out": store.dropped}
    measurements = [
        {"lane": lane, "instance": instance, "method": label}
        | {k: x for k, x in measured._asdict().items() if x not in (None, False)}
        for (lane, instance, label), measured in sorted(found.items())
    ]
    content = about | {"failures": store.failures} | parts | {"measurements": measurements}
    print(f"\nwrote {common.write_json(name, content)}")
    plots.draw(parts, common.RESULTS / f"{name}.png")
    if store.dropped:
        print(f"{len(store.dropped)} solves left out, no time: {store.dropped}")
    if store.failures:
        raise SystemExit("\n".join(["", *store.failures]))


if __name__ == "__main__":
    main()
