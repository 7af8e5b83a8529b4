"""`QuadraticProblem`: the checked arguments of quadratic assignment."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, as_count
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.given import INTEGERS
from jaxmatch._common.place import Place
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import broadcast_shapes, require_sizes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int


class QuadraticProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    a: Float[Array, "... n n"]
    b: Float[Array, "... m m"]
    linear: Float[Array, "... n m"] | None
    rows: Bool[Array, "... n"]  # rows and columns that exist
    cols: Bool[Array, "... m"]
    seeds: Int[Array, "... n"] | None  # the known column of each row, or −1
    starts: Float[Array, "... s n m"] | None  # those that are given
    draws: Float[Array, "... s n m"] | None  # numbers from 0 to 1 for random starts
    order: Int[Array, "... m"] | None  # in which the solver sees the columns


@with_promotion
def as_problem(
    a: Any,
    b: Any,
    linear: Any,
    seeds: ArrayLike | None,
    starts: Any,
    key: Any,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    place: Place,
) -> QuadraticProblem:
    """Checks the arguments and broadcasts them to one batch shape and one float dtype."""
    a, b = (as_square(name, x, place) for name, x in (("a", a), ("b", b)))
    n, m = a.shape[-1], b.shape[-1]
    lead = [a.shape[:-2], b.shape[:-2]]
    if linear is not None:
        linear = as_array("linear", linear, place)
        if linear.ndim < 2 or linear.shape[-2:] != (n, m):
            raise ValueError(
                f"`linear` must have shape [..., {n}, {m}], a row of it for each row of `a` and a "
                f"column for each row of `b`, got {linear.shape}."
            )
        lead.append(linear.shape[:-2])
    given = None
    if isinstance(starts, (int, np.integer)) or np.ndim(starts) == 0:
        count = as_count("starts", starts)
    else:
        given = as_array("starts", starts, place)
        if given.ndim < 2 or given.shape[-2:] != (n, m) or 0 in given.shape[-3:-2]:
            raise ValueError(
                f"`starts` must be a number of starts, or matrices of shape [..., s, {n}, {m}] "
                f"with s >= 1, got {given.shape}."
            )
        given = given[None] if given.ndim == 2 else given
        lead.append(given.shape[:-3])
        count = given.shape[-3]
    pairs = None if seeds is None else _pairs(seeds, n, m, place)
    if pairs is not None:
        lead.append(pairs.shape[:-2])
    for name, x, size in (("row_mask", row_mask, n), ("col_mask", col_mask, m)):
        if x is not None and np.ndim(x) > 0 and np.shape(x)[-1] not in (1, size):
            raise ValueError(f"`{name}` must have shape [..., {size}], got {np.shape(x)}.")
        lead.append(np.shape(x)[:-1] if x is not None else ())
    try:
        batch = broadcast_shapes(*lead)
    except ValueError:
        raise ValueError(
            f"The batch dimensions of all arguments must broadcast, got {[*map(tuple, lead)]}."
        ) from None
    xp, dtype = place.xp, float_of(*(x.dtype for x in (a, b, linear, given) if x is not None))

    def whole(x: Any, core: int) -> Any:
        if x is None:
            return None
        return xp.broadcast_to(x.astype(dtype), (*batch, *x.shape[x.ndim - core :]))

    a, b, linear, given = whole(a, 2), whole(b, 2), whole(linear, 2), whole(given, 3)
    rows = as_mask("row_mask", True if row_mask is None else row_mask, (*batch, n), place)
    cols = as_mask("col_mask", True if col_mask is None else col_mask, (*batch, m), place)
    draws: Any = None
    order: Any = None
    if key is None and given is None and count > 1:
        raise ValueError(
            f"`starts={count}` draws random starts: pass `key`, for instance `jax.random.key(0)`."
        )
    if key is not None:
        own = jax.random.split(key, 2)
        order = jax.random.uniform(own[0], (*batch, m), jnp.float32).argsort(-1).astype(jnp.int32)
        if given is None and count > 1:
            draws = jax.random.uniform(own[1], (*batch, count - 1, n, m), jnp.float32, 1e-6)
        if place.native:
            order, draws = np.asarray(order), None if draws is None else np.asarray(draws)
    known = None if pairs is None else _column_of(pairs, batch, n, xp)
    assert rows is not None and cols is not None
    return QuadraticProblem(a, b, linear, rows, cols, known, given, draws, order)


def as_square(name: str, x: ArrayLike, place: Place) -> Any:
    x = as_array(name, x, place)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"`{name}` must have shape [..., k, k], got {x.shape}.")
    require_sizes(name, x.shape[-2:], "mask its padding (`row_mask`, `col_mask`)")
    return x


def float_of(*dtypes: Any) -> np.dtype:
    """In which the solver computes: float64 if an argument has it, or if integers need it."""
    real = result_float()
    wide = [x for x in dtypes if np.dtype(x).itemsize == 8 or jnp.issubdtype(x, jnp.integer)]
    return np.dtype(real if wide else np.float32)


def _pairs(seeds: ArrayLike, n: int, m: int, place: Place) -> Any:
    seeds = as_array("seeds", seeds, place, INTEGERS, "hold integers")
    if seeds.ndim < 2 or seeds.shape[-1] != 2:
        raise ValueError(
            "`seeds` must have shape [..., k, 2], known pairs of a row and a column, got "
            f"{seeds.shape}."
        )
    if isinstance(seeds, jax.core.Tracer):
        return seeds
    known = np.asarray(seeds)
    exists = (known >= 0).all(-1)
    too_far = exists & ((known >= (n, m)).any(-1))
    if too_far.any():
        raise ValueError(
            f"`seeds` must hold rows below {n} and columns below {m}, got {known[too_far][0]}."
        )
    for of_one in known.reshape(-1, *known.shape[-2:]):
        own = of_one[(of_one >= 0).all(-1)]
        for side, which in enumerate(("row", "column")):
            if len({*own[:, side].tolist()}) < len(own):
                raise ValueError(f"`seeds` must hold each {which} once at most, got {own}.")
    return seeds


def _column_of(pairs: Any, batch: tuple[int, ...], n: int, xp: Any) -> Any:
    """The known column of each row, or −1. Pairs with a negative entry are padding."""
    pairs = xp.broadcast_to(pairs, (*batch, *pairs.shape[-2:]))
    exists = (pairs >= 0).all(-1)
    at = (pairs[..., :1] == xp.arange(n)) & exists[..., None]  # [..., k, n]
    col = xp.where(at, pairs[..., 1:], -1)
    return col.max(-2, initial=-1).astype(xp.int32)
