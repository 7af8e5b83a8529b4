"""Draws the figures again from the files of `benchmarks/results`, without measuring.

    python -m benchmarks.redraw [--figures PATTERN] [--out FOLDER]

A figure shows what its file holds: whoever changes a drawing or a file draws the figure again.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import batches
from benchmarks.assignment import cpu, gpu, large, structured
from benchmarks.assignment.sharded import plots as sharded
from benchmarks.common.lanes import Store
from benchmarks.common.record import RESULTS
from benchmarks.common.workers import Measured
from benchmarks.flow import plots as flow
from benchmarks.learning import plots as learning
from benchmarks.map import __main__ as map_of_solvers
from benchmarks.matching import plots as matching
from benchmarks.min_cost_flow import solve as min_cost_flow
from benchmarks.quadratic import plots as quadratic
from benchmarks.sparse_assignment import solve as sparse
from benchmarks.transport import solve as transport


Content = dict[str, Any]
Draw = Callable[[Content, Path], Any]


def matchings(content: Content) -> tuple[Store, list[str]]:
    """The measurements of the papers' tables, and the graphs of these without their `_rcp`."""
    store = Store({})
    for row in content["measurements"]:
        known = {key: row[key] for key in Measured._fields if key in row}
        store.found[row["graph"], row["lane"], row["method"], row["start"]] = Measured(**known)
    names = dict.fromkeys(row["graph"].removesuffix("_rcp") for row in content["after_cheap"])
    return store, [*names]


def part(draw: Callable[[str, Content, Path], Any], name: str) -> Draw:
    return lambda content, path: draw(name, content, path)


# By the name of a figure: its file, and what draws it.
FIGURES: dict[str, tuple[str, Draw]] = {
    "assignment_cpu": (
        "assignment_cpu.json",
        lambda x, path: cpu.plot(x["single"], x["batches_two_threads"], path),
    ),
    "assignment_gpu": ("assignment_gpu.json", lambda x, path: gpu.plot(x["batches"], path)),
    "assignment_large": ("assignment_large.json", lambda x, path: large.plot(x["ranges"], path)),
    "assignment_large_hungarian": (
        "assignment_large.json",
        lambda x, path: large.plot_tables(x["tables_1_and_3"], path),
    ),
    "assignment_structured_cpu": (
        "assignment_structured_cpu.json",
        lambda x, path: structured.plot_cpu(x["rows"], path),
    ),
    "assignment_structured_gpu": (
        "assignment_structured_gpu.json",
        lambda x, path: structured.plot_gpu(x["rows"], path, f"one {x['gpu']}"),
    ),
    "batches": (
        "batches.json",
        lambda x, path: batches.plot(x["rows"], path, x.get("gpu", x["cpu"])),
    ),
    "flow": ("flow.json", flow.draw),
    "map_gpu": (
        "map_gpu.json",
        lambda x, path: map_of_solvers.plot(x["rows"], path, x["gpu"]),
    ),
    "matching": (
        "matching.json",
        lambda x, path: matching.whole_solves(x["targets"], x["scratch_cpu"], path),
    ),
    "matching_papers": (
        "matching.json",
        lambda x, path: matching.papers(*matchings(x), path),
    ),
    "matching_profiles": (
        "matching.json",
        lambda x, path: matching.profiles(*matchings(x), path),
    ),
    "min_cost_flow_cpu": (
        "min_cost_flow_cpu.json",
        lambda x, path: min_cost_flow.plot(x["rows"], path),
    ),
    "quadratic_cpu": (
        "quadratic_cpu.json",
        lambda x, path: quadratic.draw(x["quadratic"], x["gromov"], path),
    ),
    "sparse_assignment_cpu": (
        "sparse_assignment_cpu.json",
        lambda x, path: sparse.plot_cpu(x["rows"], path),
    ),
    "sparse_assignment_gpu": (
        "sparse_assignment_gpu.json",
        lambda x, path: sparse.plot_gpu(x["rows"], path, f"one {x['gpu']}"),
    ),
    "transport_cpu": (
        "transport_cpu.json",
        lambda x, path: transport.plot_cpu(x["rows"], path),
    ),
    "transport_gpu": (
        "transport_gpu.json",
        lambda x, path: transport.plot_gpu(x["rows"], path, f"one {x['gpu']}"),
    ),
    "learning_digit_matching": (
        "learning_digit_matching.jsonl",
        part(learning.draw, "digit_matching"),
    ),
}
for name in ("cost", "quality", "shortest_path"):
    for backend in ("cpu", "gpu"):
        figure = f"learning_{backend}_{name}"
        FIGURES[figure] = f"{figure}.json", part(learning.draw, name)
for name in ("batched", "capacity", "fast", "strong", "structured", "ties", "weak"):
    FIGURES[f"multi_gpu_{name}"] = f"multi_gpu_{name}.json", part(sharded.draw, name)
for name in ("batched", "capacity", "fast", "solvers", "strong", "structured", "ties", "weak"):
    FIGURES[f"multi_gpu_{name}_2"] = f"multi_gpu_{name}_2.json", part(sharded.draw, name)


def read(path: Path) -> Content:
    """What a file holds; the lines of a `.jsonl` as `rows`."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        return {"rows": [json.loads(line) for line in text.splitlines()]}
    return json.loads(text)


def redraw(figure: str, out: Path) -> Path:
    """Draws one figure, and returns its path."""
    file, draw = FIGURES[figure]
    path = out / f"{figure}.png"
    draw(read(RESULTS / file), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--figures", type=re.compile, default=re.compile(""), metavar="PATTERN")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    args = parser.parse_args()
    for figure in filter(args.figures.search, FIGURES):
        print(redraw(figure, args.out))


if __name__ == "__main__":
    main()
