"""The results of solvers: dataclasses of arrays, registered as pytrees."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.registered import registered
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


def result_float() -> jnp.dtype:
    """The dtype of costs, duals and gaps: float64 if x64 is on in this context, else float32."""
    return jax.dtypes.canonicalize_dtype(float)


class Batched(abc.ABC):
    """Base of dataclasses whose fields share leading batch dimensions."""

    # Because of `__getitem__`, Python would let users iterate over problems, but in `a, b = result`
    # they expect fields. So iteration is an error unless a class defines it.
    __iter__: Any = None

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """The leading dimensions that all fields share; () for a single problem."""

    @unchecked
    def __getitem__(self, index: Any) -> Self:
        """Problem `index` of a batch: indexes the batch dimensions of every field."""
        index = _checked_index(index, self.batch_shape, type(self).__name__)
        rank = len(self.batch_shape)
        fields: Any = self.__dict__
        return type(self)(
            **{name: x[(*index, *[slice(None)] * (x.ndim - rank))] for name, x in fields.items()}
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with changed fields."""
        return type(self)(**(self.__dict__ | changes))


def _checked_index(index: Any, batch_shape: tuple[int, ...], name: str) -> tuple[Any, ...]:
    """An index as a tuple with an ellipsis.

    NumPy checks that the index is in range, because JAX would clamp it.
    """
    if not batch_shape:
        raise IndexError(
            f"This {name} is one problem and has no batch dimension to index; its fields are "
            "attributes."
        )
    index = index if isinstance(index, tuple) else (index,)
    known = tuple(
        np.zeros(i.shape, i.dtype) if isinstance(i, jax.core.Tracer) else i for i in index
    )
    try:
        np.broadcast_to(np.int8(0), batch_shape)[known]
    except IndexError as error:
        raise IndexError(f"This {name} has the batch shape {batch_shape}: {error}.") from None
    return index if any(i is Ellipsis for i in index) else (*index, Ellipsis)


