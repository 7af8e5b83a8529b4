"""Assignments in which groups of points, such as the chains of a complex, stay together."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._alignment.search import Assign
from jaxmatch._assignment.solve import solve_assignment
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array


def members(name: str, labels: Any, size: int) -> np.ndarray:
    """The points of each group [g, k], −1 behind the last one."""
    x = np.asarray(labels)
    if x.shape != (size,):
        raise ValueError(
            f"`{name}` must hold {size} labels, one for each point and the same in all problems, "
            f"got {x.shape}."
        )
    found = [np.flatnonzero(x == label) for label in np.unique(x)]
    longest = max(map(len, found))
    return np.stack([np.pad(k, (0, longest - len(k)), constant_values=-1) for k in found])


def assign_by_groups(x_members: np.ndarray, y_members: np.ndarray, in_order: bool) -> Assign:
    """Gives each group of x a group of y of the same size, and then its points.

    `in_order`: the points of a group keep their order. Otherwise any two points may be a pair.
    """
    x_sizes, y_sizes = ((k >= 0).sum(-1) for k in (x_members, y_members))
    alike = x_sizes[:, None] == y_sizes
    g, h = len(x_members), len(y_members)
    width = max(x_members.shape[1], y_members.shape[1])
    x_at, y_at = (
        np.pad(z, ((0, 0), (0, width - z.shape[1])), constant_values=-1)
        for z in (x_members, y_members)
    )

    def assign(cost: Array, go_on: Array) -> tuple[Array, Array]:
        del go_on
        n = cost.shape[-2]
        if in_order:
            own = cost[..., np.maximum(x_at, 0)[:, None], np.maximum(y_at, 0)[None]]
            own = jnp.where(x_at[:, None] >= 0, own, 0).sum(-1)
            within = np.broadcast_to(np.arange(width), (*own.shape, width))
        else:
            blocks = cost[
                ..., np.maximum(x_at, 0)[:, None, :, None], np.maximum(y_at, 0)[None, :, None]
            ]
            res = solve_assignment(
                blocks,
                row_mask=np.broadcast_to((x_at >= 0)[:, None], (g, h, width)),
                col_mask=np.broadcast_to((y_at >= 0)[None], (g, h, width)),
            )
            own = jnp.where(res.status == Status.OPTIMAL, res.cost, jnp.inf)
            within = res.col4row
        res = solve_assignment(jnp.where(alike, own, jnp.inf))
        group = jnp.maximum(res.col4row, 0)
        chosen = jnp.take_along_axis(within, group[..., None, None], axis=-2)[..., 0, :]
        to = jnp.take_along_axis(jnp.asarray(y_at)[group], jnp.maximum(chosen, 0), axis=-1)
        blank = jnp.full((*cost.shape[:-2], n + 1), -1, jnp.int32)
        rows = np.where(x_at >= 0, x_at, n).ravel()
        col4row = blank.at[..., rows].set(to.reshape(*to.shape[:-2], -1).astype(jnp.int32))[..., :n]
        solved = (res.status == Status.OPTIMAL)[..., None]
        return jnp.where(solved, col4row, -1), res.status

    return assign
