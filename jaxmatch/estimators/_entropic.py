"""The entropic rule: entropy-regularised solutions with exact derivatives."""

from __future__ import annotations

import math
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import last_iota, same_rank
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float
from jaxmatch.estimators._base import Estimator, estimator, per_problem, static
from jaxmatch.estimators._oracle import LinearOracle


@estimator
class Entropic(Estimator):
    """The entropy-regularised assignment `argmin_P <C, P> + ε Σ P log P`, the fixed point of
    Sinkhorn's algorithm (Cuturi, *Sinkhorn distances*, NeurIPS 2013). OTT-JAX computes it.

    Forward: a matrix with entries between 0 and 1. It is smooth in the costs and tends to the
    assignment as ε falls. Backward: the exact derivative of this matrix, by implicit
    differentiation. The rule needs no `key`. It works only with
    [`assignment_oracle`][jaxmatch.estimators.assignment_oracle] and requires
    `pip install 'jaxmatch[ott]'`.

    >>> import jax, jax.numpy as jnp, numpy as np, jaxmatch as jm
    >>> rule, cost = jm.estimators.Entropic(0.5), jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> print(np.asarray(jm.assignment_matrix(cost, estimator=rule)).round(3))
    [[0.881 0.119]
     [0.119 0.881]]
    >>> oracle, target = jm.estimators.assignment_oracle(), jnp.eye(2)
    >>> loss = lambda c: jm.losses.fenchel_young_loss(oracle, c, target, estimator=rule).loss
    >>> print(np.asarray(jax.grad(loss)(cost)).round(3))  # the target minus the plan
    [[ 0.119 -0.119]
     [-0.119  0.119]]

    - `strength`: ε > 0, a number or one per problem, in units of the costs.
    - `max_iterations`: the limit on iterations at ε. Before them, up to 150 others cool down to ε.
      Random costs in [0, 1] with 100 rows take 10 at ε = 0.1 and about 500 at ε = 0.001. The number
      depends more on the costs than on the size: of 64 problems with 20 rows, all converge at
      ε = 0.01 and 57 at ε = 0.003.
    - `threshold`: the largest mean error of the column sums of a solved problem. Row sums are exact
      to rounding. float32 reaches about 1e-6.

    In rectangular problems each row or column that may stay unmatched has a slack, for instance
    `s_j = 1 − Σ_i P_ij` if there are more columns than rows. Slack has cost 0, but adds entropy.
    The result is the same as with padding to a square problem: the shorter side sums to one, the
    longer side to at most one. With `may_stay_unmatched` each row sums to one, including its entry
    in the last column. The last column may have any sum, every other column a sum of at most one.
    Forbidden pairs, and pairs that occur in no solution, are exactly 0.

    **Status:** the solution and its gradient are 0 and `value` is NaN if there is no solution,
    costs are invalid, ε is not positive, or the iterations do not converge. To converge, use more
    iterations, a larger ε or a larger threshold.

    **Gradient:** derivatives of all orders, in forward and reverse mode.

    **Time and memory:** one exact solve for initial prices; Sinkhorn iterations with nm
    exponentials each, until the slowest problem of the batch has converged; O(n³ log n) more if
    there are forbidden pairs. A derivative factors a matrix of size min(n, m).
    """

    strength: ArrayLike = 1.0
    max_iterations: int = static(default=2000)
    threshold: ArrayLike = 1e-5

    def __post_init__(self) -> None:
        if isinstance(self.max_iterations, int) and self.max_iterations < 1:
            raise ValueError(f"`max_iterations` must be at least 1, got {self.max_iterations}.")

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _solution(self, oracle, cost)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        return jax.jvp(lambda c: _solution(self, oracle, c), (cost,), (tangent,))

    @unchecked
    @outside_of_jit("cost", whole=False)
    def value(
        self, oracle: LinearOracle, cost: ArrayLike, *, key: Any = None
    ) -> Float[Array, "..."]:
        """The smoothed optimum `min_P <C, P> + ε Σ P log P` of each problem, NaN if it was not
        solved. It is at most the exact optimum.

        Its gradient is `solution`, and its second derivative is the derivative of `solution`.
        """
        rule, prepared, oracle = self._prepare(oracle, cost, key)
        return _value(rule, oracle, prepared)

    def _prepare(
        self, oracle: LinearOracle, cost: ArrayLike, key: Any, state: Any = None
    ) -> tuple[Self, Array, LinearOracle]:
        rule, prepared, oracle = super()._prepare(oracle, cost, key, state)
        if oracle.assignments is None:
            raise ValueError(
                "Entropic needs an oracle of assignments, `assignment_oracle(...)`; for others, "
                "`Perturbed` smooths."
            )
        return rule, prepared, oracle


