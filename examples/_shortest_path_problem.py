"""Of the shortest-path example: grid, data, and an oracle that finds paths by assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from jaxmatch.estimators import LinearOracle, Solution


if TYPE_CHECKING:
    from jaxtyping import Array, Float

SIDE = 5
NUM_NODES = SIDE**2  # numbered row by row; paths go from the first to the last
_STEPS = {(u, u + 1) for u in range(NUM_NODES) if (u + 1) % SIDE}  # to the right
_STEPS |= {(u, u + SIDE) for u in range(NUM_NODES - SIDE)}  # down
ARCS = sorted(_STEPS, key=lambda arc: (arc[0] // SIDE, arc[1] // SIDE, arc))  # as PyEPO's are
SENDERS, RECEIVERS = np.array(ARCS).T
NUM_ARCS = len(ARCS)
NUM_FEATURES = 5


# ---------------------------------------------------------------------------------------------
# A path as an assignment


def as_assignment(arc_cost: Float[Array, "... arcs"]) -> Float[Array, "... 24 24"]:
    """Costs of an assignment problem whose solutions are the paths.

    Each node but the sink is a row and is matched to the node that comes next; each node but the
    source is a column. A node that is not on the path comes after itself, for nothing. Without
    cycles, whatever their sign, the least assignment is the least path.
    """
    between = np.arange(1, NUM_NODES - 1)
    size = NUM_NODES - 1
    cost = jnp.full((*arc_cost.shape[:-1], size, size), jnp.inf, arc_cost.dtype)
    cost = cost.at[..., between, between - 1].set(0)
    return cost.at[..., SENDERS, RECEIVERS - 1].set(arc_cost)


def _find_path(data: Any, arc_cost: Array, start: Any) -> Solution:
    del data
    res = jm.solve_assignment(as_assignment(arc_cost), warm_start=start)
    path = res.col4row[..., SENDERS] == RECEIVERS - 1
    return Solution(path.astype(arc_cost.dtype), res.status == jm.Status.OPTIMAL, res.col_dual)


def _without_potentials(data: Any, direction: Array) -> Array:
    """What all paths pay alike is a difference of potentials of an arc's ends: leave that out."""
    del data
    return direction @ _PROJECTION.astype(direction.dtype)


_INCIDENCE = np.eye(NUM_NODES)[RECEIVERS] - np.eye(NUM_NODES)[SENDERS]
_PROJECTION = np.eye(NUM_ARCS) - _INCIDENCE @ np.linalg.pinv(_INCIDENCE)

# Noise and steps of the gradient rules are on the costs of arcs, so an arc's cost is what the
# oracle takes, not an entry of the matrix. The duals of one solve are where the next one starts.
PATHS = LinearOracle((), _find_path, core_dims=1, project=_without_potentials)


# ---------------------------------------------------------------------------------------------
# Data


class Examples(NamedTuple):
    features: Float[Array, "n features"]
    cost: Float[Array, "n arcs"]
    path: Float[Array, "n arcs"]  # the shortest
    value: Float[Array, " n"]  # what it costs


class Split(NamedTuple):
    train: Examples
    test: Examples


def make_examples(
    seed: int, count: int, degree: int = 4, half_width: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Features and costs: a polynomial of features, of which each arc sees some, times noise.

    The data of Elmachtoub and Grigas (*Smart "predict, then optimize"*, 2022, section 6.1) with the
    constants, and drawn in the order, of PyEPO's `shortestpath.genData`: the same numbers.
    """
    rng = np.random.RandomState(seed)
    sees = rng.binomial(1, 0.5, (NUM_ARCS, NUM_FEATURES))
    features = rng.normal(0, 1, (count, NUM_FEATURES))
    polynomial = (features @ sees.T / np.sqrt(NUM_FEATURES) + 3) ** degree + 1
    noise = rng.uniform(1 - half_width, 1 + half_width, (count, NUM_ARCS))
    return features.astype(np.float32), (polynomial / 3.5**degree * noise).astype(np.float32)


def make_split(seed: int, train: int = 1000, test: int = 1000) -> Split:
    """Training and test examples with their shortest paths; the split is that of PyEPO's notebook.

    Values are summed in float64, and then rounded.
    """
    features, cost = make_examples(seed, train + test)
    order = np.random.RandomState(42).permutation(train + test)
    path = np.asarray(PATHS.solve(jnp.asarray(cost)).y)
    value = (cost.astype(np.float64) * path).sum(-1).astype(np.float32)
    arrays = features, cost, path, value
    parts = order[test:], order[:test]
    return Split(*(Examples(*(jnp.asarray(x[part]) for x in arrays)) for part in parts))
