"""The style of all figures: colours, legends, grouped bars, times relative to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np


matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402


OURS, THEIRS, OTHER, FOURTH, FIFTH = "#2060a0", "#c0c0c0", "#d08050", "#609060", "#a05070"
CYCLE = (OURS, OTHER, FOURTH, FIFTH, "#806020", "#404040")
MARKERS = "s^vDPX"
PEERS = ("#909090", OTHER, FIFTH, FOURTH, "#806020", "#404040")
ROOM_BELOW = 0.17  # for the legend of a figure
CAPS = {"elinewidth": 1, "capsize": 2}


def save(figure: Any, path: Path) -> Path:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    if figure.get_layout_engine() is None:
        figure.tight_layout(rect=(0, ROOM_BELOW if figure.legends else 0, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def legend(axes: Axes, above: bool = False, **options: Any) -> None:
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3} if above else {}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**{"frameon": False, "fontsize": 8, **place, **options})


def legend_below(figure: Any, *every: Axes, ncols: int = 3) -> None:
    """One for all the axes."""
    known = {
        label: handle
        for axes in every
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend([*known.values()], [*known], loc="lower center", ncols=ncols, fontsize=8)


def numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if x is None else x for x in values], np.float64)


def grouped_bars(
    axes: Axes,
    labels: Sequence[str],
    series: Mapping[str, Any],
    *,
    colors: Sequence[Any] = CYCLE,
    errors: Any = None,
    across: bool = False,
    **style: Any,
) -> list[Any]:
    """Bars of each series side by side at each label, or `across`, from left to right."""
    places, width = np.arange(len(labels)), 0.8 / len(series)
    draw = axes.barh if across else axes.bar
    bars = []
    for k, (name, values) in enumerate(series.items()):
        at = places[: len(values)] + width * (k - (len(series) - 1) / 2)
        look = {"color": colors[k], "label": name, **style}
        if errors is not None:
            look |= {"xerr" if across else "yerr": errors[k], "error_kw": CAPS}
        bars.append(draw(at, numbers(values), 0.95 * width, **look))
    if across:
        axes.set_yticks(places, labels, fontsize=8)
        axes.invert_yaxis()
    else:
        axes.set_xticks(places, labels, fontsize=8)
    return bars


def stacked_shares(axes: Axes, labels: Sequence[str], parts: Sequence[dict[str, float]]) -> None:
    """A bar for each label, of the shares that its parts have of their sum."""
    bottom = np.zeros(len(parts))
    for part in parts[0]:
        share = np.array([x[part] / sum(x.values()) for x in parts])
        axes.bar(labels, share, bottom=bottom, label=part)
        bottom += share
    axes.set_ylabel("share of the time")
    legend(axes, loc="lower right", frameon=True)


def relative_to_ours(axes: Axes, labels: Sequence[str], peers: Mapping[str, Sequence[Any]]) -> None:
    """Times of peers by ours, on a logarithmic axis; hollow where one was stopped (">2.5": a peer,
    "<0.4": ours)."""
    looks = zip(PEERS[: len(peers)], MARKERS[: len(peers)], strict=True)
    for (name, values), (color, marker) in zip(peers.items(), looks, strict=True):
        texts = ["nan" if x is None or x == "" else str(x) for x in values]
        ratios = np.array([float(x.lstrip("<>")) for x in texts])
        stopped = np.array([x.startswith(("<", ">")) for x in texts], bool)
        x = np.arange(len(ratios))
        axes.plot(x[~stopped], ratios[~stopped], marker, color=color, label=name, markersize=5)
        hollow = {"fillstyle": "none", "color": color, "markersize": 5}
        axes.plot(x[stopped], ratios[stopped], marker, **hollow)
    axes.axhline(1, color=OURS, linewidth=2)
    axes.set_xticks(np.arange(len(labels)), labels, rotation=90, fontsize=7)
    axes.set_yscale("log")
    axes.grid(axis="y", alpha=0.3)
