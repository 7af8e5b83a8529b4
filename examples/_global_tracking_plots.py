"""The picture of the example of global tracking: the tracks that both trackers find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np


if TYPE_CHECKING:
    from pathlib import Path

    from _global_tracking_scores import Score

COLORS = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
SHOWN = 60  # frames: all of them would be a tangle


def draw(
    path: Path,
    truth: np.ndarray,
    found: list[np.ndarray],
    names: dict[str, list[np.ndarray]],
    scores: dict[str, Score],
) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(14, 7.2), layout="constrained")
    frames = min(SHOWN, len(found))
    places = np.concatenate(found[:frames])
    for ax, (title, of_frames) in zip(axes, names.items(), strict=True):
        ax.plot(*truth[:frames].transpose(2, 0, 1), color="0.88", linewidth=9, zorder=1)
        name = np.concatenate(of_frames[:frames])
        left = places[name < 0]
        ax.scatter(*left.T, s=9, color="0.55", linewidths=0, zorder=2)
        for k in np.unique(name[name >= 0]):
            track = places[name == k]
            color = COLORS[7 * int(k) % 20]
            ax.plot(*track.T, color=color, linewidth=1.6, marker="o", markersize=2.5, zorder=3)
        score = scores[title]
        shown = score.switches[score.switches[:, 0] < frames]
        at = truth[shown[:, 0], shown[:, 1]]
        ax.scatter(*at.T, marker="x", s=90, color="red", linewidths=2.2, zorder=4)
        ax.set(xlim=(-0.2, 10.2), ylim=(-0.2, 10.2), aspect="equal", xticks=[], yticks=[])
        ax.set_title(
            f"{title}: MOTA {score.mota:.0%}, {len(score.switches)} switches of names in "
            f"{len(found)} frames,\n{len(shown)} of them (red) in the {frames} that are shown",
            fontsize=13,
        )
    figure.savefig(path, dpi=100)
    plt.close(figure)
