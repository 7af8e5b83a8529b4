"""Problems of the campaign, of all solvers that need no compilation by XLA."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import warnings

from campaign.plan import choose, kinds
from campaign.run import Tally, attempt
from campaign.solvers import SOLVERS


_MOST = 60  # problems of a batch
_NAMES = [name for name, solver in SOLVERS.items() if not solver.compiled]
_LEFT_OUT = "this build has no large problems of these costs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sanitize.hostile", description=__doc__)
    parser.add_argument("--problems", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    faulthandler.enable()
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    print(f"seed {given.seed}, {given.problems} problems", flush=True)
    tally = Tally()
    for kind in kinds(given.seed, choose(_NAMES), _MOST):
        faulthandler.dump_traceback_later(300, exit=True)
        batch, res, wrong = attempt(kind)
        faulthandler.cancel_dump_traceback_later()
        if not any(_LEFT_OUT in reason for reason in wrong.values()):
            for line in tally.add(kind, batch, res, wrong)[:5]:
                print(line, flush=True)
        if sum(tally.problems.values()) >= given.problems:
            break
    print(f"{len({name for name, _ in tally.problems})} of {len(_NAMES)} solvers")
    return int(any(tally.anomalies.values()))


if __name__ == "__main__":
    sys.exit(main())
