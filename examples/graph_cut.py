"""Cut a flower out of a photograph: an interactive graph cut, all of it one compiled function.

    python examples/graph_cut.py
    python examples/graph_cut.py --smooth 0    # what the colours alone say

About 5 s on two cores of an Intel Xeon.

The model is that of Boykov and Jolly (ICCV 2001): strokes pin some pixels to the object and to the
background; colours that are likely under the strokes of one of them draw other pixels to it, and
neighbours of like colours want to stay together. The cut with the least sum of what is violated is
found exactly, for all eight neighbours. Then the colours are learned anew from the result, as in
GrabCut (Rother, Kolmogorov and Blake, SIGGRAPH 2004), and the cut is made again, a few times: a
`scan` over exact solves. At the end: a picture, with the outline where the gradient of the cut's
value by the price of telling neighbours apart is not zero.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from sklearn.datasets import load_sample_image

import jaxmatch as jm


matplotlib.use("Agg")

import matplotlib.pyplot as plt


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float

BINS = 12  # of the colour histograms, for each of red, green and blue
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))  # to the first four of eight neighbours, as in grid_cut


def draw_strokes(shape: tuple[int, int]) -> tuple[Bool[Array, "h w"], Bool[Array, "h w"]]:
    """What a user might have drawn on flower.jpg: a stroke on the bloom, a frame around it."""
    y, x = np.mgrid[: shape[0], : shape[1]] / np.array(shape)[:, None, None]
    bloom = (abs(x - y * 0.25 - 0.42) < 0.015) & (0.3 < y) & (y < 0.75)
    frame = (np.minimum(x, 1 - x) < 0.02) | (np.minimum(y, 1 - y) < 0.02)
    return jnp.asarray(bloom), jnp.asarray(frame & ~bloom)


def colour_cost(image: Float[Array, "h w 3"], where: Bool[Array, "h w"]) -> Float[Array, "h w"]:
    """Minus the logarithm of how likely each pixel's colour is in a region."""
    at = jnp.minimum((image * BINS).astype(jnp.int32), BINS - 1)
    counts = jnp.zeros((BINS,) * 3).at[at[..., 0], at[..., 1], at[..., 2]].add(where)
    for axis in range(3):  # colours beside those that were seen are likely too
        padded = jnp.pad(counts, [(1, 1) if a == axis else (0, 0) for a in range(3)], mode="edge")
        low, high = (jnp.take(padded, jnp.arange(BINS) + d, axis=axis) for d in (0, 2))
        counts = (low + 2 * counts + high) / 4
    density = (counts + 0.01) / (counts + 0.01).sum()
    return -jnp.log(density[at[..., 0], at[..., 1], at[..., 2]])


def contrast(image: Float[Array, "h w 3"], smooth: float) -> Float[Array, "4 h w"]:
    """What it costs to tell neighbours apart: little across edges, `smooth` where all is alike."""

    def difference(step: tuple[int, int]) -> Array:
        return ((image - jnp.roll(image, (-step[0], -step[1]), (0, 1))) ** 2).sum(-1)

    squares = jnp.stack([difference(step) for step in STEPS])
    lengths = jnp.array([np.hypot(*step) for step in STEPS])[:, None, None]
    return smooth * jnp.exp(-squares / (2 * squares.mean())) / lengths


@partial(jax.jit, static_argnames="iterations")
def segment(
    image: Float[Array, "h w 3"],
    bloom: Bool[Array, "h w"],
    frame: Bool[Array, "h w"],
    smooth: float,
    iterations: int,
) -> tuple[jm.MinimumCut, Float[Array, "h w"]]:
    """The cuts of all iterations, and the outline of one more."""
    pairwise = contrast(image, smooth)

    def capacities(inside: Array, outside: Array) -> tuple[Array, Array]:
        # A pixel of the object is on the source's side, so its colour's cost is to the sink.
        to_sink = jnp.where(frame, jnp.inf, colour_cost(image, inside))
        return jnp.where(bloom, jnp.inf, colour_cost(image, outside)), to_sink

    def cut_again(
        regions: tuple[Array, Array], _: None
    ) -> tuple[tuple[Array, Array], jm.MinimumCut]:
        cut = jm.grid_cut(*capacities(*regions), pairwise, connectivity=8)
        return (cut.source_side, ~cut.source_side), cut

    regions, cuts = jax.lax.scan(cut_again, (bloom, frame), length=iterations)

    def value(pairwise: Array) -> Array:
        return jm.grid_cut(*capacities(*regions), pairwise, connectivity=8).value

    # d value / d pairwise marks the arcs of the cut: the outline.
    return cuts, jax.grad(value)(pairwise).max(0)


def draw(
    path: Path,
    image: np.ndarray,
    strokes: tuple[Array, Array],
    sides: np.ndarray,
    outline: np.ndarray,
) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(18, 3.6))
    marked = image.copy()
    for stroke, colour in zip(strokes, ((0.1, 0.4, 1.0), (1.0, 0.2, 0.1)), strict=True):
        marked[np.asarray(stroke)] = colour
    outlined = np.where(outline[..., None] > 0, np.array([1.0, 1.0, 0.0]), image)
    cut_out = np.where(sides[-1][..., None], image, 1.0)
    pictures = (marked, sides[0], outlined, cut_out)
    titles = ("strokes", "first cut", f"outline after {len(sides)} cuts", "cut out")
    for ax, picture, title in zip(axes, pictures, titles, strict=True):
        ax.imshow(picture, cmap="gray")
        ax.set(xticks=[], yticks=[], title=title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smooth", type=float, default=12.0, help="the price of an outline")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--every", type=int, default=1, help="take every n-th pixel each way")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()

    image = load_sample_image("flower.jpg")[:: args.every, :: args.every] / np.float32(255)
    strokes = draw_strokes(image.shape[:2])
    arguments = (image, *strokes, args.smooth, args.iterations)
    jax.block_until_ready(segment(*arguments))  # compiles
    start = time.perf_counter()
    cuts, outline = jax.block_until_ready(segment(*arguments))
    seconds = time.perf_counter() - start
    assert (cuts.status == jm.Status.OPTIMAL).all()

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "graph_cut.png"
    sides = np.asarray(cuts.source_side)
    draw(picture, image, strokes, sides, np.asarray(outline))
    result = {
        "shape": image.shape[:2],
        "value": np.asarray(cuts.value).tolist(),
        "share": sides.mean((1, 2)).tolist(),
        "seconds": seconds,
    }
    (args.out / "graph_cut.json").write_text(json.dumps(result, indent=2) + "\n")
    for k, (value, share) in enumerate(zip(result["value"], result["share"], strict=True), 1):
        print(f"cut {k}: value {value:.0f}, {share:.1%} of the pixels are flower")
    height, width = result["shape"]
    print(
        f"{args.iterations + 1} exact cuts of {height}x{width} pixels, with histograms and the "
        f"gradient, in {1e3 * seconds:.0f} ms"
    )
    print("wrote", picture)


if __name__ == "__main__":
    main()
