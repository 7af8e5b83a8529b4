"""Entropic plans by OTT-JAX's Sinkhorn iterations. The only file that imports `ott`.

A problem is a matrix `[n + 1, m + 1]`. The last column is the slack of rows, the last row that of
columns. Rows and columns sum to one with their slack; the total slack is free.
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
_COOLING_STEPS = 150  # from 0.9^-150 = 7e6 times the strength
_COOLED = 0.01  # cooling may end at this mean error of a column
_STEPS_PER_CHECK = 10


@compiled()
@jax.vmap
def usable_pairs(allowed: Bool[Array, "b n+1 m+1"], vertex: Array) -> Bool[Array, "b n+1 m+1"]:
    """The total support: allowed entries that occur in some solution, i.e. lie on a cycle that
    alternates with the solution `vertex`.

    All other entries are 0 in every plan. Their potentials diverge, and Sinkhorn iterations do not
    converge in finite time (Sinkhorn and Knopp, Pacific J. Math. 21, 1967).
    """
    # The corner joins the slack of rows and of columns.
    allowed, vertex = (x.at[-1, -1].set(True).astype(jnp.float32) for x in (allowed, vertex))

    def product(x: Array, y: Array) -> Array:
        return (jnp.matmul(x, y, precision="highest") > 0).astype(jnp.float32)

    # reach[i, k]: an alternating path leads from row i to the column of row k.
    reach = jnp.maximum(product(allowed, vertex.T), jnp.eye(len(allowed), dtype=jnp.float32))
    for _ in range(max(1, math.ceil(math.log2(len(allowed))))):
        reach = product(reach, reach)
    return (allowed * product(reach.T, vertex) > 0).at[-1, -1].set(False)


@compiled(static_argnums=3)
def entropic_plans(
    cost: Float[Array, "b n+1 m+1"], excess: Array, threshold: Array, max_iterations: int
) -> tuple[Float[Array, "b n+1 m+1"], Bool[Array, " b"]]:
    """The plan x that minimises `<cost, x> + <x, log x>`, and whether it converged.

    Converged: the mean error of the column sums is below `threshold`; row sums are exact. `cost`:
    scaled to strength 1, +inf for pairs that are 0 in every plan, reduced by exact prices so that
    no cost is negative. `excess`: the number of rows minus that of columns.

    Exact prices lie on the boundary of the nearly optimal ones, which Sinkhorn iterations leave
    slowly. So a first run starts at a large strength, where prices are central, and cools down. A
    second run solves costs reduced by these prices, so that only the remainder is rounded.
    """
    # OTT-JAX promotes.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return jax.vmap(partial(_plan, max_iterations))(cost, excess, threshold)


def _plan(
    max_iterations: int, cost: Array, excess: Array, threshold: Array
) -> tuple[Array, Bool[Array, ""]]:
    finite = jnp.where(jnp.isfinite(cost), cost, 0)
    excess = excess + 0 * finite.max()  # gives it the varying axes of the costs in `shard_map`
    warm = _WithSlack(cost, finite.max(), excess)
    columns = jnp.maximum(warm.exists(0).sum(), 1)
    f, g = _iterate(warm, _COOLED * columns, _COOLING_STEPS).potentials
    cool = _WithSlack(cost - f[:, None] - g[None], jnp.ones_like(warm.heat), excess)
    found = _iterate(cool, threshold * columns, max_iterations, _COOLING_STEPS)
    plan = cool.plan(*found.potentials)
    return plan, found.converged & jnp.isfinite(plan).all()


def _iterate(geom: _WithSlack, threshold: Any, steps: int, relax_from: int = 0) -> Any:
    """Sinkhorn iterations, over-relaxed from iteration `relax_from` on if that is not 0."""
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
    """A solver whose carry has one type in all steps, also in `shard_map` and under x64."""

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
    """Costs of strength 1 whose last row and column are free slack.

    Slack has no price: the potentials of its row and column are opposite numbers ±x. Any x is
    allowed in the end, as it can be added to all other potentials. During the iterations x is
    chosen so that the total slack of rows and columns balances, which has a closed form.
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
        """Which columns (axis 0) or rows (axis 1) exist, and so must sum to one."""
        return jnp.isfinite(self.cost_matrix).any(axis).at[-1].set(False)

    def plan(self, f: Array, g: Array) -> Float[Array, "n+1 m+1"]:
        """The plan with exact row sums."""
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
        """The sums from which the error is computed; 1 for slack, whose sum is free.

        During cooling they include the error of f, which has not converged then.
        """
        plan = jnp.where(self.heat > 1, jnp.exp(self._center(f, g)), self.plan(f, g))
        return jnp.where(self.exists(axis), plan.sum(axis), 1)

    def _balance(self, f: Array, g: Array, heat: Array) -> Array:
        """The x for which the slack of rows minus that of columns, R exp(x) − C exp(−x), equals the
        excess of rows. Computed in logarithms, as R and C may be very small."""
        cost = self.cost_matrix / heat
        rows = jax.scipy.special.logsumexp(f[:-1] - cost[:-1, -1])
        cols = jax.scipy.special.logsumexp(g[:-1] - cost[-1, :-1])
        excess = jnp.log(jnp.abs(self.excess))
        root = jnp.logaddexp(2 * excess, math.log(4) + rows + cols) / 2
        larger = jnp.logaddexp(excess, root) - math.log(2)
        x = jnp.where(self.excess >= 0, larger - rows, cols - larger)
        return jnp.where(jnp.isfinite(x), x, 0)
