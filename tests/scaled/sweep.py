"""Solves a batch of every power, measures each result against the exact optimum, and counts."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
from helpers import x64

from jaxmatch import Status
from scaled.problems import Batch, canonical, powers
from scaled.solvers import SOLVERS, Solver
from scaled.subjects import SUBJECTS, Subject
from scaled.truths import Cut, Truth


_NEAR = 60  # powers, more than the digits of doubles


@dataclasses.dataclass
class Row:
    """Of the table: a solver and a dtype."""

    solver: str
    dtype: str
    powers: int = 0
    problems: int = 0
    ratio: float = 0.0
    gaps: int = 0  # problems whose gap is not 0
    unbounded: int = 0  # whose gap is infinite
    failed: dict[Status, set[int]] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        failed = ", ".join(f"{x} at 2^{min(at)}..2^{max(at)}" for x, at in self.failed.items())
        wrong = f"  WRONG {len(self.wrong)}" if self.wrong else ""
        gaps = f"{self.gaps}" + (f" ({self.unbounded} inf)" if self.unbounded else "")
        return (
            f"{self.solver:26} {self.dtype:9} {self.powers:6} {self.problems:8} "
            f"{gaps:>14} {self.ratio:9.3g}  {failed}{wrong}"
        )


HEAD = (
    f"{'solver':26} {'dtype':9} {'powers':>6} {'problems':>8} {'gaps not 0':>14} {'error/gap':>9}"
)


class Judge:
    """Remembers the truth of each problem, which its copies at other powers share."""

    def __init__(self, subject: Subject):
        self.subject = subject
        self.truths: dict[bytes, Truth] = {}
        self.found: dict[tuple[bytes, bytes], tuple[list[Fraction], Fraction]] = {}

    def add(self, row: Row, solver: Solver, batch: Batch, res: Any) -> None:
        fields = {x: np.asarray(getattr(res, x)) for x in self.subject.solution}
        value, status = np.asarray(getattr(res, self.subject.value)), np.asarray(res.status)
        gap = np.asarray(res.gap) if self.subject.has_gap else None
        for k, (problem, exponent, key) in enumerate(canonical(batch)):
            one = {name: x[k] for name, x in fields.items()}
            power = int(batch.power[k])
            own = None if gap is None else gap[k]
            reason = self._judge(
                row, solver, (problem, exponent, key), one, value[k], own, int(status[k]), power
            )
            if reason is not None:
                row.wrong.append(f"2^{power}, place {k}: {reason}")
        row.problems += batch.count

    def _judge(
        self, row: Row, solver: Solver, where: tuple[Any, int, bytes], one: dict[str, Any],
        value: Any, gap: Any, status: int, power: int,
    ) -> str | None:  # fmt: skip
        problem, exponent, key = where
        expected = self.subject.failure(problem)
        if expected is None:
            if key not in self.truths:
                self.truths[key] = self.subject.truth(problem)
            truth = self.truths[key]
            expected = truth.status()
            if self.subject.must_fit and not _fits(truth.optimum, exponent, value.dtype):
                expected = Status.OVERFLOW
        if status != Status.OPTIMAL:
            row.failed.setdefault(Status(status), set()).add(power)
        if status not in (expected, self.subject.may(problem, exponent, value.dtype)):
            return f"status {Status(status)}, not {expected}"
        if status != Status.OPTIMAL:
            return None
        solution = key, b"".join(x.tobytes() for x in one.values())
        if solution not in self.found:
            paid = truth.paid(one, exponent)
            self.found[solution] = paid, truth.error(paid)
        paid, error = self.found[solution]
        if gap is None:
            gap = self._bound(truth, solver, exponent, value.dtype) if error else 0.0
        elif not gap >= 0:
            return f"gap {gap}"
        row.gaps += bool(gap > 0)
        row.unbounded += bool(gap == math.inf)
        ratio = _ratio(error, exponent, gap)
        row.ratio = max(row.ratio, ratio)
        if ratio > 1:
            return f"error {float(error)} * 2^{exponent}, gap {gap}"
        for x, exact in zip(np.ravel(value), paid, strict=False):
            if not self._is_rounded(x, exact, exponent, solver.twin):
                return f"value {x}, not {float(exact)} * 2^{exponent}"
        return None

    def _bound(self, truth: Truth, solver: Solver, exponent: int, dtype: np.dtype) -> float:
        """What is documented of cuts. The twin's units are shorter, denormal numbers zero to it."""
        if not isinstance(truth, Cut):
            return 0.0
        bits, least = 59, Fraction(1, 2**1074)
        if solver.twin:
            bits = 28 if dtype == np.float32 else bits
            least = Fraction(float(np.finfo(dtype).tiny))
        return _ldexp(float(truth.bound(bits, least / Fraction(2) ** exponent)), exponent)

    def _is_rounded(self, x: Any, exact: Fraction, exponent: int, twin: bool) -> bool:
        """Whether a value is the exact one, but for the rounding of numbers about 1 that are added,
        and of their sum."""
        if x.dtype.kind == "i":
            return int(x) == exact
        kind, info = x.dtype.type, np.finfo(x.dtype)
        slack = math.ldexp(1.0, 10 - (2 * info.nmant if twin else self.subject.digits))
        hidden = 100 * float(info.tiny) if twin else 5e-324 * self.subject.underflow
        with np.errstate(over="ignore", under="ignore"):
            low, high = (_ldexp(float(exact) + d, exponent) for d in (-slack, slack))
            low, high = kind(low - hidden), kind(high + hidden)
            low, high = np.nextafter(low, kind(-np.inf)), np.nextafter(high, kind(np.inf))
        return bool(low <= x <= high)


def _fits(x: Fraction, exponent: int, dtype: np.dtype) -> bool:
    most = np.iinfo(dtype).max if dtype.kind == "i" else float(np.finfo(dtype).max)
    return abs(x) * Fraction(2) ** exponent <= most


def _ratio(error: Fraction, exponent: int, gap: Any) -> float:
    if error == 0 or gap == math.inf:
        return 0.0
    if gap == 0:
        return math.inf
    return float(error * Fraction(2) ** exponent / Fraction(float(gap)))


def _ldexp(x: float, exponent: int) -> float:
    try:
        return math.ldexp(x, exponent)
    except OverflowError:
        return math.copysign(math.inf, x)


def sweep(name: str, dtype: str, judges: dict[str, Judge], step: int = 1) -> Row:
    """One solver at every power of a dtype; with a step, at every power near the ends of the range,
    where numbers are rounded, and at every step-th."""
    solver = SOLVERS[name]
    subject = SUBJECTS[solver.subject]
    judge = judges.setdefault(solver.subject, Judge(subject))
    every = np.array(powers(dtype))
    near = np.minimum(every - every[0], every[-1] - every) < _NEAR
    kept = every[near | (every % step == 0)]
    row = Row(name, dtype, len(kept))
    with x64(dtype in ("float64", "int64")), np.errstate(all="ignore"):
        for batch in subject.draw(dtype, kept):
            if solver.alone and step > 1:  # the next base at each power
                batch = batch.take(np.arange(0, batch.count, 9))
            judge.add(row, solver, batch, solver.solve(batch))
    return row
