"""Reports of benchmarks: the machine and versions, tables, JSON files."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


RESULTS = Path(__file__).parents[1] / "results"
Row = dict[str, Any]


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


def gpu() -> dict[str, str]:
    """Name and driver of the first NVIDIA GPU."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.check_output(query, text=True).splitlines()[0].split(", ")
    return {"gpu": name, "driver": driver}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def print_table(title: str, rows: Sequence[Row], hidden: Sequence[str] = ()) -> None:
    """Rows as aligned columns, without those that are `hidden`; None and what a row lacks are
    blank."""
    if not rows:
        return
    print(f"\n{title}")
    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in hidden]
    text = [[_text(row.get(key)) for key in keys] for row in rows]
    widths = [max(len(k), *(len(r[c]) for r in text)) for c, k in enumerate(keys)]
    for line in (keys, *text):
        print("  ".join(x.rjust(w) for x, w in zip(line, widths, strict=True)))


class Table:
    """Prints rows as they come, under a head that is printed again where other columns come."""

    def __init__(self, title: str):
        self._title, self._widths = title, {}

    def add(self, row: Row) -> None:
        text = {key: _text(x) for key, x in row.items()}
        if not text.keys() <= self._widths.keys():
            print(f"\n{self._title}")
            least = {key: 24 if isinstance(x, str) else 8 for key, x in row.items()}
            self._widths = {key: max(len(key), len(x), least[key]) for key, x in text.items()}
            print("  ".join(key.rjust(width) for key, width in self._widths.items()))
        cells = (text.get(key, "").rjust(width) for key, width in self._widths.items())
        print("  ".join(cells), flush=True)


def _text(x: Any) -> str:
    return "" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x)


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def ratio(a: float | None, b: float | None) -> float | None:
    """`a / b`, None where one of them is not known."""
    return a / b if a and b else None


def write_json(folder: Path, name: str, content: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
