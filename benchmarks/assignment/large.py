"""One large assignment on a GPU: `method="core"`, which is `"auto"` there.

    python -m benchmarks.assignment.large [--quick] [--rows PATTERN] [--out FOLDER]

Integers uniform on the ranges of Date and Nagi 2016, continuous costs, squared distances of points,
other dtypes, the largest that fits into one GPU, and costs on which candidates mislead. Device time
by the GPU's own clock where torch is there to ask for it (CUPTI), else the wall time of a call.
Beside it the counters of the solve: searches, rounds of label correcting, passes over all costs and
their bytes, and the share of each stage. Every answer is checked: optimal by its own duals, held
against every cost, and the known optimum where there is one. The peers' times were measured on such
a card, but not in this run. Tables 1 to 3 and figures 2 and 3 of Date and Nagi are made again with
`"classical"` and `"tree"`. Writes `assignment_large.json`, `.png` and `_hungarian.png`. A row's
name is like "ranges 5000 n/10".
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from benchmarks.common import options, record
from benchmarks.common.costs import below, splitmix64
from benchmarks.common.record import Row
from benchmarks.common.timing import kernel_ms, timed
from jaxmatch import stepping


# n, range: device ms to reach, and the optimum of the generator with seed 1.
RANGES: dict[tuple[int, str], tuple[float, int | None]] = {
    (1000, "n/10"): (0.10, 0), (1000, "n"): (0.40, 1196),
    (1000, "10n"): (1.2, 16084), (1000, "1e9"): (3, 1658574507),
    (5000, "n/10"): (0.35, 1), (5000, "n"): (1.6, 5742),
    (5000, "10n"): (5, 78955), (5000, "1e9"): (15, 1628569104),
    (10000, "n/10"): (0.85, 1), (10000, "n"): (3.3, 11496),
    (10000, "10n"): (10, 157958), (10000, "1e9"): (40, None),
    (20000, "n/10"): (2.2, 1), (20000, "n"): (10, 23646),
    (20000, "10n"): (30, 322810), (20000, "1e9"): (90, None),
}  # fmt: skip

# HyLAC on one H200, device ms; for 1e9 lapx (lapjvs) on one core of the same host.
PEERS = {
    1000: {"n/10": 0.8, "n": 5.4, "10n": 16.9, "1e9": 20},
    5000: {"n/10": 4.9, "n": 21, "10n": 81, "1e9": 567},
    10000: {"n/10": 7.4, "n": 44, "10n": 197},
    20000: {"n/10": 13.5, "n": 117, "10n": 628},
}

# Other costs: n, what, device ms to reach.
OTHERS: list[tuple[int, str, float | None]] = [
    (5000, "uniform float32", 1.3 * 15), (20000, "uniform float32", 1.3 * 90),
    (5000, "uniform float64", 2.5 * 15), (20000, "uniform float64", 2.5 * 90),
    (5000, "normal float32", None), (5000, "points 2D", 3 * 15), (5000, "points 8D", 3 * 15),
    (20000, "points 2D", 3 * 90), (20000, "points 8D", 3 * 90),
    (50000, "uniform float32", None), (100000, "uniform float32", None),
    (150000, "uniform bfloat16", None),
    (5000, "all equal", None), (5000, "zeros or ones", None), (5000, "three zeros a row", None),
    (5000, "rank one", None), (5000, "eight classes", None), (5000, "columns fourfold", None),
    (5000, "ten clusters", None), (1000, "outer product", None),
]  # fmt: skip


def greatest(n: int, name: str) -> int:
    return {"n/10": n // 10, "n": n, "10n": 10 * n}.get(name) or int(float(name))


def integers(n: int, most: int, seed: int = 1) -> jax.Array:
    """`uniform_integers`, made on the device."""

    @jax.jit
    def make() -> jax.Array:
        bits = splitmix64(jnp.arange(n * n, dtype=jnp.uint64), seed)
        return below(bits, most + 1).astype(jnp.int32).reshape(n, n)

    with jax.enable_x64(True):
        return jax.block_until_ready(make())


def structured(n: int, what: str) -> np.ndarray | None:
    """Costs on which candidates mislead, or None."""
    random = np.random.default_rng(n)
    match what:
        case "all equal":
            return np.zeros((n, n), np.int32)
        case "zeros or ones":
            return random.integers(0, 2, (n, n), np.int32)
        case "three zeros a row":
            return (random.random((n, n), np.float32) > 3 / n).astype(np.int32)
        case "rank one":
            return np.add.outer(*random.integers(0, 100, (2, n), np.int32))
        case "outer product":
            return np.outer(*random.integers(0, 100, (2, n), np.int32))
        case "eight classes":
            rows, cols = random.integers(0, 8, (2, n))
            return random.integers(0, 50, (8, 8), np.int32)[rows][:, cols]
        case "columns fourfold":
            return np.repeat(random.integers(0, n, (n, n // 4), np.int32), 4, 1)
        case "ten clusters":
            a, b = random.normal(0, 0.01, (2, n, 2)) + random.integers(0, 10, (2, n, 1))
            return ((a[:, None] - b) ** 2).sum(-1).astype(np.float32)
    return None


def other_costs(n: int, what: str) -> jax.Array:
    cost = structured(n, what)
    if cost is not None:
        return jax.block_until_ready(jnp.asarray(cost))
    kind, variant = what.split()
    key = jax.random.key(n)
    if kind == "points":
        a, b = jax.random.uniform(key, (2, n, int(variant[0])))
        distances = jax.jit(lambda: sum((x[:, None] - y) ** 2 for x, y in zip(a.T, b.T)))  # noqa: B905
        return jax.block_until_ready(distances())

    @jax.jit
    def make() -> jax.Array:  # one fused loop: nothing of this size but the result
        i, j = (jax.lax.broadcasted_iota(jnp.uint32, (n, n), d) for d in (0, 1))
        z = i * jnp.uint32(0x9E3779B1) + j * jnp.uint32(0x85EBCA77)
        for factor in (0x7FEB352D, 0x846CA68B):
            z = (z ^ (z >> 16)) * jnp.uint32(factor)
        x = (z >> 8).astype(variant) * jnp.asarray(2.0**-24, variant)
        return jax.scipy.stats.norm.ppf(x * 0.999 + 5e-4) if kind == "normal" else x

    with jax.enable_x64(variant == "float64"):
        return jax.block_until_ready(make())


@jax.jit
def least_reduced(cost: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
    return (cost.astype(u.dtype) - u[:, None] - v).min()


@jax.jit
def matched_reduced(cost: jax.Array, u: jax.Array, v: jax.Array, col4row: jax.Array) -> jax.Array:
    matched = jnp.take_along_axis(cost, col4row[:, None], 1)[:, 0]
    return jnp.abs(matched.astype(u.dtype) - u - v[col4row]).sum()


def check(cost: jax.Array, res: jm.Assignment, optimum: int | None) -> None:
    """Optimal by its duals, whatever the solver thinks."""
    assert int(res.status) == jm.Status.OPTIMAL
    n = len(cost)
    assert (np.sort(np.asarray(res.col4row)) == np.arange(n)).all()
    if optimum is not None:
        assert int(res.cost) == optimum, (res.cost, optimum)
    least = least_reduced(cost, res.row_dual, res.col_dual)
    matched = matched_reduced(cost, res.row_dual, res.col_dual, res.col4row)
    most = float(jnp.max(jnp.abs(res.row_dual)) + jnp.max(jnp.abs(res.col_dual)))
    # Duals are exact up to 53 bits of the grid, and are compared after one rounding.
    assert float(least) >= -8e-16 * most - float(res.gap), (least, most)
    assert abs(float(matched)) <= n * 8e-16 * most + float(res.gap), (matched, most)


def measure(cost: jax.Array, optimum: int | None, target: float | None) -> Row:
    with jax.enable_x64(True):
        solve = jax.jit(lambda c: jm.solve_assignment(c, method="core"))
        res, call_ms = timed(solve, cost, least=3, most=3)
        check(cost, res, optimum)
        device = kernel_ms(lambda: solve(cost), 3)
        state = stepping.step(cost, stepping.init(cost), steps=10**6)
    assert bool(state.done) and int(state.result.col4row[0]) == int(res.col4row[0])
    # Column minima, cores; then at most: a pricing, and those of its rows that get a new core.
    passes = 2 + 2 * int(state.pricings) + int(state.dense_steps)
    return {
        "device_ms": device or call_ms,
        "to_reach": target or "",
        "call_ms": call_ms,
        "phases": int(state.steps),
        "rounds": int(state.termination_rounds),
        "pricings": int(state.pricings),
        "dense": int(state.dense_steps),
        "gigabytes_at_most": passes * cost.nbytes / 1e9,
        "gap": float(res.gap),
        "stages_ms": {k: round(x, 4) for k, x in state.stage_ms().items()},
    }


def ranges(args: argparse.Namespace) -> Iterator[Row]:
    for (n, name), (target, optimum) in RANGES.items():
        if wanted(args, "ranges", n, name):
            measured = measure(integers(n, greatest(n, name)), optimum, target)
            peer = PEERS[n].get(name)
            ratio = peer / measured["device_ms"] if peer else ""
            yield {"n": n, "costs": name, **measured, "peer_ratio": ratio}


def others(args: argparse.Namespace) -> Iterator[Row]:
    for n, what, target in OTHERS:
        if wanted(args, "others", n, what):
            yield {"n": n, "costs": what, **measure(other_costs(n, what), None, target)}


def wanted(args: argparse.Namespace, part: str, n: int, name: str = "", most: int = 5000) -> bool:
    """Whether a row is one of `--rows`, and of `--quick`, which goes up to n = `most`."""
    return not (args.quick and n > most) and bool(args.rows.search(f"{part} {n} {name}".strip()))


def hungarian(cost: jax.Array, method: str) -> tuple[stepping.AssignmentState, float]:
    solve = jax.jit(
        lambda c: stepping.step(c, stepping.init(c, method=method), steps=10**6)  # all
    )
    state, ms = timed(solve, cost, least=3, most=3)
    assert int(state.result.status) == jm.Status.OPTIMAL and float(state.result.gap) == 0
    return state, ms


def tables(args: argparse.Namespace) -> Iterator[Row]:
    """Tables 1 and 3 and figure 3 of Date and Nagi 2016: which variant wins where."""
    small = [(n, "n") for n in range(500, 5001, 500)]
    large = [(n, r) for r in ("n/10", "n", "10n") for n in (5000, 10000, 15000, 20000)]
    for n, name in small if args.quick else small + large:
        if not wanted(args, "tables_1_and_3", n, name):
            continue
        cost = integers(n, greatest(n, name))
        row: Row = {"n": n, "costs": name}
        for method in ("classical", "tree", "core"):
            state, row[f"{method}_ms"] = hungarian(cost, method)
            row["objective"] = float(state.result.cost)
            if method != "core":
                row[f"{method}_steps_ms"] = {k: round(x, 3) for k, x in state.stage_ms().items()}
                row[f"{method}_iterations"] = int(state.steps)
                row[f"{method}_updates"] = int(state.pricings)
                row[f"{method}_levels"] = int(state.termination_rounds)
        yield row


def found_by_iteration(args: argparse.Namespace) -> Iterator[Row]:
    """Table 2: the number of assignments that the tree variant finds by iteration."""
    step = jax.jit(stepping.step)
    for n in (1000, 2000, 3000, 4000, 5000):
        if not wanted(args, "table_2", n, most=2000):
            continue
        cost = integers(n, n)
        state, matched = stepping.init(cost, method="tree"), [0]
        while not state.done:
            state = step(cost, state)
            matched.append(int(state.matched_rows))
        found = np.diff(matched)
        later = {f"{k + 1}-{k + 5}": int(found[k + 1 : k + 6].sum()) for k in range(0, 35, 5)}
        yield {"n": n, "initial": int(found[0]), **later}


def methods(args: argparse.Namespace) -> Iterator[Row]:
    """Batches by one block for each problem, or by the whole GPU one after another."""
    for n in (256, 512, 1000, 2000, 4000):
        for batch in (1, 2, 4, 8, 16):
            if batch * n > 20_000 or not wanted(args, "methods", n, f"batch {batch}", most=2000):
                continue
            costs = jax.random.uniform(jax.random.key(n), (batch, n, n))
            row: Row = {"n": n, "batch": batch}
            for method in ("jonker_volgenant", "core"):
                solve = jax.jit(partial(jm.solve_assignment, method=method))
                res, row[method] = timed(solve, costs, least=3, most=3)
                assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
            yield row


def plot(rows: Sequence[Row], path: Path) -> None:
    from benchmarks.common.plots import legend, plt, save, stacked_shares

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for k, name in enumerate(("n/10", "n", "10n", "1e9")):
        mine = [r for r in rows if r["costs"] == name]
        sizes = [r["n"] for r in mine]
        left.plot(sizes, [r["device_ms"] for r in mine], f"C{k}o-", label=f"to {name}")
        peer = [(n, PEERS[n][name]) for n in sizes if name in PEERS[n]]
        left.plot(*zip(*peer, strict=True), f"C{k}x:")
    left.set(xscale="log", yscale="log", xlabel="n", ylabel="device ms")
    peers = "HyLAC, for 1e9 lapjvs on one core"
    left.set_title(f"integers; crosses: {peers}, measured earlier", fontsize=10)
    legend(left)
    last = [r for r in rows if r["n"] == max(x["n"] for x in rows)]
    stacked_shares(right, [r["costs"] for r in last], [r["stages_ms"] for r in last])
    right.set_title(f"stages, n = {last[0]['n']}", fontsize=10)
    save(figure, path)


def plot_tables(rows: Sequence[Row], path: Path) -> None:
    """Figures 2 and 3 of the paper."""
    from benchmarks.common.plots import legend, plt, save, stacked_shares

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    small = [r for r in rows if r["n"] <= 5000 and r["costs"] == "n"][:10]
    for method in ("classical", "tree", "core"):
        times = [r[f"{method}_ms"] for r in small]
        left.plot([r["n"] for r in small], times, "o-", label=method)
    left.set(yscale="log", xlabel="n, costs to n", ylabel="ms of a call")
    legend(left)
    last = [r for r in rows if r["n"] == max(x["n"] for x in rows)]
    bars = [(r, method) for r in last for method in ("classical", "tree")]
    labels = [f"{method}\n{r['costs']}" for r, method in bars]
    stacked_shares(right, labels, [r[f"{method}_steps_ms"] for r, method in bars])
    right.set_title(f"steps, n = {last[0]['n']}", fontsize=10)
    save(figure, path)


PARTS = {
    "ranges": ranges,
    "others": others,
    "methods": methods,
    "tables_1_and_3": tables,
    "table_2": found_by_iteration,
}
TITLES = {
    "methods": "methods, wall ms of a call",
    "tables_1_and_3": "tables 1 and 3 of Date and Nagi, wall ms",
    "table_2": "table 2: assignments found by the tree variant",
}


def main() -> None:
    args = options.parse(options.parser(__doc__, "nothing larger than 5000", selects=True))
    if jax.default_backend() != "gpu":
        raise SystemExit("This benchmark needs a GPU.")
    content: Row = record.gpu() | record.environment(["jax", "jaxlib", "numpy", "torch"])
    for name, part in PARTS.items():
        content[name] = []
        for row in part(args):
            print(row, flush=True)
            content[name].append(row)
        path = record.write_json(args.out, "assignment_large", content)
    for name in PARTS:
        hidden = [f"{x}_ms" for x in ("stages", "classical_steps", "tree_steps")]
        record.print_table(TITLES.get(name, name), content[name], hidden)
    if args.complete and importlib.util.find_spec("matplotlib"):
        plot(content["ranges"], path.with_suffix(".png"))
        plot_tables(content["tables_1_and_3"], path.with_name("assignment_large_hungarian.png"))


if __name__ == "__main__":
    main()
