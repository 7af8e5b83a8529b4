"""The time and memory of gradients: a part of `learning`.

- `fused`: the gradient of a linear loss of perturbed assignments, beside `optax.perturbations`
  around the same solver, and beside our own steps one after another; once as a call, which on a GPU
  is mostly the time of dispatch, and once as a step of a compiled loop, as in training.
- `memory`: what compiled gradients hold at a time, of a case whose noise alone is 4.2 GB.
- `blackbox`: backward beside forward, its solve begun from the duals of the first, or from
  nothing; steps of a compiled loop.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxmatch as jm
from benchmarks.common.record import Row
from benchmarks.common.timing import median_ms
from jaxmatch.estimators import Blackbox, LinearOracle, Perturbed, _native, assignment_oracle


LOOP = 50  # steps
FUSED_AT_LEAST = {"cpu": 3.0, "gpu": 2.0}  # times as fast as optax
BACKWARD_AT_MOST = 0.5  # of the forward pass


def _normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def _by_optax(samples: int, strength: float = 1.0) -> Callable[[jax.Array, jax.Array], jax.Array]:
    def solve(cost: jax.Array) -> jax.Array:
        return jax.nn.one_hot(jm.solve_assignment(cost).col4row, cost.shape[-1])

    return optax.perturbations.make_perturbed_fun(solve, samples, strength)


def _by_us(samples: int, strength: float = 1.0) -> Callable[[jax.Array, jax.Array], jax.Array]:
    rule = Perturbed(strength, samples)
    return lambda key, cost: jm.assignment_matrix(cost, estimator=rule, key=key)


def _gradient(mean: Callable[[jax.Array, jax.Array], jax.Array]) -> Any:
    def loss(cost: jax.Array, d: jax.Array, key: jax.Array) -> jax.Array:
        return (mean(key, cost) * d).sum()

    return jax.jit(jax.value_and_grad(loss))


def _in_a_loop(gradient: Any) -> Any:
    """Steps of descent, so that each depends on the one before it."""

    @jax.jit
    def descend(cost: jax.Array, d: jax.Array, key: jax.Array) -> Any:
        def step(cost: jax.Array, key: jax.Array) -> Any:
            value, slope = gradient(cost, d, key)
            return cost - 1e-3 * slope, value

        return jax.lax.scan(step, cost, jax.random.split(key, LOOP))

    return descend


def _one_after_another(f: Any, *arguments: Any) -> Any:
    """Compiled without the fused target."""
    fits = _native.fits_perturbed
    _native.fits_perturbed = lambda cost: False
    try:
        return f.lower(*arguments).compile()
    finally:
        _native.fits_perturbed = fits


def fused(sizes: Sequence[tuple[int, int, int, float]], peers: bool) -> list[Row]:
    """A row for each (problems, samples, side, strength of the noise by that of the costs)."""
    rows = []
    for batch, samples, n, strength in sizes:
        cost, d, key = _normal(0, batch, n, n), _normal(1, batch, n, n), jax.random.key(0)
        arguments = cost, d, key
        calls = {"fused": _gradient(_by_us(samples, strength))}
        calls["steps"] = _one_after_another(_gradient(_by_us(samples, strength)), *arguments)
        found, other = (calls[x](*arguments) for x in ("fused", "steps"))
        # Rounding of the noise may decide between two solutions that are as good.
        np.testing.assert_allclose(found[0], other[0], rtol=1e-3, atol=1e-2)
        if peers:
            calls["optax"] = _gradient(_by_optax(samples, strength))
        loops = {x: _in_a_loop(f) for x, f in calls.items() if x != "steps"}
        row: Row = {"problems": batch, "samples": samples, "side": n, "strength": strength}
        row |= {f"{name}_ms": median_ms(f, *arguments) for name, f in calls.items()}
        for name, loop in loops.items():
            row[f"{name}_in_loop_ms"] = median_ms(loop, *arguments, most=20) / LOOP
        if peers:
            for how in ("", "_in_loop"):
                row[f"optax_by_fused{how}"] = row[f"optax{how}_ms"] / row[f"fused{how}_ms"]
            theirs = calls["optax"](*arguments)[1]
            row["cosine_to_optax"] = float(_cosine(found[1], theirs))  # with different noise
        rows.append(row)
    return rows


def _cosine(a: jax.Array, b: jax.Array) -> jax.Array:
    return (a * b).sum() / jnp.sqrt((a**2).sum() * (b**2).sum())


def memory(batch: int, samples: int, n: int, peers: bool) -> list[Row]:
    like = jax.ShapeDtypeStruct((batch, n, n), jnp.float32)
    key = jax.random.key(0)
    rows = []
    gradients = {"fused": _gradient(_by_us(samples))}
    if peers:
        gradients["optax.perturbations"] = _gradient(_by_optax(samples))
    for name, gradient in gradients.items():
        analysis = gradient.lower(like, like, key).compile().memory_analysis()
        row: Row = {"gradient": name, "problems": batch, "samples": samples, "side": n}
        row["temporary_MB"] = analysis.temp_size_in_bytes / 1e6
        row |= {"noise_MB": 4e-6 * batch * samples * n * n, "costs_MB": 4e-6 * batch * n * n}
        rows.append(row)
    arguments = _normal(0, batch, n, n), _normal(1, batch, n, n), key
    rows[0]["ms"] = median_ms(gradients["fused"], *arguments)
    return rows


def _from_nothing(oracle: LinearOracle) -> LinearOracle:
    return dataclasses.replace(oracle, find=lambda data, cost, start: oracle.find(data, cost, None))


def _steps(rule: Blackbox, oracle: LinearOracle, backward: bool) -> Any:
    """A compiled loop over solutions, and their gradients with `backward`. Costs move by next to
    nothing, so that each step depends on the one before it."""

    @jax.jit
    def run(cost: jax.Array, d: jax.Array) -> jax.Array:
        def step(cost: jax.Array, _: None) -> tuple[jax.Array, None]:
            y, back = jax.vjp(lambda c: rule.solution(oracle, c), cost)
            return cost + 1e-12 * (y + back(d)[0] if backward else y), None

        return jax.lax.scan(step, cost, length=LOOP)[0]

    return run


def blackbox(sizes: Sequence[tuple[int, int]]) -> list[Row]:
    """Costs are uniform on [0, 1]; the loss is the Hamming distance from the solution for costs
    that are a little different, so that it asks for other pairs in some rows. `changed`: of rows,
    by the step."""
    rows = []
    for batch, n in sizes:
        rng = np.random.default_rng(0)
        cost = jnp.asarray(rng.random((batch, n, n)), jnp.float32)
        wanted = jm.solve_assignment(cost + 0.5 / n * _normal(1, batch, n, n)).col4row
        d = 1 - 2 * jax.nn.one_hot(wanted, n)
        oracle = assignment_oracle()
        for step in (0.2 / n, 1 / n):
            rule = Blackbox(step)
            ahead = oracle.solve(cost + step * d)
            first = oracle.solve(cost)

            forward, warm, cold = (
                median_ms(_steps(rule, x, backward), cost, d, most=20) / LOOP
                for x, backward in ((oracle, False), (oracle, True), (_from_nothing(oracle), True))
            )
            rows.append(
                {
                    "problems": batch,
                    "side": n,
                    "step_by_mean_cost": 2 * step,
                    "changed": float((ahead.y != first.y).any(-1).mean()),
                    "forward_ms": forward,
                    "backward_ms": warm - forward,
                    "backward_by_forward": warm / forward - 1,
                    "from_nothing_by_forward": cold / forward - 1,
                }
            )
    return rows


def run(args: argparse.Namespace) -> dict[str, list[Row]]:
    gradients = [(16, 100, 32, 1.0), (16, 100, 32, 0.3), (16, 100, 32, 0.1)]
    gradients += [(64, 100, 32, 1.0), (16, 100, 100, 1.0), (16, 10, 8, 1.0)]
    large, problems = (64, 1000, 128), [(64, 64), (32, 128), (16, 300)]
    if args.quick:
        gradients, large, problems = [(4, 10, 8, 1.0)], (4, 50, 16), [(4, 32)]

    def some(part: str, cases: list[Any], name: str) -> list[Any]:
        return [x for x in cases if args.rows.search(f"{part} {name.format(*x)}")]

    found = {"fused": fused(some("fused", gradients, "{}x{}x{}, noise {:g}"), args.peers)}
    if args.rows.search("memory"):
        found["memory"] = memory(*large, args.peers)
    return found | {"blackbox": blackbox(some("blackbox", problems, "{}x{}"))}


def criteria(found: dict[str, list[Row]]) -> list[Row]:
    backend = "gpu" if jax.default_backend() == "gpu" else "cpu"
    goal = FUSED_AT_LEAST[backend]
    least = min(row["backward_by_forward"] for row in found["blackbox"])
    most = max(row["backward_by_forward"] for row in found["blackbox"])
    return [
        *({"criterion": f"{name} on the {backend}, noise {row['strength']:g}, at least",
           "measured": row[name], "goal": goal, "reached": row[name] >= goal}
          for row in found["fused"][:3]
          for name in ("optax_by_fused", "optax_by_fused_in_loop")),
        {"criterion": f"blackbox backward by forward, best and worst ({most:.2f})",
         "measured": least, "goal": BACKWARD_AT_MOST, "reached": most <= BACKWARD_AT_MOST},
    ]  # fmt: skip
