"""The picture of the tracking example: tracks of digits and of pedestrians, scores, times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from _tracking_metrics import Score, confirmed
from matplotlib.patches import Rectangle


if TYPE_CHECKING:
    from pathlib import Path

    from _tracking_data import Sequence
    from matplotlib.axes import Axes

COLORS = {"greedy": "#b5473c", "jaxmatch": "#1f6f8b", "scipy": "#d9a03f"}
TITLES = {"greedy": "greedy, nearest pair first", "jaxmatch": "exact assignment"}
OF_TRACKS = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
TRAIL = 15  # frames
SHOWN = "TUD-Stadtmitte"

Names = dict[str, dict[str, np.ndarray]]  # by data and association
Scores = dict[str, dict[str, Score]]


def draw(
    path: Path,
    data: dict[str, list[Sequence]],
    names: Names,
    scores: Scores,
    times: dict[int, dict[str, float]],
    scored: int,
) -> None:
    figure = plt.figure(figsize=(17, 12), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12, hspace=0.04, wspace=0.03)  # type: ignore[union-attr]
    above, below = figure.subfigures(2, 1, height_ratios=(1.45, 1))
    for ax, name in zip(above.subplots(1, 2), TITLES, strict=True):
        _draw_digits(ax, data["digits"][0], names["digits"][name][0], scores["digits"][name], name)
    axes = below.subplots(1, 3, width_ratios=(1.5, 1, 1))
    _draw_pedestrians(axes[0], data[SHOWN][0], names[SHOWN]["jaxmatch"][0])
    _draw_scores(axes[1], scores["digits"], scored)
    _draw_times(axes[2], times)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _color(name: int) -> Any:
    return OF_TRACKS[7 * name % 20]


def _draw_digits(
    ax: Axes, sequence: Sequence, names: np.ndarray, score: Score, association: str
) -> None:
    """A frame with many digits, and where tracks were before, if the camera had not moved."""
    assert sequence.scans is not None and sequence.camera is not None
    last = TRAIL + int(sequence.present[TRAIL:].sum(-1).argmax())
    first = last - TRAIL
    for k in np.flatnonzero(sequence.present[last]):
        left, top, right, bottom = _corners(sequence.boxes[last, k])
        extent = (left, right, bottom, top)
        scan = np.ma.masked_less(sequence.scans[k], 0.15)
        ax.imshow(scan, extent=extent, cmap="gray_r", vmin=0, vmax=1.3, zorder=1)
    names = confirmed(names)[: last + 1]
    camera = sequence.camera - sequence.camera[last]
    for name in np.unique(names[first:][names[first:] >= 0]):
        frames, at = np.nonzero(names[first:] == name)
        places = sequence.detected[first + frames, at, :2] - camera[first + frames]
        ax.plot(*places.T, color=_color(name), linewidth=1.8, alpha=0.85, zorder=2)
        if frames[-1] == last - first:
            left, top, right, bottom = _corners(sequence.detected[last, at[-1]])
            ax.add_patch(
                Rectangle(
                    (left, top),
                    right - left,
                    bottom - top,
                    fill=False,
                    edgecolor=_color(name),
                    linewidth=1.8,
                    zorder=3,
                )
            )
    frames = score.switches[:, 0]
    frames, objects = score.switches[(first <= frames) & (frames <= last)].T
    x, y = (sequence.boxes[frames, objects, :2] - camera[frames]).T
    ax.scatter(x, y, marker="x", s=90, color="red", linewidths=2.2, zorder=4)
    width, height = sequence.size
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal", xticks=[], yticks=[])
    ax.set_title(
        f"{TITLES[association]}: {len(score.switches)} switches of names in "
        f"{len(sequence.mask)} frames,\n{len(x)} of them (red) in the {TRAIL} before this one",
        fontsize=13,
    )


def _corners(box: np.ndarray) -> tuple[float, float, float, float]:
    x, y, width, height = box
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _draw_pedestrians(ax: Axes, sequence: Sequence, names: np.ndarray) -> None:
    frames = np.arange(len(sequence.mask))
    for k in range(sequence.present.shape[1]):
        x = np.where(sequence.present[:, k], sequence.boxes[:, k, 0], np.nan)
        label = "truth" if k == 0 else ""
        ax.plot(frames, x, color="0.85", linewidth=7, solid_capstyle="round", label=label)
    names = confirmed(names)
    for name in np.unique(names[names >= 0]):
        at = np.nonzero(names == name)
        ax.plot(at[0], sequence.detected[at][:, 0], color=_color(name), linewidth=2)
    ax.set(title=f"{sequence.name}: a colour is a track", xlabel="frame", xlim=(0, frames[-1]))
    ax.set_ylabel("across the picture [pixels]")
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_scores(ax: Axes, scores: dict[str, Score], count: int) -> None:
    for offset, name in zip((-0.19, 0.19), TITLES, strict=True):
        facts = scores[name].facts
        for k, metric in enumerate(("mota", "idf1")):
            label = TITLES[name] if k == 0 else ""
            ax.bar(k + offset, facts[metric], 0.36, color=COLORS[name], label=label)
            ax.text(k + offset, facts[metric], f"{facts[metric]:.0%}", ha="center", va="bottom")
    ax.set_xticks([0, 1], ["MOTA", "IDF1"])
    ax.set(title=f"digits, {count} sequences", ylim=(0, 1.15), yticks=[])
    ax.legend(frameon=False, loc="upper center", ncols=2)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _draw_times(ax: Axes, times: dict[int, dict[str, float]]) -> None:
    labels = []
    for k, (count, of_count) in enumerate(times.items()):
        for j, (name, microseconds) in enumerate(of_count.items()):
            at = (len(of_count) + 1) * k + j
            ax.barh(at, microseconds, 0.8, color=COLORS[name])
            ax.text(microseconds, at, f" {microseconds:.0f}", va="center")
            labels.append((at, name))
        kind = "one sequence" if count == 1 else f"{count} sequences at once"
        ax.text(0, (len(of_count) + 1) * k - 0.65, f" {kind}", va="center", style="italic")
    ax.set_yticks(*zip(*labels, strict=True))
    ax.invert_yaxis()
    ax.set(title="the whole tracker, microseconds per frame", xticks=[])
    ax.set_ylim(top=-1.2)
    ax.set_xlim(0, 1.15 * max(max(x.values()) for x in times.values()))
    ax.spines[["top", "right", "bottom"]].set_visible(False)
