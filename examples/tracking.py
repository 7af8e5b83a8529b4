"""Follow many objects: detections are associated frame by frame, in one compiled `lax.scan`.

    python examples/tracking.py
    python examples/tracking.py --quick     # fewer and shorter sequences, for a first look

About 30 s on two cores of an Intel Xeon.

A track has a Kalman filter, which says where its object will be. A pair of a detection and a track
costs -2 log of its likelihood, and is forbidden outside of a gate. A detection may stay without a
track: it is a new object, or false. The best choice for a whole frame (the global nearest neighbour
of the literature) is an assignment problem with `unmatched_cost`. `solve_assignment` solves it
inside of the scan, for all sequences of a batch in one call. Tracks are born and die in padded
arrays with masks (`_tracking_filter.py`).

Each frame is solved cold, as problems with `unmatched_cost` are. Padded to a square, it could start
from the duals of the last frame, but that took 1.5 times as long or more, measured with 30 to 500
detections.

- Pedestrians of motmetrics' test data, `TUD-Campus` and `TUD-Stadtmitte`: boxes that a tracker
  found, without the names that it gave them.
- Scanned digits that cross each other's way in front of a camera that shakes. Detections are
  inexact, some are missed and some false. When the camera moves, the nearest detection is often
  that of a neighbour. Which pairs have the least sum of squares does not depend on a displacement
  of all, as long as all are detected.

Each is tracked with greedy association (the nearest pair first), with exact association by
jaxmatch, and with exact association by scipy in a callback. At the end: MOTA and IDF1 by
motmetrics, times, and a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _tracking_associations import ASSOCIATIONS
from _tracking_data import Sequence, moving_digits, pedestrians, stacked
from _tracking_filter import Detections, track
from _tracking_metrics import Score, score
from _tracking_plots import draw
from tqdm import tqdm


REPEATS = 3  # of each timing


def names_of(
    sequences: list[Sequence], which: list[str], bar: tqdm
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Names of all detections, `[b, t, d]`, and microseconds per frame; by association."""
    boxes, mask = stacked(sequences)
    detections = Detections(jnp.asarray(boxes, jnp.float32), jnp.asarray(mask))
    slots = 2 * mask.shape[-1]

    def tracker(name: str) -> Any:
        return jax.jit(jax.vmap(partial(track, associate=ASSOCIATIONS[name], slots=slots)))

    trackers = {name: tracker(name) for name in which}
    names, seconds = {}, {name: [] for name in which}
    for turn in range(REPEATS + 1):  # in turns, so that all suffer from what else runs
        for name in which:
            start = time.perf_counter()
            names[name] = np.asarray(trackers[name](detections))
            if turn:  # the first compiles
                seconds[name].append(time.perf_counter() - start)
            bar.update()
    frames = boxes.shape[0] * boxes.shape[1]
    return names, {name: 1e6 * median(xs) / frames for name, xs in seconds.items()}


def scores_of(
    sequences: list[Sequence], names: dict[str, np.ndarray], bar: tqdm
) -> dict[str, Score]:
    """By association, of the first sequences; and of names that were given with the boxes."""
    scores = {}
    for name, of_all in names.items():
        cut = [x[:, : s.mask.shape[1]] for x, s in zip(of_all, sequences, strict=False)]
        scores[name] = score(sequences, cut)
        bar.update()
    given = [s.given for s in sequences if s.given is not None]
    if given:
        scores["as given"] = score(sequences, given)
    return scores


def print_table(facts: dict[str, dict[str, Any]], count: int) -> None:
    print("\ndata            association    MOTA    IDF1  switches  misses  false  us per frame")
    for data, by_name in facts.items():
        for name, fact in by_name.items():
            per_frame = f"{fact['us_per_frame']:.1f}" if "us_per_frame" in fact else "-"
            print(
                f"{data:15} {name:11} {fact['mota']:7.1%} {fact['idf1']:7.1%} "
                f"{fact['num_switches']:9.0f} {fact['num_misses']:7.0f} "
                f"{fact['num_false_positives']:6.0f} {per_frame:>13}"
            )
    print(f"(scores of digits: {count} sequences together)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", type=int, default=64, help="of digits, in one batch")
    parser.add_argument("--scored", type=int, default=8, help="of these, by motmetrics")
    parser.add_argument("--frames", type=int, default=120, help="of a sequence")
    parser.add_argument("--objects", type=int, default=60, help="digits, of which half are visible")
    parser.add_argument("--shake", type=float, default=5.0, help="of the camera, in pixels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 sequences of 60 frames")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    if args.quick:
        args.sequences, args.scored, args.frames = 8, 2, 60

    start = time.perf_counter()
    digits = [
        moving_digits(args.seed + k, args.frames, args.objects, shake=args.shake)
        for k in range(args.sequences)
    ]
    data = {name: [pedestrians(name)] for name in ("TUD-Campus", "TUD-Stadtmitte")}
    data |= {"digits": digits}
    which = [*ASSOCIATIONS]
    total = len(which) * (len(data) + (len(data) + 1) * (REPEATS + 1))
    facts: dict[str, dict[str, Any]] = {}
    names, scores = {}, {}
    with tqdm(total=total, unit="run", dynamic_ncols=True) as bar:
        for name, sequences in data.items():
            names[name], times = names_of(sequences, which, bar)
            scores[name] = scores_of(sequences[: args.scored], names[name], bar)
            facts[name] = {k: dict(x.facts) for k, x in scores[name].items()}
            for k, x in times.items():
                facts[name][k]["us_per_frame"] = x
        of_one = names_of(digits[:1], which, bar)[1]
    by_count = {1: of_one, len(digits): times}

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "tracking.png"
    draw(picture, data, names, scores, by_count, args.scored)
    result = {
        "seed": args.seed,
        "device": jax.devices()[0].device_kind,
        "data": facts,
        "us_per_frame": by_count,
        "same_names": {k: float((x["jaxmatch"] == x["scipy"]).mean()) for k, x in names.items()},
        "wall_seconds": time.perf_counter() - start,
    }
    (args.out / "tracking.json").write_text(json.dumps(result, indent=2) + "\n")
    print_table(facts, args.scored)
    for count, of_count in by_count.items():
        told = ", ".join(f"{k} {x:.0f}" for k, x in of_count.items())
        print(f"us per frame, {count} sequence{'s' * (count > 1)} at once: {told}")
    print("wrote", picture)


if __name__ == "__main__":
    main()
