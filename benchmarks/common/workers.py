"""Processes that measure solves one by one, and are replaced when one takes too long.

A native solver or a kernel cannot be stopped from outside, and some peers are exponential or never
end: each lane of a benchmark measures in a process of its own, that its parent ends when a solve is
over the limit.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np


PREPARATION_S = 180.0


class Bench(Protocol):
    """What runs in the process: made there once, then asked again and again."""

    def answer(self, question: Any, report: Callable[[Any], None]) -> Any:
        """A measurement reports twice before it returns: when prepared, and after the first run."""
        ...


# ---------------------------------------------------------------------------------------------
# In the worker


def device_times(call: Callable[[], Any], runs: int) -> list[float] | None:
    """From the first kernel's start to the last one's end, of each of several calls.

    By the GPU's own clock, in ms; None where there is no torch, GPU or profiler to ask.
    """
    import jax

    if jax.default_backend() != "gpu" or importlib.util.find_spec("torch") is None:
        return None
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(runs):
            jax.block_until_ready(call())
            time.sleep(0.01)
    spans = [e.time_range for e in trace.events() if e.device_type == DeviceType.CUDA]
    spans = sorted((s.start, s.end) for s in spans)
    if len(spans) < runs:
        return None
    # The pauses are the longest times without a kernel: they tell the calls apart.
    idle = np.array([after[0] - before[1] for before, after in zip(spans, spans[1:])])  # noqa: B905
    cuts = np.sort(np.argsort(idle)[len(idle) - (runs - 1) :]) + 1
    calls = np.split(np.array(spans), cuts)
    return [float(call[:, 1].max() - call[0, 0]) / 1e3 for call in calls]


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
    """One such process: `cores` are the ones it may use, `platform` "cpu" or "" for JAX's own."""

    def __init__(
        self, cores: Sequence[int], platform: str, make: Callable[..., Bench], *arguments: Any
    ):
        self._how = (cores, platform, make, arguments)
        self._process = None

    def measure(self, job: Any, limit: float) -> Any:
        """Raises `TooLong`, or RuntimeError for a wrong answer or whatever else went wrong."""
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
