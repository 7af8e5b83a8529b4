"""Small problems of hostile numbers, and what must be true of their results, by trying every
assignment in integer arithmetic: no rounding, no JAX, no solver's code."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from helpers import numpy_dtype, to_numpy, x64

import jaxmatch as jm


LARGE = ("core", "auction", "classical", "tree")
SHARDED = ("core", "classical", "tree")
METHODS = ("auto", "jonker_volgenant", *LARGE, "xla")
UNIT = 1074  # every float64 is a multiple of 2^-1074


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a batch of problems has in common."""

    method: str
    dtype: str
    wide: bool
    shape: tuple[int, int]
    maximize: bool = False
    masks: bool = False
    unmatched: bool = False
    warm: bool = False

    @property
    def real(self) -> Any:
        return np.float64 if self.wide else np.float32

    @property
    def sign(self) -> int:
        return -1 if self.maximize else 1


def palette(dtype: str) -> np.ndarray:
    """Magnitudes at which something may go wrong."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    most, tiny, least = float(info.max), float(info.tiny), float(info.smallest_subnormal)
    eps = float(info.eps)
    extremes = [most, most / 2, most * (1 - eps), most * eps, tiny, tiny * (1 + eps), tiny / 2]
    extremes += [least, 3 * least, most * tiny, tiny / eps, 2 / eps, 2 / eps - 1, 2 / eps + 2]
    middle = [1.0, 1 + eps, 0.1, 1 / 3, 3.0, math.sqrt(most), math.sqrt(tiny)]
    return np.array([0.0, 0.0, *extremes, *middle]).astype(numpy_dtype(dtype)).astype(np.float64)


def hostile(rng: np.random.Generator, kind: Kind, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a few magnitudes in each problem (the first dimension), in both signs."""
    count, *rest = shape
    values = palette(kind.dtype)
    drawn = rng.choice(values, (count, 6))
    info = ml_dtypes.finfo(numpy_dtype(kind.dtype))
    spread = math.log2(float(info.max)) - math.log2(float(info.smallest_subnormal)) - 2
    anywhere = rng.random((count, 2)) * 2.0 ** (
        math.log2(float(info.smallest_subnormal)) + spread * rng.random((count, 2))
    )
    drawn = np.concatenate([drawn, anywhere], 1)[:, : rng.integers(2, 9)]
    pick = rng.integers(0, drawn.shape[1], (count, math.prod(rest)))
    x = np.take_along_axis(drawn, pick, 1).reshape(shape)
    flip = rng.random(shape) < rng.choice([0.0, 0.5, 1.0], (count, *(1 for _ in rest)))
    x = np.where(flip, -x, x)
    forbidden = rng.random(shape) < rng.choice([0.0, 0.2, 0.6], (count, *(1 for _ in rest)))
    return np.where(forbidden, kind.sign * np.inf, x)


def problems(kind: Kind, count: int, seed: int) -> dict[str, np.ndarray]:
    """The arguments of a batch."""
    words = f"{kind}".encode()
    rng = np.random.default_rng([seed, *words])
    n, m = kind.shape
    given: dict[str, np.ndarray] = {"cost": hostile(rng, kind, (count, n, m))}
    illegal = rng.random(count) < 0.05
    given["cost"][illegal, rng.integers(n), rng.integers(m)] = rng.choice(
        [np.nan, -kind.sign * np.inf]
    )
    given["cost"] = given["cost"].astype(numpy_dtype(kind.dtype))
    if kind.masks:
        given["row_mask"] = rng.random((count, n)) < 0.8
        given["col_mask"] = rng.random((count, m)) < 0.8
    if kind.unmatched:
        given["unmatched_cost"] = hostile(rng, kind, (count, n)).astype(numpy_dtype(kind.dtype))
    if kind.warm:
        given["warm_start"] = hostile(rng, kind, (count, m)).astype(kind.real)
    return given


# ---------------------------------------------------------------------------------------------
# The truth


def whole(x: float) -> int:
    """x in units of 2^-1074."""
    numerator, denominator = float(x).as_integer_ratio()
    return (numerator << UNIT) // denominator


def real(x: int) -> float:
    """The nearest float64, or an infinity."""
    try:
        return x / (1 << UNIT)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def optimum(kind: Kind, one: dict[str, Any]) -> tuple[jm.Status, int | None]:
    """Of one problem, in whole units and as costs to minimise."""
    n, m = kind.shape
    rows = np.flatnonzero(one.get("row_mask", np.ones(n, bool)))
    cols = np.flatnonzero(one.get("col_mask", np.ones(m, bool)))
    cost = kind.sign * one["cost"].astype(np.float64)[np.ix_(rows, cols)]
    leave = one.get("unmatched_cost")
    leave = None if leave is None else kind.sign * leave.astype(np.float64)[rows]
    for x in (cost, *(() if leave is None else (leave,))):
        if np.isnan(x).any() or (x == -np.inf).any():
            return jm.Status.INVALID_COST, None
    if leave is None and len(rows) > len(cols):
        cost = cost.T
    best: dict[int, int] = {0: 0}  # by the set of columns that are taken
    for i, row in enumerate(cost):
        pays = [(1 << j, whole(x)) for j, x in enumerate(row) if x < np.inf]
        if leave is not None and leave[i] < np.inf:
            pays.append((0, whole(leave[i])))
        after: dict[int, int] = {}
        for taken, sofar in best.items():
            for column, x in pays:
                if not taken & column:
                    total = sofar + x
                    if after.get(taken | column, total) >= total:
                        after[taken | column] = total
        best = after
    if not best:
        return jm.Status.INFEASIBLE, None
    return jm.Status.OPTIMAL, min(best.values())


