"""Model, training step and measures of the flow-matching example."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from _flow_matching_couplings import COUPLINGS
from _flow_matching_data import Task

import jaxmatch as jm


if TYPE_CHECKING:
    from jaxtyping import Array, Float, PRNGKeyArray


class Velocity(eqx.Module):
    """The velocity of a point at time t: a perceptron of the point and t."""

    mlp: eqx.nn.MLP

    def __init__(self, dim: int, width: int, *, key: PRNGKeyArray):
        self.mlp = eqx.nn.MLP(dim + 1, dim, width, depth=3, activation=jax.nn.silu, key=key)

    def __call__(self, x: Float[Array, "n d"], t: Float[Array, " n"]) -> Float[Array, "n d"]:
        return jax.vmap(self.mlp)(jnp.concatenate([x, t[:, None]], -1))


class Step(NamedTuple):
    """What never changes from one step to the next."""

    task: Task
    coupling: str
    batch: int
    optimizer: optax.GradientTransformation


class Seen(NamedTuple):
    loss: Float[Array, " steps"]
    pair_cost: Float[Array, " steps"]  # mean squared distance of the pairs


@eqx.filter_jit(donate="all-except-first")
def train_steps(
    fixed: tuple[Step, PRNGKeyArray], model: Velocity, state: optax.OptState
) -> tuple[Velocity, optax.OptState, Seen]:
    """As many compiled steps as there are keys: points are drawn, coupled, and regressed on.

    No coupling depends on the model, so those of all steps are solved first, as one batch. The keys
    alone say what is drawn, so that models with different couplings see the same points.
    """
    step, keys = fixed
    x, y, t = jax.vmap(partial(_minibatch, step))(keys)
    target = jax.vmap(COUPLINGS[step.coupling])(x, y)
    y = jnp.take_along_axis(y, target[..., None], 1)
    arrays, rest = eqx.partition(model, eqx.is_array)

    def update(carry: tuple[Velocity, optax.OptState], minibatch: tuple[Array, ...]) -> tuple:
        arrays, state = carry
        x, y, t = minibatch
        points, velocity = x + t[:, None] * (y - x), y - x

        def loss_of(arrays: Velocity) -> Float[Array, ""]:
            return ((eqx.combine(arrays, rest)(points, t) - velocity) ** 2).sum(-1).mean()

        loss, grads = jax.value_and_grad(loss_of)(arrays)
        updates, state = step.optimizer.update(grads, state, arrays)
        seen = Seen(loss, (velocity**2).sum(-1).mean())
        return (eqx.apply_updates(arrays, updates), state), seen

    (arrays, state), seen = jax.lax.scan(update, (arrays, state), (x, y, t))
    return eqx.combine(arrays, rest), state, seen


def _minibatch(step: Step, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
    of_source, of_target, of_time = jax.random.split(key, 3)
    x = step.task.source(of_source, step.batch)
    y = step.task.target(of_target, step.batch)
    return x, y, jax.random.uniform(of_time, (step.batch,))


@partial(eqx.filter_jit, donate="none")
def flow(model: Velocity, x: Float[Array, "n d"], steps: int) -> Float[Array, "steps+1 n d"]:
    """The path of each point by Euler steps of equal length from t = 0 to t = 1."""

    def euler(x: Array, t: Array) -> tuple[Array, Array]:
        x = x + model(x, jnp.full(len(x), t)) / steps
        return x, x

    _, path = jax.lax.scan(euler, x, jnp.arange(steps) / steps)
    return jnp.concatenate([x[None], path])


class Straightness(NamedTuple):
    """How far paths are from straight lines of constant speed.

    - `curvature`: the mean over paths and times of |velocity - (end - start)|^2, relative to the
      mean of |end - start|^2 (Liu et al. 2023; Lee et al. 2023). 0: one Euler step is exact.
    - `length_ratio`: the sum of the lengths of all paths, relative to that of the distances from
      their starts to their ends. 1: all paths are straight, at whatever speed.
    """

    curvature: Float[Array, ""]
    length_ratio: Float[Array, ""]


@jax.jit
def straightness(path: Float[Array, "steps+1 n d"]) -> Straightness:
    parts = jnp.diff(path, axis=0)
    whole = path[-1] - path[0]
    off = ((len(parts) * parts - whole) ** 2).sum(-1).mean()
    length = jnp.linalg.norm(parts, axis=-1).sum()
    return Straightness(
        curvature=off / (whole**2).sum(-1).mean(),
        length_ratio=length / jnp.linalg.norm(whole, axis=-1).sum(),
    )


@jax.jit
def wasserstein(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, ""]:
    """The exact W2 distance of two clouds of points."""
    return jnp.sqrt(jm.losses.earth_mover_distance(x, y))
