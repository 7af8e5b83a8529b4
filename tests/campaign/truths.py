"""The optimum of small assignment problems, by all choices there are, and what results must be."""

from __future__ import annotations

import dataclasses
import itertools
from functools import lru_cache
from typing import Any

import numpy as np

from campaign.exactly import flat, is_at_most, real, whole
from campaign.problems import Batch
from jaxmatch import Status


@dataclasses.dataclass
class Problem:
    """Assignment to minimise: the last column of `price` stands for leaving a row."""

    price: np.ndarray  # [b, n, m + 1] of a dtype
    legal: np.ndarray  # bool [b, n, m + 1]
    free_cols: np.ndarray  # [b, m], of the same dtype: what leaving a column costs
    legal_free: np.ndarray  # bool [b, m]
    pairs: np.ndarray | None  # [b]: how many there must be; None: as many as pay
    most: np.ndarray | None  # [b, m]: rows that a column takes, if not one
    least: np.ndarray | None  # [b, m]
    failures: list[set[int]]  # statuses of which one must come
    allowed: list[set[int]]  # others that may come
    maximum: bool = False  # as many pairs as possible


@lru_cache
def choices(n: int, m: int, capacitated: bool, full: bool) -> np.ndarray:
    """The column of each row, m for none; `full` ones only where no fewer pairs can do."""
    every = itertools.product(range(m + 1), repeat=n)
    if full:
        short, long = min(n, m), range(max(n, m))
        if n <= m:
            every = itertools.permutations(long, short)
        else:
            every = ([*map(dict(zip(own, range(m), strict=True)).get, range(n), [m] * n)]
                     for own in itertools.permutations(long, short))  # fmt: skip
    elif not capacitated:
        every = (x for x in every if all(x.count(j) <= 1 for j in {*x} - {m}))
    found = [*every]
    return np.array(found, int).reshape(len(found), n)


def priced(batch: Batch, cost: np.ndarray) -> Problem:
    """Dense or sparse costs [b, n, m] with masks, gates and capacities."""
    given, sign = batch.arrays, batch.sign
    count, n, m = cost.shape
    there = batch.known.get("there", np.ones((count, n, m), bool))
    rows = given.get("row_mask", np.ones((count, n), bool))
    cols = given.get("col_mask", np.ones((count, m), bool))
    there = there & rows[:, :, None] & cols[:, None, :]
    r, s = given.get("unmatched_cost"), given.get("unmatched_col_cost")
    dtype: Any = np.float64
    if cost.dtype.kind == "i":  # as are unmatched costs, though maybe as floats
        dtype = np.int64 if r is None or r.dtype.kind == "i" else object
    if dtype is object:
        r, s = (None if x is None else _integers(x) for x in (r, s))
    with np.errstate(invalid="ignore"):
        c = np.where(there, sign * cost.astype(dtype), 0)
        stay = np.zeros((count, n), dtype) if r is None else np.where(rows, sign * r, 0)
        leave = np.zeros((count, m), dtype) if s is None else np.where(cols, sign * s, 0)
    c, stay, leave = (x.astype(dtype) for x in (c, stay, leave))
    numbers = [flat(x).astype(np.float64) for x in (c, stay, leave)]
    numbers = np.concatenate(numbers, 1)
    invalid = np.isnan(numbers).any(1) | (numbers == -np.inf).any(1)
    failures: list[set[int]] = [set() for _ in range(count)]
    for k in np.flatnonzero(invalid):
        failures[k].add(Status.INVALID_COST)
    price = np.concatenate([c, stay[:, :, None]], 2)
    exists = np.concatenate([there, np.ones((count, n, 1), bool)], 2)
    legal = exists & np.isfinite(price.astype(np.float64))
    pairs = most = least = None
    maximum = batch.options.get("cardinality") == "maximum"
    num_rows, num_cols = rows.sum(1), cols.sum(1)
    if "col_capacity" in given:
        most = given["col_capacity"]
        least = given.get("col_minimum", np.zeros_like(most))
        num_cols = most.sum(1)
        for k in np.flatnonzero((most < 0).any(1) | (least < 0).any(1)):
            failures[k].add(Status.INVALID_CAPACITY)
    if r is None and not maximum:
        pairs = np.minimum(num_rows, num_cols)
    return Problem(price, legal, leave, np.isfinite(leave.astype(np.float64)), pairs, most, least,
                   failures, [set() for _ in range(count)], maximum)  # fmt: skip


def _integers(x: np.ndarray) -> np.ndarray:
    """As Python's, also where there is nothing."""
    return np.array([int(y) for y in x.ravel().tolist()], object).reshape(x.shape)


def overflow(problem: Problem, batch: Batch, factor: int, limit: int) -> None:
    """Integers of which sums may not fit: beyond the limit for the unmasked size, they must."""
    if batch.dtype not in ("int32", "int64"):
        return
    n, m = problem.price.shape[1:]
    numbers = np.concatenate([flat(problem.price), problem.free_cols], 1)
    size = np.abs(numbers.astype(object)).max(1, initial=0)
    for k in range(batch.count):
        if size[k] * factor * (max(min(n, m - 1), 1) + 2) >= limit >> 3:
            problem.allowed[k].add(Status.OVERFLOW)


@dataclasses.dataclass
class Best:
    """The least total of each problem, in units of its own."""

    numbers: np.ndarray  # [b, n, m + 1]
    of_cols: np.ndarray
    unit: np.ndarray
    total: list[int | None]
    count: np.ndarray


