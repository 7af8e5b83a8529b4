"""Quadratic assignment by Frank-Wolfe from many starts at once beside scipy, which takes one start
after another."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jaxmatch as jm
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
        from graph_matching import random_starts

        _, a, b, _ = BUILT_IN[self.instance]()
        n = len(a)
        starts = random_starts(0, self.starts, n)
        there = [jax.numpy.asarray(x, "float32") for x in (a, b, starts)]
        solve = jax.jit(lambda a, b, x: jm.quadratic_assignment(a, b, starts=x, steps=STEPS))
        res, own = timed(solve, *there, budget=budget, least=3)
        found, steps = np.asarray(res.values), np.asarray(res.steps)
        theirs, spent = by_scipy(a, b, starts[: self.measured])
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
