"""The cheapest of the assignments with most pairs: a sparse problem whose graph has all pairs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.arguments import check_name
from jaxmatch._common.cost_arguments import as_cost
from jaxmatch._common.given import as_given
from jaxmatch._common.place import Place, place_of
from jaxmatch._common.result import Assignment
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.check import check_sparse_assignment
from jaxmatch._sparse_assignment.problem import CARDINALITIES
from jaxmatch._sparse_assignment.solve import solve_sparse_assignment


METHODS = ("auto", "xla")


def is_maximum(cardinality: str, unsupported: dict[str, Any]) -> bool:
    """Whether the result needs as many pairs as possible. `unsupported`: what must then be None."""
    check_name("cardinality", cardinality, CARDINALITIES)
    if cardinality == "full":
        return False
    for name, x in unsupported.items():
        if x is not None:
            raise ValueError(
                f'`{name}` does not go with cardinality="maximum"; leave one of them out.'
            )
    return True


def solve_maximum(cost: ArrayLike, *, method: str, warm_start: Any, **options: Any) -> Assignment:
    """`options`: masks and `maximize`."""
    check_name("method", method, METHODS)
    cost = as_given("cost", cost)
    masks = [x for x in (options["row_mask"], options["col_mask"], warm_start) if x is not None]
    place = place_of(cost, *masks, options=("maximum", method), native=method != "xla")
    options |= {"warm_start": warm_start, "method": method, "cardinality": "maximum"}
    with place.precision():
        graph, costs = _edges(cost, place)
        return place.bring_home(solve_sparse_assignment(graph, costs, **options))


def check_maximum(cost: ArrayLike, result: Assignment, place: Place, **options: Any) -> Any:
    graph, costs = _edges(cost, place)
    check = check_sparse_assignment(graph, costs, result, cardinality="maximum", **options)
    assert isinstance(check, AssignmentCheck)
    return check


def _edges(cost: ArrayLike, place: Place) -> tuple[BipartiteGraph, Array]:
    """The graph of all pairs, and the costs in the order of its edges."""
    cost = as_cost(cost, place, symbolic=False)
    xp, (*batch, n, m) = place.xp, cost.shape
    if n * m >= 2**31 - 2048:
        raise ValueError(
            f'a problem with cardinality="maximum" must have fewer than 2^31 - 2048 pairs, got {n} '
            f"rows and {m} columns; `solve_sparse_assignment` takes the pairs that exist."
        )

    def ends(one: int, other: int) -> tuple[Array, Array]:
        index = xp.arange(one * other, dtype=jnp.int32)
        return xp.arange(one + 1, dtype=jnp.int32) * other, index % max(other, 1)

    (row_ptr, col_ind), (col_ptr, row_ind) = ends(n, m), ends(m, n)
    sides = (xp.asarray(k, jnp.int32) for k in (n, m))
    graph = BipartiteGraph(row_ptr, col_ind, col_ptr, row_ind, *sides)
    return graph, cost.reshape(*batch, n * m)