def best_of(problem: Problem) -> Best:
    count, n, columns = problem.price.shape
    m = columns - 1
    given = np.concatenate([flat(problem.price), problem.free_cols], 1)
    ints, unit = whole(np.where(np.isfinite(given.astype(np.float64)), given, 0))
    ints = ints.astype(object) if np.abs(ints).max(initial=0) >= 1 << 57 else ints
    numbers, of_cols = ints[:, : n * columns].reshape(count, n, columns), ints[:, n * columns :]
    full = problem.pairs is not None and problem.most is None
    full = full and bool((problem.pairs == min(n, m)).all())
    every = choices(n, m, problem.most is not None, full)
    total = np.zeros((count, len(every)), ints.dtype)
    legal = np.ones((count, len(every)), bool)
    for i in range(n):
        total = total + numbers[:, i][:, every[:, i]]
        legal &= problem.legal[:, i][:, every[:, i]]
    times = (every[:, :, None] == np.arange(m)).sum(1)  # [choices, m]
    matched = times.sum(1)
    if problem.most is None:
        for j in range(m):
            empty = times[:, j] == 0
            total = total + np.where(empty, of_cols[:, j, None], 0)
            legal &= ~(empty & ~problem.legal_free[:, j, None])
    else:
        for j in range(m):
            legal &= (times[:, j] <= problem.most[:, j, None]) & (
                times[:, j] >= problem.least[:, j, None]
            )
    if problem.pairs is not None:
        legal &= matched == problem.pairs[:, None]
    if problem.maximum:
        legal &= matched == np.where(legal, matched, -1).max(1, initial=-1)[:, None]
    beyond = (1 << 61) if ints.dtype != object else 1 << 6000
    least = np.where(legal, total, beyond).min(1, initial=beyond)
    found = [int(x) if ok else None for x, ok in zip(least, legal.any(1), strict=True)]
    size = np.where(legal, matched, -1).max(1, initial=-1)
    return Best(numbers, of_cols, unit, found, size)


def judge(batch: Batch, problem: Problem, res: Any, twin: bool) -> dict[int, str]:
    """What is wrong, by problem, of results with `col4row`, `cost`, `gap` and `status`."""
    best = best_of(problem)
    wrong = {}
    for k in range(batch.count):
        reason = _judge_one(batch, problem, best, res, k, twin)
        if reason:
            wrong[k] = reason
    return wrong


def _judge_one(
    batch: Batch, problem: Problem, best: Best, res: Any, k: int, twin: bool
) -> str | None:
    status = int(res.status[k])
    expected = problem.failures[k] or {Status.INFEASIBLE if best.total[k] is None else 0}
    if status not in expected | problem.allowed[k]:
        return f"status {status}, not {sorted(map(int, expected))}"
    n, columns = problem.price.shape[1:]
    m, own = columns - 1, res.col4row[k]
    if status != Status.OPTIMAL:
        failed = (own == -1).all() and np.isnan(res.cost[k]) and np.isnan(res.gap[k])
        return None if failed else "no failure's fields"
    if not ((own >= -1) & (own < m)).all():
        return f"col4row {own}"
    at = np.where(own < 0, m, own)
    times = np.bincount(at, minlength=columns)[:m]
    if problem.most is None:
        back = np.full(m, -1)
        back[own[own >= 0]] = np.flatnonzero(own >= 0)
        if (times > 1).any() or not np.array_equal(back, res.row4col[k]):
            return f"col4row {own} and row4col {res.row4col[k]}"
        idle = times == 0
        if not problem.legal_free[k][idle].all():
            return "a column stays that must not"
    else:
        if not np.array_equal(times, res.col_count[k]):
            return f"col4row {own} and col_count {res.col_count[k]}"
        if (times > problem.most[k]).any() or (times < problem.least[k]).any():
            return f"counts {times} beyond capacities"
        idle = np.zeros(m, bool)
    if not problem.legal[k, np.arange(n), at].all():
        return f"col4row {own} uses a pair that does not exist"
    if problem.pairs is not None and times.sum() != problem.pairs[k]:
        return f"{times.sum()} pairs, not {problem.pairs[k]}"
    if np.isnan(res.row_dual[k]).any() or np.isnan(res.col_dual[k]).any():
        return f"duals {res.row_dual[k]}, {res.col_dual[k]}"
    unit, gap = int(best.unit[k]), res.gap[k]
    terms = [int(x) for x in best.numbers[k, np.arange(n), at]]
    terms += [int(x) for x in best.of_cols[k][idle]]
    total = sum(terms)
    if not gap >= 0:
        return f"gap {gap}"
    if problem.maximum and times.sum() < best.count[k]:
        most = np.abs(np.where(problem.legal[k], problem.price[k], 0)).max(initial=0)
        return None if gap >= most else f"{times.sum()} pairs, not {best.count[k]}, gap {gap}"
    if not is_at_most(total - best.total[k], unit, gap):
        error = real(total - best.total[k], unit)
        return f"cost {real(total, unit)} is {error} above the optimum, gap {gap}"
    # Numbers are added in twice the precision, and rounded.
    kind = res.cost.dtype.type
    info = np.finfo(kind)
    slack = (sum(map(abs, terms)) * (n + m) ** 2 >> 2 * (info.nmant if twin else 52)) + 1
    hidden = 64 * (n + m) ** 2 * float(info.tiny) if twin else 0.0
    with np.errstate(over="ignore"):
        low, high = (kind(batch.sign * real(total, unit) + d) for d in (-hidden, hidden))
        bounds = [kind(batch.sign * real(total + d, unit)) for d in (-slack, slack)]
        low, high = min(low, *bounds), max(high, *bounds)
        low, high = np.nextafter(low, kind(-np.inf)), np.nextafter(high, kind(np.inf))
    if not low <= res.cost[k] <= high:
        return f"cost {res.cost[k]}, not {batch.sign * real(total, unit)}"
    return None
