"""The picture of the flow-matching example: paths, step times, distances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection


COLORS = {"independent": "#b5473c", "jaxmatch": "#1f6f8b", "scipy": "#d9a03f"}
TITLES = {
    "independent": "independent pairs",
    "jaxmatch": "exact plans by jaxmatch",
    "scipy": "exact plans by scipy",
}
SHOWN_PATHS = 400
SHOWN_DIGITS = 5

Paths = dict[str, dict[int, np.ndarray]]  # by coupling and number of Euler steps
Facts = dict[str, dict[str, Any]]


def draw(
    path: Path, paths: Paths, facts: Facts, floor: float, test: np.ndarray, batch: int
) -> None:
    wide = test.shape[-1] != 2
    figure = plt.figure(figsize=(4.8 * len(paths), 9.4 if wide else 9.0), layout="constrained")
    figure.get_layout_engine().set(hspace=0.04, wspace=0.04)  # type: ignore[union-attr]
    grid = figure.add_gridspec(2, 2 * len(paths), height_ratios=(1.5, 1))
    ax = None
    for k, (name, of_steps) in enumerate(paths.items()):
        ax = figure.add_subplot(grid[0, 2 * k : 2 * k + 2], sharex=ax, sharey=ax)
        if wide:
            _draw_digits(ax, of_steps)
        else:
            _draw_paths(ax, of_steps[max(of_steps)], test)
        ax.set_title(f"{TITLES[name]}\ncurvature {facts[name]['curvature']:.3f}", fontsize=13)
    _draw_times(figure.add_subplot(grid[1, : len(paths)]), facts, batch)
    _draw_distances(figure.add_subplot(grid[1, len(paths) :]), facts, floor)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_paths(ax: Axes, path: np.ndarray, test: np.ndarray) -> None:
    """From dark starts to coloured ends; grey behind them is the target."""
    ax.scatter(*test.T, s=5, c="0.82", linewidths=0)
    shown = path[:, :SHOWN_PATHS]
    lines = LineCollection(list(shown.swapaxes(0, 1)), colors="#7a8b3d", linewidths=0.6, alpha=0.45)
    ax.add_collection(lines)
    ax.scatter(*shown[0].T, s=7, c="black", linewidths=0, label="start")
    ax.scatter(*shown[-1].T, s=7, c="#3b5bdb", linewidths=0, label="end", zorder=3)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.autoscale_view()
    ax.legend(frameon=False, loc="upper left", handletextpad=0.1, markerscale=2)


def _draw_digits(ax: Axes, of_steps: dict[int, np.ndarray]) -> None:
    """A row for each point of the source, a column for each number of Euler steps."""
    starts = next(iter(of_steps.values()))[0]
    columns = {"noise": starts} | {f"{count}": path[-1] for count, path in of_steps.items()}
    tiles = [[x.reshape(8, 8) for x in ends[:SHOWN_DIGITS]] for ends in columns.values()]
    framed = np.pad(np.array(tiles), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    image = framed.transpose(1, 2, 0, 3).reshape(10 * SHOWN_DIGITS, 10 * len(columns))
    ax.imshow(image, cmap="gray_r", vmin=-1, vmax=1)
    ax.set_xticks(10 * np.arange(len(columns)) + 4.5, list(columns))
    ax.set(yticks=[], xlabel="Euler steps")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _draw_times(ax: Axes, facts: Facts, batch: int) -> None:
    for at, (name, fact) in enumerate(facts.items()):
        coupling = fact["step_ms"] * fact["coupling_share"]
        rest = fact["step_ms"] - coupling
        ax.barh(at, rest, 0.62, color="0.78", label="" if at else "the rest of the step")
        ax.barh(at, coupling, 0.62, left=rest, color=COLORS[name])
        share = f" ({fact['coupling_share']:.0%} coupling)" if coupling else ""
        ax.text(fact["step_ms"], at, f"  {fact['step_ms']:.1f} ms{share}", va="center")
    ax.set_yticks(range(len(facts)), list(facts))
    ax.invert_yaxis()
    ax.set(title=f"time of a training step, {batch} points", xlabel="median [ms]")
    ax.set_xlim(0, 1.45 * max(fact["step_ms"] for fact in facts.values()))
    ax.legend(frameon=False, loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_distances(ax: Axes, facts: Facts, floor: float) -> None:
    for name, fact in facts.items():
        counts, distances = zip(*fact["wasserstein"].items(), strict=True)
        # scipy's plans are the same, so its curve lies on ours.
        style: dict[str, Any] = {"linestyle": "--", "marker": "x"}
        style = style if name == "scipy" else {"marker": "o"}
        ax.plot(counts, distances, color=COLORS[name], label=TITLES[name], **style)
    ax.axhline(floor, color="0.4", linewidth=1, linestyle=":", label="real points")
    ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.set(title="exact $W_2$ from samples to held-out points", xlabel="Euler steps")
    lowest, highest = (pick([*ax.get_ylim(), floor]) for pick in (min, max))
    ax.set_ylim(0 if lowest < highest / 2 else lowest - 0.3 * (highest - lowest))
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
