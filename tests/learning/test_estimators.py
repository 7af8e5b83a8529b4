"""Gradient rules against their formulas, by enumeration of all solutions of small problems."""

import dataclasses
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_helpers import (
    best,
    double_centered,
    matrices,
    numpy_noise,
    partial_matrices,
    slope,
)
from helpers import x64
from jax.sharding import Mesh, PartitionSpec

import jaxmatch as jm
from jaxmatch.estimators import (
    AdaptiveImplicitMLE,
    Blackbox,
    Identity,
    ImplicitMLE,
    LinearOracle,
    Perturbed,
    assignment_oracle,
    cut_oracle,
    labelling_oracle,
    oracle_of,
)
from jaxmatch.estimators._noise import NOISES
from jaxmatch.estimators._sum_of_gamma import sum_of_gamma


pytestmark = pytest.mark.usefixtures("platform")


KEY = jax.random.key(7)
SHAPES = [(3, 3), (2, 4), (4, 2), (1, 3), (4, 4)]
LINEAR = [
    Identity(),
    Identity("none"),
    Identity("mean"),
    Identity("norm"),
    Identity("std"),
    Perturbed(0.5, 16),
    Perturbed(0.5, 16, control_variate="solution"),
    Perturbed(0.5, 16, "gumbel", "none"),
    Perturbed(0.5, 16, symmetric=True),
]
CURVED = [
    Blackbox(3.0),
    Blackbox(3.0, central=True),
    ImplicitMLE(2.0, 0.5, 4),
    ImplicitMLE(2.0, 0.5, 3, "gumbel", central=True),
    AdaptiveImplicitMLE(num_samples=4),
]
WITH_STRENGTH = [rule for rule in LINEAR + CURVED if hasattr(rule, "strength")]
DTYPES = ["bfloat16", "float16", "float64", "int32"]
EMPTY = [(0, 3), (3, 0), (0, 0), (2, 0, 4), (0, 3, 3)]
each_shape = pytest.mark.parametrize("shape", SHAPES)
each_linear = pytest.mark.parametrize("rule", LINEAR, ids=str)
each_rule = pytest.mark.parametrize("rule", LINEAR + CURVED, ids=str)


def in_turn(first, *others, each=1):
    """Each of `first` with `each` of every other list, in turn: no product of all with all."""
    return [
        (x, *(other[(i + 2 * k) % len(other)] for other in others))
        for i, x in enumerate(first)
        for k in range(each)
    ]


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def given(rule, alpha=0.5):
    return {"key": KEY, "state": rule.init(alpha) if hasattr(rule, "init") else None}


def plain(cost, rule, **others):
    return jm.assignment_matrix(cost, estimator=rule, **given(rule), **others)


# A rule is a pytree: one program for each form of it and each shape, with the rule's results and
# gradients. So tests share shapes.
@jax.jit
def solved(cost, d, rule, key, others):
    how = given(rule) | {"key": key} | others
    y, back = jax.vjp(lambda cost: jm.assignment_matrix(cost, estimator=rule, **how), cost)
    return y, back(d.astype(y.dtype))[0]


def matrix(cost, rule, key=KEY, **others):
    return solved(cost, jnp.zeros(jnp.shape(cost)), rule, key, others)[0]


def gradient(cost, d, rule, **others):
    return solved(cost, d, rule, KEY, others)[1]


@jax.jit
def along(rule, cost, d):
    return rule.jvp(assignment_oracle(), cost, d, **given(rule))


# ---------------------------------------------------------------------------------------------
# Formulas


@each_shape
def test_identity(shape):
    cost, d = normal(0, *shape), normal(1, *shape)
    c, e = cost.astype(np.float64), d.astype(np.float64)
    length = np.linalg.norm(c)
    centered = c - c.mean()
    unit, unit_centered = c / length, centered / np.linalg.norm(centered)
    of_norm = (e - unit * (unit * e).sum()) / length
    f = e - e.mean()
    of_std = (f - unit_centered * (unit_centered * f).sum()) / np.linalg.norm(centered)
    expected = {
        "invariant": double_centered(e),
        "none": e,
        "mean": f,
        "norm": of_norm,
        "std": of_std - of_std.mean(),
    }
    for projection, direction in expected.items():
        rule = Identity(projection)
        np.testing.assert_array_equal(matrix(cost, rule), best(matrices(*shape), cost))
        np.testing.assert_allclose(gradient(cost, d, rule), -direction, atol=1e-5)


