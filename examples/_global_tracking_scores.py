"""MOTA and switches (Bernardin and Stiefelhagen 2008), by motmetrics or by a function of ours."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import jaxmatch as jm


NEAR = 0.5  # a detection farther away than this from an object is not of it


class Score(NamedTuple):
    mota: float
    switches: np.ndarray  # [k, 2]: frame and object
    misses: int
    false: int


def distances(truth: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Of all pairs, +inf outside of the gate."""
    apart = np.linalg.norm(truth[:, None] - places, axis=-1)
    return np.where(apart <= NEAR, apart, np.inf)


def score(truth: np.ndarray, found: list[np.ndarray], names: list[np.ndarray]) -> Score:
    """Of true places `[t, k, 2]`, and the places and names of the detections of each frame."""
    by = by_motmetrics if find_spec("motmetrics") else by_hand
    return by(truth, found, names)


def by_motmetrics(truth: np.ndarray, found: list[np.ndarray], names: list[np.ndarray]) -> Score:
    import motmetrics

    events = motmetrics.MOTAccumulator()
    objects = np.arange(truth.shape[1])
    for frame, (places, of_frame) in enumerate(zip(found, names, strict=True)):
        named = of_frame >= 0
        apart = distances(truth[frame], places[named])
        apart[np.isinf(apart)] = np.nan
        events.update(objects, of_frame[named], apart, frameid=frame)
    wanted = ["mota", "num_misses", "num_false_positives"]
    table: Any = motmetrics.metrics.create().compute(events, metrics=wanted)
    row = table.iloc[0]
    switches: Any = events.mot_events[events.mot_events["Type"] == "SWITCH"]
    at = np.column_stack([switches.index.get_level_values("FrameId"), switches["OId"]])
    return Score(float(row["mota"]), at.astype(int), int(row.iloc[1]), int(row.iloc[2]))


def by_hand(truth: np.ndarray, found: list[np.ndarray], names: list[np.ndarray]) -> Score:
    """An object keeps its track while both are near; the others are matched anew."""
    count = truth.shape[1]
    last = np.full(count, -1)  # the name of each object
    switches, misses, false = [], 0, 0
    for frame, (places, of_frame) in enumerate(zip(found, names, strict=True)):
        named = of_frame[of_frame >= 0]
        apart = distances(truth[frame], places[of_frame >= 0])
        kept = (last[:, None] == named) & np.isfinite(apart)
        kept &= np.cumsum(kept, 0) == 1  # two objects may have had the same track
        rest = ~kept.any(1)[:, None] & ~kept.any(0)
        cost = np.where(rest, apart, np.inf)
        # As many pairs as there can be: leaving an object alone costs more than all of them.
        col4row = jm.solve_assignment(cost, unmatched_cost=1.0 + NEAR * count).col4row
        at = np.where(kept.any(1), kept.argmax(1) if len(named) else -1, col4row)
        seen = at >= 0
        new = np.full(count, -1)
        new[seen] = named[at[seen]]
        switched = seen & (last >= 0) & (new != last)
        switches += [(frame, k) for k in np.flatnonzero(switched)]
        last = np.where(seen, new, last)
        misses += int((~seen).sum())
        false += len(named) - int(seen.sum())
    mota = 1 - (misses + false + len(switches)) / (len(found) * count)
    return Score(mota, np.array(switches, int).reshape(-1, 2), misses, false)
