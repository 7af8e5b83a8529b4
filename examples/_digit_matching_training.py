"""Training on grids of digits through their matchings, several restarts at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from _digit_matching_data import Digits, GridGraph, draw_grids
from _digit_matching_model import Params, digit_values, init
from jax import lax

import jaxmatch as jm
from jaxmatch import estimators


if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

CHUNK = 200  # grids whose matchings are one native call, where they are many

# By k: channels of both convolutions, and grids in a batch (Vlastelica et al., appendix).
PAPER_SETTINGS = {4: (20, 70), 8: (20, 70), 16: (50, 40), 24: (50, 30)}


class Grids(NamedTuple):
    """`cells`: `i32[grids, k, k]`, indices of digits; `matching`: `bool[grids, edges]`, one of the
    perfect matchings of least cost."""

    cells: Int[Array, "grids k k"]
    matching: Bool[Array, "grids edges"]


@partial(jax.jit, static_argnames=("graph", "count"))
def make_grids(key: PRNGKeyArray, labels: Array, graph: GridGraph, count: int) -> Grids:
    cells = draw_grids(key, len(labels), count, graph.k)
    oracle = graph.oracle()

    def solve(cells: Array) -> Array:
        return oracle.solve(graph.edge_cost(labels[cells].astype(jnp.float32))).y > 0

    return Grids(cells, lax.map(solve, cells, batch_size=CHUNK))


# ---------------------------------------------------------------------------------------------
# What is minimised


class Target(NamedTuple):
    """What a loss may know of a grid."""

    matching: Float[Array, "... edges"]
    true_cost: Float[Array, "... edges"]


def hamming(rule: Rule, oracle: Any, cost: Array, target: Target, key: Any, state: Any) -> Array:
    """Edges that are wrong, in expectation where the rule returns a mean of matchings."""
    y, wanted = rule.estimator.solution(oracle, cost, key=key, state=state), target.matching
    return (y * (1 - wanted) + (1 - y) * wanted).sum(-1)


def squared(rule: Rule, oracle: Any, cost: Array, target: Target, key: Any, state: Any) -> Array:
    """The same number for a matching, but its gradient ends where the matching is right: for a rule
    that passes on the gradient as it is."""
    y = rule.estimator.solution(oracle, cost, key=key, state=state)
    return ((y - target.matching) ** 2).sum(-1)


def fenchel_young(
    rule: Rule, oracle: Any, cost: Array, target: Target, key: Any, state: Any
) -> Array:
    options = {"estimator": rule.estimator, "key": key}
    return jm.losses.fenchel_young_loss(oracle, cost, target.matching, **options).loss


def spo_plus(rule: Rule, oracle: Any, cost: Array, target: Target, key: Any, state: Any) -> Array:
    """Is told the true costs, which the other losses do not see."""
    matching, true_cost = target
    return jm.losses.spo_plus_loss(oracle, cost, true_cost, true_solution=matching).loss


class Rule(NamedTuple):
    """How a gradient gets through the solver."""

    estimator: Any
    loss: Callable[..., Array] = hamming


RULES = {
    "blackbox": Rule(estimators.Blackbox(10.0)),
    "blackbox-central": Rule(estimators.Blackbox(10.0, central=True)),
    "identity": Rule(estimators.Identity("none"), squared),
    "identity-invariant": Rule(estimators.Identity(), squared),
    "perturbed": Rule(estimators.Perturbed(0.3, num_samples=10)),
    "imle": Rule(estimators.ImplicitMLE(10.0, 0.1, num_samples=3)),
    "aimle": Rule(
        estimators.AdaptiveImplicitMLE(
            noise_strength=0.1, num_samples=3, update_step=0.01, target=10.0
        )
    ),
    "fenchel-young": Rule(estimators.Perturbed(0.1, num_samples=3), fenchel_young),
    "spo+": Rule(None, spo_plus),
}


# ---------------------------------------------------------------------------------------------
# Training


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of a training run.

    `schedule`: `"steps"`, the rate falls to a tenth after a third of the epochs, and again after
    two thirds; `"cosine"`, to a hundredth, and in fewer epochs to the same end.
    """

    k: int = 4
    channels: int = 20
    batch_size: int = 70
    train_digits: int = 1000
    train_grids: int = 10_000
    epochs: int = 30
    learning_rate: float = 1e-3
    schedule: str = "steps"
    search_dtype: str = "float32"


def paper_settings(k: int, **others: Any) -> Settings:
    """The paper's, or those of the size that is nearest; `others` go before them."""
    channels, batch_size = PAPER_SETTINGS[min(PAPER_SETTINGS, key=lambda size: abs(size - k))]
    settings = Settings(k, channels, batch_size)
    return dataclasses.replace(settings, **others)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Run:
    """Restarts under way, which are the first axis of every leaf."""

    params: Params
    optimizer: Any
    rule: Any
    key: Any


