"""The mean of perturbed solutions, and its derivative by the score of the noise.

Assignments are solved by one native call. It generates the noise on the fly and stores only the
columns of each sample; the call for the derivative generates the same noise again. For other
oracles all solutions are stored.

The Jacobian of the mean is `E[y gᵀ] / σ`, where g is the score of the noise. The Jacobian is
symmetric. So its estimate may be replaced by the mean of the estimate and its transpose, which
`Noisy.symmetric` selects.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.promotion import last_iota
from jaxmatch._common.sharding import over_batch_shards, vary_alike
from jaxmatch._common.status import Status
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float
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


_MOST_NOISE = 2**24  # limit on random numbers in memory at a time; one sample is always allowed


class Noisy(NamedTuple):
    """How each sample perturbs the costs: by `strength` times noise of a `kind`, drawn by `key`."""

    key: Any
    strength: Array  # broadcasts against the costs
    samples: int
    kind: str
    symmetric: bool  # symmetrise the estimate of the Jacobian

    @property
    def shares(self) -> tuple[float, float]:
        """The weights of `y <g, tangent>` and of `g <y, tangent>` in the jvp; g is the score."""
        return (0.5, 0.5) if self.symmetric else (1.0, 0.0)


class Samples(NamedTuple):
    """Statistics of the samples of each problem."""

    mean: Float[Array, "..."]  # mean of the solutions
    value: Float[Array, "..."]  # mean of the optimal values
    solved: Bool[Array, "..."]  # whether all samples were solved
    residuals: Any  # for `jvp_of_mean`


def solve_samples(oracle: LinearOracle, cost: Array, noisy: Noisy, warm_start: Any) -> Samples:
    """Solves all samples.

    `warm_start`: the warm start of the solution without noise, or None. Assignments ignore it.
    """
    if oracle.assignments is not None:
        return _solve_columns(oracle, cost, noisy)
    z = noise_like(noisy.key, noisy.samples, cost, oracle.core_dims, noisy.kind)
    found = jax.vmap(lambda z: oracle.solve(cost + noisy.strength * z, warm_start))(z)
    each = jax.vmap(lambda z, y: oracle.objective(cost + noisy.strength * z, y))(z, found.y)
    solved = found.solved.all(0)
    mean = jnp.where(oracle.per_problem(solved), found.y.mean(0), 0)
    return Samples(mean, each.mean(0), solved, found.y)


def jvp_of_mean(
    oracle: LinearOracle, noisy: Noisy, found: Samples, baseline: Array | None, tangent: Array
) -> Array:
    """The derivative of the mean along a tangent, which is linear in the tangent.

    `baseline`: a control variate that is subtracted from each solution.
    """
    reference = jnp.zeros_like(found.mean) if baseline is None else baseline
    by = _jvp_by_solutions if oracle.assignments is None else _jvp_by_columns
    total = by(oracle, noisy, found.residuals, reference, tangent)
    has_strength = noisy.strength != 0
    usable = oracle.per_problem(found.solved) & has_strength
    strength = jnp.where(has_strength, noisy.strength, 1)
    return jnp.where(usable, total / (noisy.samples * strength), 0)


def _jvp_by_solutions(
    oracle: LinearOracle, noisy: Noisy, y: Array, reference: Array, tangent: Array
) -> Array:
    @jax.checkpoint  # noise is generated again instead of being stored
    def jvp(y: Array, key: Any, tangent: Array) -> Array:
        z = noise_like(key, noisy.samples, tangent, oracle.core_dims, noisy.kind)
        score = NOISES[noisy.kind].score(z)
        apart = y - reference[None]
        return _product(noisy.shares, oracle.core_dims, score, apart, tangent[None]).sum(0)

    return jvp(y, noisy.key, tangent)


def _product(
    shares: tuple[float, float], core_dims: int, score: Array, y: Array, tangent: Array
) -> Array:
    """The sum of `y <score, tangent>` and `score <y, tangent>`, weighted by `shares`."""
    axes = tuple(range(-core_dims, 0))
    total = jnp.zeros_like(y)
    for share, (one, other) in zip(shares, ((y, score), (score, y)), strict=True):
        if share:
            total = total + share * one * (other * tangent).sum(axes, keepdims=True)
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
    """Solves a whole batch in one call, also under `vmap`.

    `problem`: costs, streams, strengths, row mask and column mask.
    """

    def solve(cost: Array, streams: Array, strength: Array, *masks: Any) -> Any:
        native = partial(
            _native.perturbed_assignment,
            samples=samples,
            kind=kind,
            may_leave=assignments.may_leave,
        )
        fits = _native.fits_perturbed(cost)
        cpu, cuda = (partial(native, platform=p) if fits else None for p in ("cpu", "cuda"))
        # The CUDA target needs a known shape: it decides how many samples are in memory at a time.
        cuda = None if is_symbolic(cost.shape) else cuda
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
    """Solves perturbed assignments in pure JAX, for costs or platforms without a native target."""
    n, m = cost.shape[-2:]
    z = noise_of(streams, samples, n * m, kind).astype(cost.dtype)
    noisy = cost[..., None, :, :] + strength[..., None, None, None] * z.reshape(*z.shape[:-1], n, m)
    masks = tuple(None if x is None else x[..., None, :] for x in (row_mask, col_mask))
    found = assignments.solve(masks, noisy)
    pairs = found.col4row[..., None] == last_iota(jnp.int32, m, found.col4row.ndim + 1)
    total = pairs.sum(-3, dtype=jnp.int32).astype(cost.dtype)
    value = found.cost.astype(cost.dtype)
    return _native.PerturbedAssignments(total, found.col4row, value, found.status)


def _jvp_by_columns(
    oracle: LinearOracle, noisy: Noisy, residuals: Any, reference: Array, tangent: Array
) -> Array:
    forward, backward = (_MeanJvp(noisy.kind, *s) for s in (noisy.shares, noisy.shares[::-1]))
    apply = partial(linear_map, forward, backward)
    tangent = vary_alike(tangent, (residuals, reference))
    return over_batch_shards(apply, tangent, *residuals, reference, core_dims=2)


@dataclasses.dataclass(frozen=True)
class _MeanJvp:
    """The sum that `_native.perturbed_jvp` computes, as a linear map of the tangent."""

    kind: str
    by_solutions: float
    by_scores: float

    def __call__(self, tangent: Array, streams: Array, col4row: Array, reference: Array) -> Array:
        fits = _native.fits_perturbed(tangent)
        native = partial(
            _native.perturbed_jvp,
            kind=self.kind,
            by_solutions=self.by_solutions,
            by_scores=self.by_scores,
        )
        native = native if fits else None
        return by_platform(
            self._by_steps, tangent, streams, col4row, reference, cpu=native, cuda=native
        )

    def _by_steps(self, tangent: Array, streams: Array, col4row: Array, reference: Array) -> Array:
        """The sum in pure JAX: scans over groups of samples.

        A group has at most `_MOST_NOISE` random numbers, or one sample.
        """
        (n, m), samples = tangent.shape[-2:], col4row.shape[-2]
        steps = samples  # if the size of the batch is unknown
        if not is_symbolic(tangent.shape):
            steps = max(1, min(samples, -(-samples * tangent.size // _MOST_NOISE)))
        each = -(-samples // steps)

        def step(total: Array, of_step: Any) -> tuple[Array, None]:
            first, columns = of_step
            z = noise_of(later_samples(streams, first), each, n * m, self.kind)
            score = NOISES[self.kind].score(z.reshape(*z.shape[:-1], n, m)).astype(tangent.dtype)
            chosen = columns[..., None] == last_iota(jnp.int32, m, columns.ndim + 1)
            y = chosen.astype(tangent.dtype) - reference[..., None, :, :]
            shares = self.by_solutions, self.by_scores
            product = _product(shares, 2, score, y, tangent[..., None, :, :])
            exists = first + lax.iota(jnp.uint32, each) < samples
            return total + jnp.where(exists[:, None, None], product, 0).sum(-3), None

        padding = [(0, 0)] * col4row.ndim
        padding[-2] = (0, steps * each - samples)
        columns = jnp.pad(col4row, padding, constant_values=-1)
        columns = columns.reshape(*columns.shape[:-2], steps, each, n)
        firsts = each * lax.iota(jnp.uint32, steps)
        zero = tangent * 0 + reference * 0
        return lax.scan(step, zero, (firsts, jnp.moveaxis(columns, -3, 0)))[0]
