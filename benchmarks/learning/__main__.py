"""Gradients through solvers: what they cost, how good they are, and what models learn by them.

    python -m benchmarks.learning [--quick] [PART ...]

Parts, all of them unless some are named:

- `cost`: fused perturbed gradients beside `optax.perturbations`, memory, warm-started backward
  passes (`learning/perturbed.py`).
- `quality`: cosine, bias, variance and cost of every rule against the exact smoothed Jacobian
  (`learning/quality.py`).
- `shortest_path`: PyEPO's benchmark with all rules (`learning/shortest_path.py`).
- `digit_matching`: only draws what `digit_matching.py --out` has written to
  `learning_digit_matching.jsonl`, as a run takes minutes on a GPU.

Times on a CPU mean little elsewhere: read ratios. Each part writes
`benchmarks/results/learning_<cpu or gpu>_<part>.json` (`learning_quick_*` with `--quick`) and a
figure of the same name. Needs optax, tqdm and matplotlib, and ott-jax for the entropic rule.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import jax

from benchmarks.common import record as common
from benchmarks.learning import perturbed, plots, quality, shortest_path


PACKAGES = ("jax", "jaxlib", "numpy", "optax", "ott-jax")
DIGITS = common.RESULTS / "learning_digit_matching.jsonl"


def cost(quick: bool) -> dict[str, Any]:
    found = perturbed.run(quick)
    for name, rows in found.items():
        common.print_table(name, [{k: row.get(k, "") for k in rows[0]} for row in rows])
    return found | {"criteria": perturbed.criteria(found)}


def gradient_quality(quick: bool) -> dict[str, Any]:
    rows = quality.run(quick)
    for title, table in quality.tables(rows).items():
        common.print_table(title, table)
    return {"rows": rows, "about": quality.about()}


def shortest_paths(quick: bool) -> dict[str, Any]:
    few = {"seeds": range(2), "epochs": 2, "size": 100} if quick else {}
    rows = shortest_path.run(**few)
    for kind, table in shortest_path.tables(rows).items():
        common.print_table(f"shortest path, data: {kind}", table)
    about = shortest_path.about()
    return {"rows": rows, "about": about, "criteria": shortest_path.criteria(rows)}


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "cost": cost,
    "quality": gradient_quality,
    "shortest_path": shortest_paths,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases, to try this out")
    common.add_parts(parser, [*PARTS, "digit_matching"])
    args = parser.parse_args()
    device = jax.devices()[0]
    backend = "gpu" if device.platform == "gpu" else "cpu"
    for part in args.parts:
        name = f"learning_{'quick_' if args.quick else ''}{backend}_{part}"
        if part == "digit_matching":
            if DIGITS.exists():
                rows = [json.loads(line) for line in DIGITS.read_text().splitlines()]
                print(plots.draw(part, {"rows": rows}, DIGITS.stem))
            continue
        machine = common.environment(PACKAGES) | {"device": device.device_kind}
        content = machine | PARTS[part](args.quick)
        if "criteria" in content:
            common.print_table(f"{part}: criteria", content["criteria"])
        print(common.write_json(name, content))
        print(plots.draw(part, content, name))


if __name__ == "__main__":
    main()
