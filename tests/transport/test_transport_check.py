"""The twin of `solve_transport` and `check_transport`, against linear programs and rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import as_fraction
from helpers import problem, to_numpy, x64
from jax.sharding import AxisType, PartitionSpec
from scipy.optimize import linprog
from transport_truth import Truth, assert_failed

import jaxmatch as jm
from jaxmatch import Status
from jaxmatch._common.result import Transport
from jaxmatch._transport.check import check_transport
from jaxmatch._transport.xla import solve


pytestmark = pytest.mark.usefixtures("optimised")


# Compiling takes the time here. So most problems have this shape, or are padded to it.
BATCH, ROWS, COLS = 48, 4, 5


@partial(jax.jit, static_argnames="maximize")
def solve_batch(cost: Any, supply: Any, demand: Any, rows: Any, cols: Any, maximize: bool) -> Any:
    return jax.vmap(partial(solve, maximize=maximize))(cost, supply, demand, rows, cols)


def padded(given: dict[str, Any]) -> dict[str, Any]:
    """Small batches with copies of the last problem, and with masked rows and columns."""
    b, n, m = given["cost"].shape
    if b > BATCH or n > ROWS or m > COLS or n * m == 0:
        return given
    of_axis = {"b": (0, BATCH - b), "n": (0, ROWS - n), "m": (0, COLS - m)}
    ones = {"row_mask": np.ones((b, n), bool), "col_mask": np.ones((b, m), bool)}
    axes = {"cost": "bnm", "supply": "bn", "demand": "bm", "row_mask": "bn", "col_mask": "bm"}
    full: dict[str, Any] = {"maximize": given["maximize"]}
    for name, letters in axes.items():
        x = np.pad((ones | given)[name], [(0, 0), *(of_axis[a] for a in letters[1:])])
        full[name] = np.pad(x, [of_axis["b"]] + [(0, 0)] * (x.ndim - 1), mode="edge")
    return full


def solved(given: dict[str, Any], on: bool = False) -> Any:
    """A batch on the twin, as NumPy arrays."""
    (b, n, m), full = given["cost"].shape, padded(given)
    names = ("cost", "supply", "demand", "row_mask", "col_mask")
    with x64(on):
        arrays = [None if full.get(name) is None else jnp.asarray(full[name]) for name in names]
        res = to_numpy(solve_batch(*arrays, maximize=given["maximize"]))
    count = max(n + m - 1, 0)
    entries = {name: getattr(res, name)[:b, :count] for name in ("rows", "cols", "mass")}
    duals = {"row_dual": res.row_dual[:b, :n], "col_dual": res.col_dual[:b, :m]}
    return jax.tree.map(lambda x: x[:b], res).replace(**entries, **duals)


def checked(given: dict[str, Any], res: Any, on: bool = False) -> Any:
    (b, _, m), full = given["cost"].shape, padded(given)
    more = len(full["cost"]) - b, full["cost"].shape[-1] - m

    def pad(x: np.ndarray, width: int, value: int) -> np.ndarray:
        x = np.pad(x, ((0, 0), (0, max(width, 0))), constant_values=value)
        return np.pad(x, ((0, more[0]), (0, 0)), mode="edge")

    size = ROWS + COLS - 1 - res.mass.shape[-1] if full is not given else 0
    fields = {name: pad(getattr(res, name), size, -1) for name in ("rows", "cols")}
    fields |= {"mass": pad(res.mass, size, 0), "col_dual": pad(res.col_dual, more[1], 0)}
    with x64(on):
        arrays = {k: x if k == "maximize" else jnp.asarray(x) for k, x in full.items()}
        fields = {name: jnp.asarray(x) for name, x in fields.items()}
        check = check_transport(result=res.replace(**fields), **arrays)
        return jax.tree.map(lambda x: np.asarray(x)[:b], check)


def of_problem(given: dict[str, Any], k: int) -> dict[str, Any]:
    return {name: x if name == "maximize" else x[k] for name, x in given.items()}


def random_problem(
    seed: int,
    n: int,
    m: int,
    *,
    cost: str = "float32",
    mass: str = "int32",
    masks: bool = False,
    maximize: bool = False,
) -> dict[str, Any]:
    """Small integers: ties, forbidden pairs, zero masses, rubbish where masked."""
    rng = np.random.default_rng(seed)
    c = rng.integers(-9, 10, (BATCH, n, m)).astype(cost)
    rows, cols = np.ones((BATCH, n), bool), np.ones((BATCH, m), bool)
    if masks:
        rows, cols = rng.random((BATCH, n)) < 0.8, rng.random((BATCH, m)) < 0.8
        rows[:, 0] = cols[:, 0] = True
    if cost.startswith("float"):
        rate = rng.choice([0, 0.1, 0.4], (BATCH, 1, 1))
        c[rng.random(c.shape) < rate] = -np.inf if maximize else np.inf
        c[~(rows[:, :, None] & cols[:, None, :])] = np.nan
    a = np.where(rows, rng.integers(0, 7, (BATCH, n)), 0)
    b = np.array([rng.multinomial(x.sum(), y / y.sum()) for x, y in zip(a, cols, strict=True)])
    given = {"cost": c, "supply": a.astype(mass), "demand": b.astype(mass), "maximize": maximize}
    if masks:
        given["supply"] = np.where(rows, given["supply"], -7).astype(mass)
        given["demand"] = np.where(cols, given["demand"], -7).astype(mass)
        given |= {"row_mask": rows, "col_mask": cols}
    return given


def linear_program(one: dict[str, Any]) -> Fraction | None:
    """The optimum of a problem of small integers, which scipy finds to many digits."""
    rows, cols, c, a, b = unmasked(one)
    n, m = c.shape
    sums = np.zeros((n + m, n * m))
    for i, j in itertools.product(range(n), range(m)):
        sums[[i, n + j], i * m + j] = 1
    allowed = np.isfinite(c.ravel())
    bounds = [(0, None if ok else 0) for ok in allowed]
    c = np.where(allowed, c.ravel(), 0)
    found = linprog(c, A_eq=sums, b_eq=np.concatenate([a, b]), bounds=bounds, method="highs")
    if not found.success:
        return None
    assert abs(found.fun - round(found.fun)) < 1e-6
    return Fraction(round(found.fun)) * (-1 if one["maximize"] else 1)


def unmasked(one: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Masks, costs to minimise, and masses of what exists."""
    n, m = one["cost"].shape
    rows, cols = one.get("row_mask", np.ones(n, bool)), one.get("col_mask", np.ones(m, bool))
    c = one["cost"][np.ix_(rows, cols)].astype(np.float64) * (-1 if one["maximize"] else 1)
    return rows, cols, c, one["supply"][rows], one["demand"][cols]


