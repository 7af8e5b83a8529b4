"""Quadratic assignment from hundreds of starts at once: facilities, and graphs that are the same.

    python examples/graph_matching.py
    python examples/graph_matching.py --quick       # smaller graphs, for a first look
    python examples/graph_matching.py --instances nug30 sko100a tai100a    # of QAPLIB

About 40 s on two cores of an Intel Xeon.

To place facilities so that what flows between them has a short way, or to find which vertex of one
graph is which of another, is a quadratic assignment problem, which is hard.
`jaxmatch.quadratic_assignment` looks for a local optimum by FAQ (Vogelstein et al., PLOS ONE,
2015): each step solves a linear assignment problem, and hundreds of starts are one batch. With more
steps than the 30 that scipy takes, and exchanges of pairs at the end ("further"), results are
better.

Ties: vertices of the same degree have the same gradient at the barycentre, so that a solver decides
by the order of the vertices. Where both graphs are in the same order that favours the answer, and
where they are not, all starts without randomness may end in one poor optimum. So the starts here
are random, halfway between the barycentre and random doubly stochastic matrices, and
`quadratic_assignment` with a key sees the columns in a random order.

- Instances of QAPLIB whose optimum is known, from the same starts as `quadratic_assignment` of
  scipy. `chr12c` and `tai64c` are built in, and `grid100`, which is like `sko100a`. All others can
  be read from Debian's package `r-cran-qap`, or from another folder (`--qaplib`).
- Two graphs of near points, the second after all points have moved a little: how many vertices are
  recovered, by one start and by many. Vertices with the same neighbours cannot be told apart, so
  that some are missed even without noise.

At the end: a table, and a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from _graph_matching_graphs import Pair, draw_pair
from _graph_matching_instances import BUILT_IN, DEBIAN, Instance, load
from _graph_matching_plots import draw
from scipy.optimize import quadratic_assignment
from tqdm import tqdm

import jaxmatch as jm


STEPS = 30  # the default of scipy, as is the tolerance
MORE_STEPS = 60  # where starts of 100 objects are not done after 30
TURNS = 4  # in which scipy's starts are divided, with all of ours in each
SHOWN_NOISE = 0.1


def random_starts(seed: int, count: int, n: int) -> np.ndarray:
    """Halfway between the barycentre and random doubly stochastic matrices, as scipy has it."""
    x = np.random.default_rng(seed).random((count, n, n))
    for _ in range(50):
        x /= x.sum(-1, keepdims=True)
        x /= x.sum(-2, keepdims=True)
    return (x + 1 / n) / 2


def compare(
    instance: Instance, args: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Facts of one instance, and the value that each start ends in, by solver."""
    a, b = instance.a, instance.b
    starts = random_starts(args.seed, args.starts, len(a))

    def as_scipy() -> jm.QuadraticAssignment:
        return jm.quadratic_assignment(a, b, starts=starts, steps=STEPS)

    def further() -> jm.QuadraticAssignment:
        return jm.quadratic_assignment(a, b, starts=starts, steps=MORE_STEPS, two_opt=True)

    of_scipy = []
    seconds: dict[str, list[float]] = {"FAQ": [], "further": [], "scipy": []}
    turns = np.array_split(starts, TURNS)
    with tqdm(total=args.starts, unit="start", desc=instance.name, dynamic_ncols=True) as bar:
        for turn in turns:
            begin = time.perf_counter()
            ends = as_scipy()
            between = time.perf_counter()
            better = further()
            seconds["FAQ"].append(between - begin)
            seconds["further"].append(time.perf_counter() - between)
            for start in () if args.skip_scipy else turn:
                begin = time.perf_counter()
                result = quadratic_assignment(a, b, method="faq", options={"P0": start})
                seconds["scipy"].append(time.perf_counter() - begin)
                of_scipy.append(result.fun)
                bar.update()
    by_solver = {"FAQ": ends.values, "further": better.values}
    if not args.skip_scipy:
        by_solver["scipy"] = np.array(of_scipy)
    facts = {
        "n": len(a),
        "best_known": instance.best_known,
        "best": {name: int(x.min()) for name, x in by_solver.items()},
        "median": {name: float(np.median(x)) for name, x in by_solver.items()},
        "steps": float(np.mean(ends.steps)),
        "seconds": {
            "FAQ": float(np.median(seconds["FAQ"])),
            "further": float(np.median(seconds["further"])),
            "scipy": float(np.sum(seconds["scipy"])),
        },
    }
    return facts, by_solver


