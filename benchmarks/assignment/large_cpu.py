"""The methods for one large problem on a CPU, against the one that `"auto"` takes there.

    python -m benchmarks.assignment.large_cpu [--quick] [--out FOLDER]

`"jonker_volgenant"` is one thread; `"core"`, `"classical"` and `"tree"`, written for a whole GPU,
use all cores of this process. Points go to `solve_assignment_points`, and as a matrix to
Jonker-Volgenant. Every value is compared with scipy's. Other peers: `assignment/cpu.py`. Times on a
CPU mean little elsewhere: read ratios. Writes `assignment_large_cpu.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.costs import uniform_integers
from benchmarks.common.record import Row
from benchmarks.common.timing import in_turn


AUTO = "jonker_volgenant"
OTHERS = ("core", "tree", "classical")
# On uniform floats a forward pass finds about one path, and there are as many as rows.
FOR_INTEGERS = {"tree", "classical"}


def cases(quick: bool) -> Iterator[tuple[int, str, np.ndarray, np.ndarray | None]]:
    """(n, name, costs, points [2, n, dims] or None)."""
    for n in (1000,) if quick else (1000, 5000):
        for name, most in {"n/10": n // 10, "n": n, "10n": 10 * n}.items():
            yield n, name, uniform_integers(n, n, most, seed=1)[0].astype(np.int32), None
        random = np.random.default_rng(1)
        yield n, "uniform float32", random.random((n, n), np.float32), None
        for dims in (2, 8):
            points = random.random((2, n, dims), np.float32)
            x, y = points
            yield n, f"points {dims}D", ((x[:, None] - y) ** 2).sum(-1), points


def solvers(cost: np.ndarray, points: np.ndarray | None) -> dict[str, Callable[[], Any]]:
    """By method; each returns a result on the device."""
    on_device = jax.block_until_ready(jax.numpy.asarray(cost))
    found: dict[str, Callable[[], Any]] = {
        method: partial(jm.solve_assignment, on_device, method=method)
        for method in (AUTO, *OTHERS)
        if method not in FOR_INTEGERS or cost.dtype == np.int32
    }
    if points is not None:
        x, y = map(jax.numpy.asarray, points)
        found["core"] = partial(jm.solve_assignment_points, x, y, method="core")
    return found


def measure(quick: bool) -> list[Row]:
    rows = []
    for n, name, cost, points in tqdm(cases(quick), total=6 if quick else 12, unit="problem"):
        calls = solvers(cost, points)
        exact = cost[linear_sum_assignment(cost)].sum(dtype=np.float64)
        for call in calls.values():
            result = call()
            assert int(result.status) == jm.Status.OPTIMAL
            np.testing.assert_allclose(
                result.cost, exact, rtol=1e-5 if points is not None else 1e-6
            )
        seconds = in_turn(
            {name: partial(_wait_for, call) for name, call in calls.items()}, 5 if n > 1000 else 9
        )
        ratios = {
            f"{method}_ratio": seconds[method] / seconds[AUTO] if method in seconds else None
            for method in OTHERS
        }
        rows.append({"n": n, "costs": name, f"{AUTO}_ms": 1e3 * seconds[AUTO], **ratios})
    return rows


def _wait_for(call: Callable[[], Any]) -> None:
    jax.block_until_ready(call())


def main() -> None:
    args = options.parse(options.parser(__doc__, "n = 1000 only"))
    rows = measure(args.quick)
    record.print_table(f"Time by that of {AUTO} (higher is slower)", rows)
    environment = record.environment(["jax", "jaxlib", "numpy", "scipy"])
    content = {"environment": environment, "methods": rows}
    print(f"\nwrote {record.write_json(args.out, 'assignment_large_cpu', content)}")


if __name__ == "__main__":
    main()
