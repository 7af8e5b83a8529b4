"""Rules that solve again at costs moved along the loss's gradient.

These rules are not linear in the tangent. So JAX can differentiate them only in reverse mode;
forward mode is `estimator.jvp`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxmatch._common.arguments import check_name
from jaxmatch._common.registered import registered_tuple
from jaxmatch._common.switches import unchecked
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch.estimators._base import (
    Estimator,
    estimator,
    forbid_second_derivative,
    per_problem,
    static,
)
from jaxmatch.estimators._noise import NOISES, noise_like
from jaxmatch.estimators._oracle import LinearOracle, Solution
from jaxmatch.estimators._sum_of_gamma import sum_of_gamma


def _moved(oracle: LinearOracle, cost: Array, found: Solution, step: Array) -> Solution:
    """The solution for `cost + step`, or `found` if it is as good: ties then give no gradient."""
    moved = oracle.solve(cost + step, found.warm_start)
    return oracle.better(cost + step, found, moved)


def _interpolated_jvp(
    oracle: LinearOracle,
    cost: Array,
    found: Solution,
    strength: Array,
    tangent: Array,
    central: bool,
) -> Array:
    """The difference quotient of the solution between `cost` and `cost + strength * tangent`.

    `found`: the solution at `cost`. With `central` the quotient is between
    `cost - strength * tangent` and `cost + strength * tangent`.
    """
    ahead = _moved(oracle, cost, found, strength * tangent)
    behind, width = found, strength
    if central:
        behind, width = _moved(oracle, cost, found, -strength * tangent), 2 * strength
    solved = found.solved & ahead.solved & behind.solved
    usable = oracle.per_problem(solved) & (width > 0)
    return jnp.where(usable, (ahead.y - behind.y) / jnp.where(width > 0, width, 1), 0)


@estimator
class Blackbox(Estimator):
    """The difference quotient of the solution along the loss's gradient (Vlastelica et al.,
    *Differentiation of blackbox combinatorial solvers*, ICLR 2020).

    Forward: the exact solution y(C). Backward: `(y(C + λd) − y(C)) / λ`, where d is the gradient of
    the loss with respect to the solution. This takes one more solve, which starts from the duals of
    the first. The result is the exact gradient of a piecewise affine interpolation of the loss.
    Choose a large λ, about the size of the costs divided by the size of d.

    - `strength`: λ, a number or one per problem.
    - `central`: use `(y(C + λd) − y(C − λd)) / 2λ`, which takes two more solves.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, cost = jm.estimators.Blackbox(4.0), jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> jax.grad(lambda c: jm.assignment_matrix(c, estimator=rule)[0, 0])(cost)
    Array([[-0.25,  0.25],
           [ 0.25, -0.25]], dtype=float32)

    The rule is not linear in d. It supports reverse mode, and forward mode by
    [`jvp`][jaxmatch.estimators.Estimator.jvp].
    """

    strength: ArrayLike = 1.0
    central: bool = static(default=False)

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _blackbox(self, oracle, cost)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        found = oracle.solve(cost)
        strength = per_problem(oracle, self.strength, cost)
        return found.y, _interpolated_jvp(oracle, cost, found, strength, tangent, self.central)


@jax.custom_vjp
def _blackbox(rule: Blackbox, oracle: LinearOracle, cost: Array) -> Array:
    return oracle.solve(cost).y


def _blackbox_forward(rule: Blackbox, oracle: LinearOracle, cost: Array) -> tuple[Array, Any]:
    found = oracle.solve(cost)
    return found.y, (rule, oracle, cost, found)


@unchecked
def _blackbox_backward(residuals: Any, d: Array) -> tuple[None, None, Array]:
    rule, oracle, cost, found = residuals
    cost, d = forbid_second_derivative(cost), forbid_second_derivative(d)
    strength = per_problem(oracle, rule.strength, cost)
    return None, None, _interpolated_jvp(oracle, cost, found, strength, d, rule.central)


_blackbox.defvjp(_blackbox_forward, _blackbox_backward)


# ---------------------------------------------------------------------------------------------
# Implicit maximum likelihood


@estimator
class ImplicitMLE(Estimator):
    """Difference quotients of perturbed solutions (Niepert, Minervini and Franceschi, *Implicit
    MLE*, NeurIPS 2021).

    Forward: the mean of `y(C + σε)` over samples of the noise ε. Backward: the mean of
    `(y(C + σε + λd) − y(C + σε)) / λ` over the same samples.

    - `strength`: λ, the step along the loss's gradient d.
    - `noise_strength`: σ, the factor of the noise.
    - `num_samples`: the number of samples.
    - `noise`: `"sum_of_gamma"`, the noise of the paper, with the parameter `kappa` and ten terms;
      `"gumbel"`; or `"normal"`. The first two are negated: the paper adds them to scores, which are
      negated costs.
    - `central`: use central differences, with a step in each direction.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule, key = jm.estimators.ImplicitMLE(4.0, num_samples=100), jax.random.key(0)
    >>> cost = jnp.array([[1.0, 2.0], [1.5, 1.0]])
    >>> jax.grad(lambda c: jm.assignment_matrix(c, estimator=rule, key=key)[0, 0])(cost)[0, 0] < 0
    Array(True, dtype=bool)

    The rule is not linear in d. It supports reverse mode, and forward mode by
    [`jvp`][jaxmatch.estimators.Estimator.jvp].
    """

    strength: ArrayLike = 10.0
    noise_strength: ArrayLike = 1.0
    num_samples: int = static(default=1)
    noise: Literal["sum_of_gamma", "gumbel", "normal"] = static(default="sum_of_gamma")
    kappa: float = static(default=5.0)
    central: bool = static(default=False)

    needs_key = True

    def __post_init__(self) -> None:
        check_name("noise", self.noise, ["sum_of_gamma", *NOISES])
        if isinstance(self.num_samples, int) and self.num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {self.num_samples}.")

    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        return _implicit(self, oracle, cost, key, state)

    def _jvp(self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any) -> Any:
        y, residuals = _implicit_forward(self, oracle, cost, key, state)
        return y, _implicit_jvp(residuals, tangent)

    def _step(self, oracle: LinearOracle, cost: Array, tangent: Array, state: Any) -> Array:
        del tangent, state
        return per_problem(oracle, self.strength, cost)

    def _noisy(self, oracle: LinearOracle, cost: Array, key: Any) -> Array:
        """The noisy costs of each sample. The backward pass draws the noise again."""

        def negative(u: Array) -> Array:  # negated, like Gumbel noise
            return -sum_of_gamma(u, self.kappa)

        kind = negative if self.noise == "sum_of_gamma" else self.noise
        noise = noise_like(key, self.num_samples, cost, oracle.core_dims, kind)
        strength = jnp.broadcast_to(per_problem(oracle, self.noise_strength, cost), cost.shape)
        return cost[None] + strength[None] * noise


@jax.custom_vjp
def _implicit(rule: Any, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
    return _implicit_forward(rule, oracle, cost, key, state)[0]


def _implicit_forward(
    rule: Any, oracle: LinearOracle, cost: Array, key: Any, state: Any
) -> tuple[Array, Any]:
    found = jax.vmap(oracle.solve)(rule._noisy(oracle, cost, key))
    solved = oracle.per_problem(found.solved.all(0))
    return jnp.where(solved, found.y, 0).mean(0), (rule, oracle, cost, key, state, found)


def _implicit_jvp(residuals: Any, tangent: Array) -> Array:
    rule, oracle, cost, key, state, found = residuals
    step = rule._step(oracle, cost, tangent, state)

    def jvp(cost: Array, found: Solution) -> Array:
        return _interpolated_jvp(oracle, cost, found, step, tangent, rule.central)

    dots = jax.vmap(jvp)(rule._noisy(oracle, cost, key), found)
    return jnp.where(oracle.per_problem(found.solved.all(0)), dots, 0).mean(0)


@unchecked
def _implicit_backward(residuals: Any, d: Array) -> tuple[None, None, Array, None, None]:
    rule, oracle, cost, key, state, found = residuals
    cost, d = forbid_second_derivative(cost), forbid_second_derivative(d)
    dot = _implicit_jvp((rule, oracle, cost, key, state, found), d)
    return None, None, dot, None, None


_implicit.defvjp(_implicit_forward, _implicit_backward)


@registered_tuple
class AdaptiveState(NamedTuple):
    """The state of [`AdaptiveImplicitMLE`][jaxmatch.estimators.AdaptiveImplicitMLE].

    `alpha` scales the step. `density` is a running mean of the number of non-zero entries in the
    gradient of a problem.
    """

    alpha: Float[Array, ""]
    density: Float[Array, ""]


@estimator
class AdaptiveImplicitMLE(ImplicitMLE):
    """Implicit MLE with a step size adapted to the density of the gradients (Minervini, Franceschi
    and Niepert, *Adaptive perturbation-based gradient estimation*, AAAI 2023).

    The step is `α|C| / |d|`. α is part of an explicit state, for use in `jit` and `scan`:

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> rule = jm.estimators.AdaptiveImplicitMLE(num_samples=3)
    >>> state = rule.init()
    >>> cost, key = jnp.array([[4.0, 1.0], [2.0, 0.5]]), jax.random.key(0)
    >>> def loss(cost, state):
    ...     y = jm.assignment_matrix(cost, estimator=rule, key=key, state=state)
    ...     return (y * jnp.array([[1.0, 0.0], [0.0, 1.0]])).sum()
    >>> gradient = jax.grad(loss)(cost, state)
    >>> state = rule.update(state, gradient)

    - `update_step`: what `update` adds to α if `AdaptiveState.density` is below `target`, and
      otherwise subtracts from α.
    - `decay`: the decay of `AdaptiveState.density`, a running mean.
    - `target`: the wanted number of non-zero entries in the gradient of a problem.
    - All other fields: as in [`ImplicitMLE`][jaxmatch.estimators.ImplicitMLE], but `strength` is
      ignored.
    """

    update_step: float = static(default=1e-3)
    decay: float = static(default=0.9)
    target: float = static(default=1.0)

    def init(self, alpha: float = 0.0) -> AdaptiveState:
        """The initial state. With α = 0 the first gradient is 0."""
        return AdaptiveState(jnp.float32(alpha), jnp.float32(1.0))

    @unchecked
    def update(self, state: AdaptiveState, cost_gradient: Array, core_dims: int = 2) -> Any:
        """The next state, from the gradient with respect to the costs `[..., *problem]`.

        `core_dims`: the number of trailing dimensions that form one problem: 2 for assignments, 1
        for cuts.
        """
        batch = cost_gradient.shape[: cost_gradient.ndim - core_dims]
        problems = math.prod(batch) if is_symbolic(batch) else max(1, math.prod(batch))
        count = jnp.count_nonzero(cost_gradient) / problems
        density = self.decay * state.density + (1 - self.decay) * count
        up = jnp.where(density < self.target, self.update_step, -self.update_step)
        return AdaptiveState(jnp.maximum(state.alpha + up, 0), density.astype(jnp.float32))

    def _step(self, oracle: LinearOracle, cost: Array, tangent: Array, state: Any) -> Array:
        finite = jnp.where(jnp.isfinite(cost), cost, 0)
        length, tangent_length = (
            jnp.sqrt((x**2).sum(oracle.axes, keepdims=True)) for x in (finite, tangent)
        )
        alpha = jnp.asarray(state.alpha, cost.dtype)
        usable = tangent_length > 0
        return jnp.where(usable, alpha * length / jnp.where(usable, tangent_length, 1), 0)

    def _prepare(self, oracle: LinearOracle, cost: Any, key: Any, state: Any = None) -> Any:
        _check_state(state)
        return super()._prepare(oracle, cost, key, state)


def _check_state(state: Any) -> None:
    if not isinstance(state, AdaptiveState):
        raise ValueError(
            "AdaptiveImplicitMLE needs `state`: begin with `estimator.init()`, and go on with "
            f"`estimator.update(state, cost_gradient)`; got {type(state).__name__}."
        )
