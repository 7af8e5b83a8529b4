"""The calls of the native targets for transport problems."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.result import Transport, result_float
from jaxmatch._common.typing import Array, Int
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
from jaxmatch._transport.point_problem import PointProblem
from jaxmatch._transport.problem import TransportProblem, coarsest


def transport(
    problem: TransportProblem, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> Transport:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    return counted(problem, maximize=maximize, platform=platform)[0]


def counted(
    problem: TransportProblem,
    *,
    maximize: bool,
    platform: Literal["cpu", "cuda"],
    start_col: Int[Array, "... n"] | None = None,
) -> tuple[Transport, jnp.ndarray]:
    """The result, and `i32[..., 2]`: the number of bids and the number of pivots.

    `start_col`: a column for each row, the plan from which the CUDA solver starts (see
    ffi/transport/cpu/problem.h).
    """
    optional = {"start_col": (start_col, 1)}
    first = (problem.cost, 2)
    return _call("jaxmatch_transport", first, problem, optional, platform, maximize=maximize)


def transport_points(
    problem: PointProblem, *, metric: str, maximize: bool, platform: Literal["cpu", "cuda"]
) -> Transport:
    """As `transport`, for costs that are distances between points, computed on demand.

    Points are passed coordinate-major, because neighbouring lanes of a warp load neighbouring
    points.
    """
    x, y = (p.swapaxes(-1, -2) for p in (problem.x, problem.y))
    optional = {
        "col_points": (y, 2),
        "last_row": (problem.last_row, 1),
        "last_col": (problem.last_col, 1),
    }
    attributes = {"metric": metric, "maximize": maximize}
    return _call("jaxmatch_transport_points", (x, 2), problem, optional, platform, **attributes)[0]


def _call(
    target: str,
    first: tuple[Array, int],
    problem: TransportProblem | PointProblem,
    more: dict[str, tuple[Array | None, int]],
    platform: Literal["cpu", "cuda"],
    **attributes: Any,
) -> tuple[Transport, jnp.ndarray]:
    """Calls a target. `first` and `more` hold arrays with their numbers of core dimensions."""
    supply, demand = problem.supply, problem.demand
    optional = {
        "row_mask": (problem.row_mask, 1),
        "col_mask": (problem.col_mask, 1),
        "moved": (problem.moved, 0),
        "col_dual": (problem.col_dual, 1),
        **more,
    }
    given = {name: (x, core) for name, (x, core) in optional.items() if x is not None}
    n, m = supply.shape[-1], demand.shape[-1]
    results = [*_results(n, m, supply.dtype, result_float())]
    if platform == "cuda":
        results += buffers([size("transport.workspace", n, m)])
    out = native_call(
        target,
        [first[0], supply, demand, *(x for x, _ in given.values())],
        results,
        core_dims=[first[1], 1, 1, *(core for _, core in given.values())],
        present=names_of(**{name: x for name, (x, _) in given.items()}),
        coarsest=coarsest(problem).name,
        **attributes,
    )
    return Transport(*out[:8]), out[8]


@lru_cache(maxsize=4096)
def _results(n: int, m: int, mass: np.dtype, real: np.dtype) -> tuple[Result, ...]:
    index, entries = np.dtype(np.int32), max(n + m - 1, 0)
    return (
        Result((entries,), index),
        Result((entries,), index),
        Result((entries,), mass),
        Result((), real),
        Result((n,), real),
        Result((m,), real),
        Result((), real),
        Result((), index),
        Result((2,), index),
    )
