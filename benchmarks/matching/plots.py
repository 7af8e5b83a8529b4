"""Figures of the matching benchmark, in the forms of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.lanes import Store
from benchmarks.common.plots import (
    OURS,
    THEIRS,
    grouped_bars,
    legend,
    numbers,
    relative_to_ours,
    save,
)
from benchmarks.common.record import Row
from benchmarks.matching import tables


def papers(store: Store, graphs: Sequence[str], path: Path) -> None:
    """G-PR's figure 1 on the left, the table of APFB and APsB on the right."""
    sets = tables.sets(store, graphs)
    figure, axes = plt.subplots(1, 2, figsize=(13, 4.8))
    names = [*sets["original"], *sets["RCP"]]
    variants = {"first": "G-PR-First", "active": "G-PR-NoShr", "shrink": "G-PR-Shr"}
    means = {
        title: [tables.mean_ms(store, names, tables.g_pr(v, *how)) for how in tables.RELABEL]
        for v, title in variants.items()
    }
    grouped_bars(axes[0], [f"{relabel}, {k:g}" for relabel, k in tables.RELABEL], means)
    axes[0].set(ylabel="ms, geometric mean", xlabel=f"push_relabel on {len(names)} graphs")
    means = {
        f"{which} ({len(some)})": [
            tables.mean_ms(store, some, tables.ap(*how)) for how in tables.BREADTH_FIRST
        ]
        for which, some in sets.items()
    }
    grouped_bars(axes[1], [f"{m}\n{k}\n{t}" for m, k, t in tables.BREADTH_FIRST], means)
    axes[1].set(ylabel="ms, geometric mean", xlabel="apfb and apsb by kernel and threads")
    for each in axes:
        legend(each, above=True)
    save(figure, path)


def profiles(store: Store, graphs: Sequence[str], path: Path) -> None:
    """Speed-ups over the fastest sequential method of each graph, and times over the best."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), sharex="row", layout="constrained")
    sets = {"original": list(graphs), "RCP": [f"{g}_rcp" for g in graphs]}
    for column, (which, names) in enumerate(sets.items()):
        speedups, times = _profile_values(store, names)
        _curves(axes[0, column], speedups, falling=True)
        axes[0, column].axvline(1, color="0.8", linewidth=1)
        axes[0, column].set(
            xlabel="speed-up over the fastest sequential method",
            ylabel="share of graphs with at least that",
            title=f"speed-up profile, {which}",
        )
        _curves(axes[1, column], times, falling=False)
        axes[1, column].set(
            xlabel="times the best method of the graph",
            ylabel="share of graphs within that",
            title=f"performance profile, {which}",
            xlim=(1, 1000),
        )
    lines, names = axes[1, 0].get_legend_handles_labels()
    figure.legend(lines, names, frameon=False, ncols=len(names), loc="outside upper center")
    save(figure, path)


def _profile_values(
    store: Store, graphs: Sequence[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    methods = tables.profiled()
    speedups: dict[str, list[float]] = {title: [] for title in methods}
    times: dict[str, list[float]] = {title: [] for title in methods}
    for graph in graphs:
        sequential, _ = store.fastest(graph, "one", tables.SEQUENTIAL, "cheap")
        found = {t: store.get(graph, lane, m, "cheap") for t, (lane, m) in methods.items()}
        if sequential is None or any(x is None for x in found.values()):
            continue
        finished = {t: np.inf if x is None or x.over else x.ms for t, x in found.items()}
        best = min(finished.values())
        for title, ms in finished.items():
            speedups[title].append(sequential / ms)
            times[title].append(ms / best)
    return speedups, times


def _curves(axis: Any, values: dict[str, list[float]], *, falling: bool) -> None:
    for k, (title, mine) in enumerate(values.items()):
        if not mine:
            continue
        x = np.sort(mine)
        share = np.arange(1, len(x) + 1) / len(x)
        y = 1 - share + 1 / len(x) if falling else share
        where = "pre" if falling else "post"
        style = "-" if k < 3 else "--"
        shown = np.isfinite(x) & (x > 0)
        axis.step(x[shown], y[shown], style, where=where, color=f"C{k}", label=title)
    axis.set(xscale="log", ylim=(0, 1.02))
    axis.grid(alpha=0.3)


def whole_solves(targets: list[Row], cpu: list[Row], path: Path) -> None:
    """The GPU against its targets, one core against its peers."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6), width_ratios=(2, 3))
    if targets:
        series = {
            "ECL-MM, measured earlier on the same kind of card": "ecl_mm_earlier",
            "jaxmatch": "device_ms",
        }
        values = {name: [row[key] for row in targets] for name, key in series.items()}
        names = [row["graph"] for row in targets]
        grouped_bars(left, names, values, colors=(THEIRS, OURS), across=True)
        goals = numbers([row["to_reach"] for row in targets])
        left.plot(goals, np.arange(len(goals)) + 0.2, "k|", markersize=12, label="to reach")
        left.set(xscale="log", xlabel="device ms, whole solve")
        legend(left, above=True)
    if cpu:
        peers = {peer: [row[peer] for row in cpu] for peer in tables.PEERS}
        relative_to_ours(right, [row["graph"] for row in cpu], peers)
        right.set_ylabel("one core, relative to auto (hollow: stopped there)")
        legend(right, above=True)
    save(figure, path)