def exact_cost_and_gap(one: dict[str, Any], res: Any) -> tuple[Fraction, Fraction]:
    """In rational arithmetic: the cost of the plan, and the gap that its column duals leave."""
    cols, sign = unmasked(one)[1], -1 if one["maximize"] else 1
    v = {j: sign * as_fraction(res.col_dual[j]) for j in np.flatnonzero(cols)}
    cost = gap = Fraction(0)
    for i, j, mass in zip(res.rows, res.cols, res.mass, strict=True):
        if i < 0:
            continue
        slack = {
            k: sign * as_fraction(one["cost"][i, k]) - v[k]
            for k in v
            if np.isfinite(one["cost"][i, k])
        }
        cost += as_fraction(mass) * as_fraction(one["cost"][i, j])
        gap += as_fraction(mass) * (slack[j] - min(slack.values()))
    return cost, gap


def assert_contract(one: dict[str, Any], res: Any) -> None:
    """What `Transport` promises, for integers that no float rounds."""
    rows, cols, c, a, b = unmasked(one)
    n, m = one["cost"].shape
    assert res.rows.shape == res.cols.shape == res.mass.shape == (max(n + m - 1, 0),)
    used = int((res.rows >= 0).sum())
    pairs = list(zip(res.rows[:used].tolist(), res.cols[:used].tolist(), strict=True))
    assert pairs == sorted(set(pairs)) and (res.mass[:used] > 0).all()
    assert (res.rows[used:] == -1).all() and (res.cols[used:] == -1).all()
    assert (res.mass[used:] == 0).all() and res.mass.dtype == one["supply"].dtype
    assert_forest(pairs, n, m)
    plan = np.zeros((n, m), np.int64)
    for pair, mass in zip(pairs, res.mass, strict=False):
        plan[pair] = mass
    assert not plan[~rows].any() and not plan[:, ~cols].any()
    plan = plan[np.ix_(rows, cols)]
    assert (plan.sum(1) == a).all() and (plan.sum(0) == b).all()
    u, v = (x.astype(np.float64) for x in (res.row_dual, res.col_dual))
    assert (u[~rows] == 0).all() and (v[~cols] == 0).all()
    sign = -1 if one["maximize"] else 1
    slack = c - sign * u[rows][:, None] - sign * v[cols][None, :]
    assert (slack >= 0).all() and (slack[plan > 0] == 0).all()
    # Rows and columns without mass have the greatest duals that the others allow.
    slack = np.where(np.isfinite(c), slack, np.inf)
    for side in (slack[a == 0], slack[a > 0][:, b == 0].T):
        least = side.min(1, initial=np.inf)
        assert ((least == 0) | (least == np.inf)).all()


