"""Gradients through solvers: what they cost, how good they are, and what models learn by them.

    python benchmarks/learning.py [--quick] [--only PART]

Parts:

- `cost`: fused perturbed gradients beside `optax.perturbations`, memory, warm-started backward
  passes (`_learning_perturbed.py`).
- `quality`: cosine, bias, variance and cost of every rule against the exact smoothed Jacobian
  (`_learning_quality.py`).
- `shortest_path`: PyEPO's benchmark with all rules (`_learning_shortest_path.py`).

The perfect matching of digits has a program of its own, `_learning_digit_matching.py`, as a run
takes minutes on a GPU. Times on a CPU mean little elsewhere: read ratios.
Writes `benchmarks/results/learning_<cpu or gpu>.json` and `learning_<cpu or gpu>_<part>.png`
(`learning_quick_*` with `--quick`); `learning_digit_matching.jsonl`, which that program's `--out`
writes, is drawn too if it is there. Needs optax, tqdm and matplotlib.
"""

from __future__ import annotations

import argparse
from typing import Any

import _common as common
import _learning_perturbed as perturbed
import _learning_plots as plots
import _learning_quality as quality
import _learning_shortest_path as shortest_path
import jax


PARTS = ("cost", "quality", "shortest_path")
PACKAGES = ("jax", "jaxlib", "numpy", "optax", "ott-jax")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases, to try this out")
    parser.add_argument("--only", choices=PARTS, help="one part")
    args = parser.parse_args()
    device = jax.devices()[0]
    content: dict[str, Any] = common.environment(PACKAGES) | {"device": device.device_kind}
    reached: list[dict[str, Any]] = []
    if args.only in (None, "cost"):
        content["cost"] = perturbed.run(args.quick)
        for name, rows in content["cost"].items():
            common.print_table(name, [{k: row.get(k, "") for k in rows[0]} for row in rows])
        reached += perturbed.criteria(content["cost"])
    if args.only in (None, "quality"):
        content["quality"] = {"rows": quality.run(args.quick), "about": quality.about()}
        for title, table in quality.tables(content["quality"]["rows"]).items():
            common.print_table(title, table)
    if args.only in (None, "shortest_path"):
        few = {"seeds": range(2), "epochs": 2, "size": 100} if args.quick else {}
        rows = shortest_path.run(**few)
        content["shortest_path"] = {"rows": rows, "about": shortest_path.about()}
        for kind in ("published", "own"):
            table = [
                {k: "" if x is None else x for k, x in row.items() if k not in shortest_path.LISTS}
                for row in rows
                if row["data"] == kind
            ]
            common.print_table(f"shortest path, data: {kind}", table)
        reached += shortest_path.criteria(rows)
    content["criteria"] = reached
    if reached:
        common.print_table("criteria", reached)
    backend = "gpu" if device.platform == "gpu" else "cpu"
    name = f"learning_{'quick_' if args.quick else ''}{backend}"
    print(common.write_json(name, content))
    for path in plots.draw(content, name):
        print(path)


if __name__ == "__main__":
    main()
