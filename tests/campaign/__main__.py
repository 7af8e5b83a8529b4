"""`python -m campaign --problems 100000`, in `tests`; or one batch, as an anomaly's line says.

`--size` or `--problem` stand for one batch, which `--solver`, `--family`, `--dtype` and `--seed`
name. Else `--solver`, `--family` and `--dtype` are a choice of what is drawn.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np


# Before JAX starts its backends: batches are also divided over four CPU devices.
_DEVICES = "--xla_force_host_platform_device_count"
if _DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=4".strip()

from command_line import at_least, matching_names, seed_of_the_day  # noqa: E402

from campaign.families import FAMILIES, FLOATS, INTEGERS  # noqa: E402
from campaign.plan import Kind, choose  # noqa: E402
from campaign.run import attempt  # noqa: E402
from campaign.solvers import SOLVERS  # noqa: E402
from campaign.workers import supervised, work  # noqa: E402


def again(kind: Kind, problem: int | None) -> int:
    """One batch, and the problem of it, with its numbers, also alone."""
    batch, res, wrong = attempt(kind)
    for k, reason in sorted(wrong.items()):
        if problem in (None, k):
            print(f"problem {k}: {reason}")
    if problem is not None and problem >= batch.count:
        print(f"problem {problem} is not of this batch, which has {batch.count}")
        return 2
    if problem is not None:
        np.set_printoptions(precision=17)
        print(batch.options, "x64" if batch.wide else "")
        for name, x in (batch.arrays | batch.known).items():
            print(f"{name} = {x[problem].tolist()}")
        for path, x in jax.tree_util.tree_leaves_with_path(res):
            print(f"result{jax.tree_util.keystr(path)} = {x[problem].tolist()}")
    return int(bool(wrong))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--problems", type=at_least(0), default=100_000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most")
    parser.add_argument("--seed", type=at_least(0), help="today's date, if left out")
    parser.add_argument("--solver", default="*", help=f"one, or a pattern: {', '.join(SOLVERS)}")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--dtype", default="*", help="one, or a pattern such as 'int*'")
    parser.add_argument("--size", type=at_least(1), help="problems of the one batch")
    parser.add_argument("--problem", type=at_least(0), help="show this one of the batch")
    parser.add_argument("--workers", type=at_least(1), default=1, help="processes that share it")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a worker
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    return parser


def one_batch(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Kind | None:
    """The batch that a line names, if it does."""
    if given.size is None and given.problem is None:
        return None
    known = given.solver in SOLVERS and given.dtype in (*FLOATS, *INTEGERS)
    if not known or None in (given.family, given.seed):
        parser.error("--size and --problem stand for one batch: they need --solver, --family, "
                     "--dtype and --seed, each one name or number")  # fmt: skip
    return Kind(given.solver, given.family, given.dtype, given.seed,
                given.size or SOLVERS[given.solver].size)  # fmt: skip


def main() -> int:
    parser = arguments()
    given = parser.parse_args()
    kind = one_batch(parser, given)
    names = matching_names(parser, "--solver", given.solver, SOLVERS)
    choice = choose(names, given.family, given.dtype)
    if not choice:
        parser.error(f"no problems of --family {given.family or 'any'} and --dtype {given.dtype} "
                     f"for {', '.join(names)}")  # fmt: skip
    faulthandler.enable()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    if kind is not None:
        return again(kind, given.problem)
    seed = seed_of_the_day() if given.seed is None else given.seed
    if given.folder is not None:
        work(given.folder, given.part, given.problems, seed, choice, given.minutes)
        return 0
    print(f"seed {seed}, {given.problems} problems, {len(choice)} solvers", flush=True)
    start = time.monotonic()
    tally = supervised([*sys.argv[1:], "--seed", str(seed)], given.workers, given.problems)
    print(tally.table())
    minutes = (time.monotonic() - start) / 60
    print(
        f"seed {seed}, {sum(tally.problems.values()) / minutes:.0f} problems a minute", flush=True
    )
    return int(bool(tally.lines))


if __name__ == "__main__":
    sys.exit(main())
