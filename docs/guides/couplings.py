"""Minibatch couplings of flow matching, inside the jitted step."""

# --8<-- [start:coupling]
import jax, jax.numpy as jnp, optax
import jaxmatch as jm


def couple(x, y):
    """Reorders y so that pairs (x_i, y_i) are an optimal transport plan of the minibatch."""
    cost = ((x[:, None] - y) ** 2).sum(-1)
    return y[jm.solve_assignment(cost).col4row]


# --8<-- [end:coupling]
# --8<-- [start:train]
def velocity(params, x, time):
    hidden = jnp.tanh(jnp.concatenate([x, time], -1) @ params["in"] + params["bias"])
    return hidden @ params["out"]


adam = optax.adam(3e-3)


@jax.jit
def step(params, state, key):
    keys = jax.random.split(key, 3)
    x = jax.random.normal(keys[0], (256, 2))
    angle = jax.random.uniform(keys[1], (256,)) * 2 * jnp.pi
    y = 3 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
    y = couple(x, y)  # the one line that differs from plain flow matching
    time = jax.random.uniform(keys[2], (256, 1))

    def loss_of(params):
        return ((velocity(params, (1 - time) * x + time * y, time) - (y - x)) ** 2).mean()

    loss, grads = jax.value_and_grad(loss_of)(params)
    updates, state = adam.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


keys = jax.random.split(jax.random.key(0), 2)
params = {
    "in": jax.random.normal(keys[0], (3, 64)),
    "bias": jnp.zeros(64),
    "out": 0.1 * jax.random.normal(keys[1], (64, 2)),
}
state, losses = adam.init(params), []
for i in range(300):
    params, state, loss = step(params, state, jax.random.key(i))
    losses.append(float(loss))
# --8<-- [end:train]
assert losses[-1] < 0.5 * losses[0], losses[::50]

# --8<-- [start:batch]
x = jax.random.normal(jax.random.key(1), (16, 256, 2))  # of 16 steps at once
y = jax.random.normal(jax.random.key(2), (16, 256, 2))
y = jax.jit(jax.vmap(couple))(x, y)  # one native call
# --8<-- [end:batch]

# --8<-- [start:weights]
x, y = x[0], y[0, :200]  # 256 and 200 points: the plan is no permutation
weight = jax.nn.softmax(jax.random.normal(jax.random.key(3), (200,)))
plan = jm.solve_transport_points(x, y, jnp.full(256, 1 / 256), weight)
logits = jnp.log(jnp.where(plan.mass > 0, plan.mass, 0))  # at most 256 + 200 - 1 pairs
drawn = jax.random.categorical(jax.random.key(4), logits, shape=(256,))
pairs = x[plan.rows[drawn]], y[plan.cols[drawn]]
# --8<-- [end:weights]
assert plan.status == jm.Status.OPTIMAL and bool((plan.mass[drawn] > 0).all())