def _sinkhorn() -> Any:
    try:
        from jaxmatch.estimators import _sinkhorn
    except ModuleNotFoundError as e:
        raise ImportError(
            f"Entropic needs OTT-JAX: pip install 'jaxmatch[ott]' ({e.name!r} is not there)."
        ) from e
    return _sinkhorn


def _solution(rule: Entropic, oracle: LinearOracle, cost: Array) -> Array:
    return _without_slack(oracle, _plan(rule, oracle, cost))


def _without_slack(oracle: LinearOracle, plan: Array) -> Array:
    return plan[..., :-1, :] if oracle.assignments.may_leave else plan[..., :-1, :-1]


def _with_slack(oracle: LinearOracle, x: Array, value: ArrayLike = 0) -> Array:
    columns = 0 if oracle.assignments.may_leave else 1
    widths = [(0, 0)] * (x.ndim - 2) + [(0, 1), (0, columns)]
    return jnp.pad(x, widths, constant_values=value)


# ---------------------------------------------------------------------------------------------
# The plan with slack


@jax.custom_jvp
def _plan(rule: Entropic, oracle: LinearOracle, cost: Array) -> Float[Array, "... n+1 m+1"]:
    """The plan with slack. The last entry is 1 if the problem was solved, or else all are 0."""
    sinkhorn = _sinkhorn()
    *batch, _, _ = cost.shape
    cost, strength = lax.stop_gradient(cost), _strength(rule, oracle, cost)
    sound = (strength > 0) & jnp.isfinite(strength)
    exact = oracle.assignments.solve(oracle.data, cost)
    solved = (exact.status == Status.OPTIMAL)[..., None, None] & sound
    cost, vertex, allowed, excess = _reduced(oracle, cost, exact)
    # The derivative of x log x is log x + 1. Each price absorbs half of the 1. A pair has two
    # prices; slack has only one, so the other half is added to the cost of slack.
    slack = jnp.zeros(cost.shape[-2:], cost.dtype).at[-1, :].set(0.5).at[:, -1].set(0.5)
    scaled, slack = same_rank(cost / jnp.where(sound, strength, 1), slack)
    cost = scaled + slack

    def over_batch(solve: Any, *arrays: Array) -> Any:
        flat = (x.reshape(math.prod(batch), *x.shape[len(batch) :]) for x in arrays)
        found = solve(*flat)
        return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), found)

    forbidden = (solved & allowed & (cost == jnp.inf)).any()
    allowed = allowed & (cost < jnp.inf)
    usable = lax.cond(
        forbidden,
        lambda *x: over_batch(sinkhorn.usable_pairs, *x),
        lambda allowed, _: allowed,
        allowed,
        vertex,
    )
    cost = jnp.where(solved, jnp.where(usable, cost, jnp.inf), 0)
    threshold = jnp.broadcast_to(jnp.asarray(rule.threshold, cost.dtype), batch)
    plan, converged = over_batch(
        lambda *x: sinkhorn.entropic_plans(*x, rule.max_iterations), cost, excess, threshold
    )
    solved = solved & converged[..., None, None]
    return jnp.where(solved, plan.at[..., -1, -1].set(1), 0)


def _strength(rule: Entropic, oracle: LinearOracle, cost: Array) -> Float[Array, "... 1 1"]:
    strength = lax.stop_gradient(per_problem(oracle, rule.strength, cost))
    return jnp.broadcast_to(strength, (*cost.shape[:-2], 1, 1))


def _reduced(
    oracle: LinearOracle, cost: Array, exact: Assignment
) -> tuple[Array, Bool[Array, "..."], Bool[Array, "..."], Array]:
    """Returns the costs with slack, reduced by exact prices; the exact solution with slack, as a
    0-1 matrix; which entries exist; and the number of rows minus the number of columns."""
    row_mask, col_mask = oracle.data
    u, v = exact.row_dual, exact.col_dual
    rows = jnp.broadcast_to(True if row_mask is None else row_mask, u.shape)
    cols = jnp.broadcast_to(True if col_mask is None else col_mask, v.shape)
    excess = rows.sum(-1) - cols.sum(-1)
    padded = _with_slack(oracle, cost.astype(u.dtype))  # prices may have a wider dtype
    reduced = padded - _and_slack(u, 0)[..., None] - _and_slack(v, 0)[..., None, :]

    chosen = jnp.where(rows & (exact.col4row < 0), v.shape[-1], exact.col4row)
    column = last_iota(chosen.dtype, v.shape[-1] + 1, chosen.ndim + 1)
    matched = chosen[..., None] == column
    left = _and_slack(cols & ~matched[..., :-1].any(-2), False)
    vertex = jnp.concatenate([matched, left[..., None, :]], -2)

    may_leave = oracle.assignments.may_leave
    rows = _and_slack(rows, may_leave | (excess < 0)[..., None])
    cols = _and_slack(cols, may_leave | (excess > 0)[..., None])
    allowed = (rows[..., :, None] & cols[..., None, :]).at[..., -1, -1].set(False)
    # Prices are rounded, so reduced costs may be slightly negative, or not 0 at matched pairs.
    reduced = jnp.where(vertex, 0, jnp.maximum(reduced, 0))
    return reduced.astype(cost.dtype), vertex, allowed, excess.astype(cost.dtype)


