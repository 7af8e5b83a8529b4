"""The entropic rule against NumPy: Sinkhorn iterations, enumeration, finite differences."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_helpers import best, matrices, partial_matrices
from helpers import x64
from jax.sharding import Mesh, PartitionSpec

import jaxmatch as jm
from jaxmatch.estimators import Entropic, assignment_oracle, labelling_oracle, oracle_of


pytest.importorskip("ott")

pytestmark = pytest.mark.usefixtures("platform")
PRECISE = {"max_iterations": 20_000, "threshold": 1e-13}
SHAPES = [(3, 3, False), (2, 4, False), (3, 2, False), (3, 3, True)]
BATCH = 6  # many tests share a shape, and so a program


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@jax.jit
def plan(rule, cost, oracle):
    return rule.solution(oracle, cost)


@jax.jit
def plan_value_gradient(rule, cost, oracle, d):
    y, pull = jax.vjp(lambda c: rule.solution(oracle, c), cost)
    return y, rule.value(oracle, cost), pull(d.astype(y.dtype))[0]


def numpy_plan(cost, strength, may_leave=False):
    """The plan and its value by scaling rows and columns in turn."""
    cost = np.asarray(cost, np.float64)
    if may_leave:
        return partial_plan(cost, strength)
    n, m = cost.shape
    # Dummy agents of cost 0 make it square.
    square = np.zeros((max(n, m), max(n, m)))
    square[:n, :m] = cost
    kernel = np.exp(-square / strength)
    u, v = scalings(kernel, 0, 0)
    y = u[:, None] * kernel * v
    slack = np.concatenate([y[n:].sum(0), y[:, m:].sum(1)])
    return y[:n, :m], (cost_of(cost, y[:n, :m]) + strength * (entropy(y[:n, :m]) + entropy(slack)))


def partial_plan(cost, strength):
    kernel, leave = np.exp(-cost[:, :-1] / strength - 1), np.exp(-cost[:, -1] / strength - 1)
    u, v = scalings(kernel, leave, np.exp(-1))
    y = np.c_[u[:, None] * kernel * v, u * leave]
    return y, cost_of(cost, y) + strength * (entropy(y) + entropy(1 - y[:, :-1].sum(0)))


def scalings(kernel, row_slack, col_slack):
    u, v, error = np.ones(len(kernel)), np.ones(kernel.shape[1]), 1.0
    while error > 1e-9:
        u = 1 / (kernel @ v + row_slack)
        error = np.abs(v * (u @ kernel + col_slack) - 1).max()
        v = 1 / (u @ kernel + col_slack)
    return u, v


def cost_of(cost, y):
    return (np.where(y > 0, cost, 0) * y).sum()


def entropy(y):
    return (y * np.log(np.where(y > 1e-12, y, 1))).sum()


# ---------------------------------------------------------------------------------------------
# What it computes


@pytest.mark.parametrize("n, m, may_leave", SHAPES)
def test_plan_and_value(n, m, may_leave):
    """Of a batch with a strength for each problem."""
    cost = 2 * normal(0, BATCH, n, m + may_leave)
    strength = np.float32([0.3, 0.5, 1.0, 2.0, 5.0, 50.0])
    oracle = assignment_oracle(may_stay_unmatched=may_leave)
    d = normal(1, *cost.shape)
    y, value, _ = plan_value_gradient(Entropic(strength), cost, oracle, d)
    points = partial_matrices(n, m) if may_leave else matrices(n, m)
    for k in range(BATCH):
        expected, smoothed = numpy_plan(cost[k], strength[k], may_leave)
        np.testing.assert_allclose(y[k], expected, atol=3e-5)
        np.testing.assert_allclose(value[k], smoothed, rtol=1e-4, atol=1e-4)
        assert value[k] <= cost_of(cost[k], best(points, cost[k])) + 1e-4


@pytest.mark.parametrize("n, m, may_leave", [SHAPES[0], SHAPES[1], SHAPES[3]])
def test_derivatives(n, m, may_leave):
    """Forward, reverse and second ones against finite differences; the value's is the plan."""
    with x64(True):
        oracle, rule = assignment_oracle(may_stay_unmatched=may_leave), Entropic(0.7, **PRECISE)
        cost, d, e = (normal(s, n, m + may_leave).astype(np.float64) for s in (2, 3, 4))
        f = partial(rule.solution, oracle)
        along = lambda c: jax.jvp(f, (c,), (d,))[1]  # noqa: E731

        @jax.jit
        def every(c):
            second = jax.jvp(along, (c,), (e,))[1]
            back = jax.grad(lambda c: (along(c) * e).sum())(c)
            value, slope = jax.value_and_grad(lambda c: rule.value(oracle, c))(c)
            return f(c), along(c), jax.vjp(f, c)[1](e)[0], second, back, value, slope

        y, tangent, cotangent, second, back, _, slope = every(cost)
        step = 1e-4
        (ahead, behind), (ahead_e, behind_e) = (
            [every(cost + s * x) for s in (step, -step)] for x in (d, e)
        )
        change = lambda k, a, b: (a[k] - b[k]) / (2 * step)  # noqa: E731
        np.testing.assert_allclose(tangent, change(0, ahead, behind), atol=1e-7)
        np.testing.assert_allclose(second, change(1, ahead_e, behind_e), atol=1e-6)
        np.testing.assert_allclose((cotangent * d).sum(), (tangent * e).sum(), rtol=1e-10)
        # <e, dP[d]> has the derivative along d that <e, d²P[d, d]> is; by symmetry also by e.
        np.testing.assert_allclose((back * e).sum(), (second * e).sum(), rtol=1e-8)
        np.testing.assert_array_equal(slope, y)
        np.testing.assert_allclose((y * d).sum(), change(5, ahead, behind), atol=1e-7)


