"""Entropic plans by OTT-JAX's Sinkhorn iterations. No other file imports `ott`.

A problem is a matrix `[n + 1, m + 1]`. The last column is the slack of rows, and the last row is
the slack of columns. These two may have any sum. Every other row and column sums to one, including
its slack.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from ott.geometry import geometry
from ott.problems.linear import linear_problem
from ott.solvers.linear import acceleration, sinkhorn

from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, Bool, Float


_COOLING = 0.9
_COOLING_STEPS = 150  # enough to cool down from 0.9^-150 = 7e6 times the strength
_COOLED = 0.01  # cooling ends early if the mean error of the column sums is below this
_STEPS_PER_CHECK = 10


@compiled()
@jax.vmap
def usable_pairs(allowed: Bool[Array, "b n+1 m+1"], vertex: Array) -> Bool[Array, "b n+1 m+1"]:
    """The total support: the allowed entries that occur in some solution.

    An entry occurs in some solution if it is in the solution `vertex` or on a cycle of allowed
    entries that alternates with `vertex`.

    All other entries are 0 in every plan. With such entries, potentials diverge and Sinkhorn
    iterations do not converge in finite time (Sinkhorn and Knopp, Pacific J. Math. 21, 1967).
    """
    # The corner matches the slack row with the slack column, so that cycles may pass through both.
    allowed, vertex = (x.at[-1, -1].set(True).astype(jnp.float32) for x in (allowed, vertex))

    def product(x: Array, y: Array) -> Array:
        return (jnp.matmul(x, y, precision="highest") > 0).astype(jnp.float32)

    # reach[i, k]: an alternating path leads from row i to the column that `vertex` gives to row k.
    reach = jnp.maximum(product(allowed, vertex.T), jnp.eye(len(allowed), dtype=jnp.float32))
    for _ in range(max(1, math.ceil(math.log2(len(allowed))))):
        reach = product(reach, reach)
    return (allowed * product(reach.T, vertex) > 0).at[-1, -1].set(False)


@compiled(static_argnums=3)
def entropic_plans(
    cost: Float[Array, "b n+1 m+1"], excess: Array, threshold: Array, max_iterations: int
) -> tuple[Float[Array, "b n+1 m+1"], Bool[Array, " b"]]:
    """The plan x that minimises `<cost, x> + <x, log x>`, and whether it converged.

    A plan has converged if the mean error of its column sums is below `threshold`. Its row sums are
    exact.

    - `cost`: scaled to strength 1, and reduced by exact prices so that no cost is negative. +inf
      for pairs that are 0 in every plan.
    - `excess`: the number of rows minus the number of columns.

    Exact prices lie on the boundary of the set of nearly optimal prices, and Sinkhorn iterations
    leave this boundary slowly. So a first run starts at a large strength, where prices are central,
    and cools down. A second run solves the problem with costs reduced by the prices of the first
    run. This keeps the potentials of the second run small, and so its rounding errors.
    """
    # OTT-JAX relies on implicit promotion.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return jax.vmap(partial(_plan, max_iterations))(cost, excess, threshold)


def _plan(
    max_iterations: int, cost: Array, excess: Array, threshold: Array
) -> tuple[Array, Bool[Array, ""]]:
    finite = jnp.where(jnp.isfinite(cost), cost, 0)
    excess = excess + 0 * finite.max()  # in `shard_map`: varies over the same axes as the costs
    warm = _WithSlack(cost, finite.max(), excess)
    columns = jnp.maximum(warm.exists(0).sum(), 1)
    f, g = _iterate(warm, _COOLED * columns, _COOLING_STEPS).potentials
    cool = _WithSlack(cost - f[:, None] - g[None], jnp.ones_like(warm.heat), excess)
    found = _iterate(cool, threshold * columns, max_iterations, _COOLING_STEPS)
    plan = cool.plan(*found.potentials)
    return plan, found.converged & jnp.isfinite(plan).all()


def _iterate(geom: _WithSlack, threshold: Any, steps: int, relax_from: int = 0) -> Any:
    """Runs Sinkhorn iterations.

    They are over-relaxed from iteration `relax_from` on, or never if `relax_from` is 0.
    """
    steps = _STEPS_PER_CHECK * -(-steps // _STEPS_PER_CHECK)
    solver = _Solver(
        threshold=threshold,
        max_iterations=steps,
        inner_iterations=_STEPS_PER_CHECK,
        momentum=acceleration.Momentum(relax_from),
    )
    a, b = (jnp.ones(size, geom.dtype) for size in geom.shape)
    return solver(linear_problem.LinearProblem(geom, a, b))


@jax.tree_util.register_pytree_node_class
class _Solver(sinkhorn.Sinkhorn):
    """A solver whose loop state keeps its type in all steps, also in `shard_map` and under x64."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.momentum = _Momentum(self.momentum.start, inner_iterations=self.inner_iterations)

    def init_state(self, ot_prob: Any, init: Any) -> sinkhorn.SinkhornState:
        state = super().init_state(ot_prob, init)
        return jax.tree.map(lambda x: x + 0 * ot_prob.geom.excess, state)

    def one_iteration(
        self, ot_prob: Any, state: sinkhorn.SinkhornState, iteration: Any, compute_error: Any
    ) -> sinkhorn.SinkhornState:
        state = self.lse_step(ot_prob, state, iteration)
        f, g = state.potentials
        error = lax.cond(
            compute_error,
            lambda: jnp.abs(ot_prob.geom.marginal_from_potentials(f, g) - 1).sum(),
            lambda: jnp.inf + 0 * ot_prob.geom.excess,
        )
        errors: Any = state.errors
        return state.set(errors=errors.at[iteration // self.inner_iterations].set(error))


class _Momentum(acceleration.Momentum):
    """Over-relaxation after `start` iterations, adapted to the convergence rate (Lehmann et al.,
    Optimization Letters 16, 2022)."""

    def weight(self, state: Any, iteration: Any) -> Any:
        if self.start == 0:
            return 1
        return jnp.where(iteration >= self.start, self.lehmann(state), 1)


@jax.tree_util.register_pytree_node_class
class _WithSlack(geometry.Geometry):
    """Costs of strength 1 whose last row and last column are slack of any sum.

    Slack has no price: the potentials of its row and column are opposite numbers −x and x. Any x is
    valid for the final plan. The same plan has potentials with x = 0: they are greater by x for all
    other rows, and smaller by x for all other columns. During the iterations, x is chosen such that
    the total slack of rows and the total slack of columns balance. This x has a closed form.
    """

    def __init__(self, cost_matrix: Array, heat: Array, excess: Array) -> None:
        super().__init__(cost_matrix, epsilon=1.0)
        self.heat, self.excess = heat, excess

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self._cost_matrix, self.heat, self.excess), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> _WithSlack:
        return cls(*children)

    def exists(self, axis: int) -> Bool[Array, " side"]:
        """Which columns (axis 0) or rows (axis 1) exist and must sum to one; False for slack."""
        return jnp.isfinite(self.cost_matrix).any(axis).at[-1].set(False)

    def plan(self, f: Array, g: Array) -> Float[Array, "n+1 m+1"]:
        """The plan for potentials g, after an update of f, which makes the row sums exact."""
        f = self.update_potential(f, g, jnp.zeros_like(f), axis=1)
        return jnp.exp(self._center(f, g))

    def update_potential(
        self, f: Array, g: Array, log_marginal: Array, iteration: Any = None, axis: int = 0
    ) -> Array:
        heat: Any = jnp.ones_like(self.heat)
        if iteration is not None:
            heat = jnp.maximum(self.heat * _COOLING**iteration, 1)
        change = self.apply_lse_kernel(f, g, heat, axis=axis)[0]
        new = jnp.where(self.exists(axis), heat * log_marginal - change, 0)
        if axis == 1:
            return new.at[-1].set(-g[-1])
        # Normalise f to mean 0: adding a constant to f and subtracting it from g changes nothing.
        mean = f[:-1].sum() / jnp.maximum(self.exists(1).sum(), 1)
        new = jnp.where(self.exists(0), new + mean, 0)
        return new.at[-1].set(heat * self._balance((f - mean) / heat, new / heat, heat))

    def marginal_from_potentials(self, f: Array, g: Array, axis: int = 0) -> Array:
        """The column sums (axis 0) or row sums (axis 1) of the plan.

        Slack may have any sum, so it gets 1 (no error). In the cooling run f is not updated before
        the plan is summed, so the sums include the error of f.
        """
        plan = jnp.where(self.heat > 1, jnp.exp(self._center(f, g)), self.plan(f, g))
        return jnp.where(self.exists(axis), plan.sum(axis), 1)

    def _balance(self, f: Array, g: Array, heat: Array) -> Array:
        """The x for which the total slack of rows, R exp(x), minus the total slack of columns,
        C exp(−x), is `excess`. Computed in logarithms, as R and C may be tiny."""
        cost = self.cost_matrix / heat
        rows = jax.scipy.special.logsumexp(f[:-1] - cost[:-1, -1])
        cols = jax.scipy.special.logsumexp(g[:-1] - cost[-1, :-1])
        excess = jnp.log(jnp.abs(self.excess))
        root = jnp.logaddexp(2 * excess, math.log(4) + rows + cols) / 2
        larger = jnp.logaddexp(excess, root) - math.log(2)
        x = jnp.where(self.excess >= 0, larger - rows, cols - larger)
        return jnp.where(jnp.isfinite(x), x, 0)
