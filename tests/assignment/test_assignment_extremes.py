"""Numbers at the ends of the number line: statuses are right, costs are rounded sums, gaps bound
the true error, that of a check too. `PYTHONPATH=tests/support python FILE SEED SECONDS`, with this
file, tries more of them, in every combination of features."""

from __future__ import annotations

import itertools
import sys
import time

import jax
import numpy as np
import pytest
from extreme_helpers import LARGE, METHODS, SHARDED, Kind, judge, problems
from sharded_helpers import sharded

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("optimised")


DTYPES = [("float64", True), ("float32", False), ("float32", True), ("bfloat16", True)]
DTYPES += [("float16", False)]
SHAPES = [(1, 1), (2, 2), (3, 3), (4, 4), (2, 4), (4, 2), (3, 4), (1, 3), (3, 1)]
M, TINY, INF = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny), np.inf

# What was found: gaps of NaN, of 2e-323 where 2e-308 was the error, an infinite sum of which 0 was
# true, a start from duals so large that their products overflow.
FOUND = [
    {"cost": [[TINY, 0, -M, TINY], [1, INF, -M, 1]]},
    {"cost": [[0, INF, TINY], [TINY, INF, TINY], [-M, TINY, INF]]},
    {"cost": [[INF] * 4] * 4, "unmatched_cost": [M, M, -M, -M]},
    {"cost": [[M, M, M], [M, M, M / 2], [M, M / 2, M / 2]]},
    {"cost": [[M, M, INF], [M, -M, -M], [INF, M, TINY]]},
    {"cost": [[-M, INF], [INF, -1]], "warm_start": [0, -M]},
    {"cost": [[INF, 0], [5e-324, TINY], [TINY, 2.0**53], [0, 0]], "unmatched_cost": [M] * 4},
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", FOUND, ids=range(len(FOUND)))
def test_found(method, given):
    given = {name: np.array([x], np.float64) for name, x in given.items()}
    unmatched, warm = ("unmatched_cost" in given, "warm_start" in given)
    if method in LARGE and unmatched:
        pytest.skip("takes no unmatched costs")
    shape = given["cost"].shape[1:]
    judge(Kind(method, "float64", True, shape, unmatched=unmatched, warm=warm), given)


# `auto` is `jonker_volgenant` on a CPU.
@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_hostile_numbers(method, dtype, wide):
    unmatched = method not in LARGE
    kinds = [
        Kind(method, dtype, wide, (3, 3)),
        Kind(method, dtype, wide, (2, 4), maximize=True, masks=True),
        Kind(method, dtype, wide, (4, 3), unmatched=unmatched, warm=True),
    ]
    if method == "xla":  # which takes a second to compile
        kinds = kinds[:1] if dtype != "float64" else kinds[:2]
    for kind in kinds:
        judge(kind, problems(kind, 120, seed=0))


def test_denormal_unmatched_costs_count():
    """Float32 beside results in float64, which XLA would make from zeros."""
    kind = Kind("auto", "float32", True, (1, 1), unmatched=True)
    given = {"cost": np.full((1, 1, 1), 3e-45, np.float32)}
    judge(kind, given | {"unmatched_cost": np.full((1, 1), 1.4e-45, np.float32)})


@pytest.mark.parametrize("method", SHARDED)
@pytest.mark.parametrize("by", ["row_axis", "col_axis"])
def test_sharded(method, by):
    kind = Kind(method, "float64", True, (4, 4))

    def solve(kind: Kind, given: dict[str, np.ndarray]) -> jm.Assignment:
        results = [sharded(cost, by, 2, method=kind.method) for cost in given["cost"]]
        return jax.tree.map(lambda *x: np.stack(x), *results)

    judge(kind, problems(kind, 60, seed=0), solve)


def sweep(seed: int, seconds: float) -> None:
    random = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    for count in itertools.count():
        if time.monotonic() > end:
            return print(count, "batches")
        method = str(random.choice(METHODS))
        dtype, wide = DTYPES[random.integers(len(DTYPES))]
        features = dict(zip(("maximize", "masks", "unmatched", "warm"), random.random(4) < 0.4))  # noqa: B905
        features["unmatched"] &= method not in LARGE
        kind = Kind(method, dtype, wide, SHAPES[random.integers(len(SHAPES))], **features)
        for seed in random.integers(2**31, size=5):
            judge(kind, problems(kind, 200, int(seed)))


if __name__ == "__main__":
    sweep(int(sys.argv[1]), float(sys.argv[2]))
