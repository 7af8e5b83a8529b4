"""The objective, its gradient at permutations, and what the loops share of it.

Of a matrix P it is f(P) = <A, P B P'> + <L, P>. The gradient of the first part, A P B' + A' P B, is
linear in P, so that the first part is half of <gradient, P>. If A or B is symmetric, only the
symmetric part of the other counts, and one product is left: 2 A P B.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.proof import either, module_of
from jaxmatch._common.typing import Array, Bool, Float, Int


class Objective(NamedTuple):
    """A batch of objectives to minimise. The gradient of P is the sum of left_k P right_k."""

    left: tuple[Float[Array, "... n n"], Float[Array, "... n n"]]
    right: tuple[Float[Array, "... m m"], Float[Array, "... m m"]]
    linear: Float[Array, "... n m"] | None
    two: Bool[Array, ""]  # whether a problem of the batch needs the second product


def objective_of(a: Array, b: Array, linear: Array | None) -> Objective:
    xp = module_of(a)
    at, bt = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    symmetric = (a == at).all((-2, -1)) | (b == bt).all((-2, -1))
    one = symmetric[..., None, None]
    left = xp.where(one, a + at, a), xp.where(one, 0, at)
    right = xp.where(one, (b + bt) / 2, bt), b
    return Objective(left, right, linear, ~symmetric.all())


def gradient_of(f: Objective, point: Float[Array, "... s n m"]) -> Float[Array, "... s n m"]:
    """Of the quadratic part, at any points."""

    def term(k: int) -> Array:
        return product(product(f.left[k][..., None, :, :], point), f.right[k][..., None, :, :])

    return either(f.two, lambda: term(0) + term(1), lambda: term(0))


def gradient_at(f: Objective, col4row: Int[Array, "... s n"]) -> Float[Array, "... s n m"]:
    """Of the quadratic part, at permutations: Q takes rows of `right`, so one product is left."""

    def term(k: int) -> Array:
        return product(f.left[k][..., None, :, :], chosen_rows(f.right[k], col4row))

    return either(f.two, lambda: term(0) + term(1), lambda: term(0))


def product(x: Array, y: Array) -> Array:
    if module_of(x) is np:
        return x @ y
    return jnp.matmul(x, y, precision="highest")  # float32 on a GPU as well


def chosen_rows(x: Float[Array, "... n m"], at: Int[Array, "... s k"]) -> Float[Array, "... s k m"]:
    """The rows of x at these indices; zeros at −1."""
    xp, place = module_of(x), module_of(x).maximum(at, 0)
    if xp is np:
        *batch, n, m = x.shape
        flat = x.reshape(-1, m)
        first = n * np.arange(len(flat) // max(n, 1)).reshape(*batch, 1, 1)
        rows = flat[place + first]
        if (at < 0).any():
            rows[at < 0] = 0
        return rows

    def take(x: Any, place: Any) -> Any:
        return x[place]

    for _ in x.shape[:-2]:
        take = jax.vmap(take)
    return jnp.where((at < 0)[..., None], 0, take(x, place))


def along(x: Float[Array, "... n m"], col4row: Int[Array, "... n"]) -> Float[Array, "..."]:
    """<X, Q> for the permutation matrix Q."""
    xp = module_of(x)
    own = xp.take_along_axis(x, xp.maximum(col4row, 0)[..., None], -1)[..., 0]
    return xp.where(col4row < 0, 0, own).sum(-1)


def values_of(
    a: Array, b: Array, linear: Array | None, col4row: Int[Array, "... s n"]
) -> tuple[Float[Array, "... s"], Float[Array, "... s"]]:
    """The objective of permutations, and the sum of the magnitudes of its terms."""
    xp = module_of(a)
    pairs = _chosen_pairs(b, xp.maximum(col4row, 0))
    matched = col4row >= 0
    terms = a[..., None, :, :] * pairs
    terms = xp.where(matched[..., None] & matched[..., None, :], terms, 0)
    value, size = terms.sum((-2, -1)), xp.abs(terms).sum((-2, -1))
    if linear is not None:
        own = xp.take_along_axis(linear[..., None, :, :], xp.maximum(col4row, 0)[..., None], -1)
        own = xp.where(matched, own[..., 0], 0)
        value, size = value + own.sum(-1), size + xp.abs(own).sum(-1)
    return value, size


def _chosen_pairs(b: Any, at: Any) -> Any:
    """b[..., at[i], at[j]], as [..., s, n, n]."""
    if module_of(b) is np:
        m, lead = b.shape[-1], b.shape[:-2]
        first = m * m * np.arange(int(np.prod(lead))).reshape(*lead, 1, 1, 1)
        return b.reshape(-1).take(m * at[..., :, None] + at[..., None, :] + first, mode="clip")
    rows = chosen_rows(b, at)
    index = jnp.broadcast_to(at[..., None, :], (*rows.shape[:-1], at.shape[-1]))
    return jnp.take_along_axis(rows, index, -1)
