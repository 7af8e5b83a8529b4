"""`MinCostProblem`: the checked arguments of a minimum-cost flow problem, without its network."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.arguments import as_array, solved_dtype
from jaxmatch._common.given import BOOLEAN, REAL, require, typed
from jaxmatch._common.place import Place
from jaxmatch._common.result import result_float
from jaxmatch._common.symbolic import broadcast_shapes, is_symbolic
from jaxmatch._common.typing import Array, ArrayLike, Int, Num
from jaxmatch._flow.network import FlowNetwork
from jaxmatch._min_cost_flow.result import MinimumCostFlow
from jaxmatch._transport.problem import Origin, expanded, mass_dtype, origin_of, sum_tolerance


class Ends(NamedTuple):
    """The ends of all edges, which is all that is read of a network.

    They have the batch dimensions of the problems, or none: then all problems share them.
    """

    senders: Int[Array, "... e"]
    receivers: Int[Array, "... e"]

    @property
    def are_shared(self) -> bool:
        return self.senders.ndim == 1


class MinCostProblem(NamedTuple):
    """A batch of problems on one network or a batch of networks. The networks are not part of it.

    All arrays have the batch dimensions. Masses, which are capacities, supplies, lower bounds and
    flows, have one dtype.
    """

    capacity: Num[Array, "... e"]
    cost: Num[Array, "... e"]
    supply: Num[Array, "... n"]
    lower: Num[Array, "... e"] | None = None  # None: 0
    # For a warm start.
    flow: Num[Array, "... e"] | None = None
    potential: Num[Array, "... n"] | None = None
    origin: Origin | None = None  # None: no mass was given in a coarser dtype than `supply` has


def forgiven(problem: MinCostProblem) -> float:
    """How far supplies may be from a sum of 0, relative to the sum of the positive ones."""
    return forgiven_to(problem.supply.shape[-1], problem.supply.dtype, problem.origin)


def forgiven_to(count: int, dtype: np.dtype, origin: Origin | None) -> float:
    """How far `count` masses may be from a sum of 0, relative to the sum of the positive ones."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return 0.0
    coarsest = np.dtype(dtype if origin is None else origin.dtype)
    return sum_tolerance(coarsest, _MANY if is_symbolic((count,)) else count)


_MANY = 1 << 10  # the number of nodes if it is a symbolic dimension


def value_dtype(problem: Any) -> np.dtype:
    """The dtype of cost, potentials and gap. `problem` has a `cost` and a `supply`."""
    whole = jnp.issubdtype(problem.cost.dtype, jnp.integer)
    if whole and jnp.issubdtype(problem.supply.dtype, jnp.integer):
        return np.dtype(jax.dtypes.canonicalize_dtype(np.int64))
    return result_float()


def as_problem(
    network: FlowNetwork,
    capacity: ArrayLike,
    cost: ArrayLike,
    supply: ArrayLike,
    lower: ArrayLike | None,
    start: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    *,
    place: Place,
) -> tuple[Ends, MinCostProblem]:
    """Checks the arguments and broadcasts them to one batch shape; an unbatched network stays so.

    `start`: the flow and the potentials of a warm start.
    """
    n, e = network.num_nodes, network.num_edges
    ends = Ends(network.senders, network.receivers)
    if place.native:
        ends = jax.tree.map(np.asarray, ends)
    given = {"capacity": capacity, "cost": cost, "supply": supply}
    given |= {} if lower is None else {"lower": lower}
    arrays = {name: as_array(name, x, place) for name, x in given.items()}
    for name, x in arrays.items():
        size, owner = (n, "node") if name == "supply" else (e, "edge")
        if x.ndim < 1 or x.shape[-1] != size:
            raise ValueError(
                f"`{name}` must have shape [..., {size}], one entry for each {owner} of `network`, "
                f"got {x.shape}."
            )
    batch = _batch_shape(network, arrays)
    if network.batch_shape not in ((), batch):
        ends = Ends(*(expanded(x, batch, 1, place.xp) for x in ends))
    costs = arrays.pop("cost")
    dtypes = [x.dtype for x in arrays.values()]
    masses, dtype = as_masses(arrays, batch, place.xp)
    costs = costs.astype(solved_dtype(costs.dtype), copy=False)
    problem = MinCostProblem(
        masses["capacity"],
        expanded(costs, batch, 1, place.xp),
        masses["supply"],
        masses.get("lower"),
        origin=origin_of(dtype, *dtypes),
    )
    value, (flow, potential) = value_dtype(problem), start
    return ends, problem._replace(
        flow=as_start("flow", flow, (*batch, e), dtype, place, _STARTS),
        potential=as_start("potential", potential, (*batch, n), value, place, _STARTS),
    )


