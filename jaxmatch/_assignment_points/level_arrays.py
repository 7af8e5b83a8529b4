"""Array operations of `levels`, on NumPy arrays and on arrays that JAX traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.typing import Array, Bool, Int


State = TypeVar("State")


def put(values: Array, at: Int[Array, "..."], new: Any) -> Array:
    """A copy of `values` with `new` at these places."""
    if not isinstance(values, np.ndarray):
        return values.at[at].set(new)
    values = values.copy()
    values[at] = new
    return values


def counted(numbers: Int[Array, "..."], size: int) -> Any:
    """The number of times that each number from 0 to size − 1 occurs."""
    if isinstance(numbers, np.ndarray):
        return np.bincount(numbers.ravel(), minlength=size).astype(np.int32)
    return jnp.zeros(size, jnp.int32).at[numbers].add(1)


def order_of(keys: Int[Array, " n"]) -> Any:
    """The places of the keys in increasing order; equal ones keep their order."""
    if isinstance(keys, np.ndarray):
        return np.argsort(keys, kind="stable").astype(np.int32)
    return lax.sort((keys, lax.iota(jnp.int32, len(keys))), num_keys=1)[1]


def first_false(flags: Bool[Array, " n"]) -> Any:
    """The place of the first False, of which there must be one."""
    if isinstance(flags, np.ndarray):
        return flags.argmin().astype(np.int32)
    return lax.argmin(flags, 0, jnp.int32)  # `jnp.argmin` may be of a trace without 64 bits


def repeat_while(
    goes_on: Callable[[State], Bool[Array, ""]],
    step: Callable[[State], State],
    state: State,
    like: Array,
) -> State:
    """`lax.while_loop`, or the same loop in Python if `like` is a NumPy array."""
    if not isinstance(like, np.ndarray):
        return lax.while_loop(goes_on, step, vary_alike(state, (state, like)))
    while goes_on(state):
        state = step(state)
    return state
