"""Bottleneck assignments against brute force and thresholds."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bottleneck_helpers import (
    FAMILIES,
    assert_failed,
    assert_proved,
    brute_force,
    family,
    own_costs,
    threshold,
)
from helpers import problem, to_numpy

import jaxmatch as jm
from jaxmatch._assignment.methods import METHODS
from jaxmatch._bottleneck.search import Sides, find, first
from jaxmatch._bottleneck.solve import _keys


# (shape, lexicographic, maximize)
SMALL = [
    ((1, 1), True, False), ((1, 4), False, True), ((5, 1), True, True), ((2, 2), True, False),
    ((4, 4), False, False), ((4, 4), True, True), ((3, 5), True, False), ((6, 4), True, False),
    ((6, 4), False, True), ((5, 6), True, True), ((6, 6), True, False),
]  # fmt: skip


def small(shape, seed, dtype=np.float32):
    """Problems of all kinds: random and tied costs, forbidden pairs, some without an assignment."""
    rng = np.random.default_rng(seed)
    kinds = [rng.random((6, *shape))]
    kinds += [rng.integers(0, most, (6, *shape)) for most in (1, 2, 3, 6)]
    cost = np.concatenate(kinds).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        forbidden = np.where(rng.random(cost.shape) < 0.35, np.inf, cost)
        cost = np.concatenate([cost, forbidden.astype(dtype)])
    return cost


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("shape, lexicographic, maximize", SMALL, ids=str)
def test_brute_force(shape, lexicographic, maximize):
    cost = small(shape, sum(shape)) * np.float32(-1 if maximize else 1)
    options = {"maximize": maximize, "lexicographic": lexicographic}
    res = to_numpy(jm.bottleneck_assignment(cost, **options))
    solved = 0
    for k, c in enumerate(cost):
        one, best = problem(res, k), brute_force(c, maximize)
        if best is None:
            assert_failed(one, jm.Status.INFEASIBLE)
            continue
        solved += 1
        assert_proved(c, one, maximize=maximize)
        assert one.bottleneck == best[0]
        if lexicographic:
            np.testing.assert_array_equal(own_costs(c, one, maximize), best)
    assert solved >= 30
    check = jm.check_bottleneck(cost, res, maximize=maximize)
    np.testing.assert_array_equal(check.optimal, res.status == jm.Status.OPTIMAL)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("shape, maximize", [((4, 4), True), ((3, 5), False)], ids=str)
def test_brute_force_of_integers(shape, maximize):
    cost = small(shape, 7, np.int32) - 2
    res = to_numpy(jm.bottleneck_assignment(cost, maximize=maximize, lexicographic=True))
    for k, c in enumerate(cost):
        assert_proved(c, problem(res, k), maximize=maximize)
        best = brute_force(c.astype(float), maximize)
        np.testing.assert_array_equal(own_costs(c, problem(res, k), maximize), best)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("shape", [(50, 50), (40, 90), (70, 45)], ids=str)
def test_thresholds(shape):
    cost = np.stack([family(name, seed, *shape) for seed, name in enumerate(FAMILIES)])
    res = to_numpy(jm.bottleneck_assignment(cost))
    for k, c in enumerate(cost):
        best = threshold(c)
        if best == np.inf:
            assert_failed(problem(res, k), jm.Status.INFEASIBLE)
        else:
            assert_proved(c, problem(res, k))
            assert res.bottleneck[k] == best
    check = jm.check_bottleneck(cost, res)
    np.testing.assert_array_equal(check.optimal, res.status == jm.Status.OPTIMAL)


@pytest.mark.parametrize("name", ["points", "products", "band", "sparse"])
def test_large(name):
    cost = family(name, 3, 600, 600)
    res = jm.bottleneck_assignment(cost)
    assert_proved(cost, res)
    assert res.bottleneck == threshold(cost)


def hill(n):
    """One long alternating path from row 0 to column 0, whose costs rise to its middle.

    The reach of either end grows by one pair at a time.
    """
    cost = np.full((n, n), 1e6, np.float32)
    k = np.arange(n - 1)
    cost[k + 1, k + 1] = 0
    cost[n - 1, 0] = 0
    cost[k, k + 1] = np.minimum(2 * k + 1, 2 * (n - 1 - k))
    return cost


def test_number_of_turns():
    for cost, most in ((hill(160), 50), (family("points", 1, 100, 100), 12)):
        cost = jnp.asarray(cost)
        every = jnp.ones(len(cost), bool)
        key, greatest, invalid = _keys(cost, every[:, None] & every[None], False)
        sides = Sides(every, every, (None, None))
        solve = partial(METHODS["auto"], maximize=False)
        search = find(first(key, greatest, sides), key, sides, invalid, solve)
        assert search.most == threshold(np.asarray(key))
        assert 1 <= search.turns <= most


@pytest.mark.parametrize("seed", range(3))
def test_peer(seed):
    fastlap = pytest.importorskip("fastlap")
    for name in ("uniform", "points", "integers", "few values"):
        cost = family(name, seed, 60, 60)
        theirs, *_ = fastlap.solve_lbap(cost.astype(np.float64))
        assert jm.bottleneck_assignment(cost).bottleneck == np.float32(theirs)


@pytest.mark.parametrize("method", ["core", "tree", "xla"])
def test_methods(method):
    cost = np.stack([family(name, 1, 12, 15) for name in FAMILIES])
    solve = partial(jm.bottleneck_assignment, method=method)
    np.testing.assert_array_equal(solve(cost).bottleneck, jm.bottleneck_assignment(cost).bottleneck)
    few = cost[:4, :, :9]
    every, expected = (
        to_numpy(jm.bottleneck_assignment(few, method=name, lexicographic=True))
        for name in (method, "auto")
    )
    for k, c in enumerate(few):
        assert_proved(c, problem(every, k))
        np.testing.assert_array_equal(*(own_costs(c, problem(x, k)) for x in (every, expected)))


# ---------------------------------------------------------------------------------------------
# The lexicographic order beyond the reach of brute force


def by_weights(cost):
    """The greatest sum decides all: costs that are powers of a base, by an ordinary assignment."""
    values, level = np.unique(cost, return_inverse=True)
    base = min(cost.shape) + 1
    assert base ** len(values) < 2**53
    weight = base ** level.reshape(cost.shape).astype(np.int64)
    with jax.enable_x64(True):
        res = to_numpy(jm.solve_assignment(weight))
    assert res.gap == 0
    return own_costs(cost, res)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("n, m, values", [(12, 12, 12), (20, 31, 9), (25, 14, 11), (40, 40, 5)])
def test_lexicographic_by_weights(n, m, values):
    rng = np.random.default_rng(n)
    cost = rng.integers(0, values, (3, n, m)).astype(np.float32)
    cost[1] = np.minimum(cost[1], 2 * rng.integers(0, values, (n, 1)))
    cost[2] = (np.abs(np.arange(n)[:, None] - np.arange(m)) + cost[2]) % values
    res = to_numpy(jm.bottleneck_assignment(cost, lexicographic=True))
    for k, c in enumerate(cost):
        assert_proved(c, problem(res, k))
        np.testing.assert_array_equal(own_costs(c, problem(res, k)), by_weights(c))


def test_a_column_that_all_optima_match():
    """The fewest pairs of cost 2 need column 2, although columns are many; so 1 is needed, too."""
    cost = np.array([[2, 2, 0, 9], [9, 9, 1, 9], [9, 9, 9, 2]], np.float32)[None]
    cost = np.concatenate([cost, cost.transpose(0, 2, 1)[:, :, [2, 0, 1]].transpose(0, 2, 1)])
    for c in (*cost, cost[0].T):
        res = to_numpy(jm.bottleneck_assignment(c, lexicographic=True))
        np.testing.assert_array_equal(own_costs(c, res), brute_force(c))


def test_settled_levels_stay_settled():
    """Of the optima of a level, those that cost more below must not come back."""
    rng = np.random.default_rng(5)
    cost = np.where(rng.random((40, 6, 8)) < 0.5, 7, rng.integers(0, 7, (40, 6, 8)))
    for c in (cost, cost.transpose(0, 2, 1)):
        c = c.astype(np.float32)
        res = to_numpy(jm.bottleneck_assignment(c, lexicographic=True))
        for k in range(len(c)):
            np.testing.assert_array_equal(own_costs(c[k], problem(res, k)), brute_force(c[k]))
