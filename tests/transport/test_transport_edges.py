"""`solve_transport` where there is nothing to move, in every dtype, masked, and at every status."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, problem, to_numpy, x64
from transport_truth import assert_failed, assert_true

import jaxmatch as jm
from jaxmatch import Status


METHODS = ("network_simplex", "xla")
KINDS = ("all", "partial", "unmatched")
INF, NAN = np.inf, np.nan


def options_of(kind: str, moved: Any, unmatched: Any) -> dict[str, Any]:
    return {"partial": {"partial": moved}, "unmatched": {"unmatched_cost": unmatched}}.get(kind, {})


# ---------------------------------------------------------------------------------------------
# Nothing


# The twin is compiled for each case, so it has fewer.
EMPTY = [(*size, kind, METHODS[0]) for size in ((0, 3), (3, 0), (0, 0)) for kind in KINDS]
EMPTY += [(3, 0, "unmatched", "xla")]


@pytest.mark.parametrize("n, m, kind, method", EMPTY)
def test_no_rows_or_no_columns(n, m, kind, method, platform):
    for batch in ((), (2,)) if (platform, method) == ("cpu", METHODS[0]) else ((2,),):
        cost = jnp.zeros((*batch, n, m))
        mass = 0 if kind == "all" else 2
        a, b = (jnp.full((*batch, k), mass) for k in (n, m))
        given = options_of(kind, 0, 5.0)
        res = jm.solve_transport(cost, a, b, method=method, **given)
        assert res.status.shape == batch and (res.status == Status.OPTIMAL).all()
        assert res.rows.shape == res.mass.shape == (*batch, max(n + m - 1, 0))
        assert (res.rows == -1).all() and (res.mass == 0).all() and (res.gap == 0).all()
        # All of the supply stays.
        assert (res.cost == (10 * n if kind == "unmatched" else 0)).all()
        assert res.todense().shape == cost.shape
        if batch:
            assert jm.check_transport(cost, a, b, res, **given).optimal.all()
        if kind == "all" and n + m > 0:
            res = jm.solve_transport(cost, a + 1, b + 1, method=method)
            assert (res.status == Status.UNBALANCED).all()
        if kind == "partial":
            res = jm.solve_transport(cost, a, b, partial=1, method=method)
            assert (res.status == Status.UNBALANCED).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_problems(kind, platform):
    for shape in ((0, 2, 3), (2, 0, 2, 3)):
        cost, given = jnp.zeros(shape), options_of(kind, 1, 5.0)
        a, b = jnp.ones((*shape[:-2], 2)), jnp.ones(3) * 2 / 3
        res = jm.solve_transport(cost, a, b, **given)
        assert res.status.shape == shape[:-2] and res.rows.shape == (*shape[:-2], 4)
        assert res.row_dual.shape == shape[:-1] and res.col_dual.shape == (*shape[:-2], 3)
        assert res.todense().shape == shape
        assert jm.check_transport(cost, a, b, res, **given).gap.shape == shape[:-2]


@pytest.mark.parametrize("method", METHODS)
def test_no_mass(method, platform):
    """The optimum moves nothing, whatever is forbidden, and the duals still prove it."""
    cost = jnp.array([[3.0, -4.0, INF], [INF, INF, INF]])
    for mass in (jnp.float32, jnp.int32)[: 2 if method == METHODS[0] else 1]:
        a, b = jnp.zeros(2, mass), jnp.zeros(3, mass)
        for kind in KINDS if method == METHODS[0] else ("unmatched",):
            given = options_of(kind, 0, jnp.array([1.0, -2.0]))
            res = jm.solve_transport(cost, a, b, method=method, **given)
            assert (res.status, res.cost, res.gap) == (Status.OPTIMAL, 0, 0)
            assert (res.rows == -1).all()
            if mass == jnp.float32:
                assert jm.check_transport(cost, a, b, res, **given).optimal


@pytest.mark.parametrize("method", METHODS)
def test_one_row_and_one_column(method, platform):
    rng = np.random.default_rng(0)
    cost = rng.integers(-9, 10, (1, 6)).astype(np.float32)
    mass = rng.integers(0, 9, 6)
    whole = mass.sum(keepdims=True)
    for c, a, b in ((cost, whole, mass), (cost.T, mass, whole)):
        res = to_numpy(jm.solve_transport(*map(jnp.asarray, (c, a, b)), method=method))
        assert (res.cost, res.gap) == ((cost[0] * mass).sum(), 0)
        assert (res.rows >= 0).sum() == (mass > 0).sum()


# ---------------------------------------------------------------------------------------------
# Dtypes


COSTS = ("bool", "int8", "uint16", "int32", "int64", "bfloat16", "float16", "float32", "float64")
MASSES = ("uint8", "int32", "int64", "float16", "float32", "float64")
WIDE = {"int64", "float64"}
PAIRS = [
    (cost, mass, on)
    for cost, mass, on in itertools.product(COSTS, MASSES, (False, True))
    if on or not {cost, mass} & WIDE
]


@pytest.mark.parametrize("on", [False, True], ids=["x32", "x64"])
def test_every_cost_dtype_with_every_mass_dtype(on, platform):
    rng = np.random.default_rng(1)
    pairs = [(cost, mass) for cost, mass, x in PAIRS if x == on]
    for k, (cost, mass) in enumerate(pairs):
        c = rng.integers(0, 2 if cost == "bool" else 60, (3, 4)).astype(numpy_dtype(cost))
        a, b = np.array([3, 0, 5]).astype(mass), np.array([1, 2, 2, 3]).astype(mass)
        kind = KINDS[k % 3]
        given = options_of(kind, np.asarray(4, mass), np.asarray(7, c.dtype))
        if kind == "partial" and mass in ("uint8", "float16"):
            given = options_of(kind, np.asarray(4, np.int32), None)
        if kind == "unmatched" and cost in ("bool", "int8", "uint16"):
            given = options_of(kind, None, np.asarray(7, np.int32))
        with x64(on):
            res = jm.solve_transport(
                *map(jnp.asarray, (c, a, b)), **{name: jnp.asarray(x) for name, x in given.items()}
            )
            assert res.cost.dtype == res.gap.dtype == res.row_dual.dtype == jnp.result_type(float)
            wider = {"uint8": "int32", "float16": "float32"}.get(mass, mass)
            assert res.mass.dtype == wider and res.rows.dtype == res.status.dtype == jnp.int32
        res, one = to_numpy(res), c.astype(int) if "float" not in cost else c
        assert assert_true(one, a, b, res, **given) == "OPTIMAL"
        assert res.gap == 0


@pytest.mark.parametrize(
    "cost, mass", [("bfloat16", "int32"), ("float16", "float32"), ("int32", "float32")]
)
def test_the_twin_takes_narrow_dtypes(cost, mass):
    rng = np.random.default_rng(2)
    c = rng.integers(-9, 60, (8, 3, 4)).astype(numpy_dtype(cost))
    a, b = np.array([3, 0, 5]).astype(mass), np.array([1, 2, 2, 3]).astype(mass)
    res = [to_numpy(jm.solve_transport(c, a, b, method=method)) for method in METHODS]
    np.testing.assert_array_equal(res[0].cost, res[1].cost)
    assert res[1].mass.dtype == mass and (res[1].gap == 0).all()


def test_supply_and_demand_of_two_dtypes():
    cost = np.array([[1.0, 2], [3, 4]], np.float32)
    for one, other, expected in (
        ("int32", "float32", "float32"),
        ("float32", "int8", "float32"),
        ("uint8", "int32", "int32"),
        ("int64", "int32", "int64"),
        ("float32", "float64", "float64"),
    ):
        a, b = np.array([1, 3]).astype(one), np.array([2, 2]).astype(other)
        res = jm.solve_transport(cost, a, b)
        assert (res.mass.dtype, res.cost) == (expected, 2 + 3 * 2 + 4)


# ---------------------------------------------------------------------------------------------
# Masks


@pytest.mark.parametrize(
    "kind, method", [*((kind, METHODS[0]) for kind in KINDS), ("unmatched", "xla")]
)
def test_masked_rows_and_columns_may_hold_anything(kind, method, platform):
    """As if they were left out: of the costs, the masses, the unmatched costs and warm starts."""
    rng = np.random.default_rng(3)
    size, n, m = 24, 5, 6
    cost = rng.integers(-9, 10, (size, n, m)).astype(np.float32)
    rows, cols = rng.random((size, n)) < 0.6, rng.random((size, m)) < 0.6
    rows[:, 0] = cols[:, 0] = True
    rows[1], cols[2] = False, False  # nothing is left
    rows[3] = cols[3] = False
    a = np.where(rows, rng.integers(0, 7, (size, n)), 0)
    b = np.where(cols, rng.integers(0, 7, (size, m)), 0)
    if kind == "all":
        share = [x / max(x.sum(), 1) for x in cols.astype(float)]
        b = np.array([rng.multinomial(x.sum() * (y.sum() > 0), y) * (y > 0)
                      for x, y in zip(a, share, strict=True)])  # fmt: skip
    a, b = a.astype(np.float32), b.astype(np.float32)
    moved = np.minimum(a.sum(1), b.sum(1)) // 2
    r = rng.integers(-9, 10, (size, n)).astype(np.float32)
    dirt = rng.choice([NAN, INF, -INF, -1.0, 3e38], 9).astype(np.float32)
    dirty = [cost, a, b, r, np.zeros((size, m), np.float32)]
    alive = [rows[:, :, None] & cols[:, None, :], rows, cols, rows, cols]
    dirty = [np.where(ok, x, rng.choice(dirt, x.shape)) for x, ok in zip(dirty, alive, strict=True)]

    def solve(c: Any, a: Any, b: Any, r: Any, start: Any, rows: Any, cols: Any) -> Any:
        given = options_of(kind, jnp.asarray(moved), r)
        masks = {"row_mask": rows, "col_mask": cols}
        res = jm.solve_transport(c, a, b, warm_start=start, method=method, **masks, **given)
        return res, jm.check_transport(c, a, b, res, **masks, **given)

    arrays = [jnp.asarray(x) for x in (*dirty, rows, cols)]
    res, check = to_numpy(jax.jit(solve)(*arrays))
    expected = np.where((kind == "all") & (a.sum(1) != b.sum(1)), Status.UNBALANCED, 0)
    np.testing.assert_array_equal(res.status, expected)
    assert (expected == 0).sum() > size // 2
    for k in np.flatnonzero(expected == 0):
        given = options_of(kind, moved[k], r[k])
        masks = {"row_mask": rows[k], "col_mask": cols[k]}
        assert_true(cost[k], a[k], b[k], problem(res, k), **masks, **given)
        assert (res.row_dual[k][~rows[k]] == 0).all() and (res.col_dual[k][~cols[k]] == 0).all()
        assert check.optimal[k]


def test_masks_broadcast():
    rng = np.random.default_rng(4)
    cost = rng.integers(0, 9, (4, 3, 3)).astype(np.float32)
    mask, a = np.array([True, False, True]), np.array([2, 9, 1])
    res = jm.solve_transport(cost, a, a, row_mask=mask, col_mask=mask)
    kept = cost[:, mask][:, :, mask]
    np.testing.assert_array_equal(res.cost, jm.solve_transport(kept, a[mask], a[mask]).cost)
    none = jm.solve_transport(cost, a, a, row_mask=False, col_mask=np.zeros((4, 1), bool))
    assert (none.cost == 0).all() and (none.status == 0).all()
    with pytest.raises((TypeError, ValueError), match="row_mask"):
        jm.solve_transport(cost, a, a, row_mask=np.ones(3))


# ---------------------------------------------------------------------------------------------
# Statuses


ONE, TWO = [[1, 2], [3, 4]], [2, 2]
OF_ALL = [
    (Status.OPTIMAL, ONE, [1, 3], TWO),
    (Status.OPTIMAL, [[INF, 1], [1, INF]], [2, 3], [3, 2]),
    (Status.OPTIMAL, [[INF, INF], [1, 2]], [0, 4], TWO),
    (Status.OPTIMAL, ONE, [0, 0], [0, 0]),
    (Status.INFEASIBLE, [[INF, 1], [INF, 1]], [1, 1], [1, 1]),
    (Status.INFEASIBLE, [[INF, 1], [1, 1]], [3, 1], TWO),
    (Status.UNBALANCED, ONE, [1, 2], TWO),
    (Status.UNBALANCED, [[INF, INF], [INF, INF]], [0, 0], [0, 1]),
    (Status.INVALID_MASS, ONE, [-1, 5], TWO),
    (Status.INVALID_MASS, ONE, [-1, 1], [1, -1]),
    (Status.INVALID_COST, [[1, NAN], [3, 4]], [1, 3], TWO),
    (Status.INVALID_COST, [[1, -INF], [3, 4]], [1, 3], TWO),
    (Status.INVALID_COST, [[1, NAN], [3, 4]], [0, 4], TWO),  # where there is no mass
    (Status.INVALID_COST, [[1, NAN], [3, 4]], [-1, 1], TWO),  # the first that is said
]
OF_FLOATS = [
    (Status.INVALID_MASS, ONE, [NAN, 4], TWO),
    (Status.INVALID_MASS, ONE, [INF, 4], [INF, 4]),
    (Status.INVALID_MASS, ONE, [2, 2], [NAN, NAN]),
    (Status.UNBALANCED, ONE, [2, 2], [2, 2.001]),
]
OF_PARTIAL = [
    (Status.OPTIMAL, ONE, [1, 2], [3, 4], 3),
    (Status.OPTIMAL, ONE, [1, 2], [3, 4], 0),
    (Status.OPTIMAL, [[INF, INF], [1, 2]], [9, 2], [3, 4], 2),
    (Status.UNBALANCED, ONE, [1, 2], [3, 4], 4),
    (Status.UNBALANCED, ONE, [0, 0], [3, 4], 1),
    (Status.INFEASIBLE, [[INF, INF], [1, 2]], [9, 2], [3, 4], 3),
    (Status.INVALID_MASS, ONE, [1, 2], [3, 4], -1),
    (Status.INVALID_MASS, ONE, [1, -2], [3, 4], 0),
    (Status.INVALID_COST, [[1, NAN], [3, 4]], [1, 2], [3, 4], 0),
]
OF_UNMATCHED = [
    (Status.OPTIMAL, ONE, [1, 2], [3, 4], [9, 9]),
    (Status.OPTIMAL, [[INF, INF], [1, 2]], [9, 2], [3, 4], [9, 9]),
    (Status.OPTIMAL, ONE, [3, 4], [3, 4], [INF, INF]),  # forbids to leave any
    (Status.OPTIMAL, ONE, [1, 2], [0, 0], [-5, 0]),
    (Status.INFEASIBLE, ONE, [3, 4], [1, 4], [INF, INF]),
    (Status.INFEASIBLE, [[INF, INF], [1, 2]], [1, 2], [3, 4], [INF, 0]),
    (Status.INVALID_MASS, ONE, [1, 2], [3, -4], [9, 9]),
    (Status.INVALID_COST, ONE, [1, 2], [3, 4], [NAN, 9]),
    (Status.INVALID_COST, ONE, [0, 2], [3, 4], [-INF, 9]),
    (Status.INVALID_COST, [[1, NAN], [3, 4]], [1, 2], [3, 4], [9, 9]),
]
TABLES = {"all": OF_ALL, "floats": OF_FLOATS, "partial": OF_PARTIAL, "unmatched": OF_UNMATCHED}


@pytest.mark.parametrize(
    "table, method", [*((x, METHODS[0]) for x in TABLES), ("partial", "xla"), ("unmatched", "xla")]
)
def test_statuses(table, method, platform):
    """All in one batch: no problem disturbs another."""
    expected, *columns = zip(*TABLES[table], strict=True)
    cost, a, b, *more = (np.array(x) for x in columns)
    options = {"partial": "partial", "unmatched": "unmatched_cost"}
    masses = ("float32", "float64") if table == "floats" else ("int32", "float32", "int64")
    masses = masses if method == METHODS[0] else masses[1:2]
    for mass, maximize in zip(masses, (True, False, False), strict=False):
        wide = mass in WIDE
        real = np.float64 if wide else np.float32
        sign = -1 if maximize else 1
        arrays = (sign * cost).astype(real), a.astype(mass), b.astype(mass)
        given = {"maximize": maximize}
        if more:
            x = more[0].astype(mass) if table == "partial" else (sign * more[0]).astype(real)
            given[options[table]] = x
        with x64(wide):
            arrays = [jnp.asarray(x) for x in arrays]
            given = {k: x if k == "maximize" else jnp.asarray(x) for k, x in given.items()}
            res = jm.solve_transport(*arrays, method=method, **given)
            if mass == masses[0]:
                check = jm.check_transport(*arrays, res, **given)
                np.testing.assert_array_equal(check.optimal, res.status == Status.OPTIMAL)
            res = to_numpy(res)
        assert [Status(int(x)) for x in res.status] == [*expected]
        for k, status in enumerate(expected):
            if status != Status.OPTIMAL:
                assert_failed(problem(res, k))
            else:
                one = {name: np.asarray(x)[k] for name, x in given.items() if name != "maximize"}
                one["maximize"] = maximize
                assert_true(*(np.asarray(x)[k] for x in arrays), problem(res, k), **one)


@pytest.mark.parametrize(
    "kind, method", [*((kind, METHODS[0]) for kind in KINDS), ("all", "xla"), ("partial", "xla")]
)
def test_sums_of_long_integers_near_their_limit(kind, method, platform):
    """2^60 - 1 units are solved to the last one, 2^60 overflow."""
    most = 2**60
    with x64(True):
        cost = jnp.array([[3, 1, 4], [1, 5, 9]])
        for total, expected in ((most - 1, Status.OPTIMAL), (most, Status.OVERFLOW)):
            if kind == "all":
                a, b = [total - 5, 5], [7, total // 3, total - 7 - total // 3]
            else:  # what is moved between dummies counts, too
                a, b = [total - 20, 5], [7, 5, 3]
            moved = 0 if total == most else 15
            if kind == "partial" and expected == Status.OPTIMAL:
                a[0] += 15
            if kind == "partial" and expected == Status.OVERFLOW:
                a[0] += 6
            arrays = cost, jnp.array(a), jnp.array(b)
            given = options_of(kind, moved, jnp.array([2, 3]))
            res = to_numpy(jm.solve_transport(*arrays, method=method, **given))
            assert res.status == expected
            if expected == Status.OPTIMAL:
                assert assert_true(*map(np.asarray, arrays), res, **given) == "OPTIMAL"
            else:
                assert_failed(res)
        huge = jnp.full(2, 2**63 - 1)
        res = jm.solve_transport(cost[:, :2], huge, huge, method=method)
        assert res.status == Status.OVERFLOW


def test_int32_masses_may_sum_beyond_int32(platform):
    most = np.int32(2**31 - 1)
    cost = jnp.array([[1.0, 2.0], [2.0, 1.0]])
    a = jnp.full(2, most)
    res = to_numpy(jm.solve_transport(cost, a, a, method="network_simplex"))
    assert res.mass.tolist() == [most, most, 0]
    assert res.cost == np.float32(2 * int(most)) and res.gap == 0
    wrapped = jm.solve_transport(cost, a, jnp.array([most, most - 1]), method="network_simplex")
    assert wrapped.status == Status.UNBALANCED


@pytest.mark.parametrize("method", METHODS)
def test_long_integer_costs_near_their_limit(method, platform):
    """2 (k + 1) max|C| may be up to 2^61, with mass in k rows and columns at least."""
    with x64(True):
        for k in (2,) if method == "xla" else (1, 2, 3):
            limit = 2**60 // (k + 1)
            cost = jnp.full((k, 4), limit).at[0, 0].set(-limit)
            a, b = jnp.full(k, 4), jnp.full(4, k)
            res = to_numpy(jm.solve_transport(cost, a, b, method=method))
            assert assert_true(np.asarray(cost), np.asarray(a), np.asarray(b), res) == "OPTIMAL"
            over = jm.solve_transport(cost.at[0, 0].set(-limit - limit // 99), a, b, method=method)
            assert over.status == Status.OVERFLOW
        least = jnp.array([[-(2**63), 0], [0, 0]])
        assert jm.solve_transport(least, a[:2], a[:2], method=method).status == Status.OVERFLOW


@pytest.mark.parametrize("method", METHODS)
def test_partial_plans_of_the_least_integers(method, platform):
    """The pair of the dummies must cost more than any pair saves, which int32 may not hold."""
    a = jnp.full(2, 4)
    for least in (-(2**31), -(2**31) + 1, -(2**31) + 2):
        cost = jnp.array([[5, 2**31 - 1], [least, least]], jnp.int32)
        for maximize, best in ((False, least), (True, 2**31 - 1)):
            if maximize and method == "xla":
                continue  # to compile less
            res = jm.solve_transport(cost, a, a, partial=1, maximize=maximize, method=method)
            outweighed = least >= -(2**31) + 2 or maximize
            if res.status == Status.OVERFLOW and (method == "xla" or not outweighed):
                continue  # floats of the twin hold fewer bits
            assert (res.status, res.cost) == (Status.OPTIMAL, np.float32(best))
            assert res.mass.sum() == 1


def test_sums_of_floats_may_differ_by_roundings(platform):
    """By 1e-6 of the total where there are few masses."""
    cost = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    for mass, on in (("float32", False), ("float32", True), ("float64", True)):
        with x64(on):
            a = jnp.array([0.5, 0.5], mass)
            for off, expected in ((9e-7, 0), (-9e-7, 0), (1.2e-6, 8), (-1.2e-6, 8)):
                b = jnp.array([0.25, 0.75 + off], mass)
                res = to_numpy(jm.solve_transport(cost, a, b))
                assert res.status == expected
                if not expected:
                    assert_true(np.asarray(cost), np.asarray(a), np.asarray(b), res)
                    assert res.gap > 0 or not on


def test_costs_near_the_greatest_number():
    """Costs times masses in units of the grid would pass the range; infinite duals are no NaN."""
    big, tiny = np.finfo(np.float64).max / 2, np.finfo(np.float64).tiny
    cost = np.array([[big, -tiny, tiny], [-big, -big, -tiny]])
    unit = 2.0**-49
    supply, demand = np.array([16, 6]) * unit, np.array([10, 4, 8]) * unit
    res = jm.solve_transport(cost, supply, demand)
    # Six units from the second row to the first column, or four to the second and two to the first.
    assert res.status == jm.Status.OPTIMAL
    np.testing.assert_allclose(res.cost, (10 - 6 - 6) * unit * big, rtol=1e-12)
    assert res.gap <= 1e-12 * abs(res.cost)
    partial = jm.solve_transport(cost, supply, demand, partial=supply.sum() / 2)
    for duals in (partial.row_dual, partial.col_dual):
        assert not np.isnan(duals).any()


def test_costs_that_underflow_to_no_units_are_rounded():
    """Beside a great cost a tiny one is 0 units: the gap says that it was not counted."""
    cost = np.array([[2.0**1000, 0.0, 2.0**-1060], [2.0**1000, 2.0**-1070, 0.0]])
    res = jm.solve_transport(cost, np.array([0.5, 0.5]), np.array([0.0, 0.5, 0.5]))
    assert res.status == jm.Status.OPTIMAL and res.cost in (0.0, 2.0**-1061 + 2.0**-1071)
    res = jm.solve_transport(cost, np.array([0.5, 0.5]), np.array([0.25, 0.375, 0.375]))
    assert res.status == jm.Status.OPTIMAL and res.gap > 0


@pytest.mark.parametrize("exponent", [-1074, -1060, -1030, -1022, -990, 1021])
def test_masses_at_the_ends_of_their_range(exponent):
    """Denormal ones are on the grid, too."""
    cost = np.array([[1.0, 2.0], [3.0, 5.0]])
    supply, demand = (np.ldexp(x, exponent) for x in ([2.0, 1.0], [1.0, 2.0]))
    res = jm.solve_transport(cost, supply, demand)
    assert res.status == Status.OPTIMAL and res.gap < np.ldexp(1.0, max(exponent, -1070))
    assert res.mass.sum() == supply.sum() and res.cost == np.ldexp(7.0, exponent)


def test_products_of_costs_and_masses_beyond_the_range():
    """They cancel, or are less than the range once the unit of the masses is in."""
    most = np.finfo(np.float64).max
    cost, mass = np.array([[most, INF], [INF, -most]]), np.array([2.0, 2.0])
    res = jm.solve_transport(cost, mass, mass)
    assert res.status == Status.OPTIMAL and res.cost == 0
    res = jm.solve_transport(cost, mass / 8, mass / 8)
    assert res.cost == 0
    res = jm.solve_transport(np.array([[most, 1.0], [1.0, most]]), mass, mass)
    assert res.cost == 4
    # Entries of the plan have 63 bits here.
    half = 2.0**1023
    cost = np.array([[-1.0, half, half], [1.0, half, -half]])
    demand = np.array([1.770887431076117e21, 2.951479051793528e21, 2.951479051793528e21])
    supply = np.array([4.1320706725109396e21, 3.541774862152234e21])
    res = jm.solve_transport(cost, supply, demand)
    assert res.status == Status.OPTIMAL and res.cost == -demand[0]


def test_masked_duals_beside_infinite_ones():
    """Zero times an infinity is no number."""
    cost = np.full((2, 2), 1e38, np.float32)
    given = {"unmatched_cost": np.full(2, 3e38, np.float32), "col_mask": np.array([True, False])}
    res = jm.solve_transport(cost, np.array([2, 3]), np.array([4, -1]), **given)
    assert res.status == Status.OPTIMAL
    assert not np.isnan(res.row_dual).any() and res.col_dual[1] == 0
