"""The same loss with equinox; auxiliary losses of all decoder layers in one native call."""

# --8<-- [start:model]
import equinox as eqx, jax, optax
import jaxmatch as jm


class Head(eqx.Module):
    logits: eqx.nn.MLP
    boxes: eqx.nn.MLP

    def __init__(self, features: int, classes: int, key):
        keys = jax.random.split(key)
        self.logits = eqx.nn.MLP(features, classes, 64, 1, key=keys[0])  # focal: no extra class
        self.boxes = eqx.nn.MLP(features, 4, 64, 1, key=keys[1])

    def __call__(self, x):
        return self.logits(x), jax.nn.sigmoid(self.boxes(x))


# --8<-- [end:model]
# --8<-- [start:step]
criterion = jm.losses.DetectionCriterion(classification="focal", cost_class=2.0, loss_class=2.0)
adam = optax.adam(1e-2)


@eqx.filter_jit
def train_step(head, state, decoded, targets):
    def loss_of(head):
        logits, boxes = jax.vmap(jax.vmap(jax.vmap(head)))(
            decoded
        )  # [layers, images, queries, ...]
        loss = criterion(logits, boxes, **targets)  # targets [images, objects]: all layers at once
        return loss.total, loss

    (_, loss), grads = eqx.filter_value_and_grad(loss_of, has_aux=True)(head)
    updates, state = adam.update(grads, state)
    return eqx.apply_updates(head, updates), state, loss


# --8<-- [end:step]
# --8<-- [start:train]
layers, images, queries, objects, classes = 3, 4, 10, 4, 5
keys = jax.random.split(jax.random.key(0), 4)
decoded = jax.random.normal(keys[0], (layers, images, queries, 32))
targets = {
    "labels": jax.random.randint(keys[1], (images, objects), 0, classes),
    "target_boxes": jax.random.uniform(keys[2], (images, objects, 4), minval=0.2, maxval=0.6),
}
head = Head(32, classes, keys[3])
state = adam.init(eqx.filter(head, eqx.is_array))
for _ in range(60):
    head, state, loss = train_step(head, state, decoded, targets)

loss.l1  # f32[layers]
loss.matching.row4col  # i32[layers, images, objects]
# --8<-- [end:train]
assert loss.l1.shape == (layers,) and loss.l1.max() < 0.5, loss.l1
