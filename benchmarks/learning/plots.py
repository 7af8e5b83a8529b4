"""Figures of the learning benchmark, from what `learning` wrote."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.plots import (
    CAPS,
    FOURTH,
    OTHER,
    OURS,
    THEIRS,
    Axes,
    grouped_bars,
    legend,
    legend_below,
    plt,
    save,
)
from benchmarks.common.record import Row


FAMILIES = {
    "Identity": ("#609060", "o"),
    "Blackbox": ("#a05070", "s"),
    "Perturbed": ("#2060a0", "^"),
    "ImplicitMLE": ("#d08050", "D"),
    "AdaptiveImplicitMLE": ("#806020", "v"),
    "Entropic": ("#404040", "P"),
}


def draw(part: str, content: dict[str, Any], path: Path) -> Path:
    if part == "cost":
        return save(cost(content), path)
    drawings = {"quality": quality, "shortest_path": shortest_path}
    return save(drawings.get(part, digit_matching)(content["rows"]), path)


# ---------------------------------------------------------------------------------------------
# Quality


def quality(rows: Sequence[Row]) -> Any:
    """Cosine against cost, a mark for each rule: the mean over both losses, the largest size. Of a
    rule with several steps or entropies the best, of control variates `others` alone."""
    side = max(row["side"] for row in rows)
    rows = [
        row
        for row in rows
        if row["side"] == side and not row["rule"].endswith((", solution", "l, none"))
    ]
    sigmas = sorted({row["sigma"] for row in rows})
    figure, every = plt.subplots(
        1, len(sigmas), figsize=(7 * len(sigmas), 7), sharex=True, sharey=True, squeeze=False
    )
    for axes, sigma in zip(every[0], sigmas, strict=True):
        axes.set(xscale="log", ylim=(0, 1.05), title=f"noise of strength σ = {sigma:g}")
        axes.set_xlabel("time of solution and gradient / time of a plain solve")
        axes.grid(alpha=0.3)
        _marks(axes, _best_steps([row for row in rows if row["sigma"] == sigma]))
    every[0, 0].set_ylabel("cosine with the exact gradient")
    figure.suptitle(
        f"Gradients of assignments with {side} rows against the exact smoothed Jacobian\n"
        "filled: one estimate for a batch; hollow: mean of many estimates; "
        "best step of those measured; times of 64 problems of 32 rows",
        fontsize=11,
    )
    legend_below(figure, every[0, 0], ncols=4)
    return figure


def _best_steps(rows: Sequence[Row]) -> list[Row]:
    """One for each rule and number of samples, in the order of the rows. `label` tells no step, as
    the best one depends on sigma."""
    found: dict[str, dict[float | None, list[Row]]] = {}
    for row in rows:
        label = row["rule"].split(", target")[0] if row["samples"] == 0 else row["rule"]
        if label.startswith("Entropic"):
            label, step = "Entropic", row["rule"]
        else:
            # An adaptive rule has its own step for each loss.
            step = row["step"] if not label.startswith("Adaptive") else None
        label += f", M = {row['samples']}" if row["samples"] else ""
        found.setdefault(label, {}).setdefault(step, []).append(row)
    best = []
    for label, steps in found.items():
        means = [
            {
                "label": label,
                "family": label.split()[0].rstrip(","),
                **{
                    key: statistics.fmean(row[key] for row in some)
                    for key in ("cosine", "cosine_of_mean", "by_solve")
                },
            }
            for some in steps.values()
        ]
        best.append(max(means, key=lambda mean: mean["cosine"]))
    return best


def _marks(axes: Axes, best: Sequence[Row]) -> None:
    """A mark for one estimate, with its number; a hollow one for the mean of many."""
    for k, mean in enumerate(best, 1):
        color, marker = FAMILIES[mean["family"]]
        x, y, of_mean = mean["by_solve"], mean["cosine"], mean["cosine_of_mean"]
        label = f"{k}  {mean['label']}"
        axes.plot(x, y, marker, color=color, markersize=6, label=label)
        if of_mean > y + 0.005:
            axes.plot([x, x], [y, of_mean], color=color, linewidth=0.6, alpha=0.5)
            axes.plot(x, of_mean, marker, color=color, markersize=6, fillstyle="none")
        side = 1 if k % 2 else -1  # neighbours in the list have their numbers on either side
        axes.annotate(
            str(k), (x, y), (11 * side, 0), textcoords="offset points",
            ha="center", va="center", fontsize=8, color=color,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------
# The other parts


def shortest_path(rows: Sequence[Row]) -> Any:
    """Regret by rule, beside the published run."""
    published = sorted(
        (row for row in rows if row["data"] == "published"), key=lambda row: row["regret_percent"]
    )
    own = {row["method"]: row for row in rows if row["data"] == "own"}
    names = [row["method"] for row in published]
    kinds = {"PyEPO's data set": published, "other data sets": [own[name] for name in names]}
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(published) + 1.8))
    grouped_bars(
        axes,
        names,
        {
            f"{kind}: mean and standard error of {len(some[0]['seeds'])} runs": [
                row["regret_percent"] for row in some
            ]
            for kind, some in kinds.items()
        },
        colors=(OURS, THEIRS),
        errors=[[row["standard_error"] or 0 for row in some] for some in kinds.values()],
        across=True,
    )
    theirs = [
        (row["published_percent"], k) for k, row in enumerate(published) if row["published_percent"]
    ]
    if theirs:
        x, at = np.array(theirs).T
        axes.plot(x, at - 0.2, "D", color=OTHER, markersize=6, label="published, one run")
    axes.set_xlim(left=0)
    axes.set(xlabel="test regret [%], less is better", title="Shortest paths on a 5 x 5 grid")
    legend(axes, loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=3)
    axes.grid(axis="x", alpha=0.3)
    return figure


def cost(found: dict[str, list[Row]]) -> Any:
    """Gradients by the fused call, by steps and by optax; the blackbox rule's way back."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), width_ratios=(5, 6))
    rows = found["fused"]
    kinds = {"fused": "fused", "steps": "our steps one after another",
             "optax": "optax.perturbations, same solver",
             "fused_in_loop": "fused, in a compiled loop",
             "optax_in_loop": "optax, in a compiled loop"}  # fmt: skip
    times = {key: [row[f"{key}_ms"] for row in rows] for key in kinds}
    labels = [
        f"{r['problems']} problems\n{r['samples']} samples\n{r['side']} rows\n"
        f"noise {r.get('strength', 1):g}"
        for r in rows
    ]
    colors = (OURS, FOURTH, THEIRS, OURS, THEIRS)
    series = {label: times[key] for key, label in kinds.items()}
    for key, bars in zip(kinds, grouped_bars(left, labels, series, colors=colors), strict=True):
        if "loop" in key:
            for bar in bars:
                bar.set(hatch="//", edgecolor="white")
        if "fused" not in key:
            by = times["fused_in_loop" if "loop" in key else "fused"]
            ratios = [f"{t / first:.1f}x" for t, first in zip(times[key], by, strict=True)]
            left.bar_label(bars, ratios, fontsize=8)
    left.set(yscale="log", ylabel="ms", title="Gradient of perturbed assignments")
    low, high = (f(map(f, times.values())) for f in (min, max))
    left.set_ylim(low / 3, 8 * high)

    rows = found["blackbox"]
    labels = [
        f"{r['problems']} of {r['side']} rows\nstep {r['step_by_mean_cost']:.2g}\n"
        f"{100 * r['changed']:.0f} % change"
        for r in rows
    ]
    series = {
        "from the duals of the forward solve": [r["backward_by_forward"] for r in rows],
        "from nothing": [r["from_nothing_by_forward"] for r in rows],
    }
    for bars in grouped_bars(right, labels, series, colors=(OURS, THEIRS)):
        right.bar_label(bars, fmt="%.2f", fontsize=8)
    right.axhline(0.5, color="black", linewidth=1, linestyle="--", label="to reach: at most")
    right.set_xlabel("problems; step by the mean cost; rows whose column it changes", fontsize=9)
    right.set(ylabel="backward / forward", title="Blackbox rule: time of the way back")
    right.set_ylim(top=1.35 * max(0.5, right.get_ylim()[1]))
    for axes in (left, right):
        legend(axes, loc="upper left")
    return figure


