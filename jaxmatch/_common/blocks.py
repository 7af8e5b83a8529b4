"""Splits the rows of a matrix into blocks, for checks that read all its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of
from jaxmatch._common.typing import Array


T = TypeVar("T")

# Limits on the number of costs in one block: on the host, to fit the cache of a core, and on a
# device, to save memory. The error-free arithmetic of checks needs about ten temporary numbers for
# each cost.
_IN_CACHE, _ON_DEVICE = 1 << 15, 1 << 22


def blocks_of(n: int, m: int) -> list[tuple[int, int]]:
    """Splits n rows of m costs into blocks that fit a core's cache: pairs (first row, length)."""
    count = max(1, _IN_CACHE // max(m, 1))
    return [(k, min(count, n - k)) for k in range(0, n, count)]


def rows_from(x: Array, first: Array | int, count: int) -> Array:
    """`count` rows of a NumPy or JAX array, from row `first` on."""
    if module_of(x) is np:
        return x[first : first + count]
    return lax.dynamic_slice_in_dim(x, first, count)


def in_blocks(
    reduce_block: Callable[[Any, int], T], n: int, m: int, problems: int = 1, xp: Any = jnp
) -> T:
    """Calls `reduce_block(first, count)` for each block of n rows, and joins the results.

    `reduce_block` returns a pytree of arrays with one entry per row. `problems`: how many problems
    `vmap` reduces at the same time; together their blocks have at most `_ON_DEVICE` costs.
    """
    if n == 0:
        return reduce_block(xp.int32(0), 0)
    if xp is np:
        blocks = [reduce_block(first, count) for first, count in blocks_of(n, m)]
        return jax.tree.map(lambda *x: np.concatenate(x), *blocks)
    count = min(n, max(1, _ON_DEVICE // max(m * problems, 1)))
    blocks = -(-n // count)
    first = jnp.minimum(jnp.arange(blocks) * count, n - count)  # the last two blocks may overlap
    reductions = lax.map(lambda first: reduce_block(first, count), first)
    kept = n - (blocks - 1) * count
    return jax.tree.map(
        lambda x: jnp.concatenate([x[:-1].reshape(-1), x[-1, count - kept :]]), reductions
    )
