"""`AlignmentProblem`: the checked arguments of an alignment, and its costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import REAL, as_array
from jaxmatch._common.cost_arguments import as_mask, broadcast
from jaxmatch._common.distances import as_points
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int


class AlignmentProblem(NamedTuple):
    """A batch of problems. All arrays have the batch dimensions."""

    x: Float[Array, "... n d"]
    y: Float[Array, "... m d"]
    weight: Float[Array, "... n"]  # 0 for padding
    x_mask: Bool[Array, "... n"]
    y_mask: Bool[Array, "... m"]
    x_kind: Int[Array, "... n"] | None
    y_kind: Int[Array, "... m"] | None
    cell: Float[Array, "... d d"] | None  # rows are the vectors of the lattice
    valid: Bool[Array, "..."]  # whether all numbers are finite; if not, all points are 0

    def apart(self, moved: Float[Array, "... d"], y: Float[Array, "... d"]) -> Array:
        """moved − y; in a cell, the shortest such difference to an image of y.

        Leading dimensions of both arguments are those of the batch, then any others.
        """
        away = moved - y
        if self.cell is None:
            return away
        cell, inverse = self.cell, jnp.linalg.inv(self.cell)
        for _ in range(away.ndim - 1 - (cell.ndim - 2)):
            cell, inverse = cell[..., None, :, :], inverse[..., None, :, :]
        away = away - _times(jnp.round(_times(away, inverse)), cell)
        return _nearest_image(away, cell)

    def centred(self) -> tuple[AlignmentProblem, Array, Array]:
        """The problem relative to the centres of both sides, and these: sums then lose nothing."""
        x_centre, y_centre = (
            lax.stop_gradient(_mean(p, mask.astype(p.dtype)))
            for p, mask in ((self.x, self.x_mask), (self.y, self.y_mask))
        )
        x = jnp.where(self.x_mask[..., None], self.x - x_centre[..., None, :], 0)
        y = jnp.where(self.y_mask[..., None], self.y - y_centre[..., None, :], 0)
        return self._replace(x=x, y=y), x_centre, y_centre

    def costs(self, rotation: Array, translation: Array) -> Float[Array, "... s n m"]:
        """The weighted squared distances of all pairs after each motion; +inf between kinds."""
        moved = self.moved(rotation, translation)
        away = self.apart(moved[..., :, None, :], self.y[..., None, None, :, :])
        cost = self.weight[..., None, :, None] * (away * away).sum(-1)
        if self.x_kind is not None and self.y_kind is not None:
            same = self.x_kind[..., :, None] == self.y_kind[..., None, :]
            cost = jnp.where(same[..., None, :, :], cost, jnp.inf)
        return cost

    def moved(self, rotation: Array, translation: Array) -> Float[Array, "... s n d"]:
        x = self.x[..., None, :, :]
        return x @ jnp.swapaxes(rotation, -1, -2) + translation[..., None, :]


def _mean(points: Array, weight: Array) -> Array:
    return (weight[..., None] * points).sum(-2) / jnp.maximum(weight.sum(-1), 1)[..., None]


def _times(x: Float[Array, "... d"], matrix: Float[Array, "... d d"]) -> Float[Array, "... d"]:
    """x as a row times the matrix, number by number: d is small."""
    d = x.shape[-1]
    return sum((x[..., k, None] * matrix[..., k, :] for k in range(d)), jnp.zeros_like(x))


def _nearest_image(away: Float[Array, "... d"], cell: Float[Array, "... d d"]) -> Array:
    """Rounded coordinates are the nearest image in a rectangular cell. In others a neighbour may
    be nearer."""
    d, best = away.shape[-1], away
    least = (away * away).sum(-1, keepdims=True)
    for step in np.ndindex(*(3,) * d):
        shift = np.array(step) - 1
        if not shift.any():
            continue
        other = away + sum(int(s) * cell[..., k, :] for k, s in enumerate(shift) if s)
        size = (other * other).sum(-1, keepdims=True)
        best, least = jnp.where(size < least, other, best), jnp.minimum(size, least)
    return best


def as_problem(
    x: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None,
    x_mask: ArrayLike | None,
    y_mask: ArrayLike | None,
    x_kind: ArrayLike | None,
    y_kind: ArrayLike | None,
    cell: ArrayLike | None,
) -> AlignmentProblem:
    """Checks the arguments and broadcasts them to one batch shape."""
    x, y = as_points(x, y, "sqeuclidean")
    (n, d), m = x.shape[-2:], y.shape[-2]
    if d == 0 or n == 0:
        raise ValueError(f"`x` must have at least one point of one coordinate, got {x.shape}.")
    if n > m:
        raise ValueError(
            f"`x` must not have more points than `y`, got {n} and {m}; swap them, and invert the "
            "motion of the result."
        )
    try:
        batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(
            "The batch dimensions of `x` and `y` must broadcast, got shapes "
            f"{x.shape} and {y.shape}."
        ) from None
    x, y = (jnp.broadcast_to(p, (*batch, *p.shape[-2:])) for p in (x, y))
    rows = as_mask("x_mask", x_mask, (*batch, n))
    cols = as_mask("y_mask", y_mask, (*batch, m))
    rows = jnp.ones((*batch, n), bool) if rows is None else rows
    cols = jnp.ones((*batch, m), bool) if cols is None else cols
    weight = jnp.ones((*batch, n), x.dtype)
    if weights is not None:
        must = "hold weights of the points of `x`"
        given = as_array("weights", weights, dtypes=REAL, must=must).astype(x.dtype)
        weight = broadcast("weights", given, (*batch, n), jnp)
    if (x_kind is None) != (y_kind is None):
        raise ValueError("`x_kind` and `y_kind` go together, got one of them; pass both.")
    own_kind = None if x_kind is None else _as_kind("x_kind", x_kind, (*batch, n))
    kind = None if y_kind is None else _as_kind("y_kind", y_kind, (*batch, m))
    if cell is not None:
        cell = as_array("cell", cell, dtypes=REAL, must="hold the vectors of a lattice")
        if cell.shape[-2:] != (d, d):
            raise ValueError(
                f"`cell` must have shape [..., {d}, {d}], one row for each vector of the lattice, "
                f"got {cell.shape}."
            )
        cell = _reduced(jnp.broadcast_to(cell.astype(x.dtype), (*batch, d, d)))
    # Padding may hold anything.
    x, y = jnp.where(rows[..., None], x, 0), jnp.where(cols[..., None], y, 0)
    weight = jnp.where(rows, weight, 0)
    valid = jnp.isfinite(x).all((-2, -1)) & jnp.isfinite(y).all((-2, -1))
    valid &= (jnp.isfinite(weight) & (weight >= 0)).all(-1)
    x, y = (jnp.where(valid[..., None, None], p, 0) for p in (x, y))
    weight = jnp.where(valid[..., None], weight, 1)
    return AlignmentProblem(x, y, weight, rows, cols, own_kind, kind, cell, valid)


def _reduced(cell: Float[Array, "... d d"]) -> Float[Array, "... d d"]:
    """Shorter vectors of the same lattice: multiples of each are subtracted from the others."""
    d = cell.shape[-1]

    def turn(_: int, cell: Array) -> Array:
        for i in range(d):
            for j in range(d):
                if i != j:
                    one, other = cell[..., i, :], cell[..., j, :]
                    size = (other * other).sum(-1)
                    times = jnp.round((one * other).sum(-1) / jnp.where(size > 0, size, 1))
                    cell = cell.at[..., i, :].add(-times[..., None] * other)
        return cell

    return lax.fori_loop(0, 24, turn, cell)


def _as_kind(name: str, kind: Any, shape: tuple[int, ...]) -> Int[Array, "..."]:
    x = jnp.asarray(kind)
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise TypeError(f"`{name}` must hold integers, such as atomic numbers, got {x.dtype}.")
    return broadcast(name, x, shape, jnp)
