"""Figures of the benchmark of several GPUs, from the tables of `sharded/parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.colors import to_rgba

from benchmarks.common.plots import (
    FOURTH,
    OTHER,
    OURS,
    Axes,
    grouped_bars,
    legend,
    legend_below,
    plt,
    save,
)
from benchmarks.common.record import Row


COLORS = {"classical": OTHER, "tree": FOURTH, "core": OURS}
Table = Sequence[Row]


def draw(part: str, content: dict[str, Any], path: Path) -> Path:
    figure = DRAWINGS[part](content["table"])
    figure.suptitle(f"{content['device']}, {content['date']}", fontsize=9, color="0.4")
    return save(figure, path)


def _points(table: Table, x: str, y: str, **wanted: Any) -> tuple[list[Any], list[Any]]:
    rows = [r for r in table if r[y] and all(r[k] == v for k, v in wanted.items())]
    return [r[x] for r in rows], [r[y] for r in rows]


def _efficiency(axes: Axes, table: Table) -> None:
    """Of each method by the devices; dashed, that of the paper."""
    for method, color in COLORS.items():
        same = {"method": method, "form": "divided"}
        axes.plot(
            *_points(table, "devices", "efficiency_by_plain", **same),
            "o-", color=color, label=f"{method}, of the one-device method",
        )  # fmt: skip
        axes.plot(
            *_points(table, "devices", "efficiency_by_divided", **same),
            "o:", color=color, mfc="white", label=f"{method}, of itself on one device",
        )  # fmt: skip
        paper = _points(table, "devices", "paper_efficiency", **same)
        if paper[0]:
            axes.plot(
                *paper, "x--", color=color, alpha=0.5, label=f"{method}, Date and Nagi (2016)"
            )
    devices = sorted({r["devices"] for r in table})
    axes.set(xlabel="devices", ylabel="efficiency", xticks=devices)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def weak(table: Table) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2))
    _efficiency(left, table)
    left.set_title("as many costs on each device", fontsize=10)
    for method, color in COLORS.items():
        for form, style in (("divided", "o-"), ("plain", "s")):
            right.plot(
                *_points(table, "devices", "ms", method=method, form=form),
                style, color=color, label=f"{method}, {form}",
            )  # fmt: skip
    sides = {r["devices"]: r["n"] for r in table}
    right.set(yscale="log", ylabel="ms of a call", xticks=[*sides])
    right.set_xticklabels([f"{p}\nn = {n}" for p, n in sides.items()])
    right.set_xlabel("devices")
    legend(right, fontsize=7)
    legend_below(figure, left)
    return figure


def strong(table: Table) -> Any:
    sides = sorted({r["n"] for r in table})
    figure, every = plt.subplots(1, len(sides), figsize=(4.6 * len(sides), 5), squeeze=False)
    for axes, n in zip(every[0], sides, strict=True):
        _efficiency(axes, [r for r in table if r["n"] == n])
        axes.set_title(f"n = {n}, the same for all", fontsize=10)
    legend_below(figure, *every[0])
    return figure


def fast(table: Table) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
    divided = [r for r in table if r["form"] == "divided"]
    for k, devices in enumerate(sorted({r["devices"] for r in divided})):
        label = f"{devices} device{'s' if devices > 1 else ''}"
        left.plot(*_points(divided, "n", "speed_up", devices=devices), f"C{k}o-", label=label)
        right.plot(*_points(divided, "n", "ms", devices=devices), f"C{k}o-", label=label)
    right.plot(*_points(table, "n", "ms", form="plain"), "ks:", label="the one-device method")
    left.axhline(1, color="0.6", linewidth=0.8)
    left.set(xlabel="n, uniform float32", ylabel="speed-up over the one-device method, core")
    right.set(xlabel="n, uniform float32", ylabel="ms of a call", yscale="log")
    left.set_ylim(bottom=0)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        legend(axes)
    return figure


def ties(table: Table) -> Any:
    """Bars of each method, plain and by devices, for each kind of costs."""
    forms = sorted({(r["form"] == "divided", r["devices"]) for r in table})
    kinds = list(dict.fromkeys(r["costs"] for r in table))
    figure, every = plt.subplots(1, len(COLORS), figsize=(4.2 * len(COLORS), 4), sharey=True)
    for axes, (method, color) in zip(every, COLORS.items(), strict=True):
        series = {}
        for divided, devices in forms:
            same = {"method": method, "form": "divided" if divided else "plain", "devices": devices}
            times = dict(zip(*_points(table, "costs", "ms", **same), strict=True))
            name = f"divided, {devices} device{'s' if devices > 1 else ''}" if divided else "plain"
            series[name] = [times.get(kind) for kind in kinds]
        shades = [to_rgba(color, (k + 1) / len(forms)) for k in range(len(forms))]
        grouped_bars(axes, kinds, series, colors=shades)
        axes.set(title=method, yscale="log")
        axes.tick_params(axis="x", rotation=30)
        legend(axes)
    every[0].set_ylabel(f"ms of a call, n = {table[0]['n']}")
    return figure


def capacity(table: Table) -> Any:
    figure, axes = plt.subplots(figsize=(8, 0.6 * len(table) + 1.6))
    labels, sides = [], {r["n"] for r in table}
    for r in table:
        costs = r["costs"] if len(sides) == 1 else f"{r['costs']}, n = {r['n']:,}"
        if r.get("rows") not in (None, r["n"]):
            costs += f", {r['rows']:,} rows"
        size = f", {r['gigabytes']:.3g} GB" if r.get("gigabytes") else ""
        devices = f"{r['devices']} device{'s' if r['devices'] > 1 else ''}"
        labels.append(f"{costs}{size}, {r['form']}, {devices}")
    bars = axes.barh(labels, [r["ms"] for r in table], color=COLORS["core"])
    axes.bar_label(bars, fmt="%.4g", padding=3)
    axes.invert_yaxis()
    axes.set_xlabel("ms of a call" + (f", n = {table[0]['n']}" if len(sides) == 1 else ""))
    return figure


def batched(table: Table) -> Any:
    figure, axes = plt.subplots(figsize=(6.4, 4.4))
    for gradient, color in ((False, COLORS["core"]), (True, COLORS["classical"])):
        what = "value and gradient" if gradient else "solve"
        for key, style, how in (
            ("queued_efficiency", "o-", "queued calls"),
            ("efficiency", "o:", "one call after another"),
        ):
            points = _points(table, "devices", key, gradient=gradient)
            axes.plot(*points, style, color=color, label=f"{what}, {how}")
    devices = sorted({r["devices"] for r in table})
    first = table[0]
    axes.set(xlabel="devices", ylabel="efficiency", xticks=devices)
    axes.set_title(
        f"{first['batch'] // first['devices']} problems of {first['n']}x{first['n']} a device",
        fontsize=10,
    )
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    legend(axes)
    return figure


def solvers(table: Table) -> Any:
    figure, axes = plt.subplots(figsize=(8, 4.4))
    names = list(dict.fromkeys(r["solver"] for r in table))
    series = {}
    for devices in sorted({r["devices"] for r in table} - {1}):
        for key, how in (("queued_efficiency", "queued"), ("efficiency", "one call")):
            of = {r["solver"]: r[key] for r in table if r["devices"] == devices}
            series[f"{devices} devices, {how}"] = [of.get(name) for name in names]
    grouped_bars(axes, [name.replace(", ", "\n") for name in names], series)
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.tick_params(axis="x", labelsize=6)
    axes.set_ylabel("efficiency")
    legend(axes)
    return figure


DRAWINGS: dict[str, Callable[[Table], Any]] = {
    "solvers": solvers,
    "batched": batched,
    "weak": weak,
    "strong": strong,
    "fast": fast,
    "structured": capacity,
    "ties": ties,
    "capacity": capacity,
}
