"""Gradients through solvers: what they cost, how good they are, and what models learn by them.

    python -m benchmarks.learning [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER] [PART ...]

Parts, all of them unless some are named:

- `cost`: fused perturbed gradients beside `optax.perturbations`, memory, warm-started backward
  passes (`perturbed.py`).
- `quality`: cosine, bias, variance and cost of every rule against the exact smoothed Jacobian
  (`quality.py`).
- `shortest_path`: PyEPO's benchmark with all rules (`shortest_path.py`).
- `digit_matching`: only draws `learning_digit_matching.jsonl`, which `digit_matching.py --out` has
  written, as a run takes minutes on a GPU.

Times on a CPU mean little elsewhere: read ratios. Each part writes `learning_<cpu or gpu>_<part>`
as JSON, and a figure of the same name. A row's name is like "fused 16x100x32, noise 0.3", "quality
Blackbox" or "shortest_path SPO+". Needs optax, tqdm and matplotlib, and ott-jax for the entropic
rule.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import jax

from benchmarks.common import options, record
from benchmarks.learning import perturbed, plots, quality, shortest_path


PACKAGES = ("jax", "jaxlib", "numpy", "optax", "ott-jax")
DIGITS = record.RESULTS / "learning_digit_matching.jsonl"


def cost(args: argparse.Namespace) -> dict[str, Any]:
    found = perturbed.run(args)
    for name, rows in found.items():
        record.print_table(name, rows)
    return found | ({"criteria": perturbed.criteria(found)} if args.complete else {})


def gradient_quality(args: argparse.Namespace) -> dict[str, Any]:
    rows = quality.run(args)
    for title, table in quality.tables(rows).items():
        record.print_table(title, table)
    return {"rows": rows, "about": quality.ABOUT}


def shortest_paths(args: argparse.Namespace) -> dict[str, Any]:
    few = {"seeds": range(2), "epochs": 2, "size": 100} if args.quick else {}
    methods = [x for x in shortest_path.ALL if args.rows.search(f"shortest_path {x}")]
    rows = shortest_path.run(methods=methods, **few)
    for kind in ("published", "own"):
        some = [row for row in rows if row["data"] == kind]
        hidden = ("seeds", "regrets_percent", "data")
        record.print_table(f"shortest path, data: {kind}", some, hidden)
    content = {"rows": rows, "about": shortest_path.about()}
    return content | ({"criteria": shortest_path.criteria(rows)} if args.complete else {})


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "cost": cost,
    "quality": gradient_quality,
    "shortest_path": shortest_paths,
}


def main() -> None:
    parser = options.parser(__doc__, "small cases, to try this out", selects=True)
    options.add_parts(parser, [*PARTS, "digit_matching"])
    args = options.parse(parser)
    device = jax.devices()[0]
    backend = "gpu" if device.platform == "gpu" else "cpu"
    for part in args.parts:
        if part == "digit_matching":
            if DIGITS.exists():
                rows = [json.loads(line) for line in DIGITS.read_text().splitlines()]
                print(plots.draw(part, {"rows": rows}, args.out / f"{DIGITS.stem}.png"))
            continue
        machine = record.environment(PACKAGES) | {"device": device.device_kind}
        content = machine | PARTS[part](args)
        record.print_table(f"{part}: criteria", content.get("criteria", []))
        path = record.write_json(args.out, f"learning_{backend}_{part}", content)
        print(path)
        if args.complete:
            print(plots.draw(part, content, path.with_suffix(".png")))


if __name__ == "__main__":
    main()
