"""Several queries for each target: against a loop over groups or copies, matched by scipy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from jaxmatch import losses
from jaxmatch._common.promotion import same_rank


GROUPS, IMAGES, QUERIES, TARGETS, CLASSES = 3, 2, 5, 4, 6
COUNTS = [4, 2]
CRITERION = losses.DetectionCriterion(classification="focal", cost_class=2.0)


def scenes(seed, *lead):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(*lead, IMAGES, GROUPS * QUERIES, CLASSES)).astype(np.float32)
    boxes = rng.uniform(0.2, 0.8, (*lead, IMAGES, GROUPS * QUERIES, 4)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (IMAGES, TARGETS))
    target_boxes = rng.uniform(0.2, 0.8, (IMAGES, TARGETS, 4)).astype(np.float32)
    return logits, boxes, labels, target_boxes, np.arange(TARGETS) < np.array(COUNTS)[:, None]


@jax.jit
def distances(boxes, target_boxes, target_mask):
    """A set loss that scipy can repeat: L1 distances matched and summed."""
    return losses.hungarian_loss(
        boxes,
        target_boxes,
        matching_cost=lambda o, t: apart(o[..., :, None, :], t[..., None, :, :]),
        pair_loss=apart,
        target_mask=target_mask,
    ).loss


def apart(x, y):
    x, y = same_rank(x, y)
    return jnp.abs(x - y).sum(-1)


def by_scipy(boxes, target_boxes):
    cost = np.abs(boxes[:, None].astype(np.float64) - target_boxes[None]).sum(-1)
    return cost[linear_sum_assignment(cost)].sum()


# ---------------------------------------------------------------------------------------------
# Groups


def test_groups_are_matched_on_their_own():
    _, boxes, _, target_boxes, target_mask = scenes(0)
    split = losses.split_groups(boxes, GROUPS)
    assert split.shape == (GROUPS, IMAGES, QUERIES, 4)
    loss = distances(split, target_boxes, target_mask)
    assert loss.shape == (GROUPS, IMAGES)
    for g, k in np.ndindex(GROUPS, IMAGES):
        queries = boxes[k, g * QUERIES : (g + 1) * QUERIES]
        np.testing.assert_allclose(
            loss[g, k], by_scipy(queries, target_boxes[k, : COUNTS[k]]), rtol=1e-5
        )


@pytest.mark.parametrize("layers", [(), (2,)])
def test_criterion_takes_groups_as_layers(layers):
    logits, boxes, *targets = scenes(1, *layers)
    split = partial(losses.split_groups, num_groups=GROUPS)

    def total(outputs, split=split):
        loss = CRITERION(*split(outputs), *targets)
        return loss.total, loss

    gradient, loss = jax.jit(jax.grad(total, has_aux=True))((logits, boxes))
    assert loss.l1.shape == (GROUPS, *layers) and loss.total.shape == ()
    alone = jax.jit(jax.grad(partial(total, split=lambda x: x), has_aux=True))
    sum_of_totals = 0.0
    for g in range(GROUPS):
        part = (..., slice(g * QUERIES, (g + 1) * QUERIES), slice(None))
        outputs = logits[part], boxes[part]
        of_one, one = alone(outputs)
        np.testing.assert_allclose(loss.l1[g], one.l1, rtol=1e-5)
        np.testing.assert_allclose(loss.classification[g], one.classification, rtol=1e-5)
        for got, expected in zip(gradient, of_one, strict=True):
            np.testing.assert_allclose(got[part], expected, rtol=1e-4, atol=1e-6)
        sum_of_totals += one.total
    np.testing.assert_allclose(loss.total, sum_of_totals, rtol=1e-5)


def test_split_takes_pytrees_and_axes():
    x = jnp.arange(24).reshape(2, 6, 2)
    split = losses.split_groups({"x": x, "label": x[..., 0][..., None]}, 3)
    assert split["x"].shape == (3, 2, 2, 2) and split["label"].shape == (3, 2, 2, 1)
    for g in range(3):
        np.testing.assert_array_equal(split["x"][g], x[:, 2 * g : 2 * g + 2])
    np.testing.assert_array_equal(
        losses.split_groups(x[..., 0], 2, axis=-1), [x[:, :3, 0], x[:, 3:, 0]]
    )
    np.testing.assert_array_equal(losses.split_groups(x, 1)[0], x)
    mapped = jax.vmap(lambda x: losses.split_groups(x, 3))(x)
    np.testing.assert_array_equal(mapped.swapaxes(0, 1), split["x"])


# ---------------------------------------------------------------------------------------------
# One to many


def test_every_target_is_matched_as_often_as_it_is_repeated():
    _, boxes, _, target_boxes, target_mask = scenes(2)
    many, mask = losses.one_to_many((target_boxes, target_mask), 3)
    assert many.shape == (IMAGES, 3 * TARGETS, 4)
    loss = distances(boxes, many, mask)
    for k in range(IMAGES):
        exist = target_boxes[k, : COUNTS[k]]
        np.testing.assert_allclose(
            loss[k], by_scipy(boxes[k], np.concatenate([exist] * 3)), rtol=1e-5
        )


def test_criterion_takes_repeated_targets():
    logits, boxes, *targets = scenes(3)
    many = losses.one_to_many(targets, 2)
    loss = jax.jit(CRITERION)(logits, boxes, *many)
    assert loss.num_targets == 2 * sum(COUNTS)
    for k, count in enumerate(COUNTS):
        col4row = np.asarray(loss.matching.col4row[k])
        partners = np.bincount(col4row[col4row >= 0] % TARGETS, minlength=TARGETS)
        assert partners.tolist() == [2] * count + [0] * (TARGETS - count)
    cost = CRITERION.matching_cost(logits, boxes, *targets[:2])
    for k, count in enumerate(COUNTS):
        one = np.asarray(cost[k, :, :count], np.float64)
        twice = np.concatenate([one, one], 1)
        expected = twice[linear_sum_assignment(twice)].sum()
        np.testing.assert_allclose(loss.matching.cost[k], expected, rtol=1e-5)


def test_repeat_takes_pytrees_and_axes():
    labels, boxes = jnp.array([7, 8]), jnp.arange(8.0).reshape(2, 4)
    many = losses.one_to_many({"labels": labels, "boxes": boxes}, 2, axis=0)
    assert many["labels"].tolist() == [7, 8, 7, 8]
    np.testing.assert_array_equal(many["boxes"], np.concatenate([boxes, boxes]))
    mapped = jax.vmap(lambda x: losses.one_to_many(x, 2, axis=0))(labels[None])
    np.testing.assert_array_equal(mapped, losses.one_to_many(labels[None], 2))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="axis 1 of 7 queries has no 3 equal groups"):
        losses.split_groups(np.zeros((2, 7, 4)), 3)
    with pytest.raises(ValueError, match="equal groups"):
        losses.split_groups(np.zeros((2, 6, 4)), 0)
    with pytest.raises(ValueError, match="has no axis -2"):
        losses.split_groups(np.zeros(6), 3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        losses.one_to_many(np.zeros((2, 3)), 0)
    with pytest.raises(ValueError, match=r"`targets` holds an array of shape \(3,\).*no axis 1"):
        losses.one_to_many(np.zeros(3), 2)
