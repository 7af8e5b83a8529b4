"""Quadratic assignment by Frank-Wolfe from many starts at once, as `examples/graph_matching.py`
has it, beside scipy, which takes one start after another."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.record import Row


EXAMPLES = str(Path(__file__).parents[2] / "examples")
STEPS = 30  # the default of scipy, as is the tolerance


@dataclass(frozen=True)
class Case:
    """So many starts on a built-in instance of the example; scipy takes the first `measured`, and
    its time is scaled to all of them."""

    instance: str
    starts: int
    measured: int
    on_gpu: bool

    def row(self, budget: float) -> Row:
        import jax

        from benchmarks.common.timing import timed

        if EXAMPLES not in sys.path:
            sys.path.insert(0, EXAMPLES)
        from _graph_matching_instances import BUILT_IN
        from _graph_matching_solver import as_problem, frank_wolfe, random_starts, values

        _, a, b, _ = BUILT_IN[self.instance]()
        problem, n = as_problem(a, b), len(a)
        starts = jax.block_until_ready(random_starts(jax.random.key(0), self.starts, n))
        (ends, steps), own = timed(
            lambda: frank_wolfe(problem, starts, STEPS), budget=budget, least=3
        )
        found = values(a, b, ends)
        theirs, spent = by_scipy(a, b, np.asarray(starts[: self.measured], np.float64))
        scaled = spent * self.starts / self.measured
        row: Row = {"costs": self.instance, "starts": self.starts, "n": n}
        row |= {"scipy, starts measured": self.measured, "scipy/ours": scaled / own}
        if self.on_gpu:
            row |= {"call_ms": own, "scipy_ms, scaled": scaled}
        row |= {"steps": float(np.mean(steps)), "best": int(found.min())}
        row["median"] = float(np.median(found))
        row["median of those measured"] = float(np.median(found[: self.measured]))
        row |= {"scipy, best": int(theirs.min()), "scipy, median": float(np.median(theirs))}
        return row


def by_scipy(a: np.ndarray, b: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, Any]:
    """Values of all starts, and milliseconds together."""
    from scipy.optimize import quadratic_assignment

    def one(start: np.ndarray) -> float:
        return quadratic_assignment(a, b, method="faq", options={"P0": start}).fun

    one(starts[0])  # what it imports
    begin = time.perf_counter()
    found = np.array([one(start) for start in starts])
    return found, 1e3 * (time.perf_counter() - begin)


def cases(quick: bool, on_gpu: bool) -> list[Case]:
    return [Case("chr12c", 16, 4, on_gpu)] if quick else [Case("grid100", 256, 8, on_gpu)]
