"""Bottleneck assignments of every dtype, in batches, with masks, in JAX's transformations."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bottleneck_helpers import (
    assert_failed,
    assert_proved,
    brute_force,
    family,
    own_costs,
    threshold,
)
from helpers import DTYPES, assert_same_bits, numpy_dtype, problem, to_numpy, x64

import jaxmatch as jm
from jaxmatch._bottleneck import keys


INF, NAN = np.inf, np.nan


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("dtype, on", DTYPES, ids=str)
def test_dtypes(dtype, on):
    rng = np.random.default_rng(3)
    wide = 100 * rng.normal(size=(3, 9, 11))
    cost = (wide.round() if dtype.startswith("int") else wide).astype(numpy_dtype(dtype))
    maximize = (list(dict(DTYPES)).index(dtype) + on) % 2 == 1
    with x64(on):
        res = jax.jit(
            partial(jm.bottleneck_assignment, maximize=maximize, lexicographic=not maximize)
        )(cost)
        check = jm.check_bottleneck(jnp.asarray(cost), res, maximize=maximize)
    res = to_numpy(res)
    assert np.asarray(check.optimal).all()
    assert res.bottleneck.dtype == (np.float64 if on else np.float32)
    assert res.col4row.dtype == np.int32
    for k in range(3):
        c = cost[k].astype(np.float64)
        assert_proved(c, problem(res, k), maximize=maximize)
        best = -threshold(-c) if maximize else threshold(c)
        assert res.bottleneck[k] == best


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16"])
def test_narrow_integers(dtype):
    cost = np.random.default_rng(4).integers(0, 2, (5, 6)).astype(dtype)
    res = jm.bottleneck_assignment(cost)
    assert res.bottleneck == threshold(cost.astype(int))
    assert jm.check_bottleneck(cost, res).optimal


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_numpy_in_full_precision(dtype):
    """Differences that float32 does not hold, outside of a trace and without x64."""
    rng = np.random.default_rng(5)
    cost = 10**9 + rng.permutation(64).reshape(8, 8)
    cost = cost * 4 if dtype == "int64" else cost + rng.random((8, 8))
    res = jm.bottleneck_assignment(cost, lexicographic=True)
    assert isinstance(res.bottleneck, np.ndarray) and res.bottleneck.dtype == np.float64
    assert res.bottleneck == threshold(cost)
    assert_proved(cost, res)
    check = jm.check_bottleneck(cost, res)
    assert check.optimal and isinstance(check.optimal, np.ndarray)
    inside = jax.jit(lambda: jm.bottleneck_assignment(cost).col4row)()  # a constant
    assert cost[np.arange(8), inside].max() == threshold(cost)


def test_extreme_integers():
    """No cost is added to another: those of all sizes are solved, and are told apart."""
    for dtype in (np.int32, np.int64):
        info = np.iinfo(dtype)
        cost = np.array(
            [[[info.max, info.min], [info.min, info.max]],
             [[info.max, info.max], [info.max, info.max]],
             [[info.min, info.min], [info.min, info.min]],
             [[info.max, info.max], [info.max - 1, info.min]]], dtype)  # fmt: skip
        for maximize, lexicographic in itertools.product((False, True), repeat=2):
            options = {"maximize": maximize, "lexicographic": lexicographic}
            res = jm.bottleneck_assignment(cost, **options)
            assert np.asarray(jm.check_bottleneck(cost, res, maximize=maximize).optimal).all()
            for k, c in enumerate(cost):
                best = sorted(([c[0, 0], c[1, 1]], [c[0, 1], c[1, 0]]), key=sorted_key(maximize))
                own = own_costs(c, problem(to_numpy(res), k), maximize)
                expected = sorted(best[0], reverse=not maximize)
                assert own[0] == expected[0]
                assert not lexicographic or own.tolist() == expected


def sorted_key(maximize):
    if maximize:
        return lambda costs: [-int(x) for x in sorted(costs)]
    return lambda costs: sorted(map(int, costs), reverse=True)


# ---------------------------------------------------------------------------------------------
# Floats


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_denormal_costs(dtype, optimised):
    """They differ although XLA flushes them to zero, and a result is not flushed, either."""
    dtype = numpy_dtype(dtype)
    least = np.array(jnp.finfo(dtype).smallest_subnormal, dtype)
    cost = (np.array([[0, 3, 2], [1, 5, 4], [2, 9, 9]]) * least.astype(np.float64)).astype(dtype)
    assert len(np.unique(cost)) == 7
    for c, maximize in ((cost, False), (-cost, True)):
        res = jm.bottleneck_assignment(c, maximize=maximize, lexicographic=True)
        wide = c.astype(np.float64)
        assert_proved(wide, res, maximize=maximize)
        assert abs(res.bottleneck) == 4 * least.astype(res.bottleneck.dtype)
        np.testing.assert_array_equal(own_costs(wide, res, maximize), brute_force(wide, maximize))
        check = jm.check_bottleneck(c, res, maximize=maximize)
        assert check.optimal
        off = res.replace(bottleneck=res.bottleneck * np.float32(0.75).astype(res.bottleneck.dtype))
        assert not jm.check_bottleneck(c, off, maximize=maximize).valid


def test_zeros_are_equal():
    zero = np.float32(0)
    cost = np.array([[-zero, 1], [1, zero]], np.float32)
    for c in (cost, -cost, cost[::-1]):
        res = jm.bottleneck_assignment(c, lexicographic=True)
        assert jm.check_bottleneck(c, res).optimal
    res = jm.bottleneck_assignment(np.array([[-zero, -zero], [zero, zero]]))
    assert res.bottleneck == 0 and not np.signbit(res.bottleneck)
    assert jm.check_bottleneck(np.full((2, 2), -zero), res).optimal


def test_magnitudes():
    most, tiny = np.finfo(np.float32).max, np.finfo(np.float32).tiny
    cost = np.array([[most, -most, tiny], [tiny, 1, -tiny], [-tiny, most, -most]], np.float32)
    res = jm.bottleneck_assignment(cost, lexicographic=True)
    np.testing.assert_array_equal(own_costs(cost, res), brute_force(cost))
    res = jm.bottleneck_assignment(cost, maximize=True)
    assert res.bottleneck == brute_force(cost, True)[0]


def test_float64_on_a_tpu():
    """It is a sum of two floats there: its keys are in order, and lead back."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=200) * 2.0 ** rng.integers(-40, 40, 200)
    x = np.unique(np.concatenate([x, [0.0, -1.0, 1.0], np.inf * np.array([-1, 1])]))
    x = x.astype(np.float32).astype(np.float64) * (1 + 2.0**-40)  # fits two floats
    with x64(True):
        key = np.asarray(keys._of_two_floats(jnp.asarray(x)))
        assert (np.diff(key) > 0).all()
        np.testing.assert_array_equal(keys._to_two_floats(jnp.asarray(key)), x)
        solve = jax.jit(lambda c: jm.check_bottleneck(c, jm.bottleneck_assignment(c)))
        text = solve.trace(jnp.ones((3, 3))).lower(lowering_platforms=("tpu",)).as_text()
    assert "bitcast_convert" in text and not re.search(r"bitcast_convert.*f64", text)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("lexicographic", [False, True])
