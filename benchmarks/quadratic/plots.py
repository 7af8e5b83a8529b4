"""The figure of `quadratic_cpu.json`: times of scipy and POT relative to ours."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import plots
from benchmarks.common.record import Row


HOW = {"NumPy arrays": "eager", "jit, float64": "jit", "jit, float32": "jit32"}


def draw(quadratic: list[Row], gromov: list[Row], path: Path) -> Path:
    figure, (left, right) = plots.plt.subplots(1, 2, figsize=(12, 5.5), sharey=True)
    labels = [f"{row['row']}, {row['starts']} starts" for row in quadratic]
    plots.relative_to_ours(
        left, labels, {k: [r[f"scipy/{v}"] for r in quadratic] for k, v in HOW.items()}
    )
    left.set_title("scipy's time relative to quadratic_assignment", fontsize=10)
    alone = [row for row in gromov if row["bounds"] == "none"]
    labels = [row["row"] for row in alone]
    plots.relative_to_ours(
        right, labels, {k: [r[f"pot/{v}"] for r in alone] for k, v in HOW.items()}
    )
    right.set_title("POT's time relative to gromov_wasserstein", fontsize=10)
    for axes in (left, right):
        plots.legend(axes)
    return plots.save(figure, path)
