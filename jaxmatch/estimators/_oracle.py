"""Linear oracles: solvers that minimise a linear function over a finite set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import last_iota
from jaxmatch._common.registered import registered_tuple
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._flow.network import FlowNetwork
from jaxmatch.estimators._equality import EqualByValue


@registered_tuple
class Solution(NamedTuple):
    """The result of an oracle.

    `y` has the shape of the costs and is 0 where `solved` is False. `warm_start` can be passed to a
    solve of similar costs. For assignments, `columns` is the column of each row, −1 for none.
    """

    y: Float[Array, "..."]
    solved: Bool[Array, "..."]
    warm_start: Any = None
    columns: Int[Array, "... n"] | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class LinearOracle(EqualByValue):
    """A solver of `argmin_y <cost, y>` over a finite set, with leading batch dimensions.

    [`assignment_oracle`][jaxmatch.estimators.assignment_oracle],
    [`cut_oracle`][jaxmatch.estimators.cut_oracle] and
    [`labelling_oracle`][jaxmatch.estimators.labelling_oracle] make oracles.
    [`oracle_of`][jaxmatch.estimators.oracle_of] makes one from any jittable function. An oracle is
    a pytree: `data` may be traced.

    - `data`: arrays of the problem. No gradient flows to them.
    - `find(data, cost, warm_start)`: returns a [`Solution`][jaxmatch.estimators.Solution];
      `warm_start` is None, or the `warm_start` of an earlier solution.
    - `core_dims`: the number of trailing dimensions of the costs that form one problem.
    - `project(data, direction)`: removes the part of a direction that changes no solution. None:
      no such part is known.
    - `sanitize(data, cost)`: sets the costs of masked entries to 0. None: there are no masks.
    - `extra_objective(data, y)`: a term of the objective besides `<cost, y>`. None: there is no
      such term.
    - `assignments`: for oracles of assignments, the object that solves them and stores solutions as
      the column of each row. None: for all other oracles.
    """

    data: Any
    find: Callable[[Any, Array, Any], Solution] = dataclasses.field(metadata={"static": True})
    core_dims: int = dataclasses.field(metadata={"static": True})
    project: Callable[[Any, Array], Array] | None = dataclasses.field(
        default=None, metadata={"static": True}
    )
    sanitize: Callable[[Any, Array], Array] | None = dataclasses.field(
        default=None, metadata={"static": True}
    )
    extra_objective: Callable[[Any, Array], Array] | None = dataclasses.field(
        default=None, metadata={"static": True}
    )
    assignments: Any = dataclasses.field(default=None, metadata={"static": True})

    @unchecked
    def convert_closures(self, cost: Array) -> LinearOracle:
        """Moves into `data` all arrays that a user's solver closes over.

        A gradient rule must not close over a tracer with respect to which JAX differentiates.
        """
        if not isinstance(self.find, _FindByCall):
            return self
        solve, constants = jax.closure_convert(self.find.solve, cost, *self.data)
        find = dataclasses.replace(self.find, solve=solve)
        return dataclasses.replace(self, find=find, data=(*self.data, *constants))

    @unchecked
    @outside_of_jit("cost", whole=False)
    def solve(self, cost: Num[Array, "..."], warm_start: Any = None) -> Solution:
        """The solution for the costs, without gradient."""
        data, cost, warm_start = lax.stop_gradient((self.data, cost, warm_start))
        found = self.find(data, cost, warm_start)
        if found.columns is not None:
            columns = jnp.where(found.solved[..., None], found.columns, -1)
            return found._replace(y=_matrix(columns, cost), columns=columns)
        solved = self.per_problem(found.solved)
        return found._replace(y=jnp.where(solved, found.y, 0).astype(cost.dtype))

    def per_problem(self, x: ArrayLike) -> Array:
        """Reshapes one number per problem so that it broadcasts against the costs."""
        x = jnp.asarray(x)
        return x.reshape(x.shape + (1,) * self.core_dims) if x.ndim else x

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions of one problem, counted from the end."""
        return tuple(range(-self.core_dims, 0))

    @unchecked
    def dot(self, x: Array, y: Array) -> Float[Array, "..."]:
        """`<x, y>` of each problem. Entries with y = 0 count as 0, even if x is infinite there."""
        product = jnp.where(y == 0, 0, x * jnp.where(y == 0, 0, y))
        return product.sum(self.axes)

    @unchecked
    def objective(self, cost: Array, y: Array) -> Float[Array, "..."]:
        """The objective that the solver minimises."""
        linear = self.dot(cost, y)
        return (
            linear if self.extra_objective is None else linear + self.extra_objective(self.data, y)
        )

    @unchecked
    def better(self, cost: Array, found: Solution, other: Solution) -> Solution:
        """The cheaper of two solutions, or `found` if they cost the same."""
        if found.columns is None or other.columns is None:
            stays = self.objective(cost, found.y) <= self.objective(cost, other.y)
            return other._replace(y=jnp.where(self.per_problem(stays), found.y, other.y))
        stays = _cost_of(cost, found.columns) <= _cost_of(cost, other.columns)
        columns = jnp.where(stays[..., None], found.columns, other.columns)
        return other._replace(y=_matrix(columns, cost), columns=columns)


