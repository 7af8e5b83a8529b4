"""The schedule of solves: the GPU, single cores and a group of cores measure side by side."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.common.record import Row, geometric_mean, ratio
from benchmarks.common.workers import Bench, Job, Measured, TooLong, Worker


# Groups of jobs for each lane; the jobs of a group are on few instances, which are loaded once.
Plan = dict[str, list[list[Any]]]


class Limits(NamedTuple):
    """Seconds."""

    gpu: float  # for one solve
    cpu: float
    gpu_runs: float  # for repeating it
    cpu_runs: float


class Store:
    """All measurements, by instance, lane, label and start. Solvers must agree on each value."""

    def __init__(self, known: dict[str, int]) -> None:
        self.found: dict[tuple[str, str, str, str], Measured] = {}
        self.failures: list[str] = []
        self.left_out: list[str] = []
        self.slow: set[tuple[str, Any]] = set()
        self.lane_seconds: dict[str, float] = {}
        self._values = dict(known)
        self._lock = threading.Lock()

    def add(self, lane: str, job: Job, measured: Measured) -> None:
        with self._lock:
            self.found[job.instance, lane, job.label, job.start] = measured
            if measured.value is None:
                return
            expected = self._values.setdefault(job.problem, measured.value)
            if measured.value != expected:
                self.failures.append(f"{title(lane, job)}: {measured.value}, {expected} expected")

    def get(self, instance: str, lane: str, label: str, start: str = "nothing") -> Measured | None:
        return self.found.get((instance, lane, label, start))

    def ms(self, instance: str, lane: str, label: str, start: str = "nothing") -> float | None:
        """The time of a call; the limit where it was over."""
        measured = self.get(instance, lane, label, start)
        return None if measured is None else measured.ms

    def device_ms(self, instance: str, label: str) -> float | None:
        """The device time of a whole solve on the GPU, else the time of the call."""
        measured = self.get(instance, "gpu", label)
        return None if measured is None else measured.device_ms or measured.ms

    def fastest(
        self, instance: str, lane: str, labels: Sequence[str], start: str = "nothing"
    ) -> tuple[float | None, str | None]:
        """Time and label of the fastest that finished; if none did, the limit."""
        found = [(x, name) for name in labels if (x := self.get(instance, lane, name, start))]
        if not found:
            return None, None
        best, name = min(found, key=lambda pair: (pair[0].over, pair[0].ms))
        return best.ms, name

    def relative(self, instance: str, label: str, to: float | None) -> float | str | None:
        """The time on one core by another one; after ">" where the solve was stopped."""
        measured = self.get(instance, "one", label)
        by = ratio(measured and measured.ms, to)
        return f">{by:.4g}" if by and measured and measured.over else by

    def rows(self, instance: str, value: str) -> list[Row]:
        """Measurements for the record, with the benchmark's words for instances and values."""
        keys = (instance, "lane", "method", "start")
        return [
            dict(zip(keys, key, strict=True))
            | {
                {"value": value}.get(k, k): x
                for k, x in measured._asdict().items()
                if x not in (None, False)
            }
            for key, measured in sorted(self.found.items())
        ]

    def report(self) -> None:
        """Ends the program where a solve failed."""
        if self.left_out:
            print(f"{len(self.left_out)} solves were left out for time; --minutes gives more.")
        if self.failures:
            raise SystemExit("\n".join(["Failures:", *self.failures]))


def title(lane: str, job: Job) -> str:
    after = " after cheap" if job.start == "cheap" else ""
    return f"{lane}: {job.label} on {job.instance}{after}"


def chosen(plan: Plan, args: argparse.Namespace) -> Plan:
    """The jobs that `--rows` names, by `title`."""
    return {
        lane: [some for group in groups
               if (some := [job for job in group if args.rows.search(title(lane, job))])]
        for lane, groups in plan.items()
    }  # fmt: skip


def cores_of_lanes(threads: int = 0, most: int | None = None) -> dict[str, list[list[int]]]:
    """The cores of each worker: `threads` for a group, up to `most` workers of one core each.

    Where cores are few, one lane measures after another.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 4 + threads:
        lanes = {"gpu": [cores], "one": [cores[:1]]}
        return lanes | ({"threads": [cores[:threads]]} if threads else {})
    alone = [[core] for core in cores[2 + threads :][:most]]
    lanes = {"gpu": [cores[:2]], "one": alone}
    return lanes | ({"threads": [cores[2 : 2 + threads]]} if threads else {})


def run_lanes(
    plan: Plan,
    cores: dict[str, list[list[int]]],
    store: Store,
    limits: Limits,
    make: Callable[..., Bench],
    cache: Path,
    end: float,
) -> None:
    """Measures the groups of each lane in order, until the time `end`."""
    together = sum(map(len, cores.values())) > len(cores)
    count = sum(len(group) for groups in plan.values() for group in groups)
    with tqdm(total=count, desc="solves", smoothing=0) as bar:

        def work(lane: str, mine: list[int], queue: deque[list[Job]]) -> None:
            on_gpu = lane == "gpu"
            limit = limits.gpu if on_gpu else limits.cpu
            budget = limits.gpu_runs if on_gpu else limits.cpu_runs
            worker = Worker(mine, "" if on_gpu else "cpu", make, cache, budget)
            begin = time.perf_counter()
            while True:
                try:
                    group = queue.popleft()
                except IndexError:
                    break
                for job in group:
                    bar.set_postfix_str(title(lane, job), refresh=False)
                    _measure(worker, lane, job, store, limit, end)
                    bar.update()
            worker.close()
            spent = round(time.perf_counter() - begin, 1)
            store.lane_seconds[lane] = max(store.lane_seconds.get(lane, 0), spent)

        threads = [
            threading.Thread(target=work, args=(lane, mine, queue), daemon=True)
            for lane, workers in cores.items()
            for queue in [deque(plan.get(lane, []))]
            for mine in workers
        ]
        for thread in threads:
            thread.start()
            if not together:
                thread.join()
        for thread in threads:
            thread.join()


def _measure(worker: Worker, lane: str, job: Job, store: Store, limit: float, end: float) -> None:
    over = Measured(1e3 * limit, over=True)
    try:
        if (lane, job.kind) in store.slow:
            store.add(lane, job, over)
        elif time.perf_counter() > end:
            store.left_out.append(title(lane, job))
        else:
            store.add(lane, job, worker.measure(job, limit))
    except TooLong:
        store.add(lane, job, over)
        store.slow.add((lane, job.kind))
    except RuntimeError as error:
        store.failures.append(f"{title(lane, job)}: {error}")


def geomean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Of a/b, over the pairs that were measured."""
    ratios = [a / b for a, b in pairs if a and b]
    return geometric_mean(ratios) if ratios else None
