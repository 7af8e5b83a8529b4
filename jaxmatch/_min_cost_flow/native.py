"""The call of the native target for minimum-cost flows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from jaxmatch._common.typing import Array
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem, forgiven, value_dtype
from jaxmatch._min_cost_flow.result import MinimumCostFlow


def minimum_cost_flow(
    ends: Ends, problem: MinCostProblem, *, method: str, platform: Literal["cpu", "cuda"]
) -> MinimumCostFlow:
    """Solves every problem of the batch in one native call. Arguments must be checked.

    Optional operands that are not given have length 0.
    """
    capacity, cost, supply, lower, flow, potential, _ = problem
    mass, value = np.dtype(supply.dtype), value_dtype(problem)
    masses = [_given(x, supply, mass) for x in (lower, flow)]
    sizes = supply.shape[-1], capacity.shape[-1]
    workspace = [size("min_cost_flow.workspace", *sizes)] if platform == "cuda" else []
    out = native_call(
        "jaxmatch_min_cost_flow",
        [*ends, capacity, masses[0], cost, supply, masses[1], _given(potential, supply, value)],
        [*_results(*sizes, mass, value), *buffers(workspace)],
        core_dims=[1] * 8,
        shared=range(2) if ends.are_shared else (),  # shared ends are not copied
        method=method,
        forgiven=forgiven(problem),
    )
    return MinimumCostFlow(*out[:7])


def _given(x: Array | None, like: Array, dtype: np.dtype) -> Any:
    """x, or for None an array of length 0 with the batch dimensions of `like`."""
    return like[..., :0].astype(dtype) if x is None else x


@lru_cache(maxsize=4096)
def _results(n: int, e: int, mass: np.dtype, value: np.dtype) -> tuple[Result, ...]:
    return (
        Result((e,), mass),
        Result((), value),
        Result((n,), value),
        Result((), value),
        Result((n,), np.dtype(bool)),
        Result((e,), np.dtype(bool)),
        Result((), np.dtype(np.int32)),
    )
