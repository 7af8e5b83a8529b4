"""Balanced k-means of handwritten digits: clusters with a minimum and a maximum size.

    python examples/balanced_clusters.py
    python examples/balanced_clusters.py --quick    # fewer starts and steps, for a first look

About 8 s on two cores of an Intel Xeon.

The data are scikit-learn's 1797 images of 8x8 pixels, about 180 of each digit. Each step assigns
all images to centres at the least sum of squared distances such that the sizes of all clusters
stay between two bounds (Bradley, Bennett and Demiriz, *Constrained k-means clustering*, 2000).
This is an assignment problem in which a column takes several rows: `solve_assignment` with
`col_capacity` and `col_minimum`, exact, and warm-started from the duals of the step before. Then
each centre moves to the mean of its images, as in Lloyd's algorithm, so that the sum of squares
never rises. All steps from all starts are one compiled function.

Plain k-means begins from the same starts. Of each method's results the one with the least sum of
squares is shown. The digits that the images show serve only to judge it: purity is the share of
images that show the most frequent digit of their cluster. With bounds it is about the same in the
result shown, and higher on average over the starts. At the end: a picture of both methods'
centres and sizes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import jaxmatch as jm


matplotlib.use("Agg")

import matplotlib.pyplot as plt


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

COLORS = {"plain k-means": "#b9b9b9", "balanced": "#2f6db3"}


class Clustering(NamedTuple):
    labels: Int[Array, " n"]  # the cluster of each image
    centers: Float[Array, "k pixels"]  # that the last step assigned images to
    sums: Float[Array, " steps"]  # of squared distances, after each step


def squared_distances(
    points: Float[Array, "n pixels"], centers: Float[Array, "k pixels"]
) -> Float[Array, "n k"]:
    return ((points[:, None] - centers[None]) ** 2).sum(-1)


def means(
    points: Float[Array, "n pixels"], labels: Int[Array, " n"], centers: Float[Array, "k pixels"]
) -> Float[Array, "k pixels"]:
    """The mean of each cluster; the centre of an empty one stays."""
    k = centers.shape[0]
    sums = jax.ops.segment_sum(points, labels, k)
    counts = jax.ops.segment_sum(jnp.ones_like(labels), labels, k)[:, None]
    return jnp.where(counts > 0, sums / jnp.maximum(counts, 1), centers)


def balanced(
    points: Float[Array, "n pixels"],
    centers: Float[Array, "k pixels"],
    smallest: int,
    largest: int,
    steps: int,
) -> tuple[Clustering, Int[Array, ""]]:
    """The clustering from one start, and the status of its last assignment."""

    def assign(centers: Array, last: jm.CapacitatedAssignment) -> jm.CapacitatedAssignment:
        return jm.solve_capacitated_assignment(
            squared_distances(points, centers),
            col_capacity=largest,
            col_minimum=smallest,
            warm_start=last,
        )

    def step(i: Array, state: tuple) -> tuple:
        centers, res, sums = state
        centers = means(points, res.col4row, centers)
        res = assign(centers, res)
        return centers, res, sums.at[i].set(res.cost)

    first = jm.CapacitatedAssignment.empty((points.shape[0], centers.shape[0]))
    res = assign(centers, first)
    sums = jnp.zeros(steps).at[0].set(res.cost)
    centers, res, sums = jax.lax.fori_loop(1, steps, step, (centers, res, sums))
    return Clustering(res.col4row, centers, sums), res.status


def plain(
    points: Float[Array, "n pixels"], centers: Float[Array, "k pixels"], steps: int
) -> Clustering:
    """Lloyd's algorithm without bounds, from one start."""

    def assign(centers: Array) -> tuple[Array, Array]:
        distances = squared_distances(points, centers)
        return distances.argmin(-1), distances.min(-1).sum()

    def step(i: Array, last: Clustering) -> Clustering:
        centers = means(points, last.labels, last.centers)
        labels, total = assign(centers)
        return Clustering(labels, centers, last.sums.at[i].set(total))

    labels, total = assign(centers)
    first = Clustering(labels, centers, jnp.zeros(steps).at[0].set(total))
    return jax.lax.fori_loop(1, steps, step, first)


def counts(labels: np.ndarray, digits: np.ndarray, clusters: int) -> Int[np.ndarray, "k 10"]:
    """How many images of each cluster show each digit."""
    return np.bincount(10 * labels + digits, minlength=10 * clusters).reshape(clusters, 10)


def report(starts: Clustering, digits: np.ndarray) -> dict:
    """The start with the least sum of squares, and the purity of all."""
    labels, centers, sums = (np.asarray(x) for x in starts)
    best = int(sums[:, -1].argmin())
    tables = [counts(one, digits, centers.shape[1]) for one in labels]
    purities = [float(table.max(1).sum() / len(digits)) for table in tables]
    return {
        "labels": labels[best].tolist(),
        "centers": centers[best].tolist(),
        "counts": tables[best].tolist(),
        "sizes": tables[best].sum(1).tolist(),
        "sum_of_squares": sums[best].tolist(),
        "purity": purities[best],
        "purity_of_starts": purities,
    }


