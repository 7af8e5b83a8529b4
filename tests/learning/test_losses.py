"""The losses against numpy written another way: loops, scipy, and a formula per line."""

import itertools
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from jaxmatch import losses
from jaxmatch._common.promotion import same_rank


LAYERS, IMAGES, QUERIES, TARGETS, CLASSES = 3, 4, 7, 4, 5
COUNTS = [4, 0, 2, 3]  # targets per image; the rest is padding
PARTS = ("classification", "l1", "giou")


# ---------------------------------------------------------------------------------------------
# Boxes

# Two xyxy boxes, their IoU and generalised IoU, worked out by hand.
BOX_CASES = {
    "equal": ([0, 0, 2, 1], [0, 0, 2, 1], 1.0, 1.0),
    "half": ([0, 0, 2, 1], [1, 0, 3, 1], 1 / 3, 1 / 3),
    "corner": ([0, 0, 2, 2], [1, 1, 3, 3], 1 / 7, 1 / 7 - 2 / 9),
    "inside": ([0, 0, 4, 4], [1, 1, 2, 3], 1 / 8, 1 / 8),
    "apart": ([0, 0, 1, 1], [3, 0, 4, 1], 0.0, -1 / 2),
    "diagonal": ([0, 0, 1, 1], [2, 2, 3, 3], 0.0, -7 / 9),
    "touching": ([0, 0, 1, 1], [1, 0, 2, 1], 0.0, 0.0),
    "point inside": ([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5], 0.0, 0.0),
    "point outside": ([0, 0, 1, 1], [2, 0, 2, 0], 0.0, -1 / 2),
    "two lines": ([0, 0, 1, 0], [0, 0, 1, 0], 0.0, 0.0),
    "one point twice": ([1, 1, 1, 1], [1, 1, 1, 1], 0.0, 0.0),
    "two points": ([0, 0, 0, 0], [1, 1, 1, 1], 0.0, -1.0),
    "corners swapped": ([2, 0, 1, 1], [0, 0, 1, 1], 0.0, 0.0),
}


@pytest.mark.parametrize(("a", "b", "iou", "giou"), BOX_CASES.values(), ids=BOX_CASES)
def test_iou_by_hand(a, b, iou, giou):
    a, b = jnp.array(a, jnp.float32), jnp.array(b, jnp.float32)
    for x, y in ((a, b), (b, a)):
        np.testing.assert_allclose(losses.elementwise_box_iou(x, y), iou, atol=1e-6)
        np.testing.assert_allclose(losses.elementwise_generalized_box_iou(x, y), giou, atol=1e-6)


def test_gradients_of_degenerate_boxes_are_finite():
    a, b = (jnp.array([case[i] for case in BOX_CASES.values()], jnp.float32) for i in (0, 1))
    for function in (losses.elementwise_box_iou, losses.elementwise_generalized_box_iou):
        grads = jax.grad(lambda a, b, f=function: f(a, b).sum(), argnums=(0, 1))(a, b)
        assert all(np.isfinite(g).all() for g in grads)


def test_box_conversions():
    rng = np.random.default_rng(0)
    boxes = rng.uniform(0.1, 1, (2, 3, 4)).astype(np.float32)
    corners = losses.box_cxcywh_to_xyxy(boxes)
    cx, cy, w, h = np.moveaxis(boxes, -1, 0)
    np.testing.assert_allclose(
        corners, np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1), rtol=1e-6
    )
    np.testing.assert_allclose(losses.box_xyxy_to_cxcywh(corners), boxes, rtol=1e-5)
    np.testing.assert_allclose(losses.box_area(corners), w * h, rtol=1e-5)


def test_pairwise_iou_is_a_loop_over_pairs():
    rng = np.random.default_rng(1)
    a, b = (random_boxes(rng, (2, k)) for k in (5, 3))
    iou = losses.box_iou(*(losses.box_cxcywh_to_xyxy(x) for x in (a, b)))
    giou = losses.generalized_box_iou(*(losses.box_cxcywh_to_xyxy(x) for x in (a, b)))
    for k, i, j in np.ndindex(2, 5, 3):
        expected = iou_and_giou(a[k, i], b[k, j])
        np.testing.assert_allclose((iou[k, i, j], giou[k, i, j]), expected, atol=1e-6)


