"""`TransportProblem`: the checked arguments of a transport problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_array
from jaxmatch._common.cost_arguments import as_col_dual, as_cost, as_mask
from jaxmatch._common.given import INTEGERS, REAL, SOLVED
from jaxmatch._common.place import BY_JAX, Place
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import broadcast_shapes
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Num


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Origin:
    """The coarsest dtype from which masses were converted.

    It decides how far the sums of supplies and demands may differ. It is static: a node without
    leaves in the pytree of a problem, known when a solver is compiled.
    """

    dtype: np.dtype


class TransportProblem(NamedTuple):
    """A batch of problems, as a pytree. All arrays have the batch dimensions."""

    cost: Num[Array, "... n m"]
    supply: Num[Array, "... n"]
    demand: Num[Array, "... m"]  # in the dtype of `supply`
    row_mask: Bool[Array, "... n"] | None = None
    col_mask: Bool[Array, "... m"] | None = None
    # If a solver gets `moved`, the last row and the last column are dummies, see
    # `jaxmatch._transport.dummies`.
    moved: Num[Array, "..."] | None = None
    col_dual: Float[Array, "... m"] | None = None  # for a warm start
    origin: Origin | None = None  # None: no mass was given in a coarser dtype than `supply` has
    # The most mass of each pair, see `jaxmatch._transport.limited`. None: no limits.
    limit: Num[Array, "... n m"] | None = None


def exclude_each_other(partial: ArrayLike | None, unmatched_cost: ArrayLike | None) -> None:
    if partial is not None and unmatched_cost is not None:
        raise ValueError(
            "`partial` and `unmatched_cost` exclude each other: the first says how much mass is "
            "moved, the second what it costs to leave mass. Pass one of them."
        )


def coarsest(problem: Any) -> np.dtype:
    """The dtype that sets the tolerance for sums of masses, see ffi/transport/masses.inc.h."""
    return np.dtype(problem.supply.dtype if problem.origin is None else problem.origin.dtype)


def sum_tolerance(origin: np.dtype, count: int) -> float:
    """The allowed difference of the sums of supplies and demands, relative to the greater sum.

    `count` masses were rounded, and so were their sums, so the tolerance grows with `count`. In
    half precision it would accept almost anything. There it is constant, which suits masses from a
    softmax, because a softmax adds in a wider dtype. As in ffi/transport/masses.inc.h.
    """
    eps = float(jnp.finfo(origin).eps)
    return 8 * eps if origin.itemsize == 2 else max(2 * count * eps, 1e-6)


def as_problem(
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    partial: ArrayLike | None = None,
    col_dual: ArrayLike | None = None,
    *,
    place: Place = BY_JAX,
    symbolic: bool = True,
) -> TransportProblem:
    """Checks the arguments and broadcasts them to one batch shape and one dtype of masses.

    The problem has no dummies yet; its `moved` is `partial`.
    """
    cost = as_cost(cost, place, symbolic=symbolic)
    masses = as_masses(
        {"cost": cost.shape},
        (f"row of `cost` {cost.shape}", f"column of `cost` {cost.shape}"),
        cost.shape[-2:],
        (supply, demand),
        (row_mask, col_mask),
        partial,
        col_dual,
        place=place,
    )
    batch = masses[0].shape[:-1]
    return TransportProblem(expanded(cost, batch, 2, place.xp), *masses)


def as_masses(
    others: Mapping[str, tuple[int, ...]],
    owners: tuple[str, str],
    sizes: tuple[int, ...],
    masses: tuple[ArrayLike, ArrayLike],
    masks: tuple[ArrayLike | None, ArrayLike | None],
    partial: ArrayLike | None,
    col_dual: ArrayLike | None,
    *,
    place: Place = BY_JAX,
) -> tuple[Any, ...]:
    """All fields of a problem but its costs, broadcast to one batch shape, all masses in one dtype.

    `others`: the names and shapes of costs or points, which have two core dimensions. `owners`: for
    error messages, what each entry of `supply` and what each entry of `demand` belongs to.
    """
    supply, demand = (
        as_array(name, x, place) for name, x in zip(("supply", "demand"), masses, strict=True)
    )
    for name, x, size, owner in zip(
        ("supply", "demand"), (supply, demand), sizes, owners, strict=True
    ):
        if x.ndim < 1 or x.shape[-1] != size:
            raise ValueError(
                f"`{name}` must have shape [..., {size}], one mass for each {owner}, got {x.shape}."
            )
    shapes = {**others, "supply": supply.shape, "demand": demand.shape}
    leads = [shape[:-2] for shape in others.values()]
    try:
        batch = broadcast_shapes(*leads, supply.shape[:-1], demand.shape[:-1])
    except ValueError:
        names, got = (
            ", ".join(words[:-1]) + " and " + words[-1]
            for words in ([f"`{name}`" for name in shapes], [str(x) for x in shapes.values()])
        )
        raise ValueError(
            f"The batch dimensions of {names} must broadcast, got shapes {got}."
        ) from None
    dtype = mass_dtype(supply.dtype, demand.dtype)
    n, m = sizes
    return (
        expanded(supply.astype(dtype, copy=False), batch, 1, place.xp),
        expanded(demand.astype(dtype, copy=False), batch, 1, place.xp),
        as_mask("row_mask", masks[0], (*batch, n), place),
        as_mask("col_mask", masks[1], (*batch, m), place),
        as_partial(partial, dtype, batch, place),
        as_col_dual(col_dual, (*batch, m), place),
        origin_of(dtype, supply.dtype, demand.dtype, getattr(partial, "dtype", dtype)),
    )


def origin_of(dtype: np.dtype, *given: Any) -> Origin | None:
    """The coarsest given dtype, or None if it is not coarser than `dtype`."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return None
    floats = [np.dtype(x) for x in given if jnp.issubdtype(x, jnp.floating)]
    least = max(floats, key=lambda x: float(jnp.finfo(x).eps))
    return None if jnp.finfo(least).eps <= jnp.finfo(dtype).eps else Origin(least)


def expanded(x: Array, batch: tuple[int, ...], core: int, xp: Any = jnp) -> Any:
    """x broadcast to the batch dimensions `batch` in front of its last `core` dimensions."""
    shape = (*batch, *x.shape[x.ndim - core :])
    return x if x.shape == shape else xp.broadcast_to(x, shape)


def mass_dtype(*dtypes: np.dtype) -> np.dtype:
    """The dtype to which solvers convert masses: int32, int64, float32 or float64."""
    return _mass_dtype(dtypes, result_float())


@lru_cache
def _mass_dtype(dtypes: tuple[np.dtype, ...], real: np.dtype) -> np.dtype:
    floats = [x for x in dtypes if jnp.issubdtype(x, jnp.floating)]
    wide = any(x.itemsize == 8 for x in floats or dtypes)
    name = "float" if floats else "int"
    return np.dtype(f"{name}{64 if wide and real.itemsize == 8 else 32}")


def as_partial(
    partial: ArrayLike | None, dtype: np.dtype, batch: tuple[int, ...], place: Place
) -> Num[Array, "..."] | None:
    if partial is None:
        return None
    whole = jnp.issubdtype(dtype, jnp.integer)
    words = "an integer, as `supply` and `demand` are" if whole else "a real number"
    x = as_array("partial", partial, place, INTEGERS & SOLVED if whole else REAL, f"be {words}")
    try:
        return place.xp.broadcast_to(x.astype(dtype), batch)
    except ValueError:
        raise ValueError(
            f"`partial` has shape {x.shape}, which does not broadcast to the batch shape {batch}."
        ) from None
