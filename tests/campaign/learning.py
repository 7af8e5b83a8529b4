"""Losses and estimators, and derivatives of solvers: of good problems among hostile ones."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from helpers import to_numpy, x64

import jaxmatch as jm
from campaign.judges import Judge
from campaign.problems import Batch, Draw
from jaxmatch import Status
from jaxmatch.estimators import Blackbox, Entropic, Identity, ImplicitMLE, Perturbed
from jaxmatch.losses import (
    earth_mover_distance,
    fenchel_young_loss,
    histogram_distance,
    permutation_invariant_loss,
    perturbation_gradient_loss,
    spo_plus_loss,
    wasserstein_1d,
)


# Derivatives of solvers


class Differentiated(NamedTuple):
    """A result, and the derivative of the sum of costs by each argument that is a cost."""

    result: Any
    gradient: dict[str, np.ndarray]

    @property
    def status(self) -> np.ndarray:
        return self.result.status


@lru_cache(maxsize=64)
def _differentiated(function: Any, value: str, names: tuple[str, ...], by: tuple[str, ...],
                    options: tuple[tuple[str, Any], ...]) -> Any:  # fmt: skip
    def run(*arrays: Any) -> Differentiated:
        given = dict(zip(names, arrays, strict=True))

        def total(costs: dict[str, Any]) -> tuple[Any, Any]:
            res = function(**(given | costs), **dict(options))
            worth = jnp.where(res.status == Status.OPTIMAL, getattr(res, value), 0)
            return worth.sum(), res

        costs = {name: given[name] for name in by}
        gradient, res = jax.grad(total, has_aux=True)(costs)
        return Differentiated(res, gradient)

    return jax.jit(run)


def with_gradient(
    function: Callable[..., Any], *by: str, value: str = "cost"
) -> Callable[[Batch], Any]:
    """The result, with the derivative by those of the arguments `by` that the batch has."""

    def solve(batch: Batch) -> Differentiated:
        with x64(batch.wide):
            there = tuple(name for name in by if name in batch.arrays)
            program = _differentiated(function, value, tuple(batch.arrays), there,
                                      tuple(sorted(batch.options.items())))  # fmt: skip
            return to_numpy(program(*map(jnp.asarray, batch.arrays.values())))

    return solve


def pairs_of(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    """The derivative of an assignment's cost: 1 for pairs, and for the gate of a row without."""
    m = batch.arrays["cost"].shape[-1]
    free = res.col4row < 0
    if "row_mask" in batch.arrays:
        free &= batch.arrays["row_mask"]
    pairs = res.col4row[..., None] == np.arange(m)
    return {"cost": pairs, "unmatched_cost": free}


def plan_of(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    plan = np.zeros(batch.arrays["cost"].shape, res.mass.dtype)
    problem, place = np.nonzero(res.rows >= 0)
    pairs = res.rows[problem, place], res.cols[problem, place]
    np.add.at(plan, (problem, *pairs), res.mass[problem, place])
    return {"cost": plan}


def derivative_is(judge: Judge, expected: Callable[[Batch, Any], dict[str, np.ndarray]]) -> Judge:
    """The judge of results, and that derivatives are those expected; of failures, zero."""

    def judged(batch: Batch, res: Differentiated, twin: bool) -> dict[int, str]:
        wrong = judge(batch, res.result, twin)
        want = expected(batch, res.result)
        for name, found in res.gradient.items():
            optimal = (res.status == Status.OPTIMAL).reshape(-1, *(1,) * (found.ndim - 1))
            truth = np.where(optimal, want[name], 0).astype(found.dtype)
            differ = (found != truth).reshape(batch.count, -1).any(1)
            for k in np.flatnonzero(differ):
                wrong.setdefault(int(k), f"derivative by {name} {found[k].tolist()}")
        return wrong

    return judged


# Losses and estimators


class Learned(NamedTuple):
    """A number or solution for each problem, and its derivative by the first argument."""

    value: np.ndarray
    gradient: np.ndarray

    @property
    def status(self) -> np.ndarray:
        return np.zeros(len(self.value), np.int32)


_SIDE = 3
_ORDERS = np.array([*itertools.permutations(range(_SIDE))])


def neighbours(d: Draw) -> Batch:
    """Two arrays and a key for each problem; every other problem is of small whole numbers."""
    d.count -= d.count % 2
    arrays = {name: d.numbers(_SIDE, _SIDE) for name in ("a", "b")}
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


# Each takes a, b and a key.
LEARNERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "permutation_invariant_loss": lambda a, b, key: permutation_invariant_loss(
        a, b, pair_cost=_distances).loss,
    "earth_mover_distance": lambda a, b, key: earth_mover_distance(a, b),
    "wasserstein_1d": lambda a, b, key: wasserstein_1d(a[0], b[0]),
    "histogram_distance": lambda a, b, key: histogram_distance(a[0] + 1, b[0] + 1),
    "spo_plus_loss": lambda a, b, key: spo_plus_loss(_oracle(), a, b).loss,
    "perturbation_gradient_loss": lambda a, b, key: perturbation_gradient_loss(
        _oracle(), a, b, strength=0.5).loss,
    "fenchel_young_loss": lambda a, b, key: fenchel_young_loss(
        _oracle(), a, jnp.eye(_SIDE, dtype=a.dtype), estimator=Perturbed(0.5, num_samples=4),
        key=key).loss,
    "Identity": lambda a, b, key: jm.assignment_matrix(a, estimator=Identity()),
    "Blackbox": lambda a, b, key: jm.assignment_matrix(a, estimator=Blackbox(2.0)),
    "Perturbed": lambda a, b, key: jm.assignment_matrix(
        a, estimator=Perturbed(0.5, num_samples=4), key=key),
    "ImplicitMLE": lambda a, b, key: jm.assignment_matrix(
        a, estimator=ImplicitMLE(2.0), key=key),
}  # fmt: skip
if importlib.util.find_spec("ott"):
    LEARNERS["Entropic"] = lambda a, b, key: jm.assignment_matrix(a, estimator=Entropic(1.0))


