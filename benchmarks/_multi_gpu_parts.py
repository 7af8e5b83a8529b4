"""What the benchmark of several GPUs measures: the cases of each part, and a row for each.

A case is what tells its row from all others; `devices` is among it. `form` is `"plain"` for the
method of one device, `"divided"` for the program that divides a problem over a mesh, also if there
is one device in it.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import _multi_gpu_problems as problems
import jax
import jax.numpy as jnp
import numpy as np
from assignment_large import RANGES
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmatch as jm


Case = dict[str, Any]
Row = dict[str, Any]

METHODS = ("classical", "tree", "core")
BYTES_A_DEVICE = 110e9  # that costs may have

# Date and Nagi 2016, Kepler K20X: overall seconds on 1, 2, 4 and 8 GPUs, tables 4 and 5.
PAPER_WEAK = {"classical": (10.42, 12.48, 15.03, 18.58), "tree": (16.28, 20.26, 26.51, 37.03)}
PAPER_STRONG = {
    "classical": {
        10000: (11.07, 8.15, 7.84, 7.39),
        14142: (18.25, 12.94, 11.03, 9.98),
        20000: (28.50, 19.47, 15.07, 13.00),
    },
    "tree": {
        10000: (16.52, 15.12, 15.78, 16.61),
        14142: (24.19, 20.65, 20.55, 21.59),
        20000: (38.30, 29.21, 26.22, 27.47),
    },
}


def has_divided() -> bool:
    return "row_axis" in inspect.signature(jm.solve_assignment).parameters


def timed(call: Callable[[], Any], budget: float = 1.0, most: int = 7) -> tuple[Any, float]:
    """The result of a first call, and the median milliseconds of two more or several."""
    found = jax.block_until_ready(call())
    times: list[float] = []
    while len(times) < 2 or (sum(times) < budget and len(times) < most):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return found, 1e3 * statistics.median(times)


# ---------------------------------------------------------------------------------------------
# One large problem


class _Costs:
    """The costs that were last asked for; the ones before are given back first."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._cost: jax.Array | None = None

    def get(self, n: int, kind: str, devices: int) -> jax.Array:
        if self._key != (n, kind, devices) or self._cost is None:
            self.free()
            self._cost = problems.make_costs(n, kind, problems.mesh_of(devices))
            self._key = n, kind, devices
        return self._cost

    def free(self) -> None:
        if self._cost is not None:
            self._cost.delete()
            self._cost = None
            gc.collect()


COSTS = _Costs()


def measure_large(case: Case) -> Row:
    """Milliseconds of a call, proved optimal by a check that shares nothing with the solver."""
    n, devices, divided = case["n"], case["devices"], case["form"] == "divided"
    mesh = problems.mesh_of(devices)
    cost = COSTS.get(n, case["costs"], devices)
    real = np.arange(len(cost)) < n
    options: dict[str, Any] = {"row_axis": problems.AXIS} if divided else {}
    if not real.all():
        options |= {"row_mask": real, "col_mask": real}

    @jax.jit
    def solve(cost: jax.Array) -> jm.Assignment:
        return jm.solve_assignment(cost, method=case["method"], **options)

    with jax.enable_x64(True):
        if divided:
            with jax.set_mesh(mesh):
                res, ms = timed(lambda: solve(cost))
        else:
            alone = cost.addressable_data(0)
            res, ms = timed(lambda: solve(alone))
    row = {"ms": ms} | problems.prove((cost,), res, n, mesh)
    known = RANGES.get((n, case["costs"]), (0, None))[1]
    assert known is None or row["value"] == known, (row["value"], known)
    return row


def _large(n: int, costs: str, method: str, form: str, devices: int) -> Case:
    return {"n": n, "costs": costs, "method": method, "form": form, "devices": devices}


def _forms(counts: Sequence[int]) -> Iterator[tuple[str, int]]:
    yield "plain", 1
    for devices in counts:
        yield "divided", devices


def check_agreement(rows: Sequence[Row]) -> None:
    """Every method and division has found the same optimum of the same costs."""
    values: dict[Any, float] = {}
    for row in rows:
        value = values.setdefault((row["n"], row["costs"]), row["value"])
        exact = row["costs"] in problems.INTEGERS
        assert math.isclose(row["value"], value, rel_tol=0 if exact else 1e-9), row


def _find(rows: Sequence[Row], **wanted: Any) -> float | None:
    found = [row["ms"] for row in rows if all(row.get(k) == x for k, x in wanted.items())]
    return found[0] if found else None


def _papers(times: Sequence[float] | None, devices: int, work: int = 1) -> Row:
    """The paper's time, and its efficiency for so much more work than that of one device."""
    found: dict[int, float] = dict(zip((1, 2, 4, 8), times or (), strict=False))
    alone, theirs = found.get(1), found.get(devices)
    return {
        "paper_efficiency": _over(alone and alone * work, theirs and theirs * devices),
        "paper_s": theirs or "",
    }


def _over(a: float | None, b: float | None) -> float | str:
    return a / b if a and b else ""


# ---------------------------------------------------------------------------------------------
# Table 4: n^2 costs a device


