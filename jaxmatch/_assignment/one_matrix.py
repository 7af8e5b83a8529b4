"""Solves one matrix outside of a trace by a prepared call, for loops over small problems."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import numpy as np

from jaxmatch._common.place import CALLS_BEFORE_COMPILATION, Place, came_often, here
from jaxmatch._common.typing import Array
from jaxmatch._ffi.host_call import Plan, call_by_plan, plan_of
from jaxmatch._ffi.results import assignment_fields_of


_DTYPES = frozenset(np.dtype(x) for x in ("float32", "float64", "int32", "int64"))


Pairs: TypeAlias = tuple[Array, Array]


def pairs_of_matrix(
    cost: Any, maximize: bool, program: Callable[[Array, bool], Pairs]
) -> Pairs | None:
    """What `linear_sum_assignment` returns for one matrix on this host.

    None if `cost` is anything else, or if the problem has no solution. `program`: a compiled
    solver, for JAX arrays whose shape and dtype come often.
    """
    is_jax = isinstance(cost, jax.Array)
    if not (is_jax or type(cost) is np.ndarray) or cost.ndim != 2 or cost.dtype not in _DTYPES:
        return None
    place: Place | None = here(cost)
    if place is None:
        return None
    n, m = cost.shape
    if is_jax and came_often((cost.shape, cost.dtype, maximize), CALLS_BEFORE_COMPILATION):
        found = program(cost, maximize)
        failed = min(n, m) and np.asarray(found[0])[0] < 0
        return None if failed else found
    matrix = np.asarray(cost)
    plan = _plan(n, m, matrix.dtype, maximize)
    memory = call_by_plan(plan, (matrix,))
    _, _, k, offset = plan.results[-1]
    if memory[k].item(offset):  # the first byte of the status, which is 0 for OPTIMAL alone
        return None
    _, _, k, offset = plan.results[0 if n <= m else 1]
    indices = np.ndarray(min(n, m), np.int32, memory[k], offset)
    if n <= m:
        pairs: Any = np.arange(n, dtype=np.int32), indices.copy()
    else:
        col_ind = indices.argsort().astype(np.int32)
        pairs = indices[col_ind], col_ind
    return place.bring_home(pairs) if is_jax else pairs


@lru_cache(maxsize=4096)
def _plan(n: int, m: int, dtype: np.dtype, maximize: bool) -> Plan:
    fields = assignment_fields_of(n, m, np.dtype(np.float64))
    attributes = (("maximize", maximize), ("present", ""))
    return plan_of("jaxmatch_assignment", (((n, m), dtype),), fields, (0, 2), attributes)
