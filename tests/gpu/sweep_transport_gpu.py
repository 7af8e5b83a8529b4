"""Transport problems on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/gpu/sweep_transport_gpu.py [PART [few]]

test_sanitizer.py runs it, a process for each of `PARTS`. `few` leaves out what takes racecheck
minutes. Results are checked on the CPU: such a tool is to see our kernels and few others.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


SHAPES = [(1, 1, 1), (2, 3, 7), (2, 40, 33), (1, 90, 140), (2, 70, 100)]
DTYPES = ["bfloat16", "float32", "int32"]
PARTS = ["small", "features", "blocks", "paths"]

Shape = tuple[int, int, int]


def masses(
    rng: np.random.Generator, shape: Shape, *masks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Supplies and demands, of equal sums over the unmasked rows and columns; the others are −1."""
    b, n, m = shape
    rows, cols = masks or (np.ones((b, n), bool), np.ones((b, m), bool))
    supply = np.where(rows, rng.integers(1, 9, (b, n)), -1).astype(np.int32)
    demand = np.full((b, m), -1, np.int32)
    for a, d, row, col in zip(supply, demand, rows, cols, strict=True):
        d[col] = rng.multinomial(a[row].sum(), np.ones(col.sum()) / col.sum())
    return supply, demand


def solve_and_check(
    solve: Callable[..., Any],
    check: Callable[..., Any],
    *arrays: np.ndarray,
    tolerance: float = 0.5,
    check_singles: bool = False,
    **given: Any,
) -> int:
    """Solves a batch, verifies every result, and returns the number of problems.

    For whole costs and masses, a gap below 1 proves the optimum. `check_singles`: float32 holds all
    numbers, so that one program checks results of all dtypes.
    """
    result = jax.tree.map(np.asarray, solve(*map(jnp.asarray, arrays), **given))
    problem = [f"{x.dtype}{[*x.shape]}" for x in arrays], given, result
    assert (result.status == jm.Status.OPTIMAL).all(), problem
    if check_singles:
        arrays = tuple(x.astype(np.float32) for x in arrays)
    with jax.default_device(jax.devices("cpu")[0]):
        proof = jax.tree.map(np.asarray, check(*arrays, result, **given))
    assert proof.valid.all() and (proof.gap <= tolerance).all(), (proof, *problem)
    return result.status.size


def transport(*arrays: np.ndarray, **given: Any) -> int:
    return solve_and_check(jm.solve_transport, jm.check_transport, *arrays, **given)


def points(*arrays: np.ndarray, **given: Any) -> int:
    return solve_and_check(jm.solve_transport_points, jm.check_transport_points, *arrays, **given)


def solve_small(rng: np.random.Generator, few: bool) -> int:
    """Shapes, dtypes and kinds of problems."""
    solved = 0
    for shape in SHAPES[1:3] if few else SHAPES:
        supply, demand = masses(rng, shape)
        for dtype in DTYPES[1:2] if few else DTYPES:
            cost = rng.integers(0, 50, shape).astype(jnp.dtype(dtype))
            for given in ({}, {"partial": shape[1]}, {"unmatched_cost": 20}):
                for of_masses in (np.int32, np.float32):
                    sides = supply.astype(of_masses), demand.astype(of_masses)
                    solved += transport(cost, *sides, check_singles=True, **given)
            print(f"small: solved {solved}, the last of shape {shape} in {dtype}", flush=True)
    return solved


def solve_features(rng: np.random.Generator, few: bool) -> int:
    """Masks, forbidden pairs, a maximum, 64 bits, points and capacities, by both kernels."""
    shapes = [(2, 24, 31)] if few else [(2, 24, 31), (1, 24, 140)]
    return sum(_solve_features(rng, shape, few) for shape in shapes)


def _solve_features(rng: np.random.Generator, shape: Shape, few: bool) -> int:
    b, n, m = shape
    cost = rng.integers(0, 50, shape).astype(np.float32)
    sides = masses(rng, shape)
    solved = transport(cost, *sides, maximize=True, unmatched_cost=20.0)

    rows, cols = rng.random((b, n)) < 0.8, rng.random((b, m)) < 0.8
    some = np.where(rng.random(shape) < 0.2, np.float32(np.inf), cost)
    some[~rows] = np.nan
    solved += transport(some, *masses(rng, shape, rows, cols), row_mask=rows, col_mask=cols)

    if few:
        return solved
    x, y = (rng.normal(size=(b, k, 3)) for k in (n, m))
    singles = x.astype(np.float32), y.astype(np.float32)
    solved += points(*singles, *sides, tolerance=1e-3)
    with jax.enable_x64(True):
        normal = rng.normal(size=shape)
        parts = [rng.dirichlet(np.ones(k), b) for k in (n, m)]
        solved += transport(normal, *parts, tolerance=1e-9)
        whole = np.round(1e15 * normal).astype(np.int64)
        solved += transport(whole, *(side.astype(np.int64) for side in sides))
        solved += points(x, y, *sides, metric="l1", unmatched_cost=2.0, tolerance=1e-9)

    capacities = {"col_capacity": rng.integers(2, 6, 9), "col_minimum": np.ones(9, np.int32)}
    few = cost[..., :9]
    solved += solve_and_check(
        jm.solve_capacitated_assignment, jm.check_capacitated_assignment, few, **capacities
    )
    return solved


def solve_by_blocks(rng: np.random.Generator, few: bool) -> int:
    """Two blocks for one problem, see `blocks_of_each` in ffi/transport/cuda/handler.cu."""
    shape = (1, 370, 370) if few else (1, 400, 400)
    cost = rng.integers(0, 1000, shape).astype(np.float32)
    cost[rng.random(shape) < 0.1] = np.inf
    return transport(cost, *masses(rng, shape))


def solve_by_paths(rng: np.random.Generator, few: bool) -> int:
    """Few columns, with one block and with two, and equal masses, which begin with a plan."""
    solved = 0
    shapes = [(2, 150, 4), (2, 5, 160), (1, 2800, 12)]
    for shape in shapes if few else [*shapes, (2, 300, 9), (1, 40, 900), (1, 2100, 130)]:
        cost = rng.integers(0, 1000, shape).astype(np.float32)
        solved += transport(cost, *masses(rng, shape))
    shape = (2, 140, 140)
    cost, sides = rng.integers(0, 1000, shape).astype(np.float32), np.full((2, 140), 3, np.int32)
    return solved + transport(cost, sides, sides)


SOLVE = {
    "small": solve_small,
    "features": solve_features,
    "blocks": solve_by_blocks,
    "paths": solve_by_paths,
}


def main(part: str = "", few: str = "") -> None:
    for name in [part] if part else PARTS:
        print(f"{name}: solved {SOLVE[name](np.random.default_rng(0), bool(few))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
