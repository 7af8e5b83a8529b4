"""Assignments between many points: by levels of resolution, and with all pairs.

    python -m benchmarks.assignment.many_points [--quick] [--rows PATTERN] [--no-peers]
                                                [--out FOLDER]

Two sets of float32 points, squared Euclidean distances, wall milliseconds of one call. On a GPU the
call is a compiled program. Without one, arrays of NumPy are solved on one core, nothing is
compiled, and the processor's time is recorded, too. The peers are our own methods that look at all
pairs. They are tried up to a size where some of them take minutes. Values are compared, and answers
up to 100,000 points (on a CPU 10,000) are held against all pairs by `check_assignment_points`; the
gap of a larger one is that of the solver. Writes `assignment_points_levels_gpu.json` or
`assignment_points_levels_cpu.json`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import one_core, timed


CASES = {
    "gpu": [
        *(("plane", n) for n in (20_000, 100_000, 200_000, 1_000_000)),
        *(("space", n) for n in (20_000, 100_000)),
        *(("clusters", n) for n in (20_000, 50_000)),
        *(("LiDAR", n) for n in (40_000, 100_000)),
    ],
    "cpu": [
        *(
            (kind, n)
            for n in (5000, 10_000, 20_000, 40_000, 100_000)
            for kind in ("plane", "space", "clusters", "LiDAR")
        ),
        ("plane", 300_000),
    ],
}
PEERS = {"gpu": ["core"], "cpu": ["core", "jonker_volgenant"]}
MOST_BY_ALL_PAIRS = {"gpu": 100_000, "cpu": 5000}
MOST_CHECKED = {"gpu": 100_000, "cpu": 10_000}
QUICK_POINTS = {"gpu": 20_000, "cpu": 5000}


def draw(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    if kind in ("plane", "space"):
        dims = 2 if kind == "plane" else 3
        return random.random((n, dims)), random.random((n, dims))
    if kind == "clusters":  # 20, of which either side has other shares
        centres = random.random((20, 2))

        def side() -> np.ndarray:
            return centres[random.integers(0, 20, n)] + 0.03 * random.normal(size=(n, 2))

        return side(), side()

    def scan(shift: float) -> np.ndarray:  # dense near the sensor, which moves
        angle, r = random.random(n) * 2 * np.pi, 2 + 40 * random.random(n) ** 3
        z = 0.05 * random.normal(size=n) + 0.02 * r * random.integers(0, 5, n)
        return np.stack([r * np.cos(angle) + shift, r * np.sin(angle), z], 1)

    return scan(0), scan(0.5)


def measure(kind: str, n: int, on: str, peers: bool) -> Row:
    x, y = (points.astype(np.float32) for points in draw(kind, n))
    limits: dict[str, Any] = {}
    solve: Any = jm.solve_assignment_points
    if on == "gpu":
        x, y = jnp.asarray(x), jnp.asarray(y)
        solve = jax.jit(solve, static_argnames="method")
    else:
        limits |= {"budget": 10.0, "least": 1, "most": 3}

    def solved(method: str) -> tuple[jm.Assignment, float]:
        return timed(lambda: solve(x, y, method=method), **limits)

    res, ms = solved("levels")
    row: Row = {"points": kind, "n": n, "levels_ms": ms}
    assert res.status == jm.Status.OPTIMAL
    if on == "cpu":  # other processes may take a part of the core
        start = time.process_time()
        solve(x, y, method="levels")
        row["levels_processor_ms"] = 1e3 * (time.process_time() - start)
    row |= {"cost": float(res.cost), "gap/cost": float(res.gap / res.cost)}
    if n <= MOST_CHECKED[on]:
        assert jm.check_assignment_points(x, y, res).optimal
    for peer in PEERS[on]:
        row |= {f"{peer}_ms": None, f"{peer}/levels": None}
        if peers and n <= MOST_BY_ALL_PAIRS[on]:
            other, row[f"{peer}_ms"] = solved(peer)
            row[f"{peer}/levels"] = record.ratio(row[f"{peer}_ms"], ms)
            assert np.isclose(other.cost, res.cost, rtol=1e-6)
    return row


def run(on: str, args: argparse.Namespace) -> None:
    content: Row = record.gpu() if on == "gpu" else {}
    content |= record.environment(["jax", "jaxlib", "numpy"]) | {"rows": []}
    for kind, n in tqdm(CASES[on]):
        if args.rows.search(f"{kind} {n}") and not (args.quick and n > QUICK_POINTS[on]):
            content["rows"].append(measure(kind, n, on, args.peers))
            record.write_json(args.out, f"assignment_points_levels_{on}", content)
    record.print_table("Many points", content["rows"])


def main() -> None:
    parser = options.parser(__doc__, "few points", selects=True)
    args = options.parse(parser)
    with one_core():  # threads of JAX begin with the first look for a device
        on = jax.default_backend()
        if on != "gpu":
            return run("cpu", args)
    return run("gpu", args)


if __name__ == "__main__":
    main()
