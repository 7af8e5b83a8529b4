"""Cuts of grids of noise in batches on a GPU, beside one core.

    python -m benchmarks.flow.noise [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]

Unary terms are u and 1 - u for u uniform in [0, 1), float32, with four neighbours. Wall
milliseconds of one jitted call for the whole batch. One core solves up to eight grids, and so does
PyMaxflow on that core, without the time to build its graphs; their times are scaled up to the whole
batch. Values and sides of these grids must be those on the GPU. Writes
`grid_cut_noise_gpu.json`.
"""

from __future__ import annotations

import time

import jax
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import one_core, timed


CASES = [
    (grids, side, smoothness)
    for smoothness in (0.6, 2.0)
    for grids, side in ((1, 128), (8, 128), (32, 128), (132, 128), (1, 256), (16, 256), (1, 512))
]
MOST_ON_A_CORE = 8  # grids
QUICK_NODES = 2**17


def by_pymaxflow(source: np.ndarray, smoothness: float) -> tuple[float, float]:
    """The sum of the values of all cuts, and the milliseconds of the solves alone."""
    import maxflow

    values = seconds = 0.0
    for one in source.astype(np.float64):
        graph = maxflow.Graph[float]()
        nodes = graph.add_grid_nodes(one.shape)
        graph.add_grid_edges(nodes, smoothness, symmetric=True)
        graph.add_grid_tedges(nodes, one, 1 - one)
        start = time.perf_counter()
        values += graph.maxflow()
        seconds += time.perf_counter() - start
    return values, 1e3 * seconds


def measure(grids: int, side: int, smoothness: float, peers: bool) -> Row:
    source = np.random.default_rng(side).random((grids, side, side)).astype(np.float32)
    given = source, 1 - source, np.full((grids, 2, side, side), smoothness, np.float32)
    res, ms = timed(jax.jit(jm.grid_cut), *jax.device_put(given))
    row: Row = {"grids": grids, "side": side, "smoothness": smoothness, "ms": ms}
    few, pairwise = source[:MOST_ON_A_CORE], given[2][:MOST_ON_A_CORE]
    with one_core(), jax.default_device(jax.devices("cpu")[0]):
        start = time.perf_counter()
        on_core = jax.block_until_ready(jm.grid_cut(few, 1 - few, pairwise))
        row["core_ms"] = 1e3 * (time.perf_counter() - start) * grids / len(few)
        assert np.allclose(on_core.value, res.value[: len(few)], rtol=1e-6)
        assert (np.asarray(on_core.source_side) == np.asarray(res.source_side[: len(few)])).all()
        if peers:
            value, spent = by_pymaxflow(few, smoothness)
            assert np.isclose(value, np.sum(on_core.value, dtype=np.float64), rtol=1e-5)
            row["PyMaxflow_ms"] = spent * grids / len(few)
    row["gpu/core"] = record.ratio(ms, row["core_ms"])
    return row


def main() -> None:
    parser = options.parser(__doc__, f"at most {QUICK_NODES:,} nodes", selects=True)
    args = options.parse(parser)
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    versions = record.environment(["jax", "jaxlib", "numpy", "PyMaxflow"])
    content: Row = record.gpu() | versions | {"rows": []}
    for grids, side, smoothness in tqdm(CASES):
        name = f"{grids} x {side}^2, {smoothness}"
        if args.rows.search(name) and not (args.quick and grids * side**2 > QUICK_NODES):
            content["rows"].append(measure(grids, side, smoothness, args.peers))
            record.write_json(args.out, "grid_cut_noise_gpu", content)
    record.print_table("Cuts of noise on a GPU", content["rows"])


if __name__ == "__main__":
    main()
