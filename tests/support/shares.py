"""`--share 8`: quick tests, and of the slow ones an eighth, another one each day.

What every solver promises (`tests/conformance`) is proved by every share.

`tests/seconds.txt` names the functions that take long, with the seconds of all their cases on one
core. `--write-seconds FILE` writes such a file. The cases of the longest functions are in several
shares; those of others share what they compile, and stay together.
"""

from __future__ import annotations

import collections
import datetime
from pathlib import Path

import pytest


SECONDS = Path(__file__).parents[1] / "seconds.txt"
_LEAST = 1.0  # seconds of a slow function
_MOST = 60.0  # of a function whose cases stay together
_ALWAYS = "tests/conformance/"


def function_of(nodeid: str) -> str:
    """The name of a test without its parameters."""
    return nodeid.partition("[")[0]


def shares(seconds: dict[str, float], count: int) -> dict[str, int]:
    """The share of each name, from 1: the slowest first, each to the least share so far."""
    total, found = [0.0] * count, {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        least = total.index(min(total))
        total[least] += seconds[name]
        found[name] = least + 1
    return found


def divided(seconds: dict[str, float], items: list[pytest.Item]) -> dict[str, float]:
    """The seconds of functions, or of each case of a long one, as if its cases were alike."""
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("gpu") is None:
            cases[function_of(item.nodeid)].append(item.nodeid)
    found = {}
    for function, total in seconds.items():
        names = cases[function] if total > _MOST and cases[function] else [function]
        found |= dict.fromkeys(names, total / len(names))
    return found


def read_seconds() -> dict[str, float]:
    lines = (line.split() for line in SECONDS.read_text().splitlines())
    return {name: float(seconds) for seconds, name in lines if not name.startswith(_ALWAYS)}


def parse(words: str) -> tuple[int, int]:
    """`3/8`, or `8` for the share of today; 1 of 1 is everything."""
    which, _, count = words.rpartition("/")
    most = int(count)
    chosen = int(which) if which else datetime.date.today().toordinal() % most + 1
    if not 1 <= chosen <= most:
        raise pytest.UsageError(f"--share must be N or K/N with 1 <= K <= N, got {words}")
    return chosen, most


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the slow tests of other shares."""
    chosen, count = parse(config.getoption("--share"))
    if count == 1:
        return
    place = shares(divided(read_seconds(), items), count)
    kept, left = [], []
    for item in items:
        mine = place.get(item.nodeid, place.get(function_of(item.nodeid), chosen)) == chosen
        (kept if mine else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


class Recorder:
    """Adds up the seconds of each function, and writes those of slow ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: collections.Counter[str] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[function_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = sorted(name for name, x in self.seconds.items() if x >= _LEAST)
        lines = [f"{self.seconds[name]:7.1f} {name}\n" for name in slow]
        self.path.write_text("".join(lines))
