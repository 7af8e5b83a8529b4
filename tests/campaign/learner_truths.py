"""Values and derivatives of losses and estimators of 3x3 problems, by all six assignments.

Costs are small whole numbers, so several assignments may be best; then each of them is right.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch.estimators._noise import noise_like


SIDE = 3
_ORDERS = np.array([*itertools.permutations(range(SIDE))])
_MATRICES = np.eye(SIDE)[_ORDERS]  # [6, 3, 3]
_STEP = 1e-4
Truth = Callable[["Good", np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass
class Good:
    """The arguments of problems whose truth is known, and the cotangent of the value."""

    a: np.ndarray
    b: np.ndarray
    key: np.ndarray
    weight: np.ndarray

    def __post_init__(self) -> None:
        self.real = self.a.dtype
        self.a, self.b = self.a.astype(np.float64), self.b.astype(np.float64)

    def noise(self, samples: int) -> np.ndarray:
        """What is added to the costs, [b, samples, 3, 3]: of the library, whose tests compare it
        with its distribution."""
        like = jnp.zeros((SIDE, SIDE), self.real)

        def one(key: Any) -> Any:
            return noise_like(jax.random.wrap_key_data(key), samples, like, 2, "normal")

        return np.asarray(jax.vmap(one)(jnp.asarray(self.key)), np.float64)


def _totals(cost: np.ndarray) -> np.ndarray:
    """Of each assignment, [..., 6]."""
    return cost[..., np.arange(SIDE), _ORDERS].sum(-1)


def _least(cost: np.ndarray) -> np.ndarray:
    return _totals(cost).min(-1)


def _best(cost: np.ndarray) -> np.ndarray:
    """Which assignments are."""
    totals = _totals(cost)
    return totals <= totals.min(-1, keepdims=True) + 1e-9


def _only(cost: np.ndarray) -> np.ndarray:
    """The matrix of the best assignment, where ties are impossible."""
    return _MATRICES[_totals(cost).argmin(-1)]


def _near(found: np.ndarray, truth: np.ndarray, tolerance: float = 1e-4) -> np.ndarray:
    close = np.isclose(found, truth, rtol=tolerance, atol=tolerance)
    return close.reshape(len(close), -1).all(1)


def _is_any(found: np.ndarray, truths: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Whether it is one of the possible truths [b, k, ...]."""
    close = np.isclose(found[:, None], truths, rtol=1e-4, atol=1e-4)
    return (close.reshape(*close.shape[:2], -1).all(2) & possible).any(1)


