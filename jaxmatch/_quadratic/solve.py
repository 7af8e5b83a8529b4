"""Quadratic assignment: the public function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.methods import HERE, METHODS
from jaxmatch._common.arguments import as_count
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.proof import constant, module_of
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._library import libraries
from jaxmatch._quadratic.exchange import exchange
from jaxmatch._quadratic.frank_wolfe import frank_wolfe
from jaxmatch._quadratic.objective import objective_of, values_of
from jaxmatch._quadratic.problem import QuadraticProblem, as_problem
from jaxmatch._quadratic.result import QuadraticAssignment
from jaxmatch._quadratic.starts import first_points, sides_of


_ENTRIES = 1 << 18  # of the points that one loop in NumPy holds, so that they stay in a cache


@unchecked
@in_full_precision("a", "b", "linear", "seeds", "row_mask", "col_mask", on_host=True)
def quadratic_assignment(
    a: ArrayLike,
    b: ArrayLike,
    *,
    maximize: bool = False,
    linear: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    starts: int | ArrayLike = 1,
    steps: int = 30,
    tolerance: float = 0.03,
    two_opt: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    key: Any = None,
) -> QuadraticAssignment:
    """Look for permutations that make two matrices alike, from many starts at once.

    Minimises the sum of `a[i, j] * b[q[i], q[j]]` over permutations q, as scipy's function of this
    name: FAQ, whose steps are exact assignments. The problem is hard, the result a local optimum.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> a = jnp.array([[0.0, 8, 15, 17], [8, 0, 13, 10], [15, 13, 0, 12], [17, 10, 12, 0]])
    >>> b = jnp.array([[0.0, 5, 2, 7], [0, 0, 3, 8], [0, 0, 0, 3], [0, 0, 0, 0]])
    >>> res = jm.quadratic_assignment(a, b, starts=8, key=jax.random.key(0))
    >>> res.col4row, res.value
    (Array([0, 3, 2, 1], dtype=int32), Array(326., dtype=float32))

    **Arguments:**

    - `a`, `b`: `[..., n, n]` and `[..., m, m]`. If n ≠ m, the shorter side is matched completely.
    - `maximize`: find a great sum instead, as for graphs with many common edges.
    - `linear`: `[..., n, m]`, a cost of each pair, which is added.
    - `seeds`: `[..., k, 2]`, known pairs of a row and a column. Negative entries are padding.
    - `starts`: how many: the barycentre, then random ones, or matrices `[..., s, n, m]`, doubly
      stochastic.
    - `steps`: at most so many for each start.
    - `tolerance`: a start is done when a step moves it less, in root mean square over rows.
    - `two_opt`: at the end, exchange columns of two rows while that lowers the value.
    - `row_mask`, `col_mask`: bool, `[..., n]` and `[..., m]`. False: it does not exist.
    - `key`: a `jax.random` key, for random starts. It also decides between ties: without it they
      follow the order of rows and columns.

    **Returns:** a [`QuadraticAssignment`][jaxmatch.QuadraticAssignment].

    **Status:** `OPTIMAL` where the pairs are complete, `INVALID_COST`, `INFEASIBLE` (seeds).

    **Deterministic:** the same key gives the same bits on the same kind of processor.

    **Gradient:** of `value`, with the pairs fixed.

    **Raises:** `ValueError` for shapes that do not fit, wrong seeds and a missing key, `TypeError`
    for other dtypes.

    **Source:** Vogelstein et al., PLoS ONE 10 (2015); [Methods][quadratic-methods].
    """
    steps = as_count("steps", steps)
    tolerance = _as_tolerance(tolerance)
    place = current_place()
    if not libraries.has_cpu_library():
        place = place.by_jax()
    problem = as_problem(a, b, linear, seeds, starts, key, row_mask, col_mask, place=place)
    options: dict[str, Any] = {
        "maximize": bool(maximize),
        "steps": steps,
        "tolerance": tolerance,
        "two_opt": bool(two_opt),
    }
    if not place.native:
        return _solve(problem, **options)
    valid, exact = _sound(problem)
    col4row, steps4start = _in_blocks(_cleaned(problem, valid), **options)
    return _result(problem, col4row, steps4start, valid, exact, maximize=bool(maximize))


def _as_tolerance(tolerance: Any) -> float:
    try:
        number = float(tolerance)
    except TypeError:
        number = -1.0
    if not 0 <= number < np.inf:
        raise ValueError(f"`tolerance` must be a number that is not negative, got {tolerance!r}.")
    return number


@compiled(static_argnames=("maximize", "steps", "tolerance", "two_opt"))
def _solve(problem: QuadraticProblem, **options: Any) -> QuadraticAssignment:
    def solve(problem: QuadraticProblem) -> QuadraticAssignment:
        @with_promotion
        def found(problem: QuadraticProblem) -> tuple[Array, ...]:
            valid, exact = _sound(problem)
            return *_walked(_cleaned(problem, valid), METHODS["auto"], **options), valid, exact

        return _result(problem, *apart(found)(problem), maximize=options["maximize"])

    return over_batch_shards(solve, problem, core_dims=2)


def _sound(problem: QuadraticProblem) -> tuple[Array, Array]:
    """Whether all numbers are finite, and whether seeds fit each other and the masks."""
    xp, (rows, cols) = module_of(problem.a), (problem.rows, problem.cols)
    pairs = {"a": (rows, rows), "b": (cols, cols), "linear": (rows, cols)}
    valid = xp.ones(rows.shape[:-1], bool)
    for name, (of_row, of_col) in pairs.items():
        if (x := getattr(problem, name)) is not None:
            exists = of_row[..., :, None] & of_col[..., None, :]
            valid = valid & (xp.isfinite(x) | ~exists).all((-2, -1))
    if problem.starts is not None:
        valid = valid & xp.isfinite(problem.starts).all((-3, -2, -1))
    exact = xp.ones(rows.shape[:-1], bool)
    if (seeds := problem.seeds) is not None:
        at = seeds[..., None] == xp.arange(cols.shape[-1])
        wrong = (at.sum(-2) > 1) | (at.any(-2) & ~cols)
        exact = ~wrong.any(-1) & ~((seeds >= 0) & ~rows).any(-1) & (seeds < cols.shape[-1]).all(-1)
    return valid, exact


def _cleaned(problem: QuadraticProblem, valid: Array) -> QuadraticProblem:
    """Zeros in rows and columns that do not exist, and in problems that are not valid."""
    xp = module_of(problem.a)
    rows, cols = (x & valid[..., None] for x in (problem.rows, problem.cols))
    if xp is np and rows.all() and cols.all():
        return problem

    def clean(x: Array, of_row: Array, of_col: Array) -> Array:
        return xp.where(of_row[..., :, None] & of_col[..., None, :], x, 0)

    starts = problem.starts
    return problem._replace(
        a=clean(problem.a, rows, rows),
        b=clean(problem.b, cols, cols),
        linear=None if problem.linear is None else clean(problem.linear, rows, cols),
        starts=None if starts is None else xp.where(valid[..., None, None, None], starts, 0),
    )


def _walked(
    problem: QuadraticProblem,
    assign: Callable[..., Assignment],
    *,
    maximize: bool,
    steps: int,
    tolerance: float,
    two_opt: bool,
) -> tuple[Array, Array]:
    """The pairs of each start, and the number of its steps."""
    xp, m = module_of(problem.a), problem.b.shape[-1]

    def solve(problem: Any, maximize: bool = False) -> Assignment:
        return assign(problem, maximize=maximize)

    order = problem.order
    if order is not None:
        problem = _reordered(problem, order)
    if maximize:
        linear = None if problem.linear is None else -problem.linear
        problem = problem._replace(a=-problem.a, linear=linear)
    sides = sides_of(problem)
    f = objective_of(problem.a, problem.b, problem.linear)
    points = first_points(problem, sides, solve)
    found = []
    for part in _blocks(points):
        q, count = frank_wolfe(f, part, sides, steps, tolerance, solve)
        found.append((exchange(problem, q, sides) if two_opt else q, count))
    q, count = (
        xp.concatenate(x, k) for k, x in zip((-2, -1), zip(*found, strict=True), strict=True)
    )
    if order is not None and m:
        own = xp.broadcast_to(order[..., None, :], (*q.shape[:-1], m))
        q = xp.where(q < 0, -1, xp.take_along_axis(own, xp.maximum(q, 0), -1))
    return q.astype(xp.int32), count.astype(xp.int32)


def _blocks(points: Array) -> list[Array]:
    """On the host, parts of the starts that fit a cache, of which each loop ends for itself."""
    if module_of(points) is jnp:
        return [points]
    starts, at_once = points.shape[-3], max(_ENTRIES * points.shape[-3] // max(points.size, 1), 1)
    return [points[..., k : k + at_once, :, :] for k in range(0, max(starts, 1), at_once)]


def _reordered(problem: QuadraticProblem, order: Array) -> QuadraticProblem:
    """Columns in another order, so that the order of ties says nothing of the pairs."""
    xp = module_of(order)

    def columns(x: Any) -> Any:
        if x is None:
            return None
        lead = (1,) * (x.ndim - order.ndim)
        at = order.reshape(*order.shape[:-1], *lead, order.shape[-1])
        return xp.take_along_axis(x, xp.broadcast_to(at, x.shape), -1)

    seeds = problem.seeds
    if seeds is not None:
        back = xp.argsort(order, axis=-1).astype(xp.int32)
        own = xp.take_along_axis(back, xp.clip(seeds, 0, max(order.shape[-1] - 1, 0)), -1)
        seeds = xp.where(seeds < 0, -1, own)
    return problem._replace(
        b=columns(columns(problem.b).swapaxes(-1, -2)).swapaxes(-1, -2),
        linear=columns(problem.linear),
        cols=columns(problem.cols),
        starts=columns(problem.starts),
        seeds=seeds,
    )


def _in_blocks(problem: QuadraticProblem, **options: Any) -> tuple[Array, Array]:
    """On the host: as many problems at once as fit a cache, so that each loop ends for itself."""
    batch, (n, m) = problem.rows.shape[:-1], (problem.rows.shape[-1], problem.cols.shape[-1])
    count = int(np.prod(batch))
    flat = [None if x is None else x.reshape(count, *x.shape[len(batch) :]) for x in problem]
    starts = max(
        (x.shape[-3] + 1 for x in (problem.starts, problem.draws) if x is not None), default=1
    )
    at_once = max(_ENTRIES // max(n * m * starts, 1), 1)
    found = []
    for k in range(0, max(count, 1), at_once):
        own: Any = [None if x is None else x[k : k + at_once] for x in flat]
        found.append(_walked(QuadraticProblem(*own), HERE["auto"], **options))
    q, steps = (np.concatenate(x) for x in zip(*found, strict=True))
    return q.reshape(*batch, *q.shape[1:]), steps.reshape(*batch, *steps.shape[1:])  # type: ignore[return-value]


@with_promotion
def _result(
    problem: QuadraticProblem,
    col4row: Array,
    steps: Array,
    valid: Array,
    exact: Array,
    *,
    maximize: bool,
) -> QuadraticAssignment:
    """The best of the starts. Its value depends on the problem with the pairs fixed."""
    xp, real = module_of(problem.a), result_float()
    status = xp.where(exact, Status.OPTIMAL, Status.INFEASIBLE)
    status = xp.where(valid, status, Status.INVALID_COST).astype(np.int32)
    solved = valid & exact
    q = xp.where(solved[..., None, None], col4row, -1)
    arrays = problem.a, problem.b, problem.linear
    values, size = values_of(*constant(arrays), q)
    worse = -values if maximize else values
    start = worse.argmin(-1).astype(np.int32)
    least = worse.min(-1, keepdims=True)
    near = 16 * float(np.finfo(values.dtype).eps) * size.max(-1, keepdims=True)
    best = xp.take_along_axis(q, start[..., None, None], -2)
    value = values_of(*arrays, best)[0][..., 0]
    return QuadraticAssignment(
        col4row=best[..., 0, :].astype(np.int32),
        value=xp.where(solved, value, np.nan).astype(real),
        start=xp.where(solved, start, 0),
        values=xp.where(solved[..., None], values, np.nan).astype(real),
        agree=xp.where(solved, (worse <= least + near).sum(-1), 0).astype(np.int32),
        steps=xp.where(solved[..., None], steps, 0).astype(np.int32),
        status=status,
    )
