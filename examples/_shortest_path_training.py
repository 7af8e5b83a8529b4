"""Training of the shortest-path example: the ways to learn, and a whole run as one function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from _shortest_path_problem import NUM_ARCS, NUM_FEATURES, PATHS, Examples, Split
from jax import lax

import jaxmatch as jm
from jaxmatch.estimators import (
    AdaptiveImplicitMLE,
    Blackbox,
    Estimator,
    Identity,
    ImplicitMLE,
    Perturbed,
)


if TYPE_CHECKING:
    from jaxtyping import Array, Float, PRNGKeyArray

BATCH = 32
LEARNING_RATE = 1e-2


# ---------------------------------------------------------------------------------------------
# Ways to learn


class Method(NamedTuple):
    """`loss(predicted, seen, key, state)`, of predicted costs `[batch, arcs]`: `[batch]`.

    The state is that of `adaptive`, where there is one.
    """

    loss: Callable[[Any, Examples, Any, Any], Any]
    adaptive: AdaptiveImplicitMLE | None = None


def two_stage(predicted: Array, seen: Examples, key: Any, state: Any) -> Float[Array, " batch"]:
    """Costs alone; paths come later."""
    return ((predicted - seen.cost) ** 2).mean(-1)


def spo_plus(predicted: Array, seen: Examples, key: Any, state: Any) -> Float[Array, " batch"]:
    return jm.losses.spo_plus_loss(PATHS, predicted, seen.cost, true_solution=seen.path).loss


def slope_of_optimum(
    predicted: Array, seen: Examples, key: Any, state: Any
) -> Float[Array, " batch"]:
    return jm.losses.perturbation_gradient_loss(PATHS, predicted, seen.cost, strength=0.1).loss


def fenchel_young(predicted: Array, seen: Examples, key: Any, state: Any) -> Float[Array, " batch"]:
    noisy = Perturbed(1.0, 3)
    return jm.losses.fenchel_young_loss(PATHS, predicted, seen.path, estimator=noisy, key=key).loss


def by_path(estimator: Estimator) -> Callable[[Any, Examples, Any, Any], Any]:
    """How far the path, or the mean of several, is from the shortest, arc by arc."""

    def loss(predicted: Array, seen: Examples, key: Any, state: Any) -> Float[Array, " batch"]:
        path = estimator.solution(PATHS, predicted, key=key, state=state)
        return absolute(path - seen.path).mean(-1)

    return loss


def by_regret(estimator: Estimator) -> Callable[[Any, Examples, Any, Any], Any]:
    """How much more the path costs than the shortest."""

    def loss(predicted: Array, seen: Examples, key: Any, state: Any) -> Float[Array, " batch"]:
        found = jm.losses.regret(PATHS, predicted, seen.cost, estimator=estimator, key=key)
        return absolute(found.regret)

    return loss


def absolute(x: Array) -> Array:
    """|x|, with derivative 0 where x is 0 but for rounding, whose sign means nothing."""
    return jnp.where(jnp.abs(x) < 1e-5, 0, jnp.abs(x))


# With the losses and strengths of PyEPO's notebook "Training and Testing". PyEPO adds to costs the
# sum-of-Gamma noise that is meant for scores, so that here its strength is negative.
ADAPTIVE = AdaptiveImplicitMLE(noise_strength=-1.0, num_samples=3)
METHODS = {
    "two-stage": Method(two_stage),
    "SPO+": Method(spo_plus),
    "perturbation gradient": Method(slope_of_optimum),
    "perturbed Fenchel-Young": Method(fenchel_young),
    "perturbed": Method(by_path(Perturbed(1.0, 3))),
    "implicit MLE": Method(by_path(ImplicitMLE(10.0, -1.0, num_samples=3))),
    "adaptive implicit MLE": Method(by_path(ADAPTIVE), ADAPTIVE),
    "negative identity": Method(by_regret(Identity("none"))),
    "projected identity": Method(by_regret(Identity())),
    "blackbox": Method(by_regret(Blackbox(20.0))),
}


# ---------------------------------------------------------------------------------------------
# A run


class Linear(NamedTuple):
    weight: Float[Array, "features arcs"]
    bias: Float[Array, " arcs"]

    def __call__(self, features: Float[Array, "n features"]) -> Float[Array, "n arcs"]:
        return features @ self.weight + self.bias


class Run(NamedTuple):
    model: Linear
    regret: Float[Array, " epochs+1"]  # on the test examples: before training, after each epoch


def init(key: PRNGKeyArray) -> Linear:
    """Uniform on ±1/√features, as torch has it: noise and steps are as large against that."""
    weight_key, bias_key = jax.random.split(key)
    bound = NUM_FEATURES**-0.5
    weight = jax.random.uniform(weight_key, (NUM_FEATURES, NUM_ARCS), minval=-bound, maxval=bound)
    return Linear(weight, jax.random.uniform(bias_key, (NUM_ARCS,), minval=-bound, maxval=bound))


def relative_regret(model: Linear, test: Examples) -> Float[Array, ""]:
    """What the paths of predicted costs cost more than the shortest, as a share of these."""
    found = jm.losses.regret(PATHS, model(test.features), test.cost)
    return found.regret.sum() / found.optimum.sum()


@partial(jax.jit, static_argnames=("method", "epochs"))
def train(split: Split, key: PRNGKeyArray, method: Method, epochs: int = 20) -> Run:
    """A whole run in one compiled function: a `scan` over epochs of a `scan` over minibatches.

    Every epoch takes the examples in a new order. The last minibatch is the rest, filled up with
    examples of weight 0.
    """
    optimizer = optax.adam(LEARNING_RATE)
    count = len(split.train.value)
    num_steps = -(-count // BATCH)

    def step(carry: Any, batch: Any) -> tuple[Any, None]:
        model, moments, state = carry
        index, key = batch
        weight = (index < count) / (index < count).sum()
        seen = jax.tree.map(lambda x: x[jnp.minimum(index, count - 1)], split.train)

        def mean_loss(predicted: Array) -> Array:
            return (weight * method.loss(predicted, seen, key, state)).sum()

        predicted, pull_back = jax.vjp(lambda model: model(seen.features), model)
        cost_gradient = jax.grad(mean_loss)(predicted)
        updates, moments = optimizer.update(pull_back(cost_gradient)[0], moments)
        if method.adaptive is not None:
            state = method.adaptive.update(state, cost_gradient, core_dims=1)
        return (optax.apply_updates(model, updates), moments, state), None

    def epoch(carry: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        order_key, noise_key = jax.random.split(key)
        order = jax.random.permutation(order_key, count)
        order = jnp.full(num_steps * BATCH, count).at[:count].set(order)
        batches = order.reshape(num_steps, BATCH), jax.random.split(noise_key, num_steps)
        carry, _ = lax.scan(step, carry, batches)
        return carry, relative_regret(carry[0], split.test)

    init_key, key = jax.random.split(key)
    model = init(init_key)
    state = None if method.adaptive is None else method.adaptive.init(alpha=1.0)
    before = relative_regret(model, split.test)
    start = model, optimizer.init(model), state
    (model, _, _), after = lax.scan(epoch, start, jax.random.split(key, epochs))
    return Run(model, jnp.append(before, after))
