"""The options that benchmarks share: which rows, with or without peers, where results go."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.record import RESULTS


def parser(doc: str | None, quick: str = "", *, selects: bool = False) -> argparse.ArgumentParser:
    """Takes `--out`; with a help text `quick`, `--quick`; with `selects`, a choice of rows."""
    lines = (doc or "").splitlines()
    command = lines[2].split()[:3]  # python -m benchmarks...
    made = argparse.ArgumentParser(" ".join(command), description=lines[0])
    made.add_argument("--out", type=Path, metavar="FOLDER", help="for results and figures")
    made.set_defaults(quick=False, rows=re.compile(""), peers=True)
    if quick:
        made.add_argument("--quick", action="store_true", help=quick)
    if selects:
        pattern = "only rows whose name has this regular expression"
        made.add_argument("--rows", type=re.compile, metavar="PATTERN", help=pattern)
        made.add_argument(
            "--no-peers", dest="peers", action="store_false", help="jaxmatch alone is measured"
        )
    return made


def add_parts(parser: argparse.ArgumentParser, every: Sequence[str]) -> None:
    """Names of parts of a benchmark, as `args.parts`; all of them where none is given."""

    def part(name: str) -> str:
        if name not in every:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(every)}")
        return name

    # Not `choices`, which some Pythons hold against the list of a call that names none.
    parser.add_argument("parts", nargs="*", type=part, default=[*every], metavar="PART")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """`args.complete` tells that no row or peer is left out: there are figures only then.

    Results of a quick or incomplete run go to `results/quick`, unless `--out` names a folder.
    """
    args = parser.parse_args()
    args.complete = args.peers and not args.rows.pattern
    whole = args.complete and not args.quick
    args.out = args.out or (RESULTS if whole else RESULTS / "quick")
    return args
