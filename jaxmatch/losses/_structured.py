"""What the decision-focused losses share: their result, objectives and derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.registered import registered
from jaxmatch._common.typing import Array, Bool, Float, Int
from jaxmatch.estimators._base import forbid_second_derivative
from jaxmatch.estimators._oracle import LinearOracle


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class StructuredLoss:
    """The result of a decision-focused loss; `...` are batch dimensions.

    - `loss`: `f[...]`, the loss of each problem, 0 if it was left out.
    - `used`: `bool[...]`, False for a problem that was left out.
    - `num_unsolved`: `i32[]`, the number of problems left out. Log it during training.
    """

    loss: Float[Array, "..."]
    used: Bool[Array, "..."]
    num_unsolved: Int[Array, ""]


def over_allowed(cost: Array, *others: Array) -> Array:
    """Costs with +inf where any of `others` is +inf.

    Without this, differences of costs would be −inf or NaN there.
    """
    forbidden = partial(jnp.equal, jnp.inf)
    for other in others:
        cost = jnp.where(forbidden(other), jnp.inf, cost)
    return cost


def objective(oracle: LinearOracle, cost: Array, y: Array) -> Float[Array, "..."]:
    """`oracle.objective`, without a gradient to the data of the oracle."""
    return oracle.dot(cost, y) + extra_objective(oracle, y)


def difference(oracle: LinearOracle, cost: Array, y: Array, other: Array) -> Float[Array, "..."]:
    """`objective(y) − objective(other)`, free of cancellation where y and `other` are equal."""
    return oracle.dot(cost, y - other) + (
        extra_objective(oracle, y) - extra_objective(oracle, other)
    )


def extra_objective(oracle: LinearOracle, y: Array) -> Array:
    """The term of the objective besides `<cost, y>`, or 0. It has no gradient."""
    if oracle.extra_objective is None:
        return jnp.zeros((), y.dtype)
    return lax.stop_gradient(oracle.extra_objective(oracle.data, y))


def counted(loss: Array) -> StructuredLoss:
    used = jnp.isfinite(loss)
    return StructuredLoss(
        loss=jnp.where(used, loss, 0),
        used=used,
        num_unsolved=(~used).sum(dtype=jnp.int32),
    )


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def piecewise_linear(
    rule: Callable[..., tuple[Array, Array]], oracle: LinearOracle, cost: Array, rest: Any
) -> Array:
    """The loss that `rule` returns with its gradient, as a differentiable function of the costs.

    NaN if a solve failed.
    """
    return rule(oracle, cost, *rest)[0]


@piecewise_linear.defjvp
def _piecewise_linear_jvp(rule: Any, primals: Any, tangents: Any) -> tuple[Array, Array]:
    oracle, cost, rest = primals
    loss, gradient = rule(oracle, forbid_second_derivative(cost), *rest)
    gradient = jnp.where(oracle.per_problem(jnp.isfinite(loss)), gradient, 0)
    return loss, (gradient * tangents[1]).sum(oracle.axes)
