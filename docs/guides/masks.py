"""A loss between sets of anything: the masks and classes of Mask2Former."""

# --8<-- [start:loss]
import jax, jax.numpy as jnp
import jaxmatch as jm


def matching_cost(outputs, targets):  # [..., queries, objects]
    likely = jax.nn.softmax(outputs["logits"])
    return (
        5 * jm.losses.sigmoid_mask_cost(outputs["masks"], targets["masks"])
        + 5 * jm.losses.dice_cost(outputs["masks"], targets["masks"])
        - 2 * jnp.take_along_axis(likely, targets["labels"][..., None, :], axis=-1)
    )


def pair_loss(outputs, targets):  # [..., objects], of the outputs matched to them
    log_likely = jax.nn.log_softmax(outputs["logits"])
    of_class = jnp.take_along_axis(log_likely, targets["labels"][..., None], axis=-1)
    return (
        5 * jm.losses.sigmoid_mask_loss(outputs["masks"], targets["masks"])
        + 5 * jm.losses.dice_loss(outputs["masks"], targets["masks"])
        - 2 * of_class[..., 0]
    )


def unmatched_loss(outputs):  # the last class is "no object", with a tenth of the weight
    return -0.2 * jax.nn.log_softmax(outputs["logits"])[..., -1]


@jax.jit
def set_loss(outputs, targets, target_mask):
    return jm.losses.hungarian_loss(
        outputs,
        targets,
        matching_cost=matching_cost,
        pair_loss=pair_loss,
        unmatched_loss=unmatched_loss,
        target_mask=target_mask,
    )


# --8<-- [end:loss]
# --8<-- [start:use]
images, queries, objects, classes, points = 2, 5, 3, 4, 16
targets = {
    "masks": jax.random.bernoulli(jax.random.key(0), 0.3, (images, objects, points)),
    "labels": jnp.array([[0, 1, 2], [3, 0, 0]]),
}
outputs = {
    "masks": jax.random.normal(jax.random.key(1), (images, queries, points)),
    "logits": jnp.zeros((images, queries, classes + 1)),
}
result = set_loss(outputs, targets, jnp.array([[True, True, True], [True, False, False]]))
loss = result.loss.sum() / result.num_matched.sum()
# --8<-- [end:use]
assert result.num_matched.tolist() == [3, 1] and bool(jnp.isfinite(loss))
