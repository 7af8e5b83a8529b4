"""Quadratic assignment beside scipy, Gromov-Wasserstein beside POT, on one core.

    python -m benchmarks.quadratic [--quick] [--out FOLDER]

Both get the same float64 arrays and the same starts. A time is the least of several runs, in what
the processor spent, as other processes may have a part of it; solvers run in turn. "eager" is a
call on NumPy arrays, "jit" a compiled one in float64, and "jit, float32" the same in float32; what
compiles runs before. Writes `quadratic_cpu.json` and `.png`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before NumPy counts the cores

import jax  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import quadratic_assignment as of_scipy  # noqa: E402

import jaxmatch as jm  # noqa: E402
from benchmarks.common import options, record  # noqa: E402
from benchmarks.common.record import Row, ratio  # noqa: E402
from benchmarks.quadratic import plots, problems  # noqa: E402


PACKAGES = ["jax", "jaxlib", "numpy", "scipy", "pot"]
RUNS, BUDGET = 5, 6.0  # seconds for all runs of a row
KEY = 0


def in_turn(calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    """The results of first runs, and the least processor milliseconds of later ones."""
    results = {name: call() for name, call in calls.items()}
    spent: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + BUDGET
    for run in range(RUNS):
        if run and time.perf_counter() > end:
            break
        for name, call in calls.items():
            start = time.process_time()
            call()
            spent[name].append(1e3 * (time.process_time() - start))
    return results, {name: min(x) for name, x in spent.items()}


def in_jax(function: Callable[..., Any], *arrays: np.ndarray, dtype: str) -> Callable[[], Any]:
    """A call of the compiled function, on arrays that are there."""
    with jax.enable_x64(dtype == "float64"):
        there = [jax.numpy.asarray(x, dtype) for x in arrays]
        compiled = jax.jit(function).lower(*there).compile()
    return lambda: jax.block_until_ready(compiled(*there))


def quadratic(instance: problems.Instance, count: int) -> Row:
    a, b, maximize = instance.a, instance.b, instance.maximize
    starts = problems.starts(len(a), count)

    def ours(a: Any, b: Any, starts: Any) -> Any:
        return jm.quadratic_assignment(a, b, starts=starts, maximize=maximize)

    def scipys() -> list[float]:
        given = [{"P0": start, "maximize": maximize} for start in starts]
        return [of_scipy(a, b, options=x).fun for x in given]

    results, ms = in_turn({
        "eager": lambda: ours(a, b, starts),
        "jit": in_jax(ours, a, b, starts, dtype="float64"),
        "jit32": in_jax(ours, a, b, starts, dtype="float32"),
        "scipy": scipys,
    })  # fmt: skip
    best = max if maximize else min
    further = jm.quadratic_assignment(
        a, b, starts=count, maximize=maximize, two_opt=True, key=jax.random.key(KEY)
    )
    res = results["eager"]
    return {
        "row": instance.name,
        "starts": count,
        "known": instance.known,
        "eager_ms": ms["eager"],
        "jit_ms": ms["jit"],
        "jit32_ms": ms["jit32"],
        "scipy_ms": ms["scipy"],
        "scipy/eager": ratio(ms["scipy"], ms["eager"]),
        "scipy/jit": ratio(ms["scipy"], ms["jit"]),
        "scipy/jit32": ratio(ms["scipy"], ms["jit32"]),
        "best": float(res.value),
        "scipy_best": best(results["scipy"]),
        "own_starts_two_opt": float(further.value),
        "same": float(np.isclose(res.values, results["scipy"], rtol=1e-9).mean()),
    }


def gromov(n: int, kind: str, bounds: tuple[str, ...]) -> Row:
    import ot

    c1, c2, p, q = problems.spaces(n, kind)
    given = (c1, c2) if kind == "equal" else (c1, c2, p, q)

    def ours(*given: Any) -> Any:
        return jm.gromov_wasserstein(*given, bounds=bounds)

    def pots() -> float:
        return ot.gromov.gromov_wasserstein(c1, c2, p, q, log=True)[1]["gw_dist"]

    results, ms = in_turn({
        "eager": lambda: ours(*given),
        "jit": in_jax(ours, *given, dtype="float64"),
        "jit32": in_jax(ours, *given, dtype="float32"),
        "pot": pots,
    })  # fmt: skip
    res = results["eager"]
    return {
        "row": f"{n} points, {kind} masses",
        "bounds": ", ".join(bounds) or "none",
        "eager_ms": ms["eager"],
        "jit_ms": ms["jit"],
        "jit32_ms": ms["jit32"],
        "pot_ms": ms["pot"],
        "pot/eager": ratio(ms["pot"], ms["eager"]),
        "pot/jit": ratio(ms["pot"], ms["jit"]),
        "pot/jit32": ratio(ms["pot"], ms["jit32"]),
        "value": float(res.value),
        "bound": float(res.bound),
        "gap": float(res.gap),
        "value - pot": float(res.value) - results["pot"],
        "steps": int(res.steps[0]),
    }


def main() -> None:
    args = options.parse(options.parser(__doc__, "few and small rows"))
    cases = [(problems.chr12c(), count) for count in ((1, 4) if args.quick else (1, 16, 256))]
    if not args.quick:
        cases += [(problems.tai64c(), count) for count in (1, 16, 256)]
        cases += [(problems.graphs(100), count) for count in (1, 16, 256)]
        cases += [(problems.graphs(300), count) for count in (1, 16)]
        cases += [(problems.graphs(1000), 1)]
    content: Row = record.environment(PACKAGES)  # the commit that is measured, not a later one
    rows = []
    for case in cases:
        rows.append(quadratic(*case))
        record.print_table("quadratic assignment", rows[-1:])
    plans = []
    for n in (30,) if args.quick else (100, 300):
        for kind in ("equal", "random"):
            for bounds in ((),) if args.quick else ((), ("first", "second")):
                plans.append(gromov(n, kind, bounds))
                record.print_table("Gromov-Wasserstein", plans[-1:])
    record.print_table("quadratic assignment", rows)
    record.print_table("Gromov-Wasserstein", plans)
    content |= {"quadratic": rows, "gromov": plans}
    print(record.write_json(args.out, "quadratic_cpu", content))
    if not args.quick:
        print(plots.draw(rows, plans, args.out / "quadratic_cpu.png"))


if __name__ == "__main__":
    main()
