"""Times of calls: by the wall clock, and by the GPU's own clock."""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np


def timed(
    call: Callable[..., Any], *args: Any, budget: float = 1.0, least: int = 5, most: int = 200
) -> tuple[Any, float]:
    """The result of a first call, and the median milliseconds of further ones until their result is
    ready: at least `least`, then up to `most` within `budget` seconds."""
    result = jax.block_until_ready(call(*args))
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < least or (time.perf_counter() < end and len(times) < most):
        start = time.perf_counter()
        jax.block_until_ready(call(*args))
        times.append(1e3 * (time.perf_counter() - start))
    return result, statistics.median(times)


def median_ms(call: Callable[..., Any], *args: Any, **limits: Any) -> float:
    """As `timed`, without the result."""
    return timed(call, *args, **limits)[1]


def in_turn(calls: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """Median seconds of each call; a slower moment of the machine meets all of them."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(times):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in spent.items()}


@contextmanager
def one_core() -> Iterator[None]:
    """Threads that begin here, as those of the native solvers do, share one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def has_device_clock() -> bool:
    """True where torch is there to ask CUPTI."""
    return jax.default_backend() == "gpu" and importlib.util.find_spec("torch") is not None


def _kernels(call: Callable[[], Any], runs: int, pause: float) -> np.ndarray:
    """Start and end of every kernel in microseconds, `[kernels, 2]`, in the order of starts."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(runs):
            jax.block_until_ready(call())
            time.sleep(pause)
    spans = [e.time_range for e in trace.events() if e.device_type == DeviceType.CUDA]
    return np.array(sorted((s.start, s.end) for s in spans))


def kernel_ms(call: Callable[[], Any], runs: int = 5) -> float | None:
    """The time of all kernels of a call, added up; None where there is no device clock."""
    if not has_device_clock():
        return None
    spans = _kernels(call, runs, 0)
    assert len(spans), "the profiler saw no kernel"
    return float((spans[:, 1] - spans[:, 0]).sum()) / runs / 1e3


def device_times(call: Callable[[], Any], runs: int) -> list[float] | None:
    """Milliseconds from the first kernel's start to the last one's end, of each of several calls.

    None where there is no device clock, or it saw too few kernels.
    """
    spans = _kernels(call, runs, 0.01) if has_device_clock() else np.empty((0, 2))
    if len(spans) < runs:
        return None
    # The pauses are the longest times without a kernel: they tell the calls apart.
    idle = spans[1:, 0] - spans[:-1, 1]
    cuts = np.sort(np.argsort(idle)[len(idle) - (runs - 1) :]) + 1
    return [float(each[:, 1].max() - each[0, 0]) / 1e3 for each in np.split(spans, cuts)]