def paid(kind: Kind, one: dict[str, Any], col4row: np.ndarray) -> tuple[int, int]:
    """What an assignment costs to minimise, in whole units, and the sum of magnitudes."""
    rows = np.flatnonzero(one.get("row_mask", np.ones(kind.shape[0], bool)))
    numbers = []
    for i in rows:
        if col4row[i] >= 0:
            numbers.append(one["cost"][i, col4row[i]])
        elif kind.unmatched:
            numbers.append(one["unmatched_cost"][i])
    assert all(math.isfinite(x) for x in numbers), f"{one} {col4row}"
    numbers = [kind.sign * whole(x) for x in numbers]
    return sum(numbers), sum(map(abs, numbers))


def assert_matching(kind: Kind, one: dict[str, Any], res: jm.Assignment) -> None:
    n, m = kind.shape
    rows, cols = one.get("row_mask", np.ones(n, bool)), one.get("col_mask", np.ones(m, bool))
    taken = np.flatnonzero(res.col4row >= 0)
    assert (res.row4col[res.col4row[taken]] == taken).all()
    assert (res.row4col >= 0).sum() == len(taken)
    assert rows[taken].all() and cols[res.col4row[taken]].all()
    if not kind.unmatched:
        assert len(taken) == min(rows.sum(), cols.sum())


# ---------------------------------------------------------------------------------------------
# What must be true


def flushed(kind: Kind) -> int:
    """What XLA may hide from the twin and the checks, which read denormal numbers as zero: whole
    units."""
    narrow = kind.dtype != "float64"
    n, m = kind.shape
    room = 1 << (8 * (n + m)).bit_length()
    return whole(64 * (n + m) * room * float(np.finfo(np.float32 if narrow else np.float64).tiny))


def assert_one(kind: Kind, one: dict[str, Any], res: jm.Assignment, check: Any) -> None:
    """Everything that is promised of the result of one problem."""
    status, best = optimum(kind, one)
    assert res.status == status, f"status {res.status} where it is {status}"
    if best is None:
        assert np.isnan(res.cost) and np.isnan(res.gap) and (res.col4row == -1).all()
        return
    assert_matching(kind, one, res)
    total, magnitude = paid(kind, one, res.col4row)
    error = total - best
    for name, gap in [("gap", res.gap), ("check's gap", check.gap)]:
        assert gap >= 0, f"{name} is {gap}"
        assert gap == np.inf or whole(gap) >= error, f"{name} {gap} where {real(error)} is true"
    assert check.valid
    # A bound that is infinite proves nothing: where sums are far from the end of the range of the
    # results, there is one.
    info = np.finfo(kind.real)
    numbers = [one["cost"], one.get("unmatched_cost", [0.0])]
    numbers = np.concatenate([np.ravel(x).astype(np.float64) for x in numbers])
    if np.abs(numbers[np.isfinite(numbers)]).max(initial=0) < float(info.max) / 1024:
        assert res.gap < np.inf
    # The cost is the sum, rounded, of numbers that are added in twice the precision.
    digits = info.nmant if kind.method == "xla" else 52
    slack = magnitude * sum(kind.shape) ** 2 >> 2 * digits
    if kind.method == "xla":
        slack += flushed(kind)
    with np.errstate(over="ignore"):
        low, high = (kind.real(real(kind.sign * total + d)) for d in (-slack, slack))
        low, high = (np.nextafter(x, kind.real(to)) for x, to in [(low, -np.inf), (high, np.inf)])
    assert low <= res.cost <= high, f"cost {res.cost} where {real(kind.sign * total)} is true"


def solve(kind: Kind, given: dict[str, Any]) -> jm.Assignment:
    arguments = {name: jnp.asarray(x) for name, x in given.items()}
    cost = arguments.pop("cost")
    return jm.solve_assignment(cost, method=kind.method, maximize=kind.maximize, **arguments)


def judge(
    kind: Kind,
    given: dict[str, Any],
    solve: Callable[[Kind, dict[str, Any]], jm.Assignment] = solve,
) -> None:
    """Solves a batch and asserts what must be true of each problem."""
    with x64(kind.wide):
        res = solve(kind, given)
        problem = {name: jnp.asarray(x) for name, x in given.items() if name != "warm_start"}
        check = jm.check_assignment(result=res, maximize=kind.maximize, **problem)
        res, check = to_numpy((res, check))
    for k in range(len(given["cost"])):
        one = {name: x[k] for name, x in given.items()}
        try:
            assert_one(kind, one, *jax.tree.map(lambda x: x[k], (res, check)))  # noqa: B023
        except AssertionError as e:
            show = {name: x.tolist() for name, x in one.items()}
            raise AssertionError(f"{e}\n{kind}, problem {k}:\n{show}") from e
