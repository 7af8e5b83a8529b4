"""Minimum-cost flow: single networks on one core beside its peers, batches on a GPU.

    python -m benchmarks.min_cost_flow.solve [--quick] [--rows PATTERN] [--no-peers] [--out FOLDER]

On a CPU: a call of `minimum_cost_flow` on NumPy arrays and a network that is there, beside or-tools
(cost scaling) and LEMON's network simplex (pylmcf), of which only the solve is timed, not what
builds their graphs; networkx on the smallest. All solve the same problem in turn, on one core; a
time is the median of what the processor spent, as other processes may have a part of it. Every
solver finds the same cost, and `check_minimum_cost_flow` proves ours. LEMON takes no negative costs
(it gets these arcs turned around), and neither of them takes floats (they get integers, where these
are fine enough). Absolute times on a CPU mean little elsewhere: the columns are ratios. Writes
`min_cost_flow_cpu.json` and `.png`.

On a GPU: batches of random networks by the call, beside one core of the host. Writes
`min_cost_flow_gpu.json`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

import jaxmatch as jm
from benchmarks.common import options, plots, record
from benchmarks.common.record import Row, ratio
from benchmarks.common.timing import one_core
from benchmarks.min_cost_flow import batches, peers
from benchmarks.min_cost_flow.problems import FAMILIES, SIZES, Problem, problem, sizes


METHODS = ["network_simplex", "cost_scaling"]
FAST = ["ortools", "LEMON"]  # of which the faster one counts
LEAST_RUNS, MOST_RUNS, BUDGET = 3, 25, 2.0  # seconds for all solvers together
SHORT = 20.0  # ms
PACKAGES = ["jax", "jaxlib", "numpy", "ortools", "pylmcf", "networkx"]
Make = Callable[[], Callable[[], Any]]


# ---------------------------------------------------------------------------------------------
# Single networks on one core


def in_turn(makes: dict[str, Make], once: tuple[str, ...] = ()) -> tuple[Row, dict[str, float]]:
    """The results of a first run, and the median processor milliseconds of all. What `makes`
    returns runs once. Solvers of `once` take seconds, and have one run.

    A short run comes after one of the same solver that does not count: what the others leave in the
    caches would slow it down, the more the less of it is built anew. The order changes, too."""
    rng, names = np.random.default_rng(0), [*makes]
    results: Row = {}
    spent: dict[str, list[float]] = {name: [] for name in makes}
    end = time.perf_counter() + BUDGET
    for run in range(MOST_RUNS):
        if run >= LEAST_RUNS and time.perf_counter() > end:
            break
        for name in rng.permutation(names) if run else names:
            make = makes[name]
            if run and name in once:
                continue
            if run and spent[name][0] < SHORT:
                make()()
            solve = make()
            start = time.process_time()
            result = solve()
            spent[name].append(1e3 * (time.process_time() - start))
            results.setdefault(name, result)
    return results, {name: statistics.median(x) for name, x in spent.items()}


def check(given: Problem, network: jm.FlowNetwork, results: Row) -> None:
    """Raises an AssertionError unless ours are proved and all costs agree."""
    arrays = given.capacity, given.cost, given.supply
    best = results["auto"]
    flowing = float(np.asarray(best.flow, np.float64).sum())
    exact = np.issubdtype(given.cost.dtype, np.integer)
    for name, result in results.items():
        if isinstance(result, jm.MinimumCostFlow):
            proof = jm.check_minimum_cost_flow(network, *arrays, result)
            assert result.status == jm.Status.OPTIMAL and proof.optimal, (name, result.status)
            assert not exact or proof.gap == 0, (name, proof.gap)
            result = result.cost
        apart = abs(float(result) - float(best.cost))
        rounding = 0 if exact else peers.unit_of(given) * flowing
        if name == "networkx" or not exact:
            rounding += 1e-12 * abs(float(best.cost))
        assert apart <= rounding, (name, float(result), float(best.cost))


def measure(given: Problem, with_peers: bool) -> Row:
    network = jm.FlowNetwork.from_edges(given.tail, given.head, given.nodes)
    network = jax.tree.map(np.asarray, network)
    arrays = given.capacity, given.cost, given.supply
    makes: dict[str, Make] = {
        method: lambda method=method: partial(jm.minimum_cost_flow, network, *arrays, method=method)
        for method in ("auto", *METHODS)
    }
    if with_peers:
        makes |= {
            name: partial(make, given)
            for name, make in peers.known().items()
            if peers.takes(name, given)
        }
    makes["auto"]()()  # loads what a first call loads
    results, ms = in_turn(makes, once=("networkx",))
    check(given, network, results)
    row: Row = {"nodes": given.nodes, "arcs": given.arcs}
    fastest = min((ms[name] for name in FAST if name in ms), default=None)
    row["ours/fastest"] = ratio(ms["auto"], fastest)
    row |= {f"{name}/ours": ratio(ms.get(name), ms["auto"]) for name in (*peers.PEERS, *METHODS)}
    return row


def cpu_rows(args: argparse.Namespace) -> Iterator[Row]:
    cases = [
        (name, k, arcs)
        for k in range(len(SIZES) - args.quick)
        for name in FAMILIES
        if args.rows.search(f"{name} {(arcs := sizes(name)[k])}")
    ]
    for name, k, arcs in tqdm(cases):
        with jax.enable_x64(True):
            yield {"family": name, "size": k} | measure(problem(name, arcs), args.peers)


def summary(found: list[Row]) -> Row:
    """Geometric mean and greatest of ours by the faster peer, and the least of each peer."""
    result: Row = {}
    groups = {"": found} | {
        f", {k + 1} of {len(SIZES)} sizes": [row for row in found if row["size"] == k]
        for k in range(len(SIZES))
    }
    for group, rows in groups.items():
        ours = [x for row in rows if (x := row["ours/fastest"])]
        if ours:
            result[f"ours/fastest, mean{group}"] = record.geometric_mean(ours)
            result[f"ours/fastest, greatest{group}"] = max(ours)
    for name in peers.PEERS:
        values = [x for row in found if (x := row[f"{name}/ours"])]
        if values:
            result[f"{name}/ours, mean"] = record.geometric_mean(values)
            result[f"{name}/ours, least"] = min(values)
    return result


def plot(found: list[Row], path: Any) -> None:
    """Times of peers relative to ours, a mark for each network."""
    figure, axes = plots.plt.subplots(figsize=(11, 5.5))
    found = [row for row in found if any(row[f"{name}/ours"] for name in peers.PEERS)]
    labels = [f"{row['family']}, {row['arcs']:,} arcs" for row in found]
    names = {"or-tools": "ortools", "LEMON": "LEMON", "networkx": "networkx"}
    plots.relative_to_ours(
        axes, labels, {k: [row[f"{v}/ours"] for row in found] for k, v in names.items()}
    )
    axes.set_title("Time of one network on one core, relative to jaxmatch (higher is slower)")
    plots.legend(axes)
    print(plots.save(figure, path))


def on_cpu(args: argparse.Namespace) -> None:
    found: list[Row] = []
    content: Row = record.environment(PACKAGES) | {"rows": found}
    for row in cpu_rows(args):
        found.append(row)
        content["summary"] = summary(found)
        record.write_json(args.out, "min_cost_flow_cpu", content)  # a run may be cut off
    record.print_table("minimum-cost flow, one core", found, hidden=["size"])
    of_all = [{"ratio": name, "value": x} for name, x in summary(found).items()]
    record.print_table("of all rows", of_all)
    if args.complete:
        plot(found, args.out / "min_cost_flow_cpu.png")


def on_gpu(args: argparse.Namespace) -> None:
    found: list[Row] = []
    content: Row = record.gpu() | record.environment(PACKAGES) | {"rows": found}
    cases = [case for case in batches.cases(args.quick) if args.rows.search(case.name)]
    for case in tqdm(cases):
        found.append(batches.measure(case, args.peers))
        record.write_json(args.out, "min_cost_flow_gpu", content)
    record.print_table("minimum-cost flow on a GPU, ms", found, hidden=[*batches.Case._fields])


def main() -> None:
    args = options.parse(options.parser(__doc__, "fewer and smaller problems", selects=True))
    with one_core():  # threads of JAX begin with the first look for a device
        on = jax.default_backend()
        if on != "gpu":
            return on_cpu(args)
    return on_gpu(args)


if __name__ == "__main__":
    main()