@each_shape
def test_projection_leaves_out_what_changes_no_solution(shape):
    """Whatever it leaves out may be added to the costs, and nothing else may."""
    cost, d = normal(2, *shape), normal(3, *shape)
    kept = -np.asarray(gradient(cost, d, Identity()), np.float64)
    points = matrices(*shape)
    values = (points * (d - kept)).sum((1, 2))
    np.testing.assert_allclose(values, values[0], atol=1e-5)
    again = gradient(cost, kept.astype(np.float32), Identity())
    np.testing.assert_allclose(again, -kept, atol=1e-5)


@each_shape
@pytest.mark.parametrize("central", [False, True])
def test_blackbox(shape, central):
    for seed in range(20):
        cost, d = normal(seed, *shape), normal(100 + seed, *shape)
        got = gradient(cost, d, Blackbox(1.5, central=central))
        expected = slope(matrices(*shape), cost, d, 1.5, central)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


KINDS = list(itertools.product(NOISES, ["others", "solution", "none"], [False, True]))


@pytest.mark.parametrize("kind, shape", in_turn(KINDS, SHAPES, each=2), ids=str)
def test_perturbed(shape, kind):
    noise, control_variate, symmetric = kind
    sigma, count = 0.7, 12
    rule = Perturbed(sigma, count, noise, control_variate, symmetric)
    cost, d = normal(4, *shape), normal(5, *shape)
    z = np.array([numpy_noise(KEY, s, shape, noise) for s in range(count)])
    points = matrices(*shape)
    y = np.array([best(points, cost + sigma * one) for one in z.astype(np.float64)])
    score = z if noise == "normal" else np.exp(z.astype(np.float64)) - 1
    others = [np.delete(y, s, 0).mean(0) for s in range(count)]
    base = {"others": others, "solution": best(points, cost), "none": 0}[control_variate]
    deviation = y - base
    of_y, of_score = ((x * d).sum((1, 2), keepdims=True) for x in (deviation, score))
    np.testing.assert_allclose(matrix(cost, rule), y.mean(0), atol=1e-6)
    expected = (score * of_y).mean(0) / sigma
    if symmetric:
        expected = (expected + (deviation * of_score).mean(0) / sigma) / 2
    np.testing.assert_allclose(gradient(cost, d, rule), expected, rtol=1e-4, atol=1e-5)
    value = jax.jit(lambda c: rule.value(assignment_oracle(), c, key=KEY))(cost)
    smoothed = ((cost + sigma * z) * y).sum((1, 2)).mean()
    np.testing.assert_allclose(value, smoothed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", ["sum_of_gamma", *NOISES])
@pytest.mark.parametrize("central", [False, True])
def test_implicit_mle(noise, central):
    shape, strength, sigma, count = (3, 4), 2.0, 0.5, 5
    rule = ImplicitMLE(strength, sigma, count, noise, central=central)
    cost, d = normal(6, *shape), normal(7, *shape)
    z = np.array([numpy_noise(KEY, s, shape, noise) for s in range(count)])
    points = matrices(*shape)
    noisy = [cost.astype(np.float64) + sigma * one for one in z]
    np.testing.assert_allclose(
        matrix(cost, rule), np.mean([best(points, c) for c in noisy], 0), atol=1e-6
    )
    expected = np.mean([slope(points, c, d, strength, central) for c in noisy], 0)
    np.testing.assert_allclose(gradient(cost, d, rule), expected, atol=1e-6)


@pytest.mark.parametrize("kappa", [1.0, 5.0, 24.0])
def test_sum_of_gamma(kappa):
    """Its quantiles against many draws, and its reason to be: κ of it add up to Gumbel noise."""
    rng = np.random.default_rng(0)
    size = 200_000
    drawn = (sum(rng.gamma(1 / kappa, kappa / i, size) for i in range(1, 11)) - np.log(10)) / kappa
    u = (np.arange(size) + 0.5) / size
    made = np.asarray(sum_of_gamma(jnp.asarray(u, jnp.float32), kappa))
    at = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])
    deviation = 4 * np.sqrt(at * (1 - at) / size)  # of the share of draws below a quantile
    shares = np.searchsorted(np.sort(drawn), np.quantile(made, at)) / size
    np.testing.assert_array_less(np.abs(shares - at), deviation)
    np.testing.assert_allclose(made.mean(), 0.6264 / kappa, rtol=2e-3)  # H_10 - log 10
    np.testing.assert_allclose(made.var(), 1.549768 / kappa, rtol=1e-2)  # sum of 1/i^2


