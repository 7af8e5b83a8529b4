"""Cuts of volumes with 6, 18 and 26 neighbours on one core, beside PyMaxflow.

    python -m benchmarks.flow.volumes [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]

A ball in noise, and noise alone, of 64^3 cells. An arc weighs 1 divided by its length, scaled so
that the arcs of a cell have the same sum for each number of neighbours. `ms` is the wall time of a
whole jitted call, from arrays to arrays; PyMaxflow builds its graph and then solves it. Medians of
calls in turn. Values must be equal. Writes `grid_cut_volumes_cpu.json`.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import jax
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import one_core
from jaxmatch._grid_cut.directions import steps


SIDE, QUICK_SIDE, TIMES = 64, 24, 9
CASES = [
    (name, dtype, neighbours)
    for name in ("ball", "noise")
    for dtype in ("int32", "float32")
    for neighbours in (6, 18, 26)
]
UNIT = 100  # of integers


def terms(name: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """What a cell costs outside and inside."""
    rng = np.random.default_rng(side)
    if name == "noise":
        u = rng.random((side, side, side))
        return u, 1 - u
    at = np.mgrid[:side, :side, :side] - side / 2
    ball = (at**2).sum(0) < (side / 3) ** 2
    image = ball + 0.6 * rng.normal(size=ball.shape)
    return image**2, (image - 1) ** 2


def weights(neighbours: int) -> np.ndarray:
    """Of the arcs of the first half of the directions."""
    lengths = np.linalg.norm(steps(neighbours)[: neighbours // 2], axis=1)
    return 3 * 0.3 / lengths / (1 / lengths).sum()


def by_pymaxflow(
    source: np.ndarray, sink: np.ndarray, weight: np.ndarray, neighbours: int
) -> tuple[float, float, float]:
    """The value, and the seconds of building and of solving."""
    import maxflow

    shape = np.zeros((3, 3, 3))
    for step, w in zip(steps(neighbours), weight, strict=False):
        shape[tuple(np.add(step, 1))] = w
    kind = int if source.dtype.kind == "i" else float
    start = time.perf_counter()
    graph = maxflow.Graph[kind](source.size, neighbours // 2 * source.size)
    nodes = graph.add_grid_nodes(source.shape)
    graph.add_grid_edges(nodes, structure=shape, symmetric=True)
    graph.add_grid_tedges(nodes, source, sink)
    middle = time.perf_counter()
    value = graph.maxflow()
    return value, middle - start, time.perf_counter() - middle


def measure(name: str, dtype: str, neighbours: int, side: int, peers: bool) -> Row:
    source, sink = terms(name, side)
    weight = weights(neighbours)
    if dtype == "int32":
        source, sink, weight = (np.round(UNIT * x) for x in (source, sink, weight))
    source, sink, weight = (x.astype(dtype) for x in (source, sink, weight))
    pairwise = np.broadcast_to(weight[:, None, None, None], (len(weight), *source.shape))
    solve = jax.jit(partial(jm.grid_cut, connectivity=neighbours))
    given = jax.device_put((source, sink, pairwise))
    cut = jax.block_until_ready(solve(*given))
    assert jm.check_grid_cut(*given, cut, connectivity=neighbours).optimal
    ours, builds, solves = [], [], []
    for _ in range(TIMES):
        start = time.perf_counter()
        jax.block_until_ready(solve(*given))
        ours.append(time.perf_counter() - start)
        if peers:
            value, build, spent = by_pymaxflow(source, sink, weight, neighbours)
            assert np.isclose(value, float(cut.value), rtol=0 if dtype == "int32" else 1e-5)
            builds.append(build)
            solves.append(spent)
    row: Row = {"volume": name, "dtype": dtype, "neighbours": neighbours, "side": side}
    row["inside"] = float(np.asarray(cut.source_side).mean())
    row["ms"] = 1e3 * statistics.median(ours)
    if peers:
        row["PyMaxflow_build_ms"] = 1e3 * statistics.median(builds)
        row["PyMaxflow_solve_ms"] = 1e3 * statistics.median(solves)
        row["PyMaxflow_solve/ours"] = row["PyMaxflow_solve_ms"] / row["ms"]
        both = row["PyMaxflow_build_ms"] + row["PyMaxflow_solve_ms"]
        row["PyMaxflow/ours"] = both / row["ms"]
    return row


def main() -> None:
    parser = options.parser(__doc__, f"volumes of {QUICK_SIDE}^3", selects=True)
    args = options.parse(parser)
    jax.config.update("jax_platforms", "cpu")
    versions = record.environment(["jax", "jaxlib", "numpy", "PyMaxflow"])
    content: Row = versions | {"rows": []}
    with one_core():
        for name, dtype, neighbours in tqdm(CASES):
            if args.rows.search(f"{name}, {dtype}, {neighbours}"):
                side = QUICK_SIDE if args.quick else SIDE
                row = measure(name, dtype, neighbours, side, args.peers)
                content["rows"].append(row)
    record.write_json(args.out, "grid_cut_volumes_cpu", content)
    record.print_table("Cuts of volumes on one core", content["rows"])


if __name__ == "__main__":
    main()
