"""`python -m campaign --problems 100000`, in `tests`; or one batch, as an anomaly's line says."""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import fnmatch
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np


# Before JAX starts: batches are also divided over four CPU devices.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=4".strip()

from campaign.families import FAMILIES  # noqa: E402
from campaign.run import Kind, Tally, attempt, kinds  # noqa: E402
from campaign.solvers import SOLVERS  # noqa: E402


# A batch takes seconds at most; a program of XLA's a minute.
_HANGS = 300
_LINES = 5


def _progress(total: int) -> Callable[[int, str], None]:
    """A function of the problems done, which shows them."""
    try:
        from tqdm import tqdm
    except ImportError:
        last = [time.monotonic()]

        def show(done: int, name: str) -> None:
            if time.monotonic() - last[0] >= 1:
                last[0] = time.monotonic()
                print(f"{done} of {total} problems, {name}", file=sys.stderr)

        return show
    bar = tqdm(total=total, unit="problem", mininterval=1)

    def show(done: int, name: str) -> None:
        bar.set_postfix_str(name, refresh=False)
        bar.update(done - bar.n)

    return show


def campaign(
    problems: int,
    seed: int,
    names: list[str],
    at: Path | None = None,
    most: int = 1000,
    minutes: float = math.inf,
) -> Tally:
    """Solves so many problems, or for so long; a line for each anomaly, of each batch a few."""
    tally, done, show = Tally(), 0, _progress(problems)
    end = time.monotonic() + 60 * minutes
    for kind in kinds(seed, names, most):
        if done >= problems or time.monotonic() > end:
            return tally
        show(done, kind.line())
        if at is not None:  # for who finds that the process has died
            at.write_text(kind.line())
            faulthandler.dump_traceback_later(_HANGS, exit=True)
        batch, res, wrong = attempt(kind)
        faulthandler.cancel_dump_traceback_later()
        lines = tally.add(kind, batch, res, wrong)
        done += max(batch.count, 1)
        for line in lines[:_LINES]:
            print(line, flush=True)
        if len(lines) > _LINES:
            print(f"# and {len(lines) - _LINES} more of this batch", flush=True)
    return tally


def supervised(words: list[str]) -> int:
    """The campaign in a process of its own: where it dies or hangs, the batch is an anomaly."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "at"
        at.write_text("before the first batch")
        command = [sys.executable, "-m", "campaign", *words, "--at", str(at)]
        code = subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode
        if at.read_text():
            print(f"{at.read_text()}  # ended the process, status {code}")
            return 1
        return code


def again(kind: Kind, problem: int | None) -> int:
    """One batch, and the problem of it, with its numbers, also alone."""
    batch, res, wrong = attempt(kind)
    for k, reason in sorted(wrong.items()):
        if problem in (None, k):
            print(f"problem {k}: {reason}")
    if problem is not None and problem < batch.count:
        np.set_printoptions(precision=17)
        print(batch.options, "x64" if batch.wide else "")
        for name, x in (batch.arrays | batch.known).items():
            print(f"{name} = {x[problem].tolist()}")
        for name, x in vars(res).items() if res is not None else ():
            print(f"result.{name} = {x[problem].tolist()}")
    return int(bool(wrong))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most")
    parser.add_argument("--seed", type=int, help="today's date, if left out")
    parser.add_argument("--solver", default="*", help=f"one, or a pattern: {', '.join(SOLVERS)}")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--dtype")
    parser.add_argument("--size", type=int)
    parser.add_argument("--problem", type=int)
    parser.add_argument("--at", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    faulthandler.enable()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    if given.family is not None:
        size = given.size or SOLVERS[given.solver].size
        kind = Kind(given.solver, given.family, given.dtype, given.seed, size)
        return again(kind, given.problem)
    seed = int(f"{datetime.date.today():%Y%m%d}") if given.seed is None else given.seed
    if given.at is None:
        return supervised([*sys.argv[1:], "--seed", str(seed)])
    names = [name for name in SOLVERS if fnmatch.fnmatch(name, given.solver)]
    print(f"seed {seed}, {given.problems} problems, {len(names)} solvers", flush=True)
    start = time.monotonic()
    tally = campaign(given.problems, seed, names, given.at, minutes=given.minutes)
    print(tally.table())
    minutes = (time.monotonic() - start) / 60
    print(f"{sum(tally.problems.values()) / minutes:.0f} problems a minute", flush=True)
    given.at.write_text("")
    return int(any(tally.anomalies.values()))


if __name__ == "__main__":
    sys.exit(main())
