"""The picture of the alignment example: one molecule before and after, and all RMSDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np


COLORS = {1: "0.75", 6: "0.25", 7: "tab:blue", 8: "tab:red", 9: "tab:green"}
Shown = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def draw(
    path: Path,
    name: str,
    shown: Shown,
    elements: np.ndarray,
    rmsd: dict[str, np.ndarray],
    true_rmsd: np.ndarray,
) -> None:
    """`shown`: the original, the copy, the original after the motion, and the pairs."""
    original, copy, moved, col4row = shown
    figure = plt.figure(figsize=(14, 4.6), layout="constrained")
    for k, (title, points) in enumerate({"given": original, "aligned": moved}.items()):
        ax: Any = figure.add_subplot(1, 3, k + 1, projection="3d")
        for point, other in zip(points, copy[col4row], strict=True):
            ax.plot(*np.stack([point, other]).T, color="tab:orange", linewidth=1)
        ax.scatter(*points.T, s=120, c=[COLORS.get(int(e), "tab:purple") for e in elements],
                   edgecolors="black", label="original")  # fmt: skip
        ax.scatter(*copy.T, s=40, color="tab:orange", label="copy")
        ax.set_title(f"{name}, {title}")
        ax.set_aspect("equal")
        ax.set_box_aspect(None, zoom=1.25)
        ax.set_axis_off()
        ax.legend(loc="lower left")
    ax = figure.add_subplot(1, 3, 3)
    for values in rmsd.values():
        ax.plot(np.sort(values), np.linspace(0, 1, len(values)))
    ax.plot(np.sort(true_rmsd), np.linspace(0, 1, len(true_rmsd)), "k:")
    ax.legend([*rmsd, "the order and motion that made the copy"])
    ax.set_xlabel("RMSD (Å)")
    ax.set_ylabel("share of molecules")
    ax.grid(alpha=0.3)
    figure.savefig(path, dpi=100)
    plt.close(figure)
