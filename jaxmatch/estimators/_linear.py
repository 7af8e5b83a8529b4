"""Rules that are linear in the tangent, for forward and reverse mode."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import check_name
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch.estimators._base import (
    Estimator,
    depending_on,
    estimator,
    forbid_second_derivative,
    per_problem,
    static,
)
from jaxmatch.estimators._noise import NOISES
from jaxmatch.estimators._oracle import LinearOracle
from jaxmatch.estimators._samples import Noisy, jvp_of_mean, solve_samples


# ---------------------------------------------------------------------------------------------
# Identity


def _keep(oracle: LinearOracle, cost: Array, tangent: Array) -> Array:
    return tangent


def _double_centering(oracle: LinearOracle, cost: Array, tangent: Array) -> Array:
    if oracle.project is None:
        raise ValueError(
            "`projection='invariant'` needs an oracle that knows what changes no solution; this "
            "one does not. Use 'none', 'mean', 'norm' or 'std'."
        )
    return oracle.project(oracle.data, tangent)


def _mean(oracle: LinearOracle, cost: Array, tangent: Array) -> Array:
    return tangent - tangent.mean(oracle.axes, keepdims=True)


def _norm(oracle: LinearOracle, cost: Array, tangent: Array) -> Array:
    """The derivative of cost / |cost|."""
    cost = jnp.where(jnp.isfinite(cost), cost, 0)
    norm = jnp.sqrt((cost**2).sum(oracle.axes, keepdims=True))
    safe = jnp.where(norm == 0, 1, norm)
    unit = cost / safe
    tangent = tangent - unit * (unit * tangent).sum(oracle.axes, keepdims=True)
    return jnp.where(norm == 0, 0, tangent / safe)


def _std(oracle: LinearOracle, cost: Array, tangent: Array) -> Array:
    centered = _mean(oracle, cost, jnp.where(jnp.isfinite(cost), cost, 0))
    return _mean(oracle, cost, _norm(oracle, centered, _mean(oracle, cost, tangent)))


# A projection maps costs to costs with the same solutions. The table holds the jvps of these maps.
PROJECTIONS = {
    "invariant": _double_centering,
    "none": _keep,
    "mean": _mean,
    "norm": _norm,
    "std": _std,
}


@estimator
class Identity(Estimator):
    """Minus the identity in place of the Jacobian (Sahoo et al., *Backpropagation through
    combinatorial algorithms: identity with projection works*, ICLR 2023).

    Forward: the exact solution. Backward: minus the gradient of the loss, without another solve. So
    gradient descent lowers the cost of an entry if a larger entry would lower the loss.

    - `projection`: which changes of the costs are removed from the gradient because they change no
      solution. `"invariant"`: all such changes that the oracle knows (for assignments, constants
      added to rows and columns). `"mean"`: a constant added to all costs. `"norm"`: scaling.
      `"std"`: a constant and scaling. `"none"`: nothing is removed.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, cost = jm.estimators.Identity(), jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> jax.grad(lambda c: jm.assignment_matrix(c, estimator=rule)[0, 1])(cost)
    Array([[ 0.25, -0.25],
           [-0.25,  0.25]], dtype=float32)

    The rule is linear: it supports forward and reverse mode. A second derivative is an error.
    """

    projection: Literal["invariant", "none", "mean", "norm", "std"] = static(default="invariant")

    def __post_init__(self) -> None:
        check_name("projection", self.projection, PROJECTIONS)

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _identity(self.projection, oracle, cost)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        return jax.jvp(lambda c: _identity(self.projection, oracle, c), (cost,), (tangent,))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _identity(projection: str, oracle: LinearOracle, cost: Array) -> Array:
    return oracle.solve(cost).y


@_identity.defjvp
def _identity_jvp(projection: str, primals: Any, tangents: Any) -> tuple[Array, Array]:
    oracle, cost = primals
    found = oracle.solve(cost)
    cost = forbid_second_derivative(cost)
    allowed = jnp.isfinite(cost)  # no solution depends on forbidden entries
    dot = PROJECTIONS[projection](oracle, cost, jnp.where(allowed, -tangents[1], 0))
    usable = oracle.per_problem(found.solved) & allowed
    return found.y, depending_on(jnp.where(usable, dot, 0), cost)


# ---------------------------------------------------------------------------------------------
# Perturbed


@estimator
class Perturbed(Estimator):
    """The mean solution under noise (Berthet et al., *Learning with differentiable perturbed
    optimizers*, NeurIPS 2020).

    Forward: `y = E[y(C + σZ)]`, which is smooth in the costs. Its Jacobian is `E[y gᵀ] / σ`, where
    g is the score of the noise; it is estimated from the same samples. With Gumbel noise (negated,
    as costs are minimised) the choice of one entry out of several is a softmax of
    `-cost / strength`.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, key = jm.estimators.Perturbed(0.5, num_samples=1000), jax.random.key(0)
    >>> cost = jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> mean = jm.assignment_matrix(cost, estimator=rule, key=key)
    >>> bool(jnp.abs(mean[0, 0] - 0.933) < 0.03)  # Φ(1.5), as the noise of four costs adds up
    True

    - `strength`: σ, a number or one per problem. With σ = 0 the solution is exact and the gradient
      is 0.
    - `num_samples`: M. Which one of several equally good solutions is found may depend on M.
    - `noise`: `"normal"` or `"gumbel"`.
    - `control_variate`: a baseline that the derivative subtracts from the solution of each sample.
      It reduces the variance and keeps the mean. `"others"`: the mean of the other samples, and no
      baseline for a single sample (Kool, van Hoof and Welling, *Buy 4 REINFORCE samples, get a
      baseline for free!*, 2019). `"solution"`: the solution without noise; it takes one more solve
      and suits noise that is weak compared with the costs. `"none"`: no baseline.
    - `symmetric`: average the estimated Jacobian with its transpose, as the exact Jacobian is
      symmetric. This about halves the variance. Do not use it if the loss's gradient is large at
      entries that no solution contains: with `symmetric`, and only then, these add noise.

    Beyond a few rows the estimated derivative is mostly noise: its variance grows with the number
    of costs and falls with M. The mean solution and `value` are accurate. So prefer
    [`fenchel_young_loss`][jaxmatch.losses.fenchel_young_loss] if target solutions are known, and
    central [`ImplicitMLE`][jaxmatch.estimators.ImplicitMLE] otherwise.

    One key gives different noise to each problem of a batch. Under `vmap`, one key gives the same
    noise to all problems, so split it.

    **Time and memory:** M solves. Assignments of float32 costs take one native call, and one more
    for the derivative, with O(n(m + M)) memory per problem. A GPU solves samples in groups of up to
    half a gigabyte. Other problems are solved by JAX operations.

    The rule is linear: it supports forward and reverse mode. A second derivative is an error, but
    [`value`][jaxmatch.estimators.Perturbed.value] has a second derivative.
    """

    strength: ArrayLike = 1.0
    num_samples: int = static(default=10)
    noise: Literal["normal", "gumbel"] = static(default="normal")
    control_variate: Literal["others", "solution", "none"] = static(default="others")
    symmetric: bool = static(default=False)

    needs_key = True

    def __post_init__(self) -> None:
        check_name("noise", self.noise, NOISES)
        check_name("control_variate", self.control_variate, ["others", "solution", "none"])
        if isinstance(self.num_samples, int) and self.num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {self.num_samples}.")

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _perturbed(self, oracle, cost, key)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        return jax.jvp(lambda c: _perturbed(self, oracle, c, key), (cost,), (tangent,))

    @unchecked
    @outside_of_jit("cost", whole=False)
    def value(self, oracle: LinearOracle, cost: ArrayLike, *, key: Any) -> Float[Array, "..."]:
        """The smoothed optimum `E[min_y <C + σZ, y>]` of each problem, NaN if it was not solved.

        Its gradient is `solution`, and its second derivative is the derivative of `solution`.
        """
        rule, prepared, oracle = self._prepare(oracle, cost, key)
        return _perturbed_value(rule, oracle, prepared, key)

    def _noisy(self, oracle: LinearOracle, cost: Array, key: Any) -> Noisy:
        strength = per_problem(oracle, self.strength, cost)
        return Noisy(key, strength, self.num_samples, self.noise, self.symmetric)


@jax.custom_jvp
def _perturbed(rule: Perturbed, oracle: LinearOracle, cost: Array, key: Any) -> Array:
    cost = lax.stop_gradient(cost)
    return solve_samples(oracle, cost, rule._noisy(oracle, cost, key), None).mean


@_perturbed.defjvp
def _perturbed_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    rule, oracle, cost, key = primals
    cost = forbid_second_derivative(cost)
    noisy = rule._noisy(oracle, cost, key)
    exact = oracle.solve(cost) if rule.control_variate == "solution" else None
    found = solve_samples(oracle, cost, noisy, None if exact is None else exact.warm_start)
    others = rule.control_variate == "others" and rule.num_samples > 1
    baseline = found.mean if others else None if exact is None else exact.y
    # No solution depends on forbidden entries: their derivative is 0, and their noise is ignored.
    allowed = jnp.isfinite(cost)
    tangent = jnp.where(allowed, tangents[2], 0)
    dot = jnp.where(allowed, jvp_of_mean(oracle, noisy, found, baseline, tangent), 0)
    # y - (mean of the other samples) = M / (M - 1) * (y - (mean of all samples)).
    return found.mean, dot * (rule.num_samples / (rule.num_samples - 1) if others else 1)


@jax.custom_jvp
def _perturbed_value(rule: Perturbed, oracle: LinearOracle, cost: Array, key: Any) -> Array:
    cost = lax.stop_gradient(cost)
    found = solve_samples(oracle, cost, rule._noisy(oracle, cost, key), None)
    return jnp.where(found.solved, found.value, jnp.nan)


@_perturbed_value.defjvp
def _perturbed_value_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    rule, oracle, cost, key = primals
    y = _perturbed(rule, oracle, cost, key)
    value = _perturbed_value(rule, oracle, cost, key)
    # `where` blocks NaN cotangents.
    return value, jnp.where(jnp.isnan(value), 0, (y * tangents[2]).sum(oracle.axes))
