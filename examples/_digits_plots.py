"""The pictures of the detection example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle


if TYPE_CHECKING:
    from _digits_scenes import Scenes
    from jaxtyping import Array, Float, Int
    from matplotlib.axes import Axes

_TARGET, _RIGHT, _WRONG, _EXTRA = "#1f77b4", "#2a9d4a", "#d62728", "#ff8c00"
_CONFIDENT = 0.3
_ROWS, _COLUMNS = 3, 4


def draw_detections(
    path: Path,
    scenes: Scenes,
    scores: Float[Array, "k n classes"],
    boxes: Float[Array, "k n 4"],
    row4col: Int[Array, "k m"],
) -> None:
    """The first scenes with their targets, the prediction matched to each, and false alarms."""
    figure, axes = plt.subplots(_ROWS, _COLUMNS, figsize=(3.2 * _COLUMNS, 3.2 * _ROWS + 0.5))
    size = scenes.image.shape[-1]
    scores, boxes, row4col = np.asarray(scores), np.asarray(boxes) * size, np.asarray(row4col)
    labels, targets, mask = (np.asarray(x) for x in (scenes.labels, scenes.boxes, scenes.mask))
    for k, ax in enumerate(axes.flat):
        ax.imshow(scenes.image[k], cmap="gray_r", vmin=0, vmax=1.4, interpolation="bicubic")
        ax.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xticks=[], yticks=[])
        for j in np.flatnonzero(mask[k]):
            i, target = row4col[k, j], targets[k, j] * size
            guess = int(scores[k, i].argmax())
            sure = scores[k, i, guess] >= _CONFIDENT
            color = _RIGHT if guess == labels[k, j] and sure else _WRONG
            name = f"{guess}" if guess == labels[k, j] else f"{guess} not {labels[k, j]}"
            _box(ax, target, _TARGET, linestyle=(0, (2, 2)), linewidth=1.2)
            _box(ax, boxes[k, i], color, linewidth=1.6)
            _tag(ax, boxes[k, i], f"{name}  {scores[k, i, guess]:.2f}", color)
            ax.plot(*zip(target[:2], boxes[k, i, :2], strict=True), color=_TARGET, linewidth=1.2)
        matched = set(row4col[k][mask[k]])
        for i in np.flatnonzero(scores[k].max(-1) >= _CONFIDENT):
            if i not in matched:
                _box(ax, boxes[k, i], _EXTRA, linewidth=1.6)
                _tag(ax, boxes[k, i], f"{scores[k, i].argmax()}  {scores[k, i].max():.2f}", _EXTRA)
    handles = [
        Line2D([], [], color=_TARGET, linestyle=(0, (2, 2)), label="target"),
        Line2D([], [], color=_RIGHT, label="matched prediction, right class"),
        Line2D([], [], color=_WRONG, label=f"wrong class or confidence below {_CONFIDENT}"),
        Line2D([], [], color=_EXTRA, label="false alarm"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)
    figure.suptitle("Held-out scenes: predictions and the targets they are matched to")
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _box(ax: Axes, box: np.ndarray, color: str, **style) -> None:
    corner = box[:2] - box[2:] / 2 - 0.5
    ax.add_patch(Rectangle(tuple(corner), *box[2:], fill=False, edgecolor=color, **style))


def _tag(ax: Axes, box: np.ndarray, text: str, color: str) -> None:
    x, y = box[:2] - box[2:] / 2 - 0.5
    inside = y < 8  # no room above the box
    ax.text(
        max(x, 0),
        max(y, 0) if inside else y,
        text,
        color="white",
        fontsize=7,
        va="top" if inside else "bottom",
        bbox={"facecolor": color, "edgecolor": "none", "pad": 1.2, "alpha": 0.85},
        clip_on=True,
    )


def draw_training(path: Path, log: dict, ap50: float, matcher: str) -> None:
    """Loss and AP50 over steps, with the time that a step and its matching took."""
    figure, ax = plt.subplots(figsize=(7.5, 4.2))
    steps = np.arange(1, len(log["loss"]) + 1)
    width = min(25, len(steps))
    smooth = np.convolve(log["loss"], np.ones(width) / width, mode="valid")
    ax.plot(steps, log["loss"], color="0.82", linewidth=0.8)
    ax.plot(steps[width - 1 :], smooth, color="0.3", label=f"loss, mean of {width} steps")
    ax.set(xlabel="step", ylabel="loss", yscale="log", xlim=(0, len(steps)))
    for axis_format in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis_format("{x:g}")
    right = ax.twinx()
    right.plot(log["ap_step"], log["ap50"], "o-", color=_RIGHT, label="AP50 on watched scenes")
    right.plot(
        [len(steps)], [ap50], "*", color=_RIGHT, markersize=15, clip_on=False,
        label=f"AP50 on test scenes: {ap50:.3f}",
    )  # fmt: skip
    right.axhline(0.8, color=_RIGHT, linewidth=0.8, linestyle=(0, (4, 4)))
    right.set_ylabel("AP50", color=_RIGHT)
    right.set_ylim(0, 1)
    right.tick_params(axis="y", colors=_RIGHT)
    step, alone = (1e3 * np.median(log[k]) for k in ("step_seconds", "matching_seconds"))
    ax.set_title(
        f"{step:.0f} ms per step, of which {alone:.2f} ms matching ({matcher})", fontsize=11
    )
    lines = ax.get_lines()[1:] + [x for x in right.get_lines() if x.get_label()[0] != "_"]
    right.legend(lines, [x.get_label() for x in lines], loc="center right", frameon=False)
    for side in (ax, right):
        side.spines["top"].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
