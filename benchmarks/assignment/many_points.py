"""Assignments between many points on a GPU: by levels of resolution, and with all pairs.

    python -m benchmarks.assignment.many_points [--quick] [--rows PATTERN] [--no-peers]
                                                [--out FOLDER]

Two sets of float32 points, squared Euclidean distances, wall milliseconds of one call. The peer is
our own method `"core"`, which looks at all pairs in each pass; it is tried up to 100,000 points,
where 20 clusters take it minutes. Values of both are compared, and every answer is held against
all pairs by its duals, which takes `check_assignment_points` a few seconds for 100,000 points; the
gap of a larger one is that of the solver. Writes `assignment_points_levels_gpu.json`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import median_ms


CASES = [
    *(("plane", n) for n in (20_000, 100_000, 200_000, 1_000_000)),
    *(("space", n) for n in (20_000, 100_000)),
    *(("clusters", n) for n in (20_000, 50_000)),
    *(("LiDAR", n) for n in (40_000, 100_000)),
]
MOST_BY_ALL_PAIRS = MOST_CHECKED = 100_000
QUICK_POINTS = 20_000


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


def measure(kind: str, n: int, peers: bool) -> Row:
    x, y = (jnp.asarray(points, jnp.float32) for points in draw(kind, n))

    @functools.partial(jax.jit, static_argnames="method")
    def solve(method: str) -> jm.Assignment:
        return jm.solve_assignment_points(x, y, method=method)

    row: Row = {"points": kind, "n": n, "levels_ms": median_ms(lambda: solve("levels"))}
    res = solve("levels")
    assert res.status == jm.Status.OPTIMAL
    row |= {"cost": float(res.cost), "gap/cost": float(res.gap / res.cost)}
    if n <= MOST_CHECKED:
        assert jm.check_assignment_points(x, y, res).optimal
    row |= {"core_ms": None, "core/levels": None}
    if peers and n <= MOST_BY_ALL_PAIRS:
        row["core_ms"] = median_ms(lambda: solve("core"))
        row["core/levels"] = record.ratio(row["core_ms"], row["levels_ms"])
        assert np.isclose(solve("core").cost, res.cost, rtol=1e-6)
    return row


def main() -> None:
    parser = options.parser(__doc__, f"up to {QUICK_POINTS:,} points", selects=True)
    args = options.parse(parser)
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    content: Row = record.gpu() | record.environment(["jax", "jaxlib", "numpy"]) | {"rows": []}
    for kind, n in tqdm(CASES):
        if args.rows.search(f"{kind} {n}") and not (args.quick and n > QUICK_POINTS):
            content["rows"].append(measure(kind, n, args.peers))
            record.write_json(args.out, "assignment_points_levels_gpu", content)
    record.print_table("Many points on a GPU", content["rows"])


if __name__ == "__main__":
    main()
