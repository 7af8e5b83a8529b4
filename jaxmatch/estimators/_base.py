"""The base class of estimators, the preparation of their arguments, and shared helpers."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.given import require
from jaxmatch._common.promotion import common_dtype, float_dtype
from jaxmatch._common.registered import registered
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import ArrayLike, Float
from jaxmatch.estimators._equality import EqualByValue
from jaxmatch.estimators._oracle import LinearOracle


T = TypeVar("T")


class Estimator(EqualByValue, abc.ABC):
    """A rule that replaces the derivative of a solution with respect to the costs.

    The exact derivative is 0 or undefined.

    An estimator is a frozen dataclass and a pytree. Its strengths, such as a step or the scale of
    noise, are leaves: they may be traced, and may hold one number per problem of the batch. No
    gradient flows to them. If a rule divides by a strength that is 0, the gradient is 0.
    """

    needs_key = False

    @abc.abstractmethod
    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        """The solution, with the derivative that the rule defines. Costs are float32 or float64."""

    @abc.abstractmethod
    def _jvp(
        self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any
    ) -> tuple[Array, Array]: ...

    @unchecked
    @outside_of_jit("cost", whole=False)
    def solution(
        self, oracle: LinearOracle, cost: ArrayLike, *, key: Any = None, state: Any = None
    ) -> Float[Array, "..."]:
        """The solution for the costs, in their shape, with the derivative that this rule defines.

        **Arguments:**

        - `oracle`: a [`LinearOracle`][jaxmatch.estimators.LinearOracle].
        - `cost`: `[..., *problem]`. Integers become float32; 16-bit floats are computed in float32.
        - `key`: a `jax.random` key, for estimators that draw noise.
        - `state`: the state of an adaptive estimator.

        **Returns:** the solution, or the mean of several, in the dtype of the costs (float32 for
        integers). It is 0 for problems that were not solved, and so is their gradient.

        A loss with a kink, such as the L1 distance between two means, has derivative 0 where the
        means are equal. Near the kink, rounding decides the gradient.
        """
        rule, prepared, oracle = self._prepare(oracle, cost, key, state)
        return rule._solution(oracle, prepared, key, state).astype(_dtype_of(cost))

    @unchecked
    @outside_of_jit("cost", "tangent", whole=False)
    def jvp(
        self,
        oracle: LinearOracle,
        cost: ArrayLike,
        tangent: ArrayLike,
        *,
        key: Any = None,
        state: Any = None,
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The solution and its derivative along `tangent` by this rule.

        For linear rules, the result is that of `jax.jvp`. For all other rules `jax.jvp` does not
        work, and this function is the forward mode. Rules treat tangents as cotangents: the
        Jacobian that they estimate is symmetric, as the optimum is a concave function of the costs.
        """
        rule, prepared, oracle = self._prepare(oracle, cost, key, state)
        tangent = jnp.broadcast_to(jnp.asarray(tangent, prepared.dtype), prepared.shape)
        tangent = vary_alike(tangent, prepared)
        y, dot = rule._jvp(oracle, prepared, tangent, key, state)
        return y.astype(_dtype_of(cost)), dot.astype(_dtype_of(cost))

    def _prepare(
        self, oracle: LinearOracle, cost: ArrayLike, key: Any, state: Any = None
    ) -> tuple[Self, Array, LinearOracle]:
        """The rule, with constants as leaves; the prepared costs; and the prepared oracle."""
        oracle, (prepared,) = prepare(oracle, cost=cost)
        if self.needs_key and key is None:
            raise ValueError(
                f"{type(self).__name__} draws noise: pass `key`, for instance `jax.random.key(0)`."
            )
        rule = jax.tree.map(lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, self)
        return rule, vary_alike(prepared, (rule, oracle.data, key, state)), oracle


def prepare(oracle: LinearOracle, **arrays: ArrayLike) -> tuple[LinearOracle, list[Array]]:
    """Prepares an oracle and arrays of costs for a rule.

    Arrays that the oracle's solver closes over are moved into its `data`. The returned arrays have
    one shape and one float dtype of at least 32 bits. Their masked entries are 0.
    """
    advice = "`jaxmatch.estimators.oracle_of(solve, core_dims)` makes one of a function"
    require("oracle", oracle, LinearOracle, advice)
    inputs = {name: jnp.asarray(x) for name, x in arrays.items()}
    for name, x in inputs.items():
        if x.ndim < oracle.core_dims:
            raise ValueError(
                f"`{name}` must have at least {oracle.core_dims} dimensions, got shape {x.shape}."
            )
    shapes = {name: x.shape for name, x in inputs.items()}
    problems = {s[len(s) - oracle.core_dims :] for s in shapes.values()}
    try:
        shape = jnp.broadcast_shapes(*shapes.values())
    except ValueError:
        shape = None
    if shape is None or len(problems) > 1:
        got = ", ".join(f"`{name}` {s}" for name, s in shapes.items())
        raise ValueError(
            f"The last {oracle.core_dims} dimensions are one problem and must agree, those in "
            f"front must broadcast; got {got}."
        )
    dtype = float_dtype(*inputs.values())
    prepared = [jnp.broadcast_to(x.astype(dtype), shape) for x in inputs.values()]
    if oracle.sanitize is not None:
        prepared = [oracle.sanitize(oracle.data, x) for x in prepared]
    return oracle.convert_closures(prepared[0]), prepared


def loss_dtype(*costs: ArrayLike) -> jnp.dtype:
    """The dtype of a loss of these costs: at least float32, and float32 for integers."""
    return common_dtype(jnp.float32, *map(_dtype_of, costs))


def _dtype_of(cost: ArrayLike) -> jnp.dtype:
    dtype = jnp.asarray(cost).dtype
    return dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.dtype(jnp.float32)


def static(*, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def estimator(cls: type[T]) -> type[T]:
    """Makes the class a frozen dataclass and a pytree. Fields marked `static` are not leaves."""
    return registered(dataclasses.dataclass(frozen=True, eq=False)(cls))


def per_problem(oracle: LinearOracle, strength: ArrayLike, like: Array) -> Array:
    """Converts a strength to the dtype of `like`, in a shape that broadcasts with `like`.

    `strength`: one number, or one per problem.
    """
    return oracle.per_problem(strength).astype(like.dtype)


@jax.custom_jvp
def forbid_second_derivative(x: Array) -> Array:
    """The identity, whose derivative raises an error.

    A rule has no second derivative, and 0 would be wrong.
    """
    return x


def depending_on(x: Array, cost: Array) -> Array:
    """Returns x + 0 · cost, so that JAX also differentiates the costs.

    Without this term, if x does not depend on the costs, JAX never differentiates
    `forbid_second_derivative(cost)`. Then a second derivative would be 0 instead of an error.
    """
    return x + 0 * jnp.where(jnp.isfinite(cost), cost, 0)


@forbid_second_derivative.defjvp
def _forbid_second_derivative_jvp(primals: Any, tangents: Any) -> Any:
    raise TypeError(
        "This gradient rule has no derivative of its own: an estimated gradient was differentiated "
        "again. Second derivatives exist of the smoothed value, `Perturbed(...).value`, and of "
        "`Entropic`."
    )
