"""The methods for one large assignment: certificate, exact arithmetic, other code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    assert_checked,
    assert_failed,
    assert_inverse,
    assert_proved,
    assert_same_bits,
    to_numpy,
    uniform_integers,
    x64,
)
from test_assignment_families import SHAPES, batch, families, few_roundings, hidden

import jaxmatch as jm
from jaxmatch import stepping


METHODS = ["core", "auction", "classical", "tree"]
DTYPES = [("bfloat16", False), ("float16", True), ("float32", False), ("float32", True)]
DTYPES += [("float64", True), ("int32", False), ("int32", True)]

pytestmark = [pytest.mark.usefixtures("platform"), pytest.mark.parametrize("method", METHODS)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_family(method, dtype, wide, shape):
    turn = METHODS.index(method) + DTYPES.index((dtype, wide)) + SHAPES.index(shape)
    maximize = turn % 2 == 1
    exact, spread = families(dtype)
    for family, is_exact in ((exact, True), (spread, False)):
        if not family:
            continue
        costs = batch(family, dtype, shape, maximize)
        provable = is_exact and wide
        with x64(wide):
            res = jm.solve_assignment(costs, maximize=maximize, method=method)
            assert_proved(costs, res, exact=provable, maximize=maximize)
            # The grid for what has no grid in common has 50 bits, a double 53.
            most = 0 if is_exact else 4 * few_roundings(costs)
            claimed = dict(zip(family, np.asarray(res.gap), strict=True))
            assert (np.asarray(res.gap) <= most).all(), claimed
            most = most + hidden(costs, wide)
            if not provable:
                duals = abs(res.col_dual).max(-1) + abs(res.row_dual).max(-1)
                most += np.asarray(4 * sum(shape) * jnp.finfo(duals.dtype).eps * duals)
            assert_checked(costs, res, 50, most=most, block=24, maximize=maximize)


@pytest.mark.parametrize("shape", [(300, 300), (120, 300), (300, 120)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_family_of_larger_problems(method, dtype, shape):
    exact, _ = families(dtype)
    if method == "classical":  # its searches for products visit every column: see `test_family`
        exact.pop("Machol-Wien")
    costs = batch(exact, dtype, shape, False)
    with x64(True):
        res = jm.solve_assignment(costs, method=method)
        assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
        assert (np.asarray(res.gap) == 0).all()
        check = jm.check_assignment(costs, res)
        assert np.asarray(check.valid).all()
        assert (np.asarray(check.gap) <= hidden(costs, True)).all()


# Every second seed has masks, every third one the same sizes: dtypes meet both, and all sizes.
@pytest.mark.parametrize(
    "dtype, seed",
    [(d, s) for d, of in (("float32", (0, 1, 2)), ("float64", (3, 4, 5)), ("int32", (0, 4, 5)))
     for s in of],
)  # fmt: skip
def test_agrees_with_other_code(method, dtype, seed):
    """Random shapes, masks and forbidden pairs; the other solver shares nothing with this one."""
    rng = np.random.default_rng(seed)
    shape = (12, *rng.integers(1, (6, 20, 70)[seed % 3], 2))
    costs = rng.normal(size=shape) * 9
    costs[::3] = np.round(costs[::3])
    if dtype != "int32":
        costs[1::2][rng.random(costs[1::2].shape) < 0.5] = np.inf
    costs = costs.astype(dtype)
    given = {}
    if seed % 2:
        given["row_mask"] = rng.random(shape[:2]) < 0.7
        given["col_mask"] = rng.random((shape[0], shape[2])) < 0.6
    with x64(True):
        res = to_numpy(jm.solve_assignment(costs, method=method, **given))
        other = to_numpy(jm.solve_assignment(costs, method="jonker_volgenant", **given))
        np.testing.assert_array_equal(res.status, other.status)
        solved = res.status == jm.Status.OPTIMAL
        apart = np.abs(res.cost - other.cost)[solved]
        assert (apart <= (res.gap + other.gap)[solved] + 1e-13 * np.abs(res.cost[solved])).all()
        for k in range(len(costs)):
            assert_inverse(res.col4row[k], res.row4col[k])
            if not solved[k]:
                one = jax.tree.map(lambda x: x[k], res)  # noqa: B023
                assert_failed(one, jm.Status.INFEASIBLE)
        if solved.all():
            most = res.gap + few_roundings(costs) if dtype != "int32" else 0
            assert_checked(costs, res, 80, most=most, **given)


def test_statuses(method):
    inf, nan = np.inf, np.nan
    costs = {
        jm.Status.OPTIMAL: [[1, inf, inf], [inf, inf, 2], [inf, 3, inf]],
        jm.Status.INFEASIBLE: [[1, inf, inf], [2, inf, inf], [3, 4, 5]],
        jm.Status.INVALID_COST: [[1, 2, 3], [4, nan, 6], [7, 8, 9]],
    }
    for status, cost in costs.items():
        res = jm.solve_assignment(jnp.array(cost), method=method)
        if status == jm.Status.OPTIMAL:
            assert int(res.status) == status and float(res.cost) == 6
        else:
            assert_failed(res, status)
    wrong = jnp.array([[1, -inf], [2, 3]])
    assert_failed(jm.solve_assignment(wrong, method=method), jm.Status.INVALID_COST)
    assert_failed(jm.solve_assignment(-wrong, maximize=True, method=method), jm.Status.INVALID_COST)
    none = jm.solve_assignment(jnp.full((4, 6), inf), method=method)
    assert_failed(none, jm.Status.INFEASIBLE)
    # A block of rows with too few columns between them (Hall), found after a long search.
    hall = np.random.default_rng(0).random((60, 60)).astype(np.float32)
    hall[:31, 30:] = inf
    assert_failed(jm.solve_assignment(hall, method=method), jm.Status.INFEASIBLE)
    hall[30, 59] = 1
    assert int(jm.solve_assignment(hall, method=method).status) == jm.Status.OPTIMAL


@pytest.mark.parametrize("n, usable", [(3, 2), (40, 39), (150, 148)])
def test_more_rows_than_usable_columns(method, n, usable):
    """Prices fall without a bound, by differences of doubles whose last bits are far apart."""
    costs = np.random.default_rng(n).normal(size=(8, n, n))
    costs[:, :, usable:] = np.inf
    with x64(True):
        res = to_numpy(jm.solve_assignment(costs, method=method))
        np.testing.assert_array_equal(res.status, jm.Status.INFEASIBLE)
        np.einsum("kii->ki", costs)[:, usable:] = 1
        res = to_numpy(jm.solve_assignment(costs, method=method))
        np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 4, 4), (1, 1)], ids=str)
def test_small_shapes(method, shape):
    res = jm.solve_assignment(jnp.full(shape, 2.0), method=method)
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
    assert (np.asarray(res.cost) == (2 if shape == (1, 1) else 0)).all()


def test_masks_that_hide_everything(method):
    costs = jnp.ones((3, 4))
    for rows, cols in ((False, True), (True, False), (False, False)):
        res = jm.solve_assignment(costs, row_mask=rows, col_mask=cols, method=method)
        assert int(res.status) == jm.Status.OPTIMAL and float(res.cost) == 0
        assert (np.asarray(res.col4row) == -1).all() and (np.asarray(res.row_dual) == 0).all()


@pytest.mark.parametrize("n, most, optimum", [
    (1000, 100, 0), (1000, 1000, 1196), (1000, 10_000, 16084), (1000, 10**9, 1658574507),
])  # fmt: skip
def test_known_optima(method, n, most, optimum):
    with x64(True):
        costs = uniform_integers(n, most, 1).astype(np.int32)
        res = jm.solve_assignment(costs, method=method)
        assert (int(res.cost), float(res.gap)) == (optimum, 0)
        assert float(jm.check_assignment(costs, res).gap) == 0


def test_hard_rows_and_columns(method):
    """What the first candidates do not hold: rows that must pay, and columns nobody wants."""
    rng = np.random.default_rng(3)
    costs = rng.integers(0, 1000, (400, 400))
    costs[:, 100:200] += 10**6  # a quarter of all rows has to go there
    costs[7] += 10**8
    costs[:, 9] += 10**8
    res = jm.solve_assignment(costs.astype(np.int32), method=method)
    assert int(res.status) == jm.Status.OPTIMAL
    with x64(True):
        other = jm.solve_assignment(costs.astype(np.int32), method="jonker_volgenant")
        assert float(res.cost) == np.float32(other.cost)


def test_walls_do_not_blunt_the_rest(method):
    """A price far above all others, as people write it, costs no precision where nobody pays it."""
    rng = np.random.default_rng(8)
    costs = rng.random((50, 50)).astype(np.float32)
    for wall in (1e9, 1e30):
        walled = np.where(rng.random((50, 50)) < 0.5, np.float32(wall), costs)
        res = jm.solve_assignment(walled, method=method)
        assert (int(res.status), float(res.gap)) == (jm.Status.OPTIMAL, 0)
        other = jm.solve_assignment(walled, method="jonker_volgenant")
        np.testing.assert_array_equal(res.cost, other.cost)
        walled[3] = wall  # now somebody has to
        res = jm.solve_assignment(walled, method=method)
        other = jm.solve_assignment(walled, method="jonker_volgenant")
        assert abs(float(res.cost) - float(other.cost)) <= float(res.gap) + float(other.gap)
        assert float(res.gap) <= 1e-10 * wall


@pytest.mark.parametrize("maximize", [False, True])
def test_finite_costs_are_never_forbidden(method, maximize):
    """Costs beyond every double on the grid of the small ones still can be paid."""
    rng = np.random.default_rng(9)
    most = np.finfo(np.float64).max
    walled = np.where(rng.random((40, 40)) < 0.5, most / 64, rng.random((40, 40)))
    walled[3] = most / 64
    with x64(True):
        for costs in (walled, np.array([[1e-271, 1e-271], [1e60, 1e60]])):
            res = jm.solve_assignment(
                -costs if maximize else costs, maximize=maximize, method=method
            )
            other = jm.solve_assignment(costs, method="jonker_volgenant")
            assert int(res.status) == int(other.status) == jm.Status.OPTIMAL
            np.testing.assert_allclose(abs(res.cost), other.cost, rtol=1e-12)


def test_same_bits_again_alone_and_under_vmap(method):
    rng = np.random.default_rng(4)
    costs = rng.integers(0, 30, (3, 60, 70)).astype(np.float32)
    costs[1] = rng.random((60, 70))

    def solve(cost):
        return jm.solve_assignment(cost, method=method)

    first = solve(costs)
    assert_same_bits(first, solve(costs))
    assert_same_bits(first, jax.vmap(solve)(costs))
    for k in range(3):
        assert_same_bits(jax.tree.map(lambda x: x[k], first), jax.jit(solve)(costs[k]))  # noqa: B023


def test_steps_end_where_one_call_does(method):
    rng = np.random.default_rng(5)
    for costs in (rng.random((150, 150)), rng.integers(0, 20, (2, 90, 110))):
        costs = jnp.asarray(costs.astype(np.float32))
        whole = jm.solve_assignment(costs, method=method)
        for rounds in (1, 3):
            steps = jm.solve_assignment(costs, method=method, steps_per_call=rounds)
            assert_same_bits(whole, steps)


def test_a_state_can_be_stopped_inspected_and_resumed(method):
    costs = jax.random.uniform(jax.random.key(0), (200, 200))
    mask = jnp.arange(200) < 180
    masks = {"row_mask": mask, "col_mask": mask[::-1]}
    state = stepping.init(costs, method=method, **masks)
    seen = []
    while not state.done:
        state = jax.jit(stepping.step)(costs, state, **masks)
        assert int(state.result.status) == (0 if state.done else jm.Status.UNFINISHED)
        assert_inverse(np.asarray(state.result.col4row), np.asarray(state.result.row4col))
        seen.append(int(state.matched_rows))
        state = jax.tree.map(jnp.asarray, to_numpy(state))  # to a checkpoint and back
    assert seen[-1] == 180 and seen[0] < 180 and len(seen) >= 3
    assert 3 <= int(state.steps) <= len(seen) and int(state.pricings) >= 1
    assert_same_bits(state.result, stepping.step(costs, state, **masks).result)
    assert_same_bits(state.result, jm.solve_assignment(costs, **masks, method=method))


def test_progress_is_reported(method):
    costs, seen = jax.random.uniform(jax.random.key(1), (120, 100)), []

    def report(matched, rows):
        seen.append((int(matched), int(rows)))

    res = jax.block_until_ready(jm.solve_assignment(costs, method=method, progress=report))
    jax.effects_barrier()
    assert int(res.status) == jm.Status.OPTIMAL
    assert seen[-1] == (100, 100) and {rows for _, rows in seen} == {100}


def test_what_is_not_taken_is_said(method):
    with pytest.raises(ValueError, match="unmatched"):
        jm.solve_assignment(jnp.ones((2, 2)), unmatched_cost=1.0, method=method)
    with x64(True), pytest.raises(ValueError, match="int64"):
        jm.solve_assignment(jnp.ones((2, 2), jnp.int64), method=method)
    with pytest.raises(ValueError, match="steps_per_call"):
        jm.solve_assignment(jnp.ones((2, 2)), method=method, steps_per_call=0)
    with pytest.raises(ValueError, match="belong to"):
        jm.solve_assignment(jnp.ones((2, 2)), steps_per_call=2)
    with pytest.raises(TypeError, match="`progress` must be a function .* got bool"):
        jm.solve_assignment(jnp.ones((2, 2)), method=method, progress=True)


@pytest.mark.parametrize("platform", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
def test_more_entries_than_32_bits_count(method, platform):
    """n*n > 2^31: the best pair of each row is where an index of 32 bits would have wrapped."""
    del platform
    n = 50_000
    best = n - 1 - jnp.arange(n, dtype=jnp.uint32)

    @jax.jit
    def make():
        i, j = (jax.lax.broadcasted_iota(jnp.uint32, (n, n), d) for d in (0, 1))
        noise = (i * 40503 + j * 30011) >> 16 & 127
        return jnp.where(j == best[:, None], 1, 2 + noise).astype(jnp.bfloat16)

    costs = make()
    res = jm.solve_assignment(costs, method=method)
    assert int(res.status) == jm.Status.OPTIMAL and float(res.cost) == n
    np.testing.assert_array_equal(res.col4row, best)

    costs = jax.jit(lambda c: jnp.mod(c, 97), donate_argnums=0)(costs)
    res = jm.solve_assignment(costs, method=method)
    slack = jax.jit(lambda c, u, v: (c.astype(jnp.float32) - u[:, None] - v[None]).min())
    assert slack(costs, res.row_dual, res.col_dual) >= 0
    assert float(res.row_dual.sum() + res.col_dual.sum()) == float(res.cost)
