"""What every benchmark shares: timing, the record of machine and versions, tables, JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


RESULTS = Path(__file__).parents[1] / "results"


def add_parts(parser: argparse.ArgumentParser, every: Sequence[str]) -> None:
    """Names of parts of a benchmark, as `args.parts`; all of them where none is given."""

    def part(name: str) -> str:
        if name not in every:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(every)}")
        return name

    # Not `choices`, which some Pythons hold against the list of a call that names none.
    parser.add_argument("parts", nargs="*", type=part, default=[*every], metavar="PART")


def pin_to_cores(count: int) -> None:
    """Leaves this process `count` cores. XLA sizes its thread pool by them: call before jax."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < count:
        raise SystemExit(f"This benchmark needs {count} cores, this process has {len(cores)}.")
    os.sched_setaffinity(0, set(cores[:count]))


def median_seconds(
    call: Callable[..., Any], *args: Any, budget: float = 1.0, most: int = 200
) -> float:
    """Median wall time of `call(*args)` until its result is ready."""
    import jax  # not above: it must not start before pin_to_cores()

    jax.block_until_ready(call(*args))
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < 5 or (time.perf_counter() < end and len(times) < most):
        start = time.perf_counter()
        jax.block_until_ready(call(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def uniform_integers(n: int, m: int, greatest: int, seed: int, batch: int = 1) -> np.ndarray:
    """Integer costs uniform on [0, greatest], a pure function of seed and index (splitmix64).

    The ranges n/10, n and 10n are those of Date and Nagi 2016, Table 3.
    """
    size = max(n, m)
    index = np.arange(batch * size * size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = index + np.uint64(seed * 0xD1342543DE82EF95 % 2**64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        cost = ((z >> np.uint64(32)) * np.uint64(greatest + 1)) >> np.uint64(32)
    square = cost.astype(np.int64).reshape(batch, size, size)
    return np.ascontiguousarray(square[:, :n, :m])


def environment(packages: Sequence[str]) -> dict[str, Any]:
    """Machine, commit and the versions of those packages that are installed."""
    cpu = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), cpu)
    git = ["git", "-C", str(Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    dirty = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {p: v for p in packages if (v := _version(p))},
        "commit": commit.stdout.strip() + ("+changes" if dirty.stdout.strip() else ""),
        "date": time.strftime("%Y-%m-%d"),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Rows with the same keys, as aligned columns."""
    print(f"\n{title}")
    keys = list(rows[0])
    text = [[_text(row[k]) for k in keys] for row in rows]
    widths = [max(len(k), *(len(r[c]) for r in text)) for c, k in enumerate(keys)]
    print("  ".join(k.rjust(w) for k, w in zip(keys, widths, strict=True)))
    for r in text:
        print("  ".join(x.rjust(w) for x, w in zip(r, widths, strict=True)))


def _text(x: Any) -> str:
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def write_json(name: str, content: dict[str, Any]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
