"""Several GPUs: batches over a mesh, and one large problem divided over it.

    python -m benchmarks.assignment.sharded [--quick] [--devices N] [--seconds S] [--resume] [PART]

Parts, all of them unless some are named:

- `batched`: 4096 problems of 100x100 for each device under plain `jit`, with and without gradients.
  Goal: on four GPUs an efficiency of 0.97.
- `weak`: table 4 of Date and Nagi 2016: as many costs for each device.
- `strong`: their table 5: one problem over more and more devices.
- `fast`: `method="core"`, uniform float32 costs. Goal: on four GPUs 1.5 times as fast as on one at
  n = 150,000.
- `ties`: n = 10,000, whole costs of which many are equal.
- `capacity`: 200,000 x 200,000 costs (160 GB), and as many points of which no cost is ever stored.

On 1, 2, 4 devices and on 8, as far as they are there and `--devices` allows. Times are medians of
the wall time of a call. Every answer is proved optimal by a check that holds
all costs, where they lie, against the duals, and must be the same for every number of devices. Each
part writes `benchmarks/results/multi_gpu_<part>.json` after every case, and a figure of the same
name (`multi_gpu_quick_*` with `--quick`). `--seconds` ends early and says what was left out;
`--resume` keeps the rows of an earlier run. Without GPUs,
`XLA_FLAGS=--xla_force_host_platform_device_count=4` and `--quick` try it out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


# Before jax starts: 160 GB over two GPUs do not fit into its usual three quarters of each.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")

import jax  # noqa: E402

from benchmarks.assignment.gpu import gpu  # noqa: E402
from benchmarks.assignment.sharded import parts  # noqa: E402
from benchmarks.common import record as common  # noqa: E402


class Part(NamedTuple):
    cases: Callable[[bool, Sequence[int]], Iterable[parts.Case]]
    measure: Callable[[parts.Case], parts.Row]
    table: Callable[[Sequence[parts.Row]], list[parts.Row]]
    goals: Callable[[Sequence[parts.Row]], list[parts.Row]] = lambda table: []


PARTS = {
    "batched": Part(
        parts.batched_cases, parts.measure_batched, parts.batched_table, parts.batched_goals
    ),
    "weak": Part(parts.weak_cases, parts.measure_large, parts.weak_table),
    "strong": Part(parts.strong_cases, parts.measure_large, parts.strong_table),
    "fast": Part(parts.fast_cases, parts.measure_large, parts.fast_table, parts.fast_goals),
    "ties": Part(parts.ties_cases, parts.measure_large, parts.ties_table),
    "capacity": Part(parts.capacity_cases, parts.measure_capacity, parts.capacity_table),
}


def earlier_rows(name: str) -> list[parts.Row]:
    path = common.RESULTS / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def run(name: str, part: str, machine: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Measures the cases of a part while there is time, and writes what there is after each."""
    known = earlier_rows(name) if args.resume else []
    rows: list[parts.Row] = []
    left_out: list[parts.Case] = []
    failed: list[parts.Case] = []
    content = machine | {"rows": rows, "left_out": left_out, "failed": failed}
    cases, measure, table, goals = PARTS[part]
    for case in cases(args.quick, args.counts):
        same = [row for row in known if all(row.get(k) == x for k, x in case.items())]
        if same:
            rows.append(same[0])
        elif time.perf_counter() > args.end:
            left_out.append(case)
            continue
        else:
            start = time.perf_counter()
            try:
                rows.append(case | measure(case))
            except Exception as error:  # other cases may still be worth the machine's time
                traceback.print_exc()
                failed.append(case | {"error": str(error).partition("\n")[0]})
                parts.COSTS.free()
                continue
            spent = time.perf_counter() - start
            print(f"{spent:6.1f} s {part}: {rows[-1]}", flush=True)
        content["table"] = table(rows)
        content["goals"] = goals(content["table"])
        common.write_json(name, content)
    parts.COSTS.free()
    return content


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases, to try this out")
    parser.add_argument("--devices", type=int, default=4, metavar="N", help="up to N, default 4")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case later")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier run")
    common.add_parts(parser, [*PARTS])
    args = parser.parse_args()
    args.end = time.perf_counter() + args.seconds
    most = min(args.devices, len(jax.devices()))
    args.counts = [p for p in (1, 2, 4, 8) if p <= most]
    if jax.default_backend() != "gpu" and not args.quick:
        raise SystemExit("This benchmark needs GPUs; --quick tries it out without.")
    if {*args.parts} != {"batched"} and not parts.has_divided():
        raise SystemExit("This jaxmatch divides no problem: solve_assignment has no `row_axis`.")
    return args


def main() -> None:
    args = arguments()
    device = jax.devices()[0]
    machine = gpu() if device.platform == "gpu" else {}
    machine |= common.environment(["jax", "jaxlib", "numpy"])
    machine |= {"device": device.device_kind, "devices_here": len(jax.devices())}
    failures = 0
    for part in args.parts:
        name = f"multi_gpu_{'quick_' if args.quick else ''}{part}"
        content = run(name, part, machine, args)
        if content["rows"]:
            common.print_table(part, content["table"])
            if content["goals"]:
                common.print_table(f"{part}: goals", content["goals"])
            if importlib.util.find_spec("matplotlib"):
                from benchmarks.assignment.sharded import plots

                print(plots.draw(part, content, name))
        for case in content["left_out"]:
            print(f"{part}: no time left for {case}")
        failures += len(content["failed"])
        print(common.write_json(name, content))
    if failures:
        raise SystemExit(f"{failures} cases failed, see above.")


if __name__ == "__main__":
    main()
