"""The call of the native target that looks for pairs of points at given prices."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.typing import Array, Float, Int
from jaxmatch._ffi.call import Result, native_call


class Nearest(NamedTuple):
    """For each row the columns of least cost − price, best first."""

    col: Int[Array, "n k"]
    cost: Float[Array, "n k"]
    reduced: Float[Array, " n"]  # the least cost − price
    cost_of_pair: Float[Array, " n"]  # of the row and the first column that was named near


def nearest(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    price: Float[Array, " m"],
    near: Int[Array, "n k+"],
    k: int,
    metric: str,
) -> Nearest:
    """The k columns of least cost − price of each row, on a CPU or on CUDA.

    `near`: columns near each row, k of them different, which save time; first that whose cost is
    asked for. Points that are sorted along a curve save time, too.
    """
    n = x.shape[-2]
    return Nearest(
        *native_call(
            "jaxmatch_nearest",
            [x, y, price, near],
            [
                Result((n, k), jnp.int32),
                Result((n, k), x.dtype),
                Result((n,), price.dtype),
                Result((n,), x.dtype),
            ],
            core_dims=[2, 2, 1, 2],
            metric=metric,
        )
    )