def _batch_shape(network: FlowNetwork, arrays: dict[str, Any]) -> tuple[Any, ...]:
    try:
        return broadcast_shapes(network.batch_shape, *(x.shape[:-1] for x in arrays.values()))
    except ValueError:
        *names, last = (f"`{name}`" for name in arrays)
        shapes = ", ".join(str(x.shape) for x in arrays.values())
        raise ValueError(
            f"The batch dimensions of {', '.join(names)}, {last} and `network` must broadcast, got "
            f"shapes {shapes} and the batch shape {network.batch_shape} of the network."
        ) from None


def as_masses(
    arrays: dict[str, Array], batch: tuple[Any, ...], xp: Any
) -> tuple[dict[str, Array], np.dtype]:
    """The masses in one dtype, broadcast to the batch dimensions, and this dtype."""
    dtype = mass_dtype(*(x.dtype for x in arrays.values()))
    masses = {
        name: expanded(_as_mass(name, x, dtype, xp), batch, 1, xp) for name, x in arrays.items()
    }
    return masses, dtype


def _as_mass(name: str, x: Array, dtype: np.dtype, xp: Any) -> Array:
    """Converts masses. The largest number of int32 or int64 stays that in a capacity: no limit."""
    if x.dtype == dtype:
        return x
    if name not in ("capacity", "limit") or x.dtype not in (np.int32, np.int64):
        return x.astype(dtype)
    most: Any = np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max
    return xp.where(x == jnp.iinfo(x.dtype).max, xp.asarray(most, dtype), x.astype(dtype))


def start_of(warm_start: Any) -> tuple[ArrayLike | None, ArrayLike | None]:
    """The flow and the potentials of a result, or the potentials that were passed in its place."""
    if warm_start is None:
        return None, None
    if not hasattr(warm_start, "potential"):
        if hasattr(warm_start, "status"):
            require("warm_start", warm_start, MinimumCostFlow, "or pass potentials `[..., n]`")
        return None, warm_start
    return warm_start.flow, warm_start.potential


_STARTS = "a MinimumCostFlow or real potentials"


def as_start(
    field: str,
    x: ArrayLike | None,
    shape: tuple[Any, ...],
    dtype: np.dtype,
    place: Place,
    kinds: str,
) -> Array | None:
    """A field of a warm start. Numbers that the dtype does not hold become 0.

    `kinds`: what a warm start must be, for error messages.
    """
    if x is None:
        return None
    xp, array = place.xp, typed("warm_start", x, REAL - BOOLEAN, f"be {kinds}")
    if array.ndim < 1 or array.shape[-1] != shape[-1]:
        raise ValueError(
            f"`warm_start` has a {field} of shape {array.shape}, but it must have shape {shape} "
            "(leading dimensions broadcast)."
        )
    array = xp.asarray(array)
    if jnp.issubdtype(dtype, jnp.integer):
        limit = 2.0 ** (8 * dtype.itemsize - 2)
        wide = array.astype(result_float())
        array = xp.where((wide > -limit) & (wide < limit), array, xp.zeros_like(array))
    try:
        array = xp.broadcast_to(array.astype(dtype), shape)
    except ValueError:
        raise ValueError(
            f"`warm_start` has a {field} of shape {array.shape}, which does not broadcast to "
            f"{shape}."
        ) from None
    return array if place.native else lax.stop_gradient(array)