@pytest.mark.parametrize("may_leave", [False, True])
def test_it_comes_to_the_assignment(may_leave):
    oracle = assignment_oracle(may_stay_unmatched=may_leave)
    cost = np.random.default_rng(5).random((2, 12, 12 + may_leave)).astype(np.float32)
    exact = oracle.solve(cost).y
    far = [np.abs(plan(Entropic(s), cost, oracle) - exact).max() for s in (1e-1, 1e-3, 1e-5)]
    assert far[0] > 0.1 and far[2] < 1e-6, far
    # Of costs that differ by much more than the strength, too.
    assert np.abs(plan(Entropic(1e-3), 1e4 * cost, oracle) - exact).max() < 1e-6


def test_fenchel_young_loss():
    points, cost = matrices(3, 3), normal(6, BATCH, 3, 3)
    target = np.stack([best(points, c) for c in normal(7, BATCH, 3, 3)])
    cost[5, 0, 0] = np.nan
    rule, oracle = Entropic(np.float32([0.5] * BATCH)), assignment_oracle()

    @jax.jit
    @partial(jax.grad, has_aux=True)
    def gradient(cost):
        result = jm.losses.fenchel_young_loss(oracle, cost, target, estimator=rule)
        return result.loss.sum(), result

    got, result = gradient(cost)
    y, _, _ = plan_value_gradient(rule, cost, oracle, target)
    assert result.used.tolist() == [True] * 5 + [False] and result.num_unsolved == 1
    np.testing.assert_array_equal(got[:5], target[:5] - y[:5])
    np.testing.assert_array_equal(got[5], 0)
    for k in range(5):
        expected = cost_of(cost[k], target[k]) - numpy_plan(cost[k], 0.5)[1]
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-4, atol=1e-4)
        assert result.loss[k] >= -1e-4


# ---------------------------------------------------------------------------------------------
# Masks, forbidden pairs, failures


