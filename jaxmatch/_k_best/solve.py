"""The k best assignments: the public function, the choice of a method, and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp

from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value, is_constant, sum_where
from jaxmatch._common.place import place_of
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._ffi.repeated import repeated
from jaxmatch._k_best import xla as _xla_k_best
from jaxmatch._k_best.native import fits_cuda, k_best
from jaxmatch._k_best.result import KBestAssignments


_LONGEST_LIST = 1 << 27


@repeated()
@unchecked
def k_best_assignments(
    cost: ArrayLike,
    k: int,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
) -> KBestAssignments:
    """Find the k cheapest assignments of dense problems, inside or outside of `jax.jit`.

    Each matches all of the smaller side, and no two have the same pairs. Leading dimensions are
    batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.k_best_assignments(cost, 3)
    >>> res.col4row
    Array([[1, 0, 2],
           [0, 1, 2],
           [2, 1, 0]], dtype=int32)
    >>> res.cost, int(res.count)
    (Array([5., 6., 6.], dtype=float32), 3)

    **Arguments:**

    - `cost`: `[..., n, m]`, bfloat16 to float64, int32 or int64. +inf forbids a pair.
      Assignments with a pair whose cost is far above all other costs come last.
    - `k`: how many assignments to list, a static integer from 1 to 2^27. There may be fewer:
      `count` says how many there are.
    - `maximize`: list the greatest totals; −inf then forbids a pair.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`. False: the row or column
      does not exist.
    - `method`: `"auto"`, `"murty"` or `"xla"`, see [Methods][k-best-methods].

    **Returns:** a [`KBestAssignments`][jaxmatch.KBestAssignments], verified by `check_k_best`.
    Its duals prove that the first assignment is optimal.

    **Status:** `OPTIMAL` if there is an assignment, `INFEASIBLE` if there is none, `INVALID_COST`,
    `OVERFLOW`; see [statuses][].

    **Exact:** integers. With floats, each cost may be off by up to `gap`, see [Guarantees][exact].

    **Deterministic:** the same call gives the same bits. Among assignments of equal cost, another
    platform may list different ones.

    **Gradient:** of `res.cost[..., r]`: the permutation matrix of assignment r.

    **Raises:** `ValueError` for shapes that do not fit, an invalid k, and unknown methods;
    `TypeError` for other dtypes.

    **Source:** Murty, Operations Research 16 (1968); more in [Papers][papers-sparse].
    """
    check_name("method", method, _METHODS)
    k = as_count("k", k)
    if k > _LONGEST_LIST:
        raise ValueError(f"`k` must be at most 2^27, got {k}: there is no memory for more.")
    cost = as_given("cost", cost)
    masks = all_given(row_mask=row_mask, col_mask=col_mask)
    maximize = bool(maximize)
    options = ("k_best", k, maximize, method)
    place = place_of(cost, *masks, options=options, native=method != "xla")
    with place.precision():
        problem = as_problem(cost, *masks, place=place, symbolic=method != "xla")
        if place.native:
            return place.bring_home(k_best(problem, k, maximize=maximize, platform="cpu"))
        return place.bring_home(_solve(problem, k=k, maximize=maximize, method=method))


@compiled(static_argnames=("k", "maximize", "method"))
def _solve(problem: AssignmentProblem, *, k: int, maximize: bool, method: str) -> KBestAssignments:
    def solve(problem: AssignmentProblem) -> KBestAssignments:
        res = apart(_METHODS[method])(problem, k=k, maximize=maximize)
        return res.replace(cost=envelope_value(res.cost, problem, res, _value_jvp))

    return over_batch_shards(solve, problem, core_dims=2)


def _murty(problem: AssignmentProblem, k: int, *, maximize: bool) -> KBestAssignments:
    def on(platform: Literal["cpu", "cuda"]) -> Callable[[AssignmentProblem], KBestAssignments]:
        return partial(k_best, k=k, maximize=maximize, platform=platform)

    twin = partial(_twin, k=k, maximize=maximize)
    cuda = on("cuda") if fits_cuda(problem, k) else None
    sizes = problem.cost.shape[-2:]
    return by_platform(twin, problem, cpu=on("cpu"), cuda=cuda, sizes=sizes)


def _twin(problem: AssignmentProblem, k: int, *, maximize: bool) -> KBestAssignments:
    def solve(problem: AssignmentProblem) -> KBestAssignments:
        return _xla_k_best.solve(problem.cost, *problem.masks, k, maximize=maximize)

    for _ in problem.cost.shape[:-2]:
        solve = jax.vmap(solve)
    return solve(problem)


# Every name is accepted on every platform: without a native solver, the pure-JAX twin runs.
_METHODS: dict[str, Callable[..., KBestAssignments]] = {
    "auto": _murty,
    "murty": _murty,
    "xla": _twin,
}


def _value_jvp(
    problem: AssignmentProblem, tangents: AssignmentProblem, res: KBestAssignments
) -> Float[Array, "... k"]:
    if is_constant(tangents.cost) or problem.cost.shape[-1] == 0:
        return jnp.zeros_like(res.cost)
    solved = (res.status == Status.OPTIMAL)[..., None, None]
    cols = jnp.swapaxes(res.col4row, -1, -2)
    of_pairs = jnp.take_along_axis(tangents.cost, jnp.maximum(cols, 0), axis=-1)
    return sum_where(solved & (cols >= 0), of_pairs.astype(res.cost.dtype), -2)
