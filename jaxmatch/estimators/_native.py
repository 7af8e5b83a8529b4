"""Calls of the native targets that generate counter-based noise.

There is one target for the noise, one for perturbed assignments, and one for the derivative of the
mean of perturbed assignments.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import jax.numpy as jnp

from jaxmatch._assignment.native import fits_cuda
from jaxmatch._common.typing import Array, Bool, Float, Int, UInt
from jaxmatch._ffi.call import Result, names_of, native_call
from jaxmatch._ffi.results import buffers
from jaxmatch._ffi.sizes import size


# The limit on the noisy costs in a workspace, in bytes. One sample per problem is always allowed.
_MOST_BYTES = 1 << 29


class PerturbedAssignments(NamedTuple):
    """The perturbed solutions of each problem."""

    total: Float[Array, "... n m"]  # how often each pair was chosen
    col4row: Int[Array, "... samples n"]  # with `may_leave`, unmatched rows have the last column
    value: Float[Array, "... samples"]
    status: Int[Array, "... samples"]


def noise(stream: UInt[Array, "... 4"], samples: int, entries: int, kind: str) -> Array:
    """Noise `f32[..., samples, entries]`. The target exists for the CPU only.

    On other platforms the code that XLA compiles for noise is fast enough. `stream`: for each
    problem two key words, the first sample, and the position in the batch.
    """
    result = Result((samples, entries), jnp.float32)
    return native_call("jaxmatch_noise", [stream], [result], core_dims=[1], noise=kind)[0]


def fits_perturbed(cost: Array) -> bool:
    """Whether the targets for perturbed assignments and for their derivative accept these costs."""
    return cost.dtype == jnp.float32 and 0 not in cost.shape and fits_cuda(cost)


def perturbed_assignment(
    stream: UInt[Array, "... 4"],
    strength: Float[Array, "..."],
    cost: Float[Array, "... n m"],
    row_mask: Bool[Array, "... n"] | None,
    col_mask: Bool[Array, "... m"] | None,
    *,
    samples: int,
    kind: str,
    may_leave: bool,
    platform: Literal["cpu", "cuda"],
) -> PerturbedAssignments:
    """Solves `samples` noisy copies of each problem. The caller must have checked the arguments.

    With `may_leave` the last column holds the costs of leaving rows unmatched.
    """
    masks = [x for x in (row_mask, col_mask) if x is not None]
    sizes, by_batch = [], {}
    n, m = cost.shape[-2:]
    if platform == "cuda":
        by_batch["at_once"] = at_once = _at_once(cost, samples)
        present = (row_mask is not None, col_mask is not None, may_leave)
        sizes.append(size("perturbed.workspace", n, m - may_leave, *present, at_once))
    results = [
        Result((n, m), jnp.float32),
        Result((samples, n), jnp.int32),
        Result((samples,), jnp.float32),
        Result((samples,), jnp.int32),
    ]
    out = native_call(
        "jaxmatch_perturbed_assignment",
        [stream, strength, cost, *masks],
        [*results, *buffers(sizes)],
        core_dims=[1, 0, 2, *(1 for _ in masks)],
        by_batch=by_batch,
        present=names_of(row_mask=row_mask, col_mask=col_mask),
        noise=kind,
        may_leave=may_leave,
    )
    return PerturbedAssignments(*out[:4])


def perturbed_jvp(
    tangent: Float[Array, "... n m"],
    stream: UInt[Array, "... 4"],
    col4row: Int[Array, "... samples n"],
    reference: Float[Array, "... n m"],
    *,
    kind: str,
    by_solutions: float,
    by_scores: float,
) -> Float[Array, "... n m"]:
    """`Σ_s by_solutions (y_s − r) <g_s, d> + by_scores g_s <y_s − r, d>` for a tangent d.

    y_s is the assignment of sample s as a matrix, g_s is the score of its noise, and r is
    `reference`.
    """
    samples = col4row.shape[-2]
    dot, _ = native_call(
        "jaxmatch_perturbed_jvp",
        [stream, tangent, reference, col4row],
        [Result(tangent.shape[-2:], jnp.float32), Result((samples, 2), jnp.float32)],
        core_dims=[1, 2, 2, 2],
        noise=kind,
        by_solutions=float(by_solutions),
        by_scores=float(by_scores),
    )
    return dot


def _at_once(cost: Array, samples: int) -> int:
    """The number of samples of each problem that the workspace holds at a time.

    The whole batch needs at least 2,048 samples to fill a GPU, and more if the problems are small.
    The memory limit may allow fewer.
    """
    *batch, n, m = cost.shape
    bytes_each = 4 * n * m
    most = max(1, min(max(2048, _MOST_BYTES // 8 // bytes_each), _MOST_BYTES // bytes_each))
    return min(samples, -(-most // math.prod(batch)))
