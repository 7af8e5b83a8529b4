"""The picture of the flow benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt


OURS, THEIRS, LATER = "#2060a0", "#c0c0c0", "#d08050"
MARKERS = {"ortools": "s", "pymaxflow": "^", "scipy": "v"}


def draw(parts: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Left: the GPU beside the fastest CPU code. Right: one core, relative to auto."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6))
    rows = parts["targets"]
    for y, row in enumerate(rows):
        ms = row["device_ms"] or row["call_ms"]
        cpu = row["cpu_earlier"] or row["cpu_here_ms"]
        left.barh(y - 0.2, ms, 0.4, color=OURS, label="jaxmatch, GPU" if y == 0 else None)
        if cpu:
            label = "fastest CPU code" if y == 0 else None
            left.barh(y + 0.2, cpu, 0.4, color=THEIRS, label=label)
        if row["to_reach"]:
            left.plot([row["to_reach"]] * 2, [y - 0.45, y + 0.05], color="black", linewidth=1.5)
    names = [
        row["instance"] + (f" ({row['form']})" if row["form"] != "network" else "") for row in rows
    ]
    left.set_yticks(range(len(rows)), names)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="ms; black: to reach")
    if rows:
        left.legend(frameon=False, fontsize=8)
    one = parts["cpu"]
    for peer, marker in MARKERS.items():
        points = [(x, row[peer]) for x, row in enumerate(one) if row[peer]]
        for over in (False, True):
            some = [(x, float(v.lstrip(">"))) for x, v in points if v.startswith(">") == over]
            if some:
                style = {"markerfacecolor": "none"} if over else {"label": peer}
                right.plot(*zip(*some, strict=True), marker, color=LATER, **style)
    right.axhline(1, color=OURS, linewidth=2)
    right.set_xticks(range(len(one)), [row["instance"] for row in one], rotation=90, fontsize=8)
    right.set(yscale="log", ylabel="one core, relative to auto (hollow: stopped there)")
    if one:
        right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
