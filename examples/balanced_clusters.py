"""Balanced k-means: clusters with a least and a greatest size, all of it one compiled function.

    python examples/balanced_clusters.py            # a few seconds on one CPU core
    python examples/balanced_clusters.py --quick    # fewer points, for a first look

Each step assigns all points to centres at the least sum of squared distances such that the sizes of
all clusters stay between two bounds (Bradley, Bennett and Demiriz, Constrained k-means clustering,
2000). This is an assignment problem in which a column takes several rows: `solve_assignment` with
`col_capacity` and `col_minimum`, exact, and warm-started from the duals of the step before. Then
each centre moves to the mean of its points, as in Lloyd's algorithm, so that the sum of squares
never rises. At the end: a picture, beside plain k-means from the same centres.
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

import jaxmatch as jm


matplotlib.use("Agg")

import matplotlib.pyplot as plt


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key


def draw_points(key: Key[Array, ""], count: int, blobs: int) -> Float[Array, "n 2"]:
    """Gaussian blobs of very different weight and width."""
    of_blob, of_center, of_width, of_point = jax.random.split(key, 4)
    weights = 0.75 ** jnp.arange(blobs)
    blob = jax.random.choice(of_blob, blobs, (count,), p=weights / weights.sum())
    centers = jax.random.uniform(of_center, (blobs, 2), minval=-10, maxval=10)
    widths = jax.random.uniform(of_width, (blobs, 1), minval=0.4, maxval=1.6)
    return centers[blob] + widths[blob] * jax.random.normal(of_point, (count, 2))


def squared_distances(
    points: Float[Array, "n 2"], centers: Float[Array, "k 2"]
) -> Float[Array, "n k"]:
    return ((points[:, None] - centers[None]) ** 2).sum(-1)


def means(
    points: Float[Array, "n 2"], labels: Int[Array, " n"], centers: Float[Array, "k 2"]
) -> Float[Array, "k 2"]:
    """The mean of each cluster; the centre of an empty one stays."""
    k = centers.shape[0]
    sums = jax.ops.segment_sum(points, labels, k)
    counts = jax.ops.segment_sum(jnp.ones_like(labels), labels, k)[:, None]
    return jnp.where(counts > 0, sums / jnp.maximum(counts, 1), centers)


@partial(jax.jit, static_argnames="steps")
def balanced(
    points: Float[Array, "n 2"],
    centers: Float[Array, "k 2"],
    smallest: Int[Array, ""],
    largest: Int[Array, ""],
    steps: int,
) -> tuple[jm.CapacitatedAssignment, Float[Array, "k 2"], Float[Array, " steps"]]:
    """The last assignment, the centres that it used, and the sum of squares of each step."""

    def assign(centers: Array, last: jm.CapacitatedAssignment) -> jm.CapacitatedAssignment:
        return jm.solve_assignment(
            squared_distances(points, centers),
            col_capacity=largest,
            col_minimum=smallest,
            warm_start=last,
        )

    def step(i: Array, state: tuple) -> tuple:
        centers, res, costs = state
        centers = means(points, res.col4row, centers)
        res = assign(centers, res)
        return centers, res, costs.at[i].set(res.cost)

    first = jm.CapacitatedAssignment.empty((points.shape[0], centers.shape[0]))
    res = assign(centers, first)
    costs = jnp.zeros(steps).at[0].set(res.cost)
    centers, res, costs = jax.lax.fori_loop(1, steps, step, (centers, res, costs))
    return res, centers, costs


@partial(jax.jit, static_argnames="steps")
def plain(
    points: Float[Array, "n 2"], centers: Float[Array, "k 2"], steps: int
) -> tuple[Int[Array, " n"], Float[Array, "k 2"]]:
    """Lloyd's algorithm without bounds."""

    def nearest(centers: Array) -> Array:
        return squared_distances(points, centers).argmin(-1)

    def step(_: Array, centers: Array) -> Array:
        return means(points, nearest(centers), centers)

    centers = jax.lax.fori_loop(1, steps, step, centers)
    return nearest(centers), centers


def draw(
    path: Path,
    points: np.ndarray,
    clusterings: dict[str, tuple[np.ndarray, np.ndarray]],
    bounds: tuple[int, int],
) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(16, 5))
    for ax, (name, (labels, centers)) in zip(axes[:2], clusterings.items(), strict=True):
        ax.scatter(*points.T, c=labels, s=3, cmap="tab20", linewidths=0)
        ax.scatter(*centers.T, c="black", marker="+", s=60)
        ax.set(title=name, xticks=[], yticks=[], aspect="equal")
    k = len(centers)
    for offset, (name, (labels, _)) in zip((-0.2, 0.2), clusterings.items(), strict=True):
        sizes = np.sort(np.bincount(labels, minlength=k))
        axes[2].bar(np.arange(k) + offset, sizes, 0.4, label=name)
    for bound in bounds:
        axes[2].axhline(bound, color="black", linewidth=0.8, linestyle="--")
    axes[2].set(title="sizes of the clusters", xticks=[])
    axes[2].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--slack", type=float, default=0.1, help="of sizes, relative to the mean")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="1000 points in 8 clusters")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    if args.quick:
        args.points, args.clusters, args.steps = 1000, 8, 10

    of_points, of_centers = jax.random.split(jax.random.key(args.seed))
    points = draw_points(of_points, args.points, args.clusters)
    centers = jax.random.choice(of_centers, points, (args.clusters,), replace=False)
    mean = args.points / args.clusters
    smallest, largest = int(mean * (1 - args.slack)), int(np.ceil(mean * (1 + args.slack)))

    arguments = (points, centers, smallest, largest, args.steps)
    jax.block_until_ready(balanced(*arguments))  # compiles
    start = time.perf_counter()
    res, final, costs = jax.block_until_ready(balanced(*arguments))
    seconds = time.perf_counter() - start
    assert res.status == jm.Status.OPTIMAL
    assert smallest <= res.col_count.min() and res.col_count.max() <= largest
    labels, free = plain(points, centers, args.steps)
    sizes = np.bincount(np.asarray(labels), minlength=args.clusters)

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "balanced_clusters.png"
    clusterings = {
        "plain k-means": (np.asarray(labels), np.asarray(free)),
        "balanced": (np.asarray(res.col4row), np.asarray(final)),
    }
    draw(picture, np.asarray(points), clusterings, (smallest, largest))
    result = {
        "bounds": [smallest, largest],
        "sizes": np.asarray(res.col_count).tolist(),
        "plain_sizes": sizes.tolist(),
        "sum_of_squares": np.asarray(costs).tolist(),
        "plain_sum_of_squares": float(squared_distances(points, free).min(-1).sum()),
        "seconds": seconds,
    }
    (args.out / "balanced_clusters.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"plain k-means: sizes {sizes.min()} to {sizes.max()}, ", end="")
    print(f"sum of squares {result['plain_sum_of_squares']:.0f}")
    print(f"balanced: sizes {min(result['sizes'])} to {max(result['sizes'])}, ", end="")
    print(f"sum of squares {costs[0]:.0f} to {costs[-1]:.0f}")
    print(
        f"{args.steps} exact assignments of {args.points} points to {args.clusters} clusters in "
        f"{1e3 * seconds:.0f} ms"
    )
    print("wrote", picture)


if __name__ == "__main__":
    main()
