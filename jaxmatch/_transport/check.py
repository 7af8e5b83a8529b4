"""`check_transport`: verifies a transport plan by its column duals.

Shares no code with the solvers: an error would have to be made twice.
"""

from __future__ import annotations

import dataclasses
from functools import partial as bind
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._common.arguments import as_array
from jaxmatch._common.given import INTEGERS, REAL, SOLVED, require
from jaxmatch._common.gradient import apart
from jaxmatch._common.proof import is_tiny, minus, split, sum_down
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Transport, result_float
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float, Int, Num
from jaxmatch._ffi.place import in_full_precision
from jaxmatch._transport.check_costs import CheckCosts, Pair, RowMinima, StoredCosts, with_unmatched
from jaxmatch._transport.dummies import as_unmatched_cost
from jaxmatch._transport.point_problem import PointProblem
from jaxmatch._transport.problem import TransportProblem, as_problem


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class TransportCheck(Check):
    """The result of [`check_transport`][jaxmatch.check_transport]; leading `...` is batch.

    - `valid`: `bool[...]`, the plan is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the duals prove that no plan costs less: valid, and gap 0.
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]


@unchecked
@in_full_precision("cost", "supply", "demand", "row_mask", "col_mask", "partial", "unmatched_cost")
def check_transport(
    cost: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    result: Transport,
    *,
    maximize: bool = False,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> TransportCheck:
    """Verify a result of [`solve_transport`][jaxmatch.solve_transport], in jit or out of it.

    Makes one pass over `cost`. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[0.0, 2.0], [1.0, 0.0]])
    >>> supply, demand = jnp.array([3, 1]), jnp.array([2, 2])
    >>> res = jm.solve_transport(cost, supply, demand)
    >>> check = jm.check_transport(cost, supply, demand, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> rows, cols, mass = jnp.array([[0, 0, 1], [0, 1, 0], [1, 2, 1]])  # costs 5 instead of 2
    >>> other = res.replace(rows=rows, cols=cols, mass=mass)
    >>> check = jm.check_transport(cost, supply, demand, other)
    >>> bool(check.valid), bool(check.optimal), round(float(check.gap), 3)  # rounded upwards
    (True, False, 3.0)

    **Arguments:**

    - `cost` to `col_mask`: as they were passed to the solver.
    - `result`: the solver's result. `rows`, `cols`, `mass`, `col_dual`, and `row_dual` with
      `partial` are read; the other fields are ignored. The plan may have any number of entries.

    **Returns:** a [`TransportCheck`][jaxmatch.TransportCheck].

    - `valid`: the entries are different pairs, neither masked nor forbidden, of positive mass (or
      empty: indices −1 and mass 0). They move the supply of each row and the demand of each column,
      or at most these where mass may stay: integers exactly, floats up to rounding.
    - `optimal`: `valid`, and proved: `gap` is 0.
    - `gap`: a bound on cost − optimum that the column duals prove; +inf where they prove none. For
      costs with many digits compare it with a tolerance, see [Checks][check-transport].

    **Exact:** the bound holds for the numbers passed in. Differences are exact, and all other
    roundings are upwards, so a gap of 0 is exact.

    **Time and memory:** O(n·m) operations, and a few temporary arrays of the size of `cost`.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    problem = as_problem(cost, supply, demand, row_mask, col_mask, partial)
    unmatched = as_unmatched_cost(unmatched_cost, problem)
    result = as_claim(result, problem, "`cost`")
    return _check(*lax.stop_gradient((problem, unmatched, result)), maximize=bool(maximize))


def as_claim(result: Transport, problem: TransportProblem | PointProblem, beside: str) -> Transport:
    """The fields that the check reads, with checked shapes, and masses as the problem has them."""
    require("result", result, Transport, "that the solver returns")
    batch = problem.supply.shape[:-1]
    n, m = problem.supply.shape[-1], problem.demand.shape[-1]
    whole = jnp.issubdtype(problem.supply.dtype, jnp.integer)
    of_mass = (INTEGERS & SOLVED, "integers, as `supply` is") if whole else (REAL, "real numbers")
    kinds = {
        "rows": (INTEGERS, "integers"),
        "cols": (INTEGERS, "integers"),
        "mass": of_mass,
        "col_dual": (REAL, "real numbers"),
    }
    if problem.moved is not None:
        kinds["row_dual"] = kinds["col_dual"]
    fields = {
        name: as_array(f"result.{name}", getattr(result, name), dtypes=dtypes, must=f"be {words}")
        for name, (dtypes, words) in kinds.items()
    }
    entries = fields["rows"].shape[-1:]
    for name, x in fields.items():
        shape = (*batch, *{"row_dual": (n,), "col_dual": (m,)}.get(name, entries))
        if x.shape != shape or len(shape) != len(batch) + 1:
            raise ValueError(
                f"`result.{name}` must have shape {shape} to go with {beside}, `supply` and "
                f"`demand`, got {x.shape}."
            )
    if not whole:
        fields["mass"] = fields["mass"].astype(result_float())
    others = {name: None for name in vars(result) if name not in fields}
    return Transport(**fields, **others)  # type: ignore[arg-type]


@compiled(static_argnames="maximize")
def _check(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    def check(*arguments: Any) -> TransportCheck:
        one = bind(_check_one, maximize=maximize)
        for _ in problem.cost.shape[:-2]:
            one = jax.vmap(one)
        return one(*arguments)

    return over_batch_shards(apart(check), problem, unmatched_cost, result, core_dims=2)


def _check_one(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    rows, cols = existing(problem)
    costs = StoredCosts(problem.cost, rows, cols, maximize)
    return check_plan(costs, problem, unmatched_cost, result, maximize=maximize)


def existing(problem: TransportProblem | PointProblem) -> tuple[Array, Array]:
    """Which rows and columns of one problem exist."""
    rows, cols = problem.row_mask, problem.col_mask
    rows = jnp.ones_like(problem.supply, bool) if rows is None else rows
    return rows, jnp.ones_like(problem.demand, bool) if cols is None else cols


def check_plan(
    costs: CheckCosts,
    problem: TransportProblem | PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    *,
    maximize: bool,
) -> TransportCheck:
    """Checks one problem, whose costs are read through `costs`."""
    supply, demand, moved = problem.supply, problem.demand, problem.moved
    n, m, real_dtype = supply.size, demand.size, result_float()
    rows, cols = existing(problem)
    v = jnp.where(cols, -result.col_dual if maximize else result.col_dual, 0).astype(real_dtype)

    empty = (result.rows == -1) & (result.cols == -1) & (result.mass == 0)
    real = _in_range(result.rows, n) & _in_range(result.cols, m) & (result.mass > 0)
    used = real & ~empty
    mass = jnp.where(used, result.mass, 0)
    i = jnp.where(used, result.rows, 0).astype(jnp.int32)
    j = jnp.where(used, result.cols, 0).astype(jnp.int32)
    valid = (empty | real).all() & _are_different(i, j, used)
    own = costs.pairs(i, j)
    valid &= (~used | jnp.isfinite(own[0])).all()
    supply, demand = jnp.where(rows, supply, 0), jnp.where(cols, demand, 0)
    stays = moved is not None or unmatched_cost is not None
    near = _forgiven(supply, demand) if stays else _forgiven(supply)
    left, fits = _left(mass, i, supply, near)
    unmet, fits_too = _left(mass, j, demand, near)
    valid &= fits & fits_too

    tiny, sound = is_tiny(v).any(), jnp.isfinite(v).all()
    if not stays:
        valid &= (left == 0).all() & (unmet == 0).all()
        minima = costs.minima(v)
        slack = slack_of_pairs(own, _at(v, j), _at(minima.least, i), _at(minima.least_rest, i))
        terms = [_times_up(mass, slack)]
    elif moved is not None:
        one = jnp.zeros_like(i)
        valid &= (_left(mass, one, moved[None], near)[0] == 0).all()
        u = jnp.where(rows, -result.row_dual if maximize else result.row_dual, 0)
        u = u.astype(real_dtype)
        tiny |= is_tiny(u).any()
        valid &= jnp.isfinite(u).all()
        u, v = jnp.minimum(u, 0), jnp.minimum(v, 0)
        minima = costs.minima(v, u)
        terms = [_times_up(mass, _partial_slack(own, minima, _at(u, i), _at(v, j)))]
        terms += [_times_up(left, -u), _times_up(unmet, -v)]
    else:
        assert unmatched_cost is not None
        tiny |= (rows & is_tiny(unmatched_cost)).any()
        v = jnp.minimum(v, 0)
        minima = costs.minima(v)
        # What stays is moved to one more column, whose dual is 0.
        r, r_rest = split(unmatched_cost, maximize)
        r = jnp.where(rows, jnp.where(jnp.isnan(r), -jnp.inf, r), jnp.inf)
        valid &= ((left == 0) | (r < jnp.inf)).all()
        sound &= (r > -jnp.inf).all()
        (least, least_rest), pairs = with_unmatched(minima, own, (r, r_rest))
        mass = jnp.concatenate([mass, left.astype(mass.dtype)])
        i = jnp.concatenate([i, jnp.arange(n, dtype=jnp.int32)])
        dual = jnp.concatenate([_at(v, j), jnp.zeros_like(r)])
        slack = slack_of_pairs(pairs, dual, _at(least, i), _at(least_rest, i))
        terms = [_times_up(unmet, -v), _times_up(mass, slack)]
    tiny |= minima.has_tiny.any()
    sound &= minima.is_sound.all()
    flushed = jnp.where(tiny, _flushed(costs.dtype, mass), 0)
    gap = 0 - sum_down(-jnp.concatenate([*terms, flushed[None]]))
    proved = valid & sound & ~jnp.isnan(gap)
    gap = jnp.where(proved, gap, jnp.inf)
    return TransportCheck(valid=valid, optimal=gap == 0, gap=gap)


def _in_range(index: Int[Array, " k"], size: int) -> Bool[Array, " k"]:
    return (index >= 0) & (index < size)


def _at(x: Num[Array, " n"], index: Int[Array, " k"]) -> Num[Array, " k"]:
    return x[index] if x.size else jnp.zeros_like(x, shape=index.shape)


def _are_different(i: Array, j: Array, used: Bool[Array, " k"]) -> Bool[Array, ""]:
    """Whether no two used entries are the same pair."""
    i = jnp.where(used, i, -1)
    j = jnp.where(used, j, jnp.arange(j.size, dtype=j.dtype))  # unused entries all differ
    i, j = lax.sort((i, j), num_keys=2)
    return ~((i[1:] == i[:-1]) & (j[1:] == j[:-1])).any()


def _forgiven(*masses: Num[Array, " k"]) -> Float[Array, ""]:
    """How much sums of a plan may be off: 0 for integers."""
    real, zero = result_float(), jnp.zeros((), result_float())
    if jnp.issubdtype(masses[0].dtype, jnp.integer):
        return zero
    info, sides = jnp.finfo(masses[0].dtype), sum(x.size for x in masses) + 2
    total = sum((x.astype(real).sum() for x in masses), zero)
    # XLA may flush masses below the least normal number.
    return 3 * sides * float(info.eps) * total + 2 * sides * float(info.tiny)


def _left(
    mass: Num[Array, " k"], index: Array, expected: Num[Array, " l"], forgiven: Array
) -> tuple[Num[Array, " l"], Bool[Array, ""]]:
    """What the entries leave of the masses of their row (or column), and whether any is left."""
    real = result_float()
    if expected.size == 0:
        return expected, jnp.ones_like(mass.sum(), bool)
    sums = jnp.zeros_like(expected, real).at[index].add(mass.astype(real))
    if not jnp.issubdtype(expected.dtype, jnp.integer):
        finite = jnp.isfinite(expected).all() & (expected >= 0).all() & jnp.isfinite(sums).all()
        left = expected.astype(real) - sums
        left = jnp.where(jnp.abs(left) <= forgiven, 0, left)
        return left, finite & (left >= 0).all()
    # Sums in 2^bits, and floats show that the sum did not wrap around: then it would be at least
    # 2^bits, and it is below 2^(bits - 1) if it is right. Floats cannot be so wrong.
    wide = jnp.promote_types(mass.dtype, expected.dtype)
    left = expected.astype(wide) - jnp.zeros_like(expected, wide).at[index].add(mass.astype(wide))
    fits = sums < 2.0 ** (8 * wide.itemsize - 0.5)
    return left, ((left >= 0) & fits & (expected >= 0)).all()


def slack_of_pairs(
    own: Pair, v: Float[Array, " k"], least: Float[Array, " k"], least_rest: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Upper bounds of the cost of each pair − v − least − least_rest."""
    x, x_rest = minus(-own[0], None if own[1] is None else -own[1], -v)
    return 0 - sum_down(jnp.stack([x, least, x_rest, least_rest], -1))


def _partial_slack(
    own: Pair, minima: RowMinima, u: Float[Array, " k"], v: Float[Array, " k"]
) -> Float[Array, " k"]:
    """Upper bounds of the slack of pairs, where each unit moved may earn the least slack."""
    assert minima.slack is not None
    least = minima.slack.min(initial=jnp.inf)
    least = jnp.where(least < jnp.inf, least, 0)
    parts = [-own[0], v, u] + ([] if own[1] is None else [-own[1]])
    return 0 - sum_down(jnp.stack([*parts, jnp.broadcast_to(least, u.shape)], -1))


def _flushed(dtype: jnp.dtype, mass: Num[Array, " k"]) -> Float[Array, ""]:
    """A bound on what flushing costs and duals to 0 changes."""
    real = result_float()
    narrow = dtype != real and jnp.issubdtype(dtype, jnp.floating)
    tiny = float(jnp.finfo(jnp.float32 if narrow else real).tiny)
    total = 0 - sum_down(-mass.astype(real))
    return _times_up(total, jnp.full_like(total, 64 * tiny))


def _times_up(mass: Num[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """An upper bound of the product with x, also of a rounded mass; 0 if one of them is 0."""
    info = jnp.finfo(x.dtype)
    product = mass.astype(x.dtype) * x
    above = jnp.maximum(product + product * (8 * float(info.eps)), float(info.tiny))
    return jnp.where((mass > 0) & ~(x <= 0), above, 0)  # NaN stays NaN
