"""The picture of the colour-transfer example: photographs, results, and the plan of palettes."""

from __future__ import annotations

from pathlib import Path

import matplotlib


matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle


LUMA = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue, for the order of colours
BAR = 0.07  # width of the palettes' bars


def draw(
    path: Path,
    pictures: dict[str, np.ndarray],
    colors: tuple[np.ndarray, np.ndarray],
    plan: np.ndarray,
    names: tuple[str, str],
) -> None:
    """`pictures`: four by title, row by row. `plan`: `[n, m]`, the mass between the palettes."""
    figure = plt.figure(figsize=(15.2, 7.6), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 0.78))
    for k, (title, picture) in enumerate(pictures.items()):
        ax = figure.add_subplot(grid[k // 2, k % 2])
        ax.imshow(picture)
        ax.set_title(title, fontsize=13)
        ax.axis("off")
    _draw_plan(figure.add_subplot(grid[:, 2]), colors, plan, names)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_plan(
    ax: Axes, colors: tuple[np.ndarray, np.ndarray], plan: np.ndarray, names: tuple[str, str]
) -> None:
    """Both palettes from dark to light, with a ribbon for each entry of the plan."""
    rows, cols = (np.argsort(palette @ LUMA) for palette in colors)
    left, right = colors[0][rows], colors[1][cols]
    plan = plan[rows][:, cols] / plan.sum()
    for x, palette, mass in ((0, left, plan.sum(1)), (1 - BAR, right, plan.sum(0))):
        bottoms = np.cumsum(mass) - mass
        for color, bottom, height in zip(palette, bottoms, mass, strict=True):
            ax.add_patch(Rectangle((x, bottom), BAR, height, color=color, linewidth=0))

    # A row's ribbons leave in the order of columns, and arrive in the order of rows.
    i, j = np.nonzero(plan)
    starts = (np.cumsum(plan.ravel()).reshape(plan.shape) - plan)[i, j]
    ends = (np.cumsum(plan.T.ravel()).reshape(plan.T.shape).T - plan)[i, j]
    x = np.linspace(BAR, 1 - BAR, 40)
    rise = (lambda t: t * t * (3 - 2 * t))(np.linspace(0, 1, 40))
    lower = starts[:, None] + (ends - starts)[:, None] * rise
    upper = lower + plan[i, j][:, None]
    outline = np.concatenate([lower, upper[:, ::-1]], 1)
    across = np.broadcast_to(np.concatenate([x, x[::-1]]), outline.shape)
    ribbons = PolyCollection(
        list(np.stack([across, outline], -1)),
        facecolors=(left[i] + right[j]) / 2,
        edgecolors="none",
        alpha=0.85,
    )
    ax.add_collection(ribbons)
    ax.set(xlim=(0, 1), ylim=(0, 1), yticks=[], xticks=[])
    ax.set_title(f"the plan: {len(i)} entries", fontsize=13)
    for at, name, side in ((0, names[0], "left"), (1, names[1], "right")):
        text = f"{name}: {len(colors[at])} colours"
        ax.text(at, -0.012, text, ha=side, va="top", fontsize=12)
    ax.set_facecolor("0.93")
    ax.spines[:].set_visible(False)
