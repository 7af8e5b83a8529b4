"""Hidden orders and motions of points in space: how many are found, and how long it takes.

    python -m benchmarks.alignment [--quick] [--out FOLDER]

Normal points, turned at random, shuffled, with noise of 2 % and of 20 % of a coordinate's
deviation. `loop`: axes of inertia in all four directions, scipy's assignment and Kabsch's motion in
turns until the pairs stay the same, in NumPy, as scripts for molecules do it. `ours`:
`solve_alignment` from 64 starts in float32, the whole batch in one compiled call. On a CPU both run
on one core. Then `prove=True` in float64 for one problem each, to 1 %. Writes `alignment.json`, or
`alignment_gpu.json` on a GPU.
"""

from __future__ import annotations

import time
from functools import partial

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import one_core, timed


SHAPES = ((100, 20), (100, 60), (20, 200))
GPU_SHAPES = ((1000, 20), (1000, 60), (100, 200))
QUICK = ((10, 12),)
STARTS = 64


def hidden(batch: int, n: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, their copies, and the copy of each point."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(batch, n, 3))
    turn = Rotation.random(batch, random_state=n).as_matrix()
    order = np.argsort(rng.random((batch, n)), 1)
    y = np.einsum("bij,bnj->bni", turn, x + noise * rng.normal(size=x.shape))
    y = np.take_along_axis(y + rng.normal(size=(batch, 1, 3)), order[..., None], 1)
    return x.astype(np.float32), y.astype(np.float32), np.argsort(order, 1)


def by_loop(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The pairs and the RMSD of the best of four starts."""
    x, y = x - x.mean(0), y - y.mean(0)
    axes = [np.linalg.eigh(p.T @ p)[1] for p in (x, y)]
    best, pairs = np.inf, np.arange(len(x))
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        turn = axes[1] * [*signs, 1] @ axes[0].T
        turn = turn if np.linalg.det(turn) > 0 else axes[1] * [*signs, -1] @ axes[0].T
        last, cols = np.full(len(x), -1), np.arange(len(x))
        while (cols != last).any():
            last = cols
            cost = (((x @ turn.T)[:, None] - y) ** 2).sum(-1)
            cols = linear_sum_assignment(cost)[1]
            u, _, vt = np.linalg.svd(x.T @ y[cols])
            turn = vt.T * [1, 1, np.sign(np.linalg.det(u) * np.linalg.det(vt))] @ u.T
        rmsd = float(np.sqrt(((x @ turn.T - y[cols]) ** 2).sum(-1).mean()))
        if rmsd < best:
            best, pairs = rmsd, cols
    return pairs, best


def measure(batch: int, n: int, noise: float) -> Row:
    x, y, truth = hidden(batch, n, noise)
    gpu = jax.default_backend() == "gpu"
    solve = jax.jit(lambda x, y: jm.solve_alignment(x, y, starts=STARTS))
    if gpu:
        res, ms = timed(solve, jax.numpy.asarray(x), jax.numpy.asarray(y), least=3, budget=1)
    else:
        with one_core():
            res, ms = timed(solve, x, y, least=3, budget=1)
    with one_core():
        start = time.perf_counter()
        loop = [by_loop(a, b) for a, b in zip(x, y, strict=True)]
        loop_ms = 1e3 * (time.perf_counter() - start)
    rmsd, theirs = np.asarray(res.rmsd), np.array([r for _, r in loop])
    pairs = np.asarray(res.col4row)
    row: Row = {"problems": batch, "n": n, "noise": noise, "ms": ms, "loop_ms": loop_ms}
    row |= {"loop/ours": ratio(loop_ms, ms)}
    row |= {"found": float((pairs == truth).all(-1).mean())}
    by_them = [(cols == own).all() for (cols, _), own in zip(loop, truth, strict=True)]
    row |= {"found by loop": float(np.mean(by_them))}
    row |= {"rmsd": float(rmsd.mean()), "rmsd of loop": float(theirs.mean())}
    row |= {"never above the loop": bool((rmsd <= theirs * (1 + 1e-4)).all())}
    row |= {"bound/value": float((np.asarray(res.bound) / np.asarray(res.value)).mean())}
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
    return row


def prove(n: int) -> Row:
    """The seconds of a proof after one that compiled it."""
    x, y, _ = (z[0] for z in hidden(1, n, 0.1))
    solve = partial(jm.solve_alignment, x.astype(float), y.astype(float), prove=True)
    with one_core():
        res, ms = timed(solve, least=3, budget=1)
    assert res.proved
    return {"n": n, "noise": 0.1, "seconds": ms / 1e3, "bound/value": float(res.bound / res.value)}


def main() -> None:
    args = options.parse(options.parser(__doc__, "a small batch, to try this out"))
    gpu = jax.default_backend() == "gpu"
    shapes = QUICK if args.quick else GPU_SHAPES if gpu else SHAPES
    rows: list[Row] = []
    for batch, n in shapes:
        for noise in (0.02, 0.2):
            rows.append(measure(batch, n, noise))
            print(rows[-1], flush=True)
    proofs = [prove(n) for n in ((6,) if args.quick else (6, 20, 30))]
    machine = record.gpu() if gpu else {}
    machine |= record.environment(["jax", "jaxlib", "numpy", "scipy"])
    record.print_table("alignment", rows)
    record.print_table("proofs", proofs)
    name = "alignment_gpu" if gpu else "alignment"
    print(record.write_json(args.out, name, machine | {"rows": rows, "proofs": proofs}))


if __name__ == "__main__":
    main()