def _least(cost: np.ndarray) -> np.ndarray:
    return cost[:, np.arange(_SIDE), _ORDERS].sum(-1).min(1)


def _is_assignment(cost: np.ndarray, b: np.ndarray, found: np.ndarray) -> np.ndarray:
    best = np.isclose((cost * found).sum((1, 2)), _least(cost))
    return best & _is_plan(cost, b, found) & np.isin(found, (0, 1)).all((1, 2))


def _is_plan(a: np.ndarray, b: np.ndarray, found: np.ndarray) -> np.ndarray:
    sums = np.isclose(found.sum(1), 1, atol=1e-3) & np.isclose(found.sum(2), 1, atol=1e-3)
    return sums.all(1) & (found >= 0).all((1, 2))


def _equals(truth: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda a, b, found: np.isclose(found, truth(a, b), rtol=1e-4, atol=1e-4)


def _histogram(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = a[:, 0] + 1, b[:, 0] + 1
    x, y = (z / z.sum(1, keepdims=True) for z in (x, y))
    return np.abs(np.cumsum(x - y, 1)[:, :-1]).sum(1)


def _spo_plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the costs b several assignments may be best; the loss is that of one of them."""
    order = b[:, np.arange(_SIDE), _ORDERS].sum(-1)
    paid = a[:, np.arange(_SIDE), _ORDERS].sum(-1)
    own = np.where(order == order.min(1, keepdims=True), paid, np.nan)
    return -_least(2 * a - b)[:, None] + 2 * own - order.min(1, keepdims=True)


# Whether what was found is right, of the good problems alone.
_TRUTHS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "permutation_invariant_loss": _equals(lambda a, b: _least(_distances(a, b)) / _SIDE),
    "earth_mover_distance": _equals(lambda a, b: _least(_distances(a, b)) / _SIDE),
    "wasserstein_1d": _equals(
        lambda a, b: np.abs(np.sort(a[:, 0], 1) - np.sort(b[:, 0], 1)).mean(1)),
    "histogram_distance": _equals(_histogram),
    "spo_plus_loss": lambda a, b, found: (
        np.isclose(found[:, None], _spo_plus(a, b), rtol=1e-4, atol=1e-4).any(1)),
    "perturbation_gradient_loss": lambda a, b, found: np.isfinite(found),
    "fenchel_young_loss": lambda a, b, found: np.isfinite(found),
    "Identity": _is_assignment,
    "Blackbox": _is_assignment,
    "ImplicitMLE": _is_plan,
    "Perturbed": _is_plan,
    "Entropic": _is_plan,
}  # fmt: skip


@lru_cache(maxsize=64)
def _program(name: str) -> Any:
    def one(a: Any, b: Any, key: Any) -> Any:
        return LEARNERS[name](a, b, jax.random.wrap_key_data(key))

    def run(a: Any, b: Any, key: Any) -> Any:
        value, pull = jax.vjp(lambda a: jax.vmap(one)(a, b, key), a)
        weight = jnp.arange(1, value[0].size + 1, dtype=value.dtype).reshape(value.shape[1:])
        return Learned(value, pull(jnp.broadcast_to(weight, value.shape))[0])

    return jax.jit(run)


def learn(name: str) -> Callable[[Batch], Any]:
    def solve(batch: Batch) -> Learned:
        with x64(batch.wide):
            return to_numpy(_program(name)(*map(jnp.asarray, batch.arrays.values())))

    return solve


def learned(name: str) -> Judge:
    """Good problems have the true value and a finite derivative, whatever stands beside them."""

    def judge(batch: Batch, res: Learned, twin: bool) -> dict[int, str]:
        good = batch.known["good"]
        a, b = (batch.arrays[x][good].astype(np.float64) for x in "ab")
        value = res.value[good].astype(np.float64)
        right = _TRUTHS[name](a, b, value)
        finite = np.isfinite(res.gradient[good]).all((1, 2))
        at = np.flatnonzero(good)
        wrong = {int(at[k]): f"value {value[k].tolist()}" for k in np.flatnonzero(~right)}
        for k in np.flatnonzero(~finite):
            wrong.setdefault(int(at[k]), f"derivative {res.gradient[at[k]].tolist()}")
        return wrong

    return judge
