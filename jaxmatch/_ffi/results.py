"""Shapes (for one problem) and dtypes of results that several native targets have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.result import result_float
from jaxmatch._ffi.call import Result


def assignment_fields(n: int, m: int) -> list[Result]:
    """The fields of an `Assignment`."""
    return [*assignment_fields_of(n, m, result_float())]


@lru_cache(maxsize=4096)
def assignment_fields_of(n: int, m: int, real: np.dtype) -> tuple[Result, ...]:
    """The fields of an `Assignment` whose floats have the dtype `real`."""
    index = np.dtype(np.int32)
    return (
        Result((n,), index),
        Result((m,), index),
        Result((), real),
        Result((n,), real),
        Result((m,), real),
        Result((), real),
        Result((), index),
    )


def buffers(sizes: Sequence[int]) -> list[Result]:
    """Workspaces as extra results of a call. `sizes`: the number of int32 words of each."""
    return [Result((words,), jnp.int32) for words in sizes]
