"""Explicit promotion of ranks and dtypes, by NumPy for NumPy arrays, and by JAX for all others.

With `jax_numpy_rank_promotion="raise"` and `jax_numpy_dtype_promotion="strict"`, JAX does not
promote by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.typing import Array, ArrayLike


P = ParamSpec("P")
R = TypeVar("R")


def module_of(*arrays: Any) -> Any:
    """The module `numpy` if all arguments are NumPy arrays or None, else `jax.numpy`."""
    return np if all(x is None or isinstance(x, _NUMPY) for x in arrays) else jnp


_NUMPY = (np.ndarray, np.generic)


def same_rank(*arrays: ArrayLike) -> list[Array]:
    """Expands arrays to the largest rank by leading dimensions of size 1."""
    if module_of(*arrays) is np:
        rank = max(np.ndim(x) for x in arrays)
        return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]  # type: ignore[union-attr]
    converted = [jnp.asarray(x) for x in arrays]
    rank = max(x.ndim for x in converted)
    return [lax.expand_dims(x, range(rank - x.ndim)) for x in converted]


def with_promotion(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: inside, JAX promotes ranks and dtypes by itself, whatever its settings say."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return function(*args, **kwargs)

    return call


def last_iota(dtype: Any, size: int, rank: int, xp: Any = jnp) -> Array:
    """0, 1, ... along the last of `rank` dimensions; all others have size 1."""
    shape = (*(1 for _ in range(rank - 1)), size)
    if xp is np:
        return np.arange(size, dtype=dtype).reshape(shape)  # type: ignore[return-value]
    return lax.broadcasted_iota(dtype, shape, rank - 1)


def common_dtype(*of: Any) -> jnp.dtype:
    """The promoted dtype of arrays or dtypes, even if JAX's settings forbid implicit promotion."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*of)


def float_dtype(*of: Any) -> jnp.dtype:
    """The float dtype, at least float32, in which a loss of these arrays or dtypes is computed.

    It is float64 for 64-bit integers if `jax_enable_x64` is on.
    """
    return common_dtype(jnp.float32, *[_as_float(getattr(x, "dtype", x)) for x in of])


def _as_float(dtype: Any) -> Any:
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    is_long = dtype.itemsize == 8 and jnp.issubdtype(dtype, jnp.integer)
    return np.dtype(np.float64) if is_long else dtype
