"""Costs that a network predicts, learned from solutions: three ways."""

# --8<-- [start:data]
import jax, jax.numpy as jnp, optax
import jaxmatch as jm

key = jax.random.split(jax.random.key(0), 3)
features = jax.random.normal(key[0], (256, 8, 8, 5))  # 256 problems of 8 x 8 pairs
true_cost = features @ jnp.array([1.0, -2.0, 0.5, 0.0, 1.0])
true_cost += 0.3 * jax.random.normal(key[1], true_cost.shape)
oracle = jm.estimators.assignment_oracle()
target = oracle.solve(true_cost).y  # the solutions, as matrices of zeros and ones
# --8<-- [end:data]


# --8<-- [start:losses]
def predict(weights):
    return features @ weights


def fenchel_young(weights, key):  # needs solutions
    rule = jm.estimators.Perturbed(1.0, num_samples=4)
    return jm.losses.fenchel_young_loss(oracle, predict(weights), target, estimator=rule, key=key)


def spo_plus(weights, key):  # needs true costs
    return jm.losses.spo_plus_loss(oracle, predict(weights), true_cost)


def hamming(weights, key):  # any function of the solution, with a rule for its derivative
    rule = jm.estimators.Identity()
    y = jm.assignment_matrix(predict(weights), estimator=rule, key=key)
    return (y * (1 - target) + (1 - y) * target).sum((-2, -1))


# --8<-- [end:losses]
# --8<-- [start:train]
def train(loss_of):
    weights = 0.1 * jax.random.normal(key[2], (5,))
    adam = optax.adam(0.1)

    def step(carry, step_key):
        weights, state = carry

        def mean(weights):
            loss = loss_of(weights, step_key)
            return getattr(loss, "loss", loss).mean()

        updates, state = adam.update(jax.grad(mean)(weights), state)
        return (optax.apply_updates(weights, updates), state), None

    keys = jax.random.split(jax.random.key(1), 60)
    return jax.lax.scan(step, (weights, adam.init(weights)), keys)[0][0]


def regret(weights):  # in parts of the optimum, over the set
    res = jm.losses.regret(oracle, predict(weights), true_cost)
    return res.regret.sum() / jnp.abs(res.optimum).sum()


found = {
    f.__name__: float(regret(jax.jit(train, static_argnums=0)(f)))
    for f in (fenchel_young, spo_plus, hamming)
}
# --8<-- [end:train]
assert found["fenchel_young"] < 0.02 and found["spo_plus"] < 0.02, found
assert found["hamming"] < 0.3, found

# --8<-- [start:value]
# If a loss is a function of the optimum alone, no rule is needed: its gradient is exact.
jax.grad(lambda weights: jm.solve_assignment(predict(weights)).cost.mean())(jnp.ones(5))
# --8<-- [end:value]


# --8<-- [start:own]
def shortest_row(cost):  # a solver of your own, for one problem: the row of least sum
    return jax.nn.one_hot(cost.sum(-1).argmin(), cost.shape[0])[:, None] * jnp.ones(cost.shape)


own = jm.estimators.oracle_of(jax.vmap(shortest_row), core_dims=2)
rule = jm.estimators.ImplicitMLE(1.0, num_samples=4, central=True)


def loss(cost):
    return (rule.solution(own, cost, key=jax.random.key(2)) * true_cost[:2]).sum()


slope = jax.grad(loss)(true_cost[:2])
# --8<-- [end:own]
assert slope.shape == (2, 8, 8)
