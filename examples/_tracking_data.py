"""Sequences to track: pedestrians of motmetrics' test data, and scanned digits that move."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import motmetrics
import numpy as np
from sklearn.datasets import load_digits


class Sequence(NamedTuple):
    """Boxes are centre x, centre y, width and height in pixels; masks are False for padding."""

    name: str
    size: tuple[int, int]  # width and height of a frame
    boxes: np.ndarray  # [t, k, 4]: those of object k
    present: np.ndarray  # bool[t, k]
    detected: np.ndarray  # [t, d, 4], in no order
    mask: np.ndarray  # bool[t, d]
    given: np.ndarray | None = None  # i32[t, d]: names by the tracker whose boxes these are
    scans: np.ndarray | None = None  # [k, 8, 8]: the digits
    camera: np.ndarray | None = None  # [t, 2]: how far it is displaced


def pedestrians(name: str) -> Sequence:
    """`TUD-Campus` or `TUD-Stadtmitte`: true boxes, and those that a tracker found."""
    folder = Path(motmetrics.__file__).parent / "data" / name
    files = [np.loadtxt(folder / file, delimiter=",") for file in ("gt.txt", "test.txt")]
    frames = int(max(rows[:, 0].max() for rows in files))

    def of_frames(rows: np.ndarray) -> list[np.ndarray]:
        """Names and boxes; in the file they are frame, name, left, top, width, height."""
        extent = rows[:, 4:6]
        rows = np.column_stack([rows[:, :2], rows[:, 2:4] + extent / 2, extent])
        return [rows[rows[:, 0] == k, 1:] for k in range(1, frames + 1)]

    truth, found = map(of_frames, files)
    objects = np.unique(files[0][:, 1])
    boxes = np.zeros((frames, len(objects), 4))
    present = np.zeros((frames, len(objects)), bool)
    for k, rows in enumerate(truth):
        at = np.searchsorted(objects, rows[:, 0])
        boxes[k, at], present[k, at] = rows[:, 1:], True
    detected, mask = padded(found)
    given = np.where(mask, detected[..., 0], -1).astype(np.int32)
    return Sequence(name, (640, 480), boxes, present, detected[..., 1:], mask, given)


def moving_digits(
    seed: int,
    frames: int = 120,
    objects: int = 60,
    missed: float = 0.05,
    false: float = 1.0,
    shake: float = 5.0,
    size: tuple[int, int] = (320, 240),
) -> Sequence:
    """Digits that move straight on between walls, come and go, before a camera that shakes.

    Each is detected with probability 1 - `missed`, and `false` detections are added to a frame on
    average. From frame to frame all of them are displaced by the same vector, with standard
    deviation `shake` in each direction.
    """
    rng = np.random.default_rng(seed)

    def draw_extents(count: int) -> np.ndarray:
        height = rng.uniform(18, 22, (count, 1))
        return np.concatenate([height * rng.uniform(0.8, 0.9, (count, 1)), height], -1)

    t = np.arange(frames)[:, None]
    begin = rng.integers(-frames // 3, 2 * frames // 3, objects)
    present = (begin <= t) & (t < begin + rng.integers(frames // 3, frames, objects))

    extent = draw_extents(objects)
    angle, speed = rng.uniform(0, 2 * np.pi, objects), rng.uniform(1, 3, objects)
    way = np.stack([np.cos(angle), np.sin(angle)], -1) * speed[:, None] * t[..., None]
    room = np.array(size) - extent
    places = extent / 2 + _reflected(rng.uniform(0, 1, (objects, 2)) * room + way, room)
    camera = shake * rng.normal(size=(frames, 2))
    places += camera[:, None]
    boxes = np.concatenate([places, np.broadcast_to(extent, places.shape)], -1)

    inexact = boxes + rng.normal(size=boxes.shape) * 0.05 * extent[:, 1:]
    seen = present & (rng.random(present.shape) >= missed)
    found = []
    for k in range(frames):
        wrong = draw_extents(rng.poisson(false))
        wrong = np.concatenate([rng.uniform(0, size, wrong.shape), wrong], -1)
        found.append(rng.permutation(np.concatenate([inexact[k, seen[k]], wrong])))
    scans = load_digits().images[rng.integers(0, 1797, objects)] / 16
    return Sequence("digits", size, boxes, present, *padded(found), None, scans, camera)


def _reflected(x: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Positions between 0 and `room`, as of a ball between walls."""
    return room - np.abs(x % (2 * room) - room)


def padded(frames: list[np.ndarray], multiple: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Rows of each frame with zeros after them, and where there are rows."""
    most = max(map(len, frames))
    mask = np.arange(most + -most % multiple) < np.array([len(x) for x in frames])[:, None]
    rows = np.zeros((*mask.shape, frames[0].shape[1]))
    rows[mask] = np.concatenate(frames)
    return rows, mask


def stacked(sequences: list[Sequence]) -> tuple[np.ndarray, np.ndarray]:
    """Detections and their masks, `[b, t, d, 4]` and `[b, t, d]`."""
    most = max(sequence.mask.shape[1] for sequence in sequences)

    def wider(x: np.ndarray) -> np.ndarray:
        return np.pad(x, [(0, 0), (0, most - x.shape[1])] + [(0, 0)] * (x.ndim - 2))

    pairs = [(wider(x.detected), wider(x.mask)) for x in sequences]
    boxes, masks = (np.stack(xs) for xs in zip(*pairs, strict=True))
    return boxes, masks