def assert_forest(pairs: list[tuple[int, int]], n: int, m: int) -> None:
    tree = list(range(n + m))
    for i, j in pairs:
        one, other = tree[i], tree[n + j]
        assert one != other, "the plan has a cycle"
        tree = [one if x == other else x for x in tree]


FEATURES = [
    (False, 4, 5, {}),
    (False, 3, 6, {"masks": True, "maximize": True, "mass": "float32"}),
    (False, 4, 5, {"masks": True, "cost": "int32"}),
    (True, 4, 5, {"masks": True, "cost": "float64", "mass": "float64"}),
    (True, 6, 3, {"cost": "int64", "mass": "int64", "maximize": True}),
    (True, 1, 5, {"mass": "float32"}),
]


@pytest.mark.parametrize("on, n, m, features", FEATURES)
def test_features_against_linear_programs(on, n, m, features):
    given = random_problem(n * m, n, m, **features)
    if given["supply"].dtype.kind == "f":  # masked masses may be anything
        given["supply"][given["supply"] < 0] = np.nan
        given["demand"][given["demand"] < 0] = np.inf
    res = solved(given, on)
    check = checked(given, res, on)
    feasible = 0
    for k in range(BATCH):
        one, own = of_problem(given, k), problem(res, k)
        optimum = linear_program(one)
        if optimum is None:
            assert own.status == Status.INFEASIBLE
            assert_failed(own)
            assert check.gap[k] == np.inf and not check.optimal[k]
            continue
        feasible += 1
        assert own.status == Status.OPTIMAL and own.gap == 0
        assert as_fraction(own.cost) == optimum
        assert_contract(one, own)
        assert exact_cost_and_gap(one, own) == (optimum, 0)
        assert check.valid[k] and check.optimal[k] and check.gap[k] == 0
    assert feasible > BATCH / 3


def test_against_all_plans():
    given = random_problem(1, 2, 3)
    res = solved(given)
    for k in range(BATCH):
        c, a, b = (given[name][k] for name in ("cost", "supply", "demand"))
        best = np.inf
        for x, y in itertools.product(range(b[0] + 1), range(b[1] + 1)):
            plan = np.array([[x, y, a[0] - x - y], [b[0] - x, b[1] - y, b[2] - a[0] + x + y]])
            if (plan >= 0).all():
                best = min(best, np.where(plan > 0, plan * np.where(plan > 0, c, 0), 0).sum())
        assert res.cost[k] == best if np.isfinite(best) else res.status[k] == Status.INFEASIBLE


def test_degenerate_plans():
    """Equal rows, equal costs, and masses whose parts sum alike: the plan stays basic."""
    rng = np.random.default_rng(2)
    n = 4
    c = rng.integers(0, 3, (BATCH, n, n)).astype(np.float32)
    c[::4] = 1
    c[1::4] = c[1::4, :1]
    c[2::4] = np.abs(np.arange(n)[:, None] - np.arange(n))
    a = np.ones((BATCH, n), np.int32)
    a[::3] = 2
    b = np.array([rng.permutation(x) for x in a])
    b[::3] = rng.permuted(np.tile([4, 2, 2, 0], (len(b[::3]), 1)), axis=1)
    given = {"cost": c, "supply": a, "demand": b, "maximize": False}
    res = solved(given)
    assert (res.status == Status.OPTIMAL).all() and checked(given, res).optimal.all()
    for k in range(BATCH):
        assert_contract(of_problem(given, k), problem(res, k))
        assert res.cost[k] == linear_program(of_problem(given, k))


