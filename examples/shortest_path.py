"""Learn to predict costs so that the paths chosen by them are short, in several ways.

    python examples/shortest_path.py
    python examples/shortest_path.py --methods SPO+ "implicit MLE"   # some of them

About 16 s on two cores of an Intel Xeon, mostly to compile.

The benchmark of PyEPO's notebook "Training and Testing": a 5x5 grid whose 40 arcs cost what depends
on five features; a linear model predicts the costs, a solver takes the shortest path by them, and
regret is what that path costs more, by the true costs, than the shortest. Costs are a polynomial of
degree 4 with noise, so a linear model cannot have all of them right: what counts is to be wrong
where it does not matter, which is what losses behind a solver teach.

A shortest path is an assignment (each node to the next one), so the solver is `solve_assignment`
on 24x24 matrices: `_shortest_path_problem.py` has an oracle of it, `_shortest_path_training.py` the
losses and gradient rules. A whole run (640 minibatches, hundreds of solves in each epoch's test,
shuffling and noise) is one compiled function. At the end: a table, and a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from _shortest_path_plots import Paths, draw
from _shortest_path_problem import PATHS, Examples, make_split
from _shortest_path_training import METHODS, Linear, Run, train
from tqdm import tqdm


SHOWN = (
    "two-stage",
    "SPO+",
    "perturbed Fenchel-Young",
    "perturbed",
    "adaptive implicit MLE",
    "negative identity",
    "blackbox",
)
QUICK = ("SPO+", "blackbox")


def an_example(name: str, model: Linear, test: Examples) -> Paths:
    """One where the model is wrong: the middle one, by what it costs."""
    chosen = np.asarray(PATHS.solve(model(test.features)).y)
    lost = (np.asarray(test.cost) * chosen).sum(-1) - np.asarray(test.value)
    by_loss = np.argsort(lost)
    wrong = by_loss[lost[by_loss] > 1e-5]
    at = wrong[len(wrong) // 2] if len(wrong) else 0
    return Paths(name, *(np.asarray(x[at]) for x in (test.cost, test.path, chosen)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the model, the order and the noise")
    parser.add_argument("--data-seed", type=int, default=42, help="PyEPO's is 42")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, two methods")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    methods = args.methods or (QUICK if args.quick else SHOWN)
    size = 100 if args.quick else 1000

    split = make_split(args.data_seed, train=size, test=size)
    key = jax.random.key(args.seed)
    runs: dict[str, Run] = {}
    rows = []
    with tqdm(methods, unit="run", dynamic_ncols=True) as bar:
        for name in bar:
            bar.set_postfix_str(name)
            start = time.perf_counter()
            compiled = train.lower(split, key, METHODS[name], args.epochs).compile()
            compiling = time.perf_counter() - start
            start = time.perf_counter()
            runs[name] = jax.block_until_ready(compiled(split, key))
            seconds = time.perf_counter() - start
            regret = np.asarray(runs[name].regret).tolist()
            rows.append(
                {"method": name, "regret": regret, "seconds": seconds, "compile_seconds": compiling}
            )

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "shortest_path.png"
    best = min(runs, key=lambda name: float(runs[name].regret[-1]))
    curves = {name: np.asarray(run.regret) for name, run in runs.items()}
    draw(picture, curves, an_example(best, runs[best].model, split.test))
    result = {"data_seed": args.data_seed, "seed": args.seed, "examples": size, "methods": rows}
    (args.out / "shortest_path.json").write_text(json.dumps(result, indent=2) + "\n")

    print(f"\n{'method':24}  regret [%]   run [s]   compiling [s]")
    for row in sorted(rows, key=lambda row: row["regret"][-1]):
        print(
            f"{row['method']:24} {100 * row['regret'][-1]:11.2f} {row['seconds']:9.2f} "
            f"{row['compile_seconds']:15.1f}"
        )
    print(f"Before training it is {100 * rows[0]['regret'][0]:.1f} %.")
    print("wrote", picture)


if __name__ == "__main__":
    main()
