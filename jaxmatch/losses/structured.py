"""Decision-focused losses: the quality of decisions that a solver makes with predicted costs.

The problems are `min_y <cost, y>` over a finite set, given by a
[`LinearOracle`][jaxmatch.estimators.LinearOracle]. In the formulas

- C are the true costs, and Ĉ the predicted costs;
- y(C) is the solution for costs C, and z(C) = <C, y(C)> is the optimum;
- `<·, y>` stands for the whole objective of an oracle, with additional terms such as the smoothness
  of `labelling_oracle` (the cost of different labels at neighbouring cells).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.given import is_of_kind
from jaxmatch._common.registered import registered
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int
from jaxmatch.estimators._base import Estimator, loss_dtype, per_problem, prepare
from jaxmatch.estimators._oracle import LinearOracle, Solution
from jaxmatch.losses._structured import StructuredLoss as StructuredLoss
from jaxmatch.losses._structured import (
    counted,
    difference,
    extra_objective,
    objective,
    over_allowed,
    piecewise_linear,
)


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Regret:
    """The result of [`regret`][jaxmatch.losses.regret]; `...` are batch dimensions.

    - `regret`: `f[...]`, the regret of each problem, at least 0; 0 if it was left out.
    - `optimum`: `f[...]`, z(C), the cost of the best decision; 0 if the problem was left out.
    - `used`: `bool[...]`, False for a problem that was left out.
    - `num_unsolved`: `i32[]`, the number of problems left out.
    """

    regret: Float[Array, "..."]
    optimum: Float[Array, "..."]
    used: Bool[Array, "..."]
    num_unsolved: Int[Array, ""]


@unchecked
@outside_of_jit("cost", "target", whole=False)
def fenchel_young_loss(
    oracle: LinearOracle, cost: ArrayLike, target: ArrayLike, *, estimator: Any, key: Any = None
) -> StructuredLoss:
    """The cost of the target minus the smoothed optimum: `<Ĉ, y*> − z_σ(Ĉ)`.

    It needs target solutions, but no true costs, and is convex in the costs. Its gradient is the
    target minus the smoothed solution, `y* − y_σ(Ĉ)`, from the same samples as the value.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> oracle = jm.estimators.assignment_oracle()
    >>> cost, target = jnp.array([[4.0, 0.0], [0.0, 4.0]]), jnp.eye(2)
    >>> def loss(cost):
    ...     rule = jm.estimators.Perturbed(0.5, num_samples=4)
    ...     return jm.losses.fenchel_young_loss(
    ...         oracle, cost, target, estimator=rule, key=jax.random.key(0)
    ...     ).loss
    >>> jax.grad(loss)(cost)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)

    **Arguments:**

    - `oracle`: solves the problem.
    - `cost`: `[..., *problem]`, the predicted costs Ĉ; +inf forbids an entry.
    - `target`: `[..., *problem]`, the wanted solution y*, or a mean of several. No gradient flows
      to it. For a mean, the smoothness term of `labelling_oracle` is computed from labels rounded
      to 0 or 1. So the loss is off by a constant and may be negative, but its gradient is correct.
    - `estimator`: has a smoothed `value`: [`Perturbed`][jaxmatch.estimators.Perturbed] or, for
      assignments, [`Entropic`][jaxmatch.estimators.Entropic].
    - `key`: a `jax.random` key, if the estimator draws noise.

    **Returns:** a [`StructuredLoss`][jaxmatch.losses.StructuredLoss], in float32 for 16-bit floats
    and integers. The loss omits a constant, the convex conjugate of −z_σ at −y*. With noise of mean
    0 its expectation is at least 0, but with few samples it may be negative. With `Entropic` and a
    solution as target, the constant is 0 and the loss is at least 0, up to `threshold`.

    **Status:** if a solve fails, or the target is not finite or contains a forbidden entry, loss
    and gradient are 0, and `num_unsolved` counts the problem.

    **Gradient:** forward and reverse mode; the Hessian is minus that of `estimator.value`.

    **Time and memory:** the solves of one `estimator.value`; the gradient needs no further solve.

    **Raises:** `TypeError` if `oracle` or `estimator` has another type, `ValueError` for shapes
    that do not fit.

    **Source:** Berthet et al., *Learning with differentiable perturbed optimizers*, NeurIPS 2020;
    Blondel, Martins and Niculae, *Learning with Fenchel-Young losses*, JMLR 21 (2020).
    """
    if not callable(getattr(estimator, "value", None)):
        raise TypeError(
            f"`estimator` must have a smoothed `value`, got {type(estimator).__name__}; "
            "`jaxmatch.estimators.Perturbed()` has one."
        )
    dtype = loss_dtype(cost, target)
    converted, (cost, target) = prepare(oracle, cost=cost, target=target)
    target = lax.stop_gradient(target)
    sound = jnp.isfinite(target).all(converted.axes)
    target = jnp.where(converted.per_problem(sound), target, 0)
    smoothed = estimator.value(oracle, cost, key=key)
    loss = objective(converted, cost, target) - smoothed.astype(cost.dtype)
    return counted(jnp.where(sound, loss, jnp.nan).astype(dtype))


@unchecked
@outside_of_jit("cost", "true_cost", "true_solution", whole=False)
def spo_plus_loss(
    oracle: LinearOracle,
    cost: ArrayLike,
    true_cost: ArrayLike,
    *,
    true_solution: ArrayLike | None = None,
) -> StructuredLoss:
    """The SPO+ loss ("smart predict, then optimize"), a convex upper bound on the regret.

    The loss is `−z(2Ĉ − C) + 2<Ĉ, y(C)> − z(C)`, with the subgradient `2 (y(C) − y(2Ĉ − C))`. It is
    at least the [`regret`][jaxmatch.losses.regret], convex in Ĉ, and 0 for Ĉ = C.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> oracle = jm.estimators.assignment_oracle()
    >>> true_cost = jnp.array([[0.0, 2.0], [2.0, 0.0]])
    >>> loss = lambda cost: jm.losses.spo_plus_loss(oracle, cost, true_cost).loss
    >>> float(loss(jnp.ones((2, 2)))), float(loss(true_cost))
    (4.0, 0.0)
    >>> jax.grad(loss)(jnp.ones((2, 2)))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float32)

    **Arguments:**

    - `oracle`: solves the problem, for costs of either sign. `cut_oracle` replaces negative costs
      by 0, and then the loss is not a bound.
    - `cost`: `[..., *problem]`, the predicted costs Ĉ.
    - `true_cost`: `[..., *problem]`, the true costs C. No gradient flows to it.
    - `true_solution`: `[..., *problem]`, the solution y(C). It saves a solve.

    An entry that is +inf in one of the two costs is forbidden in both.

    **Returns:** a [`StructuredLoss`][jaxmatch.losses.StructuredLoss] in the dtype of the costs,
    float32 for 16-bit floats and integers.

    **Status:** if a solve fails, or the given solution is not finite or contains a forbidden entry,
    loss and gradient are 0, and `num_unsolved` counts the problem.

    **Gradient:** forward and reverse mode; a second derivative is an error.

    **Time and memory:** two solves, the second with a warm start from the first; one solve if
    `true_solution` is given. The gradient needs no further solve. Equal costs give equal
    solutions, even if several are optimal.

    **Raises:** `TypeError` if `oracle` has another type, `ValueError` for shapes that do not fit.

    **Source:** Elmachtoub and Grigas, *Smart "predict, then optimize"*, Management Science 68
    (2022).
    """
    given = (cost, true_cost) if true_solution is None else (cost, true_cost, true_solution)
    dtype = loss_dtype(*given)
    if true_solution is None:
        oracle, (cost, true_cost) = prepare(oracle, cost=cost, true_cost=true_cost)
        best = oracle.solve(over_allowed(true_cost, cost))
    else:
        oracle, (cost, true_cost, y) = prepare(
            oracle, cost=cost, true_cost=true_cost, true_solution=true_solution
        )
        sound = jnp.isfinite(y).all(oracle.axes)
        best = Solution(jnp.where(oracle.per_problem(sound), y, 0), sound)
    best, true_cost = lax.stop_gradient((best, true_cost))
    return counted(piecewise_linear(_spo_plus, oracle, cost, (true_cost, best)).astype(dtype))


def _spo_plus(
    oracle: LinearOracle, cost: Array, true_cost: Array, best: Solution
) -> tuple[Array, Array]:
    reflected = over_allowed(2 * cost - true_cost, cost, true_cost)
    found = oracle.solve(reflected, best.warm_start)
    # In the documented formula, 2<Ĉ, y(C)> − z(C) is <2Ĉ − C, y(C)>.
    loss = difference(oracle, reflected, best.y, found.y)
    return jnp.where(best.solved & found.solved, loss, jnp.nan), 2 * (best.y - found.y)


@unchecked
@outside_of_jit("cost", "true_cost", "strength", whole=False)
def perturbation_gradient_loss(
    oracle: LinearOracle,
    cost: ArrayLike,
    true_cost: ArrayLike,
    *,
    strength: ArrayLike,
    central: bool = False,
) -> StructuredLoss:
    """The difference quotient of the optimum along the true costs: a continuous decision cost.

    The loss is `(z(Ĉ) − z(Ĉ − σC)) / σ`, with the gradient `(y(Ĉ) − y(Ĉ − σC)) / σ`. With a smaller
    σ the loss is smaller. For σ → 0 it tends to `<C, y(Ĉ)>`, the true cost of the decision, without
    the smoothness term of `labelling_oracle`. The loss is not convex.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> oracle = jm.estimators.assignment_oracle()
    >>> cost, true_cost = jnp.array([[1.0, 0.9], [0.9, 1.0]]), jnp.array([[2.0, 0.0], [0.0, 2.0]])
    >>> def loss(cost):
    ...     return jm.losses.perturbation_gradient_loss(oracle, cost, true_cost, strength=0.5).loss
    >>> f"{loss(cost):.2f}", f"{loss(cost + jnp.eye(2)):.2f}"  # right by little, and by more
    ('3.60', '0.00')
    >>> jax.grad(loss)(cost)
    Array([[-2.,  2.],
           [ 2., -2.]], dtype=float32)

    **Arguments:**

    - `oracle`: solves the problem, for costs of either sign.
    - `cost`: `[..., *problem]`, the predicted costs Ĉ.
    - `true_cost`: `[..., *problem]`, the true costs C. No gradient flows to it.
    - `strength`: σ > 0, a number or one per problem; may be traced. No gradient flows to it.
    - `central`: use `(z(Ĉ + σC) − z(Ĉ − σC)) / 2σ` and its gradient instead. This is closer to the
      decision cost, but not an upper bound on it.

    An entry that is +inf in one of the two costs is forbidden in both.

    **Returns:** a [`StructuredLoss`][jaxmatch.losses.StructuredLoss] in the dtype of the costs,
    float32 for 16-bit floats and integers.

    **Status:** if a solve fails or σ is not positive, loss and gradient are 0, and `num_unsolved`
    counts the problem.

    **Gradient:** forward and reverse mode; a second derivative is an error.

    **Time and memory:** two solves, the second with a warm start from the first. The gradient needs
    no further solve. If the first solution is also optimal in the second solve, the gradient is 0.

    **Raises:** `TypeError` if `oracle` has another type, `ValueError` for shapes that do not fit.

    **Source:** Gupta and Huang, *Decision-focused learning with directional gradients*, NeurIPS
    2024.
    """
    dtype = loss_dtype(cost, true_cost)
    oracle, (cost, true_cost) = prepare(oracle, cost=cost, true_cost=true_cost)
    batch, sigma = cost.shape[: cost.ndim - oracle.core_dims], jnp.asarray(strength, cost.dtype)
    if sigma.shape != () and sigma.shape != batch:
        raise ValueError(
            f"`strength` must be a number or one for each problem {batch}, got {sigma.shape}."
        )
    rest = lax.stop_gradient((true_cost, jnp.broadcast_to(sigma, batch)))
    rule = _central_difference if central else _backward_difference
    return counted(piecewise_linear(rule, oracle, cost, rest).astype(dtype))


def _backward_difference(
    oracle: LinearOracle, cost: Array, true_cost: Array, strength: Array
) -> tuple[Array, Array]:
    return _difference(oracle, cost, true_cost, 0 * strength, strength)


def _central_difference(
    oracle: LinearOracle, cost: Array, true_cost: Array, strength: Array
) -> tuple[Array, Array]:
    return _difference(oracle, cost, true_cost, strength, strength)


def _difference(
    oracle: LinearOracle, cost: Array, true_cost: Array, ahead: Array, behind: Array
) -> tuple[Array, Array]:
    """`(z(Ĉ + ahead C) − z(Ĉ − behind C)) / (ahead + behind)` and its derivative."""

    def moved(step: Array) -> Array:
        return over_allowed(cost + per_problem(oracle, step, cost) * true_cost, cost, true_cost)

    first = oracle.solve(moved(ahead))
    last = oracle.solve(moved(-behind), first.warm_start)
    # The second solve may break ties differently. Keep the first solution if it is equally good.
    stays = difference(oracle, moved(-behind), first.y, last.y) <= 0
    y, far = first.y, jnp.where(oracle.per_problem(stays), first.y, last.y)
    width = ahead + behind
    usable = first.solved & last.solved & (width > 0)
    width = jnp.where(width > 0, width, 1)
    gradient = (y - far) / per_problem(oracle, width, cost)
    # The documented formula, expanded so that entries in which the solutions agree drop out instead
    # of cancelling.
    mean = (
        per_problem(oracle, ahead, cost) * y + per_problem(oracle, behind, cost) * far
    ) / per_problem(oracle, width, cost)
    loss = oracle.dot(cost, gradient) + oracle.dot(true_cost, mean)
    loss = loss + (extra_objective(oracle, y) - extra_objective(oracle, far)) / width
    return jnp.where(usable, loss, jnp.nan), gradient


@unchecked
@outside_of_jit("cost", "true_cost", whole=False)
def regret(
    oracle: LinearOracle,
    cost: ArrayLike,
    true_cost: ArrayLike,
    *,
    estimator: Estimator | None = None,
    key: Any = None,
    state: Any = None,
) -> Regret:
    """The true cost of deciding with predicted costs, minus the optimum: `<C, y(Ĉ)> − z(C)`.

    This is the standard measure of decision-focused learning. With an estimator it is a training
    loss with the estimator's gradient. Without an estimator it has no gradient.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> oracle = jm.estimators.assignment_oracle()
    >>> true_cost = jnp.array([[[1.0, 3.0], [3.0, 1.0]], [[1.0, 2.0], [3.0, 5.0]]])
    >>> cost = jnp.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 4.0]]])
    >>> res = jm.losses.regret(oracle, cost, true_cost)
    >>> res.regret.tolist(), res.optimum.tolist()
    ([4.0, 0.0], [2.0, 5.0])
    >>> f"{res.regret.sum() / jnp.abs(res.optimum).sum():.3f}"  # normalised, over a test set
    '0.571'

    **Arguments:**

    - `oracle`: solves the problem.
    - `cost`: `[..., *problem]`, the predicted costs Ĉ.
    - `true_cost`: `[..., *problem]`, the true costs C. No gradient flows to it.
    - `estimator`: one of [`jaxmatch.estimators`][jaxmatch.estimators]. Its solution is used as
      y(Ĉ); some estimators return a mean of several solutions. For a mean, the smoothness term
      of `labelling_oracle` is computed from labels rounded to 0 or 1.
    - `key`, `state`: as in [`Estimator.solution`][jaxmatch.estimators.Estimator.solution].

    An entry that is +inf in one of the two costs is forbidden in both.

    **Returns:** a [`Regret`][jaxmatch.losses.Regret] in the dtype of the costs, float32 for 16-bit
    floats and integers. A regret that is negative by rounding is replaced by 0.

    **Status:** if a solve fails, regret, optimum and gradient are 0, and `num_unsolved` counts the
    problem.

    **Gradient:** the estimator's, with the true costs as cotangent. `Identity("none")` returns
    minus the true costs, even if the decision is optimal. The smoothness term has no gradient.

    **Time and memory:** two solves, and the solves of the estimator. If the estimator returns the
    exact solution, a compiled step needs only two: XLA merges equal native calls.

    **Raises:** `TypeError` if `oracle` or `estimator` has another type; `ValueError` for shapes
    that do not fit, or if an argument of the estimator is missing.

    **Source:** Elmachtoub and Grigas, *Smart "predict, then optimize"*, Management Science 68
    (2022).
    """
    if estimator is not None and not is_of_kind(estimator, Estimator):
        raise TypeError(
            f"`estimator` must be one of jaxmatch.estimators or None, got "
            f"{type(estimator).__name__}."
        )
    dtype = loss_dtype(cost, true_cost)
    converted, (cost, true_cost) = prepare(oracle, cost=cost, true_cost=true_cost)
    true_cost = lax.stop_gradient(true_cost)
    # Entries are forbidden before the estimator is called, so that they get no gradient.
    cost, true_cost = (over_allowed(x, cost, true_cost) for x in (cost, true_cost))
    best, found = converted.solve(true_cost), converted.solve(cost)
    if estimator is None:
        y = found.y
    else:
        y = estimator.solution(oracle, cost, key=key, state=state)
    optimum = objective(converted, true_cost, best.y)
    lost = difference(converted, true_cost, lax.stop_gradient(y), best.y)
    used = best.solved & found.solved & jnp.isfinite(optimum) & jnp.isfinite(lost)
    # The derivative of <C, y> with respect to y is C. `oracle.dot` has derivative 0 where y is 0.
    # So the product is formed here.
    counts = converted.per_problem(used) & jnp.isfinite(true_cost)
    through = jnp.where(counts, true_cost, 0) * (y - lax.stop_gradient(y))
    value = jnp.where(used, jnp.maximum(lost, 0), 0) + through.sum(converted.axes)
    return Regret(
        regret=value.astype(dtype),
        optimum=jnp.where(used, optimum, 0).astype(dtype),
        used=used,
        num_unsolved=(~used).sum(dtype=jnp.int32),
    )
