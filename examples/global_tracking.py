"""Follow moving objects through a whole sequence by one flow of minimum cost.

    python examples/global_tracking.py
    python examples/global_tracking.py --quick      # fewer frames, for a first look

About 6 s on two cores of an AMD EPYC.

Objects wander in the plane. Their detections are inexact, one in six is missed, and some of each
frame are false. A track is a path through detections, and the best set of all tracks is a flow
(Zhang, Li and Nevatia, *Global data association for multi-object tracking using network flows*,
2008). A detection is an arc that pays. A link between detections of nearby frames costs more the
farther apart they are. Starting and ending a track has a price. The flow decides on all frames at
once: later detections tell where a link should have led. False detections are left out, as tracks
of one or two of them do not pay.

For comparison, the same links are chosen frame by frame: `solve_assignment` joins the tracks so far
to the detections of the next frame, at the same costs and with the same gate, and tracks that stay
short are left out. At the end it reports MOTA and switches of both, by motmetrics if that is
installed, and writes a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _global_tracking_plots import draw
from _global_tracking_scores import score

import jaxmatch as jm


PATIENCE = 4  # a link leads at most so many frames ahead
SPREAD = 0.22  # of an object's place from frame to frame, with the errors of detections
GATE = 3.0  # a link is no longer than this, in units of the spread after so many frames
SKIPPED = 2.0  # what each frame costs in which an object is missed
PRICE = 6.0  # of beginning a track, and of ending it
GAIN = 3.5  # of a detection in a track
# Frame by frame, these scored best among those that were tried: the cost of leaving a detection
# without a track, and the least number of detections of a track that is kept.
UNMATCHED, SHORTEST = 6.0, 4


class Sequence(NamedTuple):
    truth: np.ndarray  # [t, k, 2]
    found: list[np.ndarray]  # [d, 2] in each frame, in no order


def simulate(seed: int, frames: int, objects: int, missed: float, false: float) -> Sequence:
    """Objects bounce between the walls of a box with sides of 10, at velocities that wander."""
    rng = np.random.default_rng(seed)
    speed = rng.normal(0, 0.1, (objects, 2)) + np.cumsum(
        rng.normal(0, 0.03, (frames, objects, 2)), axis=0
    )
    speed *= 0.15 / np.maximum(0.15, np.linalg.norm(speed, axis=-1, keepdims=True))
    place = rng.uniform(0, 10, (objects, 2)) + np.cumsum(speed, 0)
    truth = 10 - np.abs(place % 20 - 10)
    found = []
    for t in range(frames):
        seen = truth[t, rng.random(objects) >= missed]
        inexact = seen + rng.normal(0, 0.08, seen.shape)
        wrong = rng.uniform(0, 10, (rng.poisson(false), 2))
        found.append(rng.permutation(np.concatenate([inexact, wrong])))
    return Sequence(truth, found)


def link_cost(before: np.ndarray, after: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Of all pairs, for links `ahead` frames long; +inf outside of the gate."""
    apart = ((before[:, None] - after) ** 2).sum(-1) / (SPREAD**2 * ahead)
    return np.where(apart <= GATE**2, apart + SKIPPED * (ahead - 1), np.inf)