@pytest.mark.parametrize("on, bits, mass", [(False, 29, "int32"), (True, 59, "int64")])
def test_masses_and_costs_of_all_magnitudes(on, bits, mass):
    """Totals near the limit, masses down to 1; costs over the whole range of floats."""
    rng = np.random.default_rng(3)
    n, m = 4, 5
    a = np.floor(2 ** rng.uniform(0, bits - 2, (BATCH, n))).astype(mass)
    b = np.zeros((BATCH, m), mass)
    for k in range(BATCH):
        cuts = np.sort(rng.choice(a[k].cumsum(), m - 1) - rng.integers(0, 2, m - 1))
        b[k] = np.diff(cuts, prepend=0, append=a[k].sum()).astype(mass)
    real, most = ("float64", 300) if on else ("float32", 37)
    c = (10 ** rng.uniform(-most, most, (BATCH, n, m))).astype(real)
    c[::3] = np.finfo(real).max * rng.uniform(-1, 1, c[::3].shape).astype(real)
    given = {"cost": c, "supply": a, "demand": b, "maximize": False}
    res = solved(given, on)
    assert (res.status == Status.OPTIMAL).all()
    check = checked(given, res, on)
    assert check.valid.all()
    for k in range(BATCH):
        own = problem(res, k)
        plan = np.zeros((n, m), np.int64)
        used = own.rows >= 0
        plan[own.rows[used], own.cols[used]] = own.mass[used]
        assert (plan.sum(1) == a[k]).all() and (plan.sum(0) == b[k]).all()
        if not np.isfinite(
            own.col_dual
        ).all():  # beyond the range, as sums of greatest costs may be
            assert check.gap[k] == np.inf
            continue
        one = of_problem(given, k)
        cost, gap = exact_cost_and_gap(one, own)
        assert own.gap == np.inf or gap <= as_fraction(own.gap)
        # Outside of jit a check may find better duals than those of the result.
        least = Truth(c[k], a[k], b[k]).optimum()
        assert least is not None
        assert check.gap[k] == np.inf or cost - least <= as_fraction(check.gap[k])


@pytest.mark.parametrize("on, mass", [(False, "float32"), (True, "float32"), (True, "float64")])
def test_float_masses(on, mass):
    """Distributions, whose sums differ by roundings; random costs: gaps are bounds, and small."""
    rng = np.random.default_rng(4)
    n, m = 4, 5
    c = rng.standard_normal((BATCH, n, m)).astype(mass)
    a, b = rng.dirichlet(np.ones(n), BATCH), rng.dirichlet(np.ones(m), BATCH)
    given = {"cost": c, "supply": a.astype(mass), "demand": b.astype(mass), "maximize": False}
    res = solved(given, on)
    check = checked(given, res, on)
    assert (res.status == Status.OPTIMAL).all() and check.valid.all()
    eps = float(np.finfo(mass).eps)
    assert (res.gap <= 200 * eps).all() and (check.gap <= 200 * eps).all()
    for k in range(BATCH):
        own = problem(res, k)
        cost, gap = exact_cost_and_gap(of_problem(given, k), own)
        assert gap <= as_fraction(check.gap[k])
        assert abs(cost - as_fraction(own.cost)) <= Fraction(100 * eps)
        assert_forest(
            list(zip(own.rows[own.rows >= 0], own.cols[own.rows >= 0], strict=True)), n, m
        )
    # Masses of any unit are the same problem.
    for scale in (2.0**-40, 2.0**90):
        other = given | {"supply": given["supply"] * np.array(scale, mass)}
        other["demand"] = given["demand"] * np.array(scale, mass)
        scaled = solved(other, on)
        np.testing.assert_array_equal(scaled.mass, res.mass * np.array(scale, mass))
        np.testing.assert_array_equal(scaled.rows, res.rows)


def test_totals_of_floats_that_differ():
    """Forgiven up to 2 (n + m) eps, with n + m = 9; then the demands follow the supplies."""
    eps = float(np.finfo(np.float32).eps)
    c = np.ones((4, 1, 1), np.float32)
    a = np.full((4, 1), 1, np.float32)
    b = np.array([[1 + 16 * eps], [1 - 17 * eps], [1 + 20 * eps], [1.5]], np.float32)
    given = {"cost": c, "supply": a, "demand": b, "maximize": False}
    for on in (False, True):
        res = solved(given, on)
        assert res.status.tolist() == [0, 0, Status.UNBALANCED, Status.UNBALANCED]
        assert res.mass[:2].tolist() == [[1], [1]] and (res.gap[:2] > 0).all()
        assert checked(given, res, on).valid.tolist() == [True, True, False, False]


