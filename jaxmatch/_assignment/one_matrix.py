"""One NumPy matrix outside of a trace: a prepared native call, for loops over small problems."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from jaxmatch._common.typing import Array
from jaxmatch._ffi.host_call import Plan, call_by_plan, plan_of
from jaxmatch._ffi.place import is_solved_here
from jaxmatch._ffi.results import assignment_fields_of


_DTYPES = frozenset(np.dtype(x) for x in ("float32", "float64", "int32", "int64"))


def pairs_of_matrix(cost: Any, maximize: bool) -> tuple[Array, Array] | None:
    """What `linear_sum_assignment` returns; None for other arguments, and where it has an error."""
    if type(cost) is not np.ndarray or cost.ndim != 2 or cost.dtype not in _DTYPES:
        return None
    if not is_solved_here(cost):
        return None
    n, m = cost.shape
    plan = _plan(n, m, cost.dtype, maximize)
    memory = call_by_plan(plan, (cost,))
    _, _, k, offset = plan.results[-1]
    if memory[k].item(offset):  # the first byte of a status, which is 0 for OPTIMAL alone
        return None
    _, _, k, offset = plan.results[0 if n <= m else 1]
    if n <= m:
        col4row = np.ndarray(n, np.int32, memory[k], offset)
        return np.arange(n, dtype=np.int32), col4row.copy()  # type: ignore[return-value]
    row4col = np.ndarray(m, np.int32, memory[k], offset)
    col_ind = row4col.argsort().astype(np.int32)
    return row4col[col_ind], col_ind  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _plan(n: int, m: int, dtype: np.dtype, maximize: bool) -> Plan:
    fields = assignment_fields_of(n, m, np.dtype(np.float64))
    attributes = (("maximize", maximize), ("present", ""))
    return plan_of("jaxmatch_assignment", (((n, m), dtype),), fields, (0, 2), attributes)