def test_adaptive_step_and_state():
    rule = AdaptiveImplicitMLE(num_samples=3, noise="normal", noise_strength=0.5)
    cost, d = normal(8, 2, 3, 3), normal(9, 2, 3, 3)
    state = rule.init(0.5)
    y = partial(jm.assignment_matrix, estimator=rule, key=KEY)
    got = jax.grad(lambda c: (y(c, state=state) * d).sum())(cost)
    points = matrices(3, 3)
    z = np.array([numpy_noise(KEY, s, cost.shape, "normal") for s in range(3)])
    for k in range(2):
        strength = 0.5 * np.linalg.norm(cost[k]) / np.linalg.norm(d[k])
        noisy = [cost[k].astype(np.float64) + 0.5 * one[k] for one in z]
        expected = np.mean([slope(points, c, d[k], strength, False) for c in noisy], 0)
        np.testing.assert_allclose(got[k], expected, rtol=1e-5, atol=1e-6)
    after = rule.update(state, got)
    density = 0.9 * 1 + 0.1 * np.count_nonzero(got) / 2
    np.testing.assert_allclose(after.density, density, rtol=1e-6)
    np.testing.assert_allclose(after.alpha, 0.5 + (1e-3 if density < 1 else -1e-3), rtol=1e-6)
    none = jax.grad(lambda c: (y(c, state=rule.init()) * d).sum())(cost)
    np.testing.assert_array_equal(none, 0)

    def step(state, _):
        g = jax.grad(lambda c: (y(c, state=state) * d).sum())(cost)
        return rule.update(state, g), state.alpha

    final, alphas = jax.jit(lambda s: jax.lax.scan(step, s, length=30))(rule.init())
    assert final.alpha > 0 and (np.diff(alphas) != 0).all()


def test_gumbel_choice_is_a_softmax():
    choose = oracle_of(lambda c: jax.nn.one_hot(c.argmin(-1), c.shape[-1]), 1)
    cost, rule = jnp.array([0.3, 1.0, -0.2, 0.5]), Perturbed(0.7, 200_000, "gumbel")
    soft = lambda c: jax.nn.softmax(-c / 0.7)  # noqa: E731
    np.testing.assert_allclose(rule.solution(choose, cost, key=KEY), soft(cost), atol=5e-3)
    jacobian = jax.jacrev(lambda c: rule.solution(choose, c, key=KEY))(cost)
    np.testing.assert_allclose(jacobian, jax.jacobian(soft)(cost), atol=1e-2)
    # And the smoothed optimum a logarithm of a sum, its second derivative the same Jacobian.
    value = jax.jit(lambda c: rule.value(choose, c, key=KEY))
    exact = -0.7 * (jax.nn.logsumexp(-cost / 0.7) + np.euler_gamma)
    np.testing.assert_allclose(value(cost), exact, atol=1e-2)
    np.testing.assert_allclose(jax.hessian(value)(cost), jacobian, atol=1e-6)


def test_smoothed_value_against_finite_differences():
    cost, direction = normal(10, 2, 3, 4), normal(11, 2, 3, 4)
    with x64(True):
        cost, direction = jnp.asarray(cost, jnp.float64), jnp.asarray(direction, jnp.float64)
        value = jax.jit(lambda c: Perturbed(0.5, 20).value(assignment_oracle(), c, key=KEY))
        for k in range(2):
            dot = (jax.grad(lambda c, k=k: value(c)[k])(cost) * direction).sum()
            step = 1e-7
            change = (value(cost + step * direction) - value(cost - step * direction))[k]
            np.testing.assert_allclose(dot, change / (2 * step), rtol=1e-6)


# ---------------------------------------------------------------------------------------------
# Modes and transformations


