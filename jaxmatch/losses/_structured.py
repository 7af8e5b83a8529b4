"""What decision-focused losses share: their result, sums over problems, derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch.estimators._base import once
from jaxmatch.estimators._oracle import LinearOracle


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class StructuredLoss:
    """The result of a decision-focused loss; `...` is batch.

    - `loss`: `f[...]`, of each problem, 0 where it was left out.
    - `used`: `bool[...]`, False where the problem was left out.
    - `num_unsolved`: `i32[]`, how many were left out; worth a line in the training log.
    """

    loss: Float[Array, "..."]
    used: Bool[Array, "..."]
    num_unsolved: Int[Array, ""]


def over_allowed(cost: Array, *others: Array) -> Array:
    """Costs with +inf wherever others have it: without it, steps would lead to −inf or NaN."""
    forbidden = partial(jnp.equal, jnp.inf)
    for other in others:
        cost = jnp.where(forbidden(other), jnp.inf, cost)
    return cost


def objective(oracle: LinearOracle, cost: Array, y: Array) -> Float[Array, "..."]:
    """`oracle.objective`, of which no gradient flows to the oracle's own data."""
    return oracle.dot(cost, y) + beyond(oracle, y)


def difference(oracle: LinearOracle, cost: Array, y: Array, other: Array) -> Float[Array, "..."]:
    """`objective(y) − objective(other)`, in which the costs of what both share do not cancel."""
    return oracle.dot(cost, y - other) + (beyond(oracle, y) - beyond(oracle, other))


def beyond(oracle: LinearOracle, y: Array) -> Array:
    """What the solver minimises beside `<cost, y>`."""
    if oracle.beyond is None:
        return jnp.zeros((), y.dtype)
    return lax.stop_gradient(oracle.beyond(oracle.data, y))


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
    """A loss, NaN where a solve failed, that comes with its derivative."""
    return rule(oracle, cost, *rest)[0]


@piecewise_linear.defjvp
def _piecewise_linear_jvp(rule: Any, primals: Any, tangents: Any) -> tuple[Array, Array]:
    oracle, cost, rest = primals
    loss, slope = rule(oracle, once(cost), *rest)
    slope = jnp.where(oracle.per_problem(jnp.isfinite(loss)), slope, 0)
    return loss, (slope * tangents[1]).sum(oracle.axes)
