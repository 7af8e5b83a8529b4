"""Assignment problems in which both rows and columns may stay unmatched, each at its own cost.

They are capacities of one unit: a dummy column takes the rows that stay, and a dummy row the
columns. Nothing is subtracted from costs, so nothing is rounded.
"""

from __future__ import annotations

from typing import Any

from jaxmatch._assignment.capacity_problem import as_capacity_problem
from jaxmatch._assignment.capacity_solve import solve_compiled, solve_on_host
from jaxmatch._assignment.gated import as_assignment_of_units
from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.place import place_of
from jaxmatch._common.result import Assignment, CapacitatedAssignment
from jaxmatch._common.typing import ArrayLike


_METHODS = ("auto", "xla")


def solve_both_sides(
    cost: ArrayLike,
    *,
    maximize: bool,
    method: str,
    duals: Any,
    unsupported: dict[str, Any],
    **given: ArrayLike | None,
) -> Assignment:
    """`given`: masks and both unmatched costs. `unsupported`: options that must not be given."""
    check_name("method", method, _METHODS)
    for name, x in unsupported.items():
        if x is not None:
            raise ValueError(
                f"`{name}` does not go with `unmatched_col_cost`; leave one of them out."
            )
    cost = as_given("cost", cost)
    *arrays, duals = all_given(**given, warm_start=duals)
    options = ("both sides", maximize, method)
    place = place_of(cost, *arrays, duals, options=options, native=method != "xla")
    with place.precision():
        named = dict(zip(given, arrays, strict=True))
        problem = as_capacity_problem(cost, None, None, None, **named, col_dual=duals, place=place)
        if place.native:
            res = solve_on_host(problem, maximize=maximize, as_plan=False)
        else:
            res = solve_compiled(problem, maximize=maximize, method=method, as_plan=False)
        assert isinstance(res, CapacitatedAssignment)
        m = problem.transport.demand.shape[-1]
        return place.bring_home(as_assignment_of_units(res, m))
