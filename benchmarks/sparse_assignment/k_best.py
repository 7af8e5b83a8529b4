"""The 100 best assignments of 100 rows and columns: one problem on a core, 256 on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from benchmarks.common.record import Row


NAMES = ("uniform", "ties", "plane", "low rank")
PEER = "fastlap"


def costs(name: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name == "uniform":
        return rng.random((n, n))
    if name == "ties":
        return rng.integers(0, 8, (n, n)).astype(float)
    if name == "plane":
        x, y = rng.random((2, n, 2))
        return ((x[:, None] - y) ** 2).sum(-1)
    return rng.random((n, 2)) @ rng.random((2, n))


@dataclass(frozen=True)
class OneCore:
    """In float64, in which fastlap takes costs."""

    costs: str
    n: int
    k: int

    def row(self, budget: float) -> Row:
        """Only a ratio: times on a CPU mean little elsewhere."""
        import fastlap
        import jax

        import jaxmatch as jm
        from benchmarks.common.timing import timed

        cost = costs(self.costs, self.n, 0)
        on_device = jax.device_put(cost)
        solve = jax.jit(lambda c: jm.k_best_assignments(c, self.k))
        res, own = timed(solve, on_device, budget=budget)
        theirs, peer = timed(fastlap.solve_lap_kbest, cost, self.k, budget=budget, least=3)
        assert jm.check_k_best(on_device, res).valid and int(res.count) == self.k
        np.testing.assert_allclose(res.cost, [x[0] for x in theirs], rtol=1e-9)
        row: Row = {"costs": self.costs, "problems": 1, "n": self.n, "k": self.k}
        return row | {f"{PEER}/ours": peer / own}


@dataclass(frozen=True)
class Batch:
    """In float32."""

    costs: str
    problems: int
    n: int
    k: int

    def row(self, budget: float) -> Row:
        import jax

        import jaxmatch as jm
        from benchmarks.common.timing import device_times, timed
        from benchmarks.common.workers import spread

        cost = np.stack([costs(self.costs, self.n, seed) for seed in range(self.problems)])
        on_device = jax.device_put(cost.astype(np.float32))
        solve = jax.jit(lambda c: jm.k_best_assignments(c, self.k))
        res, call_ms = timed(solve, on_device, budget=budget)
        assert np.asarray(jm.check_k_best(on_device, res).valid).all()
        assert (np.asarray(res.count) == self.k).all()
        with jax.default_device(jax.devices("cpu")[0]):
            for one, found in list(zip(cost.astype(np.float32), res.cost, strict=True))[:8]:
                expected = jm.k_best_assignments(one, self.k).cost
                np.testing.assert_allclose(found, expected, rtol=1e-5)
        clock = spread(device_times(lambda: solve(on_device), 9))
        row: Row = {"costs": self.costs, "problems": self.problems, "n": self.n, "k": self.k}
        return row | {"call_ms": call_ms, "device_ms": clock.get("device_ms")}


def one_core_cases(quick: bool) -> list[OneCore]:
    n, k = (20, 10) if quick else (100, 100)
    return [OneCore(name, n, k) for name in NAMES]


def batch_cases(quick: bool) -> list[Batch]:
    problems, n, k = (16, 20, 10) if quick else (256, 100, 100)
    return [Batch(name, problems, n, k) for name in NAMES]


def has_peer() -> bool:
    return find_spec(PEER) is not None
