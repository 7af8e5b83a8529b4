"""The k best assignments: the public function, the choice of a method, and the gradient rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._ffi.place import place_of
from jaxmatch._k_best import xla as _xla_k_best
from jaxmatch._k_best.native import fits_cuda, k_best
from jaxmatch._k_best.result import KBestAssignments


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Float


_LONGEST_LIST = 1 << 27


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
    r"""Find the k cheapest assignments of dense problems, inside or outside of `jax.jit`.

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
    >>> jax.grad(lambda c: jm.k_best_assignments(c, 3).cost[1])(cost)
    Array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]], dtype=float32)

    **Arguments:**

    - `cost`: `[..., n, m]` in bfloat16, float16, float32, float64, int32 or int64 (bool and 8- and
      16-bit integers are widened to int32). +inf forbids a pair (−inf when maximising); a great
      number in its place would make the grid of all others coarse, see below.
    - `k`: how many assignments to list, static, from 1 to 2^27. There may be fewer: `count` says
      how many there are.
    - `maximize`: list the greatest totals instead.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`, any pattern. False: the
      row or column does not exist; its costs may be anything, even NaN.
    - `method`: `"murty"`: the partition of Murty, one thread, or block of a GPU, for each problem;
      `"xla"`: the pure-JAX twin for any platform, which solves every subproblem anew. `"auto"` is
      the first on the CPU and on CUDA, the second elsewhere. On CUDA the kernel takes sides up to
      4096 and k up to 16,384; others are left to the twin, whose memory grows with n·n·m.

    **Returns:**

    A [`KBestAssignments`][jaxmatch.KBestAssignments]. Its numbers are float32, or float64 under
    `jax_enable_x64`, for any dtype of `cost`, and as in
    [`solve_assignment`][jaxmatch.solve_assignment] for 64-bit NumPy arrays.

    **Status:** `OPTIMAL` if there is an assignment; `INFEASIBLE` if there is none; `INVALID_COST`
    if an unmasked cost is NaN or infinite on the wrong side; `OVERFLOW` for integers if
    (min(n, m) + 1)·max|C| exceeds 2^56 (in the twin as in `solve_assignment`).

    **Certificate:** `row_dual` and `col_dual` prove the first, see
    [`check_assignment`][jaxmatch.check_assignment] and `res.first`. `res.check(cost)` verifies that
    the list is one of different assignments, with their costs, in order.

    **Exact:** for the numbers passed in. Integers are exact. Floats are put on a grid of
    2^-50 of the greatest one (2^-56 (min(n, m) + 1), if that is coarser). Those that it holds, as
    it does bfloat16, float16 and float32 within a factor of 2^25 of each other for up to 127 rows,
    are exact. Else each cost of the list may be off by up to `gap`, a few roundings to the grid.
    The twin rounds as that of `solve_assignment`.

    **Deterministic:** the same call gives the same bits, whatever the rest of the batch. Another
    platform may list ties in another order, or other ones of them at the end of the list.

    **Gradient:** that of `res.cost[..., r]`, forward and reverse, is the permutation matrix of the
    assignment at that place. Second derivatives are zero, and so are the gradients of empty places.

    **Time and memory:** one shortest path for each assignment listed, and for several others whose
    lower bounds are below the last cost: O(n·m) each, and as much to bound the costs of all
    children of an assignment. For k = 100 and 100 rows, a few hundred searches. Costs are copied to
    64-bit integers, and each assignment listed takes 24 min(n, m) + 8 max(n, m) bytes.

    **Raises:** `ValueError` for shapes that do not fit, a k that is no such integer, and unknown
    methods; `TypeError` for other dtypes.

    **Source:** Murty, *An algorithm for ranking all the assignments in order of increasing cost*,
    Operations Research 16 (1968). Miller, Stone and Cox, *Optimizing Murty's ranked assignment
    method*, IEEE Transactions on Aerospace and Electronic Systems 33 (1997).
    """
    check_name("method", method, _METHODS)
    k = as_count("k", k)
    if k > _LONGEST_LIST:
        raise ValueError(f"`k` must be at most 2^27, got {k}: there is no memory for more.")
    cost = as_given("cost", cost)
    masks = all_given(row_mask=row_mask, col_mask=col_mask)
    maximize = bool(maximize)
    place = place_of(cost, *masks, options=("k_best", k, maximize, method))
    if method == "xla":
        place = place.by_jax()
    with place.precision():
        problem = as_problem(cost, *masks, place=place, symbolic=method != "xla")
        if place.native:
            return place.bring_home(k_best(problem, k, maximize=maximize, platform="cpu"))
        return place.bring_home(_solve(problem, k=k, maximize=maximize, method=method))


@compiled(static_argnames=("k", "maximize", "method"))
def _solve(problem: AssignmentProblem, *, k: int, maximize: bool, method: str) -> KBestAssignments:
    def solve(problem: AssignmentProblem) -> KBestAssignments:
        res = _METHODS[method](lax.stop_gradient(problem), k, maximize=maximize)
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
