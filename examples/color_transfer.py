"""Give a photograph the colours of another one, by exact optimal transport of their palettes.

    python examples/color_transfer.py
    python examples/color_transfer.py --quick     # smaller palettes, for a first look
    python examples/color_transfer.py --pictures mine.jpg yours.jpg

About 7 s on two cores of an Intel Xeon.

Each palette has the centres of k-means over as many pixels of each photograph, and how many pixels
each centre stands for. `solve_transport` moves the one palette to the other at the least sum of
squared distances of colours. Colours of 8 bits and counts of pixels are integers, so the plan is
exactly optimal, and `check_transport` proves it.

A colour goes to the mean of where its mass goes (the barycentric projection of Ferradans et al.,
*Regularized discrete optimal transport*, 2014). Rows and columns of one plan give both directions.
A pixel moves as the palette's colours near to it do, on a smooth average, which keeps its detail
and leaves no seams. At the end: a picture with the plan.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from _color_transfer_plots import draw
from PIL import Image
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image
from tqdm import tqdm

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Num

SAMPLES = ("china.jpg", "flower.jpg")
CHUNK = 4096  # pixels that are mapped at a time


class Palette(NamedTuple):
    colors: Int[np.ndarray, "k 3"]  # red, green and blue, 0 to 255
    count: Int[np.ndarray, " k"]  # the pixels that each stands for
    spread: float  # mean squared distance of a pixel to its colour


def load(name: str) -> Float[np.ndarray, "height width 3"]:
    """A file, or one of scikit-learn's two photographs."""
    if name in SAMPLES and not Path(name).exists():
        return np.asarray(load_sample_image(name), np.float32)
    return np.asarray(Image.open(name).convert("RGB"), np.float32)


def palette_of(picture: np.ndarray, size: int, pixels: int, seed: int) -> Palette:
    rng = np.random.default_rng(seed)
    sample = rng.choice(picture.reshape(-1, 3), pixels, replace=False)
    means = KMeans(size, n_init="auto", max_iter=20, random_state=seed)
    labels = means.fit_predict(sample)
    colors = np.asarray(means.cluster_centers_).round().astype(np.int32)
    count = np.bincount(labels, minlength=size).astype(np.int32)
    return Palette(colors, count, float(((sample - colors[labels]) ** 2).sum(-1).mean()))


@jax.jit
def squared_distances(x: Num[Array, "n 3"], y: Num[Array, "m 3"]) -> Num[Array, "n m"]:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


@jax.jit
def projections(
    plan: jm.Transport, source: Int[Array, "n 3"], target: Int[Array, "m 3"]
) -> tuple[Float[Array, "n 3"], Float[Array, "m 3"]]:
    """Where the colours of both sides go: means by the rows and by the columns of the plan."""
    mass = plan.todense().astype(jnp.float32)

    def mean(mass: Array, goals: Array, own: Array) -> Array:
        total = mass.sum(1, keepdims=True)
        average = jnp.matmul(mass, goals, precision="highest") / jnp.maximum(total, 1)
        return jnp.where(total > 0, average, own)  # a colour of no pixel stays

    return mean(mass, target, source), mean(mass.T, source, target)


@jax.jit
def recolor(
    pixels: Float[Array, "p 3"],
    colors: Int[Array, "k 3"],
    goals: Float[Array, "k 3"],
    bandwidth: float,
) -> Float[Array, "p 3"]:
    """Moves pixels as colours near to them move: a softmax over -distance^2 / (2 bandwidth)."""

    def of_chunk(chunk: Array) -> Array:
        near = jax.nn.softmax(-squared_distances(chunk, colors) / (2 * bandwidth), axis=-1)
        return chunk + jnp.matmul(near, goals - colors, precision="highest")

    moved = jax.lax.map(of_chunk, _in_chunks(pixels))
    return moved.reshape(-1, 3)[: len(pixels)].clip(0, 255)