# ---------------------------------------------------------------------------------------------
# The generic loss


def test_gather_matched():
    values = {"a": np.arange(6).reshape(2, 3), "b": np.arange(24.0).reshape(2, 3, 4)}
    index = jnp.array([[2, -1], [0, 1]])
    picked = losses.gather_matched(values, index)
    assert picked["a"].tolist() == [[2, 0], [3, 4]]
    np.testing.assert_array_equal(picked["b"][0, 1], 0)
    np.testing.assert_array_equal(picked["b"][1, 1], values["b"][1, 1])
    assert losses.gather_matched(np.zeros((2, 0, 5)), index).shape == (2, 2, 5)
    assert losses.gather_matched(np.array([True, False]), jnp.array([-1, 0])).tolist() == [
        False,
        True,
    ]
    grad = jax.grad(lambda x: losses.gather_matched(x, jnp.array([2, -1, 2])).sum())(jnp.zeros(3))
    assert grad.tolist() == [0, 0, 2]
    with pytest.raises(ValueError, match="leading axes"):
        losses.gather_matched(np.zeros(3), index)


def test_hungarian_matching_has_no_gradient():
    cost = jnp.array([[1.0, 2.0], [3.0, 5.0], [9.0, 9.0]])
    grad = jax.grad(lambda c: losses.hungarian_matching(c, unmatched_cost=c[:, 0]).cost)(cost)
    assert not grad.any()


def l1_cost(outputs, targets):
    o, t = same_rank(outputs["x"][..., :, None, :], targets["x"][..., None, :, :])
    return jnp.abs(o - t).sum(-1)


def square_loss(outputs, targets):
    o, t = same_rank(outputs["x"], targets["x"])
    return ((o - t) ** 2).sum(-1)


def presence_loss(outputs):
    return outputs["x"][..., 0] ** 2 + 1


GENERIC = {"matching_cost": l1_cost, "pair_loss": square_loss, "unmatched_loss": presence_loss}
generic_loss = jax.jit(partial(losses.hungarian_loss, **GENERIC))


def generic_problem(seed, n=5, m=4, batch=(6,)):
    rng = np.random.default_rng(seed)
    outputs = {"x": rng.normal(size=(*batch, n, 2)).astype(np.float32)}
    targets = {"x": rng.normal(size=(*batch, m, 2)).astype(np.float32)}
    return outputs, targets, rng.random((*batch, m)) < 0.7, rng.random((*batch, n)) < 0.8


def generic_reference(x, y, target_mask, output_mask):
    """One problem: the loss and the number of pairs."""
    rows, cols = np.flatnonzero(output_mask), np.flatnonzero(target_mask)
    cost = np.array([[np.abs(x[i] - y[j]).sum() for j in cols] for i in rows])
    pairs = list(zip(*linear_sum_assignment(cost.reshape(len(rows), len(cols))), strict=True))
    total = sum(((x[rows[i]] - y[cols[j]]) ** 2).sum() for i, j in pairs)
    alone = set(range(len(rows))) - {i for i, _ in pairs}
    return total + sum(x[rows[i], 0] ** 2 + 1 for i in alone), len(pairs)


@pytest.mark.parametrize(("n", "m"), [(5, 4), (3, 6)])
def test_hungarian_loss_is_a_loop_over_scipy(n, m):
    outputs, targets, target_mask, output_mask = generic_problem(2, n, m)
    got = generic_loss(outputs, targets, target_mask=target_mask, output_mask=output_mask)
    expected = [
        generic_reference(*problem)
        for problem in zip(outputs["x"], targets["x"], target_mask, output_mask, strict=True)
    ]
    np.testing.assert_allclose(got.loss, [loss for loss, _ in expected], rtol=1e-5)
    assert got.num_matched.tolist() == [pairs for _, pairs in expected]
    assert got.used.all() and got.num_unsolved == 0


def test_hungarian_loss_defaults_and_vmap():
    outputs, targets, *_ = generic_problem(3)
    loss = partial(losses.hungarian_loss, matching_cost=l1_cost, pair_loss=square_loss)
    batched = jax.jit(loss)(outputs, targets)
    mapped = jax.jit(jax.vmap(loss))(outputs, targets)
    np.testing.assert_allclose(batched.loss, mapped.loss, rtol=1e-6)
    single = loss({"x": outputs["x"][1]}, {"x": targets["x"][1]})
    np.testing.assert_allclose(single.loss, batched.loss[1], rtol=1e-6)
    assert mapped.num_matched.tolist() == [4] * 6