def by_flow(sequence: Sequence) -> tuple[list[np.ndarray], float, jm.MinimumCostFlow]:
    """The name of each detection, -1 for none; the milliseconds of the solve; its result."""
    counts = [len(x) for x in sequence.found]
    first = np.append(0, np.cumsum(counts))  # detection of each frame
    links = []
    for t in range(len(counts)):
        for ahead in range(1, min(PATIENCE, len(counts) - 1 - t) + 1):
            cost = link_cost(sequence.found[t], sequence.found[t + ahead], np.array(ahead))
            i, j = np.nonzero(np.isfinite(cost))
            links.append((first[t] + i, first[t + ahead] + j, cost[i, j]))
    before, after, cost = (np.concatenate(x) for x in zip(*links, strict=True))

    n = first[-1]
    each = np.arange(n)
    enter, leave = 2 * each, 2 * each + 1
    source, sink = 2 * n, 2 * n + 1
    tail = np.concatenate([leave[before], enter, np.full(n, source), leave, [sink]])
    head = np.concatenate([enter[after], leave, enter, np.full(n, sink), [source]])
    network = jm.FlowNetwork.from_edges(tail, head, 2 * n + 2)
    price = np.full(n, PRICE)
    costs = np.concatenate([cost, np.full(n, -GAIN), price, price, [0]])
    capacity = np.append(np.ones(len(tail) - 1, np.int32), np.int32(n))
    supply = np.zeros(2 * n + 2, np.int32)  # as many tracks as pay

    start = time.perf_counter()
    res = jm.minimum_cost_flow(network, capacity, costs, supply)
    ms = 1e3 * (time.perf_counter() - start)
    assert res.status == jm.Status.OPTIMAL

    used = np.asarray(res.flow) > 0
    name = np.where(used[len(before) :][:n], each, -1)  # for now, each is a track of its own
    taken = used[: len(before)]
    order = np.argsort(after[taken])  # detections are in the order of frames
    for i, j in zip(before[taken][order], after[taken][order], strict=True):
        name[j] = name[i]
    return np.split(name, first[1:-1]), ms, res


def frame_by_frame(sequence: Sequence) -> tuple[list[np.ndarray], float]:
    """The name of each detection, -1 for none; the milliseconds of all solves."""
    place, seen = np.zeros((0, 2)), np.zeros(0, int)  # of all tracks: where and when they were last
    names, ms = [], 0.0
    for t, found in enumerate(sequence.found):
        alive = np.flatnonzero(t - seen <= PATIENCE)
        cost = link_cost(found, place[alive], (t - seen)[alive])
        start = time.perf_counter()
        col4row = jm.solve_assignment(cost, unmatched_cost=UNMATCHED).col4row
        ms += 1e3 * (time.perf_counter() - start)
        joined, new = col4row >= 0, np.flatnonzero(col4row < 0)
        name = np.empty(len(found), int)
        name[joined] = alive[col4row[joined]]
        name[new] = len(place) + np.arange(len(new))
        place = np.concatenate([place, np.zeros((len(new), 2))])
        seen = np.append(seen, np.zeros(len(new), int))
        place[name], seen[name] = found, t
        names.append(name)
    lengths = np.bincount(np.concatenate(names))
    return [np.where(lengths[x] >= SHORTEST, x, -1) for x in names], ms


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--objects", type=int, default=25)
    parser.add_argument("--missed", type=float, default=1 / 6, help="share of detections")
    parser.add_argument("--false", type=float, default=5.0, help="detections in a frame")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="40 frames")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    frames = 40 if args.quick else args.frames
    sequence = simulate(args.seed, frames, args.objects, args.missed, args.false)

    by_frames, frames_ms = frame_by_frame(sequence)
    by_one_flow, flow_ms, res = by_flow(sequence)
    names = {"frame by frame": by_frames, "one flow": by_one_flow}
    scores = {name: score(sequence.truth, sequence.found, x) for name, x in names.items()}

    print(f"{sum(map(len, sequence.found))} detections in {frames} frames, {len(res.flow)} arcs")
    print("                  MOTA  switches  misses  false      ms")
    for (name, x), ms in zip(scores.items(), (frames_ms, flow_ms), strict=True):
        counts = f"{len(x.switches):9} {x.misses:7} {x.false:6}"
        print(f"{name:15} {x.mota:6.1%} {counts} {ms:7.1f}")
    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "global_tracking.png"
    draw(picture, sequence.truth, sequence.found, names, scores)
    facts = {
        name: {"mota": x.mota, "switches": len(x.switches), "misses": x.misses, "false": x.false}
        for name, x in scores.items()
    }
    content = {"seed": args.seed, "frames": frames, "cost": float(res.cost), "scores": facts}
    (args.out / "global_tracking.json").write_text(json.dumps(content, indent=2) + "\n")
    print("wrote", picture)


if __name__ == "__main__":
    main()
