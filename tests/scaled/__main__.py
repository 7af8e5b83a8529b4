"""`python -m scaled`, in `tests`: the table of all sweeps; or of the solvers of a pattern."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time

from command_line import at_least, matching_names

from scaled.solvers import SOLVERS
from scaled.sweep import HEAD, Judge, sweep


_LINES = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scaled", description=__doc__)
    parser.add_argument("--solver", default="*", help=f"a pattern of {', '.join(SOLVERS)}")
    parser.add_argument("--dtype", default="*")
    parser.add_argument("--step", type=at_least(1), default=1, help="only every so many powers")
    given = parser.parse_args()
    names = matching_names(parser, "--solver", given.solver, SOLVERS)
    chosen = [
        (name, x) for name in names for x in fnmatch.filter(SOLVERS[name].dtypes, given.dtype)
    ]
    if not chosen:
        parser.error(f"no --dtype of these solvers matches {given.dtype!r}")
    judges: dict[str, Judge] = {}
    print(HEAD, flush=True)
    wrong, start = 0, time.monotonic()
    for name, dtype in chosen:
        row = sweep(name, dtype, judges, given.step)
        print(row, flush=True)
        for line in row.wrong[:_LINES]:
            print(f"    {line}", flush=True)
        wrong += len(row.wrong)
    print(f"{wrong} wrong, {time.monotonic() - start:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
