"""Gromov-Wasserstein problems: the public function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.methods import HERE
from jaxmatch._assignment.methods import METHODS as ASSIGN
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.gradient import apart, envelope_value, instantiated
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.proof import constant, module_of
from jaxmatch._common.result import Assignment, Transport, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._gromov.bounds import BOUNDS, best_bound
from jaxmatch._gromov.problem import LOSSES, GromovProblem, as_problem
from jaxmatch._gromov.result import GromovWasserstein
from jaxmatch._gromov.walk import gradient_of_product, walk_down
from jaxmatch._library import libraries
from jaxmatch._quadratic.objective import Objective, gradient_of, objective_of, product
from jaxmatch._transport.native import transport
from jaxmatch._transport.problem import TransportProblem
from jaxmatch._transport.solve import METHODS


Solver = Callable[[TransportProblem], Transport]


@unchecked
@in_full_precision("c1", "c2", "p", "q", "feature_cost", "row_mask", "col_mask", on_host=True)
def gromov_wasserstein(
    c1: ArrayLike,
    c2: ArrayLike,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    *,
    feature_cost: ArrayLike | None = None,
    alpha: ArrayLike = 0.5,
    loss: Literal["square", "kl"] = "square",
    starts: int | ArrayLike = 1,
    steps: int = 100,
    tolerance: float | None = None,
    bounds: tuple[str, ...] = ("first", "second"),
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    key: Any = None,
) -> GromovWasserstein:
    """Compare two spaces by their inner distances: (fused) Gromov-Wasserstein, from many starts.

    Looks for a plan T with sums p and q that minimises the sum of `L(c1[i, k], c2[j, l]) T[i, j]
    T[k, l]`, by conditional gradient with exact transports and exact line search, and without
    entropy. The problem is hard, and the result a local optimum. Leading dimensions are batch.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> x, y = jnp.array([0.0, 1.0, 3.0]), jnp.array([8.0, 5.0, 6.0])
    >>> res = jm.gromov_wasserstein(abs(x[:, None] - x), abs(y[:, None] - y))
    >>> (3 * res.plan).round(), res.value.round(5)
    (Array([[0., 1., 0.],
           [0., 0., 1.],
           [1., 0., 0.]], dtype=float32), Array(0., dtype=float32))

    **Arguments:**

    - `c1`, `c2`: `[..., n, n]` and `[..., m, m]`.
    - `p`, `q`: `[..., n]` and `[..., m]`, masses of one sum. Default: uniform, of sum 1.
    - `feature_cost`: `[..., n, m]`, costs M of pairs. The objective is then
      `(1 - alpha) * <M, T> + alpha * (the sum above)`.
    - `loss`: L is `"square"`, or `"kl"`: a log(a / b) − a + b.
    - `starts`: how many: the product of p and q, then random ones, or plans `[..., s, n, m]`.
    - `steps`, `tolerance`: a start ends after so many steps, or when the gap is at most `tolerance`
      times the size of the objective (default 1e-9, in float32 1e-5).
    - `bounds`: which [lower bounds][gromov-methods] to compute: `"first"`, `"second"`, `"third"`.
    - `row_mask`, `col_mask`: bool, `[..., n]` and `[..., m]`. False: it does not exist.
    - `key`: a `jax.random` key, for random starts.

    **Returns:** a [`GromovWasserstein`][jaxmatch.GromovWasserstein].

    **Status:** `OPTIMAL` where the plan moves all mass, `INVALID_MASS` for `starts` that are no
    plans, else those of `solve_transport`.

    **Gradient:** of `value` to `c1`, `c2`, `feature_cost` and `alpha`, with the plan fixed.

    **Raises:** `ValueError` for shapes that do not fit and a missing key, `TypeError` for dtypes.

    **Source:** Mémoli (2011), Peyré et al. (2016), Vayer et al. (2019): [Papers][papers-quadratic].
    """
    check_name("loss", loss, LOSSES)
    names = tuple(bounds)
    for name in names:
        check_name("bounds", name, BOUNDS)
    steps = as_count("steps", steps)
    place = current_place()
    if not libraries.has_cpu_library():
        place = place.by_jax()
    problem = as_problem(
        c1, c2, p, q, feature_cost, alpha, starts, key, row_mask, col_mask, place=place
    )
    if tolerance is None:
        tolerance = 1e-9 if problem.c1.dtype == np.float64 else 1e-5
    options: dict[str, Any] = {
        "loss": loss,
        "steps": steps,
        "tolerance": float(tolerance),
        "bounds": names,
        # Then plans are permutations, for the assignment solver, which starts warm faster.
        "uniform": all(x is None for x in (p, q, row_mask, col_mask))
        and problem.c1.shape[-1] == problem.c2.shape[-1] > 0,
    }
    if place.native:
        solve = partial(transport, maximize=False, platform="cpu")
        return _result(problem, *_walked(problem, solve, HERE["auto"], **options), loss=loss)
    return _solve(problem, **options)


def _of_permutation(problem: TransportProblem, assign: Callable[..., Assignment]) -> Transport:
    """Transport between equal masses, by an assignment."""
    xp, mass = module_of(problem.cost), problem.supply
    exists = mass > 0
    found = assign(
        AssignmentProblem(problem.cost, exists, exists, col_dual=problem.col_dual), maximize=False
    )
    rows = xp.broadcast_to(xp.arange(mass.shape[-1], dtype=np.int32), mass.shape)
    unit = mass[..., 0]
    return Transport(
        rows=rows,
        cols=found.col4row,
        mass=mass,
        cost=found.cost * unit,
        row_dual=found.row_dual,
        col_dual=found.col_dual,
        gap=found.gap * unit,
        status=found.status,
    )


@compiled(static_argnames=("loss", "steps", "tolerance", "bounds", "uniform"))
def _solve(problem: GromovProblem, **options: Any) -> GromovWasserstein:
    def solve(problem: GromovProblem) -> GromovWasserstein:
        @with_promotion
        def found(problem: GromovProblem) -> tuple[Array, ...]:
            move = partial(METHODS["auto"], maximize=False)
            return _walked(problem, move, ASSIGN["auto"], **options)

        return _result(problem, *apart(found)(problem), loss=options["loss"])

    return over_batch_shards(solve, problem, core_dims=2)


def _walked(
    problem: GromovProblem,
    solve: Solver,
    assign: Callable[..., Assignment],
    *,
    loss: str,
    steps: int,
    tolerance: float,
    bounds: tuple[str, ...],
    uniform: bool,
) -> tuple[Array, ...]:
    """Plans, values, gaps and steps of each start, the status of each problem, and its bound."""
    if uniform:
        solve = partial(_of_permutation, assign=assign)
    xp = module_of(problem.c1)
    valid = xp.ones_like(problem.p[..., 0], bool)
    cleaned = {}
    for name, x in problem._asdict().items():
        core = x is not None and x.ndim - problem.p.ndim + 1
        if core and name not in ("p", "q", "draws"):  # wrong masses are left to the transport
            valid = valid & xp.isfinite(x).all(tuple(range(-core, 0)))
        cleaned[name] = x
    if loss == "kl":
        valid = valid & (problem.c1 >= 0).all((-2, -1)) & (problem.c2 >= 0).all((-2, -1))
    if problem.alpha is not None:
        valid = valid & (problem.alpha >= 0) & (problem.alpha <= 1)
    balanced = _are_plans(problem)
    for name, x in problem._asdict().items():
        if x is not None and name not in ("p", "q", "draws"):
            known = valid.reshape((*valid.shape, *(1 for _ in range(x.ndim - valid.ndim))))
            cleaned[name] = xp.where(known, x, 0)
    problem = GromovProblem(**cleaned)

    whole = problem.alpha
    share = xp.ones_like(problem.p[..., 0]) if whole is None else whole
    features = problem.feature_cost
    linear = None if features is None else (1 - share)[..., None, None] * features
    of = LOSSES[loss]
    a, b = -share[..., None, None] * of.h1(problem.c1), of.h2(problem.c2)
    f = objective_of(a, b, linear)
    # How large the terms of the objective are: the gap, a difference of such, is compared to it.
    fixed = share * _fixed_part(problem, loss)
    size = xp.abs(fixed)
    if linear is not None:
        size = size + (problem.p * xp.abs(linear).max(-1)).sum(-1)
    plans, gradient = _first_plans(problem, f, solve)
    enough = tolerance * size
    walk = walk_down(f, plans, gradient, problem.p, problem.q, enough, steps, solve)
    values = walk.value + fixed[..., None]
    if linear is not None:
        values = values + (linear[..., None, :, :] * walk.plan).sum((-2, -1))
    bound = best_bound(_wide(problem), bounds, loss, solve, uniform)
    failed = walk.status.max(-1)
    status = xp.where(balanced, failed, Status.INVALID_MASS)
    status = xp.where(valid, status, Status.INVALID_COST).astype(np.int32)
    return walk.plan, values, walk.gap, walk.steps, status, bound.astype(walk.gap.dtype)


def _are_plans(problem: GromovProblem) -> Array:
    """Whether given starts have no negative mass, and the sums of both sides."""
    xp, starts = module_of(problem.c1), problem.starts
    if starts is None:
        return xp.ones_like(problem.p[..., 0], bool)
    total = xp.abs(problem.p).sum(-1)
    most = 1e3 * float(jnp.finfo(starts.dtype).eps) * total[..., None, None]
    off = [
        (xp.abs(starts.sum(axis) - mass[..., None, :]) <= most).all((-2, -1))
        for axis, mass in ((-1, problem.p), (-2, problem.q))
    ]
    return off[0] & off[1] & (starts >= 0).all((-3, -2, -1))


def _wide(problem: GromovProblem) -> GromovProblem:
    """On the host, sums of bounds are taken in float64."""
    if module_of(problem.c1) is jnp:
        return problem
    return jax.tree.map(lambda x: x.astype(np.float64), problem)


def _fixed_part(problem: GromovProblem, loss: str) -> Array:
    """The part of the objective that all plans have in common."""
    of = LOSSES[loss]
    parts = [
        (mass[..., :, None] * mass[..., None, :] * function(c)).sum((-2, -1))
        for function, c, mass in (
            (of.f1, problem.c1, problem.p),
            (of.f2, problem.c2, problem.q),
        )
    ]
    return parts[0] + parts[1]


def _first_plans(problem: GromovProblem, f: Objective, solve: Solver) -> tuple[Array, Array]:
    """The product of masses, and plans halfway from it to a random vertex; and gradients there."""
    xp = module_of(problem.p)
    if problem.starts is not None:
        return problem.starts.copy(), gradient_of(f, problem.starts)
    total = problem.q.sum(-1, keepdims=True)
    q = problem.q / xp.where(total > 0, total, 1)
    flat = (problem.p[..., :, None] * q[..., None, :])[..., None, :, :]
    gradient = gradient_of_product(f, problem.p, q)
    if problem.draws is None:
        return flat, gradient
    shape = problem.draws.shape
    p, q = (
        xp.broadcast_to(x[..., None, :], (*shape[:-2], x.shape[-1])) for x in (problem.p, problem.q)
    )
    drawn = solve(TransportProblem(problem.draws.astype(flat.dtype), p, q)).todense()
    other = (flat + drawn.astype(flat.dtype)) / 2
    return xp.concatenate([flat, other], -3), xp.concatenate([gradient, gradient_of(f, other)], -3)


@with_promotion
def _result(
    problem: GromovProblem,
    plans: Array,
    values: Array,
    gaps: Array,
    steps: Array,
    status: Array,
    bound: Array,
    *,
    loss: str,
) -> GromovWasserstein:
    """The best of the starts. Its value depends on the problem with the plan fixed."""
    xp, real = module_of(plans), result_float()
    solved = status == Status.OPTIMAL
    start = values.argmin(-1).astype(np.int32)
    least = values.min(-1, keepdims=True)
    size = xp.abs(_fixed_part(constant(problem), loss))[..., None]
    near = 1e-6 * xp.abs(least) + 64 * float(np.finfo(values.dtype).eps) * size
    at = start[..., None]
    plan = xp.take_along_axis(plans, at[..., None, None], -3)[..., 0, :, :]
    value = xp.where(solved, least[..., 0], np.nan)
    if xp is jnp:
        value = envelope_value(value, problem, (plan, solved), _VALUE_JVPS[loss])

    def kept(x: Array, other: float = np.nan) -> Array:
        known = solved.reshape((*solved.shape, *(1 for _ in range(x.ndim - solved.ndim))))
        return xp.where(known, x, other)

    return GromovWasserstein(
        plan=kept(plan, 0).astype(real),
        value=value.astype(real),
        gap=kept(xp.maximum(xp.take_along_axis(gaps, at, -1)[..., 0], 0)).astype(real),
        bound=kept(bound).astype(real),
        start=kept(start, 0).astype(np.int32),
        values=kept(values).astype(real),
        agree=kept((values <= least + near).sum(-1), 0).astype(np.int32),
        steps=kept(steps, 0).astype(np.int32),
        status=status,
    )


def _value(problem: GromovProblem, plan: Array, loss: str) -> Array:
    """The objective of a plan, with masses as they are in the plan."""
    of = LOSSES[loss]
    rows, cols = plan.sum(-1), plan.sum(-2)
    left = (rows * product(of.f1(problem.c1), rows[..., None])[..., 0]).sum(-1)
    right = (cols * product(of.f2(problem.c2), cols[..., None])[..., 0]).sum(-1)
    moved = product(product(of.h1(problem.c1), plan), of.h2(problem.c2).swapaxes(-1, -2))
    value = left + right - (moved * plan).sum((-2, -1))
    if problem.alpha is None:
        return value
    assert problem.feature_cost is not None
    features = (problem.feature_cost * plan).sum((-2, -1))
    return (1 - problem.alpha) * features + problem.alpha * value


@with_promotion
def _value_jvp(
    problem: GromovProblem, tangents: GromovProblem, found: tuple[Array, Array], *, loss: str
) -> Array:
    plan, solved = found
    whole = instantiated(tangents, problem)
    dot = jax.jvp(lambda x: _value(x, plan, loss), (problem,), (whole,))[1]
    return jnp.where(solved, dot, 0)


_VALUE_JVPS = {loss: partial(_value_jvp, loss=loss) for loss in LOSSES}
