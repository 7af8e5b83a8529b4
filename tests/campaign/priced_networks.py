"""Flows of least cost: batches of networks with costs, solvers with their proofs, and a judge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import min_cost_flow_truth
import numpy as np
from exact import shown
from helpers import numpy_dtype, to_numpy, x64
from min_cost_flow_truth import Truth

import jaxmatch as jm
from campaign import derivatives, judges
from campaign.calls import WIDER, Solver
from campaign.families import FLOATS, INTEGERS
from campaign.networks import malformed, network_of
from campaign.problems import Batch, Draw
from jaxmatch import Status


# Nodes and edges.
SIZES = [(4, 7), (5, 9), (2, 3), (3, 1), (3, 6), (1, 2), (6, 8)]


def priced_network(d: Draw) -> Batch:
    """One network for the batch, with loops and parallel edges. Numbers of the family are costs,
    masses, or both; the others are small integers, maybe times a power of two."""
    n, e = SIZES[0 if d.few else d.rng.integers(len(SIZES))]
    if d.family.form == "empty" and not d.few:
        kind = d.rng.integers(3)
        d.count = 0 if kind == 0 else d.count
        n, e = (n, e) if kind == 0 else (n if kind == 1 else 0, 0)
    ends = (np.random.default_rng(2) if d.few else d.rng).integers(0, max(n, 1), (2, e))
    of_costs, of_masses = [(True, False), (False, True), (True, True)][d.rng.integers(3)]
    whole = d.dtype in INTEGERS or d.maybe(0.2)
    mass: Any = numpy_dtype("int32" if whole and d.dtype in FLOATS else d.dtype)
    small = d.rng.integers(-9, 10, (d.count, e))
    cost = d.numbers(e) if of_costs else small.astype(numpy_dtype(d.dtype))
    draw = _hostile_masses if of_masses and mass == numpy_dtype(d.dtype) else _feasible_masses
    masses = draw(d, ends, n)
    if whole:
        endless: Any = np.iinfo(mass).max
    else:
        endless = np.inf
    rare = d.rng.random((d.count, e)) < d.rng.choice([0, 0, 0.3, 1], (d.count, 1))
    masses["capacity"] = np.where(rare, endless, masses["capacity"])
    with np.errstate(over="ignore"):
        arrays = {name: x.astype(mass) for name, x in masses.items()}
    if not d.few and d.rng.random() < 0.6:
        del arrays["lower"]
    arrays["cost"] = cost
    if d.maybe(0.2):
        starts = d.rng.choice([0, 1, -1e3, 1e30, np.nan, np.inf], (d.count, n))
        arrays["warm_start"] = starts
    known = {
        "senders": np.tile(ends[0], (d.count, 1)), "receivers": np.tile(ends[1], (d.count, 1))
    }  # fmt: skip
    if d.family.form == "malformed":
        known["hurt"] = d.rng.random(d.count) < 0.5
        known["where"] = d.rng.integers(0, 2**31, d.count)
    options = {"edges": (*(tuple(x.tolist()) for x in ends), n)}
    return d.batch(arrays, options=options, known=known)


def _feasible_masses(d: Draw, ends: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Small integers around a flow; a few problems have none, or supplies with another sum."""
    shape = d.count, ends.shape[1]
    lower = d.rng.integers(-2, 2, shape) * d.rng.choice([0, 1], (d.count, 1))
    flow = np.maximum(d.rng.integers(0, 6, shape), lower)
    capacity = np.maximum(flow + d.rng.choice([-1, 0, 0, 1, 4], shape), lower)
    capacity = np.where(d.rng.random(shape) < 0.01, -3, capacity)
    supply = np.zeros((d.count, n), int)
    for k, (u, v) in enumerate(ends.T):
        supply[:, u] += flow[:, k]
        supply[:, v] -= flow[:, k]
    supply += (d.rng.random(supply.shape) < 0.02) * d.rng.integers(-1, 2, supply.shape)
    scale: Any = 1 if d.dtype in INTEGERS else 2.0 ** d.rng.integers(-90, 90, (d.count, 1))
    scale = 1 if d.rng.random() < 0.5 else scale
    return {"capacity": capacity * scale, "supply": supply * scale, "lower": lower * scale}


