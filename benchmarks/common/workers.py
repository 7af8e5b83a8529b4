"""Processes that measure solves one by one, and are replaced when one takes too long.

A native solver or a kernel cannot be stopped from outside, and some peers are exponential or never
end. Each lane of a benchmark measures in a process of its own, which its parent ends when a solve
is over the limit.
"""

from __future__ import annotations

import abc
import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple


PREPARATION_S = 180.0


@dataclass(frozen=True)
class Job:
    """An instance to solve, and a method of jaxmatch or a peer."""

    instance: str
    method: str
    options: tuple[tuple[str, Any], ...] = ()
    runs: int = 5

    start = "nothing"  # what a solve begins from

    @property
    def label(self) -> str:
        return " ".join([self.method, *(str(value) for _, value in self.options)])

    @property
    def kind(self) -> Any:
        """Jobs of one kind are not tried again once one of them took too long."""
        return self

    @property
    def problem(self) -> str:
        """Jobs with the same problem have the same value."""
        return self.instance


class Measured(NamedTuple):
    """Times in ms of a solve without building. Over the limit `ms` is the limit, the rest empty."""

    ms: float
    least: float | None = None
    greatest: float | None = None
    device_ms: float | None = None
    device_spread: float | None = None  # (greatest − least) / median
    value: Any = None
    over: bool = False
    searches: tuple[int, ...] | None = None  # of flows: relabellings to the preflow, and back
    shares: tuple[float, ...] | None = None  # of flows: of the parts of FlowBuffers.spent()


class Solver(NamedTuple):
    """Makes a problem anew; solves it (alone timed); checks the result and returns its value."""

    build: Callable[[], Any]
    solve: Callable[[Any], Any]
    value_of: Callable[[Any], Any]


# ---------------------------------------------------------------------------------------------
# In the worker: no jax before the process has its cores and its platform


class Bench(abc.ABC):
    """Runs in the process: made there once, then asked again and again. Keeps what a subclass
    loads; repeats a solve for `budget` seconds."""

    peers: Sequence[str] = ()

    def __init__(self, cache: Path, budget: float):
        self.cache, self.budget = cache, budget
        self.loaded: dict[Any, Any] = {}

    @abc.abstractmethod
    def solver(self, job: Any) -> Solver: ...

    def inside(self, job: Any) -> dict[str, Any]:
        """Counters that the kernels keep, of one more solve on a GPU."""
        return {}

    def answer(self, question: Any, report: Callable[[str], None]) -> Any:
        """A job, or "device"."""
        return self.measure(question, report) if isinstance(question, Job) else device()

    def measure(self, job: Job, report: Callable[[str], None]) -> Measured:
        """Reports twice before it returns: when prepared, and after the first run."""
        build, solve, value_of = self.solver(job)
        times: list[float] = []

        def run() -> Any:
            problem = build()
            start = time.perf_counter()
            result = solve(problem)
            times.append(1e3 * (time.perf_counter() - start))
            return result

        report("prepared")
        result = run()
        report("first")
        left = self.budget
        while len(times) <= job.runs and (left := left - times[-1] / 1e3) > 0:
            run()
        times = times[1:] or times  # the first one was warm-up
        clock: dict[str, Any] = {}
        if job.method not in self.peers:
            from benchmarks.common.timing import device_times

            if job.start == "nothing" and len(times) >= 3:
                clock = spread(device_times(lambda: solve(build()), len(times)))
            if device()[0] == "gpu":
                clock |= self.inside(job)
        value = value_of(result)
        return Measured(statistics.median(times), min(times), max(times), value=value, **clock)


def spread(times: Sequence[float] | None) -> dict[str, float]:
    """The median of device times and how far they differ, as fields of `Measured`."""
    if not times:
        return {}
    middle = statistics.median(times)
    return {"device_ms": middle, "device_spread": (max(times) - min(times)) / middle}


def device() -> tuple[str, str]:
    """JAX's default backend, and what its first device calls itself."""
    import jax

    return jax.default_backend(), jax.devices()[0].device_kind


def _serve(
    line: Connection,
    cores: Sequence[int],
    platform: str,
    make: Callable[..., Bench],
    arguments: tuple[Any, ...],
) -> None:
    os.sched_setaffinity(0, set(cores))  # before jax, which sizes its thread pool by it
    if platform:
        os.environ["JAX_PLATFORMS"] = platform
    bench = make(*arguments)
    while True:
        question = line.recv()
        try:
            line.send(bench.answer(question, line.send))
        except Exception:
            line.send(RuntimeError(traceback.format_exc()))


# ---------------------------------------------------------------------------------------------
# In the parent


class TooLong(Exception):
    """A solve took longer than its limit, and its process is gone."""


class Worker:
    """One such process on `cores`; `platform` is "cpu", or "" for JAX's default."""

    def __init__(
        self, cores: Sequence[int], platform: str, make: Callable[..., Bench], *arguments: Any
    ):
        self._how = (cores, platform, make, arguments)
        self._process = None

    def measure(self, job: Any, limit: float) -> Any:
        """Raises `TooLong`, or RuntimeError for a wrong answer or any other failure."""
        self._send(job)
        if self._receive(PREPARATION_S) is None or self._receive(limit) is None:
            raise TooLong
        measured = self._receive(PREPARATION_S)  # the other runs fit into the budget; the check
        if measured is None:
            raise TooLong
        return measured

    def ask(self, question: Any) -> Any:
        self._send(question)
        return self._receive(PREPARATION_S)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _send(self, message: Any) -> None:
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self._line, theirs = spawn.Pipe()
            self._process = spawn.Process(target=_serve, args=(theirs, *self._how), daemon=True)
            self._process.start()
            theirs.close()
        self._line.send(message)

    def _receive(self, seconds: float) -> Any:
        """None when nothing came in time: the process is ended."""
        if not self._line.poll(seconds):
            self.close()
            return None
        try:
            message = self._line.recv()
        except EOFError:
            self.close()
            raise RuntimeError("the worker died") from None
        if isinstance(message, RuntimeError):
            raise message
        return message
