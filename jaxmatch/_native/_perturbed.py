"""The targets that make noise from a counter: runs of it, assignments solved under it, and the
derivative of their mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._native._assignment import fits_cuda, workspace_words


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, UInt


_MOST_BYTES = 1 << 29  # of noisy costs at a time, or as many as there are problems


class PerturbedAssignments(NamedTuple):
    """Of each problem: how often each pair was chosen, and each sample's columns, optimum and
    status. A row that is left has the last column."""

    total: Float[Array, "... n m"]
    col4row: Int[Array, "... samples n"]
    value: Float[Array, "... samples"]
    status: Int[Array, "... samples"]


def noise(stream: UInt[Array, "... 4"], samples: int, entries: int, kind: int) -> Array:
    """`f32[..., samples, entries]`, on the CPU; where code for other platforms is compiled by XLA,
    it needs no native one. `stream`, of each problem: key, first sample, place in the batch."""

    def result(stream: Array) -> Array:
        value = stream.sum(-1).astype(jnp.float32)[..., None, None]
        return jnp.broadcast_to(value, (*stream.shape[:-1], samples, entries))

    like = jax.eval_shape(result, stream)
    call = jax.ffi.ffi_call("jaxmatch_noise", like, vmap_method="broadcast_all")
    return call(stream, noise=kind)


def fits_perturbed(cost: Array) -> bool:
    """Whether the fused targets take these costs."""
    return cost.dtype == jnp.float32 and 0 not in cost.shape and fits_cuda(cost)


def perturbed_assignment(
    stream: UInt[Array, "... 4"],
    strength: Float[Array, "..."],
    cost: Float[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    samples: int,
    kind: int,
    may_leave: bool,
    platform: Literal["cpu", "cuda"],
) -> PerturbedAssignments:
    """Solves `samples` of each problem under noise; arguments are checked already. With
    `may_leave` the last column is what leaving a row costs."""
    optional = (row_mask, col_mask)
    given = sum(1 << bit for bit, x in enumerate(optional) if x is not None)
    attributes: dict[str, Any] = {"given": given, "noise": kind, "may_leave": may_leave}
    buffers = []
    if platform == "cuda":
        at_once, copy, words = _workspace(cost, row_mask, col_mask, samples, may_leave)
        attributes |= {"at_once": at_once, "copy_words": copy}
        buffers = [words]
    operands = (stream, strength, cost, *(x for x in optional if x is not None))
    like = _results(*operands, samples=samples, buffers=buffers)
    call = jax.ffi.ffi_call("jaxmatch_perturbed_assignment", like, vmap_method="broadcast_all")
    return PerturbedAssignments(*call(*operands, **attributes)[:4])


def perturbed_slope(
    along: Float[Array, "... n m"],
    stream: UInt[Array, "... 4"],
    col4row: Int[Array, "... samples n"],
    reference: Float[Array, "... n m"],
    *,
    kind: int,
    by_solutions: float,
    by_scores: float,
) -> Float[Array, "... n m"]:
    """`Σ_s by_solutions (y_s − r) <g_s, d> + by_scores g_s <y_s − r, d>`: y_s is the matrix of a
    sample's columns, g_s the score of its noise, r the reference, d the direction."""

    def results(*operands: Array) -> tuple[Array, Array]:
        stream, along, reference, col4row = operands
        nothing = (stream.sum() + col4row.sum()).astype(jnp.float32)
        each = jnp.zeros((*col4row.shape[:-1], 2), jnp.float32)
        return along + reference + nothing, each + (along.sum((-1, -2)) + nothing)[..., None, None]

    operands = (stream, along, reference, col4row)
    like = jax.eval_shape(results, *operands)
    call = jax.ffi.ffi_call("jaxmatch_perturbed_slope", like, vmap_method="broadcast_all")
    shares = {"by_solutions": np.float32(by_solutions), "by_scores": np.float32(by_scores)}
    return call(*operands, noise=kind, **shares)[0]


def _workspace(
    cost: Array, row_mask: Array | None, col_mask: Array | None, samples: int, may_leave: bool
) -> tuple[int, int, int]:
    """How many problems lie in it at once, the words that the solver needs to copy one of them, and
    int32 words for each problem of the batch. The layout stands in ffi/cuda/perturbed.cu."""
    *batch, n, m = cost.shape
    problem = cost[..., :-1] if may_leave else cost
    leave = cost[..., -1] if may_leave else None
    copy = workspace_words(problem, row_mask, col_mask, leave)
    # As many as keep a GPU busy, 2,048 or more if they are small, but not more than memory for it.
    size = 4 * n * m
    most = max(1, min(max(2048, _MOST_BYTES // 8 // size), _MOST_BYTES // size))
    of_batch = math.prod(batch)
    at_once = of_batch * min(samples, -(-most // of_batch))
    each = problem.shape[-1] * (n + 3) + 3 * n + 1 + copy
    return at_once, copy, -(-(at_once * each + 64) // of_batch)


def _results(*operands: Array, samples: int, buffers: list[int]) -> Any:
    def results(stream: Array, strength: Array, cost: Array, *masks: Array) -> Any:
        nothing = sum((x.sum().astype(jnp.float32) for x in (stream, *masks)), jnp.float32(0))
        value = (cost.sum((-1, -2)) + strength + nothing)[..., None]
        each = jnp.broadcast_to(value, (*value.shape[:-1], samples))
        rows = (each[..., None] + cost.sum(-1)[..., None, :]).astype(jnp.int32)
        words = tuple(
            jnp.broadcast_to(value, (*value.shape[:-1], count)).astype(jnp.int32)
            for count in buffers
        )
        return cost + value[..., None], rows, each, each.astype(jnp.int32), *words

    return jax.eval_shape(results, *operands)
