"""The shapes of results, as `ffi_call` wants them.

Found by reductions of the operands: that gives them the axes over which a surrounding `shard_map`
varies, in every version of jax that has a word for it.
"""

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
    """The fields of an `Assignment`, and int32 `buffers` of so many words for each problem."""
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
        like += [(_words(value, words), jnp.int32) for words in buffers]
        return tuple((x + nothing).astype(dtype) for x, dtype in like)

    return jax.eval_shape(results, cost, *operands)


def matching_results(
    operands: Sequence[Array], buffers: Sequence[int]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The fields of a `Matching`, and int32 `buffers` of so many words for each graph."""

    def results(
        row_ptr: Array, col_ind: Array, col_ptr: Array, *others: Array
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        nothing = sum((x.sum() for x in (row_ptr, col_ind, col_ptr, *others)), jnp.int32(0))
        per_row, per_col = row_ptr[..., 1:] + nothing, col_ptr[..., 1:] + nothing
        value = row_ptr[..., 0] + nothing
        like = [
            (per_row, jnp.int32),
            (per_col, jnp.int32),
            (value, jnp.int32),
            (per_row, jnp.bool_),
            (per_col, jnp.bool_),
            (value, jnp.int32),
        ]
        words = tuple(_words(value, count).astype(jnp.int32) for count in buffers)
        return tuple(x.astype(dtype) for x, dtype in like), words

    return jax.eval_shape(results, *operands)


def flow_results(operands: Sequence[Array], buffers: Sequence[int]) -> tuple[Any, ...]:
    """The fields of a `Flow`, and int32 `buffers` of so many words for each problem.

    The first operand is arc_ptr, the last are capacity, source and sink.
    """

    def results(arc_ptr: Array, *others: Array) -> tuple[Array, ...]:
        *arrays, capacity, source, sink = others
        nothing = sum((x.sum() for x in (arc_ptr, *arrays)), jnp.int32(0))
        value = source + sink + nothing + (capacity < 0).sum(-1, dtype=jnp.int32)
        dtype = capacity.dtype
        if jnp.issubdtype(dtype, jnp.integer):
            dtype = jax.dtypes.canonicalize_dtype(int)
        return (
            value.astype(dtype),
            (capacity + value[..., None].astype(capacity.dtype)),
            _words(value, arc_ptr.shape[-1] - 1).astype(jnp.bool_),
            value.astype(jnp.int32),
            *(_words(value.astype(jnp.int32), count) for count in buffers),
        )

    return jax.eval_shape(results, *operands)


def _words(value: Array, count: int) -> Array:
    return jnp.broadcast_to(value[..., None], (*value.shape, count))


def grid_cut_results(
    source: Array, sink: Array, pairwise: Array, rank: int, buffers: Sequence[int]
) -> tuple[Any, ...]:
    """Value, source side and status of grids of `rank` dimensions, and int32 `buffers` of words."""
    integral = jnp.issubdtype(source.dtype, jnp.integer)
    value_dtype = jax.dtypes.canonicalize_dtype(int) if integral else source.dtype
    grid = tuple(range(source.ndim - rank, source.ndim))

    def results(source: Array, sink: Array, pairwise: Array) -> tuple[Array, ...]:
        nothing = sum((x.sum().astype(value_dtype) for x in (sink, pairwise)), value_dtype.type(0))
        value = source.sum(grid).astype(value_dtype) + nothing
        side = (source.astype(value_dtype) + nothing).astype(jnp.bool_)
        status = value.astype(jnp.int32)
        return value, side, status, *(_words(status, count) for count in buffers)

    return jax.eval_shape(results, source, sink, pairwise)