@unchecked
def oracle_of(solve: Callable[[Array], Array], core_dims: int) -> LinearOracle:
    """Make an oracle from your own solver.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> from jaxmatch import estimators
    >>> choose = lambda cost: jax.nn.one_hot(cost.argmin(-1), cost.shape[-1])
    >>> oracle = estimators.oracle_of(choose, core_dims=1)
    >>> oracle.solve(jnp.array([3.0, 1.0, 2.0])).y
    Array([0., 1., 0.], dtype=float32)

    **Arguments:**

    - `solve`: a function of costs `[..., *problem]` that JAX can trace. It returns the minimiser,
      in the same shape. If it returns a NaN anywhere in a problem, this problem counts as not
      solved: its solution is 0, without gradient.
    - `core_dims`: the number of trailing dimensions that form one problem.
    """

    return LinearOracle((), _FindByCall(solve, core_dims), core_dims)


@dataclasses.dataclass(frozen=True)
class _FindByCall:
    solve: Callable[..., Array]
    core_dims: int

    def __call__(self, data: Any, cost: Array, warm_start: None) -> Solution:
        del warm_start
        y = jnp.asarray(self.solve(cost, *data))
        if y.shape != cost.shape:
            raise ValueError(
                f"The solver returned shape {y.shape} for costs {cost.shape}; it must return the "
                "minimiser in the shape of the costs."
            )
        nan = jnp.isnan(y).any(tuple(range(-self.core_dims, 0)))
        return Solution(y, ~nan)


# ---------------------------------------------------------------------------------------------
# Assignments