def test_status(lexicographic):
    good = [[INF, 1, 2], [1, INF, 3]]
    failing = {
        jm.Status.INVALID_COST: [[[NAN, 1, 2], [1, 2, 3]], [[-INF, 1, 2], [1, 2, 3]]],
        jm.Status.INFEASIBLE: [[[INF, INF, 2], [INF, INF, 1]], [[INF, INF, INF], [1, 2, 3]]],
    }
    for status, costs in failing.items():
        cost = np.array([good, *costs], np.float32)
        for c, maximize in ((cost, False), (-cost, True)):
            res = jm.bottleneck_assignment(c, maximize=maximize, lexicographic=lexicographic)
            assert_proved(c[0], problem(res, 0), maximize=maximize)
            for k in (1, 2):
                assert_failed(problem(res, k), status)
                check = jm.check_bottleneck(c[k], problem(res, k), maximize=maximize)
                assert not check.valid and not check.optimal
    everywhere = np.full((3, 3), INF, np.float32)
    assert_failed(jm.bottleneck_assignment(everywhere), jm.Status.INFEASIBLE)


# ---------------------------------------------------------------------------------------------
# Masks, shapes, batches


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    "maximize, lexicographic", [(False, True), (True, True), (True, False), (False, False)]
)
def test_masks(maximize, lexicographic):
    rng = np.random.default_rng(6)
    cost = np.stack([family("few values", k, 6, 7) + family("points", k, 6, 7) for k in range(12)])
    row_mask, col_mask = rng.random((12, 6)) < 0.6, rng.random((12, 7)) < 0.7
    row_mask[0] = False
    col_mask[1] = False
    row_mask[2] = True
    cost[~(row_mask[:, :, None] & col_mask[:, None, :])] = NAN
    masks = {"row_mask": row_mask, "col_mask": col_mask}
    options = {"maximize": maximize, "lexicographic": lexicographic}
    res = to_numpy(jm.bottleneck_assignment(cost, **options, **masks))
    for k, c in enumerate(cost):
        one, given = problem(res, k), {name: x[k] for name, x in masks.items()}
        assert_proved(c, one, maximize=maximize, **given)
        best = brute_force(c[row_mask[k]][:, col_mask[k]], maximize)
        if lexicographic:
            np.testing.assert_array_equal(own_costs(c, one, maximize), best)
    check = jm.check_bottleneck(cost, res, maximize=maximize, **masks)
    assert np.asarray(check.optimal).all()
    # The same as without what does not exist.
    k, given = 4, {name: x[4] for name, x in masks.items()}
    kept = cost[k][given["row_mask"]][:, given["col_mask"]]
    assert jm.bottleneck_assignment(kept, **options).bottleneck == res.bottleneck[k]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (4, 0), (2, 0, 3), (0, 2, 3), (3, 0, 2, 2)])
