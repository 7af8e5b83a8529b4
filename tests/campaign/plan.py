"""Which batches a campaign draws: solvers, families and dtypes."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import shlex
from collections.abc import Iterable, Iterator

import numpy as np

from campaign.families import FAMILIES
from campaign.solvers import SOLVERS


# Of its turns, those that a solver takes: programs take seconds to compile.
_TURNS, _TURNS_OF_PROGRAMS, _TURNS_OF_VARIED = 1.0, 0.1, 0.03
# Of a hundred problems, by subject.
SHARES = {
    "dense": 23,
    "ungated": 15,
    "both sides": 1,
    "divisible": 0.5,
    "capacities": 12,
    "row capacities": 2,
    "scipy": 1,
    "sparse": 18,
    "stored costs": 1,
    "transport": 5.5,
    "flow": 5,
    "priced network": 4,
    "grid": 3,
    "matching": 4,
    "points": 1,
    "near points": 0.5,
    "points of masses": 1.5,
    "neighbours": 2,
}
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
        words = ["python", "-m", "campaign", "--solver", self.solver]
        # Else -inf would be read as an option.
        words += [f"--family={self.family}"] if self.family[0] == "-" else ["--family", self.family]
        words += ["--dtype", self.dtype, "--seed", str(self.seed), "--size", str(self.size)]
        words += [] if problem is None else ["--problem", str(problem)]
        return shlex.join(words)


def choose(names: Iterable[str], family: str | None = None, dtype: str = "*") -> Choice:
    """The solvers that take problems of a family, and of dtypes that match a pattern."""
    found: Choice = {}
    for name in names:
        solver = SOLVERS[name]
        for word in solver.families or FAMILIES if family is None else [family]:
            dtypes = [x for x in FAMILIES[word].dtypes if x in solver.dtypes]
            dtypes = fnmatch.filter(dtypes, dtype)
            if dtypes and FAMILIES[word].form in solver.forms:
                found.setdefault(name, {})[word] = dtypes
    return found


def kinds(seed: int | list[int], choice: Choice, most: int = 1000) -> Iterator[Kind]:
    """Without end: each solver that needs no program once, then each subject for its share.

    The solvers of a subject take turns, those that are compiled fewer.
    """
    if not choice:
        raise ValueError("choice must hold at least one solver, got none")
    rng = np.random.default_rng(seed)
    drawn: collections.Counter[str] = collections.Counter()

    def kind(name: str) -> Kind:
        family = str(rng.choice([*choice[name]]))
        dtype = str(rng.choice(choice[name][family]))
        size = min(SOLVERS[name].size, most)
        drawn[SOLVERS[name].subject] += size
        return Kind(name, family, dtype, int(rng.integers(2**31)), size)

    for name in rng.permutation([x for x in choice if not SOLVERS[x].compiled]).tolist():
        yield kind(name)
    of_subject: dict[str, list[str]] = {}
    for name in choice:
        of_subject.setdefault(SOLVERS[name].subject, []).append(name)
    turns = {subject: _turns(rng, names) for subject, names in of_subject.items()}
    while True:
        behind = min(turns, key=lambda subject: drawn[subject] / SHARES[subject])
        yield kind(next(turns[behind]))


def _turns(rng: np.random.Generator, names: list[str]) -> Iterator[str]:
    share = {}
    for name in names:
        solver = SOLVERS[name]
        of_programs = _TURNS_OF_VARIED if solver.varied else _TURNS_OF_PROGRAMS
        share[name] = of_programs if solver.compiled else _TURNS
    while True:
        for name in rng.permutation(names).tolist():
            if rng.random() < share[name]:
                yield name
