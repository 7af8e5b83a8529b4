"""Cuts of images after small changes on one core: from the cut before, and anew.

    python -m benchmarks.flow.warm_cuts [--quick] [--rows PATTERN] [--out FOLDER]

An image of 512x512 cells: smooth unaries with noise, arcs that weigh less across contrast, and two
strokes of seeds. Then 1 % of the cells change, frame after frame: a square of seeds is added
("stroke"), or scattered cells become seeds ("seeds") or draw new unaries ("unaries"). `warm_ms` and
`cold_ms` are the wall times of whole jitted calls, from arrays to arrays, and `flow_ms` is that of
a cold call that also returns its flow; medians over frames. Warm and cold cuts must be the same.
Writes `grid_cut_warm_cpu.json`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import jax
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.record import Row
from benchmarks.common.timing import one_core


SIDE, QUICK_SIDE, FRAMES, SHARE = 512, 64, 9, 0.01
UNIT, SEED = 100, 100_000  # of integers
CASES = [
    (change, dtype, neighbours)
    for change in ("stroke", "seeds", "unaries")
    for dtype in ("int32", "float32")
    for neighbours in (4, 8)
]


def smooth(rng: np.random.Generator, side: int, width: float) -> np.ndarray:
    """Gaussian noise, blurred periodically and scaled to a deviation of 1."""
    at = np.fft.fftfreq(side)
    keeps = np.exp(-2 * (np.pi * width) ** 2 * (at[:, None] ** 2 + at**2))
    field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(side, side))) * keeps).real
    return field / field.std()


def image_of(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unaries of both sides and an image."""
    rng = np.random.default_rng(side)
    image = 0.5 + 0.25 * smooth(rng, side, side / 24) + 0.15 * rng.normal(size=(side, side))
    return image**2, (image - 1) ** 2, image


def arcs_of(image: np.ndarray, neighbours: int) -> np.ndarray:
    arcs = []
    for step in [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]:
        contrast = image - np.roll(image, np.negative(step), (0, 1))
        arcs.append(0.6 / np.hypot(*step) * np.exp(-4 * contrast**2))
    return np.stack(arcs)


def frames(
    change: str, dtype: str, neighbours: int, side: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The capacities of the first image, then of each change."""
    rng = np.random.default_rng(1)
    source, sink, image = image_of(side)
    arcs = arcs_of(image, neighbours)
    unit, seed = (UNIT, SEED) if dtype == "int32" else (1, np.inf)
    source, sink, arcs = (np.round(unit * x) if unit > 1 else x for x in (source, sink, arcs))
    source[side // 4 : side // 4 + 8, side // 8 : -side // 8] = seed
    sink[-side // 4 : -side // 4 + 8, side // 8 : -side // 8] = seed
    yield source.astype(dtype), sink.astype(dtype), arcs.astype(dtype)
    for _ in range(FRAMES):
        if change == "stroke":
            width = round(side * SHARE**0.5)
            y, x = rng.integers(side - width, size=2)
            at = np.zeros((side, side), bool)
            at[y : y + width, x : x + width] = True
        else:
            at = rng.random((side, side)) < SHARE
        if change == "unaries":
            drawn = 0.5 + 0.3 * rng.normal(size=(side, side))
            for x, new in ((source, drawn**2), (sink, (drawn - 1) ** 2)):
                x[at] = np.round(unit * new[at]) if unit > 1 else new[at]
        else:
            is_source = rng.random((side, side) if change == "seeds" else ()) < 0.5
            source[at & is_source], sink[at & ~is_source] = seed, seed
            source[at & ~is_source], sink[at & is_source] = 0, 0
        yield source.astype(dtype), sink.astype(dtype), arcs.astype(dtype)


def measure(change: str, dtype: str, neighbours: int, side: int) -> Row:
    find = partial(jm.grid_cut, connectivity=neighbours)
    cold, with_flow = jax.jit(find), jax.jit(partial(find, return_flow=True))
    warm = jax.jit(lambda *given: find(*given[:3], warm_start=given[3]))

    def timed(solve, *given):
        jax.block_until_ready(solve(*given))
        start = time.perf_counter()
        cut = jax.block_until_ready(solve(*given))
        return cut, 1e3 * (time.perf_counter() - start)

    last, times = None, []
    for frame in frames(change, dtype, neighbours, side):
        given = jax.device_put(frame)
        anew, cold_ms = timed(cold, *given)
        flow, flow_ms = timed(with_flow, *given)
        if last is None:
            last = flow
            continue
        last, warm_ms = timed(warm, *given, last)
        assert anew.value == last.value
        np.testing.assert_array_equal(anew.source_side, last.source_side)
        times.append((cold_ms, flow_ms, warm_ms))
    row: Row = {"change": change, "dtype": dtype, "neighbours": neighbours, "side": side}
    medians = [statistics.median(x) for x in zip(*times, strict=True)]
    row |= dict(zip(("cold_ms", "flow_ms", "warm_ms"), medians, strict=True))
    row["warm/cold"] = medians[2] / medians[0]
    return row


def main() -> None:
    args = options.parse(options.parser(__doc__, f"images of {QUICK_SIDE}^2", selects=True))
    jax.config.update("jax_platforms", "cpu")
    content: Row = record.environment(["jax", "jaxlib", "numpy"]) | {"rows": []}
    with one_core():
        for change, dtype, neighbours in tqdm(CASES):
            if args.rows.search(f"{change}, {dtype}, {neighbours}"):
                side = QUICK_SIDE if args.quick else SIDE
                content["rows"].append(measure(change, dtype, neighbours, side))
    record.write_json(args.out, "grid_cut_warm_cpu", content)
    record.print_table("Cuts of images after small changes, on one core", content["rows"])


if __name__ == "__main__":
    main()
