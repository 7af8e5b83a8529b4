"""The shapes of an assignment's results, as `ffi_call` wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from jaxmatch._result import result_float


if TYPE_CHECKING:
    from jaxtyping import Array


def assignment_results(
    cost: Array, operands: Sequence[Array], buffers: Sequence[int] = ()
) -> tuple[Any, ...]:
    """The fields of an `Assignment`, and int32 `buffers` of so many words for each problem.

    As reductions of the operands: that gives them the axes over which a surrounding `shard_map`
    varies, in every version of jax that has a word for it.
    """
    real = result_float()

    def results(cost: Array, *operands: Array) -> tuple[Array, ...]:
        nothing = sum((x.sum().astype(real) for x in operands), jnp.zeros((), real))
        per_row, per_col = cost.sum(-1).astype(real), cost.sum(-2).astype(real)
        value = per_row.sum(-1)
        like = [
            (per_row, jnp.int32),
            (per_col, jnp.int32),
            (value, real),
            (per_row, real),
            (per_col, real),
            (value, real),
            (value, jnp.int32),
        ]
        for words in buffers:
            like.append((jnp.broadcast_to(value[..., None], (*value.shape, words)), jnp.int32))
        return tuple((x + nothing).astype(dtype) for x, dtype in like)

    return jax.eval_shape(results, cost, *operands)
