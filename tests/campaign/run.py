"""Solves a batch in several ways, judges the results, and counts."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from campaign import graphs, learners, options, priced_networks, problems
from campaign.calls import Solver
from campaign.elsewhere import by_portable_instructions
from campaign.exactly import flat
from campaign.families import FAMILIES
from campaign.plan import SHARES, Kind
from campaign.problems import Batch, Draw
from campaign.solvers import SOLVERS
from jaxmatch import Status


_ONE_IN_PORTABLE = 8  # batches that another process solves as well
_GENERATORS = problems.GENERATORS | graphs.GENERATORS | options.GENERATORS
_GENERATORS |= priced_networks.GENERATORS | {"neighbours": learners.neighbours}


def drawn(kind: Kind, solver: Solver) -> Batch:
    words = f"{solver.subject}/{kind.family}/{kind.dtype}".encode()
    rng = np.random.default_rng([kind.seed, *words])
    few = solver.compiled and not solver.varied
    draw = Draw(rng, FAMILIES[kind.family], kind.dtype, kind.size, few)
    return _GENERATORS[solver.subject](draw)


def attempt(kind: Kind, solvers: Mapping[str, Solver] = SOLVERS) -> tuple[Batch, Any, dict]:
    """Solves a batch, and again with its problems in other places, on several devices and by other
    instructions, as the solver says; what is wrong, by problem."""
    solver = solvers[kind.solver]
    batch = drawn(kind, solver)
    if batch.count == 0 and "points" in solver.subject:
        return batch, None, {}
    try:
        res = solver.solve(batch)
        order = np.random.default_rng(kind.seed).permutation(batch.count)
        again = solver.solve(batch.take(order))
        others = _elsewhere(kind, solver, batch)
    except Exception as error:  # whatever it is, no problem may raise
        first = " ".join(f"raised {type(error).__name__}: {error}".split())
        return batch, None, {0: first[:300]}
    wrong = solver.judge(batch, res, solver.twin)
    for k in _different(jax.tree.map(lambda x: x[order], res), again):
        wrong.setdefault(int(order[k]), f"other bits in place {k}")
    for name, other in others.items():
        for k in _different(res, other):
            wrong.setdefault(k, f"other bits {name}")
    return batch, res, wrong


def _portably(kind: Kind) -> Any:
    solver = SOLVERS[kind.solver]
    return solver.solve(drawn(kind, solver))


def _elsewhere(kind: Kind, solver: Solver, batch: Batch) -> dict[str, Any]:
    """The results by other means that must give the same bits."""
    found = {}
    if solver.elsewhere is not None:
        found["on several devices"] = solver.elsewhere(batch)
    portable = solver.portable and kind.seed % _ONE_IN_PORTABLE == 0
    if portable and SOLVERS.get(kind.solver) is solver and jax.default_backend() == "cpu":
        found["by portable instructions"] = by_portable_instructions(_portably, kind)
    return {name: res for name, res in found.items() if res is not None}


def _different(one: Any, other: Any) -> list[int]:
    """The problems whose results differ in a bit."""
    found: set[int] = set()
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if x.size:
            bits = (flat(np.ascontiguousarray(z)).view(np.uint8) for z in (x, y))
            differ = np.not_equal(*bits)
            found |= {*np.flatnonzero(differ.any(1)).tolist()}
    return sorted(found)


class Tally:
    """Problems, statuses and anomalies by solver and family."""

    def __init__(self) -> None:
        self.problems: collections.Counter[tuple[str, str]] = collections.Counter()
        self.statuses: dict[tuple[str, str], collections.Counter[int]] = collections.defaultdict(
            collections.Counter
        )
        self.anomalies: collections.Counter[tuple[str, str]] = collections.Counter()
        self.lines: list[str] = []

    def add(self, kind: Kind, batch: Batch, res: Any, wrong: Mapping[int, str]) -> list[str]:
        """Counts a batch; a line for each anomaly that solves it again."""
        key = kind.solver, kind.family
        self.problems[key] += batch.count
        self.anomalies[key] += len(wrong)
        if res is not None:
            self.statuses[key].update(np.ravel(res.status).tolist())
        lines = [f"{kind.line(k)}  # {reason}" for k, reason in sorted(wrong.items())]
        self.lines += lines
        return lines

    def merge(self, other: Tally) -> None:
        """Adds the counts of another part of the campaign."""
        self.problems.update(other.problems)
        self.anomalies.update(other.anomalies)
        for key, statuses in other.statuses.items():
            self.statuses[key].update(statuses)
        self.lines += other.lines

    def table(self) -> str:
        lines = [f"{'solver':24} {'family':12} {'problems':>9} {'anomalies':>9}  statuses"]
        for key in sorted(self.problems):
            counts = sorted(self.statuses[key].items())
            words = ", ".join(f"{Status(code)} {count}" for code, count in counts)
            lines.append(f"{key[0]:24} {key[1]:12} {self.problems[key]:9} "
                         f"{self.anomalies[key]:9}  {words}")  # fmt: skip
        lines += ["", f"{'subject':24} {'':12} {'problems':>9} {'anomalies':>9}"]
        for subject in SHARES:
            keys = [key for key in self.problems if SOLVERS[key[0]].subject == subject]
            if keys:
                counts = [sum(x[key] for key in keys) for x in (self.problems, self.anomalies)]
                lines.append(f"{subject:37} {counts[0]:9} {counts[1]:9}")
        total, wrong = sum(self.problems.values()), sum(self.anomalies.values())
        return "\n".join([*lines, f"{total} problems, {wrong} anomalies"])