def _and_slack(x: Array, last: ArrayLike) -> Array:
    last = jnp.broadcast_to(jnp.asarray(last, x.dtype), (*x.shape[:-1], 1))
    return jnp.concatenate([x, last], -1)


@_plan.defjvp
def _plan_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """`dP = P (du_i + dv_j − dC) / ε`, where the price changes du and dv keep all sums of P fixed.

    The formula contains the plan P itself, so that higher derivatives are exact too.
    """
    rule, oracle, cost = primals
    plan = _plan(rule, oracle, cost)
    strength = jnp.where(plan[..., -1:, -1:] > 0, _strength(rule, oracle, cost), 1)
    change = jnp.where(plan > 0, _with_slack(oracle, tangents[2]) / strength, 0)
    product = plan * change
    wide = plan.shape[-2] <= plan.shape[-1]
    by_row, by_col = _prices(plan if wide else plan.mT, product if wide else product.mT)
    prices = by_row[..., :, None] + by_col[..., None, :]
    return plan, plan * ((prices if wide else prices.mT) - change)


def _prices(plan: Array, product: Array) -> tuple[Array, Array]:
    """The price changes of rows and of columns; 0 for slack.

    The linear system has one equation per row, so callers pass the shorter side as rows.
    """
    real, row_slack, col_slack = plan[..., :-1, :-1], plan[..., :-1, -1], plan[..., -1, :-1]
    of_rows, of_cols = product[..., :-1, :].sum(-1), product[..., :, :-1].sum(-2)
    mass = real.sum(-2) + col_slack
    share = real / jnp.where(mass == 0, 1, mass)[..., None, :]
    # Eliminating the column prices leaves the Laplacian of a weighted graph of the rows, plus terms
    # for slack. The diagonal is a sum of positive numbers, so nothing cancels, even if the entries
    # of the plan are almost 0 or 1.
    weight = jnp.einsum("...ij,...kj->...ik", share, real, precision="highest")
    n = weight.shape[-1]
    weight = jnp.where(jnp.eye(n, dtype=bool), 0, weight)
    to_slack = row_slack + jnp.einsum("...ij,...j->...i", share, col_slack, precision="highest")
    # The Laplacian is singular or almost singular: in a connected component, nothing changes if a
    # constant is added to the row prices and subtracted from the column prices. A small diagonal
    # term makes the matrix positive definite.
    absent = (real.sum(-1) == 0).astype(plan.dtype)
    little = (n + 8) * jnp.finfo(plan.dtype).eps + absent
    diagonal = weight.sum(-1) + to_slack + little
    eye = jnp.broadcast_to(jnp.eye(n, dtype=plan.dtype), weight.shape)
    system = eye * diagonal[..., None] - weight
    right = of_rows - jnp.einsum("...ij,...j->...i", share, of_cols, precision="highest")
    by_row = cho_solve(cho_factor(system), right[..., None])[..., 0]
    by_col = of_cols - jnp.einsum("...ij,...i->...j", real, by_row, precision="highest")
    by_col = by_col / jnp.where(mass == 0, 1, mass)
    return _and_slack(by_row, 0), _and_slack(by_col, 0)


# ---------------------------------------------------------------------------------------------
# The value


@jax.custom_jvp
def _value(rule: Entropic, oracle: LinearOracle, cost: Array) -> Float[Array, "..."]:
    plan = _plan(rule, oracle, lax.stop_gradient(cost))
    entropy = (plan * jnp.log(jnp.where(plan > 0, plan, 1))).sum((-2, -1))
    value = oracle.dot(cost, _without_slack(oracle, plan))
    value = value + _strength(rule, oracle, cost)[..., 0, 0] * entropy
    return jnp.where(plan[..., -1, -1] > 0, value, jnp.nan)


@_value.defjvp
def _value_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    rule, oracle, cost = primals
    value = _value(rule, oracle, cost)
    dot = (_solution(rule, oracle, cost) * tangents[2]).sum((-2, -1))
    # `where` blocks NaN cotangents.
    return value, jnp.where(jnp.isnan(value), 0, dot)
