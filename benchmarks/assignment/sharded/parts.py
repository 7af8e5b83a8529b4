"""The parts of the benchmark of several GPUs: their cases, and a row for each case.

A case identifies its row; `devices` is one of its fields. `form` is `"plain"` for the method of one
device, `"divided"` for the program that shards a problem over a mesh, also over one device.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxmatch as jm
from benchmarks.assignment.large import RANGES
from benchmarks.assignment.sharded import problems, solvers
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import timed


Case = dict[str, Any]

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


class Part(NamedTuple):
    """Cases of a part from `quick` and the numbers of devices, a measurement, a table of rows."""

    cases: Callable[[bool, Sequence[int]], Iterator[Case]]
    measure: Callable[[Case], Row]
    table: Callable[[Sequence[Row]], list[Row]]
    goals: Callable[[Sequence[Row]], list[Row]] = lambda table: []


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
    rows = case.get("rows", n)
    real_rows, real_cols = (np.arange(len(cost)) < k for k in (rows, n))
    options: dict[str, Any] = {"row_axis": problems.AXIS} if divided else {}
    if not (real_rows.all() and real_cols.all()):
        options |= {"row_mask": real_rows, "col_mask": real_cols}

    @jax.jit
    def solve(cost: jax.Array) -> jm.Assignment:
        return jm.solve_assignment(cost, method=case["method"], **options)

    with jax.enable_x64(True):
        if divided:
            with jax.set_mesh(mesh):
                res, ms = timed(solve, cost, least=2, most=7)
        else:
            alone = cost.addressable_data(0)
            res, ms = timed(solve, alone, least=2, most=7)
    row = {"ms": ms} | problems.prove((cost,), res, n, mesh, rows)
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
        value = values.setdefault((row.get("rows"), row["n"], row["costs"]), row["value"])
        exact = row["costs"] in problems.INTEGERS
        assert math.isclose(row["value"], value, rel_tol=0 if exact else 1e-9), row


def _find(table: Sequence[Row], **wanted: Any) -> float | None:
    found = [row["ms"] for row in table if all(row.get(k) == x for k, x in wanted.items())]
    return found[0] if found else None


def _efficiency(
    rows: Sequence[Row],
    row: Row,
    keys: Sequence[str],
    same: Sequence[str],
    times: Sequence[float] | None,
    work: int,
) -> Row:
    """`keys` of a row, and its efficiency for `work` times the work of one device.

    By the method of one device, by the divided program on one device (rows with the `same`), and
    that of the paper by its `times` on 1, 2, 4 and 8 devices.
    """
    devices = row["devices"]
    found = {k: row[k] for k in keys}
    for form in ("plain", "divided"):
        first = _find(rows, **{k: row[k] for k in same}, devices=1, form=form)
        found[f"efficiency_by_{form}"] = ratio(first, row["ms"] * devices / work)
    paper: dict[int, float] = dict(zip((1, 2, 4, 8), times or (), strict=False))
    alone, theirs = paper.get(1), paper.get(devices)
    found["paper_efficiency"] = ratio(alone and alone * work, theirs and theirs * devices)
    return found | {"paper_s": theirs}


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
    keys = ("method", "form", "devices", "n", "ms")
    table = []
    for row in rows:
        devices = row["devices"]
        times = PAPER_WEAK.get(row["method"]) if row["n"] == weak_side(False, devices) else None
        table.append(_efficiency(rows, row, keys, ["method"], times, devices))
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
    keys = ("n", "method", "form", "devices", "ms")
    table = []
    for row in rows:
        times = PAPER_STRONG.get(row["method"], {}).get(row["n"])
        table.append(_efficiency(rows, row, keys, ("method", "n"), times, 1))
    return table


# ---------------------------------------------------------------------------------------------
# The fastest method


def fast_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    for n in (200, 400) if quick else (20000, 50000, 100000, 150000):
        for form, devices in _forms(counts):
            if 4 * n * n / devices <= BYTES_A_DEVICE:
                yield _large(n, "uniform", "core", form, devices)


def speed_ups(rows: Sequence[Row], same: Sequence[str], keys: Sequence[str] = ()) -> list[Row]:
    """By the method of one device for the `same` problem; `keys` are shown too."""
    check_agreement(rows)
    table = []
    for row in rows:
        problem = {k: row.get(k) for k in same}
        found = problem | {k: row[k] for k in ("form", "devices", "ms")}
        found["speed_up"] = ratio(_find(rows, **problem, form="plain"), row["ms"])
        table.append(found | {k: row[k] for k in keys})
    return table


def fast_table(rows: Sequence[Row]) -> list[Row]:
    return speed_ups(rows, ["n"], ("value", "proved_gap", "gap"))


def fast_goals(table: Sequence[Row]) -> list[Row]:
    return [
        _goal(f"speed-up at n = {row['n']} on 4 devices", 1.5, row["speed_up"])
        for row in table
        if row["n"] == 150_000 and row["devices"] == 4 and row["speed_up"]
    ]


def _goal(what: str, least: float, found: float) -> Row:
    return {"goal": what, "at_least": least, "found": found, "met": found >= least}


# ---------------------------------------------------------------------------------------------
# Costs with structure


def structured_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    """Also with four rows for five columns, where columns stay."""
    for n in (200,) if quick else (10_000, 50_000):
        for costs in problems.POINTS:
            for rows in (n, 4 * n // 5):
                for form, devices in _forms(counts):
                    case = _large(n, costs, "auto" if form == "plain" else "core", form, devices)
                    yield {"rows": rows} | case


def structured_table(rows: Sequence[Row]) -> list[Row]:
    return speed_ups(rows, ("rows", "n", "costs"), ("value", "proved_gap"))


def structured_goals(table: Sequence[Row]) -> list[Row]:
    return [
        _goal(f"speed-up of {row['costs']} on 2 devices", 1.6, row["speed_up"])
        for row in table
        if (row["rows"], row["n"], row["costs"]) == (50_000, 50_000, "sphere to shape")
        if row["devices"] == 2 and row["speed_up"]
    ]


# ---------------------------------------------------------------------------------------------
# Many ties: where rows have more zeros than are exchanged as lists, a search has more exchanges


def ties_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    n = 200 if quick else 10000
    for costs in (kind for kind in problems.INTEGERS if kind != "10n"):
        for form, devices in _forms(counts):
            for method in METHODS:
                yield _large(n, costs, method, form, devices)


def ties_table(rows: Sequence[Row]) -> list[Row]:
    return speed_ups(rows, ("n", "costs", "method"))


# ---------------------------------------------------------------------------------------------
# More than one device holds


def capacity_cases(quick: bool, counts: Sequence[int]) -> Iterator[Case]:
    n = 400 if quick else 200_000
    fitting = [p for p in counts if p > 1 and 4 * n * n / p <= BYTES_A_DEVICE]
    for devices in reversed(fitting):
        yield _large(n, "uniform", "core", "divided", devices)
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
        return jm.solve_assignment_points(x, y, **options)

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
    keys = ("n", "costs", "form", "devices", "ms", "value", "proved_gap", "gap")
    return [
        {k: row[k] for k in keys}
        | {"gigabytes": 4 * row["n"] ** 2 / 1e9 if row["costs"] == "uniform" else None}
        | {"peak_gigabytes_so_far": row.get("peak_gigabytes_so_far")}
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
    found, ms = timed(compiled, cost, least=2, most=50)
    queue = 20
    _, queued = timed(lambda: [compiled(cost) for _ in range(queue)], least=2, most=20)
    _check_batch(cost, *(found if case["gradient"] else (found, None)))
    return {"ms": ms, "queued_ms": queued / queue, "moves": ", ".join(moves)}


def _check_batch(cost: jax.Array, res: jm.Assignment, gradient: jax.Array | None) -> None:
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
        fits, gap = prove(cost, res, gradient)
    # Duals below 1, rounded to float32 on the way out.
    assert bool(fits) and float(gap) <= 2 * cost.shape[-1] * 2.0**-24, (bool(fits), float(gap))


def batched_table(rows: Sequence[Row]) -> list[Row]:
    table = []
    for row in rows:
        each = row["batch"] // row["devices"]
        same = {"devices": 1, "gradient": row["gradient"], "batch": each}
        first = next((r for r in rows if all(r[k] == x for k, x in same.items())), {})
        efficiency = ratio(first.get("ms"), row["ms"])
        queued = ratio(first.get("queued_ms"), row["queued_ms"])
        table.append(row | {"efficiency": efficiency, "queued_efficiency": queued})
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
        if row["devices"] == 4 and row[name]
    ]


PARTS = {
    "solvers": Part(solvers.cases, solvers.measure, solvers.table),
    "batched": Part(batched_cases, measure_batched, batched_table, batched_goals),
    "weak": Part(weak_cases, measure_large, weak_table),
    "strong": Part(strong_cases, measure_large, strong_table),
    "fast": Part(fast_cases, measure_large, fast_table, fast_goals),
    "structured": Part(structured_cases, measure_large, structured_table, structured_goals),
    "ties": Part(ties_cases, measure_large, ties_table),
    "capacity": Part(capacity_cases, measure_capacity, capacity_table),
}
