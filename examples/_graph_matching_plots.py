"""The picture of the graph-matching example: a correspondence, shares, values of all starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from _graph_matching_graphs import Pair
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.ticker import PercentFormatter


COLORS = {"FAQ": "#1f6f8b", "further": "#7a8b3d", "scipy": "#d9a03f"}
LABELS = {
    "FAQ": "FAQ by jaxmatch",
    "further": "more steps, and exchanges",
    "scipy": "FAQ by scipy",
}
OF_SHARES = {
    "one start, scipy": COLORS["scipy"],
    "many starts": COLORS["FAQ"],
    "many starts, then exchanges": COLORS["further"],
}
WRONG = "#b5473c"
APART = 1.35  # from one graph to the other
NEAREST = 1e-4  # relative; what is nearer to the best is drawn as if it were there

Facts = dict[str, dict[str, Any]]
Ends = dict[str, dict[str, np.ndarray]]


def draw(
    path: Path,
    facts: Facts,
    ends: Ends,
    sweep: tuple[list[float], dict[str, list[float]]],
    shown: tuple[Pair, np.ndarray],
    starts: int,
) -> None:
    columns = max(len(facts), 2)
    figure = plt.figure(figsize=(max(5.2 * columns, 13), 9.6), layout="constrained")
    figure.get_layout_engine().set(hspace=0.05, wspace=0.04)  # type: ignore[union-attr]
    above, below = figure.subfigures(2, 1, height_ratios=(1.2, 1))
    left, right = above.subplots(1, 2, width_ratios=(1.9, 1))
    _draw_pair(left, *shown)
    _draw_shares(right, *sweep, starts)
    axes = below.subplots(1, len(facts), squeeze=False)[0]
    for ax, (name, fact) in zip(axes, facts.items(), strict=True):
        _draw_values(ax, name, fact, ends[name])
    axes[0].legend(frameon=False, loc="upper left")
    axes[0].set_ylabel(f"share of {starts} starts that end there or below")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_pair(ax: Axes, pair: Pair, best: np.ndarray) -> None:
    """A vertex of the second graph has the colour of the one that it was matched to."""
    first, second = pair.places[0], pair.places[1] + [APART, 0]
    right = best == pair.partner
    for places, adjacency in ((first, pair.first), (second, pair.second)):
        edges = places[np.argwhere(np.triu(adjacency))]
        ax.add_collection(LineCollection(list(edges), colors="0.8", linewidths=0.7, zorder=1))
    links = np.stack([first, second[best]], 1)
    ax.add_collection(
        LineCollection(list(links[right]), colors="#1f6f8b", linewidths=0.5, alpha=0.22, zorder=0)
    )
    ax.add_collection(
        LineCollection(list(links[~right]), colors=WRONG, linewidths=0.9, alpha=0.8, zorder=2)
    )
    x, y = first.T
    colors = np.stack([0.1 + 0.8 * x, 0.25 + 0.55 * y, 0.85 - 0.6 * x], -1).clip(0, 1)
    edge = np.where(right[:, None], [1.0, 1, 1], to_rgb(WRONG))
    for places in (first, second[best]):
        ax.scatter(*places.T, s=52, c=colors, edgecolors=edge, linewidths=1.3, zorder=3)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.autoscale_view()
    ax.spines[:].set_visible(False)
    ax.set_title(
        f"which vertex is which: {right.sum()} of {len(right)} recovered (red: wrong)", fontsize=13
    )


def _draw_shares(ax: Axes, noise: list[float], shares: dict[str, list[float]], starts: int) -> None:
    for name, share in shares.items():
        label = name.replace("many", str(starts))
        ax.plot(noise, share, marker="o", color=OF_SHARES[name], label=label)
    ax.set(title="vertices recovered", xlabel="standard deviation of moves, in mean distances")
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_values(ax: Axes, name: str, fact: dict[str, Any], ends: dict[str, np.ndarray]) -> None:
    """Which share of the starts ends within so much of the best."""
    known = fact["best_known"] or min(fact["best"].values())
    for solver, x in ends.items():
        above = np.sort((x / known - 1).clip(NEAREST))
        share = np.arange(1, len(x) + 1) / len(x)
        ax.step(
            [NEAREST, *above, 10],
            [0, *share, 1],
            where="post",
            color=COLORS[solver],
            label=LABELS[solver],
            linestyle="--" if solver == "scipy" else "-",
            linewidth=2,
        )
        style: dict[str, Any] = {"markersize": 9, "clip_on": False, "zorder": 4}
        ax.plot(above[0], 0, marker="^", color=COLORS[solver], **style)
    ax.set_xscale("log")
    ax.set_xlim(NEAREST, max(1.1 * (x.max() / known - 1) for x in ends.values()))
    ticks = [NEAREST, 1e-3, 1e-2, 0.1, 1]
    ticks = [x for x in ticks if x < ax.get_xlim()[1]]
    ax.set_xticks(ticks, ["0", *(f"{x:.1%}" if x < 0.01 else f"{x:.0%}" for x in ticks[1:])])
    ax.minorticks_off()
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.grid(alpha=0.25)
    seconds = fact["seconds"]
    times = f"{seconds['FAQ']:.2g} s"
    if "scipy" in ends:
        times += f", scipy {seconds['scipy'] / seconds['FAQ']:.0f} times as long"
    ax.set_title(f"{name}: {times}", fontsize=12)
    kind = "best known value" if fact["best_known"] else "best value found"
    ax.set_xlabel(f"above the {kind}, {known}")
    ax.spines[["top", "right"]].set_visible(False)
