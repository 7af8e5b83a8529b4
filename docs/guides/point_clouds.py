"""Clouds of points: a loss, the pairs themselves, and near pairs alone."""

# --8<-- [start:loss]
import jax, jax.numpy as jnp, optax
import jaxmatch as jm

keys = jax.random.split(jax.random.key(0), 2)
target = jax.random.normal(keys[0], (4, 80, 3))  # 4 clouds
target /= jnp.linalg.norm(target, axis=-1, keepdims=True)
mask = jnp.arange(80) < jnp.array([80, 75, 70, 60])[:, None]  # of different sizes
cloud = jax.random.uniform(keys[1], (4, 64, 3))

adam = optax.adam(0.05)


@jax.jit
def step(cloud, state):
    def loss_of(cloud):
        distance = jm.losses.earth_mover_distance(cloud, target, y_mask=mask)  # f32[4], W2 squared
        return jnp.nanmean(distance)  # a cloud without points has none

    loss, grads = jax.value_and_grad(loss_of)(cloud)
    updates, state = adam.update(grads, state)
    return optax.apply_updates(cloud, updates), state, loss


state, losses = adam.init(cloud), []
for _ in range(40):
    cloud, state, loss = step(cloud, state)
    losses.append(float(loss))
# --8<-- [end:loss]
assert losses[-1] < 0.2 * losses[0], losses

# --8<-- [start:pairs]
x = jax.random.uniform(jax.random.key(1), (3000, 2))
y = x + 0.01 * jax.random.normal(jax.random.key(2), x.shape)
res = jm.solve_assignment_points(x, y)  # no array of 3000 x 3000
res.col4row, res.cost
jm.check_assignment_points(x, y, res).gap
# --8<-- [end:pairs]
assert float(jm.check_assignment_points(x, y, res).gap) < 1e-3 * float(res.cost)

# --8<-- [start:radius]
y = jnp.concatenate([y[:2500], jax.random.uniform(jax.random.key(3), (400, 2)) + 2])
res = jm.solve_assignment_points(x, y, radius=0.05, unmatched_cost=0.05**2)
(res.col4row < 0).sum()  # points without a partner within the radius, or of which none is worth it
# --8<-- [end:radius]
assert (res.status == jm.Status.OPTIMAL) and (res.col4row < 0).sum() >= 500

# --8<-- [start:weights]
weight = jax.random.uniform(jax.random.key(4), (4, 64))
jm.losses.earth_mover_distance(cloud, target, x_weight=weight, y_mask=mask)
jm.losses.earth_mover_distance(cloud, target, metric="euclidean")  # W1


def cosine(x, y):  # any function of two clouds to a matrix of costs
    x = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
    y = y / jnp.linalg.norm(y, axis=-1, keepdims=True)
    return 1 - x @ y.mT


jm.losses.earth_mover_distance(cloud, target, metric=cosine)
# --8<-- [end:weights]

# --8<-- [start:line]
samples, others = jax.random.normal(jax.random.key(5), (2, 16, 1000))
jm.losses.wasserstein_1d(samples, others)  # f32[16], by sorting
jm.losses.histogram_distance(jnp.array([1.0, 0, 0, 1]), jnp.array([0.0, 2, 0, 0]))
# --8<-- [end:line]
