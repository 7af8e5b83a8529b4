"""The campaign in processes of its own: where one dies or hangs, its batch is an anomaly."""

from __future__ import annotations

import faulthandler
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from campaign.plan import Choice, kinds
from campaign.run import Tally, attempt


# A batch takes seconds at most; a program of XLA's a minute.
_HANGS = 300
_LINES = 5


def _progress(total: int, quiet: bool) -> Callable[[int, str], None]:
    """A function of the problems done, which shows them on a terminal."""
    if quiet or not sys.stderr.isatty():
        return lambda done, name: None
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
    seed: int | list[int],
    choice: Choice,
    at: Path | None = None,
    most: int = 1000,
    minutes: float = math.inf,
    quiet: bool = False,
) -> Tally:
    """Solves so many problems, or for so long; a line for each anomaly, of each batch a few.

    `at` is a file that names the batch which is being solved.
    """
    tally, done = Tally(), 0
    show = _progress(problems, quiet)
    end = time.monotonic() + 60 * minutes
    for kind in kinds(seed, choice, most):
        if done >= problems or time.monotonic() > end:
            return tally
        show(done, kind.line())
        if at is not None:
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


def work(folder: Path, part: int, problems: int, seed: int, choice: Choice, minutes: float) -> None:
    """One part, in a worker, on a core of its own: XLA would start threads for all cores."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[part % len(cores)]})
    at = folder / f"{part}.at"
    tally = campaign(problems, [seed, part], choice, at, minutes=minutes, quiet=part > 0)
    (folder / f"{part}.tally").write_bytes(pickle.dumps(tally))


def supervised(words: list[str], workers: int, problems: int) -> Tally:
    """All parts, each by a worker: a process with the arguments `words`."""
    with tempfile.TemporaryDirectory() as name:
        folder, started, total = Path(name), [], Tally()
        for part in range(workers):
            own = problems * (part + 1) // workers - problems * part // workers
            command = [sys.executable, "-m", "campaign", *words, "--problems", str(own),
                       "--part", str(part), "--folder", name]  # fmt: skip
            started.append(subprocess.Popen(command, cwd=Path(__file__).parents[1]))
        for part, process in enumerate(started):
            code = process.wait()
            if (found := folder / f"{part}.tally").exists():
                total.merge(pickle.loads(found.read_bytes()))
                continue
            at = folder / f"{part}.at"
            line = at.read_text() if at.exists() else f"# worker {part}, before its first batch"
            total.lines.append(f"{line}  # ended the process, status {code}")
            print(total.lines[-1], flush=True)
        return total