def weak_side(quick: bool, devices: int) -> int:
    return int((200 if quick else 10000) * math.sqrt(devices))


def weak_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for form, devices in _forms(counts):
        for method in METHODS:
            yield _large(weak_side(quick, devices), "10n", method, form, devices)


def weak_table(rows: Sequence[Row]) -> list[Row]:
    check_agreement(rows)
    table = []
    for row in rows:
        first = {"method": row["method"], "devices": 1}
        like_theirs = row["n"] == weak_side(False, row["devices"])
        paper = PAPER_WEAK.get(row["method"]) if like_theirs else None
        table.append(
            {k: row[k] for k in ("method", "form", "devices", "n", "ms")}
            | {
                "efficiency_by_plain": _over(_find(rows, **first, form="plain"), row["ms"]),
                "efficiency_by_divided": _over(_find(rows, **first, form="divided"), row["ms"]),
            }
            | _papers(paper, row["devices"], work=row["devices"])
        )
    return table


# ---------------------------------------------------------------------------------------------
# Table 5: one problem over more and more devices


def strong_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for n in (200, 282, 400) if quick else (10000, 14142, 20000):
        for form, devices in _forms(counts):
            for method in METHODS:
                yield _large(n, "10n", method, form, devices)


def strong_table(rows: Sequence[Row]) -> list[Row]:
    check_agreement(rows)
    table = []
    for row in rows:
        same = {"method": row["method"], "n": row["n"], "devices": 1}
        paper = PAPER_STRONG.get(row["method"], {}).get(row["n"])
        work = row["ms"] * row["devices"]
        table.append(
            {k: row[k] for k in ("n", "method", "form", "devices", "ms")}
            | {
                "efficiency_by_plain": _over(_find(rows, **same, form="plain"), work),
                "efficiency_by_divided": _over(_find(rows, **same, form="divided"), work),
            }
            | _papers(paper, row["devices"])
        )
    return table


# ---------------------------------------------------------------------------------------------
# The fastest method


def fast_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for n in (200, 400) if quick else (20000, 50000, 100000, 150000):
        for form, devices in _forms(counts):
            if 4 * n * n / devices <= BYTES_A_DEVICE:
                yield _large(n, "uniform", "core", form, devices)


def fast_table(rows: Sequence[Row]) -> list[Row]:
    check_agreement(rows)
    return [
        {k: row[k] for k in ("n", "form", "devices", "ms")}
        | {"speed_up": _over(_find(rows, n=row["n"], form="plain"), row["ms"])}
        | {k: row[k] for k in ("value", "proved_gap", "gap")}
        for row in rows
    ]


def fast_goals(table: Sequence[Row]) -> list[Row]:
    return [
        _goal(f"speed-up at n = {row['n']} on 4 devices", 1.5, row["speed_up"])
        for row in table
        if row["n"] == 150_000 and row["devices"] == 4 and row["speed_up"] != ""
    ]


def _goal(what: str, least: float, found: float) -> Row:
    return {"goal": what, "at_least": least, "found": found, "met": found >= least}


# ---------------------------------------------------------------------------------------------
# Many ties: where rows have more zeros than are exchanged as lists, a search has more exchanges


def ties_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    n = 200 if quick else 10000
    for costs in (kind for kind in problems.INTEGERS if kind != "10n"):
        for form, devices in _forms(counts):
            for method in METHODS:
                yield _large(n, costs, method, form, devices)


def ties_table(rows: Sequence[Row]) -> list[Row]:
    check_agreement(rows)
    same = ("n", "costs", "method")
    return [
        {k: row[k] for k in (*same, "form", "devices", "ms")}
        | {"speed_up": _over(_find(rows, **{k: row[k] for k in same}, form="plain"), row["ms"])}
        for row in rows
    ]


# ---------------------------------------------------------------------------------------------
# More than one device holds


def capacity_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    n = 400 if quick else 200_000
    fitting = [p for p in counts if p > 1 and 4 * n * n / p <= BYTES_A_DEVICE]
    for devices in reversed(fitting):
        yield _large(n, "uniform", "core", "divided", devices)
    if hasattr(jm, "solve_assignment_points"):
        yield _large(n, "points 2D", "", "plain", 1)
        for devices in (p for p in counts if p > 1):
            yield _large(n, "points 2D", "", "divided", devices)


def measure_capacity(case: Case) -> Row:
    row = measure_points(case) if case["costs"] == "points 2D" else measure_large(case)
    stats = [device.memory_stats() or {} for device in jax.devices()]
    if peaks := [x["peak_bytes_in_use"] for x in stats if "peak_bytes_in_use" in x]:
        row["peak_gigabytes_so_far"] = max(peaks) / 1e9
    return row


