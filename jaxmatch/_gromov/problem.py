"""`GromovProblem`: the checked arguments of Gromov-Wasserstein problems, and the losses."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array, as_count
from jaxmatch._common.cost_arguments import as_mask
from jaxmatch._common.place import Place
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.proof import module_of
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, Float
from jaxmatch._quadratic.problem import as_square, float_of


_TINY = 1e-18  # keeps logarithms of 0 finite


class GromovProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    c1: Float[Array, "... n n"]
    c2: Float[Array, "... m m"]
    p: Float[Array, "... n"]  # 0 where a row does not exist
    q: Float[Array, "... m"]
    feature_cost: Float[Array, "... n m"] | None
    alpha: Float[Array, "..."] | None  # the weight of the structures; None without features
    starts: Float[Array, "... s n m"] | None  # those that are given
    draws: Float[Array, "... s n m"] | None  # random costs, whose plans begin other starts


class Loss(NamedTuple):
    """L(a, b) = f1(a) + f2(b) - h1(a) h2(b)."""

    f1: Any
    f2: Any
    h1: Any
    h2: Any

    def __call__(self, a: Array, b: Array) -> Array:
        return self.f1(a) + self.f2(b) - self.h1(a) * self.h2(b)


def _log(x: Array) -> Array:
    return module_of(x).log(x + _TINY)


LOSSES = {
    "square": Loss(lambda a: a * a, lambda b: b * b, lambda a: a, lambda b: 2 * b),
    "kl": Loss(lambda a: a * _log(a) - a, lambda b: b, lambda a: a, _log),
}


@with_promotion
def as_problem(
    c1: Any,
    c2: Any,
    p: Any,
    q: Any,
    feature_cost: Any,
    alpha: Any,
    starts: Any,
    key: Any,
    row_mask: Any,
    col_mask: Any,
    *,
    place: Place,
) -> GromovProblem:
    """Checks the arguments and broadcasts them to one batch shape and one float dtype."""
    c1, c2 = (as_square(name, x, place) for name, x in (("c1", c1), ("c2", c2)))
    n, m = c1.shape[-1], c2.shape[-1]
    lead = [c1.shape[:-2], c2.shape[:-2]]
    masses = []
    for name, x, size, owner in (("p", p, n, "c1"), ("q", q, m, "c2")):
        x = None if x is None else as_array(name, x, place)
        if x is not None and (x.ndim < 1 or x.shape[-1] != size):
            raise ValueError(
                f"`{name}` must have shape [..., {size}], one mass for each row of `{owner}`, got "
                f"{x.shape}."
            )
        lead.append(() if x is None else x.shape[:-1])
        masses.append(x)
    if feature_cost is not None:
        feature_cost = as_array("feature_cost", feature_cost, place)
        if feature_cost.ndim < 2 or feature_cost.shape[-2:] != (n, m):
            raise ValueError(
                f"`feature_cost` must have shape [..., {n}, {m}], got {feature_cost.shape}."
            )
        alpha = as_array("alpha", alpha, place)
        lead += [feature_cost.shape[:-2], alpha.shape]
    given = None
    if np.ndim(starts) == 0:
        count = as_count("starts", starts)
    else:
        given = as_array("starts", starts, place)
        if given.ndim < 2 or given.shape[-2:] != (n, m) or 0 in given.shape[-3:-2]:
            raise ValueError(
                f"`starts` must be a number of starts, or plans of shape [..., s, {n}, {m}] with "
                f"s >= 1, got {given.shape}."
            )
        given = given[None] if given.ndim == 2 else given
        lead.append(given.shape[:-3])
        count = given.shape[-3]
    if key is None and given is None and count > 1:
        raise ValueError(
            f"`starts={count}` draws random starts: pass `key`, for instance `jax.random.key(0)`."
        )
    lead += [np.shape(x)[:-1] for x in (row_mask, col_mask) if x is not None]
    try:
        batch = broadcast_shapes(*lead)
    except ValueError:
        raise ValueError(
            f"The batch dimensions of all arguments must broadcast, got {[*map(tuple, lead)]}."
        ) from None
    xp = place.xp
    dtype = float_of(*(x.dtype for x in (c1, c2, feature_cost, given, *masses) if x is not None))

    def whole(x: Any, core: int) -> Any:
        if x is None:
            return None
        return xp.broadcast_to(x.astype(dtype), (*batch, *x.shape[x.ndim - core :]))

    rows = as_mask("row_mask", True if row_mask is None else row_mask, (*batch, n), place)
    cols = as_mask("col_mask", True if col_mask is None else col_mask, (*batch, m), place)
    own: list[Any] = []
    for x, exists in zip(masses, (rows, cols), strict=True):
        assert exists is not None
        if x is None:
            x = exists / xp.maximum(exists.sum(-1, keepdims=True), 1)
        own.append(xp.where(exists, xp.broadcast_to(x, exists.shape), 0).astype(dtype))
    draws: Any = None
    if given is None and key is not None and count > 1:
        draws = jax.random.uniform(key, (*batch, count - 1, n, m), jnp.float32)
        draws = np.asarray(draws) if place.native else draws
    fused = feature_cost is not None
    return GromovProblem(
        c1=_existing(whole(c1, 2), rows, rows),
        c2=_existing(whole(c2, 2), cols, cols),
        p=own[0],
        q=own[1],
        feature_cost=_existing(whole(feature_cost, 2), rows, cols) if fused else None,
        alpha=whole(alpha, 0) if fused else None,
        starts=whole(given, 3),
        draws=draws,
    )


def _existing(x: Any, rows: Any, cols: Any) -> Any:
    """Zeros in rows and columns that do not exist."""
    return module_of(x).where(rows[..., :, None] & cols[..., None, :], x, 0)