def test_layers_share_targets():
    outputs, targets, mask, _ = generic_problem(4, batch=(3, 2))
    targets, mask = {"x": targets["x"][0]}, mask[0]
    got = generic_loss(outputs, targets, target_mask=mask)
    for layer in range(3):
        one = generic_loss({"x": outputs["x"][layer]}, targets, target_mask=mask)
        np.testing.assert_allclose(got.loss[layer], one.loss, rtol=1e-6)


def test_gradient_where_cost_is_loss_is_that_of_the_optimum():
    outputs, targets, mask, _ = generic_problem(5)

    def cost(outputs, targets):
        difference = outputs["x"][..., :, None, :] - targets["x"][..., None, :, :]
        return (difference**2).sum(-1)

    def ours(outputs):
        return losses.hungarian_loss(
            outputs, targets, matching_cost=cost, pair_loss=square_loss, target_mask=mask
        ).loss.sum()

    def optimum(outputs):
        return jm.solve_assignment(cost(outputs, targets), col_mask=mask).cost.sum()

    np.testing.assert_allclose(ours(outputs), optimum(outputs), rtol=1e-5)
    got, expected = (jax.jit(jax.grad(f))(outputs) for f in (ours, optimum))
    np.testing.assert_allclose(got["x"], expected["x"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", ["output", "target", "minus infinity", "forbidden", "no targets"])
def test_a_failed_problem_leaves_the_others_alone(bad):
    outputs, targets, mask, _ = generic_problem(6)
    mask[:, 0] = True
    extra = np.zeros((6, 5, 4), np.float32)
    if bad == "output":
        outputs["x"][2, 1, 0] = np.nan
    elif bad == "target":
        targets["x"][2, 0, 1] = np.nan
    elif bad == "no targets":  # a sound cost, but an unmatched NaN
        mask[2] = False
        outputs["x"][2, 1, 0] = np.nan
    else:
        extra[2, :, 0] = -np.inf if bad == "minus infinity" else np.inf

    def loss(outputs, keep):
        def cost(outputs, targets):
            return l1_cost(outputs, targets) + jnp.asarray(extra)[keep]

        kwargs = GENERIC | {"matching_cost": cost, "target_mask": jnp.asarray(mask)[keep]}
        result = losses.hungarian_loss(
            {"x": outputs["x"][keep]}, {"x": jnp.asarray(targets["x"])[keep]}, **kwargs
        )
        return (result.loss * 3).sum(), result

    outputs["x"] = jnp.asarray(outputs["x"])
    grad_of = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (value, result), grad = grad_of(outputs, np.arange(6))
    others = np.array([0, 1, 3, 4, 5])
    (expected, _), expected_grad = grad_of(outputs, others)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(grad["x"], expected_grad["x"], rtol=1e-6)
    assert result.used.tolist() == [k != 2 for k in range(6)]
    assert result.num_unsolved == 1 and result.loss[2] == 0 and not grad["x"][2].any()


def test_padding_may_hold_anything():
    outputs, targets, mask, output_mask = generic_problem(7)
    masks = {"target_mask": mask, "output_mask": output_mask}
    clean = generic_loss(outputs, targets, **masks)
    targets["x"][~mask] = np.nan
    outputs["x"][~output_mask] = np.inf
    outputs["x"][~output_mask, 0] = np.nan

    value, grad = jax.value_and_grad(lambda o: generic_loss(o, targets, **masks).loss.sum())(
        outputs
    )
    np.testing.assert_allclose(value, clean.loss.sum(), rtol=1e-6)
    assert np.isfinite(grad["x"]).all() and not grad["x"][~output_mask].any()


def test_outputs_must_have_the_batch_of_the_matching():
    outputs, targets, *_ = generic_problem(8)
    with pytest.raises(ValueError, match="leading axes"):
        losses.hungarian_loss({"x": outputs["x"][0]}, targets, **GENERIC)


# ---------------------------------------------------------------------------------------------
# Detection: the reference, one image at a time


def random_boxes(rng, shape):
    centre, size = rng.uniform(0.2, 0.8, (*shape, 2)), rng.uniform(0.05, 0.4, (*shape, 2))
    return np.concatenate([centre, size], -1).astype(np.float32)


def iou_and_giou(a, b):
    """Of two cxcywh boxes, axis by axis."""
    inter, hull = 1.0, 1.0
    for axis in (0, 1):
        ends = [(x[axis] - x[axis + 2] / 2, x[axis] + x[axis + 2] / 2) for x in (a, b)]
        inter *= max(0.0, min(e for _, e in ends) - max(s for s, _ in ends))
        hull *= max(e for _, e in ends) - min(s for s, _ in ends)
    union = a[2] * a[3] + b[2] * b[3] - inter
    return inter / union, inter / union - (hull - union) / hull


def focal(probability, positive, alpha=0.25, gamma=2.0):
    right = probability if positive else 1 - probability
    return -(alpha if positive else 1 - alpha) * (1 - right) ** gamma * np.log(right)


def reference(kind, logits, boxes, labels, target_boxes, mask, no_object=0.1, weights=(1, 5, 2)):
    """One layer: the three parts, computed in float64 with loops."""
    logits = np.asarray(logits, np.float64)
    if kind == "focal":
        prob = 1 / (1 + np.exp(-logits))
    else:
        prob = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    class_sum = weight_sum = l1 = giou = 0.0
    for b in range(len(labels)):
        real = np.flatnonzero(mask[b])
        cost = np.zeros((boxes.shape[1], len(real)))
        for i, (k, j) in itertools.product(range(boxes.shape[1]), enumerate(real)):
            p = prob[b, i, labels[b, j]]
            by_class = focal(p, True) - focal(p, False) if kind == "focal" else -p
            distance = np.abs(boxes[b, i] - target_boxes[b, j]).sum()
            overlap = iou_and_giou(boxes[b, i], target_boxes[b, j])[1]
            cost[i, k] = weights[0] * by_class + weights[1] * distance - weights[2] * overlap
        target_of = {i: real[k] for i, k in zip(*linear_sum_assignment(cost), strict=True)}
        for i in range(boxes.shape[1]):
            j = target_of.get(i)
            if kind == "focal":
                for c in range(logits.shape[-1]):
                    class_sum += focal(prob[b, i, c], j is not None and labels[b, j] == c)
            else:
                weight = no_object if j is None else 1.0
                c = logits.shape[-1] - 1 if j is None else labels[b, j]
                class_sum -= weight * np.log(prob[b, i, c])
                weight_sum += weight
            if j is not None:
                l1 += np.abs(boxes[b, i] - target_boxes[b, j]).sum()
                giou += 1 - iou_and_giou(boxes[b, i], target_boxes[b, j])[1]
    count = max(mask.sum(), 1)
    return class_sum / (count if kind == "focal" else weight_sum), l1 / count, giou / count


def detection_problem(kind, seed=0, layers=(LAYERS,), queries=QUERIES, counts=COUNTS):
    rng = np.random.default_rng(seed)
    images = len(counts)
    classes = CLASSES + (kind == "cross_entropy")
    logits = 2 * rng.normal(size=(*layers, images, queries, classes)).astype(np.float32)
    labels = rng.integers(0, CLASSES, (images, TARGETS)).astype(np.int32)
    mask = np.array([rng.permutation(np.arange(TARGETS) < k) for k in counts])
    boxes = random_boxes(rng, (*layers, images, queries))
    return logits, boxes, labels, random_boxes(rng, (images, TARGETS)), mask


KINDS = ("cross_entropy", "focal")


@cache
def criterion(kind):
    return jax.jit(losses.DetectionCriterion(classification=kind), static_argnames="method")


@cache
def criterion_grad(kind):
    """Value and gradient with respect to logits and boxes."""
    return jax.jit(jax.value_and_grad(lambda *args: criterion(kind)(*args).total, argnums=(0, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_detection_parts_are_those_of_a_loop_over_images_and_layers(kind):
    problem = logits, boxes, *targets = detection_problem(kind)
    weighted = losses.DetectionCriterion(
        classification=kind, cost_class=1.5, loss_class=0.5, no_object_weight=0.3
    )
    got = jax.jit(weighted)(*problem)
    total = 0.0
    for layer in range(LAYERS):
        expected = reference(
            kind, logits[layer], boxes[layer], *targets, no_object=0.3, weights=(1.5, 5, 2)
        )
        for name, value in zip(PARTS, expected, strict=True):
            np.testing.assert_allclose(getattr(got, name)[layer], value, rtol=2e-5, err_msg=name)
        total += np.dot((0.5, 5, 2), expected)
    np.testing.assert_allclose(got.total, total, rtol=2e-5)
    assert got.num_targets.tolist() == [sum(COUNTS)] * LAYERS and got.num_unsolved == 0


@pytest.mark.parametrize("kind", KINDS)
def test_more_targets_than_queries(kind):
    logits, boxes, *targets = detection_problem(kind, layers=(), queries=3)
    got = criterion(kind)(logits, boxes, *targets)
    for name, value in zip(PARTS, reference(kind, logits, boxes, *targets), strict=True):
        np.testing.assert_allclose(getattr(got, name), value, rtol=2e-5, err_msg=name)


def test_all_layers_are_one_call(monkeypatch):
    shapes = []

    def spy(cost, **kwargs):
        shapes.append(cost.shape)
        return jm.solve_assignment(cost, **kwargs)

    monkeypatch.setattr("jaxmatch.losses.hungarian.solve_assignment", spy)
    jax.eval_shape(losses.DetectionCriterion(classification="focal"), *detection_problem("focal"))
    assert shapes == [(LAYERS, IMAGES, QUERIES, TARGETS)]


def test_a_matching_from_elsewhere_and_a_divisor_from_elsewhere():
    problem = detection_problem("focal")
    cost = losses.DetectionCriterion(classification="focal").matching_cost
    matching = losses.hungarian_matching(jax.jit(cost)(*problem[:-1]), problem[-1])
    usual = criterion("focal")(*problem)
    np.testing.assert_array_equal(matching.row4col, usual.matching.row4col)
    given = criterion("focal")(*problem, matching=matching, num_targets=2 * sum(COUNTS))
    for name in PARTS:
        np.testing.assert_allclose(getattr(given, name), getattr(usual, name) / 2, rtol=1e-6)


def test_vmap_over_images_sees_single_images():
    problem = detection_problem("focal", layers=())
    mapped = jax.jit(jax.vmap(criterion("focal")))(*problem)
    for b in (0, 2):
        single = criterion("focal")(*(x[b] for x in problem))
        np.testing.assert_allclose(single.total, mapped.total[b], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_detection_gradients_by_finite_differences(kind):
    with jax.enable_x64(True):
        logits, boxes, *targets = detection_problem(kind, seed=3)
        logits, boxes = jnp.asarray(logits, jnp.float64), jnp.asarray(boxes, jnp.float64)
        grads = criterion_grad(kind)(logits, boxes, *targets)[1]
        rng, eps = np.random.default_rng(4), 1e-6
        for _ in range(5):
            step = [rng.normal(size=x.shape) for x in (logits, boxes)]
            up, down = (
                criterion(kind)(logits + s * step[0], boxes + s * step[1], *targets).total
                for s in (eps, -eps)
            )
            slope = sum((g * s).sum() for g, s in zip(grads, step, strict=True))
            np.testing.assert_allclose(slope, (up - down) / (2 * eps), rtol=1e-5)


@cache
def tiny_model_grad(kind):
    """Parameters that every image shares, and NaN that comes into some images from outside."""

    def loss(params, logits, spoilt_logits, boxes, spoilt_boxes, *targets):
        scale, shift = (params[k][None, None, None] for k in ("scale", "shift"))
        logits = logits * scale + spoilt_logits
        result = criterion(kind)(logits, boxes + shift + spoilt_boxes, *targets)
        return result.total, result

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


BAD_IMAGES = (
    "logit",
    "box",
    "infinite logit",
    "target box",
    "label",
    "negative label",
    "no target",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD_IMAGES)
def test_a_bad_image_leaves_every_parameter_finite(kind, bad):
    image = 1 if bad == "no target" else 2  # image 1 has no targets: its status is OPTIMAL
    logits, boxes, labels, target_boxes, mask = detection_problem(kind, layers=(2,))
    spoilt_logits, spoilt_boxes = np.zeros_like(logits), np.zeros_like(boxes)
    first = np.flatnonzero(mask[2])[0]
    if bad in ("logit", "no target"):
        spoilt_logits[:, image, 1, 2] = np.nan
    elif bad == "infinite logit":
        spoilt_logits[:, image, 1, 2] = np.inf
    elif bad == "box":
        spoilt_boxes[:, image, 3, 1] = np.nan
    elif bad == "target box":
        target_boxes[image, first, 2] = np.nan
    else:
        labels[image, first] = CLASSES if bad == "label" else -1

    params = {"scale": jnp.ones(logits.shape[-1]), "shift": jnp.zeros(4)}
    layered = (logits, spoilt_logits, boxes, spoilt_boxes)
    (value, result), got = tiny_model_grad(kind)(params, *layered, labels, target_boxes, mask)
    others = np.delete(np.arange(IMAGES), image)
    (expected, _), expected_grad = tiny_model_grad(kind)(
        params, *(x[:, others] for x in layered), labels[others], target_boxes[others], mask[others]
    )
    assert result.num_unsolved == 2  # both layers
    assert result.used.shape == result.matching.status.shape and (~result.used).sum() == 2
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), got, expected_grad
    )


@pytest.mark.parametrize("kind", KINDS)
def test_padded_targets_may_hold_anything(kind):
    logits, boxes, labels, target_boxes, mask = detection_problem(kind)
    clean = criterion_grad(kind)(logits, boxes, labels, target_boxes, mask)
    labels[~mask], target_boxes[~mask] = -7, np.nan
    got = criterion_grad(kind)(logits, boxes, labels, target_boxes, mask)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), got, clean)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_detect(kind):
    problem = detection_problem(kind, counts=[0, 0])
    loss = criterion(kind)(*problem)
    assert np.isfinite(loss.total) and not loss.l1.any() and not loss.giou.any()
    assert (loss.classification > 0).all() and loss.num_unsolved == 0
    logits, boxes, labels, target_boxes, mask = problem
    empty = criterion(kind)(logits, boxes, labels[:, :0], target_boxes[:, :0], mask[:, :0])
    np.testing.assert_allclose(empty.total, loss.total, rtol=1e-6)


def test_half_precision_is_computed_in_float32():
    logits, boxes, *targets = detection_problem("focal")
    half = jnp.asarray(logits, jnp.bfloat16), jnp.asarray(boxes, jnp.bfloat16)
    got = criterion("focal")(*half, *targets)
    expected = criterion("focal")(*(x.astype(jnp.float32) for x in half), *targets)
    assert got.total.dtype == jnp.float32
    np.testing.assert_allclose(got.total, expected.total, rtol=1e-6)


def test_extreme_logits_have_finite_loss_and_gradient():
    logits, targets = jnp.array([-200.0, 200.0, 0.0]), jnp.array([True, False, True])
    value, grad = jax.value_and_grad(lambda x: losses.sigmoid_focal_loss(x, targets).sum())(logits)
    np.testing.assert_allclose(value, 0.25 * 200 + 0.75 * 200 + 0.25 * 0.25 * np.log(2), rtol=1e-6)
    assert np.isfinite(grad).all()


def test_misuse_is_a_value_error():
    with pytest.raises(ValueError, match="classification"):
        losses.DetectionCriterion(classification="softmax")
    logits, boxes, *targets = detection_problem("focal", layers=())
    with pytest.raises(ValueError, match="leading axes"):
        losses.DetectionCriterion(classification="focal")(logits[0], boxes[0], *targets)


def test_shapes_that_do_not_fit_are_named():
    labels, target_boxes, mask = (problem := detection_problem("focal", layers=()))[2:]
    good = dict(
        zip(("logits", "boxes", "labels", "target_boxes", "target_mask"), problem, strict=True)
    )
    bad = {
        "boxes": (problem[1][..., :3], r"\[\.\.\., n, 4\]"),
        "target_boxes": (target_boxes[..., :3], r"\[\.\.\., m, 4\]"),
        "target_mask": (mask[:, :-1], r"broadcast to the shape of `labels`"),
        "labels": (labels[:, :-1], r"`target_boxes` must have shape \[\.\.\., m, 4\]"),
    }
    for name, (value, message) in bad.items():
        with pytest.raises(ValueError, match=message) as e:
            losses.DetectionCriterion(classification="focal")(**good | {name: value})
        assert str(value.shape) in str(e.value)
