"""Calls outside of a trace that are solved directly on this host: nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import numpy as np

from jaxmatch._assignment import native_large
from jaxmatch._assignment_points import levels
from jaxmatch._assignment_points.native import points_assignment
from jaxmatch._assignment_points.near_both import by_edges_on_host
from jaxmatch._assignment_points.near_points import near_on_host
from jaxmatch._assignment_points.near_problem import as_near_problem
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.distances import Metric, as_point_sets, directions
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.place import BY_JAX, NEVER_COMPILED, Place, place_of
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._sparse_assignment.problem import CARDINALITIES


F = TypeVar("F", bound=Callable[..., Any])

_OF_NEAR = frozenset(
    [
        "metric",
        "radius",
        "unmatched_cost",
        "unmatched_col_cost",
        "cardinality",
        "row_mask",
        "col_mask",
        "method",
        "max_pairs",
    ]
)
_OF_LEVELS = frozenset(["metric", "method"])


def radius_on_host(function: F) -> F:
    """Decorator: solves problems with a radius directly on this host."""

    @wraps(function)
    def call(x: ArrayLike, y: ArrayLike, **options: Any) -> Any:
        if options.get("radius") is not None:
            given = _given(options)
            if given.keys() <= _OF_NEAR and given.get("method", "auto") == "auto":
                res = _solve_near(x, y, **given)
                if res is not None:
                    return res
        return function(x, y, **options)

    return call  # type: ignore[return-value]


def levels_on_host(function: F) -> F:
    """Decorator: solves problems by levels directly on this host.

    No number of calls compiles them, as a program may choose others among ties.
    """

    @wraps(function)
    def call(x: ArrayLike, y: ArrayLike, **options: Any) -> Any:
        given = _given(options)
        if given.keys() <= _OF_LEVELS and given.get("method", "auto") in ("auto", levels.NAME):
            res = _solve_by_levels(x, y, **given)
            if res is not None:
                return res
        return function(x, y, **options)

    return call  # type: ignore[return-value]


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults."""

    def is_default(name: str, x: Any) -> bool:
        if name == "cardinality":  # without a radius all pairs exist
            return x == "full" or (x == "maximum" and options.get("radius") is None)
        is_false = isinstance(x, bool | np.bool_) and not x
        return name not in ("metric", "method") and (x is None or is_false)

    return {name: x for name, x in options.items() if not is_default(name, x)}


def as_directed_sets(
    x: ArrayLike, y: ArrayLike, metric: str, place: Place = BY_JAX
) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Points of one dtype; unit vectors for the cosine."""
    rows, cols = as_point_sets(x, y, metric, "solve_assignment", place)
    return (directions(rows), directions(cols)) if metric == "cosine" else (rows, cols)


def _solve_near(
    x: ArrayLike,
    y: ArrayLike,
    radius: ArrayLike,
    metric: Metric = "sqeuclidean",
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
    max_pairs: int | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    cardinality: str = "full",
) -> Assignment | None:
    """Like `solve_assignment_points`, but returns None where JAX must solve the problem."""
    del method
    check_name("cardinality", cardinality, CARDINALITIES)
    given = all_given(
        radius=radius,
        unmatched_cost=unmatched_cost,
        row_mask=row_mask,
        col_mask=col_mask,
        unmatched_col_cost=unmatched_col_cost,
    )
    by_edges = cardinality == "maximum" or unmatched_col_cost is not None
    x, y = as_given("x", x), as_given("y", y)
    # A program stores the matrix of all pairs, so no number of calls compiles one.
    options = NEVER_COMPILED if by_edges else ("near", metric)
    place = place_of(x, y, *given, options=options)
    if not place.native:
        return None
    if max_pairs is not None:
        as_count("max_pairs", max_pairs)
    with place.precision():
        rows, cols = as_directed_sets(x, y, metric, place)
        problem = as_near_problem(rows, cols, *given, cardinality=cardinality, place=place)
        if not by_edges:
            return place.bring_home(near_on_host(problem, metric))
        problem = jax.tree.map(np.asarray, problem)
        with np.errstate(all="ignore"):
            return place.bring_home(by_edges_on_host(problem, metric, cardinality))


@unchecked
def _solve_by_levels(
    x: ArrayLike, y: ArrayLike, metric: Metric = "sqeuclidean", method: str = "auto"
) -> Assignment | None:
    """Like `_solve_near`. Also returns None for problems that levels do not take or help."""
    x, y = as_given("x", x), as_given("y", y)
    place = place_of(x, y, options=NEVER_COMPILED)
    if not place.native or np.ndim(x) != 2 or np.ndim(y) != 2:
        return None
    sides, dims = (np.shape(x)[0], np.shape(y)[0]), np.shape(x)[1]
    is_long = max(sides) > native_large.longest_side()
    takes = levels.pay(*sides, dims, "cpu") or method == levels.NAME or is_long
    if not (takes and levels.fit(*sides, dims)):
        return None
    with place.precision(), np.errstate(all="ignore"):
        rows, cols = as_directed_sets(x, y, metric, place)
        res, solved = levels.solve(rows, cols, metric=metric, platform="cpu")
        if is_long:
            res = levels.with_status(res, solved)
        elif not solved:
            points = rows.T, cols.T
            res = points_assignment(points, None, None, metric=metric, maximize=False)
        return place.bring_home(jax.tree.map(np.asarray, res))
