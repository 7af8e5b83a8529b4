"""What all estimators share: arguments, dtypes, and the end of differentiation."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.switches import unchecked
from jaxmatch.estimators._oracle import LinearOracle


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Float


T = TypeVar("T")


class Estimator(abc.ABC):
    """A rule for the derivative of a solution with respect to the costs, which is 0 or undefined.

    A small frozen dataclass and a pytree, whose strengths are leaves: they may be traced, and one
    for each problem of the batch. No gradient flows to them. Where one that a rule divides by is 0,
    so is the gradient.
    """

    needs_key = False

    @abc.abstractmethod
    def _solution(self, oracle: LinearOracle, cost: Array, key: Any, state: Any) -> Array:
        """With the rule around it; costs are float32 or float64."""

    @abc.abstractmethod
    def _jvp(
        self, oracle: LinearOracle, cost: Array, tangent: Array, key: Any, state: Any
    ) -> tuple[Array, Array]: ...

    @unchecked
    def solution(
        self, oracle: LinearOracle, cost: ArrayLike, *, key: Any = None, state: Any = None
    ) -> Float[Array, "..."]:
        """The solution for the costs, in their shape, differentiable by this rule.

        **Arguments:**

        - `oracle`: a [`LinearOracle`][jaxmatch.estimators.LinearOracle].
        - `cost`: `[..., *problem]`. Integers are taken as float32, 16-bit floats computed in
          float32.
        - `key`: of `jax.random`, for estimators that draw noise.
        - `state`: of an adaptive estimator.

        **Returns:** the solution, or the mean of several, in the dtype of the costs (float32 for
        integers). It is 0 for problems that were not solved, and their gradient is 0.

        A loss of a mean that has a kink, such as the L1 distance from another mean, has the
        derivative 0 where both are equal, so that there rounding decides about the gradient.
        """
        rule, given, oracle = self._take(oracle, cost, key, state)
        return rule._solution(oracle, given, key, state).astype(_dtype_of(cost))

    @unchecked
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

        What `jax.jvp` gives where the rule is linear; for rules that are not, forward mode is this
        function. The value function is concave, so that the Jacobian that a rule estimates is
        symmetric: what a rule does to a cotangent it does to a tangent.
        """
        rule, given, oracle = self._take(oracle, cost, key, state)
        along = jnp.broadcast_to(jnp.asarray(tangent, given.dtype), given.shape)
        along = vary_alike(along, given)
        y, dot = rule._jvp(oracle, given, along, key, state)
        return y.astype(_dtype_of(cost)), dot.astype(_dtype_of(cost))

    def _take(
        self, oracle: LinearOracle, cost: ArrayLike, key: Any, state: Any = None
    ) -> tuple[Self, Array, LinearOracle]:
        """The rule without gradients to its leaves, the costs and the oracle, ready for use."""
        oracle, (taken,) = take(oracle, cost=cost)
        if self.needs_key and key is None:
            raise ValueError(
                f"{type(self).__name__} draws noise: pass `key`, for instance `jax.random.key(0)`."
            )
        rule = jax.tree.map(lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, self)
        return rule, vary_alike(taken, (rule, oracle.data, key, state)), oracle


def take(oracle: LinearOracle, **arrays: ArrayLike) -> tuple[LinearOracle, list[Array]]:
    """The oracle, closed over what it refers to, and the arrays in one shape and one dtype of at
    least 32 bits, 0 where they do not matter."""
    if not isinstance(oracle, LinearOracle):
        raise TypeError(
            f"`oracle` must be a LinearOracle, got {type(oracle).__name__}; "
            "`jaxmatch.estimators.oracle_of(solve, core_dims)` makes one of a function."
        )
    given = {name: jnp.asarray(x) for name, x in arrays.items()}
    for name, x in given.items():
        if x.ndim < oracle.core_dims:
            raise ValueError(
                f"`{name}` must have at least {oracle.core_dims} dimensions, got shape {x.shape}."
            )
    shapes = {name: x.shape for name, x in given.items()}
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
    dtype = common_dtype(jnp.float32, *map(_dtype_of, given.values()))
    taken = [jnp.broadcast_to(x.astype(dtype), shape) for x in given.values()]
    if oracle.clean is not None:
        taken = [oracle.clean(oracle.data, x) for x in taken]
    return oracle.closed(taken[0]), taken


def _dtype_of(cost: ArrayLike) -> jnp.dtype:
    dtype = jnp.asarray(cost).dtype
    return dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.dtype(jnp.float32)


def static(*, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def estimator(cls: type[T]) -> type[T]:
    """A frozen dataclass and pytree; fields that are marked `static` are no leaves."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def stretch(oracle: LinearOracle, strength: ArrayLike, like: Array) -> Array:
    """A strength, or one for each problem, against the costs."""
    return oracle.per_problem(strength).astype(like.dtype)


@jax.custom_jvp
def once(x: Array) -> Array:
    """Costs in a rule for the first derivative. There is no rule for the next one, and 0 would be
    wrong, so to differentiate again is an error."""
    return x


def depending_on(x: Array, cost: Array) -> Array:
    """x, and costs count as used: what is not used is not differentiated."""
    return x + 0 * jnp.where(jnp.isfinite(cost), cost, 0)


@once.defjvp
def _once_jvp(primals: Any, tangents: Any) -> Any:
    raise TypeError(
        "This gradient rule has no derivative of its own: an estimated gradient was differentiated "
        "again. Second derivatives exist of the smoothed value, `Perturbed(...).value`, and of "
        "`Entropic`."
    )
