"""One assignment on a GPU by `method="auto"`, beside the methods that it chooses from.

    python -m benchmarks.assignment.auto [--out FOLDER]

Families of `assignment/families.py` in float32, n = 512 to 2048; wall milliseconds of a call. scipy
solves the same float32 costs on one core of that host. Every answer is compared with scipy's and
proved by its duals. Writes `assignment_auto.json`.
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
from benchmarks.common import options, record
from benchmarks.common.timing import median_ms


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
                row[f"{method}_ms"] = median_ms(solve, given, budget=0.2)
            row["auto_by_best"] = row["auto_ms"] / min(row[f"{m}_ms"] for m in METHODS[1:])
            yield row | {"scipy_ms": scipy_ms}


def main() -> None:
    args = options.parse(options.parser(__doc__))
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    content = record.gpu() | record.environment(["jax", "jaxlib", "numpy", "scipy"])
    content["rows"] = list(rows())
    record.print_table("one assignment, float32, ms", content["rows"])
    record.write_json(args.out, "assignment_auto", content)


if __name__ == "__main__":
    main()
