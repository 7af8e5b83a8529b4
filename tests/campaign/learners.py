"""Losses and estimators, of good problems among hostile ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign.judges import Judge
from campaign.learner_truths import SIDE, TRUTHS, Good
from campaign.problems import Batch, Draw
from jaxmatch.estimators import (
    AdaptiveImplicitMLE,
    Blackbox,
    Entropic,
    Identity,
    ImplicitMLE,
    Perturbed,
)
from jaxmatch.losses import (
    DetectionCriterion,
    earth_mover_distance,
    fenchel_young_loss,
    histogram_distance,
    hungarian_loss,
    permutation_invariant_loss,
    perturbation_gradient_loss,
    regret,
    spo_plus_loss,
    wasserstein_1d,
)


class Learned(NamedTuple):
    """A number or solution for each problem, and its derivative by the first argument."""

    value: np.ndarray
    gradient: np.ndarray

    @property
    def status(self) -> np.ndarray:
        return np.zeros(len(self.value), np.int32)


def neighbours(d: Draw) -> Batch:
    """Two arrays and a key for each problem; every other problem is of small whole numbers."""
    d.count -= d.count % 2
    arrays = {name: d.numbers(SIDE, SIDE) for name in ("a", "b")}
    good = np.arange(d.count) % 2 == 0
    for name, x in arrays.items():
        small = d.rng.integers(0, 9, x.shape)
        arrays[name] = np.where(good[:, None, None], small, x).astype(x.dtype)
    arrays["key"] = d.rng.integers(0, 2**32, (d.count, 2), np.uint32)
    return d.batch(arrays, known={"good": good}, wide=d.dtype == "float64")


def _distances(x: Any, y: Any) -> Any:
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


def _oracle() -> Any:
    return jm.estimators.assignment_oracle()


def _matrix(estimator: Any, a: Any, key: Any = None, state: Any = None) -> Any:
    return jm.assignment_matrix(a, estimator=estimator, key=key, state=state)


def _hungarian(a: Any, b: Any, key: Any) -> Any:
    def pair_loss(x: Any, y: Any) -> Any:
        return ((x - y) ** 2).sum(-1)

    return hungarian_loss(a, b, matching_cost=_distances, pair_loss=pair_loss).loss


def _detection(a: Any, b: Any, key: Any) -> Any:
    boxes, target_boxes = ((1 + jnp.concatenate([x, x[:, :1]], 1)) / 20 for x in (a, b))
    labels = jnp.array([0, 1, 0])
    return DetectionCriterion()(a[None] / 4, boxes[None], labels[None], target_boxes[None]).total


def _cut(a: Any, b: Any, key: Any) -> Any:
    network = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], num_nodes=3)
    return Identity("none").solution(jm.estimators.cut_oracle(network, 0, 2), a[0])


def _labelling(a: Any, b: Any, key: Any) -> Any:
    pairwise = jnp.full((2, SIDE, SIDE), 2, a.dtype)
    return Identity("none").solution(jm.estimators.labelling_oracle(pairwise), a - 4)


# Each takes a, b and a key.
LEARNERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "permutation_invariant_loss": lambda a, b, key: permutation_invariant_loss(
        a, b, pair_cost=_distances).loss,
    "hungarian_loss": _hungarian,
    "DetectionCriterion": _detection,
    "earth_mover_distance": lambda a, b, key: earth_mover_distance(a, b),
    "wasserstein_1d": lambda a, b, key: wasserstein_1d(a[0], b[0]),
    "histogram_distance": lambda a, b, key: histogram_distance(a[0] + 1, b[0] + 1),
    "spo_plus_loss": lambda a, b, key: spo_plus_loss(_oracle(), a, b).loss,
    "regret": lambda a, b, key: regret(_oracle(), a, b, estimator=Identity()).regret,
    "perturbation_gradient_loss": lambda a, b, key: perturbation_gradient_loss(
        _oracle(), a, b, strength=0.5).loss,
    "fenchel_young_loss": lambda a, b, key: fenchel_young_loss(
        _oracle(), a, jnp.eye(SIDE, dtype=a.dtype), estimator=Perturbed(0.5, num_samples=4),
        key=key).loss,
    "Identity": lambda a, b, key: _matrix(Identity(), a),
    "Blackbox": lambda a, b, key: _matrix(Blackbox(2.0), a),
    "Perturbed": lambda a, b, key: _matrix(Perturbed(0.5, num_samples=4), a, key),
    "ImplicitMLE": lambda a, b, key: _matrix(ImplicitMLE(2.0), a, key),
    "AdaptiveImplicitMLE": lambda a, b, key: _matrix(
        AdaptiveImplicitMLE(), a, key, AdaptiveImplicitMLE().init(1.0)),
    "cut_oracle": _cut,
    "labelling_oracle": _labelling,
}  # fmt: skip
if importlib.util.find_spec("ott"):
    LEARNERS["Entropic"] = lambda a, b, key: _matrix(Entropic(1.0), a)


def _weights(shape: tuple[int, ...]) -> np.ndarray:
    """What the derivative of a solution is multiplied by."""
    return (np.arange(1, np.prod(shape, dtype=int) + 1) ** 2 % 7).reshape(shape)


@lru_cache(maxsize=64)
def _program(name: str) -> Any:
    def one(a: Any, b: Any, key: Any) -> Any:
        return LEARNERS[name](a, b, jax.random.wrap_key_data(key))

    def run(a: Any, b: Any, key: Any) -> Any:
        value, pull = jax.vjp(lambda a: jax.vmap(one)(a, b, key), a)
        weight = jnp.asarray(_weights(value.shape[1:]), value.dtype)
        return Learned(value, pull(jnp.broadcast_to(weight, value.shape))[0])

    return jax.jit(run)


def learn(name: str) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Learned:
        with x64(batch.wide):
            return to_numpy(_program(name)(*map(jnp.asarray, batch.arrays.values())))

    return solve


def learned(name: str) -> Judge:
    """Good problems have the true value and derivative, whatever stands beside them."""

    def judge(batch: Batch, res: Learned, twin: bool) -> dict[int, str]:
        at = np.flatnonzero(batch.known["good"])
        value, gradient = (x[at].astype(np.float64) for x in res)
        given = {x: y[at] for x, y in batch.arrays.items()}
        with x64(batch.wide):
            good = Good(**given, weight=_weights(value.shape[1:]))
            value_is_right, gradient_is_right = TRUTHS[name](good, value, gradient)
        gradient_is_right &= np.isfinite(gradient).all((1, 2))
        wrong = {int(at[k]): f"value {value[k].tolist()}" for k in np.flatnonzero(~value_is_right)}
        for k in np.flatnonzero(~gradient_is_right):
            wrong.setdefault(int(at[k]), f"derivative {gradient[k].tolist()}")
        return wrong

    return judge