def test_empty(shape):
    cost = jnp.zeros(shape)
    for maximize in (False, True):
        options = {"maximize": maximize, "lexicographic": not maximize}
        res = jax.jit(partial(jm.bottleneck_assignment, **options))(cost)
        assert res.col4row.shape == shape[:-1]
        assert res.row4col.shape == (*shape[:-2], shape[-1])
        np.testing.assert_array_equal(res.status, jm.Status.OPTIMAL)
        np.testing.assert_array_equal(res.bottleneck, INF if maximize else -INF)
        check = jm.check_bottleneck(cost, res, maximize=maximize)
        assert np.asarray(check.optimal).all()
    grad = jax.grad(lambda c: jm.bottleneck_assignment(c).bottleneck.sum())(cost)
    assert grad.shape == shape


@pytest.mark.usefixtures("platform")
def test_batches():
    """Each problem as if it were alone, whatever it is beside; nested batches; `vmap`."""
    cost = np.stack([family(name, k, 8, 10) for k, name in enumerate(
        ["uniform", "points", "sparse", "few values", "constant", "powers"])])  # fmt: skip
    cost[4, 1, 1] = NAN
    solve = partial(jm.bottleneck_assignment, lexicographic=True)
    whole = solve(jnp.asarray(cost))
    for k, c in enumerate(cost):
        assert_same_bits(problem(whole, k), solve(jnp.asarray(c)))
    assert_same_bits(jax.vmap(solve)(jnp.asarray(cost)), whole)
    nested = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), whole)
    assert_same_bits(solve(jnp.asarray(cost.reshape(2, 3, 8, 10))), nested)
    assert_same_bits(jax.vmap(jax.vmap(solve))(jnp.asarray(cost.reshape(2, 3, 8, 10))), nested)
    mask = np.arange(10) < 9
    masked = jax.vmap(lambda c, m: solve(c, col_mask=m), (0, None))(jnp.asarray(cost), mask)
    assert_same_bits(masked, solve(jnp.asarray(cost), col_mask=mask))