def _hostile_masses(d: Draw, ends: np.ndarray, n: int) -> dict[str, np.ndarray]:
    """Numbers of the family; a supply and a demand of each number, so that sums are 0."""
    e = ends.shape[1]
    capacity, bound = d.positive(e), d.numbers(e)
    with np.errstate(invalid="ignore"):
        lower = np.where(d.rng.random(bound.shape) < 0.3, np.minimum(bound, capacity), 0)
    given = np.abs(d.numbers(n // 2))
    given = np.where(d.rng.random(given.shape) < 0.3, 0, given)
    supply = np.zeros((d.count, n), given.dtype)
    supply[:, : n // 2], supply[:, n // 2 : 2 * (n // 2)] = given, -given
    supply = d.rng.permuted(supply, axis=1)
    return {"capacity": capacity, "supply": supply, "lower": lower}


# ---------------------------------------------------------------------------------------------
# Solvers


class Proved(NamedTuple):
    """A result, and what its check says."""

    result: Any
    check: Any

    @property
    def status(self) -> np.ndarray:
        return self.result.status


@lru_cache(maxsize=64)
def _program(names: tuple[str, ...], options: tuple[tuple[str, Any], ...]) -> Any:
    return jax.jit(lambda network, *arrays: jm.minimum_cost_flow(
        network, **dict(zip(names, arrays, strict=True)), **dict(options)))  # fmt: skip


def _network(batch: Batch) -> jm.FlowNetwork:
    network = network_of(batch.options["edges"])
    if "hurt" in batch.known:
        return malformed(network, batch, ("senders", "receivers"))
    return network


def flow(traced: bool = False, **options: Any) -> Callable[[Batch], Proved]:
    def solve(batch: Batch) -> Proved:
        network = _network(batch)
        with x64(batch.wide):
            if traced:
                program = _program(tuple(batch.arrays), tuple(sorted(options.items())))
                res = to_numpy(program(network, *map(jnp.asarray, batch.arrays.values())))
            else:
                res = to_numpy(jm.minimum_cost_flow(network, **batch.arrays, **options))
        return Proved(res, check(batch, res))

    return solve


def check(batch: Batch, res: Any) -> Any:
    given = {name: x for name, x in batch.arrays.items() if name != "warm_start"}
    with x64(batch.wide):
        return to_numpy(jm.check_minimum_cost_flow(_network(batch), **given, result=res))


def again(batch: Batch) -> Proved:
    """From the result of other costs."""
    others = dataclasses.replace(
        batch, arrays=batch.arrays | {"cost": batch.arrays["cost"][:, ::-1]}
    )
    start = flow()(others).result
    return flow()(dataclasses.replace(batch, arrays=batch.arrays | {"warm_start": start}))


def flow_of(edges: Any, **given: Any) -> jm.MinimumCostFlow:
    with jax.ensure_compile_time_eval():
        network = network_of(edges)
    return jm.minimum_cost_flow(network, **given)


# ---------------------------------------------------------------------------------------------
# Judges


def _tolerance(batch: Batch) -> float:
    """As documented: how far supplies may be from a sum of 0."""
    dtype = batch.arrays["supply"].dtype
    if dtype.kind == "i":
        return 0.0
    eps = float(jnp.finfo(dtype).eps)
    return 8 * eps if dtype.itemsize == 2 else max(2 * batch.arrays["supply"].shape[1] * eps, 1e-6)


def _truth(batch: Batch, k: int) -> Truth:
    given = {name: x[k] for name, x in batch.arrays.items() if name != "warm_start"}
    truth = Truth(batch.known["senders"][k], batch.known["receivers"][k], **given)
    if "hurt" in batch.known and batch.known["hurt"][k]:
        truth.invalid = Status.INVALID_GRAPH
    return truth


def _rounds(truth: Truth, res: Any) -> bool:
    """Whether a flow has a gap because costs span more bits than prices have, masses more than
    flows have, or because sums are near the ends of floats. A cycle that pays less than a rounding
    may be overlooked."""
    if np.asarray(res.cost).dtype.kind == "i" or truth.invalid is not None:
        return False
    greatest = min_cost_flow_truth.as_fraction(np.finfo(res.cost.dtype).max)
    return res.status == Status.OPTIMAL and truth.is_extreme(greatest)


def _assert_rounded(truth: Truth, res: Any, found: Any) -> None:
    """The flow is one, and its gap is honest; whether the check proves it is left open."""
    assert found.valid, "no flow"
    assert_checked(truth, res, found)
    if np.isfinite(res.gap) and not truth.has_cycle():
        error = truth.error([min_cost_flow_truth.as_fraction(x) for x in res.flow])
        gap = min_cost_flow_truth.as_fraction(res.gap) + truth.vanishing()
        assert error <= gap, f"gap {res.gap}, not {shown(error)}"


@judges.each
def proved(batch: Batch, res: Proved, k: int, twin: bool) -> None:
    truth, tolerance = _truth(batch, k), _tolerance(batch)
    if twin and res.status == Status.OVERFLOW:
        if not truth.potentials_fit(1 << 59) or truth.reach() >= 1 << 59:
            return
    if _rounds(truth, res.result):
        return _assert_rounded(truth, res.result, res.check)
    min_cost_flow_truth.assert_true(truth, res.result, tolerance)
    status, found = res.status, res.check
    proofs = bool(found.optimal), bool(found.infeasible), bool(found.unbounded)
    expected = Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED
    assert proofs == tuple(status == x for x in expected), f"status {status}, check {proofs}"
    assert_checked(truth, res.result, found)


def assert_checked(truth: Truth, res: Any, found: Any) -> None:
    """That the check proves nothing that is wrong, of any result."""
    if truth.invalid is not None:
        proofs = found.valid, found.optimal, found.infeasible, found.unbounded
        assert not any(proofs), "a proof of a problem that is invalid"
        return
    if found.infeasible:
        truth.assert_cut(res.source_side)
    if found.unbounded:
        truth.assert_cycle(res.cycle)
    if not found.valid:
        assert not found.optimal and found.gap == np.inf
        return
    exact = [min_cost_flow_truth.as_fraction(x) for x in res.flow]
    truth.assert_within(exact)
    total = sum(map(abs, (*exact, *truth.supply)), Fraction(0))
    bits = 24 if res.flow.dtype == np.float32 else 54  # twice what is documented
    truth.assert_conserved(exact, total / 2**bits, res.flow.dtype)
    if np.isfinite(found.gap) and not truth.has_cycle():
        error, gap = truth.error(exact), min_cost_flow_truth.as_fraction(found.gap)
        assert error <= gap, f"the check's gap is {found.gap}, not {shown(error)}"


def checked(batch: Batch, res: Proved, twin: bool) -> dict[int, str]:
    """Also of the results of other problems."""
    wrong = proved(batch, res, twin)
    others = jax.tree.map(lambda x: np.roll(x, 1, 0), res.result)
    for k, reason in _of_others(batch, Proved(others, check(batch, others)), twin).items():
        wrong.setdefault(k, f"of the result of another problem: {reason}")
    return wrong


@judges.each
def _of_others(batch: Batch, res: Proved, k: int, twin: bool) -> None:
    assert_checked(_truth(batch, k), res.result, res.check)


def _flows(batch: Batch, res: Any) -> dict[str, np.ndarray]:
    return {"cost": res.flow}


@judges.each
def _alone(batch: Batch, res: Any, k: int, twin: bool) -> None:
    truth = _truth(batch, k)
    if not _rounds(truth, res):
        min_cost_flow_truth.assert_true(truth, res, _tolerance(batch))


GENERATORS: dict[str, Callable[[Draw], Batch]] = {"priced network": priced_network}


def solvers() -> dict[str, Solver]:
    every: dict[str, Any] = {"size": 100, "forms": ("usual", "empty", "malformed")}
    name, subject = "minimum cost flow", "priced network"
    found = {
        f"{name}/{method}": Solver(subject, flow(method=method), proved, **every)
        for method in ("auto", "network_simplex", "cost_scaling")
    }
    seldom: dict[str, Any] = every | {"compiled": True}
    return found | {
        f"{name}/warm": Solver(subject, again, proved, WIDER, **every),
        f"{name} checked": Solver(subject, flow(), checked, WIDER, **every),
        f"{name} traced": Solver(subject, flow(True), proved, WIDER, **seldom),
        f"{name}/xla": Solver(subject, flow(True, method="xla"), proved, ("int64",),
                              twin=True, **seldom),
        f"{name}/derivative": Solver(
            subject, derivatives.with_gradient(flow_of, "cost"),
            derivatives.derivative_is(_alone, _flows), ("float32", "float64"), 100, compiled=True,
            varied=True, forms=("usual",)),
    }  # fmt: skip