def measure_points(case: Case) -> Row:
    n, mesh = case["n"], problems.mesh_of(case["devices"])
    COSTS.free()
    x, y = problems.make_points(n, mesh)
    options: dict[str, Any] = {"row_axis": problems.AXIS} if case["form"] == "divided" else {}

    @jax.jit
    def solve(x: jax.Array, y: jax.Array) -> jm.Assignment:
        return getattr(jm, "solve_assignment_points")(x, y, **options)  # noqa: B009

    with jax.enable_x64(True):  # many seconds: compiled ahead, and run once
        with jax.set_mesh(mesh) if options else contextlib.nullcontext():
            given = (x, y) if options else tuple(a.addressable_data(0) for a in (x, y))
            compiled = solve.lower(*given).compile()
        start = time.perf_counter()
        res = jax.block_until_ready(compiled(*given))
        ms = 1e3 * (time.perf_counter() - start)
    row = {"ms": ms} | problems.prove((x, y), res, n, mesh)
    # Their costs may be those of float32: 24 bits of a distance in the unit square.
    assert abs(row["proved_gap"]) <= n * 2.0**-22, row
    return row


def capacity_table(rows: Sequence[Row]) -> list[Row]:
    return [
        {k: row[k] for k in ("n", "costs", "form", "devices", "ms", "value", "proved_gap", "gap")}
        | {"gigabytes": 4 * row["n"] ** 2 / 1e9 if row["costs"] == "uniform" else ""}
        | {"peak_gigabytes_so_far": row.get("peak_gigabytes_so_far", "")}
        for row in rows
    ]


# ---------------------------------------------------------------------------------------------
# Batches


def batched_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for batch, n in [(64, 20)] if quick else [(4096, 100), (32768, 100)]:
        for devices in counts:
            for gradient in (False, True):
                yield {"n": n, "batch": batch * devices, "gradient": gradient, "devices": devices}


def measure_batched(case: Case) -> Row:
    """One call after another, and a queue of calls, which hides what the host does for them."""
    n, batch = case["n"], case["batch"]
    mesh = jax.make_mesh(
        (case["devices"],), ("batch",), (AxisType.Auto,), devices=jax.devices()[: case["devices"]]
    )
    by_batch = NamedSharding(mesh, P("batch"))
    COSTS.free()
    make = jax.jit(
        lambda: jax.random.uniform(jax.random.key(0), (batch, n, n)), out_shardings=by_batch
    )
    cost = jax.block_until_ready(make())

    def solve(cost: jax.Array) -> Any:
        if not case["gradient"]:
            return jm.solve_assignment(cost)
        value, pull_back, res = jax.vjp(
            lambda c: ((res := jm.solve_assignment(c)).cost, res), cost, has_aux=True
        )
        return res, pull_back(jnp.ones_like(value))[0]

    compiled = jax.jit(solve).lower(cost).compile()
    text = compiled.as_text() or ""
    moves = [x for x in ("all-gather", "all-to-all", "collective-permute") if x in text]
    found, ms = timed(lambda: compiled(cost), most=50)
    queue = 20
    _, queued = timed(lambda: [compiled(cost) for _ in range(queue)], most=20)
    _check_batch(cost, found if case["gradient"] else (found, None))
    return {"ms": ms, "queued_ms": queued / queue, "moves": ", ".join(moves)}


def _check_batch(cost: jax.Array, found: tuple[jm.Assignment, jax.Array | None]) -> None:
    """Every result is proved optimal by its duals, every gradient is the permutation."""

    @jax.jit
    def prove(cost: jax.Array, res: jm.Assignment, gradient: jax.Array | None) -> Any:
        chosen = res.col4row[..., None] == jnp.arange(cost.shape[-1])
        wide, v = cost.astype(jnp.float64), res.col_dual.astype(jnp.float64)
        bound = (wide - v[:, None]).min(-1).sum(-1) + v.sum(-1)
        gap = jnp.where(chosen, wide, 0).sum((-1, -2)) - bound
        fits = (chosen.sum(-1) == 1).all() & (chosen.sum(-2) == 1).all()
        fits &= (res.status == jm.Status.OPTIMAL).all()
        return fits & (gradient is None or (gradient == chosen).all()), jnp.abs(gap).max()

    with jax.enable_x64(True):
        fits, gap = prove(cost, *found)
    # Duals below 1, rounded to float32 on the way out.
    assert bool(fits) and float(gap) <= 2 * cost.shape[-1] * 2.0**-24, (bool(fits), float(gap))


def batched_table(rows: Sequence[Row]) -> list[Row]:
    table = []
    for row in rows:
        each = row["batch"] // row["devices"]
        same = {"devices": 1, "gradient": row["gradient"], "batch": each}
        first = [r for r in rows if all(r[k] == x for k, x in same.items())]
        table.append(
            row
            | {
                "efficiency": _over(first[0]["ms"] if first else None, row["ms"]),
                "queued_efficiency": _over(
                    first[0]["queued_ms"] if first else None, row["queued_ms"]
                ),
            }
        )
    return table


def batched_goals(table: Sequence[Row]) -> list[Row]:
    return [
        _goal(
            f"{name} on 4 devices, {row['batch'] // 4} problems each, gradient: {row['gradient']}",
            0.97,
            row[name],
        )
        for row in table
        for name in ("efficiency", "queued_efficiency")
        if row["devices"] == 4 and row[name] != ""
    ]
