"""Transport on a GPU over the kinds of masses and shapes that people have, beside one core.

    python -m benchmarks.transport.masses [--quick] [--rows PATTERN] [--out FOLDER]

Half moved clouds, LiDAR scans, heavy-tailed costs, large batches, and few columns or rows, with
equal masses, Zipf, Dirichlet or gamma weights. Every answer must be `OPTIMAL`, and
cost on the GPU what it costs on the core; the first four of a batch must pass `check_transport`.
A batch repeats 16 problems. A core is timed once, without a warm-up; POT and LEMON solve the first
problem of a batch there, and its time is multiplied. Writes `transport_masses_gpu.json`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import one_core, timed
from benchmarks.transport import peers
from benchmarks.transport.problems import Problem


class Case(NamedTuple):
    costs: str
    weights: str
    problems: int
    n: int
    m: int

    @property
    def name(self) -> str:
        return f"{self.costs}, {self.weights}, {self.problems} x ({self.n} x {self.m})"


CASES = [
    *(Case("half moved clouds", w, 1, 4096, 4096) for w in ("equal", "Zipf")),
    *(Case("half moved clouds", w, 8, 1024, 1024) for w in ("equal", "Zipf")),
    *(Case("LiDAR", w, 64, 256, 256) for w in ("equal", "Zipf")),
    *(Case("u^8", w, 1, 2048, 2048) for w in ("equal", "Dirichlet")),
    Case("exp(3N)", "Dirichlet", 1, 2048, 2048),
    *(Case("half moved clouds", "gamma", 2**20 // n, n, n) for n in (16, 32)),
    *(Case("half moved clouds", "gamma", b, n, n) for b, n in ((8192, 64), (2048, 128))),
    *(Case("half moved clouds", w, 1024, 100, 100) for w in ("equal", "Dirichlet")),
    *(Case("features", "Dirichlet", *size) for size in ((1, 5000, 20), (1, 20, 5000))),
    Case("features", "Dirichlet", 16, 1000, 10),
    *(Case("features", "equal", 1, n, m) for n, m in ((2000, 8), (20_000, 64), (20_000, 256))),
    Case("features", "equal", 1, 100_000, 64),
]
MOST_DRAWN = 16  # problems of a batch that differ


def _scan(random: np.random.Generator, count: int) -> np.ndarray:
    """Returns of a LiDAR with 32 beams above a plane, with objects at 5 to 60 metres."""
    angle = random.uniform(0, 2 * np.pi, count)
    beam = random.choice(np.linspace(-0.4, 0.05, 32), count)
    to_ground = 2 / np.maximum(-np.sin(beam), 1e-2)
    r = np.minimum(to_ground, random.uniform(5, 60, count))
    flat = r * np.cos(beam)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), r * np.sin(beam)], 1)


def _costs(case: Case, seed: int) -> np.ndarray:
    random, n, m = np.random.default_rng(seed), case.n, case.m
    x, y = random.normal(size=(n, 3)), random.normal(size=(m, 3))
    if case.costs == "u^8":
        return (random.random((n, m)) ** 8).astype(np.float32)
    if case.costs == "exp(3N)":
        return np.exp(3 * random.normal(size=(n, m))).astype(np.float32)
    if case.costs == "half moved clouds":
        y[: m // 2] += 2
    if case.costs == "LiDAR":
        x, y = _scan(random, n), _scan(random, m)
    if case.costs == "features":
        x = _features(random, n)
        y = x[random.choice(n, m, False)] if m <= n else _features(random, m)
    if n * m < 1e7:
        return ((x[:, None] - y) ** 2).sum(-1).astype(np.float32)
    return ((x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T).astype(np.float32)


def _features(random: np.random.Generator, count: int) -> np.ndarray:
    """Nine clusters in eight dimensions."""
    own = random.normal(size=(count, 8))
    return own + 2 * random.normal(size=(9, 8))[random.integers(0, 9, count)]


def _weights(kind: str, size: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(77 + seed)
    drawn = {
        "equal": lambda: np.full(size, 1 / size),
        "Zipf": lambda: 1 / random.permutation(np.arange(1, size + 1)),
        "Dirichlet": lambda: random.dirichlet(np.ones(size)),
        "gamma": lambda: random.gamma(0.5, 1.0, size) + 1e-9,
    }[kind]()
    return (drawn / drawn.sum()).astype(np.float32)


def problems(case: Case) -> tuple[np.ndarray, ...]:
    count = min(case.problems, MOST_DRAWN)
    drawn = (
        np.stack([_costs(case, k) for k in range(count)]),
        np.stack([_weights(case.weights, case.n, 2 * k) for k in range(count)]),
        np.stack([_weights(case.weights, case.m, 2 * k + 1) for k in range(count)]),
    )
    at = np.arange(case.problems) % count
    return tuple(x[at] for x in drawn)


def measure(case: Case, on_core: bool) -> Row:
    arrays = problems(case)
    solve = jax.jit(jm.solve_transport)
    res, ms = timed(solve, *map(jnp.asarray, arrays))
    assert (res.status == jm.Status.OPTIMAL).all(), case
    some = tuple(x[:4] for x in arrays)
    check = jm.check_transport(*some, jax.tree.map(lambda x: np.asarray(x[:4]), res))
    assert np.asarray(check.valid).all(), case
    row: Row = {"row": case.name, **case._asdict(), "ms": ms, "core_ms": None, "gpu/core": None}
    if on_core:
        with one_core(), jax.default_device(jax.devices("cpu")[0]):
            start = time.perf_counter()
            other = jm.solve_transport(*arrays)
            row["core_ms"] = 1e3 * (time.perf_counter() - start)
            row |= _of_peers(case, [x[0] for x in arrays], float(res.cost[0]))
        row["gpu/core"] = ms / row["core_ms"]
        np.testing.assert_allclose(res.cost, other.cost, rtol=1e-5, atol=1e-12)
    return row


def _of_peers(case: Case, first: list[np.ndarray], cost: float) -> Row:
    """The milliseconds for all problems, at the speed of the first one."""
    found: Row = {}
    given = Problem(*(x.astype(np.float64) for x in first))
    for name, solve in peers.known().items():
        if name in ("POT", "LEMON"):
            value, ms = peers.measure(solve, given)
            np.testing.assert_allclose(value, cost, rtol=1e-4, err_msg=name)
            found[f"{name}_ms"] = ms * case.problems
    return found


def main() -> None:
    parser = options.parser(__doc__, "no row over 2^22 costs", selects=True)
    args = options.parse(parser)
    if jax.default_backend() != "gpu":
        parser.error("this benchmark needs a GPU")
    cases = [case for case in CASES if args.rows.search(case.name)]
    if args.quick:
        cases = [case for case in cases if case.problems * case.n * case.m <= 2**22]
    rows = [measure(case, args.peers) for case in tqdm(cases)]
    record.print_table("Transport on a GPU", rows, hidden=[*Case._fields])
    found = record.gpu() | record.environment(["jax", "jaxlib", "numpy"]) | {"rows": rows}
    record.write_json(args.out, "transport_masses_gpu", found)


if __name__ == "__main__":
    main()