def recover(
    pair: Pair, key: jax.Array, args: argparse.Namespace
) -> tuple[dict[str, float], np.ndarray]:
    """The share of vertices that are recovered, and the best correspondence."""
    a, b = pair.first, pair.second

    def ours(**options: Any) -> np.ndarray:
        return jm.quadratic_assignment(
            a, b, maximize=True, starts=args.starts, key=key, **options
        ).col4row

    best = {
        "one start, scipy": quadratic_assignment(a, b, options={"maximize": True}).col_ind,
        "many starts": ours(),
        "many starts, then exchanges": ours(two_opt=True),
    }
    share = {name: float((q == pair.partner).mean()) for name, q in best.items()}
    return share, best["many starts, then exchanges"]


def sweep(args: argparse.Namespace) -> tuple[dict[str, list[float]], tuple[Pair, np.ndarray]]:
    """Shares by noise, each the mean over several pairs of graphs; and one pair to be shown."""
    shares: dict[str, list[float]] = {}
    shown = None
    with tqdm(total=len(args.noise) * args.pairs, unit="pair", dynamic_ncols=True) as bar:
        for noise in args.noise:
            at_noise: dict[str, list[float]] = {}
            for k in range(args.pairs):
                pair = draw_pair(args.seed + k, args.vertices, noise)
                share, best = recover(pair, jax.random.key(args.seed + k), args)
                for name, x in share.items():
                    at_noise.setdefault(name, []).append(x)
                if noise == SHOWN_NOISE and shown is None:
                    shown = pair, best
                bar.update()
            for name, xs in at_noise.items():
                shares.setdefault(name, []).append(float(np.mean(xs)))
    assert shown is not None
    return shares, shown


def print_table(facts: dict[str, dict[str, Any]], starts: int) -> None:
    print(f"\n{starts} starts, values above the best known: the best of all and the median")
    print("instance    n  best known |          FAQ         further           scipy |", end="")
    print("   FAQ [s]   further    scipy  scipy / FAQ")
    for name, fact in facts.items():
        known = best_known(fact)
        print(f"{name:9} {fact['n']:3} {known if fact['best_known'] else '-':>11} |", end="")
        for solver in ("FAQ", "further", "scipy"):
            if solver not in fact["best"]:
                print(f"{'-':>16}", end="")
                continue
            best, median = fact["best"][solver] / known - 1, fact["median"][solver] / known - 1
            print(f"{best:8.2%} {median:6.1%} ", end="")
        seconds = fact["seconds"]
        print(f"| {seconds['FAQ']:9.3f} {seconds['further']:9.3f} ", end="")
        ratio = seconds["scipy"] / seconds["FAQ"]
        print(f"{seconds['scipy']:8.2f} {ratio:12.1f}" if "scipy" in fact["best"] else "       -")


def best_known(fact: dict[str, Any]) -> int:
    """The best of QAPLIB, or where there is none, the best that any of the solvers has found."""
    return fact["best_known"] or min(fact["best"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=256)
    parser.add_argument("--instances", nargs="+", default=[*BUILT_IN], metavar="NAME")
    parser.add_argument("--qaplib", type=Path, default=DEBIAN, help="folder of .dat and .sln files")
    parser.add_argument("--skip-scipy", action="store_true", help="it takes most of the time")
    parser.add_argument("--vertices", type=int, default=80, help="of the graphs")
    parser.add_argument("--pairs", type=int, default=4, help="of graphs, for each level of noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller graphs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    args.noise = [0.0, 0.05, SHOWN_NOISE, 0.15, 0.2, 0.3, 0.4]
    if args.quick:
        args.vertices, args.pairs, args.noise = 50, 2, [0.0, SHOWN_NOISE, 0.4]
        args.instances = ["chr12c", "tai64c"]

    start = time.perf_counter()
    facts, ends = {}, {}
    for instance in [load(name, args.qaplib) for name in args.instances]:
        facts[instance.name], ends[instance.name] = compare(instance, args)
    shares, (pair, best) = sweep(args)

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "graph_matching.png"
    draw(picture, facts, ends, (args.noise, shares), (pair, best), args.starts)
    result = {
        "starts": args.starts,
        "seed": args.seed,
        "device": jax.devices()[0].device_kind,
        "instances": facts,
        "noise": args.noise,
        "recovered": shares,
        "wall_seconds": time.perf_counter() - start,
    }
    (args.out / "graph_matching.json").write_text(json.dumps(result, indent=2) + "\n")

    print_table(facts, args.starts)
    print(f"\nvertices recovered of {args.vertices}, mean of {args.pairs} pairs of graphs")
    print(f"{'noise':28}" + "".join(f"{x:6.2f}" for x in args.noise))
    for name, share in shares.items():
        print(f"{name:28}" + "".join(f"{x:6.0%}" for x in share))
    print("wrote", picture)


if __name__ == "__main__":
    main()