@each_linear
def test_forward_is_the_transpose_of_reverse(rule):
    cost, d, e = normal(12, 4, 3, 3), normal(13, 4, 3, 3), normal(14, 4, 3, 3)
    f = lambda c: plain(c, rule)  # noqa: E731
    y, dot = jax.jit(lambda c, d: jax.jvp(f, (c,), (d,)))(cost, d)
    back = jax.jit(lambda c, e: jax.vjp(f, c)[1](e)[0])(cost, e)
    np.testing.assert_allclose((dot * e).sum(), (back * d).sum(), rtol=1e-4, atol=1e-5)
    for got, expected in zip(along(rule, cost, d), (y, dot), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


@each_rule
def test_rule_for_tangents_is_that_for_cotangents(rule):
    """Where the Jacobian is symmetric; the score's estimate of it is so in the mean alone."""
    cost, d = normal(15, 4, 3, 3), normal(16, 4, 3, 3)
    same = np.allclose(gradient(cost, d, rule), along(rule, cost, d)[1], atol=1e-6)
    assert same == (not isinstance(rule, Perturbed) or rule.symmetric)


@each_rule
def test_second_derivatives_are_errors(rule):
    cost, d = normal(17, 3, 3), normal(18, 3, 3)
    with pytest.raises(TypeError, match="no derivative of its own"):
        jax.grad(lambda c: (gradient(c, d, rule) * d).sum())(cost)
    with pytest.raises(TypeError, match="no derivative of its own"):
        jax.jit(jax.grad(lambda c: (jax.jit(partial(gradient, d=d, rule=rule))(c) ** 2).sum()))(
            cost
        )


@each_rule
def test_jit_vmap_scan(rule):
    cost, d = normal(19, 4, 3, 3), normal(20, 4, 3, 3)
    f = partial(gradient, rule=rule)
    alone = np.stack([f(c, e) for c, e in zip(cost, d, strict=True)])
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(cost, d), alone, atol=1e-6)
    scanned = jax.lax.scan(lambda _, x: (None, f(*x)), None, (cost, d))[1]
    np.testing.assert_allclose(scanned, alone, atol=1e-6)
    if not isinstance(rule, (Perturbed, ImplicitMLE)):  # one key draws for the whole batch
        np.testing.assert_allclose(f(cost, d), alone, atol=1e-6)


@each_rule
def test_keys_and_batches(rule):
    """The same key gives the same bits, and what else is in the batch does not matter."""
    cost, d = normal(21, 4, 3, 3), normal(22, 4, 3, 3)
    got = gradient(cost, d, rule)
    np.testing.assert_array_equal(got, gradient(cost, d, rule))
    other = np.stack([cost[0], *normal(23, 3, 3, 3)])
    np.testing.assert_array_equal(got[0], gradient(other, d, rule)[0])
    if rule.needs_key:
        changed = matrix(cost, rule, jax.random.key(8))
        assert not np.array_equal(changed, matrix(cost, rule))


@each_rule
def test_shard_map(rule, platform):
    devices = jax.devices(platform)
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh, spec = Mesh(np.array(devices[:2]), ("batch",)), PartitionSpec("batch")
    cost, d = normal(24, 2, 3, 3), normal(25, 2, 3, 3)
    f = jax.jit(
        jax.shard_map(
            lambda c, e: gradient(c, e, rule), mesh=mesh, in_specs=(spec, spec), out_specs=spec
        )
    )
    each = [gradient(cost[k : k + 1], d[k : k + 1], rule) for k in range(2)]
    np.testing.assert_allclose(f(cost, d), np.concatenate(each), atol=1e-6)


@pytest.mark.parametrize("rule, by_device", in_turn(WITH_STRENGTH, ["key", "strength"]), ids=str)
def test_shard_map_of_the_same_costs(rule, by_device, platform):
    """Other keys, or strengths, on each device: the derivative of the sum is the sum."""
    devices = jax.devices(platform)
    if len(devices) < 2:
        pytest.skip("needs two devices")
    name = "noise_strength" if hasattr(rule, "noise_strength") else "strength"
    if by_device == "key" and not rule.needs_key:
        by_device = "strength"
    mesh, spec = Mesh(np.array(devices[:2]), ("device",)), PartitionSpec("device")
    cost, d = normal(24, 3, 3), normal(25, 3, 3)
    keys = jax.random.split(KEY, 2) if by_device == "key" else jnp.array([KEY, KEY])
    strengths = jnp.array([0.5, 0.9] if by_device == "strength" else [0.5, 0.5])

    def loss(cost, key, strength):
        changed = dataclasses.replace(rule, **{name: strength[0]})
        others = given(rule) | {"key": key[0]}
        return (jm.assignment_matrix(cost, estimator=changed, **others) * d).sum()

    def total(cost, keys, strengths):
        return jax.shard_map(
            lambda *x: jax.lax.psum(loss(*x), "device"),
            mesh=mesh,
            in_specs=(PartitionSpec(), spec, spec),
            out_specs=PartitionSpec(),
        )(cost, keys, strengths)

    got = jax.jit(jax.grad(total))(cost, keys, strengths)
    of_each = jax.jit(jax.grad(loss))
    each = [of_each(cost, keys[k : k + 1], strengths[k : k + 1]) for k in range(2)]
    np.testing.assert_allclose(got, each[0] + each[1], atol=1e-5)


