"""The tables of the flow benchmark: which measurement stands beside which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.common.lanes import Store
from benchmarks.common.record import Row, geometric_mean
from benchmarks.common.workers import Measured
from benchmarks.flow.workers import PEERS, Job


class Target(NamedTuple):
    """Device ms on one H200, and what others took on such a machine at another time: the fastest
    CPU code on one thread; WBPR, the better of its layouts (`*`: on an RTX 4090); a prototype of
    ours. `to_reach` is what this library set itself."""

    instance: str
    form: str = "network"
    cpu: float | None = None
    cpu_code: str = ""
    wbpr: str = ""
    prototype: float | None = None
    to_reach: float | None = None


TARGETS = [
    Target("rlg_512x512", "network", 94, "HPF", "2689", None, 20),
    Target("rlg_64x4096", "network", 41, "hi_pr", "2417", None, 40),
    Target("genrmf_a48_b48", "network", 58, "HPF", "926", None, 12),
    Target("genrmf_a128_b128", "network", None, "", "2138*", None, 300),
    Target("marvel_like", "matching", 1.3, "Marvel, matching", "569, Marvel", None, 3),
    Target("movielens_ui_like", "matching", 0.35, "MovieLens, matching", "329, MovieLens", None, 3),
    Target("camera_512", "network", 4.3, "EIBFS", "2358", None, 1.5),
    Target("china_640x427_rgb", "network", 4.6, "EIBFS", "wrong", None, 2.0),
    Target("camera_512", "grid", 4.3, "EIBFS", "", 0.074, 0.07),
    Target("china_640x427_rgb", "grid", 4.6, "EIBFS", "", 0.112, 0.10),
    Target("camera_512_u20", "grid", None, "", "", 0.35, 0.25),
    Target("china_640x427_rgb_u20", "grid", None, "", "", 0.26, 0.18),
    Target("mni_t1_3mm", "grid", 5.7, "EIBFS", "", None, 0.5),
    Target("mni_t1_2mm", "grid", None, "", "", None, 1.5),
    Target("stereo_motorcycle_a20", "grid", 36, "EIBFS", "never ends", None, 3),
    Target("batch_lfw_200x25x25", "grid", None, "", "", 0.084, 0.07),
]
LAYOUTS = ("csr", "rcsr", "bcsr")
LARGEST = ("genrmf_a128_b128",)  # on the last of these alone
GPU_PAPER = ("thread_centric", "two_level")
SEQUENTIAL = ("augment", "pseudoflow")

TITLES = {
    "targets": '"auto" on the GPU, ms',
    "layouts": "thread_centric (TC) and two_level (TLPNS) by layout, ms (tables I, III)",
    "breakdown": "where the time goes on the GPU, shares of a solve",
    "cpu": "one core, as a multiple of auto on one core",
    "grids_cpu": "grids on one core, as a multiple of auto on one core",
    "criteria": "what is to hold",
}


def targets(store: Store, goals: Sequence[Target], on_gpu: bool) -> list[Row]:
    rows = []
    for goal in goals:
        here = store.get(goal.instance, "gpu", label(goal.instance, "auto", form=goal.form))
        if here is None:
            continue
        ms = here.device_ms or here.ms
        cpu, fastest = _fastest(store, goal.instance)
        row = {"instance": goal.instance, "form": goal.form, "device_ms": here.device_ms}
        row |= {"spread": here.device_spread, "call_ms": here.ms, "to_reach": goal.to_reach}
        if on_gpu and goal.to_reach:
            row |= {"ratio": ms / goal.to_reach, "met": "met" if ms <= goal.to_reach else "missed"}
        row |= {"cpu_here_ms": cpu, "cpu_here": fastest}
        row |= {"cpu_earlier": goal.cpu, "code": goal.cpu_code, "wbpr_earlier": goal.wbpr}
        rows.append(row | {"prototype_earlier": goal.prototype})
    return rows


PARTS = ("search", "push", "search_back", "push_back", "take_back", "cut")


def breakdown(store: Store, names: Sequence[str]) -> list[Row]:
    """Of `auto` and the paper's methods, each on its best layout."""
    rows = []
    for name in names:
        for method in ("auto", *GPU_PAPER):
            on = [label(name, method, layout=layout) for layout in LAYOUTS]
            every = {which: x for which in on if (x := store.get(name, "gpu", which))}
            best = min(every, key=lambda which: every[which].ms, default="")
            x = every.get(best)
            if x is None or x.shares is None or x.searches is None:
                continue
            row = {"instance": name, "method": best, "relabels": sum(x.searches)}
            rows.append(row | dict(zip(PARTS, x.shares, strict=True)))
    return rows


