"""Rules that are linear in the direction, so that one rule serves forward and reverse mode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.switches import unchecked
from jaxmatch.estimators._base import (
    Estimator,
    depending_on,
    estimator,
    once,
    static,
    stretch,
)
from jaxmatch.estimators._noise import NOISES
from jaxmatch.estimators._oracle import LinearOracle
from jaxmatch.estimators._samples import Noisy, slope_of_mean, solve_samples


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Float


# ---------------------------------------------------------------------------------------------
# Identity


def _keep(oracle: LinearOracle, cost: Array, along: Array) -> Array:
    return along


def _double_centering(oracle: LinearOracle, cost: Array, along: Array) -> Array:
    if oracle.project is None:
        raise ValueError(
            "`projection='invariant'` needs an oracle that knows what changes no solution; this "
            "one does not. Use 'none', 'mean', 'norm' or 'std'."
        )
    return oracle.project(oracle.data, along)


def _mean(oracle: LinearOracle, cost: Array, along: Array) -> Array:
    return along - along.mean(oracle.axes, keepdims=True)


def _norm(oracle: LinearOracle, cost: Array, along: Array) -> Array:
    """The derivative of cost / |cost|."""
    cost = jnp.where(jnp.isfinite(cost), cost, 0)
    norm = jnp.sqrt((cost**2).sum(oracle.axes, keepdims=True))
    safe = jnp.where(norm == 0, 1, norm)
    unit = cost / safe
    along = along - unit * (unit * along).sum(oracle.axes, keepdims=True)
    return jnp.where(norm == 0, 0, along / safe)


def _std(oracle: LinearOracle, cost: Array, along: Array) -> Array:
    centered = _mean(oracle, cost, jnp.where(jnp.isfinite(cost), cost, 0))
    return _mean(oracle, cost, _norm(oracle, centered, _mean(oracle, cost, along)))


# The derivative of a map of the costs that changes no solution, along a direction.
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

    Forward the exact solution, no further solve backward: where the loss wants more of an entry,
    its cost falls. `projection` leaves out directions that change no solution: `"invariant"` those
    of the oracle (of an assignment constants along rows and columns), `"mean"` a constant, `"norm"`
    the length, `"std"` both, `"none"` nothing.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, cost = jm.estimators.Identity(), jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> jax.grad(lambda c: jm.assignment_matrix(c, estimator=rule)[0, 1])(cost)
    Array([[ 0.25, -0.25],
           [-0.25,  0.25]], dtype=float32)

    Linear: forward and reverse mode. A second derivative is an error.
    """

    projection: Literal["invariant", "none", "mean", "norm", "std"] = static(default="invariant")

    def __post_init__(self) -> None:
        if self.projection not in PROJECTIONS:
            raise ValueError(
                f"`projection` must be one of {[*PROJECTIONS]}, got {self.projection!r}."
            )

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
    along = tangents[1]
    found = oracle.solve(cost)
    cost = once(cost)
    allowed = jnp.isfinite(cost)  # no solution depends on the rest
    along = PROJECTIONS[projection](oracle, cost, jnp.where(allowed, -along, 0))
    usable = oracle.per_problem(found.solved) & allowed
    return found.y, depending_on(jnp.where(usable, along, 0), cost)


# ---------------------------------------------------------------------------------------------
# Perturbed


