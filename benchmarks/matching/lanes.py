"""Who measures what when: the GPU, single cores and a group of cores side by side."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.common import record as common
from benchmarks.common.workers import TooLong, Worker
from benchmarks.matching.graphs import KNOWN
from benchmarks.matching.workers import Bench, Job, Measured


THREADS = 8  # of the multicore methods, as in the papers
LANES = ("gpu", "one", "threads")


class Limits(NamedTuple):
    """Seconds."""

    gpu: float  # for one solve
    cpu: float
    gpu_runs: float  # for repeating it
    cpu_runs: float


class Store:
    """Everything that was measured, by graph, lane, method and start."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str, str], Measured] = {}
        self.cardinality: dict[str, int] = dict(KNOWN)
        self.failures: list[str] = []
        self.dropped: list[tuple[str, Job]] = []
        self.slow: set[tuple[Any, ...]] = set()
        self.lane_seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, lane: str, job: Job, measured: Measured) -> None:
        with self._lock:
            self.found[job.graph, lane, job.label, job.start] = measured
            if measured.cardinality is None:
                return
            expected = self.cardinality.setdefault(_base(job.graph), measured.cardinality)
            if measured.cardinality != expected:
                self.failures.append(
                    f"{job.label} on {job.graph}: {measured.cardinality} pairs, {expected} expected"
                )

    def get(self, graph: str, lane: str, label: str, start: str = "nothing") -> Measured | None:
        return self.found.get((graph, lane, label, start))

    def ms(self, graph: str, lane: str, label: str, start: str = "nothing") -> float | None:
        """The time of a call; the limit where it was over."""
        measured = self.get(graph, lane, label, start)
        return None if measured is None else measured.ms

    def kernel_ms(self, graph: str, label: str) -> float | None:
        """The device time of a whole solve on the GPU, else the time of the call."""
        measured = self.get(graph, "gpu", label)
        return None if measured is None else measured.device_ms or measured.ms

    def fastest(
        self, graph: str, lane: str, labels: Sequence[str], start: str = "nothing"
    ) -> tuple[float, str] | None:
        """Of those that finished; if none did, the limit."""
        found = [(x, name) for name in labels if (x := self.get(graph, lane, name, start))]
        if not found:
            return None
        best, name = min(found, key=lambda pair: (pair[0].over, pair[0].ms))
        return best.ms, name

    def rows(self) -> list[dict[str, Any]]:
        keys = ("graph", "lane", "method", "start")
        return [
            dict(zip(keys, key, strict=True))
            | {k: x for k, x in measured._asdict().items() if x not in (None, False)}
            for key, measured in sorted(self.found.items())
        ]


def _base(graph: str) -> str:
    return graph.removesuffix("_rcp")


def cores_of_lanes() -> dict[str, list[list[int]]]:
    """The cores of each worker of each lane; one lane after another where they are few."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 4 + THREADS:
        return {"gpu": [cores], "one": [cores[:1]], "threads": [cores[:THREADS]]}
    free = cores[2 + THREADS :]
    return {"gpu": [cores[:2]], "one": [[c] for c in free], "threads": [cores[2 : 2 + THREADS]]}


def run_lanes(
    plan: dict[str, list[list[Job]]], store: Store, limits: Limits, cache: Path, end: float
) -> None:
    """Measures the groups of jobs of each lane, in order; a group has few graphs to load."""
    cores = cores_of_lanes()
    together = sum(len(workers) for workers in cores.values()) > len(LANES)
    count = sum(len(group) for groups in plan.values() for group in groups)
    with tqdm(total=count, desc="solves", smoothing=0) as bar:
        threads = [
            threading.Thread(
                target=_work, args=(lane, mine, queue, store, limits, cache, end, bar), daemon=True
            )
            for lane in LANES
            for queue in [deque(plan.get(lane, []))]
            for mine in cores[lane]
        ]
        for thread in threads:
            thread.start()
            if not together:
                thread.join()
        for thread in threads:
            thread.join()


def _work(
    lane: str,
    cores: list[int],
    queue: deque[list[Job]],
    store: Store,
    limits: Limits,
    cache: Path,
    end: float,
    bar: tqdm,
) -> None:
    on_gpu = lane == "gpu"
    platform, runs = ("", limits.gpu_runs) if on_gpu else ("cpu", limits.cpu_runs)
    limit = limits.gpu if on_gpu else limits.cpu
    worker = Worker(cores, platform, Bench, cache, runs)
    begin = time.perf_counter()
    while True:
        try:
            group = queue.popleft()
        except IndexError:
            break
        for job in group:
            bar.set_postfix_str(f"{lane}: {job.label} on {job.graph}", refresh=False)
            try:
                if (lane, job.kind) in store.slow:
                    store.add(lane, job, Measured(1e3 * limit, over=True))
                elif time.perf_counter() > end:
                    store.dropped.append((lane, job))
                else:
                    store.add(lane, job, worker.measure(job, limit))
            except TooLong:
                store.add(lane, job, Measured(1e3 * limit, over=True))
                store.slow.add((lane, job.kind))
            except RuntimeError as error:
                store.failures.append(f"{lane}: {job.label} on {job.graph}: {error}")
            bar.update()
    worker.close()
    store.lane_seconds[lane] = max(
        store.lane_seconds.get(lane, 0), round(time.perf_counter() - begin, 1)
    )


def geomean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Of a/b, over the pairs that were measured."""
    ratios = [a / b for a, b in pairs if a and b]
    return common.geometric_mean(ratios) if ratios else None
