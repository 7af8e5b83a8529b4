"""One assignment on a GPU by `method="auto"`, beside the methods that it chooses from.

    python -m benchmarks.assignment.auto

Families of `assignment/families.py` in float32, n = 512 to 2048; wall milliseconds of a call. scipy
solves the same float32 costs on one core of that host. Every answer is compared with scipy's and
proved by its duals. Writes `benchmarks/results/assignment_auto.json`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES
from benchmarks.assignment.gpu import gpu
from benchmarks.common import record as common


METHODS = ("auto", "core", "jonker_volgenant")
SIZES = (512, 1024, 1800, 2048)


def rows() -> Iterator[dict[str, Any]]:
    solvers = {m: jax.jit(partial(jm.solve_assignment, method=m)) for m in METHODS}
    check = jax.jit(jm.check_assignment)
    for n in tqdm(SIZES, desc="n"):
        for name, family in tqdm(FAMILIES.items(), leave=False):
            cost = family(n, n).astype(np.float32)
            start = time.perf_counter()
            best = cost[scipy.optimize.linear_sum_assignment(cost)].sum(dtype=np.float64)
            row: dict[str, Any] = {"n": n, "costs": name}
            scipy_ms = (time.perf_counter() - start) * 1e3
            given = jnp.asarray(cost)
            for method, solve in solvers.items():
                res = solve(given)
                pairs = cost[np.arange(n), np.asarray(res.col4row)]
                assert abs(pairs.sum(dtype=np.float64) - best) <= 1e-9 * max(1, abs(best))
                assert check(given, res).valid and res.gap <= 1e-6 * max(1, abs(best))
                row[f"{method}_ms"] = 1e3 * common.median_seconds(solve, given, budget=0.2)
            row["auto_by_best"] = row["auto_ms"] / min(row[f"{m}_ms"] for m in METHODS[1:])
            yield row | {"scipy_ms": scipy_ms}


def main() -> None:
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    content = gpu() | common.environment(["jax", "jaxlib", "numpy", "scipy"])
    content["rows"] = list(rows())
    common.print_table("one assignment, float32, ms", content["rows"])
    common.write_json("assignment_auto", content)


if __name__ == "__main__":
    main()
