"""Permutation-invariant losses against all permutations, in NumPy and float64."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64

from jaxmatch import losses
from jaxmatch._common.promotion import same_rank


pytestmark = pytest.mark.usefixtures("platform")


TIME = 32
SHAPES = [(3, 3), (4, 2), (2, 4), (1, 1)]


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def square_cost(outputs, targets):
    o, t = same_rank(outputs[..., :, None, :], targets[..., None, :, :])
    return ((o - t) ** 2).mean(-1)


COSTS = {"si_snr": losses.negative_si_snr, "square": square_cost}
each_cost = pytest.mark.parametrize("name", COSTS)


@partial(jax.jit, static_argnames="name")
def value_and_grad(name, outputs, targets, **masks):
    """The result, and the gradient of the sum of losses."""

    def total(outputs):
        result = losses.permutation_invariant_loss(outputs, targets, pair_cost=COSTS[name], **masks)
        return result.loss.sum(), result

    return jax.grad(total, has_aux=True)(outputs)[::-1]


def si_snr(output, target, zero_mean=True):
    """In dB, as Le Roux et al. write it."""
    o, t = output.astype(np.float64), target.astype(np.float64)
    if zero_mean:
        o, t = o - o.mean(), t - t.mean()
    signal = (o @ t) / (t @ t) * t
    return 10 * np.log10((signal @ signal) / ((o - signal) @ (o - signal)))


def square(output, target):
    return ((output.astype(np.float64) - target) ** 2).mean()


def reference(name, outputs, targets):
    """The least mean over all orders, and the output of each target."""
    pair = square if name == "square" else lambda o, t: -si_snr(o, t)
    cost = np.array([[pair(o, t) for t in targets] for o in outputs])
    n, m = cost.shape
    if n >= m:
        orders = [(p, range(m)) for p in itertools.permutations(range(n), m)]
    else:
        orders = [(range(n), p) for p in itertools.permutations(range(m), n)]
    values = [cost[list(rows), list(cols)].mean() for rows, cols in orders]
    rows, cols = orders[int(np.argmin(values))]
    row4col = np.full(m, -1)
    row4col[list(cols)] = rows
    return min(values), row4col


# ---------------------------------------------------------------------------------------------
# The signal-to-noise ratio


@pytest.mark.parametrize("zero_mean", [True, False])
def test_negative_si_snr(zero_mean):
    outputs, targets = normal(0, 2, 3, TIME) + 0.5, normal(1, 2, 4, TIME) - 0.3
    got = losses.negative_si_snr(outputs, targets, zero_mean=zero_mean)
    assert got.shape == (2, 3, 4)
    for k, i, j in np.ndindex(2, 3, 4):
        expected = -si_snr(outputs[k, i], targets[k, j], zero_mean)
        np.testing.assert_allclose(got[k, i, j], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("decibels", [10, 30, 50, 60])
def test_si_snr_of_good_outputs_is_accurate(decibels):
    target, noise = normal(2, 1, 1000), normal(3, 1, 1000)
    target, noise = target - target.mean(), noise - noise.mean()
    noise -= (noise @ target.T) / (target @ target.T) * target
    noise *= np.linalg.norm(target) / np.linalg.norm(noise) * 10 ** (-decibels / 20)
    got = losses.negative_si_snr(3 * (target + noise), target)
    np.testing.assert_allclose(got, -decibels, atol=0.06)


def test_si_snr_does_not_change_with_scale():
    outputs, targets = normal(4, 3, TIME), normal(5, 3, TIME)
    expected = losses.negative_si_snr(outputs, targets)
    for scale in (1e-12, 1e-3, -2.0, 1e6):
        for got in (
            losses.negative_si_snr(scale * outputs, targets),
            losses.negative_si_snr(outputs, scale * targets),
        ):
            np.testing.assert_allclose(got, expected, atol=1e-3)


silent_gradients = jax.jit(jax.grad(lambda *x: losses.negative_si_snr(*x).sum(), (0, 1)))


def test_silence_has_a_value_and_no_gradient():
    good = normal(6, 2, TIME)
    for outputs, targets in (
        (0 * good, good),
        (good, 0 * good),
        (0 * good, 0 * good),
        (0 * good + 0.5, good),  # constant: silent without its mean
    ):
        np.testing.assert_allclose(losses.negative_si_snr(outputs, targets), 80, rtol=1e-4)
        for g in silent_gradients(outputs, targets):
            np.testing.assert_array_equal(g, 0)
    np.testing.assert_allclose(np.diag(losses.negative_si_snr(good, good)), -80, atol=0.1)


def test_si_snr_gradient_against_finite_differences():
    with x64(True):
        o, t = normal(7, 2, TIME).astype(np.float64), normal(8, 2, TIME).astype(np.float64)
        along, weights = (normal(*x).astype(np.float64) for x in ((9, 2, TIME), (10, 2, 2)))
        f = jax.jit(lambda o: (losses.negative_si_snr(o, t) * weights).sum())
        change = (f(o + 1e-6 * along) - f(o - 1e-6 * along)) / 2e-6
        np.testing.assert_allclose((jax.grad(f)(o) * along).sum(), change, rtol=1e-6)


def test_si_snr_needs_no_array_of_all_pairs(platform):
    if platform != "cpu":
        pytest.skip("measures what XLA plans on CPU")
    outputs, targets = jnp.zeros((16, 8000)), jnp.zeros((16, 8000))
    plan = jax.jit(losses.negative_si_snr).lower(outputs, targets).compile().memory_analysis()
    assert plan is not None and plan.temp_size_in_bytes < 16 * 16 * 8000 * 4 / 2


# ---------------------------------------------------------------------------------------------
# The loss


@each_cost
@pytest.mark.parametrize("shape", SHAPES)
def test_least_of_all_orders(name, shape):
    n, m = shape
    outputs, targets = normal(11, 5, n, TIME), normal(12, 5, m, TIME)
    result, gradient = value_and_grad(name, outputs, targets)
    assert result.used.all() and (result.num_matched == min(n, m)).all()
    along, step = normal(13, 5, n, TIME), 1e-4
    for k in range(5):
        expected, row4col = reference(name, outputs[k], targets[k])
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(result.matching.row4col[k], row4col)
        # The envelope theorem: nearby the order is the same, so the minimum's slope is this one.
        ahead, behind = (
            reference(name, outputs[k].astype(np.float64) + s * along[k], targets[k])[0]
            for s in (step, -step)
        )
        change = (ahead - behind) / (2 * step)
        np.testing.assert_allclose((gradient[k] * along[k]).sum(), change, rtol=1e-3, atol=1e-4)


@each_cost
def test_any_order_of_outputs_has_the_same_loss(name):
    outputs, targets = normal(16, 4, TIME), normal(17, 4, TIME)
    result, gradient = value_and_grad(name, outputs, targets)
    order = np.array([2, 0, 3, 1])
    other, of_other = value_and_grad(name, outputs[order], targets)
    np.testing.assert_allclose(other.loss, result.loss, rtol=1e-5)
    np.testing.assert_allclose(of_other, gradient[order], rtol=1e-4, atol=1e-6)


@each_cost
def test_masks(name):
    outputs, targets = normal(18, 3, 4, TIME), normal(19, 3, 4, TIME)
    target_mask = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], bool)
    output_mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    dirty = np.where(output_mask[..., None], outputs, np.nan)
    padded = np.where(target_mask[..., None], targets, np.nan)
    result, gradient = value_and_grad(
        name, dirty, padded, target_mask=target_mask, output_mask=output_mask
    )
    assert result.used.all() and result.num_matched.tolist() == [4, 2, 0]
    assert result.loss[2] == 0 and np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[~output_mask], 0)
    np.testing.assert_array_equal(gradient[2], 0)
    for k in range(2):
        expected, _ = reference(name, outputs[k][output_mask[k]], targets[k][target_mask[k]])
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-4, atol=1e-4)


@each_cost
def test_bad_problems_are_left_out_and_counted(name):
    outputs, targets = normal(20, 4, 3, TIME), normal(21, 4, 3, TIME)
    expected, of_good = value_and_grad(name, outputs, targets)
    outputs[1, 0, 5], targets[2, 1, 7] = np.nan, np.nan
    result, gradient = value_and_grad(name, outputs, targets)
    assert result.used.tolist() == [True, False, False, True] and result.num_unsolved == 2
    np.testing.assert_array_equal(result.loss[1:3], 0)
    np.testing.assert_array_equal(gradient[1:3], 0)
    np.testing.assert_array_equal(result.loss[::3], expected.loss[::3])
    np.testing.assert_array_equal(gradient[::3], of_good[::3])


@each_cost
def test_batches(name):
    outputs, targets = normal(22, 2, 3, 3, TIME), normal(23, 2, 3, 3, TIME)
    result, gradient = value_and_grad(name, outputs, targets)
    assert result.loss.shape == (2, 3) and result.num_unsolved.shape == ()
    mapped, of_mapped = jax.jit(jax.vmap(partial(value_and_grad, name)))(outputs, targets)
    np.testing.assert_allclose(mapped.loss, result.loss, rtol=1e-5)
    np.testing.assert_allclose(of_mapped, gradient, rtol=1e-4, atol=1e-6)
    for k in ((0, 0), (1, 2)):
        one, of_one = value_and_grad(name, outputs[k], targets[k])
        np.testing.assert_allclose(one.loss, result.loss[k], rtol=1e-5)
        np.testing.assert_allclose(of_one, gradient[k], rtol=1e-4, atol=1e-6)
    shared, _ = value_and_grad(name, outputs, targets[0])  # targets with fewer leading axes
    np.testing.assert_allclose(shared.loss[0], result.loss[0], rtol=1e-5)
    assert shared.loss.shape == (2, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype):
    outputs, targets = (jnp.asarray(normal(s, 2, 3, TIME), dtype) for s in (24, 25))
    result, gradient = value_and_grad("si_snr", outputs, targets)
    expected, of_wide = value_and_grad(
        "si_snr", outputs.astype(jnp.float32), targets.astype(jnp.float32)
    )
    assert result.loss.dtype == jnp.float32 and gradient.dtype == dtype
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-5)
    np.testing.assert_allclose(gradient.astype(jnp.float32), of_wide, rtol=1e-2, atol=1e-3)


def test_many_speakers():
    """Twenty have 2.4e18 orders; which one is right is known."""
    targets = normal(26, 20, TIME)
    order = np.random.default_rng(27).permutation(20)
    outputs = targets[order] + 0.1 * normal(28, 20, TIME)
    result, _ = value_and_grad("si_snr", outputs, targets)
    np.testing.assert_array_equal(result.matching.col4row, order)


def test_arguments_are_checked():
    x = np.zeros((2, TIME), np.float32)
    with pytest.raises(ValueError, match=r"`outputs` must have shape \[..., n, time\]"):
        losses.permutation_invariant_loss(x[0], x, pair_cost=square_cost)
    with pytest.raises(ValueError, match=r"`pair_cost` must return \[..., 2, 2\]"):
        losses.permutation_invariant_loss(x, x, pair_cost=lambda o, t: (o - t).sum(-1))
