"""The pictures of the digit matching example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from _digit_matching_data import FRAME, SIDE, Digits, GridGraph, compose
from matplotlib.lines import Line2D


if TYPE_CHECKING:
    from _digit_matching_training import Grids
    from jaxtyping import Array, Bool
    from matplotlib.axes import Axes

_RIGHT, _AS_GOOD, _WRONG, _MISSED = "#2a9d4a", "#1f77b4", "#d62728", "#ff8c00"


def draw_matchings(
    path: Path,
    graph: GridGraph,
    rows: list[tuple[str, Digits, Grids, Bool[Array, "grids edges"]]],
) -> None:
    """Grids with the matching that was found, a row for each kind of grids."""
    count = len(rows[0][2].cells)
    figure, axes = plt.subplots(len(rows), count, figsize=(3 * count, 3.3 * len(rows) + 0.4))
    for (name, digits, grids, found), line in zip(rows, np.atleast_2d(axes), strict=True):
        true_cost = np.asarray(graph.edge_cost(digits.labels[grids.cells]))
        pictures = np.asarray(compose(digits.images, grids.cells))
        for ax, *grid in zip(line, pictures, true_cost, grids.matching, found, strict=True):
            _draw_grid(ax, graph, *(np.asarray(x) for x in grid))
        line[0].set_ylabel(name)
    handles = [
        Line2D([], [], color=_RIGHT, linewidth=3, label="in the best matching"),
        Line2D([], [], color=_AS_GOOD, linewidth=3, label="in another one of the same cost"),
        Line2D([], [], color=_WRONG, linewidth=3, label="wrong"),
        Line2D([], [], color=_MISSED, linewidth=2, linestyle=":", label="missed"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.4 / (3.3 * len(rows) + 0.4), 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_grid(
    ax: Axes,
    graph: GridGraph,
    picture: np.ndarray,
    true_cost: np.ndarray,
    best: np.ndarray,
    found: np.ndarray,
) -> None:
    excess = int(true_cost @ found - true_cost @ best)
    ax.imshow(picture[FRAME:-FRAME, FRAME:-FRAME], cmap="gray_r", vmax=1.6)
    for edge in np.flatnonzero(found | best):
        ends = np.array([graph.first[edge], graph.second[edge]])
        y, x = (SIDE * (place + 0.5) - 0.5 for place in np.divmod(ends, graph.k))
        if not found[edge]:
            if excess:
                ax.plot(x, y, color=_MISSED, linewidth=1.5, linestyle=":")
            continue
        color = _RIGHT if best[edge] else _WRONG if excess else _AS_GOOD
        ax.plot(x, y, color=color, linewidth=16 / graph.k, alpha=0.7, solid_capstyle="round")
    title = f"cost {true_cost @ found:.0f}" + (f", {excess} too much" if excess else ", optimal")
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9, color=_WRONG if excess else "black")


def draw_training(path: Path, log: dict[str, Any], title: str) -> None:
    """Accuracy after each epoch, of all restarts, and the loss of each step."""
    figure, ax = plt.subplots(figsize=(7.5, 4.2))
    loss = np.asarray(log["loss"])
    steps = np.arange(1, len(loss) + 1) / len(loss) * len(log["test"])
    ax.plot(steps, loss, color="0.8", linewidth=0.6)
    ax.set(xlabel="epoch", ylabel="loss", xlim=(0, len(log["test"])), ylim=(0, None))
    right = ax.twinx()
    colors = {"test": _RIGHT, "unseen": _MISSED}
    names = {"test": "new grids", "unseen": "new grids of digits not trained on"}
    for key, color in colors.items():
        accuracy = np.asarray(log[key])
        right.plot(np.arange(1, len(accuracy) + 1), accuracy, "o-", color=color, markersize=4)
        label = f"{names[key]}: {accuracy[-1].mean():.1%}"
        right.plot([], [], "o-", color=color, label=label)
    right.set(ylim=(0, 1.02), ylabel="matchings that are optimal")
    right.legend(loc="center right", frameon=False)
    ax.set_title(title, fontsize=11)
    for side in (ax, right):
        side.spines["top"].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