# ---------------------------------------------------------------------------------------------
# Gradients


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("maximize", [False, True])
def test_gradient(maximize):
    cost = jnp.asarray(np.stack([family("points", k, 5, 6) for k in range(3)]))
    options = {"maximize": maximize, "lexicographic": True}
    weight = jnp.array([1.0, 2.0, -3.0])

    def value(cost):
        return jm.bottleneck_assignment(cost, **options).bottleneck

    res, grad = value(cost), np.asarray(jax.grad(lambda c: (weight * value(c)).sum())(cost))
    for k in range(3):
        assert (grad[k] != 0).sum() == 1 and grad[k][grad[k] != 0] == weight[k]
        assert cost[k][grad[k] != 0] == res[k]
    moved = cost + 1e-3 * grad
    np.testing.assert_allclose(value(moved) - res, 1e-3 * weight, atol=1e-5)
    tangent = jnp.asarray(np.random.default_rng(8).random(cost.shape, np.float32))
    out = jax.jvp(value, (cost,), (tangent,))[1]
    np.testing.assert_allclose(out * weight, (grad * tangent).sum((1, 2)), 1e-6)
    second = jax.grad(lambda c: (jax.grad(lambda c: value(c).sum())(c) ** 2).sum())(cost)
    np.testing.assert_array_equal(second, 0)


@pytest.mark.usefixtures("platform")
def test_gradient_at_ties_and_failures():
    """The first row whose pair has the bottleneck; zero where there is none."""
    cost = np.array([[[1, 7], [7, 1]], [[4, 4], [4, 4]], [[3, 4], [9, 4]]], np.float32)
    grad = jax.grad(lambda c: jm.bottleneck_assignment(c).bottleneck.sum())(cost)
    res = jm.bottleneck_assignment(cost)
    for k, row in ((0, 0), (1, 0), (2, 1)):
        expected = np.zeros((2, 2))
        expected[row, res.col4row[k, row]] = 1
        np.testing.assert_array_equal(grad[k], expected)
    for bad in ([[NAN, 1], [1, 2]], [[INF, INF], [1, 2]]):
        bad = jnp.array(bad)
        grad = jax.vjp(lambda c: jm.bottleneck_assignment(c).bottleneck, bad)[1](jnp.float32(1))[0]
        np.testing.assert_array_equal(grad, 0)
    grad = jax.grad(lambda c: jm.bottleneck_assignment(c.astype(jnp.bfloat16)).bottleneck)(cost[0])
    assert grad.sum() == 1


# ---------------------------------------------------------------------------------------------
# Arguments


def test_arguments():
    cost = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match=r"`cost` must have shape \[..., n, m\]"):
        jm.bottleneck_assignment(cost[0])
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.bottleneck_assignment(cost, method="bisection")
    with pytest.raises(TypeError, match="`cost` must"):
        jm.bottleneck_assignment(cost.astype(complex))
    with pytest.raises(ValueError, match="`row_mask` has shape"):
        jm.bottleneck_assignment(cost, row_mask=np.ones(4, bool))
    with pytest.raises(TypeError, match="`result` must be a BottleneckAssignment"):
        jm.check_bottleneck(cost, jm.solve_assignment(cost))
    res = jm.bottleneck_assignment(cost)
    with pytest.raises(ValueError, match="`result.bottleneck` must have shape"):
        jm.check_bottleneck(cost, res.replace(bottleneck=jnp.zeros(2)))
    with pytest.raises(TypeError, match="`result.row_cover` must be boolean"):
        jm.check_bottleneck(cost, res.replace(row_cover=res.col4row))