def test_no_gradient_to_strengths_and_none_of_strength_zero():
    cost, d = normal(26, 2, 3, 3), normal(27, 2, 3, 3)
    makers = (Blackbox, Perturbed, ImplicitMLE, lambda s: ImplicitMLE(2.0, s))
    for make in makers:

        def of_gradient(strength, make=make):
            return (gradient(cost, d, make(strength)) ** 2).sum()

        assert jax.grad(of_gradient)(0.7) == 0
    for rule in (Blackbox(0.0), Perturbed(0.0), ImplicitMLE(0.0)):
        np.testing.assert_array_equal(gradient(cost, d, rule), 0)


@pytest.mark.parametrize("rule", [Identity(), Identity("none"), *CURVED[:2]], ids=str)
def test_no_gradient_to_what_is_forbidden(rule):
    cost, d = normal(28, 3, 4).copy(), 3 * normal(30, 3, 4)
    cost[1, 2] = np.inf
    other = d.copy()
    other[1, 2] = 1e3
    got = gradient(cost, d, rule)
    assert got[1, 2] == 0 and np.abs(got).max() > 0
    np.testing.assert_array_equal(got, gradient(cost, other, rule))


@pytest.mark.parametrize("samples", [1, 8])
def test_maps_over_keys_and_strengths(samples):
    cost, d = normal(26, 2, 3, 3), normal(27, 2, 3, 3)
    keys, strengths = jax.random.split(KEY, 3), jnp.array([0.3, 0.6, 1.0])

    @jax.jit
    def slope_of(key, strength):
        y = partial(jm.assignment_matrix, estimator=Perturbed(strength, samples), key=key)
        return jax.grad(lambda c: (y(c) * d).sum())(cost)

    together = jax.jit(jax.vmap(slope_of))(keys, strengths)
    for k in range(3):
        np.testing.assert_allclose(together[k], slope_of(keys[k], strengths[k]), atol=1e-5)
    by_problem = slope_of(KEY, strengths[:2])
    for k in range(2):
        np.testing.assert_allclose(by_problem[k], slope_of(KEY, strengths[k])[k], atol=1e-5)


@pytest.mark.parametrize("key", [0, np.zeros(3, np.uint32), jax.random.split(KEY, 2)])
def test_what_is_no_key(key):
    with pytest.raises(ValueError, match="`key` must be one key"):
        jm.assignment_matrix(normal(0, 2, 3, 3), estimator=Perturbed(), key=key)


def test_strengths_are_traced_and_by_problem():
    cost, d = normal(26, 2, 3, 3), normal(27, 2, 3, 3)
    f = jax.jit(lambda c, strength: gradient(c, d, Blackbox(strength)))
    both = f(cost, jnp.array([0.5, 4.0]))
    for k, strength in enumerate((0.5, 4.0)):
        np.testing.assert_allclose(both[k], f(cost, jnp.float32(strength))[k])
        expected = slope(matrices(3, 3), cost[k], d[k], strength, False)
        np.testing.assert_allclose(both[k], expected, rtol=1e-6)
    total = lambda s: (jm.assignment_matrix(cost, estimator=Blackbox(s)) * d).sum()  # noqa: E731
    assert jax.grad(total)(2.0) == 0


# ---------------------------------------------------------------------------------------------
# Masks, failures, dtypes


@each_rule
def test_masks_cut_out_a_problem(rule):
    cost, d = normal(28, 4, 5), normal(29, 4, 5)
    rows, cols = np.array([1, 0, 1, 1], bool), np.array([1, 1, 0, 1, 1], bool)
    dirty = np.where(rows[:, None] & cols, cost, np.nan)
    y = matrix(dirty, rule, row_mask=rows, col_mask=cols)
    g = gradient(dirty, d, rule, row_mask=rows, col_mask=cols)
    outside = ~(rows[:, None] & cols)
    assert np.isfinite(g).all() and (y[outside] == 0).all() and (g[outside] == 0).all()
    np.testing.assert_allclose(y.sum(1), rows)
    if isinstance(rule, (Identity, Blackbox)) and getattr(rule, "projection", "") not in (
        "mean",
        "std",
    ):
        small, e = cost[rows][:, cols], d[rows][:, cols]
        np.testing.assert_array_equal(y[rows][:, cols], matrix(small, rule))
        np.testing.assert_allclose(g[rows][:, cols], gradient(small, e, rule), atol=1e-6)


