"""Assignments between few points on CUDA, as a matrix.

The kernels for points are slower, because they compute a distance on each access.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxmatch._assignment.methods import on_cuda
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.distances import distances
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, Bool, Float


_MOST_PAIRS, _MOST_DIMENSIONS = 2**20, 64  # a matrix of 4 MB


def pays(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> bool:
    """Whether a matrix of these points is small.

    Points must be float32: costs in float64 might differ from those of other methods in the last
    bit.
    """
    is_single = x.dtype == jnp.float32
    return is_single and x.shape[1] <= _MOST_DIMENSIONS and len(x) * len(y) <= _MOST_PAIRS


def solve(
    points: tuple[Float[Array, "d n"], Float[Array, "d m"]],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    *,
    metric: str,
    maximize: bool,
) -> Assignment:
    """The assignment by the kernels for matrices. Distances are computed in 64 bits, then rounded.

    No argument may have a derivative.
    """
    dtype = points[0].dtype
    with jax.enable_x64(True):
        x, y = (p.T.astype(jnp.float64) for p in points)
        cost = distances(x[:, None], y[None], metric).astype(dtype)
    problem = AssignmentProblem(cost, row_mask, col_mask, None, None)
    return on_cuda(problem, maximize=maximize)