def digit_matching(rows: Sequence[Row]) -> Any:
    """Test accuracy by size with the paper's rule, and of all rules at the largest size that
    several were run at. Rows of the same case are restarts of one row that was made in parts; of
    a restart that is there twice the later one counts."""
    restarts: dict[tuple[int, str], dict[int, float]] = {}
    published: dict[int, tuple[float, float]] = {}
    for row in rows:
        case = restarts.setdefault((row["k"], row["estimator"]), {})
        case.update(zip(row["restarts"], row["test_by_restart"], strict=True))
        if "published_test_percent" in row:
            published[row["k"]] = row["published_test_percent"], row["published_test_std"]
    cases = {case: list(found.values()) for case, found in restarts.items()}
    sizes = sorted({k for k, rule in cases if rule == "blackbox"})
    largest = max((k for k, rule in cases if rule != "blackbox"), default=24)
    rules = [rule for k, rule in cases if k == largest]
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), width_ratios=(2, 3))

    ours = [_mean_and_spread(cases[k, "blackbox"]) for k in sizes]
    theirs = [published.get(k, (np.nan, np.nan)) for k in sizes]
    both = np.array([ours, theirs]).reshape(2, -1, 2)
    series = dict(zip(("jaxmatch, blackbox", "published"), both[..., 0], strict=True))
    labels = [f"{k} x {k}" for k in sizes]
    for bars in grouped_bars(left, labels, series, colors=(OURS, THEIRS), errors=both[..., 1]):
        texts = ["" if np.isnan(mean) else f"{mean:.1f}" for mean in bars.datavalues]
        left.bar_label(bars, texts, fontsize=8, padding=2)
    left.set(xlabel="grid", ylabel="test accuracy [%], mean and standard deviation")
    left.set_title("Perfect matchings on grids of digits", fontsize=11)
    left.set_ylim(0, 118)
    legend(left, loc="upper center", ncols=2)

    ordered = sorted(rules, key=lambda rule: -_mean_and_spread(cases[largest, rule])[0])
    values = [_mean_and_spread(cases[largest, rule]) for rule in ordered]
    means, spreads = np.array(values).reshape(-1, 2).T
    right.barh(np.arange(len(means)), means, 0.6, color=OURS, xerr=spreads, error_kw=CAPS)
    labels = [
        f"{rule}: {mean:.1f} ({len(cases[largest, rule])})"
        for rule, mean in zip(ordered, means, strict=True)
    ]
    right.set_yticks(np.arange(len(ordered)), labels)
    right.invert_yaxis()
    if largest in published:
        mean, spread = published[largest]
        right.axvline(mean, color="black", linestyle="--", linewidth=1)
        right.axvspan(mean - spread, min(mean + spread, 100), color=THEIRS, alpha=0.4, zorder=0)
        text = f"published, blackbox: {mean:g} ± {spread:g}"
        right.set_title(f"All rules on {largest} x {largest}  (dashed: {text})", fontsize=11)
    right.set(xlabel="test accuracy [%], mean and standard deviation (number of restarts)")
    right.set_xlim(0, 112)
    return figure


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
