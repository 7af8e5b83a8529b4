"""Batches in which rows, or rows and columns, may stay unmatched, on a GPU beside one core.

    python -m benchmarks.assignment.staying [--quick] [--out FOLDER]

Points in the plane, squared distances in float32. `rows stay`: `unmatched_cost`; `rows and columns
stay`: `unmatched_col_cost` too. Costs of both devices agree. Writes `assignment_staying_gpu.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import one_core, timed


SHAPES = ((1024, 32), (256, 100), (32, 256), (8, 1024))
QUICK = ((4, 20),)
PRICE = 0.02  # of leaving a row or a column


def problems(batch: int, n: int) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    x, y = (rng.random((batch, n, 2), np.float32) for _ in range(2))
    cost = ((x[:, :, None] - y[:, None]) ** 2).sum(-1)
    price = np.full((batch, n), PRICE, np.float32)
    yield "rows stay", lambda c, r: jm.solve_assignment(c, unmatched_cost=r), (cost, price)
    yield (
        "rows and columns stay",
        lambda c, r: jm.solve_assignment(c, unmatched_cost=r, unmatched_col_cost=r),
        (cost, price),
    )


def measure(solve: Callable[..., Any], given: tuple[Any, ...]) -> Row:
    res, ms = timed(jax.jit(solve), *map(jnp.asarray, given), least=3, budget=0.5)
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
    with one_core(), jax.default_device(jax.devices("cpu")[0]):
        other, core_ms = timed(solve, *given, least=3, budget=0.5)
    np.testing.assert_allclose(np.asarray(res.cost), np.asarray(other.cost), rtol=1e-4)
    return {"ms": ms, "core_ms": core_ms, "core/gpu": ratio(core_ms, ms)}


def main() -> None:
    args = options.parse(options.parser(__doc__, "a small batch, to try this out"))
    rows: list[Row] = []
    for batch, n in QUICK if args.quick else SHAPES:
        for what, solve, given in problems(batch, n):
            rows.append({"what": what, "problems": batch, "n": n} | measure(solve, given))
            print(rows[-1], flush=True)
    machine = record.gpu() if jax.default_backend() == "gpu" else {}
    machine |= record.environment(["jax", "jaxlib", "numpy"])
    record.print_table("staying", rows)
    print(record.write_json(args.out, "assignment_staying_gpu", machine | {"rows": rows}))


if __name__ == "__main__":
    main()
