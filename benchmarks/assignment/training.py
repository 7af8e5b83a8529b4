"""The cost of matching inside a training step of a DETR-sized model on a GPU.

    python -m benchmarks.assignment.training [--small] [--out FOLDER]

Batch 16, 850 image features, 6 encoder and 6 decoder layers of width 256, 100 queries, losses on
every decoder layer, 5 to 60 targets padded to 60: 96 problems of 100x60 in each step. The step is
timed with jaxmatch, with optax and with a scipy callback as matcher, and with a matching that is
given, which costs nothing. `--small` is for a look on a CPU.
Writes `assignment_gpu_training.json`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.timing import median_ms


sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from _digits_matchers import MATCHERS  # noqa: E402


CLASSES, HEADS = 91, 8
Params = dict[str, Any]
criterion = jm.losses.DetectionCriterion(classification="cross_entropy")


def normal(key: jax.Array, *shape: int) -> jax.Array:
    return jax.random.normal(key, shape) * shape[-2] ** -0.5


def init_layer(key: jax.Array, width: int, *, cross: bool) -> Params:
    keys = iter(jax.random.split(key, 12))
    layer = {"self": {n: normal(next(keys), width, width) for n in "qkvo"}}
    if cross:
        layer["cross"] = {n: normal(next(keys), width, width) for n in "qkvo"}
    layer["up"], layer["down"] = (
        normal(next(keys), width, 8 * width),
        normal(next(keys), 8 * width, width),
    )
    return layer


def init(key: jax.Array, width: int, layers: int, queries: int) -> Params:
    keys = jax.random.split(key, 2 * layers + 3)
    return {
        "encoder": [init_layer(k, width, cross=False) for k in keys[:layers]],
        "decoder": [init_layer(k, width, cross=True) for k in keys[layers : 2 * layers]],
        "queries": jax.random.normal(keys[-3], (queries, width)),
        "classes": normal(keys[-2], width, CLASSES + 1),
        "boxes": normal(keys[-1], width, 4),
    }


def norm(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def attend(p: Params, x: jax.Array, memory: jax.Array) -> jax.Array:
    q, k, v = (
        (y @ p[n]).reshape(*y.shape[:-1], HEADS, -1)
        for n, y in zip("qkv", (x, memory, memory), strict=True)
    )
    return jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ p["o"]


def block(p: Params, x: jax.Array, memory: jax.Array | None = None) -> jax.Array:
    y = norm(x)
    x = x + attend(p["self"], y, y)
    if memory is not None:
        x = x + attend(p["cross"], norm(x), memory)
    return x + jax.nn.relu(norm(x) @ p["up"]) @ p["down"]


def predict(params: Params, features: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logits and boxes of every decoder layer, `[layers, images, queries, ...]`."""
    memory = features
    for layer in params["encoder"]:
        memory = block(layer, memory)
    memory = norm(memory)
    x = jnp.broadcast_to(params["queries"], (len(features), *params["queries"].shape))
    states = []
    for layer in params["decoder"]:
        x = block(layer, x, memory)
        states.append(norm(x))
    states = jnp.stack(states)
    return states @ params["classes"], jax.nn.sigmoid(states @ params["boxes"])


def loss_of(params: Params, batch: Any, matcher: str, given: jm.Assignment | None) -> Any:
    features, labels, boxes, mask = batch
    logits, predicted = predict(params, features)
    matching = given
    if given is None:
        cost = criterion.matching_cost(logits, predicted, labels, boxes)
        matching = MATCHERS[matcher](cost, mask)
    loss = criterion(logits, predicted, labels, boxes, mask, matching=matching)
    return loss.total, matching


@partial(jax.jit, static_argnames=("matcher", "optimizer"))
def step(params, state, batch, given, *, matcher, optimizer):
    (_, matching), grads = jax.value_and_grad(loss_of, has_aux=True)(params, batch, matcher, given)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, matching


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tiny model, for a look on a CPU")
    args = options.parse(parser)
    small = args.small
    images, width, layers, queries, targets = (2, 32, 2, 20, 8) if small else (16, 256, 6, 100, 60)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(images, 50 if small else 850, width)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (images, targets))
    boxes = rng.uniform(0.1, 0.9, (images, targets, 4)).astype(np.float32)
    mask = np.arange(targets) < rng.integers(5, targets + 1, (images, 1))
    batch = jax.tree.map(jnp.asarray, (features, labels, boxes, mask))
    params = init(jax.random.key(0), width, layers, queries)
    optimizer = optax.adamw(1e-4)
    state = optimizer.init(params)

    given = step(params, state, batch, None, matcher="jaxmatch", optimizer=optimizer)[2]
    rows = []
    for matcher in ("given", *MATCHERS):
        matching = given if matcher == "given" else None

        def run(matcher: str = matcher, matching: Any = matching) -> Any:
            return step(params, state, batch, matching, matcher=matcher, optimizer=optimizer)

        same = np.asarray(run()[2].row4col == given.row4col).mean()
        rows.append({"matcher": matcher, "step_ms": median_ms(run)})
        rows[-1]["over_given_ms"] = rows[-1]["step_ms"] - rows[0]["step_ms"]
        rows[-1]["share"] = rows[-1]["over_given_ms"] / rows[-1]["step_ms"]
        rows[-1]["same_pairs"] = float(same)
        print(rows[-1], flush=True)  # each step compiles for a while
    record.print_table(f"A training step, {layers * images} problems {queries}x{targets}", rows)
    if small:
        return
    content = record.gpu() | record.environment(["jax", "jaxlib", "optax", "scipy"])
    content["steps"] = rows
    print(f"\nwrote {record.write_json(args.out, 'assignment_gpu_training', content)}")


if __name__ == "__main__":
    main()
