"""Promotion spelled out, for `jax_numpy_rank_promotion="raise"` and
`jax_numpy_dtype_promotion="strict"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array


def same_rank(*arrays: ArrayLike) -> list[Array]:
    """With dimensions of size 1 in front, as many as those of fewer dimensions lack."""
    given = [jnp.asarray(x) for x in arrays]
    rank = max(x.ndim for x in given)
    return [lax.expand_dims(x, range(rank - x.ndim)) for x in given]


def last_iota(dtype: Any, size: int, rank: int) -> Array:
    """0, 1, ... along the last of `rank` dimensions, all others of size 1."""
    return lax.broadcasted_iota(dtype, (*(1 for _ in range(rank - 1)), size), rank - 1)


def common_dtype(*of: Any) -> jnp.dtype:
    """Of arrays or dtypes that a function documents to promote."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*of)
