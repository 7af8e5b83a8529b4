"""A detector's head in flax, trained with DETR's loss."""

# --8<-- [start:model]
import jax, jax.numpy as jnp, optax
import jaxmatch as jm
from flax import nnx


class Head(nnx.Module):
    """Class logits and boxes of each query."""

    def __init__(self, features: int, classes: int, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(features, 64, rngs=rngs)
        self.logits = nnx.Linear(64, classes + 1, rngs=rngs)  # the last class is "no object"
        self.boxes = nnx.Linear(64, 4, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.hidden(x))
        return self.logits(x), nnx.sigmoid(self.boxes(x))  # boxes as cx, cy, w, h in [0, 1]


# --8<-- [end:model]
# --8<-- [start:step]
criterion = jm.losses.DetectionCriterion()  # DETR's weights


@nnx.jit
def train_step(head, optimizer, features, targets):
    def loss_of(head):
        loss = criterion(*head(features), **targets)
        return loss.total, loss

    (_, loss), grads = nnx.value_and_grad(loss_of, has_aux=True)(head)
    optimizer.update(head, grads)
    return loss


# --8<-- [end:step]
# --8<-- [start:train]
images, queries, objects, classes = 8, 12, 5, 3
keys = jax.random.split(jax.random.key(0), 3)
features = jax.random.normal(keys[0], (images, queries, 32))  # of a backbone and a decoder
targets = {
    "labels": jax.random.randint(keys[1], (images, objects), 0, classes),
    "target_boxes": jax.random.uniform(keys[2], (images, objects, 4), minval=0.2, maxval=0.6),
    "target_mask": jnp.arange(objects) < jnp.arange(images)[:, None] % objects + 1,  # 1 to 5
}
head = Head(32, classes, nnx.Rngs(0))
optimizer = nnx.Optimizer(head, optax.adam(1e-2), wrt=nnx.Param)
losses = [train_step(head, optimizer, features, targets) for _ in range(60)]

losses[-1].total, losses[-1].giou  # the number that is minimised, and one of its parts
losses[-1].num_unsolved  # images that were left out, say for NaN in their targets
losses[-1].matching.row4col  # i32[images, objects], the query of each object
# --8<-- [end:train]
assert losses[-1].total < 0.5 * losses[0].total and losses[-1].num_unsolved == 0
