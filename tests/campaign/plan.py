"""Which batches a campaign draws: solvers, families and dtypes."""

from __future__ import annotations

import dataclasses
import fnmatch
import shlex
from collections.abc import Iterable, Iterator

import numpy as np

from campaign.families import FAMILIES
from campaign.solvers import SOLVERS


_SHARE_OF_PROGRAMS = 0.2
# Solvers with the families of their problems, and the dtypes of each.
Choice = dict[str, dict[str, list[str]]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a batch is made from; all of its numbers follow."""

    solver: str
    family: str
    dtype: str
    seed: int
    size: int

    def line(self, problem: int | None = None) -> str:
        """The command that solves it again."""
        words = ["python", "-m", "campaign", "--solver", self.solver, "--family", self.family]
        words += ["--dtype", self.dtype, "--seed", str(self.seed), "--size", str(self.size)]
        words += [] if problem is None else ["--problem", str(problem)]
        return shlex.join(words)


def choose(names: Iterable[str], family: str | None = None, dtype: str = "*") -> Choice:
    """The solvers that take problems of a family, and of dtypes that match a pattern."""
    found: Choice = {}
    for name in names:
        solver = SOLVERS[name]
        for word in FAMILIES if family is None else [family]:
            dtypes = [x for x in FAMILIES[word].dtypes if x in solver.dtypes]
            dtypes = fnmatch.filter(dtypes, dtype)
            if dtypes and FAMILIES[word].form in solver.forms:
                found.setdefault(name, {})[word] = dtypes
    return found


def kinds(seed: int, choice: Choice, most: int = 1000) -> Iterator[Kind]:
    """Without end: every solver in turn, with families and dtypes at random.

    Programs take seconds to compile, so their turns are fewer.
    """
    if not choice:
        raise ValueError("choice must hold at least one solver, got none")
    rng = np.random.default_rng(seed)
    while True:
        for name in rng.permutation([*choice]).tolist():
            solver = SOLVERS[name]
            if solver.compiled and rng.random() > _SHARE_OF_PROGRAMS:
                continue
            family = str(rng.choice([*choice[name]]))
            dtype = str(rng.choice(choice[name][family]))
            size = min(solver.size, most)
            yield Kind(name, family, dtype, int(rng.integers(2**31)), size)
