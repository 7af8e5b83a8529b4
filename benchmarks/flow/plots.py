"""The picture of the flow benchmark."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.common.plots import (
    OTHER,
    OURS,
    THEIRS,
    grouped_bars,
    legend,
    relative_to_ours,
    save,
)
from benchmarks.common.record import Row
from benchmarks.flow.workers import PEERS


def draw(parts: dict[str, list[Row]], path: Path) -> None:
    """Left: the GPU beside CPU codes. Right: one core, relative to auto."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6))
    if rows := parts["targets"]:
        form = {row["form"]: f" ({row['form']})" for row in rows} | {"network": ""}
        # What was measured earlier as a matching was another network.
        earlier = [None if row["form"] == "matching" else row["cpu_earlier"] for row in rows]
        series = {
            "jaxmatch, GPU": [row["device_ms"] or row["call_ms"] for row in rows],
            "fastest on one core, jaxmatch's methods too": [row["cpu_here_ms"] for row in rows],
            "HPF, hi_pr or EIBFS, measured earlier": earlier,
        }
        names = [row["instance"] + form[row["form"]] for row in rows]
        grouped_bars(left, names, series, colors=(OURS, THEIRS, OTHER), across=True)
        for y, row in enumerate(rows):
            if row["to_reach"]:
                left.plot([row["to_reach"]] * 2, [y - 0.45, y - 0.1], color="black", linewidth=1.5)
        left.set(xscale="log", xlabel="ms; black: to reach")
        legend(left, above=True, ncols=1)
    if rows := parts["cpu"]:
        peers = {peer: [row[peer] for row in rows] for peer in PEERS}
        relative_to_ours(right, [row["instance"] for row in rows], peers)
        right.set_ylabel("one core, relative to auto (hollow: stopped there)")
        legend(right, above=True)
    save(figure, path)
