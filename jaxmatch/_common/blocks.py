"""Blocks of the rows of a matrix, for checks that read all its entries."""

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

# Costs in one block: in the cache of a core, and in the memory of a device. The error-free
# arithmetic needs some ten numbers for each.
_IN_CACHE, _ON_DEVICE = 1 << 15, 1 << 22


def blocks_of(n: int, m: int) -> list[tuple[int, int]]:
    """The first row and the number of rows of blocks of n rows, which stay in a core's cache."""
    count = max(1, _IN_CACHE // max(m, 1))
    return [(k, min(count, n - k)) for k in range(0, n, count)]


def rows_from(x: Array, first: Array | int, count: int) -> Array:
    """A block of rows of an array, of NumPy or JAX."""
    if module_of(x) is np:
        return x[first : first + count]
    return lax.dynamic_slice_in_dim(x, first, count)


def in_blocks(
    reduce_block: Callable[[Any, int], T], n: int, m: int, problems: int = 1, xp: Any = jnp
) -> T:
    """`reduce_block(first, count)` over all n rows, in blocks of at most `_ON_DEVICE` costs.

    It returns a tree of arrays with an entry for each row, under `vmap` for so many `problems`.
    """
    if n == 0:
        return reduce_block(xp.int32(0), 0)
    if xp is np:
        blocks = [reduce_block(first, count) for first, count in blocks_of(n, m)]
        return jax.tree.map(lambda *x: np.concatenate(x), *blocks)
    count = min(n, max(1, _ON_DEVICE // max(m * problems, 1)))
    blocks = -(-n // count)
    first = jnp.minimum(jnp.arange(blocks) * count, n - count)  # the last one may overlap
    reductions = lax.map(lambda first: reduce_block(first, count), first)
    kept = n - (blocks - 1) * count
    return jax.tree.map(
        lambda x: jnp.concatenate([x[:-1].reshape(-1), x[-1, count - kept :]]), reductions
    )