@estimator
class Perturbed(Estimator):
    """The mean solution under noise (Berthet et al., *Learning with differentiable perturbed
    optimizers*, NeurIPS 2020).

    Forward `y = E[y(C + σZ)]`, which is smooth in the costs; its Jacobian is estimated from the
    same samples, as `E[y gᵀ] / σ` with g the score of the noise. With Gumbel noise (negative, as
    costs are minimised) a choice of one of several is a softmax of `-cost / strength`.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, key = jm.estimators.Perturbed(0.5, num_samples=1000), jax.random.key(0)
    >>> cost = jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> mean = jm.assignment_matrix(cost, estimator=rule, key=key)
    >>> bool(jnp.abs(mean[0, 0] - 0.933) < 0.03)  # Φ(1.5), as the noise of four costs adds up
    True

    - `strength`: σ, a number or one for each problem. With 0 the solution is exact, and there is no
      gradient.
    - `num_samples`: M. Among ties the choice may depend on it.
    - `noise`: `"normal"` or `"gumbel"`.
    - `control_variate`: what each sample's solution is compared with in the derivative, whose mean
      it does not change: `"others"`, the mean of the other samples (Kool, van Hoof and Welling,
      *Buy 4 REINFORCE samples, get a baseline for free!*, 2019; with one sample none);
      `"solution"`, that without noise, one more solve, for noise that is weak beside the costs; or
      `"none"`.
    - `symmetric`: the Jacobian is symmetric, and so is the mean of its estimate and the transpose,
      which has about half the variance. Not where the loss's gradient is large at what no solution
      holds: without this such entries have no part, with it they are noise.

    The estimate of a derivative is mostly noise beyond a few rows (its variance grows with the
    number of costs and falls with M): the mean itself and its value are not, so prefer
    [`fenchel_young_loss`][jaxmatch.losses.fenchel_young_loss] where solutions to learn from are
    known, and central [`ImplicitMLE`][jaxmatch.estimators.ImplicitMLE] elsewhere.

    One key makes different noise for each problem of a batch, but the same for all problems under
    `vmap`: split it there.

    **Time and memory:** M solves. Assignments of float32 costs take one native call, and one more
    for the derivative: O(n(m + M)) memory a problem, and on a GPU up to half a gigabyte for samples
    that are solved at a time. Others are composed of several steps.

    Linear: forward and reverse mode. A second derivative is an error, but
    [`value`][jaxmatch.estimators.Perturbed.value] has two.
    """

    strength: ArrayLike = 1.0
    num_samples: int = static(default=10)
    noise: Literal["normal", "gumbel"] = static(default="normal")
    control_variate: Literal["others", "solution", "none"] = static(default="others")
    symmetric: bool = static(default=False)

    needs_key = True

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ValueError(f"`noise` must be one of {[*NOISES]}, got {self.noise!r}.")
        if self.control_variate not in ("others", "solution", "none"):
            raise ValueError(
                "`control_variate` must be one of ['others', 'solution', 'none'], got "
                f"{self.control_variate!r}."
            )
        if isinstance(self.num_samples, int) and self.num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {self.num_samples}.")

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _perturbed(self, oracle, cost, key)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        return jax.jvp(lambda c: _perturbed(self, oracle, c, key), (cost,), (tangent,))

    @unchecked
    def value(self, oracle: LinearOracle, cost: ArrayLike, *, key: Any) -> Float[Array, "..."]:
        """The smoothed optimum `E[min_y <C + σZ, y>]` of each problem, NaN where it was not solved.

        Its gradient is `solution`, its second derivative the one of this rule.
        """
        rule, given, oracle = self._take(oracle, cost, key)
        return _perturbed_value(rule, oracle, given, key)

    def _noisy(self, oracle: LinearOracle, cost: Array, key: Any) -> Noisy:
        strength = stretch(oracle, self.strength, cost)
        return Noisy(key, strength, self.num_samples, self.noise, self.symmetric)


@jax.custom_jvp
def _perturbed(rule: Perturbed, oracle: LinearOracle, cost: Array, key: Any) -> Array:
    cost = lax.stop_gradient(cost)
    return solve_samples(oracle, cost, rule._noisy(oracle, cost, key), None).mean


@_perturbed.defjvp
def _perturbed_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    rule, oracle, cost, key = primals
    cost = once(cost)
    noisy = rule._noisy(oracle, cost, key)
    exact = oracle.solve(cost) if rule.control_variate == "solution" else None
    found = solve_samples(oracle, cost, noisy, None if exact is None else exact.start)
    others = rule.control_variate == "others" and rule.num_samples > 1
    baseline = found.mean if others else None if exact is None else exact.y
    # No solution depends on what is forbidden: its noise says nothing, and it has no slope.
    allowed = jnp.isfinite(cost)
    along = jnp.where(allowed, tangents[2], 0)
    slope = jnp.where(allowed, slope_of_mean(oracle, noisy, found, baseline, along), 0)
    # y - (mean of the others) is M / (M - 1) times y - (mean of all).
    return found.mean, slope * (rule.num_samples / (rule.num_samples - 1) if others else 1)


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
    # `where` stops a NaN that a loss sends back.
    return value, jnp.where(jnp.isnan(value), 0, (y * tangents[2]).sum(oracle.axes))