def layouts(
    store: Store, names: Sequence[str], spread: dict[str, tuple[float, float]]
) -> list[Row]:
    rows = []
    for name in names:
        row: Row = {"instance": name}
        if name in spread:
            row |= dict(zip(("spread_tc", "spread_tl"), spread[name], strict=True))
        for layout in LAYOUTS:
            pair = [store.get(name, "gpu", label(name, m, layout=layout)) for m in GPU_PAPER]
            for short, x in zip(("tc", "tl"), pair, strict=True):
                row[f"{short}_{layout}"] = None if x is None else _text(x)
            both = [x for x in pair if x is not None and not x.over]
            row[f"speed_up_{layout}"] = both[0].ms / both[1].ms if len(both) == 2 else None
        auto = store.get(name, "gpu", "auto")
        rows.append(row | {"auto": None if auto is None else _text(auto)})
    return [row for row in rows if any(row[f"tl_{layout}"] for layout in LAYOUTS)]


def on_one_core(store: Store, names: Sequence[str], form: str) -> list[Row]:
    """Our methods and the peers as multiples of auto. A peer takes a grid as a network."""
    ours = SEQUENTIAL if form == "network" else ()
    rows = []
    for name in names:
        auto = store.ms(name, "one", label(name, "auto", form=form))
        if auto is not None:
            peers = {x: store.relative(name, label(name, x), auto) for x in (*ours, *PEERS)}
            rows.append({"instance": name, "auto_ms": auto, **peers})
    return rows


def criteria(store: Store, networks: Sequence[str]) -> list[Row]:
    rows = []
    for peer, least in (("ortools", 2), ("scipy", 5)):
        pairs = [(store.ms(name, "one", peer), store.ms(name, "one", "auto")) for name in networks]
        ratios = [theirs / ours for theirs, ours in pairs if theirs and ours]
        if ratios:
            value = geometric_mean(ratios)
            row = {"what": f"{peer} / auto on one core", "instances": len(ratios), "value": value}
            rows.append(row | {"to_reach": f">= {least}", "met": _met(value >= least)})
    gpu = [(store.device_ms(name, "auto"), _fastest(store, name)[0]) for name in networks]
    ratios = [best / ms for ms, best in gpu if ms and best and best > 10]
    if ratios:
        row = {"what": "best CPU code here / auto on the GPU, where it needs over 10 ms, worst"}
        row |= {"instances": len(ratios), "value": min(ratios)}
        rows.append(row | {"to_reach": "> 1", "met": _met(min(ratios) > 1)})
    return rows


def label(instance: str, method: str, **options: Any) -> str:
    return Job(instance, method, **options).label


def _fastest(store: Store, name: str) -> tuple[float | None, str | None]:
    """Time and label of the fastest CPU code that finished here."""
    labels = [which for x, lane, which, _ in store.found if (x, lane) == (name, "one")]
    ms, which = store.fastest(name, "one", labels)
    finished = which is not None and not store.found[name, "one", which, "nothing"].over
    return (ms, which) if finished else (None, None)


def _met(yes: bool) -> str:
    return "met" if yes else "missed"


def _text(x: Measured) -> str:
    return f"{'>' * x.over}{x.ms:.4g}"