@unchecked
def assignment_oracle(
    *,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    may_stay_unmatched: bool = False,
) -> LinearOracle:
    """Make an oracle whose solutions are assignments, as 0-1 matrices, for costs `[..., n, m]`.

    With `may_stay_unmatched` costs and solutions are `[..., n, m + 1]`. Their last column stands
    for leaving a row unmatched.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> jm.estimators.assignment_oracle().solve(jnp.array([[4.0, 1.0], [2.0, 0.5]])).y
    Array([[0., 1.],
           [1., 0.]], dtype=float32)

    - `row_mask`, `col_mask`: `bool[..., n]`, `bool[..., m]`; False: the row or column is absent.
    """
    data = tuple(None if x is None else jnp.asarray(x, bool) for x in (row_mask, col_mask))
    find = _find_unmatched if may_stay_unmatched else _find_assignment
    project = _center_rows if may_stay_unmatched else _center_twice
    sanitize = _sanitize_unmatched if may_stay_unmatched else _sanitize_assignment
    columns = Columns(may_stay_unmatched)
    return LinearOracle(data, find, 2, project, sanitize, assignments=columns)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Solves assignments and stores them as the column of each row.

    With `may_leave` the last column of the costs stands for leaving a row unmatched.
    """

    may_leave: bool

    def solve(self, masks: Any, cost: Array, warm_start: Any = None) -> Assignment:
        """Solves a problem. With `may_leave`, `col4row` of an unmatched row is the last column."""
        from jaxmatch._assignment.solve import solve_assignment

        row_mask, col_mask = masks
        solve = partial(
            solve_assignment, row_mask=row_mask, col_mask=col_mask, warm_start=warm_start
        )
        if not self.may_leave:
            return solve(cost)
        res = solve(cost[..., :-1], unmatched_cost=cost[..., -1])
        alone = (res.col4row < 0) & (res.status == Status.OPTIMAL)[..., None]
        if row_mask is not None:
            alone = alone & row_mask
        return res.replace(col4row=jnp.where(alone, cost.shape[-1] - 1, res.col4row))


def _find_assignment(masks: Any, cost: Array, warm_start: Any) -> Solution:
    return _find(Columns(False), masks, cost, warm_start)


def _find_unmatched(masks: Any, cost: Array, warm_start: Any) -> Solution:
    return _find(Columns(True), masks, cost, warm_start)


def _find(columns: Columns, masks: Any, cost: Array, warm_start: Any) -> Solution:
    res = columns.solve(masks, cost, warm_start)
    y = _matrix(res.col4row, cost)
    return Solution(y, res.status == Status.OPTIMAL, res.col_dual, res.col4row)


def _matrix(columns: Array, like: Array) -> Float[Array, "... n m"]:
    chosen = columns[..., None] == last_iota(columns.dtype, like.shape[-1], columns.ndim + 1)
    return chosen.astype(like.dtype)


def _cost_of(cost: Array, columns: Array) -> Float[Array, "..."]:
    each = jnp.take_along_axis(cost, jnp.maximum(columns, 0)[..., None], -1)[..., 0]
    return jnp.where(columns < 0, 0, each).sum(-1)


def _exists(masks: Any, x: Array, extra: int = 0) -> Bool[Array, "... n m"]:
    row_mask, col_mask = masks
    exists = jnp.ones((), bool)
    if row_mask is not None:
        exists = exists & row_mask[..., :, None]
    if col_mask is not None:
        more = jnp.ones((*col_mask.shape[:-1], extra), bool)
        exists = exists & jnp.concatenate([col_mask, more], -1)[..., None, :]
    return jnp.broadcast_to(exists, x.shape)


def _sanitize_assignment(masks: Any, cost: Array) -> Array:
    return jnp.where(_exists(masks, cost), cost, 0)


def _sanitize_unmatched(masks: Any, cost: Array) -> Array:
    return jnp.where(_exists(masks, cost, 1), cost, 0)


def _center_twice(masks: Any, x: Array) -> Array:
    """The projection of Sahoo et al. (ICLR 2023), section 3.2, for assignments.

    Subtracts the mean of each row if all rows are matched, then the mean of each column if all
    columns are matched.
    """
    exists = _exists(masks, x)
    x = jnp.where(exists, x, 0)
    rows, cols = exists.any(-1).sum(-1), exists.any(-2).sum(-1)
    by_row = x.sum(-1, keepdims=True) / jnp.maximum(cols, 1)[..., None, None].astype(x.dtype)
    x = jnp.where((rows <= cols)[..., None, None], x - by_row, x)
    x = jnp.where(exists, x, 0)
    by_col = x.sum(-2, keepdims=True) / jnp.maximum(rows, 1)[..., None, None].astype(x.dtype)
    x = jnp.where((cols <= rows)[..., None, None], x - by_col, x)
    return jnp.where(exists, x, 0)


def _center_rows(masks: Any, x: Array) -> Array:
    """Subtracts the mean of each row. No solution changes, as all rows of a solution sum to 1."""
    exists = _exists(masks, x, 1)
    x = jnp.where(exists, x, 0)
    count = jnp.maximum(exists.sum(-1, keepdims=True), 1).astype(x.dtype)
    mean = x.sum(-1, keepdims=True) / count
    return jnp.where(exists, x - mean, 0)


# ---------------------------------------------------------------------------------------------
# Cuts


@unchecked
def cut_oracle(network: FlowNetwork, source: ArrayLike, sink: ArrayLike) -> LinearOracle:
    """Make an oracle of minimum cuts for capacities `[..., num_edges]`.

    Its solutions are 1 for edges of the cut and 0 for all other edges. A capacity that becomes
    negative, by noise or by a step, counts as 0.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], num_nodes=3)
    >>> jm.estimators.cut_oracle(network, 0, 2).solve(jnp.array([1.0, 2.0, 3.0])).y
    Array([1., 1., 0.], dtype=float32)
    """
    return LinearOracle((network, jnp.asarray(source), jnp.asarray(sink)), _find_cut, 1)


def _find_cut(data: Any, cost: Array, warm_start: None) -> Solution:
    from jaxmatch._flow.solve import edges_across, minimum_cut

    del warm_start
    network, source, sink = data
    cut = minimum_cut(network, jnp.where(cost < 0, 0, cost), source, sink)
    in_cut = edges_across(network, cut.source_side)
    return Solution(in_cut.astype(cost.dtype), cut.status == Status.OPTIMAL)


@unchecked
def labelling_oracle(pairwise: ArrayLike, *, connectivity: int | None = None) -> LinearOracle:
    """Make an oracle of 0-1 labellings x of a grid that minimise `<cost, x> + smoothness(x)`.

    `cost` is `[..., h, w]` (`[..., d, h, w]` with connectivity 6, 18 or 26), the cost of label 1
    minus the cost of label 0, of either sign. `pairwise` is the cost of different labels at
    neighbouring cells. `pairwise` and `connectivity` are as in [`grid_cut`][jaxmatch.grid_cut].

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> oracle = jm.estimators.labelling_oracle(jnp.full((2, 1, 3), 2.0))
    >>> oracle.solve(jnp.array([[-3.0, 1.0, -3.0]])).y  # smoothness outvotes the middle
    Array([[1., 1., 1.]], dtype=float32)

    The smoothness is part of `oracle.objective`, but not of `oracle.dot`.
    """
    from jaxmatch._grid_cut.solve import as_connectivity, rank_of

    dims = rank_of(as_connectivity(connectivity))
    pairwise = as_array("pairwise", pairwise)
    if pairwise.ndim <= dims:
        raise ValueError(
            f"`pairwise` must have shape [..., k{', d' if dims == 3 else ''}, h, w], got "
            f"{[*pairwise.shape]}."
        )
    find, smoothness = _FindLabelling(connectivity), _Smoothness(connectivity)
    return LinearOracle(pairwise, find, dims, extra_objective=smoothness)


@dataclasses.dataclass(frozen=True)
class _FindLabelling:
    connectivity: int | None

    def __call__(self, pairwise: Array, cost: Array, warm_start: None) -> Solution:
        from jaxmatch._grid_cut.solve import grid_cut

        del warm_start
        # Cells on the source side get label 1. The cut then contains their arc to the sink.
        source, sink = jnp.maximum(-cost, 0), jnp.maximum(cost, 0)
        pairwise = pairwise.astype(cost.dtype)
        cut = grid_cut(source, sink, pairwise, connectivity=self.connectivity)
        return Solution(cut.source_side.astype(cost.dtype), cut.status == Status.OPTIMAL)


@dataclasses.dataclass(frozen=True)
class _Smoothness:
    """The total cost of all pairs of neighbours that have different labels."""

    connectivity: int | None

    def __call__(self, pairwise: Array, y: Array) -> Float[Array, "..."]:
        from jaxmatch._grid_cut.solve import as_connectivity, cut_arcs, rank_of

        connectivity = as_connectivity(self.connectivity)
        rank = rank_of(connectivity)
        crosses = cut_arcs(y > 0.5, pairwise.shape[-rank - 1], connectivity)
        each = jnp.where(crosses, pairwise.astype(y.dtype), 0)
        return each.sum(tuple(range(-rank - 1, 0)))
