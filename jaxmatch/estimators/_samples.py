"""Solutions under noise: their mean, and the derivative of it that the score of the noise gives.

Assignments are solved by one native call that makes the noise where it is needed and keeps nothing
but each sample's columns, and one more makes it again for the derivative. Solutions of other
oracles are kept as they are.

The Jacobian of the mean is `E[y gᵀ] / σ` with g the score of the noise, and symmetric: a direction
is multiplied by this estimate, or by the mean of it and its transpose.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.promotion import last_iota
from jaxmatch._common.sharding import over_batch_shards, vary_alike
from jaxmatch._common.status import Status
from jaxmatch._ffi.dispatch import by_platform, rebatch
from jaxmatch.estimators import _native
from jaxmatch.estimators._linear_map import linear_map
from jaxmatch.estimators._noise import (
    NOISES,
    later_samples,
    noise_like,
    noise_of,
    noise_streams,
)
from jaxmatch.estimators._oracle import Columns, LinearOracle


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float


_MOST_NOISE = 2**24  # numbers at a time, or those of one sample


class Noisy(NamedTuple):
    """The noise on the costs: `strength` times numbers of a kind from `key`, by sample."""

    key: Any
    strength: Array  # broadcasts against the costs
    samples: int
    kind: str
    symmetric: bool  # whether the estimate of the Jacobian is

    @property
    def shares(self) -> tuple[float, float]:
        """Of `y <g, along>` and `g <y, along>` in the derivative along a direction."""
        return (0.5, 0.5) if self.symmetric else (1.0, 0.0)


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
    """Of the mean, along a direction, in which it is linear. `baseline`: a control variate, taken
    from each solution."""
    reference = jnp.zeros_like(found.mean) if baseline is None else baseline
    by = _slope_by_solutions if oracle.assignments is None else _slope_by_columns
    total = by(oracle, noisy, found.kept, reference, along)
    has_strength = noisy.strength != 0
    usable = oracle.per_problem(found.solved) & has_strength
    strength = jnp.where(has_strength, noisy.strength, 1)
    return jnp.where(usable, total / (noisy.samples * strength), 0)


def _slope_by_solutions(
    oracle: LinearOracle, noisy: Noisy, y: Array, reference: Array, along: Array
) -> Array:
    @jax.checkpoint  # noise is made again instead of being kept
    def slope(y: Array, key: Any, along: Array) -> Array:
        z = noise_like(key, noisy.samples, along, oracle.core_dims, noisy.kind)
        score = NOISES[noisy.kind].score(z)
        apart = y - reference[None]
        return _product(noisy.shares, oracle.core_dims, score, apart, along[None]).sum(0)

    return slope(y, noisy.key, along)


def _product(
    shares: tuple[float, float], core_dims: int, score: Array, y: Array, along: Array
) -> Array:
    """`y <score, along>` and `score <y, along>`, by their shares."""
    axes = tuple(range(-core_dims, 0))
    total = jnp.zeros_like(y)
    for share, (one, other) in zip(shares, ((y, score), (score, y)), strict=True):
        if share:
            total = total + share * one * (other * along).sum(axes, keepdims=True)
    return total


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
    solve = partial(_perturbed_assignments, oracle.assignments, noisy.samples, noisy.kind)
    arguments = (cost, streams, strength, *masks)
    found = over_batch_shards(solve, *arguments, core_dims=2)
    solved = (found.status == Status.OPTIMAL).all(-1)
    mean = jnp.where(oracle.per_problem(solved), found.total / noisy.samples, 0)
    return Samples(mean, found.value.mean(-1), solved, (streams, found.col4row))


def _perturbed_assignments(
    assignments: Columns, samples: int, kind: str, *problem: Any
) -> _native.PerturbedAssignments:
    """Of costs, streams, strength and masks; one call, whose workspace knows the whole batch."""

    def solve(cost: Array, streams: Array, strength: Array, *masks: Any) -> Any:
        native = partial(
            _native.perturbed_assignment,
            samples=samples,
            kind=kind,
            may_leave=assignments.may_leave,
        )
        fits = _native.fits_perturbed(cost)
        cpu, cuda = (partial(native, platform=p) if fits else None for p in ("cpu", "cuda"))
        composed = partial(_compose, assignments, samples, kind)
        return by_platform(composed, streams, strength, cost, *masks, cpu=cpu, cuda=cuda)

    return rebatch(solve)(*problem)


def _compose(
    assignments: Columns,
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
    found = assignments.solve(masks, noisy)
    pairs = found.col4row[..., None] == last_iota(jnp.int32, m, found.col4row.ndim + 1)
    total = pairs.sum(-3, dtype=jnp.int32).astype(cost.dtype)
    value = found.cost.astype(cost.dtype)
    return _native.PerturbedAssignments(total, found.col4row, value, found.status)


def _slope_by_columns(
    oracle: LinearOracle, noisy: Noisy, kept: Any, reference: Array, along: Array
) -> Array:
    forward, backward = (_Slope(noisy.kind, *s) for s in (noisy.shares, noisy.shares[::-1]))
    apply = partial(linear_map, forward, backward)
    along = vary_alike(along, (kept, reference))
    return over_batch_shards(apply, along, *kept, reference, core_dims=2)


@dataclasses.dataclass(frozen=True)
class _Slope:
    """A linear map of the direction; see `_native.perturbed_slope`."""

    kind: str
    by_solutions: float
    by_scores: float

    def __call__(self, along: Array, streams: Array, col4row: Array, reference: Array) -> Array:
        fits = _native.fits_perturbed(along)
        native = partial(
            _native.perturbed_slope,
            kind=self.kind,
            by_solutions=self.by_solutions,
            by_scores=self.by_scores,
        )
        given = (along, streams, col4row, reference)
        native = native if fits else None
        return by_platform(self._by_steps, *given, cpu=native, cuda=native)

    def _by_steps(self, along: Array, streams: Array, col4row: Array, reference: Array) -> Array:
        """Some samples after others, as many as have no more noise than `_MOST_NOISE`."""
        (n, m), samples = along.shape[-2:], col4row.shape[-2]
        steps = max(1, min(samples, -(-samples * along.size // _MOST_NOISE)))
        each = -(-samples // steps)

        def step(total: Array, of_step: Any) -> tuple[Array, None]:
            first, columns = of_step
            z = noise_of(later_samples(streams, first), each, n * m, self.kind)
            score = NOISES[self.kind].score(z.reshape(*z.shape[:-1], n, m)).astype(along.dtype)
            chosen = columns[..., None] == last_iota(jnp.int32, m, columns.ndim + 1)
            y = chosen.astype(along.dtype) - reference[..., None, :, :]
            shares = self.by_solutions, self.by_scores
            product = _product(shares, 2, score, y, along[..., None, :, :])
            there = first + lax.iota(jnp.uint32, each) < samples
            return total + jnp.where(there[:, None, None], product, 0).sum(-3), None

        padding = [(0, 0)] * col4row.ndim
        padding[-2] = (0, steps * each - samples)
        columns = jnp.pad(col4row, padding, constant_values=-1)
        columns = columns.reshape(*columns.shape[:-2], steps, each, n)
        firsts = each * lax.iota(jnp.uint32, steps)
        start = along * 0 + reference * 0
        return lax.scan(step, start, (firsts, jnp.moveaxis(columns, -3, 0)))[0]
