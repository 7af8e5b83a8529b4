"""One assignment whose costs are sharded over devices: exact arithmetic, scipy, and one device."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from exact import prove
from helpers import (
    assert_checked,
    assert_failed,
    assert_inverse,
    assert_proved,
    assert_same_bits,
    to_numpy,
    x64,
)
from hypothesis import given, settings
from oracles import brute_force, scipy_optimum
from sharded_helpers import METHODS, SIDES, by_each_side, each_method, sharded, some_of_both
from test_assignment_families import batch, families, few_roundings, hidden
from test_assignment_features import hide
from test_core_structured import KINDS, assert_optimal, costs, moved_classes, solved_in_steps

import jaxmatch as jm


DTYPES = [("bfloat16", False), ("float16", True), ("float32", False), ("float32", True)]
DTYPES += [("float64", True), ("int32", True)]


# ---------------------------------------------------------------------------------------------
# Solutions


@each_method
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_family(dtype, wide, method):
    """Ties, denormals, 1e30, ranges that no grid holds."""
    turn = DTYPES.index((dtype, wide)) + METHODS.index(method)
    shape, by = [(12, 12), (12, 24), (24, 12)][turn % 3], SIDES[turn % 2]
    devices, maximize = 1 + (turn + turn // 4) % 4, turn // 2 % 2 == 0
    exact, spread = families(dtype)
    for family, is_exact in ((exact, True), (spread, False)):
        if not family:
            continue
        problems = batch(family, dtype, shape, maximize)
        provable = is_exact and wide
        with x64(wide):
            each = [sharded(c, by, devices, method=method, maximize=maximize) for c in problems]
            res = jax.tree.map(lambda *x: np.stack(x), *to_numpy(each))
            assert res.cost.dtype == (np.float64 if wide else np.float32)
            assert_proved(problems, res, exact=provable, maximize=maximize)
            most = 0 if is_exact else 4 * few_roundings(problems)
            claimed = dict(zip(family, res.gap, strict=True))
            assert (res.gap <= most).all(), claimed
            most = most + hidden(problems, wide)
            if not provable:
                duals = abs(res.col_dual).max(-1) + abs(res.row_dual).max(-1)
                most += 4 * sum(shape) * np.finfo(duals.dtype).eps * duals
            assert_checked(problems, res, 24, most=most, block=24, maximize=maximize)


@by_each_side
@each_method
def test_masks(method, by):
    """Prefixes, windows and scattered entries, that turn which side is longer and leave parts of
    the costs, or all of them, without an entry; what is masked may be anything."""
    shape = (24, 36)
    devices = 3 + (METHODS.index(method) + SIDES.index(by)) % 2
    rng = np.random.default_rng([devices, METHODS.index(method)])

    def patterns(size):
        at = np.arange(size)
        scattered = rng.random(size) < 0.6
        return [at < size // 3, at >= size // 2, at % 3 != 1, scattered, at == 11, at < 0, at >= 0]

    rows, cols = (patterns(size) for size in shape)
    masks = [(r, c) for r in rows for c in cols] + [(r, None) for r in rows]
    masks += [(None, c) for c in cols]
    maximize = devices == 3
    for row_mask, col_mask in masks[devices - 3 :: 4]:
        given = {"row_mask": row_mask, "col_mask": col_mask}
        given = {name: mask for name, mask in given.items() if mask is not None}
        cost = rng.integers(-40, 40, shape).astype(np.float32)
        cost[rng.random(shape) < 0.2] = -np.inf if maximize else np.inf
        cost = hide(rng, cost, row_mask, col_mask)
        res = sharded(cost, by, devices, method=method, maximize=maximize, **given)
        optimum = scipy_optimum(cost, maximize, **given)
        if optimum is None:
            assert_failed(res, jm.Status.INFEASIBLE)
            continue
        one = jax.tree.map(lambda x: x[None], (to_numpy(res), given))
        assert assert_proved(cost[None], one[0], maximize=maximize, **one[1]) == [optimum]
        assert_checked(cost[None], one[0], 36, block=1, maximize=maximize, **one[1])


@by_each_side
@each_method
def test_statuses(method, by):
    rng = np.random.default_rng(1)
    inf, nan, cost = np.inf, np.nan, rng.random((12, 12)).astype(np.float32)

    def status(cost, expected, devices=4):
        for sign, maximize in ((1, False), (-1, True)):
            res = sharded(sign * cost, by, devices, method=method, maximize=maximize)
            assert int(res.status) == expected
            if expected != jm.Status.OPTIMAL:
                assert_failed(res, expected)

    for at in [(0, 0), (4, 7), (11, 11)]:  # whichever device has it
        for wrong in (nan, -inf):
            bad = cost.copy()
            bad[at] = wrong
            status(bad, jm.Status.INVALID_COST)
        for where in ((at[0], slice(None)), (slice(None), at[1])):
            bad = cost.copy()
            bad[where] = inf
            status(bad, jm.Status.INFEASIBLE)
    status(np.full((12, 12), inf, np.float32), jm.Status.INFEASIBLE)
    # Rows with too few columns between them (Hall), found out after a search.
    hall = rng.random((60, 60)).astype(np.float32)
    hall[:31, 30:] = inf
    status(hall, jm.Status.INFEASIBLE, 3)
    hall[30, 59] = 1
    status(hall, jm.Status.OPTIMAL, 3)
    hall[0, 0] = nan  # told first
    status(hall, jm.Status.INVALID_COST, 3)


@some_of_both
def test_more_rows_than_usable_columns(method, by):
    """Prices fall without a bound, by differences of doubles whose last bits are far apart."""
    costs = np.random.default_rng(40).normal(size=(40, 40))
    costs[:, 39:] = np.inf
    with x64(True):
        assert_failed(sharded(costs, by, 2, method=method), jm.Status.INFEASIBLE)


def beyond_the_grid():
    """Costs with which prices come to many times the greatest of them: too much for the grid."""
    rng = np.random.default_rng(0)
    cost = np.where(rng.random((12, 12)) < 0.25, rng.choice([-1e30, 1e30], (12, 12)), np.inf)
    cost[np.arange(12), rng.permutation(12)] = 1e30 * rng.random(12)
    return cost


@some_of_both
def test_walls_do_not_blunt_the_rest(method, by):
    """The grid is cut far above what columns cost at least, and where that was too low, coarser."""
    rng = np.random.default_rng(8)
    for wall in (1e9, 1e30):
        walled = np.where(rng.random((40, 40)) < 0.5, wall, rng.random((40, 40))).astype("f4")
        other = to_numpy(jm.solve_assignment(walled, method="jonker_volgenant"))
        res = to_numpy(sharded(walled, by, 4, method=method))
        assert (res.status, res.gap, res.cost) == (jm.Status.OPTIMAL, 0, other.cost)
        walled[3] = wall  # now somebody has to
        other = to_numpy(jm.solve_assignment(walled, method="jonker_volgenant"))
        res = to_numpy(sharded(walled, by, 4, method=method))
        assert res.status == jm.Status.OPTIMAL and res.gap <= 1e-10 * wall
        assert abs(res.cost - other.cost) <= res.gap + other.gap
    most = np.finfo(np.float64).max
    wide = [most / 64 * rng.random((40, 40)), np.full((40, 40), 5e-324), most * np.eye(40)]
    for cost in (*wide, beyond_the_grid()):
        with x64(True):
            res = to_numpy(sharded(cost, by, 4, method=method))
            assert res.status == jm.Status.OPTIMAL
            np.testing.assert_allclose(res.cost, float(scipy_optimum(cost)), rtol=1e-12)


@some_of_both
@pytest.mark.parametrize("shape", [(132, 132), (120, 140), (140, 124)], ids=str)
def test_structured_costs(shape, method, by):
    """Where the first candidates mislead. Cores that lead nowhere are left to the trees."""
    with x64(True):
        for kind in KINDS if method == "core" and by == "col_axis" else KINDS[shape[1] % 3 :: 3]:
            if method == "classical" and "products" in kind:
                continue  # it tells of all zeros again for each of n² / 2 updates
            cost = costs(kind, *shape)
            assert_optimal(cost, sharded(cost, by, 4, method=method))
        for seed in (2, 4, 16) if method == "core" and shape == (132, 132) else ():
            cost = moved_classes(seed).astype(np.int32)
            assert_optimal(cost, sharded(cost, by, 4))


@by_each_side
def test_integers_that_a_float_does_not_hold(by):
    cost = 2**24 + 1 + np.add.outer(np.arange(8), np.arange(8)).astype(np.int32) % 8
    cost[range(8), range(8)] = 2**24 + 1
    with x64(True):
        for method in METHODS:
            res = sharded(cost, by, 4, method=method)
            assert (float(res.cost), float(res.gap)) == (8 * (2**24 + 1), 0)


always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=60)
numbers = st.integers(-9, 9).map(float)
shapes = st.sampled_from([(4, 4), (4, 8), (8, 4)])


@always_the_same
@given(
    shapes.flatmap(
        lambda s: hnp.arrays(np.float32, s, elements=st.one_of(numbers, numbers, st.just(np.inf)))
    ),
    st.sampled_from(METHODS), st.sampled_from(SIDES), st.sampled_from([2, 4]),
)  # fmt: skip
def test_agrees_with_exhaustive_search(cost, method, by, devices):
    res = to_numpy(sharded(cost, by, devices, method=method))
    optimum = brute_force(cost) if max(cost.shape) < 8 else scipy_optimum(cost)
    if optimum is None:
        assert_failed(res, jm.Status.INFEASIBLE)
        return
    assert_inverse(res.col4row, res.row4col)
    assert prove(cost, res.col4row, res.col_dual) == (optimum, 0)
    assert (res.status, res.cost, res.gap) == (jm.Status.OPTIMAL, optimum, 0)


# ---------------------------------------------------------------------------------------------
# The same bits


@each_method
@pytest.mark.parametrize("shape", [(132, 132), (84, 156)], ids=str)
def test_same_bits_as_on_one_device(shape, method):
    """With sharded rows that are not the longer side."""
    rng = np.random.default_rng(3)
    many = [costs(kind, *shape) for kind in KINDS]
    many += [rng.integers(-(2**31), 2**31, shape).astype(np.int32), rng.random(shape, np.float32)]
    many += [np.where(rng.random(shape) < 0.7, np.inf, many[-1]).astype("f4")]
    many += [(rng.random(shape) * 2.0 ** rng.integers(-60, 60, shape)).astype("f4")]
    for k, cost in enumerate(many):
        if (k + (shape[0] == 84)) % 2 and method != "core":
            continue  # enough is enough
        if method == "classical" and k < len(KINDS) and "products" in KINDS[k]:
            continue
        state = solved_in_steps(cost, method)
        one, res = state.result, sharded(cost, "row_axis", 2 + k % 3, method=method)
        if int(state.bids) > 0:
            # A whole problem may have an auction, after which ties are broken differently.
            assert res.status == one.status
            if one.status == jm.Status.OPTIMAL:
                tolerance = float(res.gap) + float(one.gap) + 1e-6 * abs(float(one.cost))
                assert abs(float(res.cost) - float(one.cost)) <= tolerance
        else:
            assert_same_bits(res, one)


@some_of_both
def test_same_bits_again(method, by):
    cost = costs("random products" if method == "core" else "clusters", 132, 140)
    first = sharded(cost, by, 4, method=method)
    for _ in range(3):
        assert_same_bits(sharded(cost, by, 4, method=method), first)
