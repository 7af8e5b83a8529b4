"""Checks of index arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.given import on_host
from jaxmatch._common.limits import MOST_VERTICES
from jaxmatch._common.symbolic import is_symbolic


def as_indices(name: str, x: Any, size: int, *, built: str, ends: str, advice: str) -> np.ndarray:
    """Checks that there is one index from 0 to `size` - 1 per edge. Errors give `advice`.

    `ends`: what errors call the endpoints of edges, "vertices" or "nodes".
    """
    x = on_host(name, x, built)
    if x.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension, got shape {x.shape}.")
    if x.size == 0:
        return np.zeros(0, np.int64)  # NumPy makes an empty list float64
    if x.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must hold integers, got {x.dtype}; cast it.")
    if x.min() < 0 or x.max() >= size:
        first = int(np.argmax((x < 0) | (x >= size)))
        raise ValueError(
            f"`{name}` holds {x[first]} for edge {first}, where {size} {ends} leave 0 <= index < "
            f"{size}. Drop the edge, or {advice}."
        )
    return x


def rows_of_csr(name: str, csr: Any) -> np.ndarray:
    """The row of each stored entry of a `scipy.sparse` matrix in CSR."""
    counts = np.diff(csr.indptr)
    if csr.indptr[0] != 0 or (counts < 0).any() or csr.indptr[-1] > len(csr.indices):
        raise ValueError(
            f"`{name}.indptr` must rise from 0 to at most the number of stored entries; "
            f"`{name}.check_format()` says what is wrong."
        )
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def existing(index: Any, size: int) -> Any:
    """Indices as int32, with -1 for indices out of range.

    If `size` is symbolic, the limit is `MOST_VERTICES`. Call this before a conversion to 32 bits,
    which could wrap an index into range. NumPy arrays stay NumPy arrays.
    """
    xp = jnp if isinstance(index, jax.Array) else np
    size = MOST_VERTICES if is_symbolic((size,)) else size
    if index.dtype.itemsize < 4:
        index = index.astype(np.int32)  # narrow integers could not be compared with `size`
    exists = (index >= 0) & (index < size)
    return xp.where(exists, xp.where(exists, index, 0).astype(np.int32), np.int32(-1))
