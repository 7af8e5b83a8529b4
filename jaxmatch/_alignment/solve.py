"""`solve_alignment`: the best pairs of two sets of points, up to a motion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._alignment.bound import is_even, lower_bound
from jaxmatch._alignment.groups import assign_by_groups, members
from jaxmatch._alignment.problem import AlignmentProblem, as_problem
from jaxmatch._alignment.proof import check_provable, proved
from jaxmatch._alignment.result import Alignment
from jaxmatch._alignment.search import Assign, Search, search, spread, value_of
from jaxmatch._alignment.starts import at_random, by_inertia, evenly
from jaxmatch._assignment.solve import solve_assignment
from jaxmatch._common.arguments import as_count, as_seconds, check_name
from jaxmatch._common.eager import outside_of_jit
from jaxmatch._common.promotion import with_promotion
from jaxmatch._common.status import Status
from jaxmatch._common.switches import unchecked
from jaxmatch._common.typing import Array, ArrayLike, Float


MOTIONS = ("rigid", "rotation", "translation", None)
_ORDERS = ("any", "kept")


@unchecked
def solve_alignment(
    x: ArrayLike,
    y: ArrayLike,
    *,
    motion: Literal["rigid", "rotation", "translation"] | None = "rigid",
    reflections: bool = False,
    x_kind: ArrayLike | None = None,
    y_kind: ArrayLike | None = None,
    groups: tuple[Sequence[int], Sequence[int]] | None = None,
    within: Literal["any", "kept"] = "any",
    cell: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    x_mask: ArrayLike | None = None,
    y_mask: ArrayLike | None = None,
    starts: int = 64,
    initial: ArrayLike | None = None,
    steps: int = 50,
    key: Array | None = None,
    prove: bool = False,
    tolerance: float = 0.01,
    time_limit: float | None = None,
) -> Alignment:
    """Find the pairs and the motion that bring one set of points nearest to another.

    Minimises the sum of weighted squared distances of pairs over all assignments of `x` to `y` and
    all motions of `x`. Each start finds exact assignments and best motions in turns; all starts of
    all problems run at once. Leading dimensions are batch.

    >>> import numpy as np, jaxmatch as jm
    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> y = (x @ turn.T + 5)[::-1]
    >>> res = jm.solve_alignment(x, y)
    >>> res.col4row.tolist() == list(range(20))[::-1], bool(res.rmsd < 1e-7)
    (True, True)

    **Arguments:**

    - `x`, `y`: `[..., n, d]`, `[..., m, d]` with n ≤ m. Every point of `x` gets a point of `y`.
    - `motion`: `"rigid"`, `"rotation"` (about the origin), `"translation"`, or None.
    - `reflections`: mirror images are allowed, too.
    - `x_kind`, `y_kind`: integers; only points of the same kind, such as an element, are pairs.
    - `groups`: labels of the points of `x` and of `y`. Groups go to groups of the same size; the
      points of each in any order, or in the order they have with `within="kept"`. Not with masks.
    - `cell`: `[..., d, d]`, the vectors of a lattice as rows: distances are to the nearest image.
      Then `motion` is `"translation"` or None.
    - `weights`: `[..., n]`, of the points of `x`, not negative.
    - `x_mask`, `y_mask`: bool. False: the point does not exist.
    - `starts`: how many motions to start from; `initial`: orthogonal matrices `[..., k, d, d]`, to
      start from first. Others follow the axes of inertia or cover all rotations; with `key`, at
      random.
    - `steps`: the most steps of a start.
    - `prove`: search all rotations outside of `jit`, until `bound` is within `tolerance` of `value`
      or for `time_limit` seconds a problem; see [Methods][alignment-methods].

    **Returns:** an [`Alignment`][jaxmatch.Alignment].

    **Status:** `OPTIMAL` for pairs that are best for their motion (`bound` tells how good that is),
    `INFEASIBLE`, `INVALID_COST`.

    **Gradient:** of `value` and `rmsd` to `x`, `y` and `weights`, with pairs and motion fixed.

    **Raises:** `ValueError` for shapes that do not fit and options that exclude each other.

    **Source:** Besl and McKay, IEEE TPAMI 14 (1992), with exact assignments; more in
    [Papers][papers-alignment].
    """
    check_name("motion", motion, MOTIONS)
    check_name("within", within, _ORDERS)
    if cell is not None and motion not in ("translation", None):
        raise ValueError(
            "a `cell` goes with `motion='translation'` or None, as a rotation turns the lattice, "
            f"got {motion!r}; pass lattice rotations as `initial`."
        )
    labels = None
    if groups is not None:
        for name, mask in (("x_mask", x_mask), ("y_mask", y_mask)):
            if mask is not None:
                raise ValueError(f"`groups` does not go with `{name}`; leave one of them out.")
        labels = _hashable("groups[0]", groups[0]), _hashable("groups[1]", groups[1])
    given: dict[str, Any] = {
        "weights": weights,
        "x_mask": x_mask,
        "y_mask": y_mask,
        "x_kind": x_kind,
        "y_kind": y_kind,
        "cell": cell,
    }
    options: dict[str, Any] = {"motion": motion, "reflections": bool(reflections)}
    if prove:
        check_provable(x, y, groups, **options, **given)
        time_limit = None if time_limit is None else as_seconds("time_limit", time_limit)
    tolerance = float(tolerance)
    if not 0 < tolerance < np.inf:
        raise ValueError(f"`tolerance` must be a positive number, got {tolerance}.")
    starts, samples = as_count("starts", starts), None
    if key is not None and motion in ("rigid", "rotation"):
        samples = at_random(key, starts, np.shape(x)[-1], bool(reflections))
    res = _solve(
        x,
        y,
        **given,
        **options,
        groups=labels,
        within=within,
        initial=initial,
        samples=samples,
        starts=starts,
        steps=as_count("steps", steps),
        tolerance=tolerance,
    )
    if not prove:
        return res
    limits = {"tolerance": tolerance, "time_limit": time_limit}
    return proved(res, x, y, **given, **options, **limits)


@outside_of_jit("x", "y", "weights", "x_mask", "y_mask", "x_kind", "y_kind", "cell", "initial",
                "samples")  # fmt: skip
@with_promotion
def _solve(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    x_mask: ArrayLike | None = None,
    y_mask: ArrayLike | None = None,
    x_kind: ArrayLike | None = None,
    y_kind: ArrayLike | None = None,
    cell: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    samples: Array | None = None,
    motion: str | None,
    reflections: bool,
    groups: tuple[tuple[int, ...], tuple[int, ...]] | None,
    within: str,
    starts: int,
    steps: int,
    tolerance: float,
) -> Alignment:
    problem = as_problem(x, y, weights, x_mask, y_mask, x_kind, y_kind, cell)
    centres = None
    if motion in ("rigid", "translation") and cell is None:
        problem, *centres = problem.centred()
    fixed: AlignmentProblem = lax.stop_gradient(problem)
    assign = _assign_rows(fixed)
    if groups is not None:
        sides = zip(("groups[0]", "groups[1]"), groups, (x, y), strict=True)
        of_sides = [members(name, labels, np.shape(p)[-2]) for name, labels, p in sides]
        assign = assign_by_groups(of_sides[0], of_sides[1], within == "kept")
    # Whether translations depend on the pairs.
    varied = any(z is not None for z in (cell, x_mask, y_mask, weights))
    varied |= np.shape(x)[-2] != np.shape(y)[-2]
    first = _starts(fixed, motion, reflections, starts, initial, samples, varied)
    found = search(fixed, assign, *first, motion, reflections, steps)
    best = jnp.argmin(found.value, -1)
    bound = lower_bound(fixed, partial(_least, fixed), motion)
    res = _result(problem, found, best, bound, motion, tolerance)
    if centres is None:
        return res
    turned = (res.rotation @ centres[0][..., None])[..., 0]
    return res.replace(translation=res.translation + centres[1] - turned)


def _hashable(name: str, labels: Any) -> tuple[int, ...]:
    try:
        return tuple(int(x) for x in np.asarray(labels))
    except Exception:
        raise TypeError(
            f"`{name}` must be integers that are known before `jit` traces the function, one for "
            "each point; close over them."
        ) from None


def _assign_rows(problem: AlignmentProblem) -> Assign:
    def assign(cost: Array, go_on: Array) -> tuple[Array, Array]:
        rows = problem.x_mask[..., None, :] & go_on[..., None]  # an empty problem takes no time
        cols = problem.y_mask[..., None, :] & go_on[..., None]
        res = solve_assignment(cost, row_mask=rows, col_mask=cols)
        return res.col4row, res.status

    return assign


def _least(problem: AlignmentProblem, cost: Array) -> Float[Array, "..."]:
    """A lower bound on the least sum of costs, less what rounding may add; 0 if there is none."""
    res = solve_assignment(cost, row_mask=problem.x_mask, col_mask=problem.y_mask)
    n, eps = cost.shape[-1], float(jnp.finfo(cost.dtype).eps)
    value = res.cost - res.gap - 4 * n * eps * jnp.abs(res.cost) - spread(problem)
    return jnp.where(res.status == Status.OPTIMAL, jnp.maximum(value, 0), 0)


def _starts(
    problem: AlignmentProblem,
    motion: str | None,
    reflections: bool,
    count: int,
    initial: Any,
    samples: Array | None,
    varied: bool,
) -> tuple[Float[Array, "... s d d"], Float[Array, "... s d"]]:
    """The rotations and translations of all starts. `varied`: translations depend on the pairs."""
    x, y, (*batch, n, d) = problem.x, problem.y, problem.x.shape
    m, dtype = y.shape[-2], x.dtype
    found = [] if initial is None else [_as_rotations(initial, tuple(batch), d, dtype)]
    turns = motion in ("rigid", "rotation")
    identity = jnp.broadcast_to(jnp.eye(d, dtype=dtype), (*batch, 1, d, d))
    count = count if turns or (motion == "translation" and varied) else 1
    x_mean, y_mean = _mean(x, problem.weight), _mean(y, problem.y_mask.astype(dtype))
    if motion == "rotation":
        x_mean, y_mean = jnp.zeros_like(x_mean), jnp.zeros_like(y_mean)
    if not found or turns:
        found.append(identity)
    if turns:
        of_y = problem.y_mask.astype(dtype)
        centred = (x - x_mean[..., None, :], problem.weight, y - y_mean[..., None, :], of_y)
        found.append(by_inertia(*centred, reflections))
    known = sum(r.shape[-3] for r in found)
    if turns and known < count:
        rest = evenly(count - known, d, reflections) if samples is None else samples
        rest = jnp.asarray(rest[: count - known], dtype)
        found.append(jnp.broadcast_to(rest, (*batch, *rest.shape)))
    rotation = jnp.concatenate(found, -3)
    if not turns and motion is not None:
        rotation = jnp.concatenate([rotation] * -(-count // rotation.shape[-3]), -3)
    initials = 0 if initial is None else found[0].shape[-3]
    rotation = rotation[..., : max(count, initials), :, :]
    size = rotation.shape[-3]
    if motion in (None, "rotation"):
        return rotation, jnp.zeros((*batch, size, d), dtype)
    # Some starts bring the centre of x to the centre of y. If y has more points or is periodic,
    # others bring a point of x to a point of y.
    goal, pivot = y_mean[..., None, :], x_mean[..., None, :]
    goal = jnp.broadcast_to(goal, (*batch, size, d))
    pivot = jnp.broadcast_to(pivot, (*batch, size, d))
    if varied:
        at = np.arange(size)
        by_points = at % 2 == 1 if turns else at >= 1
        pick = np.linspace(0, m, size, endpoint=False).astype(int) if size < m else at % m
        goal = jnp.where(by_points[:, None], y[..., pick, :], goal)
        if not turns:
            pivot = jnp.where(by_points[:, None], x[..., at // m % n, :], pivot)
    turned = (rotation @ pivot[..., None])[..., 0]
    return rotation, goal - turned


def _mean(points: Array, weight: Array) -> Array:
    total = jnp.maximum(weight.sum(-1), float(jnp.finfo(weight.dtype).tiny))
    return (weight[..., None] * points).sum(-2) / total[..., None]


def _as_rotations(initial: Any, batch: tuple[int, ...], d: int, dtype: Any) -> Array:
    x = jnp.asarray(initial, dtype)
    x = x[None] if x.ndim == 2 else x
    if x.shape[-2:] != (d, d):
        raise ValueError(f"`initial` must be rotations [..., k, {d}, {d}], got shape {x.shape}.")
    return jnp.broadcast_to(x, (*batch, *x.shape[-3:]))


def _result(
    problem: AlignmentProblem,
    found: Search,
    best: Array,
    bound: Array,
    motion: str | None,
    tolerance: float,
) -> Alignment:
    def chosen(x: Array) -> Array:
        at = best.reshape(*best.shape, *(1 for _ in range(x.ndim - best.ndim)))
        return jnp.take_along_axis(x, at, axis=best.ndim)

    one = [chosen(x) for x in (found.col4row, found.rotation, found.translation)]
    value = value_of(problem, *one)[..., 0]
    col4row, rotation, translation = one[0][..., 0, :], one[1][..., 0, :, :], one[2][..., 0, :]
    status = chosen(found.status)[..., 0]
    fewer = problem.x_mask.sum(-1) > problem.y_mask.sum(-1)
    status = jnp.where(fewer & (status == Status.OPTIMAL), Status.INFEASIBLE, status)
    finite = problem.valid & (jnp.isfinite(value) | (status != Status.OPTIMAL))
    status = jnp.where(finite, status, Status.INVALID_COST)
    solved = status == Status.OPTIMAL
    total = jnp.where(col4row >= 0, problem.weight, 0).sum(-1)
    mean = value / jnp.where(total > 0, total, 1)
    positive = mean > 0
    rmsd = jnp.where(positive, jnp.sqrt(jnp.where(positive, mean, 1)), 0)
    slack = spread(lax.stop_gradient(problem))
    n, m = problem.x.shape[-2], problem.y.shape[-2]
    fixed = lax.stop_gradient(value)
    if motion is None:
        bound = jnp.maximum(bound, fixed - slack)
    elif motion == "translation" and n == m and problem.cell is None:
        full = problem.x_mask.sum(-1) == problem.y_mask.sum(-1)
        bound = jnp.where(is_even(problem) & full, jnp.maximum(bound, fixed - slack), bound)
    bound = jnp.minimum(jnp.maximum(bound, 0), fixed)
    least = found.value.min(-1, keepdims=True)
    agree = (found.value <= least * (1 + 1e-4) + slack[..., None]).sum(-1, dtype=jnp.int32)
    rows = jnp.arange(n, dtype=jnp.int32)
    at = jnp.where(col4row >= 0, col4row, m)
    row4col = jnp.full((*col4row.shape[:-1], m + 1), -1, jnp.int32)
    row4col = jnp.put_along_axis(
        row4col, at, jnp.broadcast_to(rows, at.shape), axis=-1, inplace=False
    )[..., :m]

    def number(x: Array) -> Array:
        ok = solved.reshape(*solved.shape, *(1 for _ in range(x.ndim - solved.ndim)))
        return jnp.where(ok, x, jnp.nan)

    return Alignment(
        col4row=jnp.where(solved[..., None], col4row, -1),
        row4col=jnp.where(solved[..., None], row4col, -1),
        rotation=number(rotation),
        translation=number(translation),
        value=number(value),
        rmsd=number(rmsd),
        bound=number(bound),
        start=best.astype(jnp.int32),
        values=number(found.value),
        agree=jnp.where(solved, agree, 0),
        steps=jnp.broadcast_to(found.steps, status.shape),
        proved=solved & ((fixed - bound <= tolerance * fixed) | (fixed <= slack)),
        status=status.astype(jnp.int32),
    )