def _in_chunks(pixels: Float[Array, "p 3"]) -> Float[Array, "chunks chunk 3"]:
    filled = jnp.pad(pixels, ((0, -len(pixels) % CHUNK), (0, 0)))
    return filled.reshape(-1, CHUNK, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pictures", nargs=2, default=SAMPLES, metavar="FILE")
    parser.add_argument("--colors", type=int, default=256, help="of each palette")
    parser.add_argument("--pixels", type=int, default=2**15, help="of each, that k-means sees")
    parser.add_argument(
        "--smoothness",
        type=float,
        default=2.0,
        help="variance of the softmax, in those of a cluster",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="64 colours of 4096 pixels")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    if args.quick:
        args.colors, args.pixels = 64, 2**12

    begin = time.perf_counter()
    pictures = [load(name) for name in args.pictures]
    pixels = min(args.pixels, *(picture[..., 0].size for picture in pictures))
    with tqdm(pictures, unit="palette", dynamic_ncols=True) as bar:
        source, target = (palette_of(p, args.colors, pixels, args.seed) for p in bar)
    clustering = time.perf_counter() - begin

    cost = squared_distances(source.colors, target.colors)
    solve = jax.jit(jm.solve_transport)
    problem = cost, jnp.asarray(source.count), jnp.asarray(target.count)
    jax.block_until_ready(solve(*problem))  # compiles
    start = time.perf_counter()
    plan = jax.block_until_ready(solve(*problem))
    solving = time.perf_counter() - start
    check = jm.check_transport(*problem, plan)
    assert plan.status == jm.Status.OPTIMAL and check.optimal

    goals = projections(plan, source.colors, target.colors)
    start = time.perf_counter()
    results = []
    for picture, palette, goal in zip(pictures, (source, target), goals, strict=True):
        flat = recolor(
            picture.reshape(-1, 3), palette.colors, goal, args.smoothness * palette.spread
        )
        results.append(np.asarray(flat).reshape(picture.shape))
    mapping = time.perf_counter() - start

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "color_transfer.png"
    pictures, results = ([x.round().astype(np.uint8) for x in xs] for xs in (pictures, results))
    first, second = (Path(name).stem for name in args.pictures)
    shown = {
        first: pictures[0],
        second: pictures[1],
        f"{first} in the colours of {second}": results[0],
        f"{second} in the colours of {first}": results[1],
    }
    dense = np.asarray(plan.todense())
    draw(picture, shown, (source.colors / 255, target.colors / 255), dense, (first, second))

    names = "rows", "cols", "mass"
    used = np.asarray(plan.rows) >= 0
    entries = {name: np.asarray(getattr(plan, name))[used].tolist() for name in names}
    root_mean = float(np.sqrt(plan.cost / pixels))
    result = {
        "status": int(plan.status),
        "optimal": bool(check.optimal),
        "gap": float(check.gap),
        "cost": float(plan.cost),
        "root_mean_square_distance": root_mean,
        "colors": [palette.colors.tolist() for palette in (source, target)],
        "counts": [palette.count.tolist() for palette in (source, target)],
        "plan": entries,
        "goals": [np.asarray(goal).tolist() for goal in goals],
        "clustering_seconds": clustering,
        "solve_ms": 1e3 * solving,
        "mapping_seconds": mapping,
    }
    (args.out / "color_transfer.json").write_text(json.dumps(result) + "\n")
    print(f"{clustering:.1f} s for palettes of {args.colors} colours from {pixels:,} pixels each")
    print(f"{1e3 * solving:.1f} ms for the plan: {used.sum()} of {cost.size:,} entries, ", end="")
    print("proved optimal" if check.optimal else f"optimal up to {float(check.gap):.2g}")
    print(f"colours move by {root_mean:.0f} of 255 in the root mean square")
    print(f"{mapping:.1f} s to recolour both pictures; {time.perf_counter() - begin:.0f} s in all")
    print("wrote", picture)


if __name__ == "__main__":
    main()