class Trainer:
    """Trains networks on the same grids, each from its own start, in its own order.

    The matchings of all restarts are one batch for the solver.
    """

    def __init__(self, settings: Settings, rule: Rule) -> None:
        self.settings, self.rule = settings, rule
        self.graph = GridGraph(settings.k)
        self.oracle = self.graph.oracle()
        self.steps = settings.train_grids // settings.batch_size  # of an epoch
        if not self.steps:
            raise ValueError(
                f"A batch of {settings.batch_size} grids needs at least as many to train on, got "
                f"{settings.train_grids}."
            )
        rate, length = settings.learning_rate, settings.epochs * self.steps
        schedules = {
            "steps": optax.piecewise_constant_schedule(
                rate, {settings.epochs * part // 3 * self.steps: 0.1 for part in (1, 2)}
            ),
            "cosine": optax.cosine_decay_schedule(rate, length, alpha=0.01),
        }
        self.adam = optax.adam(schedules[settings.schedule])

    def begin(self, seed: int, restarts: Sequence[int] = (0,)) -> Run:
        """By their numbers, so that a restart is the same whichever others run beside it."""
        number = jnp.asarray(restarts, jnp.uint32)
        keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(number)
        keys = jax.vmap(jax.random.split)(keys)
        params = jax.vmap(partial(init, channels=self.settings.channels))(keys[:, 0])
        adaptive = isinstance(self.rule.estimator, estimators.AdaptiveImplicitMLE)
        state = self.rule.estimator.init() if adaptive else None
        state = jax.tree.map(lambda x: jnp.full(len(number), x), state)
        return Run(params, jax.vmap(self.adam.init)(params), state, keys[:, 1])

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def epoch(
        self, run: Run, digits: Digits, grids: Grids
    ) -> tuple[Run, Float[Array, "steps restarts"]]:
        """One pass over all grids, but for those that fill no batch. Returns the losses too."""
        keys = jax.vmap(partial(jax.random.split, num=3))(run.key)
        shuffle = partial(jax.random.permutation, x=self.settings.train_grids)
        order = jax.vmap(shuffle)(keys[:, 0])[:, : self.steps * self.settings.batch_size]
        order = order.reshape(len(order), self.steps, -1).swapaxes(0, 1)
        noise = jax.vmap(partial(jax.random.split, num=self.steps))(keys[:, 1]).swapaxes(0, 1)
        run = dataclasses.replace(run, key=keys[:, 2])

        def step(run: Run, x: tuple[Array, Array]) -> tuple[Run, Array]:
            chosen, key = x
            batch = jax.tree.map(lambda a: a[chosen], grids)
            return self._step(run, digits, batch, key)

        return lax.scan(step, run, (order, noise))

    def _step(self, run: Run, digits: Digits, batch: Grids, key: Any) -> tuple[Run, Array]:
        """One batch for each restart."""
        true_cost = self.graph.edge_cost(digits.labels[batch.cells].astype(jnp.float32))
        target = Target(batch.matching.astype(jnp.float32), true_cost)

        def loss_of(cost: Array, *of_restart: Any) -> Array:
            return self.rule.loss(self.rule, self.oracle, cost, *of_restart).mean()

        # In two halves, as an adaptive rule wants to see the gradient of the costs.
        cost, back = jax.vjp(lambda params: self.costs(params, digits, batch.cells), run.params)
        loss, slope = jax.vmap(jax.value_and_grad(loss_of))(cost, target, key, run.rule)
        (gradient,) = back(slope)
        state = run.rule
        if state is not None:
            update = partial(self.rule.estimator.update, core_dims=1)
            state = jax.vmap(update)(state, slope)
        updates, optimizer = jax.vmap(self.adam.update)(gradient, run.optimizer)
        params = optax.apply_updates(run.params, updates)
        return dataclasses.replace(run, params=params, optimizer=optimizer, rule=state), loss

    def costs(self, params: Params, digits: Digits, cells: Array) -> Array:
        """`[restarts, batch, edges]` for `cells` `[restarts, batch, k, k]`."""
        values = self.values(params, digits)
        return jax.vmap(lambda values, cells: self.graph.edge_cost(values[cells]))(values, cells)

    def values(self, params: Params, digits: Digits) -> Float[Array, "restarts digits"]:
        """Restarts one after another: a convolution with many kernels for many inputs is slow."""
        dtype = jnp.dtype(self.settings.search_dtype)
        return lax.map(lambda p: digit_values(p, digits.images, dtype), params)

    @partial(jax.jit, static_argnums=0)
    def predict(self, params: Params, digits: Digits, cells: Array) -> Bool[Array, "r grids edges"]:
        """The matchings that all restarts find for the same grids."""
        values = self.values(params, digits)
        found = lax.map(partial(self._solve, values), cells, batch_size=CHUNK)
        return found.swapaxes(0, 1)

    @partial(jax.jit, static_argnums=0)
    def accuracy(self, params: Params, digits: Digits, grids: Grids) -> Float[Array, " restarts"]:
        """The share of grids for which the matching that is found costs no more than the best."""
        values = self.values(params, digits)

        def is_optimal(grid: Grids) -> Bool[Array, " restarts"]:
            # Integers, so that equal is equal.
            cost = self.graph.edge_cost(digits.labels[grid.cells])
            found = (cost * self._solve(values, grid.cells)).sum(-1)
            return found == (cost * grid.matching).sum(-1)

        return lax.map(is_optimal, grids, batch_size=CHUNK).mean(0)

    def _solve(self, values: Array, cells: Int[Array, "k k"]) -> Bool[Array, "restarts edges"]:
        return self.oracle.solve(self.graph.edge_cost(values[:, cells])).y > 0
