"""MOTA, IDF1 and switches, by motmetrics (Bernardin and Stiefelhagen 2008, Ristani et al. 2016)."""

from __future__ import annotations

from typing import NamedTuple

import motmetrics
import numpy as np
from _tracking_data import Sequence


SEEN = 3  # a track with less detections than this in all is taken for false
METRICS = ["mota", "idf1", "num_switches", "num_misses", "num_false_positives", "num_objects"]


class Score(NamedTuple):
    facts: dict[str, float]
    switches: np.ndarray  # [k, 2]: frame and object


def score(sequences: list[Sequence], names: list[np.ndarray]) -> Score:
    """Of all sequences together; `switches` are those of the first."""
    pairs = zip(sequences, names, strict=True)
    events = [_accumulated(sequence, confirmed(of_one)) for sequence, of_one in pairs]
    metrics = motmetrics.metrics.create()
    table = metrics.compute_many(events, metrics=METRICS, generate_overall=True)
    of_first = events[0].mot_events
    switches = of_first[of_first["Type"] == "SWITCH"]
    at = np.column_stack([switches.index.get_level_values("FrameId"), switches["OId"]])
    return Score(table.loc["OVERALL"].astype(float).to_dict(), at.astype(int))


def confirmed(names: np.ndarray) -> np.ndarray:
    """Names `[t, d]` of one sequence, -1 also for tracks that were seen too rarely."""
    count = np.bincount(names[names >= 0], minlength=1)
    return np.where((names >= 0) & (count[names] >= SEEN), names, -1)


def _accumulated(sequence: Sequence, names: np.ndarray) -> motmetrics.MOTAccumulator:
    """A detection may be an object if they overlap by half."""
    events = motmetrics.MOTAccumulator()
    for k, (boxes, present) in enumerate(zip(sequence.boxes, sequence.present, strict=True)):
        named = names[k] >= 0
        distance = 1 - overlap(boxes[present], sequence.detected[k][named])
        distance[distance > 0.5] = np.nan
        events.update(np.flatnonzero(present), names[k][named], distance, frameid=k)
    return events


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of all pairs of boxes, given by centre and extent."""
    low = np.maximum((a[:, :2] - a[:, 2:] / 2)[:, None], b[:, :2] - b[:, 2:] / 2)
    high = np.minimum((a[:, :2] + a[:, 2:] / 2)[:, None], b[:, :2] + b[:, 2:] / 2)
    common = (high - low).clip(0).prod(-1)
    return common / (a[:, 2:].prod(-1)[:, None] + b[:, 2:].prod(-1) - common)