INF, NAN = float("inf"), float("nan")
STATUSES = [
    (Status.INVALID_COST, [[1, NAN], [1, 1]], [1, 1], [1, 1]),
    (Status.INVALID_COST, [[1, -INF], [1, 1]], [1, 1], [1, 1]),
    (Status.INVALID_COST, [[1, NAN], [1, 1]], [-1, 1], [1, 1]),
    (Status.INVALID_MASS, [[1, INF], [1, 1]], [-1, 1], [0, 0]),
    (Status.INVALID_MASS, [[1, 1], [1, 1]], [1, 1], [3, -1]),
    (Status.UNBALANCED, [[1, 1], [1, 1]], [1, 1], [1, 2]),
    (Status.UNBALANCED, [[INF, INF], [1, 1]], [0, 0], [1, 0]),
    (Status.INFEASIBLE, [[INF, 1], [INF, 1]], [1, 1], [1, 1]),
    (Status.INFEASIBLE, [[INF, 1], [1, 1]], [2, 0], [1, 1]),
    (Status.OPTIMAL, [[INF, 1], [1, INF]], [2, 3], [3, 2]),
    (Status.OPTIMAL, [[INF, INF], [INF, INF]], [0, 0], [0, 0]),
]


@pytest.mark.parametrize("on, mass, maximize", [(False, "int32", True), (True, "float64", False)])
def test_statuses(on, mass, maximize):
    expected, cost, supply, demand = (list(x) for x in zip(*STATUSES, strict=True))
    given = {
        "cost": np.array(cost, np.float32) * (-1 if maximize else 1),
        "supply": np.array(supply, mass),
        "demand": np.array(demand, mass),
        "maximize": maximize,
    }
    res = solved(given, on)
    assert res.status.tolist() == expected
    for k, status in enumerate(expected):
        if status != Status.OPTIMAL:
            assert res.status[k] == status
            assert_failed(problem(res, k))
    check = checked(given, res, on)
    assert check.optimal.tolist() == [x == Status.OPTIMAL for x in expected]


def test_masses_that_are_no_numbers():
    supply = np.array([[NAN, 1], [INF, 1], [1, INF], [2, -INF], [1, 1]], np.float32)
    given = {"cost": np.ones((5, 2, 2), np.float32), "supply": supply, "maximize": False}
    given["demand"] = np.ones((5, 2), np.float32)
    expected = [Status.INVALID_MASS] * 4 + [Status.OPTIMAL]
    assert solved(given).status.tolist() == expected
    given["supply"], given["demand"] = given["demand"], given["supply"]
    assert solved(given).status.tolist() == expected


