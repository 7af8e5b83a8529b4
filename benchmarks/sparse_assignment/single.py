"""Single problems: on one core beside peers, and on a GPU beside one core."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from benchmarks.common import cache
from benchmarks.common.record import Row
from benchmarks.common.workers import Measured, TooLong, Worker
from benchmarks.sparse_assignment import peers, problems
from benchmarks.sparse_assignment.problems import Spec
from benchmarks.sparse_assignment.workers import Bench, Job


LEAST_ON_GPU = 10**4
LEAST_EDGES, LEAST_EDGES_ON_GPU = 10_000, 100_000  # of graphs of files
# Relative differences of values: in float64; in float32, and where or-tools rounds costs.
EXACT, ROUNDED = 1e-9, 1e-6
SIDE_BY_SIDE = 4  # solves on cores of the host of a GPU
OURS = 10  # times the limit of peers: how long a solve of ours may take beside them
BUDGET_S, QUICK_BUDGET_S = 0.5, 0.05  # to repeat a solve


class Setting(NamedTuple):
    """What a run may do: where it keeps problems, which rows, how large, until when."""

    folder: Path
    end: float
    limit: float  # seconds of a solve
    most: int  # points of a side
    quick: bool
    peers: bool
    rows: Any  # a regular expression

    @property
    def budget(self) -> float:
        return QUICK_BUDGET_S if self.quick else BUDGET_S

    def is_over(self) -> bool:
        return time.perf_counter() > self.end


class Lane:
    """A process on some cores that measures. A method that took too long tries no larger problem of
    that family and form. What goes wrong is noted in `failures`."""

    def __init__(
        self, cores: list[int], platform: str, setting: Setting, failures: list[str], *, wide: bool
    ):
        self.setting, self.failures = setting, failures
        arguments = (setting.folder, setting.budget, wide)
        self.worker = Worker(cores, platform, Bench, *arguments)
        self.slow: set[tuple[str, str, str]] = set()

    def measure(self, spec: Spec, method: str, *, times: int = 1) -> Measured | None:
        """Up to `times` the limit."""
        kind, limit = (method, spec.family, spec.form), times * self.setting.limit
        if kind in self.slow:
            return None
        try:
            return self.worker.measure(Job(spec.name, method), limit)
        except TooLong:
            self.slow.add(kind)
            return Measured(1e3 * limit, over=True)
        except RuntimeError as error:
            self.failures.append(f"{method} on {spec.name}: {error}")
            return None

    def compare(self, spec: Spec, found: dict[str, Measured | None], tolerance: float) -> None:
        """All that were measured must have the value of the first; integers to the last digit."""
        values = {name: x.value.value for name, x in found.items() if x and x.value}
        first = next(iter(values.values()), 0)
        for name, value in values.items():
            whole = isinstance(value, int) and isinstance(first, int)
            if abs(value - first) > (0 if whole else tolerance * abs(first)):
                self.failures.append(f"{name} on {spec.name}: {value}, {first} expected")


def facts(spec: Spec, folder: Path) -> Row:
    n, m, edges = (int(x) for x in cache.load(folder, spec.name)["size"])
    return {"graph": spec.family, "form": spec.form, "n": n, "m": m, "edges": edges}


def relative(other: Measured | None, ours: Measured | None) -> float | str | None:
    """The time of another one by ours; after ">" where the other was ended, "<" where ours was."""
    if other is None or ours is None or (ours.over and other.over):
        return None
    by = other.ms / ours.ms
    return f">{by:.4g}" if other.over else f"<{by:.4g}" if ours.over else by


def chosen(setting: Setting, least: int, least_edges: int) -> list[Spec]:
    """Made, with their problems in the folder."""
    most = min(setting.most, problems.SIZES[0]) if setting.quick else setting.most
    least = problems.SIZES[0] if setting.quick else least
    specs = problems.specs(least, most, least_edges)
    specs = [s for s in specs if setting.rows.search(s.name) and not (setting.quick and not s.n)]
    problems.make_all(specs, setting.folder)
    return specs


# ---------------------------------------------------------------------------------------------
# On one core


def cpu_rows(setting: Setting, failures: list[str]) -> Iterator[Row]:
    """Ratios alone: times on a CPU mean little elsewhere."""
    specs = chosen(setting, problems.SIZES[0], LEAST_EDGES)
    lane = Lane(one_core(), "cpu", setting, failures, wide=True)
    for spec in specs:
        if setting.is_over():
            break
        yield from _on_one_core(lane, spec)
    lane.worker.close()


def one_core() -> list[int]:
    return sorted(os.sched_getaffinity(0))[-1:]


def cores_beside_a_gpu() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:2]


def spare_cores() -> list[int]:
    """Beside those of a GPU; none where they are few."""
    others = sorted(os.sched_getaffinity(0))[2:]
    return others[:SIDE_BY_SIDE] if len(others) >= SIDE_BY_SIDE else []


def _on_one_core(lane: Lane, spec: Spec) -> Iterator[Row]:
    about, names = facts(spec, lane.setting.folder), peers.found() if lane.setting.peers else []
    found = {"ours": lane.measure(spec, "ours", times=OURS)}
    if spec.form in problems.FULL and names:
        found["drop-in"] = lane.measure(spec, "drop-in", times=OURS)
    for name in names:
        if peers.takes(name, spec.form, about["n"], about["m"], about["edges"]):
            found[name] = lane.measure(spec, name)
    lane.compare(spec, {name: x for name, x in found.items() if name != "ortools"}, EXACT)
    lane.compare(spec, {name: found.get(name) for name in ("ours", "ortools")}, ROUNDED)
    ours = found["ours"]
    row: Row = {f"{name}/ours": relative(found.get(name), ours) for name in names}
    row["scipy/drop-in"] = relative(found.get("scipy"), found.get("drop-in"))
    yield about | row
    if spec.family == "cells" and names:
        yield about | {"graph": "cells, from points"} | _from_points(lane, spec, ours)


def _from_points(lane: Lane, spec: Spec, on_edges: Measured | None) -> Row:
    """With the time to find pairs within the gate."""
    found = {name: lane.measure(spec, name) for name in ("from points", "scipy from points")}
    lane.compare(spec, {"ours": on_edges, **found}, EXACT)
    return {"scipy/ours": relative(found["scipy from points"], found["from points"])}


# ---------------------------------------------------------------------------------------------
# On a GPU


def gpu_rows(setting: Setting, failures: list[str]) -> Iterator[Row]:
    """Milliseconds of the GPU and of our own method on one core of its host, both in float32."""
    specs = chosen(setting, LEAST_ON_GPU, LEAST_EDGES_ON_GPU)
    on_gpu = Lane(cores_beside_a_gpu(), "", setting, failures, wide=False)
    with Cores(setting, failures) as cores:
        waiting = {spec: cores.measure(spec) for spec in specs} if cores.are_free else {}
        for spec in specs:
            if setting.is_over():
                break
            cpu = waiting[spec].result() if spec in waiting else cores.measure(spec).result()
            found = {"GPU": on_gpu.measure(spec, "ours"), "one core": cpu}
            on_gpu.compare(spec, found, ROUNDED)
            yield facts(spec, setting.folder) | _gpu_row(found["GPU"], cpu)
    on_gpu.worker.close()


class Cores:
    """Single cores on which our own method runs, a few side by side where there are enough."""

    def __init__(self, setting: Setting, failures: list[str]):
        spare = spare_cores()
        self.are_free = bool(spare)
        every = [[core] for core in spare] or [one_core()]
        self._lanes = [Lane(cores, "cpu", setting, failures, wide=False) for cores in every]
        self._setting, self._idle = setting, SimpleQueue()
        for lane in self._lanes:
            lane.slow = self._lanes[0].slow
            self._idle.put(lane)
        self._pool = ThreadPoolExecutor(len(every))

    def __enter__(self) -> Cores:
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)
        for lane in self._lanes:
            lane.worker.close()

    def measure(self, spec: Spec) -> Future[Measured | None]:
        return self._pool.submit(self._measure, spec)

    def _measure(self, spec: Spec) -> Measured | None:
        lane = self._idle.get()
        try:
            return None if self._setting.is_over() else lane.measure(spec, "ours")
        finally:
            self._idle.put(lane)


def _gpu_row(gpu: Measured | None, cpu: Measured | None) -> Row:
    row: Row = {name: None for name in ("call_ms", "device_ms", "cpu_ms", "cpu/gpu", "gap")}
    if gpu is not None:
        row |= {"call_ms": None if gpu.over else gpu.ms, "device_ms": gpu.device_ms}
        row["gap"] = gpu.value.gap if gpu.value else None
    if cpu is not None:
        row |= {"cpu_ms": None if cpu.over else cpu.ms, "cpu/gpu": relative(cpu, gpu)}
    return row