class Result(Batched):
    """Base of the results of solvers."""

    status: Int[Array, "..."]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading dimensions that all fields share; () for a single problem."""
        return self.status.shape

    @unchecked
    def raise_for_status(self) -> Self:
        """Return this result if every status is `OPTIMAL`, else raise an error.

        >>> import jax, jax.numpy as jnp, jaxmatch as jm
        >>> cost = jnp.array([[1.0, 2.0], [jnp.nan, 4.0]])
        >>> float(jm.solve_assignment(cost[:, 1:]).raise_for_status().cost)
        2.0
        >>> jm.solve_assignment(cost).raise_for_status()
        Traceback (most recent call last):
        ValueError: INVALID_COST: An unmasked cost is NaN, or ...

        A compiled function cannot raise. Use `checkify` to carry an error out of it:

        >>> from jax.experimental import checkify
        >>> def least(cost):
        ...     res = jm.solve_assignment(cost)
        ...     optimal = (res.status == jm.Status.OPTIMAL).all()
        ...     checkify.check(optimal, "status {}", res.status)
        ...     return res.cost
        >>> error, value = jax.jit(checkify.checkify(least))(cost)
        >>> error.get()
        'status 2 ...

        **Raises:** `ValueError` with the status, the batch index and the advice of the first
        problem that is not `OPTIMAL` (also for `TIME_LIMIT`); `TypeError` under `jit`, `vmap` or
        `grad`.
        """
        if isinstance(self.status, jax.core.Tracer):
            raise TypeError(
                "`raise_for_status` was called under `jit`, `vmap` or `grad`, where no status is "
                "known: look at `status` there, as an array, or call it on what the compiled "
                "function returns. `jax.experimental.checkify` carries an error out of one."
            )
        if (failed := first_failure(self.status)) is not None:
            status, where = failed
            raise ValueError(f"{status}{where}: {status.advice}{self._details()}")
        return self

    def _details(self) -> str:
        """Details of the first failure, for the end of the error message."""
        return ""


def difference_of(res: Any) -> str:
    """By how much masses are out of balance, if that is the first failure; `gap` holds it."""
    codes = np.asarray(res.status)
    first = tuple(np.argwhere(codes)[0])
    if codes[first] != Status.UNBALANCED:
        return ""
    return f" The difference is {np.asarray(res.gap)[first]:.6g}."


def first_failure(status: Array) -> tuple[Status, str] | None:
    """The first status that is not `OPTIMAL`, and its batch index in words."""
    codes = np.asarray(status)
    if not codes.any():
        return None
    index = tuple(np.argwhere(codes)[0].tolist())
    number = index[0] if len(index) == 1 else index
    return Status(int(codes[index])), f" (problem {number} of the batch)" if index else ""


class Check(Batched):
    """Base of the results of checks."""

    valid: Bool[Array, "..."]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading dimensions that all fields share; () for a single problem."""
        return self.valid.shape


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Assignment(Result):
    """The result of [`solve_assignment`][jaxmatch.solve_assignment]; leading `...` is batch.

    `res[k]` is problem k of a batch.

    - `col4row`: `i32[..., n]`, the column of each row, −1 where unmatched.
    - `row4col`: `i32[..., m]`, the row of each column, −1 where unmatched.
    - `cost`: `f[...]`, the total cost, unmatched ones included; the only field with a gradient.
      It is ±inf only if the sum overflows its dtype.
    - `row_dual`, `col_dual`: `f[..., n]`, `f[..., m]`, the dual variables that prove the optimum.
    - `gap`: `f[...]`, a proved bound on cost − optimum, before `cost` is rounded to its dtype. It
      is +inf if the bound overflows its dtype, which happens only near the limits of float64.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, indices are −1 and all numbers NaN. There are two exceptions:
    `TIME_LIMIT` comes with a complete answer and its gap (the gradient is 0), and `UNFINISHED` with
    the pairs found so far.
    """

    col4row: Int[Array, "... n"]
    row4col: Int[Array, "... m"]
    cost: Float[Array, "..."]
    row_dual: Float[Array, "... n"]
    col_dual: Float[Array, "... m"]
    gap: Float[Array, "..."]
    status: Int[Array, "..."]

    @staticmethod
    @unchecked
    def empty(shape: tuple[int, ...]) -> Assignment:
        """An unsolved result for costs of `shape` `[..., n, m]`: the first warm start of a `scan`.

        >>> import jax, jax.numpy as jnp, jaxmatch as jm
        >>> def step(last, cost):
        ...     res = jm.solve_assignment(cost, warm_start=last)
        ...     return res, res.cost
        >>> costs = jnp.stack([jnp.eye(3), 2 * jnp.eye(3)])
        >>> jax.lax.scan(step, jm.Assignment.empty((3, 3)), costs)[1]
        Array([0., 0.], dtype=float32)
        """
        *batch, n, m = shape
        nan = jnp.full(tuple(batch), jnp.nan, result_float())
        return Assignment(
            col4row=jnp.full((*batch, n), -1, jnp.int32),
            row4col=jnp.full((*batch, m), -1, jnp.int32),
            cost=nan,
            row_dual=jnp.full((*batch, n), jnp.nan, result_float()),
            col_dual=jnp.full((*batch, m), jnp.nan, result_float()),
            gap=nan,
            status=jnp.full(tuple(batch), Status.UNFINISHED, jnp.int32),
        )


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class CapacitatedAssignment(Result):
    """The result of [`solve_capacitated_assignment`][jaxmatch.solve_capacitated_assignment].

    Leading `...` is batch; `res[k]` is problem k of it.

    - `col4row`: `i32[..., n]`, the column of each row, −1 where unmatched.
    - `col_count`: `i32[..., m]`, the number of rows that each column is matched to.
    - `cost`: `f[...]`, the total cost, unmatched ones included; the only field with a gradient.
    - `row_dual`, `col_dual`: `f[..., n]`, `f[..., m]`, the dual variables that prove the optimum.
    - `gap`: `f[...]`, a proved bound on cost − optimum, before `cost` is rounded to its dtype.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, indices are −1, counts 0 and all other numbers NaN.

    **Status:** `OPTIMAL`. `INFEASIBLE` if a minimum exceeds the capacity of its column, minima add
    up to more than the capacities of rows, or forbidden pairs leave no assignment.
    `INVALID_CAPACITY` for negative capacities. `INVALID_COST` as in `solve_assignment`. `OVERFLOW`
    if 2^30 or more pairs can be matched, for integer costs as in
    [`solve_transport`][jaxmatch.solve_transport], and with minima also if the greatest minus the
    least integer cost takes 64 bits (32 in `jit` without x64); one bit less with
    `unmatched_col_cost`.

    **Certificate:** u_i + v_j ≤ C_ij, with equality on matched pairs. If not all columns need be
    full, v_j ≤ 0 where column j has more rows than its minimum, and v_j ≥ 0 where it is not full. A
    row that may stay unmatched has u_i ≤ r_i, with equality if it stays unmatched. Here r_i is its
    unmatched cost, or 0 if the columns have too little capacity for all rows. The optimum is the
    sum of all u_i plus, for each column, v_j times its capacity (its minimum, if v_j > 0 and
    columns need not be full). With `unmatched_col_cost` s, v_j − s_j takes the place of v_j in all
    but the first of these, and the optimum is greater by the sum of all s_j times capacities.

    **Gradient:** with respect to `cost`, how often each pair is used; with respect to unmatched
    costs, how many units of each row or column stay unmatched.

    **Time and memory:** an equivalent transport problem is solved. Costs are copied (twice if there
    are minima), and the methods of `solve_transport` may copy them again.
    """

    col4row: Int[Array, "... n"]
    col_count: Int[Array, "... m"]
    cost: Float[Array, "..."]
    row_dual: Float[Array, "... n"]
    col_dual: Float[Array, "... m"]
    gap: Float[Array, "..."]
    status: Int[Array, "..."]

    @staticmethod
    @unchecked
    def empty(shape: tuple[int, ...]) -> CapacitatedAssignment:
        """An unsolved result for costs of `shape` `[..., n, m]`: the first warm start of a `scan`.

        >>> import jax, jax.numpy as jnp, jaxmatch as jm
        >>> def step(last, cost):
        ...     res = jm.solve_capacitated_assignment(cost, col_capacity=2, warm_start=last)
        ...     return res, res.col_count
        >>> costs = jnp.array([[[0, 1], [0, 2], [0, 3]], [[3, 0], [2, 0], [1, 0]]])
        >>> jax.lax.scan(step, jm.CapacitatedAssignment.empty((3, 2)), costs)[1]
        Array([[2, 1],
               [1, 2]], dtype=int32)
        """
        fields = vars(Assignment.empty(shape))
        return CapacitatedAssignment(col_count=fields.pop("row4col") + 1, **fields)


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Transport(Result):
    """The result of [`solve_transport`][jaxmatch.solve_transport]; leading `...` is batch.

    `res[k]` is problem k of a batch. The plan is a basic solution, of at most n + m − 1 entries,
    ordered by row and column. Unused entries follow; they have indices −1 and mass 0.
    `solve_capacitated_assignment` with capacities of rows returns this class, too. If columns have
    minima, its arrays have n + 2m − 1 entries, and the plan is not always basic. With a `limit` for
    each pair they have n·m entries.

    - `rows`, `cols`: `i32[..., n + m - 1]`, the pairs of the plan.
    - `mass`: `[..., n + m - 1]`, the mass moved by each pair, in the dtype of supply and demand.
    - `cost`: `f[...]`, the sum of mass times cost; the only field with a gradient.
    - `row_dual`, `col_dual`: `f[..., n]`, `f[..., m]`, the dual variables that prove the optimum.
    - `gap`: `f[...]`, a proved bound on cost − optimum, before `cost` is rounded to its dtype.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, indices are −1, masses 0 and all other numbers NaN. But the `gap`
    of an `UNBALANCED` problem is the amount by which the sums of its masses differ.
    """

    rows: Int[Array, "... k"]
    cols: Int[Array, "... k"]
    mass: Num[Array, "... k"]
    cost: Float[Array, "..."]
    row_dual: Float[Array, "... n"]
    col_dual: Float[Array, "... m"]
    gap: Float[Array, "..."]
    status: Int[Array, "..."]

    def _details(self) -> str:
        return difference_of(self)

    @staticmethod
    @unchecked
    def empty(shape: tuple[int, ...]) -> Transport:
        """An unsolved result for costs of `shape` `[..., n, m]`: the first warm start of a `scan`.

        Its masses are integers; for floats use `.replace(mass=...)`.

        >>> import jax, jax.numpy as jnp, jaxmatch as jm
        >>> supply, demand = jnp.array([3, 1]), jnp.array([2, 2])
        >>> def step(last, cost):
        ...     res = jm.solve_transport(cost, supply, demand, warm_start=last)
        ...     return res, res.cost
        >>> costs = jnp.array([[[0, 1], [0, 2]], [[3, 0], [2, 0]]])
        >>> jax.lax.scan(step, jm.Transport.empty((2, 2)), costs)[1]
        Array([2., 5.], dtype=float32)
        """
        (*batch, n, m), none = shape, Assignment.empty(shape)
        indices = jnp.full((*batch, max(n + m - 1, 0)), -1, jnp.int32)
        fields = vars(none)
        own = {k: fields[k] for k in ("cost", "row_dual", "col_dual", "gap", "status")}
        return Transport(rows=indices, cols=indices, mass=0 * indices, **own)

    @unchecked
    def todense(self) -> Num[Array, "... n m"]:
        """The plan as `[..., n, m]`: the mass that row i sends to column j.

        >>> import jax.numpy as jnp, jaxmatch as jm
        >>> res = jm.solve_transport(jnp.eye(2), jnp.array([3, 1]), jnp.array([2, 2]))
        >>> res.todense()
        Array([[1, 2],
               [1, 0]], dtype=int32)
        """
        (*batch, n), m = self.row_dual.shape, self.col_dual.shape[-1]
        if isinstance(self.mass, np.ndarray):
            dense = np.zeros((*batch, n * m + 1), self.mass.dtype)  # unused entries go to the last
            flat = self.rows * np.int64(m) + self.cols
            np.put_along_axis(dense, np.where(self.rows < 0, n * m, flat), self.mass, -1)
            return dense[..., :-1].reshape(*batch, n, m)  # type: ignore[return-value]

        def dense_plan(rows: Array, cols: Array, mass: Array) -> Array:
            at = jnp.where(rows < 0, n, rows), cols
            return jnp.zeros((n, m), mass.dtype).at[at].set(mass, mode="drop")

        # Use `vmap`, because it keeps the sharding of a batch.
        for _ in batch:
            dense_plan = jax.vmap(dense_plan)
        return dense_plan(self.rows, self.cols, self.mass)


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Matching(Result):
    """The result of [`maximum_bipartite_matching`][jaxmatch.maximum_bipartite_matching].

    Leading `...` is batch; `res[k]` is problem k of it.

    - `col4row`: `i32[..., n]`, the column of each row, −1 where unmatched.
    - `row4col`: `i32[..., m]`, the row of each column, −1 where unmatched.
    - `cardinality`: `i32[...]`, the number of pairs.
    - `row_cover`, `col_cover`: `bool[..., n]`, `bool[..., m]`, a vertex cover: every edge has its
      row or its column in it. It has `cardinality` vertices, which proves that no matching has
      more pairs (Kőnig).
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is `INVALID_GRAPH`, indices and cardinality are −1 and covers False. If it is
    `UNFINISHED`, the matching need not be maximum, and covers are False.
    """

    col4row: Int[Array, "... n"]
    row4col: Int[Array, "... m"]
    cardinality: Int[Array, "..."]
    row_cover: Bool[Array, "... n"]
    col_cover: Bool[Array, "... m"]
    status: Int[Array, "..."]

    @staticmethod
    def empty(shape: tuple[int, ...]) -> Matching:
        """An empty matching for graphs of `shape` `[..., n, m]`: the first warm start of a `scan`.

        >>> import jax, jaxmatch as jm
        >>> def step(last, graph):
        ...     res = jm.maximum_bipartite_matching(graph, warm_start=last)
        ...     return res, res.cardinality
        >>> graphs = [jm.BipartiteGraph.from_edges([0, 1], [0, k], (2, 2)) for k in (0, 1)]
        >>> jax.lax.scan(step, jm.Matching.empty((2, 2)), jm.BipartiteGraph.stack(graphs))[1]
        Array([1, 2], dtype=int32)
        """
        *batch, n, m = shape
        return Matching(
            col4row=jnp.full((*batch, n), -1, jnp.int32),
            row4col=jnp.full((*batch, m), -1, jnp.int32),
            cardinality=jnp.zeros(tuple(batch), jnp.int32),
            row_cover=jnp.zeros((*batch, n), bool),
            col_cover=jnp.zeros((*batch, m), bool),
            status=jnp.full(tuple(batch), Status.UNFINISHED, jnp.int32),
        )


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class Flow(Result):
    """The result of [`maximum_flow`][jaxmatch.maximum_flow]; leading `...` is batch.

    `res[k]` is problem k of a batch.

    - `value`: `[...]`, the total flow from source to sink; the only field with a gradient. Its
      dtype is int64 for integer capacities under x64 and for NumPy's int64, else that of the
      capacities.
    - `flow`: `[..., e]`, the flow on each edge, in the dtype of the capacities.
    - `source_side`: `bool[..., n]`, the smallest source side of a minimum cut. The capacities of
      the edges that leave it sum to `value`, which proves the maximum.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, value and flow are NaN (−1 for integers) and `source_side` False.
    """

    value: Num[Array, "..."]
    flow: Num[Array, "... e"]
    source_side: Bool[Array, "... n"]
    status: Int[Array, "..."]


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class MinimumCut(Result):
    """The result of [`minimum_cut`][jaxmatch.minimum_cut] and of [`grid_cut`][jaxmatch.grid_cut].

    Leading `...` is batch. Unpacks as `value, source_side, status`; `cut[k]` is problem k of a
    batch.

    - `value`: `[...]`, the capacity of the cut; the only field with a gradient.
    - `source_side`: the source side of the cut, `bool[..., n]` for nodes or `bool[..., *grid]` for
      cells.
    - `status`: `i32[...]`, a [`Status`][jaxmatch.Status].

    If `status` is not `OPTIMAL`, value is NaN (−1 for integers) and `source_side` False.
    """

    value: Num[Array, "..."]
    source_side: Bool[Array, "... n"]
    status: Int[Array, "..."]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.__dict__.values())