@each_rule
def test_bad_problems_have_no_gradient(rule):
    cost, d = normal(30, 4, 3, 3), normal(31, 4, 3, 3)
    bad = cost.copy()
    bad[1, 0, 0], bad[2, 1] = np.nan, np.inf
    y, g = matrix(bad, rule), gradient(bad, d, rule)
    assert (y[1:3] == 0).all() and (g[1:3] == 0).all()
    np.testing.assert_array_equal(y[::3], matrix(cost, rule)[::3])
    np.testing.assert_array_equal(g[::3], gradient(cost, d, rule)[::3])


@each_rule
def test_forbidden_pairs(rule):
    """As pairs that cost far too much; their gradient is 0, and that of the loss there ignored."""
    allowed = np.ones((3, 3), bool)
    allowed[0, 0] = allowed[2, 1] = False
    cost, d = normal(32, 3, 3), np.where(allowed, normal(33, 3, 3), 0)
    dear, ahead, same = np.where(allowed, cost, 1e3), np.where(allowed, d, 9), rule
    if rule in (Identity("norm"), Identity("std")):  # of lengths without what is forbidden
        dear = np.where(allowed, cost, 0)
    if isinstance(rule, AdaptiveImplicitMLE):
        step = 0.5 * np.linalg.norm(cost[allowed]) / np.linalg.norm(d)
        ahead, same = d, ImplicitMLE(step, num_samples=rule.num_samples)
    forbidden = np.where(allowed, cost, np.inf)
    y, g = matrix(forbidden, rule), gradient(forbidden, ahead, rule)
    if isinstance(rule, Identity):
        np.testing.assert_array_equal(y, best(matrices(3, 3), forbidden))
    else:
        np.testing.assert_allclose(y, matrix(dear, same), atol=1e-6)
    expected = gradient(dear, d, same)
    np.testing.assert_allclose(g, np.where(allowed, expected, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("central", [False, True])
def test_unmatched_costs_have_gradients(central):
    points = partial_matrices(3, 3)

    @jax.jit
    def slopes(cost, r, d, rule):
        f = lambda c, r: (plain(c, rule, unmatched_cost=r) * d).sum()  # noqa: E731
        return jax.grad(f, (0, 1))(cost, r)

    for seed in range(10):
        cost, r, d = normal(seed, 3, 3), normal(50 + seed, 3) - 0.5, normal(60 + seed, 3, 3)
        rule = Blackbox(1.5, central=central)
        extended, e = np.c_[cost, r], np.c_[d, np.zeros(3)]
        y = best(points, extended)
        np.testing.assert_array_equal(matrix(cost, rule, unmatched_cost=r), y[:, :3])
        expected = slope(points, extended, e, 1.5, central)
        np.testing.assert_allclose(np.c_[tuple(slopes(cost, r, d, rule))], expected, rtol=1e-6)
    got = slopes(cost, r, d, Identity())
    np.testing.assert_allclose(np.c_[got[0], got[1]], e.mean(1, keepdims=True) - e, atol=1e-6)


@pytest.mark.parametrize("rule, dtype", in_turn(LINEAR + CURVED, DTYPES), ids=str)
def test_dtypes(rule, dtype):
    with x64(dtype == "float64"):
        cost = jnp.asarray(np.round(4 * normal(34, 3, 3)), dtype)
        d = jnp.asarray(normal(35, 3, 3))
        if dtype == "int32":
            assert jm.assignment_matrix(cost, estimator=rule, **given(rule)).dtype == jnp.float32
            return
        y = matrix(cost, rule)
        g = gradient(cost, d.astype(dtype), rule)
        assert y.dtype == g.dtype == dtype
        wide = gradient(cost.astype(jnp.float32), d.astype(dtype).astype(jnp.float32), rule)
        np.testing.assert_allclose(g.astype(jnp.float32), wide, rtol=0.02, atol=0.02)


def test_ties_give_no_gradient():
    """A second solve may fall to another optimum; that says nothing about the loss."""
    cost = jnp.zeros((5, 5))
    d = jnp.zeros((5, 5)).at[0, 0].set(-1e-30)
    for rule in (Blackbox(1.0), Blackbox(1.0, central=True)):
        np.testing.assert_array_equal(gradient(cost, 0 * d, rule), 0)


# ---------------------------------------------------------------------------------------------
# Other oracles


def test_a_users_solver_may_refer_to_what_is_differentiated():
    def loss(scale, cost):
        choose = oracle_of(lambda c: jax.nn.one_hot((c * scale).argmin(-1), 3), 1)
        return (Blackbox(2.0).solution(choose, cost) * jnp.array([1.0, 0.0, -1.0])).sum()

    cost = jnp.array([0.5, 1.0, 0.1])
    for transform in (lambda f: f, jax.jit):
        by_scale, by_cost = transform(jax.grad(loss, (0, 1)))(1.5, cost)
        assert by_scale == 0
        np.testing.assert_allclose(by_cost, 0)  # the chosen one is wanted even more
        np.testing.assert_allclose(transform(jax.grad(loss, 1))(1.5, -cost), [0, -0.5, 0.5])


@pytest.mark.parametrize("rule", [Blackbox(3.0), Perturbed(2.0, 8), Identity("none")], ids=str)
def test_cuts(rule):
    senders, receivers = [0, 0, 1, 2, 1], [1, 2, 3, 3, 2]
    network = jm.FlowNetwork.from_edges(senders, receivers, num_nodes=4)
    sides = np.array([[1, a, b, 0] for a in (0, 1) for b in (0, 1)])
    cuts = np.array([[s[u] * (1 - s[v]) for u, v in zip(senders, receivers, strict=True)]
                     for s in sides], np.float64)  # fmt: skip
    oracle = cut_oracle(network, 0, 3)
    for seed in range(10):
        capacity, d = np.abs(normal(seed, 5)) + 0.1, normal(70 + seed, 5)
        f = lambda c, d=d: (rule.solution(oracle, c, key=KEY) * d).sum()  # noqa: E731
        found = oracle.solve(capacity)
        assert found.solved
        np.testing.assert_array_equal(found.y, best(cuts, capacity))
        g = jax.jit(jax.grad(f))(capacity)
        if isinstance(rule, Blackbox):
            moved = best(cuts, np.maximum(capacity + 3.0 * d, 0))
            np.testing.assert_allclose(g, (moved - best(cuts, capacity)) / 3, atol=1e-6)
        elif isinstance(rule, Identity):
            np.testing.assert_allclose(g, -d)
        else:
            assert np.isfinite(g).all()


def test_labellings_of_a_grid():
    pairwise = np.abs(normal(36, 2, 2, 3))
    oracle = labelling_oracle(pairwise)
    labels = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T.reshape(-1, 2, 3)
    right = np.abs(labels[:, :, 1:] - labels[:, :, :-1]) * pairwise[0, :, :-1]
    down = np.abs(labels[:, 1:] - labels[:, :-1]) * pairwise[1, :-1]
    smoothness = right.sum((1, 2)) + down.sum((1, 2))

    def truth(cost):
        return labels[((labels * cost).sum((1, 2)) + smoothness).argmin()]

    for seed in range(20):
        cost, d = 2 * normal(seed, 2, 3), normal(80 + seed, 2, 3)
        np.testing.assert_array_equal(oracle.solve(cost).y, truth(cost))
        g = jax.grad(lambda c, d=d: (Blackbox(2.0).solution(oracle, c) * d).sum())(cost)
        np.testing.assert_allclose(g, (truth(cost + 2.0 * d) - truth(cost)) / 2, atol=1e-6)


# ---------------------------------------------------------------------------------------------
# Arguments


@pytest.mark.parametrize("rule", [Identity(), Blackbox(3.0), Perturbed(0.5, 16)], ids=str)
@pytest.mark.parametrize("unmatched", [None, 0.25])
def test_maximize_is_of_the_negatives(rule, unmatched):
    """The matrix is, and gradients turn round; -inf forbids."""
    score, d = normal(0, 2, 3, 4), normal(1, 2, 3, 4)
    score[0, 1, 2] = -np.inf
    other = None if unmatched is None else -unmatched

    def solve(cost, maximize, unmatched):
        how = {"maximize": maximize, "unmatched_cost": unmatched}
        return jm.assignment_matrix(cost, estimator=rule, **given(rule), **how)

    @partial(jax.jit, static_argnums=1)
    def both(cost, maximize, unmatched):
        y, back = jax.vjp(lambda c: solve(c, maximize, unmatched), cost)
        return y, back(d)[0]

    y, slope = both(score, True, unmatched)
    expected, of_negatives = both(-score, False, other)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(slope, -of_negatives)
    assert np.abs(slope).sum() > 0
    best = jm.solve_assignment(score, maximize=True, unmatched_cost=unmatched)
    if not rule.needs_key:
        np.testing.assert_array_equal(y.argmax(-1)[y.sum(-1) > 0], best.col4row[best.col4row >= 0])


def test_arguments_are_checked():
    cost = np.eye(3, dtype=np.float32)
    with pytest.raises(TypeError, match="`estimator` must be one of"):
        jm.assignment_matrix(cost, estimator="blackbox")  # pyright: ignore
    with pytest.raises(ValueError, match="Perturbed draws noise: pass `key`"):
        jm.assignment_matrix(cost, estimator=Perturbed())
    with pytest.raises(ValueError, match=r"needs `state`: begin with `estimator.init\(\)`"):
        jm.assignment_matrix(cost, estimator=AdaptiveImplicitMLE(), key=KEY)
    for make in (lambda: Identity("both"), lambda: Perturbed(noise="cauchy"),  # pyright: ignore
                 lambda: ImplicitMLE(noise="cauchy")):  # fmt: skip  # pyright: ignore
        with pytest.raises(ValueError, match="must be one of"):
            make()
    with pytest.raises(ValueError, match="at least 1"):
        Perturbed(num_samples=0)
    with pytest.raises(TypeError, match="`oracle` must be a LinearOracle"):
        Blackbox().solution(lambda c: c, cost)  # pyright: ignore
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        Blackbox().solution(assignment_oracle(), cost[0])
    with pytest.raises(ValueError, match="must return the minimiser in the shape"):
        Blackbox().solution(oracle_of(lambda c: c.sum(-1), 1), cost)
    with pytest.raises(ValueError, match="needs an oracle that knows"):
        jax.grad(lambda c: Identity().solution(oracle_of(lambda c: c, 1), c).sum())(cost)
    assert isinstance(assignment_oracle(), LinearOracle)


@pytest.mark.parametrize("rule, shape", in_turn(LINEAR + CURVED, EMPTY), ids=str)
def test_nothing(shape, rule):
    cost = jnp.zeros(shape)
    assert [x.shape for x in solved(cost, cost, rule, KEY, {})] == [shape, shape]


def test_cut_oracle_of_stacked_networks():
    """Each network's own edges: as one after the other."""
    edges = [([0, 0, 1], [1, 2, 2]), ([0, 1, 2], [2, 2, 1]), ([0, 0], [2, 1])]
    networks = [jm.FlowNetwork.from_edges(*pair, num_nodes=3) for pair in edges]
    stacked = jm.FlowNetwork.stack(networks)
    cost = jnp.asarray(np.random.default_rng(0).random((3, 3)), jnp.float32)
    found = jm.estimators.cut_oracle(stacked, 0, 2).solve(cost)
    assert found.y.shape == (3, 3)
    for k, network in enumerate(networks):
        alone = jm.estimators.cut_oracle(network, 0, 2).solve(cost[k, : network.num_edges])
        np.testing.assert_array_equal(found.y[k, : network.num_edges], alone.y)


NETWORK = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], num_nodes=3)
EACH = {
    "number": lambda x: Perturbed(float(x)),
    "scalar": lambda x: Perturbed(jnp.float32(x)),
    "strengths": lambda x: Blackbox(jnp.full(3, x, jnp.float32)),
    "of NumPy": lambda x: ImplicitMLE(np.full(3, x)),
    "assignments": lambda x: assignment_oracle(row_mask=np.arange(3) < x),
    "cuts": lambda x: cut_oracle(NETWORK, 0, jnp.full(2, x)),
    "labellings": lambda x: labelling_oracle(jnp.full((2, 3, 3), x)),
}


@pytest.mark.parametrize("make", EACH.values(), ids=EACH)
def test_equality_is_by_value(make):
    one, same, other = make(1), make(1), make(2)
    assert (one == same) is True and hash(one) == hash(same) and {one: 0}[same] == 0
    assert (one == other) is False and (one != other) is True
    assert (one == 1) is False and (one == jax.tree.map(lambda x: x, one)) is True


def test_equality_of_other_fields_and_of_tracers():
    strengths, same = jnp.ones(3), jnp.ones(3)
    assert Blackbox(strengths) != Blackbox(strengths[:2]) != Blackbox(1.0)
    assert Blackbox(strengths) != Blackbox(strengths, central=True)
    assert Blackbox(1.0) != Perturbed(1.0)

    @jax.jit
    def compare(x):
        rule = Blackbox(x)
        assert rule == Blackbox(x) and rule != Blackbox(x + 0) and rule != Blackbox(strengths)
        assert hash(rule) == hash(Blackbox(x)) and Blackbox(strengths) == Blackbox(same)
        return x

    compare(strengths)
