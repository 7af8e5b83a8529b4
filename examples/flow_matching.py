"""Train flows whose paths are nearly straight, by exact optimal transport in every step.

    python examples/flow_matching.py                   # 8 Gaussians to two moons
    python examples/flow_matching.py --data digits     # scanned digits from noise
    python examples/flow_matching.py --batch 1024 --couple 128 --skip-scipy    # on a GPU

About 80 s on two cores of an Intel Xeon.

Flow matching regresses a velocity field on the differences of pairs: a point of the source and one
of the target. Pairs that are drawn independently cross, so that paths of the learned field bend,
and many integration steps are needed. Pairs of an optimal transport plan do not cross. Tong et al.
(*Improving and generalizing flow-based generative models with minibatch optimal transport*, 2023)
and Pooladian et al. (*Multisample flow matching*, 2023) couple each minibatch so. The plan of equal
weights is an assignment, which `solve_assignment` solves inside of the jitted step. No plan depends
on the model: `--couple 128` solves those of 128 steps as one batch, which takes a GPU three times
as long as one of them.

Three models start from the same weights and see the same points: with independent pairs, with exact
plans by jaxmatch, and with exact plans by scipy in a callback. They train in turns, step by step,
so that whatever else the machine does slows all of them. Reported for each:

- the median time of a step after warm-up, each call waited for, and the share of the coupling: how
  much longer the step takes than that with independent pairs, relative to the whole;
- curvature and relative length of the paths (`Straightness` in `_flow_matching_training.py`);
- the exact W2 distance between held-out points and as many samples by a few Euler steps. In the
  64 dimensions of digits, blurred samples are near to all points, so it says little there.

At the end: a table, and a picture.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from _flow_matching_couplings import COUPLINGS
from _flow_matching_data import TASKS, Task
from _flow_matching_plots import draw
from _flow_matching_training import Step, Velocity, flow, straightness, train_steps, wasserstein
from tqdm import trange


FEW = 2, 4, 8  # Euler steps
MANY = 64
WARM_UP = 10  # steps that are not timed


def train(task: Task, names: list[str], args: argparse.Namespace) -> tuple[dict, dict[str, dict]]:
    """The trained models, and what was measured on the way, both by name of the coupling."""
    model_key, data_key = jax.random.split(jax.random.key(args.seed))
    rate = optax.warmup_cosine_decay_schedule(
        0, args.learning_rate, min(50, args.steps // 10), args.steps
    )
    optimizer = optax.adam(rate)
    steps = {name: Step(task, name, args.batch, optimizer) for name in names}
    models, states = {}, {}
    for name in names:
        models[name] = Velocity(task.dim, args.width, key=model_key)
        states[name] = optimizer.init(eqx.filter(models[name], eqx.is_array))
    logs: dict[str, dict] = {name: {"loss": [], "pair_cost": [], "seconds": []} for name in names}

    fold = jax.vmap(jax.random.fold_in, (None, 0))
    with trange(args.steps // args.couple, unit_scale=args.couple, dynamic_ncols=True) as bar:
        for k in bar:
            keys = fold(data_key, k * args.couple + np.arange(args.couple))
            for name, log in logs.items():
                start = time.perf_counter()
                trained = train_steps((steps[name], keys), models[name], states[name])
                models[name], states[name], seen = jax.block_until_ready(trained)
                log["seconds"].append((time.perf_counter() - start) / args.couple)
                log["loss"].extend(np.asarray(seen.loss).tolist())
                log["pair_cost"].extend(np.asarray(seen.pair_cost).tolist())
            if k % 20 == 0:
                bar.set_postfix({n: f"{np.mean(log['loss'][-20:]):.2f}" for n, log in logs.items()})
    return models, logs


def measure(
    task: Task, model: Velocity, noise: Any
) -> tuple[dict[str, Any], dict[int, np.ndarray]]:
    """Facts of one model, and its paths by number of Euler steps."""
    paths = {count: flow(model, noise, count) for count in (*FEW, MANY)}
    straight = straightness(paths[MANY])
    facts = {
        "curvature": float(straight.curvature),
        "length_ratio": float(straight.length_ratio),
        "wasserstein": {k: float(wasserstein(path[-1], task.test)) for k, path in paths.items()},
    }
    return facts, {count: np.asarray(path) for count, path in paths.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="moons")
    parser.add_argument("--batch", type=int, default=256, help="points of a minibatch")
    parser.add_argument(
        "--couple", type=int, default=1, help="minibatches that are coupled in one call"
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--width", type=int, default=256, help="of the hidden layers")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--skip-scipy", action="store_true", help="it is slow for large minibatches"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="200 steps")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    if args.quick:
        args.steps, args.width = 200, 64
    args.steps -= args.steps % args.couple

    start = time.perf_counter()
    task = TASKS[args.data]()
    names = [name for name in COUPLINGS if not (args.skip_scipy and name == "scipy")]
    models, logs = train(task, names, args)

    test_key, other_key = jax.random.split(jax.random.key(args.seed + 1))
    noise = task.source(test_key, len(task.test))
    timed = min(WARM_UP, args.steps // args.couple // 2)
    facts, paths = {}, {}
    for name in names:
        facts[name], paths[name] = measure(task, models[name], noise)
        log = logs[name]
        step, plain = (median(logs[k]["seconds"][timed:]) for k in (name, "independent"))
        facts[name] |= {
            "step_ms": 1e3 * step,
            "coupling_share": max(0.0, 1 - plain / step),
            "pair_cost": float(np.mean(log["pair_cost"])),
            "final_loss": float(np.mean(log["loss"][-50:])),
            "compile_seconds": log["seconds"][0],
        }
    floor = float(wasserstein(task.target(other_key, len(task.test)), task.test))

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / f"flow_matching_{args.data}.png"
    draw(picture, paths, facts, floor, np.asarray(task.test), args.batch)
    result = {
        "data": args.data,
        "batch": args.batch,
        "coupled_in_one_call": args.couple,
        "steps": args.steps,
        "seed": args.seed,
        "device": jax.devices()[0].device_kind,
        "couplings": facts,
        "wasserstein_of_data": floor,
        "wall_seconds": time.perf_counter() - start,
    }
    if "scipy" in names:
        ours, theirs = (np.array(logs[name]["pair_cost"]) for name in ("jaxmatch", "scipy"))
        result["largest_cost_difference"] = float((np.abs(ours - theirs) / theirs).max())
    report = args.out / f"flow_matching_{args.data}.json"
    report.write_text(json.dumps(result, indent=2) + "\n")

    print(f"\n{args.steps} steps of {args.batch} points, {result['wall_seconds']:.0f} s in all")
    print("                                                            W2 after Euler steps")
    print("coupling     step [ms]  of it coupling  curvature  length", end="")
    print("".join(f"{count:7}" for count in (*FEW, MANY)))
    for name, fact in facts.items():
        print(
            f"{name:12} {fact['step_ms']:9.2f} {fact['coupling_share']:15.0%} "
            f"{fact['curvature']:10.3f} {fact['length_ratio']:7.3f}", end=""
        )  # fmt: skip
        print("".join(f"{distance:7.3f}" for distance in fact["wasserstein"].values()))
    print(f"W2 between two sets of real points of this size is {floor:.3f}.")
    if "scipy" in names:
        print(
            "The costs of the plans by jaxmatch and by scipy differ by at most "
            f"{result['largest_cost_difference']:.0e}, relatively, in any step."
        )
    print("wrote", picture)


if __name__ == "__main__":
    main()
