"""The picture of the shortest-path example."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from _shortest_path_problem import ARCS, RECEIVERS, SENDERS, SIDE
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator


_SHORTEST, _PREDICTED = "#2a9d4a", "#d62728"


class Paths(NamedTuple):
    """One example: what arcs cost, the shortest path, and the one that a model chose."""

    method: str
    cost: np.ndarray  # [arcs]
    shortest: np.ndarray  # [arcs], 0 and 1
    chosen: np.ndarray


def draw(path: Path, curves: dict[str, np.ndarray], shown: Paths) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), width_ratios=(1.35, 1))
    _draw_curves(left, curves)
    _draw_grid(right, shown)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_curves(ax: Axes, curves: dict[str, np.ndarray]) -> None:
    for name, regret in sorted(curves.items(), key=lambda item: -item[1][-1]):
        percent = 100 * np.asarray(regret)
        ax.plot(percent, label=f"{name}: {percent[-1]:.1f} %", linewidth=1.6)
    ax.set(xlabel="epoch", ylabel="regret on test examples [%]", yscale="log")
    ax.set(xlim=(0, len(percent) - 1), title="what decisions cost more than the best ones")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis_format in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_format("{x:g}")
    ax.grid(alpha=0.25, which="both")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_grid(ax: Axes, shown: Paths) -> None:
    y, x = np.divmod(np.arange(SIDE**2), SIDE)
    nodes = np.stack([x, y], -1).astype(float)
    segments = np.stack([nodes[SENDERS], nodes[RECEIVERS]], 1)
    for chosen, color, shift, name in (
        (shown.shortest, _SHORTEST, -0.05, "shortest"),
        (shown.chosen, _PREDICTED, 0.05, shown.method),
    ):
        on = chosen > 0.5
        label = f"{name}: {shown.cost[on].sum():.2f}"
        lines = LineCollection(list(segments[on] + shift), colors=color, linewidths=6, alpha=0.45)
        ax.add_collection(lines)
        ax.plot([], [], color=color, linewidth=6, alpha=0.45, label=label)
    arcs = LineCollection(list(segments), array=shown.cost, cmap="viridis_r", linewidths=1.8)
    ax.add_collection(arcs)
    for (u, v), cost in zip(ARCS, shown.cost, strict=True):
        x, y = (nodes[u] + nodes[v]) / 2
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        ax.text(x, y, f"{cost:.2f}", fontsize=6.5, ha="center", va="center", bbox=box)
    ax.plot(*nodes.T, "o", color="0.2", markersize=6)
    ax.set(xlim=(-0.3, SIDE - 0.7), ylim=(SIDE - 0.7, -0.3), aspect="equal")
    ax.set_title("a test example: true costs, two paths")
    ax.axis("off")
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2)
