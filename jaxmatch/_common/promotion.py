"""Explicit promotion, for `jax_numpy_rank_promotion="raise"` and
`jax_numpy_dtype_promotion="strict"`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.typing import Array, ArrayLike


def same_rank(*arrays: ArrayLike) -> list[Array]:
    """Expands arrays to the largest rank by leading dimensions of size 1."""
    converted = [jnp.asarray(x) for x in arrays]
    rank = max(x.ndim for x in converted)
    return [lax.expand_dims(x, range(rank - x.ndim)) for x in converted]


def last_iota(dtype: Any, size: int, rank: int) -> Array:
    """0, 1, ... along the last of `rank` dimensions; all others have size 1."""
    return lax.broadcasted_iota(dtype, (*(1 for _ in range(rank - 1)), size), rank - 1)


def common_dtype(*of: Any) -> jnp.dtype:
    """The promoted dtype of arrays or dtypes, where a function documents promotion."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*of)
