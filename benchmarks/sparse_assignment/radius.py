"""Points of which only pairs within a radius exist, found by the solver, and which may stay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.record import Row


NAMES = ("uniform", "20 clusters", "moved")
PAIRS = 10  # within the radius of a point, in the mean of uniform points
BALL = {2: np.pi, 3: 4 / 3 * np.pi}


@dataclass(frozen=True)
class Case:
    points: str
    dims: int
    n: int

    def row(self, budget: float) -> Row:
        import jax

        x, y = points_of(self.points, self.n, self.dims)
        radius = (PAIRS / self.n / BALL[self.dims]) ** (1 / self.dims)
        options = {"radius": radius, "unmatched_cost": radius**2}
        row: Row = {"points": self.points, "dims": self.dims, "n": self.n}
        res, row["gpu_ms"] = _measure(x, y, options, budget)
        with jax.default_device(jax.devices("cpu")[0]):
            own, core = _measure(x, y, options, 1.0, least=1 if self.n > 10**5 else 3)
        assert abs(float(res.cost) - float(own.cost)) <= 1e-5 * float(own.cost)
        matched = np.asarray(res.col4row)
        pairs = np.flatnonzero(matched >= 0)
        apart = ((x[pairs].astype(np.float64) - y[matched[pairs]]) ** 2).sum(1)
        total = apart.sum() + radius**2 * (self.n - len(pairs))
        assert abs(total - float(res.cost)) <= 1e-5 * total
        return row | {"core_ms": core, "core/gpu": core / row["gpu_ms"], "matched": len(pairs)}


def points_of(name: str, n: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of n points in the unit cube, float32."""
    rng = np.random.default_rng(n + dims)
    if name == "20 clusters":
        centres = rng.random((20, dims))
        x, y = (centres[rng.integers(20, size=n)] + 0.1 * rng.normal(size=(n, dims)) for _ in "xy")
    elif name == "moved":
        x = rng.random((n, dims))
        y = x[rng.permutation(n)] + 0.3 * n ** (-1 / dims) * rng.normal(size=(n, dims))
    else:
        x, y = rng.random((2, n, dims))
    return x.astype(np.float32), y.astype(np.float32)


def _measure(
    x: np.ndarray, y: np.ndarray, options: dict[str, Any], budget: float, least: int = 3
) -> tuple[Any, float]:
    """The result, and the milliseconds of a call on points that are on the device."""
    import jax

    import jaxmatch as jm
    from benchmarks.common.timing import timed

    solve = jax.jit(partial(jm.solve_assignment_points, **options))
    on_device = jax.device_put((x, y))
    res, ms = timed(solve, *on_device, budget=budget, least=least)
    assert res.status == jm.Status.OPTIMAL, jm.Status(int(res.status))
    assert res.gap <= 1e-5 * res.cost
    return res, ms


def cases(quick: bool, most: int) -> list[Case]:
    sizes = [n for n in ([1000] if quick else [10**3, 10**4, 10**5, 10**6]) if n <= most]
    return [Case(name, dims, n) for name in NAMES for dims in (2, 3) for n in sizes]