def _is_difference(found: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Whether it is the matrix of one of `first` minus that of one of `last`, both bool[b, 6]."""
    pairs = (first[:, :, None] & last[:, None, :]).reshape(len(found), -1)
    truths = (_MATRICES[:, None] - _MATRICES[None]).reshape(1, -1, SIDE, SIDE)
    return _is_any(found, truths, pairs)


def _is_matrix(found: np.ndarray, possible: np.ndarray) -> np.ndarray:
    return _is_any(found, _MATRICES[None], possible)


_EVERY = np.ones((1, len(_ORDERS)), bool)


def _centred(x: np.ndarray) -> np.ndarray:
    """Without what is the same for all assignments: constants of rows and of columns."""
    x = x - x.mean(-1, keepdims=True)
    return x - x.mean(-2, keepdims=True)


# Sums over pairs of points


def _distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)


def _of_points(divisor: int) -> Truth:
    def truth(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
        cost = _distances(good.a, good.b)
        slopes = 2 * (good.a[:, None] - good.b[:, _ORDERS]) / divisor
        return _near(value, _least(cost) / divisor), _is_any(gradient, slopes, _best(cost))

    return truth


def _wasserstein(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    """At a kink every number between both slopes is right."""
    x, y = good.a[:, 0], good.b[:, 0]
    apart = (x[:, None] - y[:, _ORDERS]) / SIDE
    slopes = np.zeros((*apart.shape[:2], SIDE, SIDE))
    slopes[:, :, 0] = np.where(apart == 0, np.clip(gradient[:, None, 0], -1 / SIDE, 1 / SIDE),
                               np.sign(apart) / SIDE)  # fmt: skip
    cost = np.abs(x[:, :, None] - y[:, None])
    return _near(value, _least(cost) / SIDE), _is_any(gradient, slopes, _best(cost))


def _histogram(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    x, y = good.a[:, 0] + 1, good.b[:, 0] + 1
    size = x.sum(1, keepdims=True)
    beyond = np.cumsum(x / size - y / y.sum(1, keepdims=True), 1)[:, :-1]
    signs = np.concatenate([np.sign(beyond), np.zeros((len(x), 1))], 1)
    by_share = np.cumsum(signs[:, ::-1], 1)[:, ::-1]
    slope = np.zeros_like(gradient)
    slope[:, 0] = (by_share - (by_share * x / size).sum(1, keepdims=True)) / size
    kink = (np.abs(beyond) < 1e-6).any(1)
    return _near(value, np.abs(beyond).sum(1)), _near(gradient, slope) | kink


# Losses of decisions


def _spo_plus(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    """Of the costs b several assignments may be best; the loss is that of one of them."""
    a, b, best = good.a, good.b, _best(good.b)
    losses = -_least(2 * a - b)[:, None] + 2 * _totals(a) - _least(b)[:, None]
    return _is_any(value, losses, best), _is_difference(gradient / 2, best, _best(2 * a - b))


def _regret(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    losses = _totals(good.b) - _least(good.b)[:, None]
    return _is_any(value, losses, _best(good.a)), _near(gradient, -_centred(good.b))


def _perturbation_gradient(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    moved, width = good.a - 0.5 * good.b, 0.5
    loss = (_least(good.a) - _least(moved)) / width
    return _near(value, loss), _is_difference(gradient * width, _best(good.a), _best(moved))


def _fenchel_young(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    noisy = good.a[:, None] + 0.5 * good.noise(4)
    loss = np.trace(good.a, axis1=1, axis2=2) - _least(noisy).mean(1)
    return _near(value, loss), _near(gradient, np.eye(SIDE) - _only(noisy).mean(1))


def _detection(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    """The weighted sum of DETR's parts; the derivative is only finite."""
    logits, labels = good.a / 4, np.array([0, 1, 0])
    boxes, targets = ((1 + np.concatenate([x, x[..., :1]], -1)) / 20 for x in (good.a, good.b))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    chosen = p[:, :, labels]
    l1 = np.abs(boxes[:, :, None] - targets[:, None]).sum(-1)
    low, high = ([x[..., :2] + s * x[..., 2:] / 2 for x in (boxes, targets)] for s in (-1, 1))
    (low_x, low_y), (high_x, high_y) = ([x[0][:, :, None], x[1][:, None]] for x in (low, high))
    inner = np.clip(np.minimum(high_x, high_y) - np.maximum(low_x, low_y), 0, None).prod(-1)
    hull = (np.maximum(high_x, high_y) - np.minimum(low_x, low_y)).prod(-1)
    union = (high_x - low_x).prod(-1) + (high_y - low_y).prod(-1) - inner
    giou = inner / union - (hull - union) / hull
    totals = _totals((-np.log(chosen) + 5 * l1 + 2 * (1 - giou)) / SIDE)
    matching = _totals(-chosen + 5 * l1 - 2 * giou)
    best = matching <= matching.min(1, keepdims=True) + 1e-5
    return _is_any(value, totals, best), np.ones(len(value), bool)


# Estimators


def _identity(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    return _is_matrix(value, _best(good.a)), _near(gradient, -_centred(good.weight)[None])


def _blackbox(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    moved = _best(good.a + 2 * good.weight)
    return _is_matrix(value, _best(good.a)), _is_difference(2 * gradient, moved, _best(good.a))


def _perturbed(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    """The score of the noise, times what a sample has above the mean of the others."""
    z = good.noise(4)
    y = _only(good.a[:, None] + 0.5 * z)
    others = (y.sum(1, keepdims=True) - y) / 3
    above = ((y - others) * good.weight).sum((2, 3))
    return _near(value, y.mean(1)), _near(gradient, (above[:, :, None, None] * z).mean(1) / 0.5)


def _implicit(good: Good, value: np.ndarray, gradient: np.ndarray, step: Any = 2.0) -> Any:
    """Of one sample: its solution, and another one minus it, divided by the step."""
    differences = _MATRICES[None] - value[:, None]
    every = np.broadcast_to(_EVERY, (len(value), len(_ORDERS)))
    return _is_matrix(value, every), _is_any(gradient * step, differences, every)


def _adaptive(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    length = np.sqrt((good.a**2).sum((1, 2), keepdims=True))
    return _implicit(good, value, gradient, length / np.sqrt((good.weight**2).sum()))


def _scaled(cost: np.ndarray) -> np.ndarray:
    """exp(-cost) with rows and columns scaled to sum to 1."""
    plan = np.exp(-cost)
    for _ in range(500):
        plan = plan / plan.sum(-1, keepdims=True)
        plan = plan / plan.sum(-2, keepdims=True)
    return plan


def _entropic(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    steps = _STEP * np.eye(SIDE * SIDE).reshape(SIDE, SIDE, 1, SIDE, SIDE)
    ahead, behind = (_scaled(good.a + x) for x in (steps, -steps))
    slope = ((ahead - behind) * good.weight).sum((-2, -1)) / (2 * _STEP)  # [3, 3, b]
    return _near(value, _scaled(good.a), 1e-3), _near(gradient, np.moveaxis(slope, -1, 0), 1e-2)


# Other oracles, with the estimator `Identity`


def _cut(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    """Of edges 0-1, 0-2 and 1-2 the second one, and the lesser of the others."""
    capacity = good.a[:, 0]
    least = capacity[:, 1] + np.minimum(capacity[:, 0], capacity[:, 2])
    cuts = np.isin(value, (0, 1)).all(1) & (value[:, 1] == 1) & (value[:, [0, 2]].sum(1) == 1)
    slope = np.zeros_like(gradient)
    slope[:, 0] = -good.weight
    return cuts & _near((value * capacity).sum(1), least), _near(gradient, slope)


_LABELS = np.array([*itertools.product((0, 1), repeat=SIDE * SIDE)]).reshape(-1, SIDE, SIDE)


def _energy(cost: np.ndarray, labels: np.ndarray) -> np.ndarray:
    smooth = sum(np.abs(np.diff(labels, axis=k)).sum((-2, -1)) for k in (-2, -1))
    return (cost * labels).sum((-2, -1)) + 2 * smooth


def _labelling(good: Good, value: np.ndarray, gradient: np.ndarray) -> Any:
    cost = good.a - 4
    least = _energy(cost[:, None], _LABELS[None]).min(1)
    right = np.isin(value, (0, 1)).all((1, 2)) & _near(_energy(cost, value), least)
    return right, _near(gradient, np.broadcast_to(-good.weight, gradient.shape))


TRUTHS: dict[str, Truth] = {
    "permutation_invariant_loss": _of_points(SIDE),
    "hungarian_loss": _of_points(1),
    "DetectionCriterion": _detection,
    "earth_mover_distance": _of_points(SIDE),
    "wasserstein_1d": _wasserstein,
    "histogram_distance": _histogram,
    "spo_plus_loss": _spo_plus,
    "regret": _regret,
    "perturbation_gradient_loss": _perturbation_gradient,
    "fenchel_young_loss": _fenchel_young,
    "Identity": _identity,
    "Blackbox": _blackbox,
    "Perturbed": _perturbed,
    "ImplicitMLE": _implicit,
    "AdaptiveImplicitMLE": _adaptive,
    "Entropic": _entropic,
    "cut_oracle": _cut,
    "labelling_oracle": _labelling,
}