def test_masks_cut_out_a_problem():
    rows = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]], bool)
    cols = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0]], bool)  # of 3 by 3, 2 by 2 and 4 by 1
    cost, d = normal(8, 3, 4, 3), normal(9, 3, 4, 3)
    exists = rows[:, :, None] & cols[:, None]
    oracle, rule = assignment_oracle(row_mask=rows, col_mask=cols), Entropic(0.8)
    y, value, gradient = plan_value_gradient(rule, np.where(exists, cost, np.nan), oracle, d)
    assert (y[~exists] == 0).all() and (gradient[~exists] == 0).all()
    assert np.isfinite(gradient).all() and gradient[0].any()
    for k in range(3):
        small = cost[k][rows[k]][:, cols[k]]
        expected, smoothed = numpy_plan(small, 0.8)
        np.testing.assert_allclose(y[k][rows[k]][:, cols[k]], expected, atol=3e-5)
        np.testing.assert_allclose(value[k], smoothed, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n, m, may_leave", [(4, 4, False), (4, 3, False), (3, 3, True)])
def test_forbidden_pairs(n, m, may_leave):
    """What some solution holds is above 0, everything else exactly 0."""
    points = partial_matrices(n, m) if may_leave else matrices(n, m)
    rng = np.random.default_rng(10)
    cost = normal(11, 40, n, m + may_leave)
    cost[rng.random(cost.shape) < 0.45] = np.inf
    oracle, d = assignment_oracle(may_stay_unmatched=may_leave), normal(12, *cost.shape)
    y, value, gradient = plan_value_gradient(Entropic(2.0), cost, oracle, d)
    assert np.isfinite(gradient).all() and (gradient[np.isinf(cost)] == 0).all()
    held = np.array([points[(points <= (c < np.inf)).all((1, 2))].sum(0) for c in cost])
    np.testing.assert_array_equal(np.asarray(y) > 0, held > 0)
    possible = held.any((1, 2))
    np.testing.assert_array_equal(np.isnan(value), ~possible)
    assert possible.any() and not possible.all()
    assert ((held[possible] == 0) & (cost[possible] < np.inf)).any()
    short = np.asarray(y[possible]).sum(-1 if n <= m or may_leave else -2)
    np.testing.assert_allclose(short, 1, atol=1e-4)


def test_forbidden_pairs_cost_much():
    cost = normal(13, BATCH, 3, 3)
    cost[:2, 0, 0] = cost[:2, 2, 1] = 1e3
    # No solution holds what is above the diagonal here, and no entropy changes that.
    cost[2:] = np.where(np.tri(3, k=-1) > 0, 1e3, 1)
    cost[::2][cost[::2] == 1e3] = np.inf
    rule, oracle = Entropic(np.float32([0.5] * BATCH)), assignment_oracle()
    y, _, gradient = plan_value_gradient(rule, cost, oracle, normal(14, *cost.shape))
    for k in range(2):
        expected, _ = numpy_plan(np.minimum(cost[k], 1e3), 0.5)
        np.testing.assert_allclose(y[k], expected, atol=3e-5)
    np.testing.assert_array_equal(y[2:], np.broadcast_to(np.eye(3), (4, 3, 3)))
    np.testing.assert_array_equal(gradient[2:], 0)


def test_bad_problems_have_no_gradient():
    cost, d = normal(14, BATCH, 3, 3), normal(15, BATCH, 3, 3)
    bad, half = cost.copy(), np.float32([0.5] * BATCH)
    bad[1, 0, 0], bad[2, 1], bad[3, 2, 2] = np.nan, np.inf, -np.inf
    strength = np.float32([0.5, 0.5, 0.5, 0.5, 0, np.nan])
    y, value, gradient = plan_value_gradient(Entropic(strength), bad, assignment_oracle(), d)
    good = plan_value_gradient(Entropic(half), cost, assignment_oracle(), d)
    assert (y[1:] == 0).all() and (gradient[1:] == 0).all() and np.isnan(value[1:]).all()
    for got, expected in zip((y, value, gradient), good, strict=True):
        np.testing.assert_array_equal(got[0], expected[0])
    # Nothing is ever below this threshold.
    never = Entropic(half, threshold=-1.0)
    y, value, gradient = plan_value_gradient(never, cost, assignment_oracle(), d)
    assert (y == 0).all() and np.isnan(value).all() and (gradient == 0).all()


def test_what_does_not_converge_counts_as_unsolved():
    hard = np.random.default_rng(16).random((12, 12)).astype(np.float32)
    assert (plan(Entropic(1e-3, 10, 1e-7), hard, assignment_oracle()) == 0).all()


# ---------------------------------------------------------------------------------------------
# Transformations, dtypes


def test_batches_and_transformations():
    cost, d = normal(18, BATCH, 3, 3), normal(19, BATCH, 3, 3)

    def f(cost, d, strength):
        return plan_value_gradient(Entropic(strength), cost, assignment_oracle(), d)

    strength = np.float32([0.5] * BATCH)
    together = f(cost, d, strength)
    each = [f(*x) for x in zip(cost, d, strength, strict=True)]
    alone = jax.tree.map(lambda *x: np.array(x), *each)
    over = lambda _, x: (None, jax.vmap(f)(*x))  # noqa: E731
    parts = [x.reshape(2, 3, *x.shape[1:]) for x in (cost, d, strength)]
    mapped = jax.jit(lambda *x: jax.lax.scan(over, None, x)[1])(*parts)
    mapped = jax.tree.map(lambda x: x.reshape(BATCH, *x.shape[2:]), mapped)
    for got in (together, mapped):
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), got, alone)
    other = np.concatenate([cost[:1], 5 * normal(20, BATCH - 1, 3, 3)])
    np.testing.assert_array_equal(f(other, d, strength)[0][0], together[0][0])


