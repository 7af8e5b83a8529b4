"""Costs as people have them, and those that defeat auctions, against scipy and the certificate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, numpy_dtype, x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from benchmarks.assignment.families import FAMILIES, squared_distances
from jaxmatch import stepping


pytestmark = pytest.mark.usefixtures("platform")


def outlier(g, n):
    """One row and one column cost far more than all others."""
    cost = squared_distances(g.random((n, 3)), g.random((n, 3)))
    cost[0] += 1e4
    cost[:, 3] *= 1e3
    return cost


def far_clusters(g, n):
    """Two clusters far apart, with other populations on each side."""
    x, y = g.normal(0, 0.01, (2, n, 2))
    x[: n // 2] += [1, 0]
    y[: n // 2 + n // 8] += [1, 0]
    return squared_distances(x, y)


def forbidden_blocks(g, n):
    """Half of the rows may only take half of the columns."""
    cost = squared_distances(g.random((n, 2)), g.random((n, 2)))
    cost[: n // 2, n // 2 :] = np.inf
    return cost


HOSTILE = {
    "products": lambda g, n: np.outer(np.arange(n), np.arange(n)) + 0.0,
    "negative products": lambda g, n: -np.outer(np.arange(n), np.arange(n)) + 0.0,
    "|x - y^4|": lambda g, n: abs(g.random((n, 1)) - g.random(n) ** 4),
    "squares on a line": lambda g, n: (g.random((n, 1)) - g.random(n)) ** 2,
    "exp(20 u)": lambda g, n: np.exp(20 * g.random((n, n))),
    "integers 0 to 9": lambda g, n: g.integers(0, 10, (n, n)) + 0.0,
    "all equal": lambda g, n: np.full((n, n), 3.0),
    "outlier": outlier,
    "far clusters": far_clusters,
    "offset": lambda g, n: 1e4 + far_clusters(g, n),
    "forbidden blocks": forbidden_blocks,
    "mixed magnitudes": lambda g, n: 10.0 ** g.uniform(-12, 12, (n, n)),
}
WIDE = ["float64", "int64"]
METHODS = ["auto", "auction"]
DTYPES = ["float32", "float64", "int32", "int64", "bfloat16"]


def assert_optimal(cost, res, **given):
    """Against scipy, and by the duals."""
    sign = -1 if given.get("maximize") else 1
    for c, r in zip(cost, [res[k] for k in range(len(cost))], strict=True):
        assert int(r.status) == jm.Status.OPTIMAL
        c = c.astype(np.float64)
        best = c[linear_sum_assignment(sign * c)].sum()
        apart = abs(c[np.arange(len(c)), np.asarray(r.col4row)].sum() - best)
        assert apart <= float(r.gap) + 1e-12 * len(c) * max(abs(best), 1e-300)
        assert float(r.gap) <= 1e-6 * abs(best) + 1e-30
    check = jm.check_assignment(cost, res, **given)
    eps = np.finfo(np.asarray(res.cost).dtype).eps
    scale = np.abs(np.asarray(res.col_dual)).max(-1) + np.abs(np.asarray(res.row_dual)).max(-1)
    assert np.asarray(check.valid).all()
    assert (np.asarray(check.gap) <= np.asarray(res.gap) + 8 * cost.shape[-1] * eps * scale).all()


def rounded(cost, dtype):
    """Costs of this dtype: integers are hundred thousandths of the greatest cost."""
    if dtype.startswith("int"):
        finite = np.where(np.isfinite(cost), cost, 0)
        return np.rint(finite / np.abs(finite).max() * 1e5).astype(dtype)
    return cost.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_families(family, dtype, method):
    if method == "auction" and dtype == "int64":
        pytest.skip("methods for large problems take no int64")
    n = 200
    cost = np.stack([rounded(FAMILIES[family](n, seed), dtype) for seed in (1, 2)])
    with x64(dtype in WIDE):
        assert_optimal(cost, jm.solve_assignment(cost, method=method))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("family", HOSTILE)
@pytest.mark.parametrize("method", METHODS)
def test_hostile(family, dtype, method):
    if dtype == "int32" and family == "forbidden blocks":
        pytest.skip("integers forbid nothing")
    cost = HOSTILE[family](np.random.default_rng(5), 260)
    with x64(dtype == "float64"):
        cost = rounded(cost, dtype)[None]
        assert_optimal(cost, jm.solve_assignment(cost, method=method))


@pytest.mark.parametrize("method", ["core", "auction"])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "uniform, m = 2n"])
def test_rounds_are_few(family, method):
    """Searches alone would need up to n²/7 dependent steps, here 37,000."""
    cost = jnp.asarray(FAMILIES[family](512, 8), jnp.float32)
    state = jax.jit(lambda c: stepping.step(c, stepping.init(c, method=method), steps=10**6))(cost)
    assert state.done and int(state.steps) < 100 and int(state.termination_rounds) < 3000


@pytest.mark.parametrize("method", ["core", "auction"])
@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "shifted clouds"])
@pytest.mark.parametrize("rows", [511, 500, 256])
def test_rounds_are_few_where_columns_stay_free(rows, family, method):
    cost = jnp.asarray(FAMILIES[family](512, 8)[:rows], jnp.float32)
    state = jax.jit(lambda c: stepping.step(c, stepping.init(c, method=method), steps=10**6))(cost)
    assert state.done and int(state.steps) < 100 and int(state.termination_rounds) < 3000


@pytest.mark.parametrize("method", ["core", "auction"])
@pytest.mark.parametrize("rows", [300, 290])
def test_one_scale_at_a_time(rows, method):
    """Stopped after every step, an auction resumes where it was, to the same bits."""
    cost = jnp.asarray(FAMILIES["sphere to shape"](300, 9)[:rows], jnp.float32)
    whole = jm.solve_assignment(cost, method=method)
    state, matched = stepping.init(cost, method=method), []
    while not state.done:
        state = stepping.step(cost, state)
        matched.append(int(state.matched_rows))
    # The last call may only price what the last step has found.
    assert 10 < int(state.steps) <= len(matched) <= int(state.steps) + 1 and matched[-1] == rows
    assert_same_bits(state.result, whole)


@pytest.mark.parametrize("seed", range(8))
def test_no_call_takes_more_steps_than_it_may(seed):
    """Nor one that begins again, because the solution has used a clamped cost."""
    random = np.random.default_rng(seed)
    cost = np.full((64, 64), np.inf)
    cost[0] = 1 + 2.0**-40
    for i in range(1, 64):
        cols = random.choice(64, random.integers(3, 6), replace=False)
        cost[i, cols] = random.integers(2**20, 2**21, len(cols)) * 2.0**50
    cost[np.arange(64), random.permutation(64)] = 2.0**70
    with x64(True):
        state, steps = stepping.init(cost), 0
        for _ in range(500):
            state = stepping.step(cost, state)
            assert int(state.steps) <= steps + 1
            steps = int(state.steps)
            if state.done:
                break
        best = cost[linear_sum_assignment(cost)].sum()
        np.testing.assert_allclose(float(state.result.cost), best, rtol=1e-9)


@pytest.mark.parametrize("method", ["core", "auction"])
@pytest.mark.parametrize("bits", [0, 44])
def test_offsets_of_rows(bits, method):
    """They change no optimum, and must not change the scales of an auction."""
    random = np.random.default_rng(10)
    cost = np.rint(FAMILIES["shifted clouds"](300, 11) * 2.0**10)
    cost += random.integers(0, 2**bits, (300, 1))
    with x64(True):
        state = stepping.step(cost, stepping.init(cost, method=method), steps=10**6)
        assert int(state.dense_steps) == 0 and int(state.steps) < 60
        best = cost[linear_sum_assignment(cost)].sum()
        assert float(state.result.cost) == best


@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "uniform"])
@pytest.mark.parametrize("method", METHODS)
def test_larger(family, method, platform):
    """On a GPU with enough rows for a cluster of blocks for one problem."""
    cost = FAMILIES[family](1500 if platform == "cuda" else 700, 3).astype(np.float32)[None]
    assert_optimal(cost, jm.solve_assignment(cost, method=method))


@pytest.mark.parametrize("n, m", [(300, 300), (290, 300), (300, 290)])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_masks_and_orientations(n, m, maximize, method):
    """Masked entries hold NaN. The used part is square, wide and tall in turn."""
    random = np.random.default_rng(n + m)
    cost = FAMILIES["20 clusters"](340, 4)[:330].astype(np.float32)
    rows, cols = np.zeros(330, bool), np.zeros(340, bool)
    rows[random.permutation(330)[:n]] = True
    cols[random.permutation(340)[:m]] = True
    given = {"row_mask": rows, "col_mask": cols, "maximize": maximize}
    used = np.where(rows[:, None] & cols, cost, np.nan)
    res = jm.solve_assignment(used, method=method, **given)
    part = cost[np.ix_(rows, cols)].astype(np.float64)
    best = part[linear_sum_assignment(part, maximize=maximize)].sum()
    assert int(res.status) == jm.Status.OPTIMAL
    np.testing.assert_allclose(float(res.cost), best, rtol=1e-6)
    assert bool(jm.check_assignment(used, res, **given).valid)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_columns_that_stay_free(family, dtype, method):
    """A few of them, and as many as there are rows; on either side."""
    if method == "auction" and dtype == "int64":
        pytest.skip("methods for large problems take no int64")
    cost = rounded(FAMILIES[family](300, 12)[:300, :300], dtype)
    turn = [*FAMILIES].index(family) + DTYPES.index(dtype) + METHODS.index(method)
    with x64(dtype in WIDE):
        for used in [cost[:-1], cost[:, :-12], cost[:150], cost[:, :200].T][turn % 2 :: 2]:
            res = jm.solve_assignment(used, method=method)
            best = used.astype(np.float64)[linear_sum_assignment(used.astype(np.float64))].sum()
            assert int(res.status) == jm.Status.OPTIMAL
            np.testing.assert_allclose(
                np.where(res.col4row >= 0, used[np.arange(len(used)), res.col4row], 0).sum(
                    dtype=np.float64
                ),
                best,
                atol=float(res.gap),
                rtol=1e-12,
            )
            check = jm.check_assignment(used, res)
            exact = dtype.startswith("int") or method == "auto" and dtype == "float64"
            most = 1e-12 if exact else 1e-6
            assert bool(check.valid) and float(check.gap) <= most * max(abs(best), 1)
            n, m = used.shape
            side = res.col4row if n > m else res.row4col
            dual = res.row_dual if n > m else res.col_dual
            assert (np.asarray(dual)[np.asarray(side) < 0] == 0).all()


@pytest.mark.parametrize("shape", [(300, 300), (280, 300), (300, 200)], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_stay_unmatched(family, shape):
    """Each row may take a column of its own at its unmatched cost: a problem that scipy solves."""
    n, m = shape
    dtype = ["int32", "int64", "float64"][([*FAMILIES].index(family) + (n + m) // 20) % 3]
    cost = np.rint(FAMILIES[family](300, 13)[:n, :m] * 2.0**10)
    ideal = cost.min(1)
    for leave in [ideal, np.sort(cost, 1)[:, 20], np.full(n, cost.mean() // 2), ideal + 1e9]:
        own = np.full((n, n), np.inf)
        np.fill_diagonal(own, leave)
        whole = np.concatenate([cost, own], 1)
        with x64(True):
            given = cost.astype(dtype), {"unmatched_cost": leave.astype(dtype)}
            res = jm.solve_assignment(given[0], **given[1])
            best = whole[linear_sum_assignment(whole)].sum()
            assert int(res.status) == jm.Status.OPTIMAL
            check = jm.check_assignment(given[0], res, **given[1])
            # Float64 costs have no common unit, so that duals of an auction may be rounded.
            most = 1e-9 if dtype == "float64" else 0
            assert float(res.cost) == best and float(res.gap) <= most
            assert bool(check.valid) and float(check.gap) <= most


def with_big_m(used, value):
    """Costs with `value` in seven of ten pairs that a matching can avoid; with infinity there."""
    random = np.random.default_rng(14)
    n, m = used.shape
    big = random.random((n, m)) < 0.7
    k = min(n, m)
    big[random.permutation(n)[:k], random.permutation(m)[:k]] = False
    high = np.where(big, np.asarray(value, used.dtype), used)
    return high, np.where(big, np.copysign(np.inf, value), used.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
@pytest.mark.parametrize("family", ["sphere to shape", "20 clusters", "features of rank 64"])
def test_big_m(family, dtype):
    """Far higher costs in place of forbidden pairs change neither optimum nor precision."""
    cost = rounded(FAMILIES[family](200, 15), dtype)
    maximize = (DTYPES.index(dtype) + [*FAMILIES].index(family) // 2) % 2 == 1
    with x64(dtype in WIDE):
        for used in [cost, cost[:, :180], cost[:180]]:
            for value in [10**9] if dtype == "int32" else [1e9, 1e30]:
                high, forbidden = with_big_m(used, -value if maximize else value)
                res = jm.solve_assignment(high, maximize=maximize)
                best = forbidden[linear_sum_assignment(forbidden, maximize=maximize)].sum()
                rows = np.flatnonzero(np.asarray(res.col4row) >= 0)
                mine = forbidden[rows, np.asarray(res.col4row)[rows]].sum()
                assert abs(mine - best) <= float(res.gap) + 1e-12 * abs(best)
                assert float(res.gap) <= 1e-9 * abs(best)
                assert bool(jm.check_assignment(high, res, maximize=maximize).valid)


@pytest.mark.parametrize(
    "n, m, leave", [(200, 200, 0.3), (180, 200, 0.3), (200, 180, 0.3), (200, 200, 1e30)]
)
def test_big_m_beside_unmatched_costs(n, m, leave):
    """A row that has nothing else leaves, or must find a column if leaving costs as much."""
    used = FAMILIES["sphere to shape"](200, 17)[:n, :m]
    high, forbidden = with_big_m(used, 1e30)
    own = np.full((n, n), np.inf)
    np.fill_diagonal(own, np.inf if leave > 1e9 else leave)
    whole = np.concatenate([forbidden, own], 1)
    best = whole[linear_sum_assignment(whole)].sum()
    with x64(True):
        res = jm.solve_assignment(high, unmatched_cost=leave)
        np.testing.assert_allclose(float(res.cost), best, rtol=1e-9)
        assert float(res.gap) <= 1e-9 * best
        assert bool(jm.check_assignment(high, res, unmatched_cost=leave).valid)


@pytest.mark.parametrize("value", [1e9, 1e30])
@pytest.mark.parametrize("columns", [200, 215])
@pytest.mark.parametrize("row", [0, 50])
def test_big_m_that_must_be_paid(row, columns, value):
    """As seldom as possible, and other rows pay hardly more than they have to."""
    cost = FAMILIES["sphere to shape"](215, 16)[:200, :columns]
    cost[row] = value
    res = jm.solve_assignment(cost.astype(np.float32))
    others = np.delete(cost.astype(np.float32).astype(np.float64), row, 0)
    cols = np.delete(np.asarray(res.col4row), row)
    best = others[linear_sum_assignment(others)].sum()
    # Doubles of the size of 1e30 do not tell columns apart.
    most = 1e-6 if value < 1e10 else 1e-2
    np.testing.assert_allclose(others[np.arange(199), cols].sum(), best, rtol=most)
    assert float(res.gap) <= 1e-10 * value


@pytest.mark.parametrize("columns", [100, 129])
@pytest.mark.parametrize("method", METHODS)
def test_infeasible(columns, method):
    """130 rows may only take so many columns: found, however rows bid."""
    cost = FAMILIES["cube 3-D"](260, 6).astype(np.float32)
    cost[:130, columns:] = np.inf
    assert int(jm.solve_assignment(cost, method=method).status) == jm.Status.INFEASIBLE


def test_almost_infeasible():
    """Only one assignment is allowed besides a diagonal band."""
    n = 260
    cost = FAMILIES["cube 3-D"](n, 7).astype(np.float32)[None]
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    cost[:, apart > 2] = np.inf
    cost[:, apart == 2] *= 1e3
    assert_optimal(cost, jm.solve_assignment(cost))


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30, -1e30, "spread"])
def test_poisoned_start(poison):
    cost = FAMILIES["sphere to shape"](220, 8).astype(np.float32)[None]
    start = np.zeros((1, 220), np.float32)
    start[0, ::3] = 1e3 * np.arange(74) if poison == "spread" else poison
    assert_optimal(cost, jm.solve_assignment(cost, warm_start=start))


def test_same_bits_in_every_run_and_batch():
    cost = np.stack([FAMILIES["20 clusters"](300, seed) for seed in range(5)]).astype(np.float32)
    solve = jax.jit(lambda c: jm.solve_assignment(c, method="jonker_volgenant"))
    first = solve(cost)
    for _ in range(20):
        assert_same_bits(solve(cost), first)
    for k in range(5):
        assert_same_bits(jax.tree.map(lambda x: x[0], solve(cost[k : k + 1])), first[k])
    assert_same_bits(jax.vmap(solve)(cost), first)


def test_integers_that_doubles_would_round():
    """128-bit sums decide."""
    cost = FAMILIES["20 clusters"](200, 9)
    with x64(True):
        exact = np.rint(cost / cost.max() * 2**50).astype(np.int64)[None]
        res = jm.solve_assignment(exact)
        assert int(res.status[0]) == jm.Status.OPTIMAL and float(res.gap[0]) == 0
        assert bool(jm.check_assignment(exact, res).valid[0])
        coarse = (exact >> 20).astype(np.float64)  # whose sums scipy does not round
        rows, cols = linear_sum_assignment(coarse[0])
        mine = int(exact[0][np.arange(200), np.asarray(res.col4row[0])].astype(object).sum())
        assert mine <= int(exact[0][rows, cols].astype(object).sum())


def test_square_part_under_masks_gives_the_same_as_alone():
    cost = FAMILIES["sphere to shape"](330, 10).astype(np.float32)
    used = np.sort(np.random.default_rng(0).permutation(330)[:300])
    mask = np.isin(np.arange(330), used)
    res = jm.solve_assignment(cost, row_mask=mask, col_mask=mask)
    alone = jm.solve_assignment(cost[np.ix_(used, used)])
    np.testing.assert_allclose(float(res.cost), float(alone.cost), rtol=1e-6)
    assert int(res.status) == jm.Status.OPTIMAL


@pytest.mark.parametrize("problems", [1, 20, 140])
def test_any_number_of_problems_at_once(problems):
    """On a GPU the number of blocks of a problem depends on the number of problems."""
    n = 1025 if problems < 140 else 257
    cost = FAMILIES["sphere to shape"](n, 11).astype(np.float32)
    solve = jax.jit(lambda c: jm.solve_assignment(c, method="jonker_volgenant"))
    alone = solve(cost[None])
    together = solve(np.broadcast_to(cost, (problems, n, n)))
    for k in {0, problems - 1}:
        assert_same_bits(together[k], alone[0])
