"""Solutions under noise: their mean, and the derivative of it that the score of the noise gives.

Assignments are solved by one native call that makes the noise where it is needed and keeps nothing
but each sample's columns. Solutions of other oracles are kept as they are.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch import _native
from jaxmatch._sharding import over_batch_shards
from jaxmatch._status import Status
from jaxmatch.estimators._noise import (
    NOISES,
    later_samples,
    noise_like,
    noise_of,
    noise_streams,
)
from jaxmatch.estimators._oracle import LinearOracle


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float


_MOST_NOISE = 2**24  # numbers in memory at a time, or as many as there are costs


class Noisy(NamedTuple):
    """The noise on the costs: `strength` times numbers of a kind from `key`, by sample."""

    key: Any
    strength: Array  # broadcasts against the costs
    samples: int
    kind: str


class Samples(NamedTuple):
    """`mean`: of the solutions; `value`: of the optima; `solved`: all of them; `kept`: what
    `slope_of_mean` needs of them."""

    mean: Float[Array, "..."]
    value: Float[Array, "..."]
    solved: Bool[Array, "..."]
    kept: Any


def solve_samples(oracle: LinearOracle, cost: Array, noisy: Noisy, start: Any) -> Samples:
    """`start`: of a solution without noise, or None."""
    if oracle.assignments is not None:
        return _solve_columns(oracle, cost, noisy)
    z = noise_like(noisy.key, noisy.samples, cost, oracle.core_dims, noisy.kind)
    found = jax.vmap(lambda z: oracle.solve(cost + noisy.strength * z, start))(z)
    each = jax.vmap(lambda z, y: oracle.objective(cost + noisy.strength * z, y))(z, found.y)
    solved = found.solved.all(0)
    mean = jnp.where(oracle.per_problem(solved), found.y.mean(0), 0)
    return Samples(mean, each.mean(0), solved, found.y)


def slope_of_mean(
    oracle: LinearOracle, noisy: Noisy, found: Samples, baseline: Array | None, along: Array
) -> Array:
    """Of the mean, along a direction, in which it is linear: the mean of `y <score, along>` by
    strength. `baseline`: a control variate, taken from each solution."""
    if oracle.assignments is not None:
        total = _slope_by_columns(oracle, noisy, found.kept, baseline, along)
    else:
        total = _slope_by_solutions(oracle, noisy, found.kept, baseline, along)
    slope = total / (noisy.samples * noisy.strength)
    return jnp.where(oracle.per_problem(found.solved), slope, 0)


def _slope_by_solutions(
    oracle: LinearOracle, noisy: Noisy, y: Array, baseline: Array | None, along: Array
) -> Array:
    @jax.checkpoint  # noise is made again instead of being kept
    def slope(y: Array, key: Any, along: Array) -> Array:
        z = noise_like(key, noisy.samples, along, oracle.core_dims, noisy.kind)
        product = NOISES[noisy.kind].score(z) * along
        weight = product.sum(tuple(range(product.ndim - oracle.core_dims, product.ndim)))
        return ((y if baseline is None else y - baseline) * oracle.per_problem(weight)).sum(0)

    return slope(y, noisy.key, along)


# ---------------------------------------------------------------------------------------------
# Assignments


def _solve_columns(oracle: LinearOracle, cost: Array, noisy: Noisy) -> Samples:
    *batch, n, m = cost.shape
    streams = noise_streams(noisy.key, tuple(batch), n * m)
    strength = jnp.broadcast_to(noisy.strength, (*batch, 1, 1))[..., 0, 0].astype(cost.dtype)
    masks = tuple(
        None if x is None else jnp.broadcast_to(x, (*batch, side))
        for x, side in zip(oracle.data, (n, m - oracle.assignments.may_leave), strict=True)
    )
    solve = partial(_perturbed_assignments, oracle, noisy.samples, noisy.kind)
    arguments = (cost, streams, strength, *masks)
    found = over_batch_shards(solve, *arguments, core_dims=2)
    solved = (found.status == Status.OPTIMAL).all(-1)
    mean = jnp.where(oracle.per_problem(solved), found.total / noisy.samples, 0)
    # No more than a byte or two for each row and sample.
    col4row = found.col4row.astype(jnp.uint8 if m < 2**8 else jnp.uint16 if m < 2**16 else None)
    return Samples(mean, found.value.mean(-1), solved, (streams, col4row))


def _perturbed_assignments(
    oracle: LinearOracle,
    samples: int,
    kind: str,
    cost: Array,
    streams: Array,
    strength: Array,
    row_mask: Array | None,
    col_mask: Array | None,
) -> _native.PerturbedAssignments:
    given = (row_mask is not None, col_mask is not None)
    may_leave = oracle.assignments.may_leave

    def with_none(solve: Any) -> Any:
        def solver(cost: Array, streams: Array, strength: Array, *masks: Array) -> Any:
            rest = iter(masks)
            return solve(streams, strength, cost, *(next(rest) if g else None for g in given))

        return solver

    native = partial(
        _native.perturbed_assignment,
        samples=samples,
        kind=list(NOISES).index(kind),
        may_leave=may_leave,
    )
    composed = partial(_compose, oracle, samples, kind)
    fits = _native.fits_perturbed(cost)
    cpu = {"cpu": with_none(partial(native, platform="cpu"))}
    cuda = {"cuda": with_none(partial(native, platform="cuda"))}

    @jax.custom_batching.custom_vmap
    def solve(*arguments: Array) -> _native.PerturbedAssignments:
        return lax.platform_dependent(
            *arguments,
            default=with_none(composed),
            **(cpu if fits and _native.has_cpu_library() else {}),
            **(cuda if fits and _native.has_cuda_library() else {}),
        )

    @solve.def_vmap
    def solve_larger_batch(size: int, batched: Any, *arguments: Array) -> Any:
        """One call, whose workspace knows the size of the whole batch."""
        cost, streams, strength, *masks = (
            x if is_batched else jnp.broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip(arguments, batched, strict=True)
        )
        rest = iter(masks)
        both = (next(rest) if g else None for g in given)
        found = _perturbed_assignments(oracle, samples, kind, cost, streams, strength, *both)
        return found, jax.tree.map(lambda _: True, found)

    return solve(cost, streams, strength, *(x for x in (row_mask, col_mask) if x is not None))


def _compose(
    oracle: LinearOracle,
    samples: int,
    kind: str,
    streams: Array,
    strength: Array,
    cost: Array,
    row_mask: Array | None,
    col_mask: Array | None,
) -> _native.PerturbedAssignments:
    """The same, one step after another: for costs and platforms without a native target."""
    n, m = cost.shape[-2:]
    z = noise_of(streams, samples, n * m, kind).astype(cost.dtype)
    noisy = cost[..., None, :, :] + strength[..., None, None, None] * z.reshape(*z.shape[:-1], n, m)
    masks = tuple(None if x is None else x[..., None, :] for x in (row_mask, col_mask))
    found = oracle.assignments.solve(masks, noisy)
    pairs = found.col4row[..., None] == lax.iota(jnp.int32, m)
    total = pairs.sum(-3, dtype=jnp.int32).astype(cost.dtype)
    value = found.cost.astype(cost.dtype)
    return _native.PerturbedAssignments(total, found.col4row, value, found.status)


def _slope_by_columns(
    oracle: LinearOracle, noisy: Noisy, kept: Any, baseline: Array | None, along: Array
) -> Array:
    """In parts of so many samples that their noise takes no more room than the costs, or 64 MB."""
    streams, col4row = kept
    samples, m = noisy.samples, along.shape[-1]
    parts = max(1, min(samples, -(-samples * along.size // max(along.size, _MOST_NOISE))))
    each = -(-samples // parts)

    @jax.checkpoint
    def part(first: Array, columns: Array, along: Array) -> Array:
        entries = math.prod(along.shape[-2:])
        z = noise_of(later_samples(streams, first), each, entries, noisy.kind)
        score = NOISES[noisy.kind].score(z).astype(along.dtype)
        flat = along.reshape(*along.shape[:-2], entries)
        weight = jnp.einsum("...se,...e->...s", score, flat, precision="highest")
        weight = jnp.where(first + lax.iota(jnp.int32, each) < samples, weight, 0)
        chosen = columns[..., None] == lax.iota(columns.dtype, m)
        total = jnp.where(chosen, weight[..., None, None], 0).sum(-3)
        return total if baseline is None else total - baseline * weight.sum(-1)[..., None, None]

    if parts == 1:
        return part(jnp.int32(0), col4row, along)
    padding = [(0, 0)] * col4row.ndim
    padding[-2] = (0, parts * each - samples)
    columns = jnp.pad(col4row, padding)
    columns = columns.reshape(*columns.shape[:-2], parts, each, columns.shape[-1])

    def step(total: Array, of_part: Any) -> tuple[Array, None]:
        first, columns = of_part
        return total + part(first, columns, along), None

    firsts = each * lax.iota(jnp.int32, parts)
    start = jnp.zeros_like(along) + 0 * col4row.sum().astype(along.dtype)
    return lax.scan(step, start, (firsts, jnp.moveaxis(columns, -3, 0)))[0]