def draw(path: Path, results: dict[str, dict], bounds: tuple[int, int]) -> None:
    """Both methods' centres above their sizes; a column has two clusters with similar centres."""
    centers = {name: jnp.asarray(result["centers"]) for name, result in results.items()}
    order = np.argmax(results["balanced"]["counts"], 1).argsort(kind="stable")
    pairs = jm.solve_assignment(squared_distances(centers["balanced"], centers["plain k-means"]))
    orders = {"plain k-means": np.asarray(pairs.col4row)[order], "balanced": order}

    k = len(order)
    figure = plt.figure(figsize=(1.3 * k, 5.8))
    edges = {"left": 0.02, "right": 0.98, "top": 0.93, "bottom": 0.02}
    grid = figure.add_gridspec(3, k, wspace=0.14, hspace=0.72, **edges)
    bars = figure.add_subplot(grid[2, :])
    for i, (name, result) in enumerate(results.items()):
        table = np.asarray(result["counts"])[orders[name]]
        for j, (center, row) in enumerate(zip(centers[name][orders[name]], table, strict=True)):
            ax = figure.add_subplot(grid[i, j])
            ax.imshow(center.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            share = row.max() / max(row.sum(), 1)
            ax.set_xlabel(f"{row.sum()} images\n{share:.0%} are {row.argmax()}", fontsize=10)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color("0.8")
            if j == 0:
                ax.set_title(f"{name}: purity {result['purity']:.3f}", fontsize=13, loc="left")
        shift = 0.4 * i - 0.2
        bars.bar(np.arange(k) + shift, table.sum(1), 0.4, label=name, color=COLORS[name])
    for bound in bounds:
        bars.axhline(bound, color="black", linewidth=0.9, linestyle="--")
    bars.set(xlim=(-0.5, k - 0.5), xticks=[], yticks=[])
    title = f"sizes of these clusters, and the bounds {bounds[0]} and {bounds[1]}"
    bars.set_title(title, fontsize=13, loc="left")
    bars.spines[["top", "left", "right"]].set_visible(False)
    bars.legend(ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 0.98))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--slack", type=float, default=0.05, help="of sizes, relative to the mean")
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--steps", type=int, default=50, help="from each start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="4 starts of 20 steps")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    args = parser.parse_args()
    if args.quick:
        args.starts, args.steps = 4, 20

    pixels, digits = (np.asarray(x, np.int32) for x in load_digits(return_X_y=True))
    points = jnp.asarray(pixels, jnp.float32)
    keys = jax.random.split(jax.random.key(args.seed), args.starts)
    drawn = jax.vmap(lambda key: jax.random.choice(key, len(points), (args.clusters,), False))
    starts = points[drawn(keys)]
    mean = len(points) / args.clusters
    smallest, largest = int(mean * (1 - args.slack)), int(np.ceil(mean * (1 + args.slack)))

    @jax.jit
    def solve(starts: Float[Array, "s k pixels"]) -> tuple[Clustering, Int[Array, " s"]]:
        return jax.vmap(lambda start: balanced(points, start, smallest, largest, args.steps))(
            starts
        )

    jax.block_until_ready(solve(starts))  # compiles
    start = time.perf_counter()
    ours, status = jax.block_until_ready(solve(starts))
    seconds = time.perf_counter() - start
    assert (status == jm.Status.OPTIMAL).all()
    free = jax.jit(jax.vmap(lambda start: plain(points, start, args.steps)))(starts)

    results = {"plain k-means": report(free, digits), "balanced": report(ours, digits)}
    for name, result in results.items():
        print(f"{name}: sizes {min(result['sizes'])} to {max(result['sizes'])}, ", end="")
        print(f"sum of squares {result['sum_of_squares'][-1]:,.0f}, purity {result['purity']:.3f}")
    for name, result in results.items():
        purities = result["purity_of_starts"]
        print(f"purity by {name} from {args.starts} starts: {min(purities):.3f} to ", end="")
        print(f"{max(purities):.3f}, {np.mean(purities):.3f} on average")
    print(f"{args.starts * args.steps} exact assignments of {len(points)} images to ", end="")
    print(f"{args.clusters} clusters of {smallest} to {largest} in {1e3 * seconds:.0f} ms")

    args.out.mkdir(parents=True, exist_ok=True)
    picture = args.out / "balanced_clusters.png"
    draw(picture, results, (smallest, largest))
    result = {"bounds": [smallest, largest], "seconds": seconds} | results
    (args.out / "balanced_clusters.json").write_text(json.dumps(result) + "\n")
    print("wrote", picture)


if __name__ == "__main__":
    main()
