"""The call of the native target that finds k best assignments."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import most, size
from jaxmatch._k_best.result import KBestAssignments


def fits_cuda(problem: AssignmentProblem, k: int) -> bool:
    """Whether the CUDA kernel supports lists and problems of this size."""
    sizes = problem.cost.shape[-2:]
    longest = 0 if is_symbolic(sizes) else max(sizes)
    return longest <= most("k_best.longest_side") and k <= most("k_best.longest_list")


def k_best(
    problem: AssignmentProblem, k: int, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> KBestAssignments:
    """Solves every problem of the batch in one native call. Arguments must be checked."""
    return counted(problem, k, maximize=maximize, platform=platform)[0]


def counted(
    problem: AssignmentProblem, k: int, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> tuple[KBestAssignments, Array]:
    """The result, and `i32[..., 2]`: the numbers of path searches and of rows that they scanned."""
    optional = {"row_mask": problem.row_mask, "col_mask": problem.col_mask}
    operands = [x for x in optional.values() if x is not None]
    n, m = problem.cost.shape[-2:]
    index, real = jnp.int32, result_float()
    results = [
        Result((k, n), index),
        Result((k, m), index),
        Result((k,), real),
        Result((), index),
        Result((n,), real),
        Result((m,), real),
        Result((), real),
        Result((), index),
        Result((2,), index),
    ]
    if platform == "cuda":
        results += buffers([size("k_best.workspace", n, m, k)])
    out = native_call(
        "jaxmatch_k_best",
        [problem.cost, *operands],
        results,
        core_dims=[2, *(1 for _ in operands)],
        present=names_of(**optional),
        maximize=maximize,
    )
    return KBestAssignments(*out[:8]), out[8]
