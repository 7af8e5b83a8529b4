"""Times of two runs of the same benchmarks: has a change made anything slower or faster?

    python -m benchmarks.compare BEFORE AFTER [--mean PERCENT] [--row PERCENT]

BEFORE and AFTER are two JSON files, or two folders whose files of the same name are compared. Every
time of ours that both have is a row; peers, set-up and derived tables are left out. A solve over
the limit counts with the limit. The exit code is 1 where the geometric mean of the ratios is off 1
by more than 2 %, or a row by more than 5 %, to either side.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from benchmarks.common.record import print_table


# Fields that tell a row from the others of its part.
NAMES = (
    "graph instance lane method start form layout rule matcher data gradient dtype costs shape n m "
    "batch devices graphs problems samples side strength step step_by_mean_cost"
).split()
TIME = re.compile(r"ms|us|seconds|.*_(ms|us|s|seconds)|us_per_gradient|jonker_volgenant|core")
PEERS = re.compile(r"scipy|optax|lapjv|triton|callback|igraph|btf|ortools|pymaxflow|given")
NOT_A_SOLVE = re.compile(r"(nothing|published|compile|prepare)_.*")


class Time(NamedTuple):
    benchmark: str
    row: str
    time: str


def times_of(path: Path) -> dict[Time, float]:
    """All times of ours in a result file, by benchmark, row and field."""
    content = json.loads(path.read_text())
    # Tables repeat measurements, where a file has these.
    if "measurements" in content:
        content = {part: content.get(part, []) for part in ("measurements", "batch")}
    elif "rows" in content:
        content = {"rows": content["rows"]}
    found: dict[Time, float] = {}
    for part, rows in content.items():
        for row in rows if isinstance(rows, list) else [rows]:
            if not isinstance(row, dict):
                continue
            names = [f"{row[name]}" for name in NAMES if row.get(name) not in (None, "")]
            if any(PEERS.search(name) for name in names):
                continue
            for field, value in _times_of_row(row):
                found[Time(path.stem, " ".join([part, *names]), field)] = value
    return found


def _times_of_row(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for field, value in row.items():
        is_time = TIME.fullmatch(field) and not NOT_A_SOLVE.fullmatch(field)
        if is_time and not PEERS.search(field) and isinstance(value, int | float) and value > 0:
            yield field, value


def pairs_of_files(before: Path, after: Path) -> list[tuple[Path, Path]]:
    if before.is_file() and after.is_file():
        return [(before, after)]
    if not (before.is_dir() and after.is_dir()):
        raise SystemExit(f"{before} and {after} must be two files or two folders.")
    return [(x, after / x.name) for x in sorted(before.glob("*.json")) if (after / x.name).exists()]


def off(ratio: float) -> float:
    """By how much more the larger is than the smaller, in percent."""
    return 100 * (max(ratio, 1 / ratio) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--mean", type=float, default=2, metavar="PERCENT", help="default 2")
    parser.add_argument("--row", type=float, default=5, metavar="PERCENT", help="default 5")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    only_before = 0
    for before, after in pairs_of_files(args.before, args.after):
        old, new = times_of(before), times_of(after)
        only_before += len(old.keys() - new.keys())
        for time in (time for time in old if time in new):
            values = {"before": old[time], "after": new[time], "ratio": new[time] / old[time]}
            rows.append(time._asdict() | values)
    if not rows:
        raise SystemExit(f"{args.before} and {args.after} have no time in common.")
    print_table("Times, and after / before", rows)
    mean = geometric_mean(row["ratio"] for row in rows)
    worst = max(rows, key=lambda row: off(row["ratio"]))
    print(f"\n{len(rows)} times, geometric mean of after / before: {mean:.4f}")
    print(f"worst: {worst['ratio']:.4f}, {worst['benchmark']}: {worst['row']} {worst['time']}")
    if only_before:
        print(f"{only_before} times are in {args.before} alone.")
    sys.exit(off(mean) > args.mean or off(worst["ratio"]) > args.row)


if __name__ == "__main__":
    main()
