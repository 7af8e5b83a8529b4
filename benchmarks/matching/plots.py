"""Figures of the matching benchmark, in the forms of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np

from benchmarks.common import record as common
from benchmarks.matching import tables
from benchmarks.matching.lanes import Store


matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def _save(figure: Any, name: str) -> None:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    figure.savefig(common.RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _legend_above(axis: Any) -> None:
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def papers(store: Store, graphs: Sequence[str], name: str) -> None:
    """G-PR's figure 1 on the left, the table of APFB and APsB on the right."""
    sets = tables.sets(store, graphs)
    figure, axes = plt.subplots(1, 2, figsize=(13, 4.8))
    names = [*sets["original"], *sets["RCP"]]
    x = np.arange(len(tables.RELABEL))
    labels = {"first": "G-PR-First", "active": "G-PR-NoShr", "shrink": "G-PR-Shr"}
    for i, variant in enumerate(tables.VARIANTS):
        means = [tables.mean_ms(store, names, tables.g_pr(variant, *how)) for how in tables.RELABEL]
        axes[0].bar(x + 0.27 * (i - 1), _numbers(means), 0.26, label=labels[variant])
    axes[0].set_xticks(x, [f"{relabel}, {k:g}" for relabel, k in tables.RELABEL], fontsize=8)
    axes[0].set(ylabel="ms, geometric mean", xlabel=f"push_relabel on {len(names)} graphs")
    _legend_above(axes[0])

    x = np.arange(len(tables.BREADTH_FIRST))
    for i, (which, names) in enumerate(sets.items()):
        means = [tables.mean_ms(store, names, tables.ap(*how)) for how in tables.BREADTH_FIRST]
        bars = axes[1].bar(x + 0.27 * (i - 1), _numbers(means), 0.26)
        bars.set_label(f"{which} ({len(names)})")
    labels = [f"{m}\n{k}\n{t}" for m, k, t in tables.BREADTH_FIRST]
    axes[1].set_xticks(x, labels, fontsize=8)
    axes[1].set(ylabel="ms, geometric mean", xlabel="apfb and apsb by kernel and threads")
    _legend_above(axes[1])
    _save(figure, name)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [np.nan if x is None else x for x in values]


def profiles(store: Store, graphs: Sequence[str], name: str) -> None:
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
    _save(figure, name)


def _profile_values(
    store: Store, graphs: Sequence[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    methods = tables.profiled()
    speedups: dict[str, list[float]] = {title: [] for title in methods}
    times: dict[str, list[float]] = {title: [] for title in methods}
    for graph in graphs:
        sequential = store.fastest(graph, "one", tables.SEQUENTIAL, "cheap")
        found = {t: store.get(graph, lane, m, "cheap") for t, (lane, m) in methods.items()}
        if sequential is None or any(x is None for x in found.values()):
            continue
        finished = {t: np.inf if x is None or x.over else x.ms for t, x in found.items()}
        best = min(finished.values())
        for title, ms in finished.items():
            speedups[title].append(sequential[0] / ms)
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


def whole_solves(targets: list[dict[str, Any]], cpu: list[dict[str, Any]], name: str) -> None:
    """The GPU against its targets, one core against its peers."""
    figure, axes = plt.subplots(1, 2, figsize=(14, 6), width_ratios=(2, 3))
    if targets:
        y = np.arange(len(targets))
        bars = (("ecl_mm_earlier", "0.75", "ECL-MM, measured earlier on the same kind of card"),
                ("device_ms", "#2060a0", "jaxmatch"))  # fmt: skip
        for i, (key, color, title) in enumerate(bars):
            values = _numbers([row[key] for row in targets])
            axes[0].barh(y + 0.2 - 0.4 * i, values, 0.38, color=color, label=title)
        goals = _numbers([row["to_reach"] for row in targets])
        axes[0].plot(goals, y - 0.2, "k|", markersize=12, label="to reach")
        axes[0].set_yticks(y, [row["graph"] for row in targets], fontsize=8)
        axes[0].invert_yaxis()
        axes[0].set(xscale="log", xlabel="device ms, whole solve")
        _legend_above(axes[0])
    if cpu:
        x = np.arange(len(cpu))
        styles = {"scipy": ("#b0b0b0", "s"), "igraph": ("#d08c60", "^"), "btf": ("#a05070", "v")}
        for peer, (color, marker) in styles.items():
            bound = np.array([str(row[peer]).startswith(">") for row in cpu])
            ratio = np.array([float(str(row[peer] or "nan").lstrip(">")) for row in cpu])
            axes[1].plot(x[~bound], ratio[~bound], marker, color=color, label=peer, markersize=5)
            axes[1].plot(
                x[bound], ratio[bound], marker, color=color, markersize=5, fillstyle="none"
            )
        axes[1].axhline(1, color="#2060a0", linewidth=2)
        axes[1].set_yscale("log")
        axes[1].set_xticks(x, [row["graph"] for row in cpu], rotation=90, fontsize=7)
        axes[1].set_ylabel("one core, relative to auto (hollow: stopped there)")
        axes[1].grid(axis="y", alpha=0.3)
        _legend_above(axes[1])
    _save(figure, name)
