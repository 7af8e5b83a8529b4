"""Mask costs and losses against loops over pairs in NumPy and float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, log_expit

from jaxmatch import losses


pytestmark = pytest.mark.usefixtures("platform")


POINTS = 20
PAIRS = {"mask": losses.sigmoid_mask_cost, "dice": losses.dice_cost}
EACH = {"mask": losses.sigmoid_mask_loss, "dice": losses.dice_loss}
each_name = pytest.mark.parametrize("name", PAIRS)


def problem(seed, *lead, n=4, m=3, points=POINTS, scale=3.0):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(*lead, n, points))
    return logits.astype(np.float32), rng.random((*lead, m, points)) < 0.4


def cross_entropy(logits, mask):
    x, t = logits.astype(np.float64), mask.astype(np.float64)
    return -(t * log_expit(x) + (1 - t) * log_expit(-x)).mean()


def dice(logits, mask, smooth=1.0):
    p, t = expit(logits.astype(np.float64)), mask.astype(np.float64)
    return 1 - (2 * (p * t).sum() + smooth) / (p.sum() + t.sum() + smooth)


TRUTH = {"mask": cross_entropy, "dice": dice}


@each_name
def test_all_pairs(name):
    logits, masks = problem(0, 2)
    cost = PAIRS[name](logits, masks)
    assert cost.shape == (2, 4, 3) and cost.dtype == jnp.float32
    for k, i, j in np.ndindex(2, 4, 3):
        np.testing.assert_allclose(cost[k, i, j], TRUTH[name](logits[k, i], masks[k, j]), rtol=1e-5)


@each_name
def test_matched_pairs(name):
    logits, masks = problem(1, 2, n=3)
    loss = EACH[name](logits, masks)
    for k, j in np.ndindex(2, 3):
        np.testing.assert_allclose(loss[k, j], TRUTH[name](logits[k, j], masks[k, j]), rtol=1e-5)


def test_dice_smooth():
    logits, masks = problem(2)
    for smooth in (0.0, 5.0):
        cost = losses.dice_cost(logits, masks, smooth=smooth)
        loss = losses.dice_loss(logits[:3], masks, smooth=smooth)
        for i, j in np.ndindex(4, 3):
            expected = dice(logits[i], masks[j], smooth)
            np.testing.assert_allclose(cost[i, j], expected, rtol=1e-5)
            if i == j:
                np.testing.assert_allclose(loss[j], expected, rtol=1e-5)
    empty = jnp.full((1, POINTS), -1e4)
    assert losses.dice_loss(empty, jnp.zeros((1, POINTS), bool)) == 0


@each_name
@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_large_logits(name, size):
    masks = problem(3)[1]
    sign = np.where(masks[[0, 1, 2, 0]], 1, -1).astype(np.float32)
    sign[3, ::2] *= -1
    logits = sign * np.float32(size)
    cost = PAIRS[name](logits, masks)
    for i, j in np.ndindex(4, 3):
        expected = TRUTH[name](logits[i], masks[j])
        np.testing.assert_allclose(cost[i, j], expected, rtol=1e-5, atol=1e-7)
    gradient = jax.grad(lambda x: EACH[name](x, masks).sum())(logits[:3])
    np.testing.assert_allclose(gradient, 0, atol=1e-7)
    wrong = jax.grad(lambda x: EACH[name](x, masks).sum())(-logits[:3])
    expected = -np.sign(logits[:3]) / POINTS if name == "mask" else 0
    np.testing.assert_allclose(wrong, np.broadcast_to(expected, (3, POINTS)), atol=1e-7)


@each_name
def test_gradients_against_finite_differences(name):
    with x64(True):
        logits, masks = problem(4, n=3)
        logits, along = (x.astype(np.float64) for x in (logits, problem(5, n=3)[0]))
        weights = np.arange(1.0, 10).reshape(3, 3)
        for f in (
            lambda x: (PAIRS[name](x, masks) * weights).sum(),
            lambda x: (EACH[name](x, masks) * weights[0]).sum(),
        ):
            change = (f(logits + 1e-6 * along) - f(logits - 1e-6 * along)) / 2e-6
            got = (jax.grad(f)(logits) * along).sum()
            assert got.dtype == jnp.float64
            np.testing.assert_allclose(got, change, rtol=1e-6)


@each_name
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(name, dtype):
    logits, masks = problem(6)
    logits = jnp.asarray(logits, dtype)
    wide = logits.astype(jnp.float32)
    cost, loss = PAIRS[name](logits, masks), EACH[name](logits[:3], masks)
    assert cost.dtype == loss.dtype == jnp.float32
    np.testing.assert_array_equal(cost, PAIRS[name](wide, masks))
    np.testing.assert_array_equal(loss, EACH[name](wide[:3], masks))
    assert jax.grad(lambda x: PAIRS[name](x, masks).sum())(logits).dtype == dtype


@each_name
def test_masks_may_be_numbers(name):
    logits, masks = problem(7)
    for dtype in (np.int32, np.float32, jnp.bfloat16):
        cost = PAIRS[name](logits, jnp.asarray(masks, dtype))
        np.testing.assert_array_equal(cost, PAIRS[name](logits, masks))
    soft = np.random.default_rng(8).random((3, POINTS)).astype(np.float32)
    cost, loss = PAIRS[name](logits, soft), EACH[name](logits[:3], soft)
    for j in range(3):
        expected = TRUTH[name](logits[j], soft[j])
        np.testing.assert_allclose([cost[j, j], loss[j]], expected, rtol=1e-5)


@each_name
def test_jit_vmap_and_leading_axes(name):
    logits, masks = problem(9, 2, 3)
    cost, loss = PAIRS[name](logits, masks), EACH[name](logits[:, :, :3], masks)
    for k in np.ndindex(2, 3):
        np.testing.assert_allclose(PAIRS[name](logits[k], masks[k]), cost[k], rtol=1e-5)
    mapped = jax.jit(jax.vmap(jax.vmap(PAIRS[name])))(logits, masks)
    np.testing.assert_allclose(mapped, cost, rtol=1e-5)
    mapped = jax.jit(jax.vmap(EACH[name]))(logits[:, :, :3], masks)
    np.testing.assert_allclose(mapped, loss, rtol=1e-5)
    shared = PAIRS[name](logits, masks[0])  # decoder layers share targets
    np.testing.assert_allclose(shared[0], cost[0], rtol=1e-5)


@each_name
def test_padding_touches_nothing_else(name):
    logits, masks = problem(10)
    dirty = np.where(np.arange(3)[:, None] == 1, np.nan, masks).astype(np.float32)
    cost = PAIRS[name](logits, dirty)
    np.testing.assert_array_equal(cost[:, [0, 2]], PAIRS[name](logits, masks)[:, [0, 2]])


@each_name
def test_no_array_of_all_pairs(name):
    logits, masks = jnp.zeros((64, 4096)), jnp.zeros((32, 4096))
    for f in (PAIRS[name], jax.grad(lambda *x: PAIRS[name](*x).sum())):
        jaxpr = str(jax.make_jaxpr(f)(logits, masks))
        assert "64,32]" in jaxpr and "64,32,4096" not in jaxpr and "32,64,4096" not in jaxpr
        assert "dot_general" in jaxpr


def test_nothing():
    for points, n, m in ((0, 2, 3), (4, 0, 3), (4, 2, 0)):
        logits, masks = jnp.zeros((n, points)), jnp.zeros((m, points), bool)
        for cost in PAIRS.values():
            assert cost(logits, masks).shape == (n, m)
            assert np.isfinite(cost(logits, masks)).all()
    for loss in EACH.values():
        assert loss(jnp.zeros((2, 0)), jnp.zeros((2, 0), bool)).tolist() == [0, 0]


def test_arguments_are_checked():
    logits, masks = problem(11)
    for f in (*PAIRS.values(), *EACH.values()):
        with pytest.raises(ValueError, match="the last of the same points"):
            f(logits, masks[:, 1:])
        with pytest.raises(ValueError, match="two dimensions or more"):
            f(logits[0], masks[0])
        with pytest.raises(TypeError, match="`logits` must be floats, got int32"):
            f(np.ones((3, POINTS), np.int32), masks)


# ---------------------------------------------------------------------------------------------
# In a set loss


def matching_cost(outputs, targets):
    likely = jax.nn.softmax(outputs["logits"])
    of_class = jnp.take_along_axis(likely, targets["labels"][..., None, :], axis=-1)
    pairs = [cost(outputs["masks"], targets["masks"]) for cost in PAIRS.values()]
    return 5 * pairs[0] + 5 * pairs[1] - 2 * of_class


def pair_loss(outputs, targets):
    log_likely = jax.nn.log_softmax(outputs["logits"])
    of_class = jnp.take_along_axis(log_likely, targets["labels"][..., None], axis=-1)[..., 0]
    pairs = [loss(outputs["masks"], targets["masks"]) for loss in EACH.values()]
    return 5 * pairs[0] + 5 * pairs[1] - 2 * of_class


def test_set_loss_of_masks():
    """Mask2Former's, with padding that holds NaN and a prediction that is NaN, against scipy."""
    logits, masks = problem(12, 4, n=5, m=3)
    classes = np.random.default_rng(13).normal(size=(4, 5, 6)).astype(np.float32)
    labels, counts = np.random.default_rng(14).integers(0, 5, (4, 3)), [3, 2, 0, 3]
    target_mask = np.arange(3) < np.array(counts)[:, None]
    dirty = np.where(target_mask[..., None], masks, np.nan).astype(np.float32)
    logits[3, 2, 0] = np.nan
    targets = {"masks": dirty, "labels": labels}

    def total(outputs):
        result = losses.hungarian_loss(
            outputs,
            targets,
            matching_cost=matching_cost,
            pair_loss=pair_loss,
            target_mask=target_mask,
        )
        return result.loss.sum(), result

    outputs = {"masks": logits, "logits": classes}
    gradient, result = jax.jit(jax.grad(total, has_aux=True))(outputs)
    assert result.used.tolist() == [True, True, True, False] and result.num_unsolved == 1
    assert result.num_matched.tolist() == [3, 2, 0, 0]
    log_p = classes - np.log(np.exp(classes.astype(np.float64)).sum(-1, keepdims=True))
    for k in range(3):
        cost, loss = np.zeros((2, 5, counts[k]))
        for i, j in np.ndindex(5, counts[k]):
            parts = cross_entropy(logits[k, i], masks[k, j]), dice(logits[k, i], masks[k, j])
            cost[i, j] = 5 * sum(parts) - 2 * np.exp(log_p[k, i, labels[k, j]])
            loss[i, j] = 5 * sum(parts) - 2 * log_p[k, i, labels[k, j]]
        expected = loss[linear_sum_assignment(cost)].sum()
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-5, atol=1e-5)
    for g in gradient.values():
        assert np.isfinite(g).all() and g[0].any() and not g[2].any() and not g[3].any()


def test_layers_and_groups_share_targets():
    logits, masks = problem(15, 3, 2, n=4)
    masks = masks[0]
    call = partial(
        losses.hungarian_loss,
        matching_cost=losses.dice_cost,
        pair_loss=losses.dice_loss,
    )
    result = jax.jit(call)(logits, masks)
    assert result.loss.shape == (3, 2)
    for k in np.ndindex(3, 2):
        cost = np.array([[dice(x, t) for t in masks[k[1]]] for x in logits[k]])
        expected = cost[linear_sum_assignment(cost)].sum()
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-5)
