"""The tables of the flow benchmark: which measurement stands beside which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.common import record as common
from benchmarks.flow.workers import PEERS, Job, Measured


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
SEQUENTIAL = ("augment", "push_relabel", "pseudoflow")

TITLES = {
    "targets": '"auto" on the GPU, ms',
    "layouts": "thread_centric (TC) and two_level (TLPNS) by layout, ms (tables I, III)",
    "breakdown": "where the time goes on the GPU, shares of a solve",
    "cpu": "one core, as a multiple of auto on one core",
    "grids_cpu": "grids on one core, as a multiple of auto on one core",
    "criteria": "what is to hold",
}

Found = dict[tuple[str, str, str], Measured]  # by lane, instance and label


def targets(found: Found, goals: Sequence[Target], on_gpu: bool) -> list[dict[str, Any]]:
    rows = []
    for goal in goals:
        here = found.get(("gpu", goal.instance, Job(goal.instance, "auto", goal.form).label))
        if here is None:
            continue
        ms = here.device_ms or here.ms
        cpu = {
            label: x.ms
            for (lane, instance, label), x in found.items()
            if lane == "one" and instance == goal.instance and not x.over
        }
        fastest = min(cpu, key=cpu.__getitem__) if cpu else None
        row = {"instance": goal.instance, "form": goal.form, "device_ms": here.device_ms}
        row |= {"spread": here.device_spread, "call_ms": here.ms, "to_reach": goal.to_reach}
        if on_gpu and goal.to_reach:
            row |= {"ratio": ms / goal.to_reach, "met": "met" if ms <= goal.to_reach else "missed"}
        row |= {"cpu_here_ms": cpu.get(fastest or ""), "cpu_here": fastest}
        row |= {"cpu_earlier": goal.cpu, "code": goal.cpu_code, "wbpr_earlier": goal.wbpr}
        rows.append(row | {"prototype_earlier": goal.prototype})
    return rows


PARTS = ("search", "push", "search_back", "push_back", "take_back", "cut")


def breakdown(found: Found, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of `auto` and the paper's methods, each on its best layout."""
    rows = []
    for name in names:
        for method in ("auto", *GPU_PAPER):
            on = [Job(name, method, layout=layout).label for layout in LAYOUTS]
            every = {label: found[key] for label in on if (key := ("gpu", name, label)) in found}
            label = min(every, key=lambda label: every[label].ms, default="")
            x = every.get(label)
            if x is None or x.shares is None or x.searches is None:
                continue
            row = {"instance": name, "method": label, "relabels": sum(x.searches)}
            rows.append(row | dict(zip(PARTS, x.shares, strict=True)))
    return rows


def layouts(
    found: Found, names: Sequence[str], spread: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        row: dict[str, Any] = {"instance": name}
        if name in spread:
            row |= dict(zip(("spread_tc", "spread_tl"), spread[name], strict=True))
        for layout in LAYOUTS:
            pair = [
                found.get(("gpu", name, Job(name, method, layout=layout).label))
                for method in GPU_PAPER
            ]
            for short, x in zip(("tc", "tl"), pair, strict=True):
                row[f"{short}_{layout}"] = None if x is None else _text(x)
            both = [x for x in pair if x is not None and not x.over]
            row[f"speed_up_{layout}"] = both[0].ms / both[1].ms if len(both) == 2 else None
        auto = found.get(("gpu", name, "auto"))
        rows.append(row | {"auto": None if auto is None else _text(auto)})
    return [row for row in rows if any(row[f"tl_{layout}"] for layout in LAYOUTS)]


def on_one_core(found: Found, names: Sequence[str], form: str) -> list[dict[str, Any]]:
    """Our methods and the peers as multiples of auto. A peer takes a grid as a network."""
    ours = SEQUENTIAL if form == "network" else ()
    rows = []
    for name in names:
        auto = found.get(("one", name, Job(name, "auto", form).label))
        if auto is None:
            continue
        row: dict[str, Any] = {"instance": name, "auto_ms": auto.ms}
        for method in (*ours, *PEERS):
            x = found.get(("one", name, Job(name, method).label))
            row[method] = None if x is None else f"{'>' * x.over}{x.ms / auto.ms:.4g}"
        rows.append(row)
    return rows


def criteria(found: Found, networks: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for peer, least in (("ortools", 2), ("scipy", 5)):
        ratios = [
            x.ms / auto.ms
            for name in networks
            if (x := found.get(("one", name, peer))) and (auto := found.get(("one", name, "auto")))
        ]
        if ratios:
            value = common.geometric_mean(ratios)
            row = {"what": f"{peer} / auto on one core", "instances": len(ratios), "value": value}
            rows.append(row | {"to_reach": f">= {least}", "met": _met(value >= least)})
    gpu = [(name, found.get(("gpu", name, "auto")), _fastest(found, name)) for name in networks]
    ratios = [best / (x.device_ms or x.ms) for _, x, best in gpu if x and best and best > 10]
    if ratios:
        row = {"what": "best CPU code here / auto on the GPU, where it needs over 10 ms, worst"}
        row |= {"instances": len(ratios), "value": min(ratios)}
        rows.append(row | {"to_reach": "> 1", "met": _met(min(ratios) > 1)})
    return rows


def _fastest(found: Found, name: str) -> float | None:
    ms = [x.ms for (lane, n, _), x in found.items() if (lane, n) == ("one", name) and not x.over]
    return min(ms) if ms else None


def _met(yes: bool) -> str:
    return "met" if yes else "missed"


def _text(x: Measured) -> str:
    return f"{'>' * x.over}{x.ms:.4g}"
