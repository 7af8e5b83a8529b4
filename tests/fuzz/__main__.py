"""`python -m fuzz --calls 10000`, in `tests`; or one call again, as the last line says.

Valid calls of each handler are mutated: what XLA could pass in principle, and more. A handler must
return an error, or fill its results; it must not crash, nor take for ever. Worth most with a
library that has sanitizers, see CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from command_line import at_least, seed_of_the_day

from fuzz.calls import Call, run, stored
from fuzz.mutate import mutated


_HANGS = 60  # seconds, of a call that takes a millisecond


def drawn(seed: int, number: int, target: str) -> Call:
    rng = np.random.default_rng([seed, number])
    calls = [x for x in stored() if target in ("", x.target)]
    names = sorted({x.target for x in calls})
    name = names[rng.integers(len(names))]
    of_target = [x for x in calls if x.target == name]
    return mutated(of_target[rng.integers(len(of_target))], rng)


def fuzz(seed: int, numbers: range, target: str, at: Path | None = None) -> None:
    """Makes the calls, and counts those that end with an error."""
    ends: collections.Counter[tuple[str, str]] = collections.Counter()
    for number in numbers:
        call = drawn(seed, number, target)
        if at is not None:  # for who finds that the process has died
            words = f"python -m fuzz --seed {seed} --call {number}"
            at.write_text(words + (f" --target {target}" if target else ""))
        faulthandler.dump_traceback_later(_HANGS, exit=True)
        code, message = run(call)
        faulthandler.cancel_dump_traceback_later()
        ends[call.target, "error" if code else "run"] += 1
        if len(numbers) == 1:
            print(call.types(), f"error {code}: {message}" if code else "no error", sep="\n")
    for name in sorted({name for name, _ in ends}):
        print(f"{name:32} {ends[name, 'run']:6} run, {ends[name, 'error']:6} errors")


def supervised(words: list[str]) -> int:
    """In a process of its own: where it dies or hangs, the call is a finding."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "at"
        command = [sys.executable, "-m", "fuzz", *words, "--at", str(at)]
        code = subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode
        if code and at.exists():
            print(f"{at.read_text()}  # ended the process, status {code}")
        return int(code != 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--calls", type=at_least(0), default=10_000)
    parser.add_argument("--seed", type=at_least(0), help="today's date, if left out")
    parser.add_argument("--target", choices=sorted({x.target for x in stored()}), default="",
                        help="of this handler only")  # fmt: skip
    parser.add_argument("--call", type=at_least(0), help="this one alone")
    parser.add_argument("--at", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    faulthandler.enable()
    seed = seed_of_the_day() if given.seed is None else given.seed
    if given.at is None and given.call is None:
        print(f"seed {seed}, {given.calls} calls", flush=True)
        return supervised([*sys.argv[1:], "--seed", str(seed)])
    numbers = range(given.calls) if given.call is None else range(given.call, given.call + 1)
    fuzz(seed, numbers, given.target, given.at)
    return 0


if __name__ == "__main__":
    sys.exit(main())
