"""One row of the map: a problem on one core, by peers, and on a GPU."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import median_ms, one_core
from benchmarks.map.draws import Draw, draw


OURS = ("gpu_", "core")
MOST_OF_PEERS = 2**22 + 2**16  # numbers
_GPU = threading.Lock()


def once(call: Callable[[], Any], least: int = 3, budget: float = 1.0) -> tuple[Any, float]:
    """The result of a call and the median of its milliseconds; one run if it is long."""
    times: list[float] = []
    result = None
    while not times or (len(times) < least and sum(times) < 1e3 * budget):
        start = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - start))
    return result, float(np.median(times))


class Task(NamedTuple):
    """Problem `k` of a seed. `most`: problems with more numbers are left out."""

    seed: int
    k: int
    rows: re.Pattern[str]
    most: float
    with_peers: bool

    def draw(self) -> Draw:
        return draw(self.seed, self.k + 1)[self.k]()


class Answer(NamedTuple):
    row: Row
    values: np.ndarray
    set_gpu_time: Callable[[], None] | None = None


def on_one_core(task: Task) -> Answer | None:
    """Ours and those of peers; None if the problem is not asked for."""
    given = task.draw()
    size = sum(x.size for x in given.arrays if _is_array(x))
    if not task.rows.search(f"{given.solver} {given.what}") or size > task.most:
        return None
    row: Row = {"k": task.k, "solver": given.solver, "problem": given.what, "gpu/core": None}
    row["gpu_ms"] = None
    with one_core(), jax.default_device(jax.devices("cpu")[0]):
        given.solve(*given.arrays)  # what is prepared or compiled once
        found, row["core_ms"] = once(lambda: jax.block_until_ready(given.solve(*given.arrays)))
    values = np.asarray(getattr(found, given.value), np.float64)
    check = given.check(*given.arrays, found)
    assert np.asarray(check.valid).all(), f"{given.solver}, {given.what}: the core's answer"
    # SciPy and lapx take minutes for 4096 x 4096 points whose costs have structure.
    peers = given.peers if task.with_peers and size <= MOST_OF_PEERS else None
    for name, solve in (peers or {}).items():
        theirs, row[f"{name}_ms"] = _by_peer(given, solve)
        _compare(given, values, theirs, name)
    every = [ms for name, ms in row.items() if name.endswith("_ms") and name[:4] not in OURS]
    row["peer_ms"] = min(every, default=None)
    row["core/peer"] = ratio(row["core_ms"], row["peer_ms"])
    return Answer(row, values)


def on_the_gpu(task: Task, answer: Answer) -> Answer:
    """Solves and checks the problem. The function that is added sets the time in the row.

    Call it only when nothing else runs: a thread that draws or checks problems can hold
    up a call for tens of milliseconds.
    """
    given, row, values = task.draw(), answer.row, answer.values
    arrays = jax.device_put(given.arrays)
    with _GPU:  # XLA tries out programs on the GPU
        solve = jax.jit(given.solve).lower(*arrays).compile()
    other = jax.tree.map(np.asarray, solve(*arrays))
    _compare(given, values, np.asarray(getattr(other, given.value), np.float64), "a GPU")
    check = given.check(*given.arrays, other)
    assert np.asarray(check.valid).all(), f"{given.solver}, {given.what}: the GPU's answer"

    def set_time() -> None:
        row["gpu_ms"] = median_ms(solve, *arrays, least=3)
        row["gpu/core"] = ratio(row["gpu_ms"], row["core_ms"])

    return answer._replace(set_gpu_time=set_time)


def answers(tasks: list[Task], workers: int) -> Iterator[Answer | None]:
    """Those of one core, as they come. Workers have a core each."""
    if workers == 1:
        yield from map(on_one_core, tasks)
        return
    os.environ["JAX_PLATFORMS"] = "cpu"  # read by the workers, when they import JAX
    spawn = multiprocessing.get_context("spawn")
    cores = spawn.Queue()
    for core in sorted(os.sched_getaffinity(0))[-workers:]:
        cores.put(core)
    with ProcessPoolExecutor(workers, spawn, _take_a_core, (cores,)) as pool:
        for done in as_completed([pool.submit(on_one_core, task) for task in tasks]):
            yield done.result()


def with_gpu(tasks: list[Task], workers: int) -> Iterator[Answer | None]:
    """As `answers`, confirmed by the GPU. Its times are missing: call `set_gpu_time` afterwards."""
    threads, most_waiting = 3, 8

    def complete(answer: Answer | None) -> Answer | None:
        return answer and on_the_gpu(tasks[answer.row["k"]], answer)

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Answer | None]] = deque()
        for answer in answers(tasks, workers):
            waiting.append(pool.submit(complete, answer))
            while waiting and (len(waiting) > most_waiting or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _take_a_core(cores: Any) -> None:
    os.sched_setaffinity(0, {cores.get()})


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
