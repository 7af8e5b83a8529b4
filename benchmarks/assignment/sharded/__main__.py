"""Several GPUs: batches over a mesh, and one large problem divided over it.

    python -m benchmarks.assignment.sharded [--quick] [--devices N] [--seconds S] [--resume]
        [--out FOLDER] [PART ...]

Parts, all of them unless some are named:

- `solvers`: batches of transport, capacities, sparse assignment, flows and grid cuts.
- `batched`: 4096 problems of 100x100 for each device under plain `jit`, with and without gradients.
  Goal: on four GPUs an efficiency of 0.97.
- `weak`: table 4 of Date and Nagi 2016: as many costs for each device.
- `strong`: their table 5: one problem over more and more devices.
- `fast`: `method="core"`, uniform float32 costs. Goal: on four GPUs 1.5 times as fast as on one at
  n = 150,000.
- `structured`: 10,000 and 50,000 points on a sphere against a shape, in 20 clusters, and in a
  square, and four fifths of them against all: costs are stored. Goal: 50,000 points on a sphere on
  two GPUs 1.6 times as fast as on one.
- `ties`: n = 10,000, integer costs, many of them equal.
- `capacity`: 200,000 x 200,000 costs (160 GB), and as many points, whose costs are not stored.

On 1, 2, 4 devices and on 8, as far as they are there and `--devices` allows. Times are medians of
the wall time of a call. Every answer is proved optimal by a check of all costs against the duals,
and must be the same for every number of devices. Each part writes `multi_gpu_<part>.json` after
every case, and a figure of the same name. `--seconds` ends early and says what was left out;
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
from typing import Any


# Before jax starts: 160 GB over two GPUs do not fit into its usual three quarters of each.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")

import jax  # noqa: E402

from benchmarks.assignment.sharded.parts import COSTS, PARTS, Case  # noqa: E402
from benchmarks.common import options, record  # noqa: E402
from benchmarks.common.record import Row  # noqa: E402


def run(name: str, part: str, machine: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Measures the cases of a part while there is time, and writes what there is after each."""
    path = args.out / f"{name}.json"
    known = json.loads(path.read_text())["rows"] if args.resume and path.exists() else []
    rows: list[Row] = []
    left_out: list[Case] = []
    failed: list[Case] = []
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
                COSTS.free()
                continue
            spent = time.perf_counter() - start
            print(f"{spent:6.1f} s {part}: {rows[-1]}", flush=True)
        content["table"] = table(rows)
        content["goals"] = goals(content["table"])
        record.write_json(args.out, name, content)
    COSTS.free()
    return content


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__, "small cases, to try this out")
    parser.add_argument("--devices", type=int, default=4, metavar="N", help="up to N, default 4")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case later")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier run")
    options.add_parts(parser, [*PARTS])
    args = options.parse(parser)
    args.end = time.perf_counter() + args.seconds
    most = min(args.devices, len(jax.devices()))
    args.counts = [p for p in (1, 2, 4, 8) if p <= most]
    if jax.default_backend() != "gpu" and not args.quick:
        raise SystemExit("This benchmark needs GPUs; --quick tries it out without.")
    return args


def main() -> None:
    args = arguments()
    device = jax.devices()[0]
    machine = record.gpu() if device.platform == "gpu" else {}
    machine |= record.environment(["jax", "jaxlib", "numpy"])
    machine |= {"device": device.device_kind, "devices_here": len(jax.devices())}
    failures = 0
    for part in args.parts:
        name = f"multi_gpu_{part}"
        content = run(name, part, machine, args)
        if content["rows"]:
            record.print_table(part, content["table"])
            record.print_table(f"{part}: goals", content["goals"])
            if importlib.util.find_spec("matplotlib"):
                from benchmarks.assignment.sharded import plots

                print(plots.draw(part, content, args.out / f"{name}.png"))
        for case in content["left_out"]:
            print(f"{part}: no time left for {case}")
        failures += len(content["failed"])
        print(record.write_json(args.out, name, content))
    if failures:
        raise SystemExit(f"{failures} cases failed, see above.")


if __name__ == "__main__":
    main()
