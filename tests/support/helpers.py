"""What the assignment tests share: generators, an exact solver, and assertions on whole batches."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from exact import prove

import jaxmatch as jm


NARROW = ("bfloat16", "float16", "float32", "int32")
WIDE = ("float64", "int64")  # under x64 only

# (dtype, x64) in every combination that exists.
DTYPES = [(d, x64) for x64 in (False, True) for d in NARROW + (WIDE if x64 else ())]

# Arguments that come one per problem, and those of one problem that are the same for all.
_PER_PROBLEM = ("row_mask", "col_mask", "unmatched_cost")


def x64(on: bool) -> Any:
    """The context in which 64-bit types are on, or off."""
    return jax.enable_x64(on)


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def problem(batch: Any, k: int) -> Any:
    """Problem k of a pytree of NumPy or JAX arrays with one batch dimension."""
    return jax.tree.map(lambda x: x[k], batch)


def to_numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def assert_same_bits(a: Any, b: Any) -> None:
    a, b = jax.tree.leaves(to_numpy(a)), jax.tree.leaves(to_numpy(b))
    for x, y in zip(a, b, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.tobytes() == y.tobytes(), f"{x} and {y}"


def uniform_integers(n: int, most: int, seed: int) -> np.ndarray:
    """An n x n matrix of integers uniform on [0, most], a pure function of seed and index.

    Entry k is the high half of splitmix64 from a state that depends on seed and k, scaled down.
    """
    with np.errstate(over="ignore"):
        start = np.uint64(seed * 0xD1342543DE82EF95 & (1 << 64) - 1)
        z = np.arange(n * n, dtype=np.uint64) + start + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z = (z >> np.uint64(32)) * np.uint64(most + 1) >> np.uint64(32)
    return z.astype(np.int64).reshape(n, n)


# ---------------------------------------------------------------------------------------------
# An exact solver


def exact_optimum(cost: Any, maximize: bool = False) -> Fraction | None:
    """The optimum in rational arithmetic, None if there is none.

    The textbook's Hungarian method (one Dijkstra search per row) on Python integers: slow, and
    without a rounding anywhere. An infinity is a price above the sum of everything else. Objects
    are Python's integers, and infinities.
    """
    cost = np.asarray(cost)
    cost = cost.T if cost.shape[0] > cost.shape[1] else cost
    n, m = cost.shape
    sign = -1 if maximize else 1
    integer = cost.dtype == object or np.issubdtype(cost.dtype, np.integer)
    flat = cost.ravel().tolist() if integer else cost.astype(np.float64).ravel().tolist()
    allowed = [math.isfinite(x) for x in flat]
    assert all(ok or x == sign * math.inf for ok, x in zip(allowed, flat, strict=True))
    ratios = [x.as_integer_ratio() if ok else (0, 1) for ok, x in zip(allowed, flat, strict=True)]
    unit = max((q for _, q in ratios), default=1)
    whole = [sign * p * (unit // q) for p, q in ratios]
    never = 2 * sum(map(abs, whole)) + 1
    c = np.empty(n * m, object)
    c[:] = [x if ok else never for x, ok in zip(whole, allowed, strict=True)]
    c = c.reshape(n, m)

    v = np.zeros(m, object)
    row4col = np.full(m, -1)
    for root in range(n):
        dist, pred, done = c[root] - v, np.full(m, root), np.zeros(m, bool)
        while True:
            j = min(np.flatnonzero(~done), key=lambda j: dist[j])
            if row4col[j] < 0:
                break
            done[j] = True
            i = row4col[j]
            through = dist[j] + (c[i] - v) - (c[i, j] - v[j])
            closer = ~done & (through < dist)
            dist, pred = np.where(closer, through, dist), np.where(closer, i, pred)
        v = np.where(done, v + dist - dist[j], v)
        while True:  # hand columns over along the path, back to the root
            i = pred[j]
            old = np.flatnonzero(row4col == i)
            row4col[j] = i
            if i == root:
                break
            j = old[0]
    total = sum(c[i, j] for j, i in enumerate(row4col) if i >= 0)
    return None if total >= never - sum(map(abs, whole)) and n else sign * Fraction(total, unit)


# ---------------------------------------------------------------------------------------------
# Assertions


def assert_failed(res: jm.Assignment, status: jm.Status) -> None:
    """Every problem ended with this status, and everything else says so."""
    res = to_numpy(res)
    np.testing.assert_array_equal(res.status, status)
    for x in (res.col4row, res.row4col):
        np.testing.assert_array_equal(x, -1)
    for x in (res.cost, res.row_dual, res.col_dual, res.gap):
        assert np.isnan(x).all()


def ulp(x: Fraction, dtype: np.dtype) -> Fraction:
    """The distance of floats of this dtype around x."""
    return Fraction(float(np.spacing(np.abs(dtype.type(float(x))))))


def assert_proved(
    cost: Any, res: jm.Assignment, *, exact: bool = True, maximize: bool = False, **given: Any
) -> list[Fraction]:
    """Proves every problem of a batch `[b, n, m]` in rational arithmetic; returns their optima.

    With `exact`, the duals must prove optimality without a gap, and the result must claim none.
    Else the optimum is taken from `exact_optimum` where the duals leave a gap, and what the result
    claims must be true.
    """
    cost, res = np.asarray(cost), to_numpy(res)
    optima = []
    for k in range(len(cost)):
        one, args = problem(res, k), {name: x[k] for name, x in given.items() if x is not None}
        assert set(args) <= set(_PER_PROBLEM)
        assert one.status == jm.Status.OPTIMAL, f"problem {k}: status {one.status}\n{cost[k]}"
        total, gap = prove(cost[k], one.col4row, one.col_dual, maximize, **args)
        assert_inverse(one.col4row, one.row4col)
        true_gap = gap
        if exact:
            assert gap == 0, f"problem {k}: the duals leave a gap of {float(gap)}\n{cost[k]}"
            assert one.gap == 0, f"problem {k}: gap {one.gap}"
            assert_duals(cost[k], one, maximize=maximize, **args)
        elif gap != 0:
            assert not args, "needs the optimum of a problem without masks and unmatched costs"
            best = exact_optimum(cost[k], maximize)
            assert best is not None
            true_gap = best - total if maximize else total - best
        assert true_gap <= Fraction(float(one.gap)), (
            f"problem {k} is {float(true_gap)} off, but claims to be within {one.gap}\n{cost[k]}"
        )
        # Rounded to double and then to the dtype of results.
        assert abs(Fraction(float(one.cost)) - total) <= ulp(total, one.cost.dtype)
        optima.append(total - true_gap if not maximize else total + true_gap)
    return optima


def assert_inverse(col4row: np.ndarray, row4col: np.ndarray) -> None:
    expected = np.full_like(row4col, -1)
    rows = np.flatnonzero(col4row >= 0)
    expected[col4row[rows]] = rows
    np.testing.assert_array_equal(row4col, expected)


def assert_duals(
    cost: np.ndarray,
    res: jm.Assignment,
    *,
    tol: float = 0.0,
    maximize: bool = False,
    row_mask: Any = None,
    col_mask: Any = None,
    unmatched_cost: Any = None,
) -> None:
    """The inequalities that `solve_assignment` documents for its duals, for one problem."""
    n, m = cost.shape
    sign = -1 if maximize else 1
    rows = np.ones(n, bool) if row_mask is None else np.asarray(row_mask)
    cols = np.ones(m, bool) if col_mask is None else np.asarray(col_mask)
    u, v = sign * res.row_dual.astype(np.float64), sign * res.col_dual.astype(np.float64)
    assert (u[~rows] == 0).all() and (v[~cols] == 0).all(), "masked duals are 0"
    slack = sign * cost.astype(np.float64) - u[:, None] - v[None, :]
    assert (slack[np.ix_(rows, cols)] >= -tol).all(), "u_i + v_j <= C_ij"
    matched = np.flatnonzero(res.col4row >= 0)
    assert (np.abs(slack[matched, res.col4row[matched]]) <= tol).all(), "matched pairs are tight"
    alone_rows, alone_cols = rows & (res.col4row < 0), cols & (res.row4col < 0)
    r = np.zeros(n)
    if unmatched_cost is not None:
        r = sign * np.broadcast_to(unmatched_cost, (n,)).astype(np.float64)
    if unmatched_cost is not None or rows.sum() > cols.sum():
        assert (u[rows] <= r[rows] + tol).all(), "u_i <= r_i"
        assert (np.abs(u - r)[alone_rows] <= tol).all(), "unmatched rows have u_i = r_i"
    if unmatched_cost is not None or rows.sum() < cols.sum():
        assert (v[cols] <= tol).all(), "v_j <= 0"
        assert (np.abs(v[alone_cols]) <= tol).all(), "unmatched columns have v_j = 0"


def assert_checked(
    cost: Any, res: jm.Assignment, size: int, *, most: Any = 0.0, block: int = 2000, **given: Any
) -> None:
    """`check_assignment` proves a batch `[b, n, m]`, each gap at most `most` `[b]`.

    Everything is padded to blocks of `[block, size, size]`, with masked rows and columns and with
    copies of the first problem: one shape to compile for them all.
    """
    cost, res = np.asarray(cost), to_numpy(res)
    b, n, m = cost.shape
    rows, cols, maximize = (0, size - n), (0, size - m), given.pop("maximize", False)
    row_mask = np.broadcast_to(given.pop("row_mask", True), (b, n))
    col_mask = np.broadcast_to(given.pop("col_mask", True), (b, m))
    args = {
        "cost": np.pad(cost, ((0, 0), rows, cols)),
        "row_mask": np.pad(row_mask, ((0, 0), rows)),
        "col_mask": np.pad(col_mask, ((0, 0), cols)),
        "result": res.replace(
            col4row=np.pad(res.col4row, ((0, 0), rows), constant_values=-1),
            row4col=np.pad(res.row4col, ((0, 0), cols), constant_values=-1),
            col_dual=np.pad(res.col_dual, ((0, 0), cols)),
        ),
    }
    if "unmatched_cost" in given:
        args["unmatched_cost"] = np.pad(given.pop("unmatched_cost"), ((0, 0), rows))
    assert not given
    for first in range(0, b, block):
        index = np.arange(first, first + block)
        part = jax.tree.map(lambda x: jnp.asarray(x[np.where(index < b, index, 0)]), args)  # noqa: B023
        check = jm.check_assignment(maximize=maximize, **part)
        assert np.asarray(check.valid).all()
        gap, allowed = np.asarray(check.gap)[: b - first], np.broadcast_to(most, (b,))
        worst = np.argmax(gap - allowed[first : first + block])
        assert (gap <= allowed[first : first + block]).all(), (
            f"problem {first + worst}: the certificate leaves a gap of {gap[worst]}"
        )


def native_calls(program: str) -> list[dict[str, str]]:
    """The attributes of the native calls in a lowered program."""
    calls = [line for line in program.splitlines() if "custom_call @jaxmatch_" in line]
    attribute = re.compile(r'(\w+) = (?:"([^"]*)"|([-+.\w]+) : [if]64)')
    return [{name: text or number for name, text, number in attribute.findall(x)} for x in calls]
