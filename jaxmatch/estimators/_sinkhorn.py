"""Entropic plans by OTT-JAX's Sinkhorn iterations. The only file that imports `ott`.

A problem is a matrix `[n + 1, m + 1]` with slack: the last column holds what leaves a row, the last
row what leaves a column, so that rows and columns sum to one and the slack to what it will.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from ott.geometry import geometry
from ott.problems.linear import linear_problem
from ott.solvers.linear import acceleration, sinkhorn

from jaxmatch._common.switches import compiled


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float


_COOLING = 0.9
_COOLING_STEPS = 150  # from 0.9^-150 = 7e6 times the strength
_COOLED = 0.01  # mean error of a column where cooling may end
_STEPS_PER_CHECK = 10


@compiled()
@jax.vmap
def usable_pairs(allowed: Bool[Array, "b n+1 m+1"], vertex: Array) -> Bool[Array, "b n+1 m+1"]:
    """The allowed entries that some solution holds, given one, `vertex`: those on a cycle that
    alternates between them and the solution's.

    The others are 0 in every plan. Potentials would have to be infinite there, and Sinkhorn
    iterations would take for ever to get nearer (Sinkhorn and Knopp, Pacific J. Math. 21, 1967:
    total support).
    """
    # What leaves a row and what leaves a column meet in the corner.
    allowed, vertex = (x.at[-1, -1].set(True).astype(jnp.float32) for x in (allowed, vertex))

    def product(x: Array, y: Array) -> Array:
        return (jnp.matmul(x, y, precision="highest") > 0).astype(jnp.float32)

    # reach[i, k]: row i may take the place that row k has in the solution, and so on.
    reach = jnp.maximum(product(allowed, vertex.T), jnp.eye(len(allowed), dtype=jnp.float32))
    for _ in range(max(1, math.ceil(math.log2(len(allowed))))):
        reach = product(reach, reach)
    return (allowed * product(reach.T, vertex) > 0).at[-1, -1].set(False)


@compiled(static_argnums=3)
def entropic_plans(
    cost: Float[Array, "b n+1 m+1"], excess: Array, threshold: Array, max_iterations: int
) -> tuple[Float[Array, "b n+1 m+1"], Bool[Array, " b"]]:
    """The plan x of least `<cost, x> + <x, log x>`, and whether the mean error of a column is below
    `threshold`. Rows have none.

    `cost`: of strength 1, +inf for what is 0 in every plan; reduced by exact prices, so that none
    is less than 0. `excess`: how many more rows there are than columns.

    Exact prices are at the edge of those that are nearly optimal, and iterations leave an edge
    slowly. So the first ones begin with a large strength, which keeps prices in the middle, and
    cool down. The second ones see costs reduced by these prices, so that they round only what is
    left.
    """
    # OTT-JAX promotes.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return jax.vmap(partial(_plan, max_iterations))(cost, excess, threshold)


def _plan(
    max_iterations: int, cost: Array, excess: Array, threshold: Array
) -> tuple[Array, Bool[Array, ""]]:
    finite = jnp.where(jnp.isfinite(cost), cost, 0)
    excess = excess + 0 * finite.max()  # inside of `shard_map` all is to vary as the costs do
    warm = _WithSlack(cost, finite.max(), excess)
    columns = jnp.maximum(warm.exists(0).sum(), 1)
    f, g = _iterate(warm, _COOLED * columns, _COOLING_STEPS).potentials
    cool = _WithSlack(cost - f[:, None] - g[None], jnp.ones_like(warm.heat), excess)
    found = _iterate(cool, threshold * columns, max_iterations, _COOLING_STEPS)
    plan = cool.plan(*found.potentials)
    return plan, found.converged & jnp.isfinite(plan).all()


def _iterate(geom: _WithSlack, threshold: Any, steps: int, relax_from: int = 0) -> Any:
    """With steps that reach further after `relax_from`, if that is not 0."""
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
    """With one type in all branches and steps, inside of `shard_map` and where 64 bits are on."""

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
    """Overrelaxation after `start` iterations, by how much the last ones helped (Lehmann et al.,
    Optimization Letters 16, 2022)."""

    def weight(self, state: Any, iteration: Any) -> Any:
        if self.start == 0:
            return 1
        return jnp.where(iteration >= self.start, self.lehmann(state), 1)


@jax.tree_util.register_pytree_node_class
class _WithSlack(geometry.Geometry):
    """Costs of strength 1 whose last row and column are slack, which is as large as it will.

    There is no price for slack: the potentials of its row and column are opposite numbers. Which
    ones does not matter in the end, as they may be added to all other potentials; but the right
    ones on the way, those for which rows and columns have the same sum, are found at once.
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
        """Columns (axis 0) or rows whose sum is one."""
        return jnp.isfinite(self.cost_matrix).any(axis).at[-1].set(False)

    def plan(self, f: Array, g: Array) -> Float[Array, "n+1 m+1"]:
        """With rows that sum to one."""
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
        # The same of f less its mean: what may be added to f and taken from g stays small.
        mean = f[:-1].sum() / jnp.maximum(self.exists(1).sum(), 1)
        new = jnp.where(self.exists(0), new + mean, 0)
        return new.at[-1].set(heat * self._balance((f - mean) / heat, new / heat, heat))

    def marginal_from_potentials(self, f: Array, g: Array, axis: int = 0) -> Array:
        """What the iterations' error is made of: of the plan, and 1 where any sum is right. While
        they cool, f counts too, which is wrong as long as it is hot."""
        plan = jnp.where(self.heat > 1, jnp.exp(self._center(f, g)), self.plan(f, g))
        return jnp.where(self.exists(axis), plan.sum(axis), 1)

    def _balance(self, f: Array, g: Array, heat: Array) -> Array:
        """The x for which what leaves rows, R exp(x), less what leaves columns, C exp(-x), is the
        excess of rows; in logarithms, as R and C may be very small."""
        cost = self.cost_matrix / heat
        rows = jax.scipy.special.logsumexp(f[:-1] - cost[:-1, -1])
        cols = jax.scipy.special.logsumexp(g[:-1] - cost[-1, :-1])
        excess = jnp.log(jnp.abs(self.excess))
        root = jnp.logaddexp(2 * excess, math.log(4) + rows + cols) / 2
        larger = jnp.logaddexp(excess, root) - math.log(2)
        x = jnp.where(self.excess >= 0, larger - rows, cols - larger)
        return jnp.where(jnp.isfinite(x), x, 0)