def test_assignment_matrix():
    cost, r, d = normal(21, 3, 4), normal(22, 3), normal(23, 3, 4)
    extended, e = np.c_[cost, r], np.c_[d, np.zeros(3)]
    oracle, rule = assignment_oracle(may_stay_unmatched=True), Entropic(0.5)

    @jax.jit
    def both(cost, r, extended):
        f = lambda c, r: jm.assignment_matrix(c, estimator=rule, unmatched_cost=r)  # noqa: E731
        y, pull = jax.vjp(f, cost, r)
        return y, pull(d), rule.jvp(oracle, extended, e)

    y, (by_cost, by_row), (expected, slope) = both(cost, r, extended)
    np.testing.assert_allclose(y, numpy_plan(extended, 0.5, True)[0][:, :4], atol=3e-5)
    np.testing.assert_array_equal(y, expected[:, :4])
    np.testing.assert_allclose(np.c_[by_cost, by_row], slope, atol=1e-6)  # as it is symmetric
    assert np.abs(by_row).min() > 0


def test_strengths_have_no_gradient():
    cost, d, oracle = normal(24, 3, 3), normal(25, 3, 3), assignment_oracle()
    total = lambda s: (Entropic(s).solution(oracle, cost) * d).sum()  # noqa: E731
    assert jax.jit(jax.grad(total))(0.5) == 0


def test_shard_map(platform):
    devices = jax.devices(platform)
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh, spec = Mesh(np.array(devices[:2]), ("batch",)), PartitionSpec("batch")
    cost, d = normal(26, BATCH, 3, 3), normal(27, BATCH, 3, 3)

    def f(cost, d, strength):
        return plan_value_gradient(Entropic(strength), cost, assignment_oracle(), d)

    given = cost, d, np.float32([0.5] * BATCH)
    shards = jax.shard_map(f, mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec)
    for got, expected in zip(jax.jit(shards)(*given), f(*given), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_dtypes(dtype):
    half, oracle = np.float32([1.0] * BATCH), assignment_oracle()
    with x64(dtype == "float64"):
        cost, d = (jnp.asarray(normal(s, BATCH, 3, 3), "bfloat16").astype(dtype) for s in (28, 29))
        y, value, gradient = plan_value_gradient(Entropic(half), cost, oracle, d)
        assert y.dtype == gradient.dtype == dtype
        assert value.dtype == ("float64" if dtype == "float64" else "float32")
        numbers = jax.eval_shape(plan, Entropic(half), cost.astype(int), oracle)
        assert numbers.dtype == jnp.float32
    wide = (np.asarray(x, np.float32) for x in (cost, d))
    expected = plan_value_gradient(Entropic(half), next(wide), oracle, next(wide))
    np.testing.assert_allclose(value, expected[1], rtol=1e-4)
    for got, of_wide in ((y, expected[0]), (gradient, expected[2])):
        np.testing.assert_allclose(np.asarray(got, np.float32), of_wide, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 3, 0), (0, 3, 3)])
def test_nothing(shape):
    d = np.zeros(shape, np.float32)
    y, value, gradient = plan_value_gradient(Entropic(), d, assignment_oracle(), d)
    assert y.shape == gradient.shape == shape and (value == 0).all()


# ---------------------------------------------------------------------------------------------
# Arguments


def test_arguments_are_checked():
    cost = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Entropic(1.0, 0)
    for oracle in (labelling_oracle(np.ones((2, 3, 3))), oracle_of(lambda c: c, 1)):
        with pytest.raises(ValueError, match="Entropic needs an oracle of assignments"):
            Entropic().solution(oracle, cost)
        with pytest.raises(ValueError, match="Entropic needs an oracle of assignments"):
            Entropic().value(oracle, cost)
    with pytest.raises(TypeError, match="`oracle` must be a LinearOracle"):
        Entropic().value(lambda c: c, cost)  # pyright: ignore


def test_without_ott(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxmatch.estimators._sinkhorn", None)
    monkeypatch.delattr(jm.estimators, "_sinkhorn", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'jaxmatch\[ott\]'"):
        Entropic().solution(assignment_oracle(), np.eye(3))