@pytest.mark.parametrize("on, most", [(False, 2**30), (True, 2**60)])
def test_integers_that_overflow(on, most):
    mass = "int64" if on else "int32"
    cost = np.ones((3, 2, 2), "int64" if on else "int32")
    totals = np.array([[most // 2, most // 2], [most // 2, most // 2 - 1], [3 * (most // 4)] * 2])
    given = {"cost": cost, "supply": totals.astype(mass), "demand": totals.astype(mass)}
    given |= {"maximize": False}
    assert solved(given, on).status.tolist() == [Status.OVERFLOW, Status.OPTIMAL, Status.OVERFLOW]
    if on:
        limit = 2**60 // 3
        given["supply"] = given["demand"] = np.ones((3, 2), np.int64)
        given["cost"] = np.array([[[limit, 0], [0, -limit]]] * 3)
        given["cost"][1, 0, 0] += 1
        given["cost"][2, 1, 1] -= 1
        res = solved(given, on)
        assert res.status.tolist() == [Status.OPTIMAL, Status.OVERFLOW, Status.OVERFLOW]


def test_costs_that_no_float_holds():
    """Long integers: the claimed gaps cover their roundings."""
    rng = np.random.default_rng(5)
    for on, dtype, bits in ((False, "int32", 31), (True, "int64", 57)):
        c = rng.integers(-(2**bits), 2**bits, (BATCH, 4, 4), dtype=dtype)
        c[::2] = c[:1] + rng.integers(0, 9, c[::2].shape)
        a = np.array([[1, 2, 3, 4]] * BATCH, np.int32)
        given = {"cost": c, "supply": a, "demand": a[:, ::-1].copy(), "maximize": False}
        res = solved(given, on)
        check = checked(given, res, on)
        assert check.valid.all() and np.isfinite(res.gap).all()
        for k in range(BATCH):
            cost, gap = exact_cost_and_gap(of_problem(given, k), problem(res, k))
            assert gap <= as_fraction(res.gap[k]) and gap <= as_fraction(check.gap[k])
            assert abs(as_fraction(res.cost[k]) - cost) <= as_fraction(np.spacing(abs(res.cost[k])))


@pytest.mark.parametrize("n, m", [(0, 0), (0, 3), (3, 0)])
def test_no_rows_or_no_columns(n, m):
    given = {"cost": np.zeros((2, n, m), np.float32), "maximize": False}
    given |= {"supply": np.zeros((2, n), np.int32), "demand": np.zeros((2, m), np.int32)}
    given["supply"][1], given["demand"][1] = 1, 1
    expected = [Status.OPTIMAL, Status.UNBALANCED if n + m else Status.OPTIMAL]
    res = solved(given)
    assert res.status.tolist() == expected and res.mass.shape == (2, max(n + m - 1, 0))
    assert (res.cost[0], res.gap[0]) == (0, 0) and (res.col_dual[0] == 0).all()
    assert checked(given, res).optimal.tolist() == [x == 0 for x in expected]


def test_vmap_jit_and_shard_map():
    """One problem at a time, in a batch, and on four devices: the same bits."""
    given = random_problem(6, ROWS, COLS, masks=True)
    arrays = [jnp.asarray(x) for name, x in given.items() if name != "maximize"]
    batch = solved(given)
    one = jax.jit(partial(solve, maximize=False))
    for k in range(4):
        own = to_numpy(one(*(x[k] for x in arrays)))
        jax.tree.map(np.testing.assert_array_equal, own, problem(batch, k))
    every = jax.vmap(partial(solve, maximize=False))
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
    spec = PartitionSpec("x")
    sharded = jax.jit(jax.shard_map(every, mesh=mesh, in_specs=spec, out_specs=spec))
    placed = [jax.device_put(x, jax.NamedSharding(mesh, spec)) for x in arrays]
    res = sharded(*placed)
    jax.tree.map(np.testing.assert_array_equal, to_numpy(res), batch)
    check = jax.jit(check_transport)(*placed[:3], res, row_mask=placed[3], col_mask=placed[4])
    np.testing.assert_array_equal(check.optimal, batch.status == Status.OPTIMAL)


# ---------------------------------------------------------------------------------------------
# The check


@pytest.fixture(scope="module")
def plans() -> tuple[dict[str, Any], Any]:
    """Problems without forbidden pairs and zero masses, and their optimal plans."""
    rng = np.random.default_rng(7)
    c = rng.integers(-9, 10, (BATCH, 3, 4)).astype(np.float32)
    a = rng.integers(5, 9, (BATCH, 3)).astype(np.int32)
    b = np.array([rng.multinomial(x.sum() - 8, np.ones(4) / 4) + 2 for x in a], np.int32)
    given = {"cost": c, "supply": a, "demand": b, "maximize": False}
    return given, solved(given)


def test_wrong_plans_are_refused(plans):
    given, res = plans
    first = np.arange(6) == 0
    refused = {
        "row out of range": {"rows": np.where(first, 3, res.rows)},
        "column out of range": {"cols": np.where(first, 4, res.cols)},
        "negative row": {"rows": np.where(first, -1, res.rows)},
        "negative column": {"cols": np.where(first, -2, res.cols)},
        "too much": {"mass": res.mass + first.astype(np.int32)},
        "too little": {"mass": res.mass - first.astype(np.int32)},
        "nothing": {"mass": 0 * res.mass},
        "mass of no pair": {"rows": 0 * res.rows - 1, "cols": 0 * res.cols - 1},
        "negative": {"mass": -res.mass},
        "another pair": {"cols": (res.cols + first) % 4},
    }
    for what, changes in refused.items():
        check = checked(given, res.replace(**changes))
        assert not check.valid.any(), what
        assert (check.gap == np.inf).all() and not check.optimal.any(), what

    # Empty entries may be many.
    def longer(more: Any, mass: np.ndarray) -> Any:
        pairs = {name: np.concatenate([x, more(x)], 1) for name, x in pairs_of.items()}
        return checked(given, res.replace(**pairs, mass=mass))

    pairs_of = {"rows": res.rows, "cols": res.cols}
    nothing = np.zeros((BATCH, 1), np.int32)
    assert longer(lambda _: nothing - 1, np.concatenate([res.mass, nothing], 1)).optimal.all()
    # The same plan, but one pair twice.
    mass = np.concatenate([res.mass - first.astype(np.int32), nothing + 1], 1)
    assert not longer(lambda x: x[:, :1], mass).valid.any()


def test_forbidden_and_masked_pairs_are_refused(plans):
    given, res = plans
    cost = given["cost"].copy()
    cost[np.arange(BATCH), res.rows[:, 0], res.cols[:, 0]] = np.inf
    assert not checked(given | {"cost": cost}, res).valid.any()
    for name, size in (("row_mask", 3), ("col_mask", 4)):
        mask = np.broadcast_to(np.arange(size) > 0, (BATCH, size))
        assert not checked(given | {name: mask}, res).valid.any()


def test_gaps_are_those_of_rational_arithmetic(plans):
    given, res = plans
    rng = np.random.default_rng(8)
    shifted = res.col_dual + rng.integers(-3, 4, res.col_dual.shape).astype(np.float32)
    for maximize, dual in itertools.product((False, True), (shifted, 0 * shifted, -res.col_dual)):
        other, changed = given | {"maximize": maximize}, res.replace(col_dual=dual)
        check = checked(other, changed)
        each = (exact_cost_and_gap(of_problem(other, k), problem(changed, k)) for k in range(BATCH))
        gaps = [gap for _, gap in each]
        assert check.valid.all() and (check.optimal == [x == 0 for x in gaps]).all()
        for gap, bound in zip(gaps, check.gap, strict=True):
            assert gap <= as_fraction(bound) <= gap * (1 + Fraction(1, 10**5))


@pytest.mark.parametrize("on, dtype", [(False, "float32"), (True, "float64"), (True, "float32")])
def test_rounding_only_widens_the_gap(plans, on, dtype):
    given, res = plans
    rng = np.random.default_rng(9)
    cost = rng.standard_normal((BATCH, 3, 4)) * 10 ** rng.uniform(-6, 6, (BATCH, 3, 4))
    other = given | {"cost": cost.astype(dtype)}
    dual = (cost.min(1) * rng.uniform(0.9, 1.1, (BATCH, 1))).astype("f8" if on else "f4")
    changed = res.replace(col_dual=dual)
    check = checked(other, changed, on)
    eps = Fraction(float(np.finfo(dual.dtype).eps))
    for k in range(BATCH):
        gap = exact_cost_and_gap(of_problem(other, k), problem(changed, k))[1]
        assert gap <= as_fraction(check.gap[k]) <= gap * (1 + 40 * eps) + eps**2 * 10**9


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_prove_nothing(plans, value):
    given, res = plans
    dual = np.where(np.arange(4) == 2, value, res.col_dual).astype(np.float32)
    check = checked(given, res.replace(col_dual=dual))
    assert check.valid.all() and (check.gap == np.inf).all()
    if value != np.inf:  # which forbids a pair, see above
        cost = np.where(np.eye(3, 4, dtype=bool), value, given["cost"]).astype(np.float32)
        assert (checked(given | {"cost": cost}, res).gap == np.inf).all()
        # Also in a row that has nothing to send.
        cost = np.pad(given["cost"], ((0, 0), (0, 1), (0, 0)), constant_values=value)
        more = given | {"cost": cost, "supply": np.pad(given["supply"], ((0, 0), (0, 1)))}
        assert (checked(more, res).gap == np.inf).all()


@pytest.mark.parametrize("on, dtype", [(False, "int32"), (True, "int64")])
def test_sums_of_integers_do_not_wrap_around(on, dtype):
    """Entries that are right but for a multiple of 2^bits, or that sum to the greatest integer."""
    most = np.iinfo(dtype).max
    result = Transport(
        rows=np.zeros((1, 3), np.int32),
        cols=np.arange(3, dtype=np.int32)[None],
        mass=np.array([[most, most, 2]], dtype),
        cost=None,
        row_dual=None,
        col_dual=np.zeros((1, 3), np.float32),
        gap=None,
        status=None,
    )
    given = {"cost": np.zeros((1, 1, 3), np.float32), "supply": np.zeros((1, 1), dtype)}
    given |= {"demand": result.mass, "maximize": False}
    assert not checked(given, result, on).valid.any()
    result = result.replace(mass=np.array([[most - 3, 2, 1]], dtype))
    given |= {"demand": result.mass, "supply": np.array([[most]], dtype)}
    assert checked(given, result, on).valid.all()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("on, dtype", [(False, "int32"), (True, "int64")])
def test_sums_of_plans_that_may_leave_mass_do_not_wrap_around(on, dtype, compiled):
    """Sums that look small modulo 2^bits: of a row that may keep mass, and of all that moves."""
    most = np.iinfo(dtype).max
    with x64(on):
        check = jax.jit(jm.check_transport) if compiled else jm.check_transport
        free = {"cost": np.zeros((1, 2), np.float32), "supply": np.zeros(1, dtype)}
        free |= {"demand": np.array([most, 2], dtype), "unmatched_cost": np.float32(1)}
        part = {"cost": np.zeros((3, 3), np.float32), "supply": np.full(3, most, dtype)}
        part |= {"demand": np.full(3, most, dtype), "partial": np.array(1, dtype)}
        row_of = [0, 0], [0, 1, 2, -1, -1]
        masses = [most, 2], [most, most, 3, 0, 0]
        for given, rows, mass in zip((free, part), row_of, masses, strict=True):
            n, m = given["cost"].shape
            res = jm.Transport.empty((n, m)).replace(
                rows=np.array(rows, np.int32), mass=np.array(mass, dtype),
                cols=np.array([0, 1, 2, -1, -1] if n == 3 else [0, 1], np.int32),
                row_dual=np.zeros(n, np.float32), col_dual=np.zeros(m, np.float32),
            )  # fmt: skip
            assert not check(result=res, **given).valid


def test_numpy_arrays_are_checked_in_full_precision(plans):
    given, res = plans
    wide = {"cost": given["cost"].astype(np.float64) + 2.0**-40, "maximize": False}
    wide |= {name: given[name].astype(np.int64) << 33 for name in ("supply", "demand")}
    res = solved(wide, True)
    check = check_transport(result=res, **wide)
    assert isinstance(check.gap, np.ndarray) and check.gap.dtype == np.float64
    assert check.optimal.all()


def test_transformations_of_the_check(plans):
    """Batched, vmapped, nested and single checks agree; there is no gradient."""
    given, res = plans
    arrays = [jnp.asarray(given[name]) for name in ("cost", "supply", "demand")]
    res = jax.tree.map(jnp.asarray, res.replace(col_dual=0 * res.col_dual))
    batched = check_transport(*arrays, res)
    assert (batched.gap > 0).any()
    nested = jax.tree.map(lambda x: x.reshape(2, BATCH // 2, *x.shape[1:]), (*arrays, res))
    nested = jax.tree.map(lambda x: x.reshape(BATCH), check_transport(*nested))
    jax.tree.map(np.testing.assert_array_equal, batched, nested)
    # Outside of jit sums have 64 bits, inside those that JAX has.
    compiled, mapped = (
        f(*arrays, res) for f in map(jax.jit, (check_transport, jax.vmap(check_transport)))
    )
    jax.tree.map(np.testing.assert_array_equal, compiled, mapped)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-6), batched, compiled)
    one = check_transport(*(x[5] for x in arrays), problem(res, 5))
    jax.tree.map(np.testing.assert_array_equal, problem(batched, 5), one)
    slope = jax.grad(lambda c: check_transport(c, *arrays[1:], res).gap.sum())(arrays[0])
    assert (slope == 0).all()


def test_results_that_do_not_fit_are_errors(plans):
    given, res = plans
    arrays = [given[name] for name in ("cost", "supply", "demand")]
    with pytest.raises(ValueError, match=r"`result\.col_dual` must have shape"):
        check_transport(*arrays, res.replace(col_dual=res.col_dual[:, 1:]))
    with pytest.raises(ValueError, match=r"`result\.mass` must have shape"):
        check_transport(*arrays, res.replace(mass=res.mass[:, 1:]))
    with pytest.raises(TypeError, match=r"`result\.mass` must be integers"):
        check_transport(*arrays, res.replace(mass=res.mass.astype(np.float32)))
    with pytest.raises(TypeError, match="`result` must be a Transport"):
        check_transport(*arrays, (res.rows, res.cols))
