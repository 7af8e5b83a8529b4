"""Train a small DETR on scenes of real scanned digits, every matching solved inside of `jit`.

    python examples/digits_detection.py
    python examples/digits_detection.py --matcher optax  # the same with another solver
    python examples/digits_detection.py --devices 4      # the same on four GPUs

About 105 s on two cores of an Intel Xeon.

Each step composes new 128x128 scenes of 1 to 8 digits, runs the model, matches its queries to the
digits for all decoder layers in one batched call, and takes an optax step: one compiled function.
With several devices each has a part of the scenes, from their making to their loss; all that the
devices tell each other are sums, of losses and gradients. On a CPU,
XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four of one. At the end: average precision
on scenes of digits that were never trained on, and two pictures.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np
import optax
from _digits_matchers import MATCHERS
from _digits_metrics import average_precision
from _digits_model import DigitsDETR
from _digits_plots import draw_detections, draw_training
from _digits_scenes import NUM_CLASSES, Digits, Scenes, load_split, make_scenes
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from tqdm import tqdm

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Float, PRNGKeyArray, PyTree

CRITERION = jm.losses.DetectionCriterion(classification="focal", cost_class=2.0, loss_class=2.0)
BATCH = 16
CHUNK = 100  # held-out scenes per call
TEST_CHUNKS = 5
WATCH_SEED, TEST_SEED = 1001, 1002  # held-out scenes: for the progress bar, for the result


def mesh_of(count: int) -> Mesh:
    """The first `count` devices, as one axis to divide a batch over."""
    if count < 1 or BATCH % count:
        raise SystemExit(
            f"--devices must divide the batch of {BATCH} scenes, got {count}: choose one of "
            f"{[n for n in range(1, BATCH + 1) if BATCH % n == 0]}."
        )
    devices = jax.devices()
    if count > len(devices):
        raise SystemExit(
            f"--devices {count} needs as many devices, got {len(devices)} of kind "
            f"{devices[0].platform!r}: choose fewer, or make {count} of one CPU by "
            f"JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count={count}."
        )
    return jax.make_mesh((count,), ("batch",), (AxisType.Auto,), devices=devices[:count])


def divided(scenes: Scenes, mesh: Mesh) -> Scenes:
    """The same scenes, each device with its part; what is made from them is divided likewise."""
    return eqx.filter_shard(scenes, NamedSharding(mesh, PartitionSpec("batch")))


def everywhere(tree: PyTree, mesh: Mesh) -> PyTree:
    """The same arrays, all of them on every device."""
    return eqx.filter_shard(tree, NamedSharding(mesh, PartitionSpec()))


def loss_and_costs(
    model: DigitsDETR, scenes: Scenes, matcher: str
) -> tuple[Float[Array, ""], tuple[jm.losses.DetectionLoss, Float[Array, "layers batch n m"]]]:
    """The Hungarian loss of a batch: costs of all layers, one matching, one loss."""
    logits, boxes = jax.vmap(model, out_axes=1)(scenes.image)  # [layers, batch, queries, ...]
    targets = scenes.labels, scenes.boxes
    cost = CRITERION.matching_cost(logits, boxes, *targets)
    matching = MATCHERS[matcher](cost, scenes.mask)
    loss = CRITERION(logits, boxes, *targets, scenes.mask, matching=matching)
    return loss.total, (loss, cost)


@eqx.filter_jit(donate="all-except-first")
def train_step(
    fixed: tuple[Digits, PRNGKeyArray, str, optax.GradientTransformation, Mesh],
    model: DigitsDETR,
    state: optax.OptState,
) -> tuple[DigitsDETR, optax.OptState, jm.losses.DetectionLoss, tuple[Array, Array]]:
    """One compiled step; the buffers of `model` and `state` are reused for the new ones."""
    digits, key, matcher, optimizer, mesh = fixed
    scenes = divided(make_scenes(digits, key, BATCH), mesh)
    grads, (loss, cost) = eqx.filter_grad(loss_and_costs, has_aux=True)(model, scenes, matcher)
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss, (cost, scenes.mask)


@eqx.filter_jit
def predict(model: DigitsDETR, images: Float[Array, "k 128 128"]) -> tuple[Array, Array]:
    """Logits and boxes of the last decoder layer."""
    logits, boxes = jax.vmap(model)(images)
    return logits[:, -1], boxes[:, -1]


def time_matching(matcher: str, cost: Array, mask: Array, repeats: int = 9) -> float:
    """Seconds of the matching alone, on the costs of a training batch.

    A call of its own has a few tens of microseconds of dispatch that the fused step has not, so
    the share of the step that follows from it is an upper bound.
    """

    def seconds() -> float:
        start = time.perf_counter()
        jax.block_until_ready(match_alone(matcher, cost, mask))
        return time.perf_counter() - start

    seconds()  # compiles, the first time
    return median(seconds() for _ in range(repeats))


@partial(jax.jit, static_argnums=0)
def match_alone(matcher: str, cost: Array, mask: Array) -> jm.Assignment:
    return MATCHERS[matcher](cost, mask)


def evaluate(model: DigitsDETR, chunks: list[Scenes]) -> np.ndarray:
    """Average precision at each IoU of `COCO_THRESHOLDS`."""
    predictions = [predict(model, scenes.image) for scenes in chunks]
    logits, boxes = (np.concatenate(x) for x in zip(*predictions, strict=True))
    labels, target_boxes, mask = (
        np.concatenate([getattr(scenes, name) for scenes in chunks])
        for name in ("labels", "boxes", "mask")
    )
    return average_precision(logits, boxes, labels, target_boxes, mask)


def train(
    digits: Digits, watched: list[Scenes], mesh: Mesh, args: argparse.Namespace
) -> tuple[DigitsDETR, dict[str, list[float]], tuple[Array, Array]]:
    """The trained model, what was measured on the way, and the costs and mask of the last step."""
    model_key, data_key = jax.random.split(jax.random.key(args.seed))
    model = DigitsDETR(NUM_CLASSES, key=model_key)
    rate = optax.warmup_cosine_decay_schedule(
        1e-5, 2e-3, min(100, args.steps // 10), args.steps, 1e-5
    )
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(rate, b2=0.98, weight_decay=1e-4)
    )
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    digits, model, state = everywhere((digits, model, state), mesh)
    every = max(5, args.steps // 12)
    log = {"loss": [], "step_seconds": [], "ap_step": [], "ap50": [], "matching_seconds": []}
    unsolved = 0

    with tqdm(total=args.steps, unit="step", dynamic_ncols=True) as bar:
        shown = {}
        for step in range(1, args.steps + 1):
            key = jax.random.fold_in(data_key, step)
            start = time.perf_counter()
            fixed = digits, key, args.matcher, optimizer, mesh
            model, state, loss, costs = train_step(fixed, model, state)
            log["loss"].append(float(loss.total))  # waits for the step
            log["step_seconds"].append(time.perf_counter() - start)
            unsolved += int(loss.num_unsolved)
            if step % every == 0 or step == args.steps:
                log["matching_seconds"].append(time_matching(args.matcher, *costs))
                log["ap_step"].append(step)
                log["ap50"].append(float(evaluate(model, watched)[0]))
                share = log["matching_seconds"][-1] / median(log["step_seconds"][-every:])
                shown = {"matching": f"{share:.2%}", "AP50": f"{log['ap50'][-1]:.3f}"}
            bar.set_postfix(loss=f"{np.mean(log['loss'][-20:]):.2f}", **shown)
            bar.update()
    if unsolved:
        print(f"{unsolved} matchings were not solved and left out of the loss")
    return model, log, costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matcher", choices=MATCHERS, default="jaxmatch")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="divide the batch over N devices; on a CPU start Python with "
        "XLA_FLAGS=--xla_force_host_platform_device_count=N",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    mesh = mesh_of(args.devices)

    start = time.perf_counter()
    train_digits, test_digits = load_split()
    held_out = jax.jit(lambda key: divided(make_scenes(test_digits, key, CHUNK), mesh))
    watched = [held_out(jax.random.key(WATCH_SEED))]
    test = [held_out(k) for k in jax.random.split(jax.random.key(TEST_SEED), TEST_CHUNKS)]

    model, log, costs = train(train_digits, watched, mesh, args)
    precision = evaluate(model, test)

    args.out.mkdir(parents=True, exist_ok=True)
    pictures = args.out / "detections.png", args.out / "training.png"
    logits, boxes = predict(model, test[0].image)
    cost = CRITERION.matching_cost(logits, boxes, test[0].labels, test[0].boxes)
    matching = jm.losses.hungarian_matching(cost, test[0].mask)
    draw_detections(pictures[0], test[0], jax.nn.sigmoid(logits), boxes, matching.row4col)
    draw_training(pictures[1], log, precision[0], args.matcher)

    step, matching = median(log["step_seconds"]), median(log["matching_seconds"])
    result = {
        "ap50": float(precision[0]),
        "map": float(precision.mean()),
        "scenes": TEST_CHUNKS * CHUNK,
        "steps": args.steps,
        "seed": args.seed,
        "final_loss": float(np.mean(log["loss"][-20:])),
        "matcher": args.matcher,
        "devices": args.devices,
        "step_ms": 1e3 * step,
        "matching_ms": 1e3 * matching,
        "compile_seconds": log["step_seconds"][0],
        "wall_seconds": time.perf_counter() - start,
    }
    (args.out / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"AP50 {result['ap50']:.3f}, mAP 50:95 {result['map']:.3f} on {result['scenes']} held-out "
        f"scenes after {args.steps} steps of {BATCH} scenes.\n"
        f"{result['wall_seconds']:.0f} s in all, {result['compile_seconds']:.0f} s of them for "
        f"compiling the step."
    )
    print("\nmatcher      step [ms]   matching alone [ms]   share of the step")
    print(f"{args.matcher:10} {1e3 * step:11.1f} {1e3 * matching:21.2f} {matching / step:19.2%}")
    costs = jax.device_put(costs, jax.devices()[0])
    for other in sorted(MATCHERS.keys() - {args.matcher}):
        print(f"{other:10} {'':11} {1e3 * time_matching(other, *costs):21.2f}")
    print("The other rows are the same costs, on one device; --matcher trains with them.\n")
    print("wrote", *pictures)


if __name__ == "__main__":
    main()
