"""Long solves and a Ctrl-C in the middle of each: prints how each ends, and after how long.

Started by tests/common/test_interrupt.py. A regular expression chooses cases.
"""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm
from jaxmatch.estimators import Perturbed


# A solve, and how many CPU seconds after its start the signal comes.
Case = tuple[Callable[[], Any], float]
_MOST_WAIT = 60  # seconds


def interrupt(name: str, solve: Callable[[], Any], after: float) -> None:
    """A line: the name, how the solve ended, and milliseconds from the signal to there.

    Of the time that has passed and of the time of all CPUs, it is the less: other programs make the
    first longer, and several threads the second.
    """
    sent, ended = [(float("nan"), float("nan"))], threading.Event()
    begun = time.process_time()

    def send() -> None:
        latest = time.perf_counter() + _MOST_WAIT
        while time.process_time() - begun < after and time.perf_counter() < latest:
            if ended.wait(0.001):
                return
        sent[0] = time.perf_counter(), time.process_time()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        how = "finished"
        how = f"status {np.asarray(solve().status).ravel()[0]}"
    except KeyboardInterrupt:
        how = "interrupted"
    except AttributeError:  # a result without status
        pass
    took = min(time.perf_counter() - sent[0][0], time.process_time() - sent[0][1])
    while sender.is_alive():
        try:
            ended.set()
            sender.join()
        except KeyboardInterrupt:  # the solve was faster than the signal
            how += " before"
    print(f"{name}: {how}, {1e3 * took:.0f} ms", flush=True)


def in_program(f: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """A compiled program, which waits for its results."""
    arrays = jax.tree.map(jnp.asarray, given)
    compiled = jax.jit(f).lower(*arrays).compile()
    return lambda: jax.block_until_ready(compiled(*arrays))


# --- Problems.


def drawn() -> np.random.Generator:
    return np.random.default_rng(0)


@cache
def clouds(n: int) -> np.ndarray:
    x, y = drawn().normal(size=(2, n, 3)) + np.array([0, 3])[:, None, None]
    return ((x[:, None] - y) ** 2).sum(-1)


@cache
def narrow_clouds(n: int) -> np.ndarray:
    return clouds(n).astype(np.float32)


@cache
def points(n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = drawn().normal(size=(2, n, 3)) + np.array([0, 3])[:, None, None]
    return x.astype(np.float32), y.astype(np.float32)


@cache
def graph(n: int, degree: int) -> jm.BipartiteGraph:
    """Edges of a ring and of chance, so that augmenting paths are long."""
    rng = drawn()
    rows = np.repeat(np.arange(n), degree)
    cols = (rows + rng.integers(0, 40, len(rows)) ** 2) % n
    return jm.BipartiteGraph.from_edges(rows, cols, (n, n))


@cache
def network(side: int) -> tuple[jm.FlowNetwork, np.ndarray]:
    """A grid of nodes with random capacities; source and sink are corners."""
    rng = drawn()
    node = np.arange(side * side).reshape(side, side)
    tail = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    head = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    ends = np.concatenate([tail, head]), np.concatenate([head, tail])
    capacity = rng.integers(1, 1000, len(ends[0])).astype(np.int32)
    capacity[(ends[0] == 0) | (ends[1] == side * side - 1)] = 10**6
    return jm.FlowNetwork.from_edges(*ends, side * side), capacity


@cache
def image(side: int, arcs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = drawn()
    source, sink = rng.integers(0, 1000, (2, side, side)).astype(np.int32)
    return source, sink, rng.integers(0, 400, (arcs, side, side)).astype(np.int32)


# --- Cases: a line for each handler and each method that works on the CPU.


def assignments() -> Iterator[tuple[str, Case]]:
    cost, narrow = clouds(4000), narrow_clouds(4000)
    yield "numpy", (lambda: jm.solve_assignment(cost), 0.2)
    for method in ("core", "auction", "classical", "tree", "jonker_volgenant"):
        yield method, (partial(jm.solve_assignment, narrow, method=method), 0.1)
    leave = np.full(4000, 30, np.float32)
    yield "unmatched", (lambda: jm.solve_assignment(narrow, unmatched_cost=leave), 0.1)
    yield "jit", (in_program(jm.solve_assignment, narrow), 0.2)

    def many(count: int, cost: Any) -> Any:
        """Each solve is short; the loop is not."""
        res = jm.solve_assignment(cost)

        def solve(_: Any, last: Any) -> Any:
            return jm.solve_assignment(cost + jnp.where(jnp.isnan(last.cost), 0, last.cost * 0))

        return jax.lax.fori_loop(0, count, solve, res)

    for n, count in ((700, 200), (90, 10_000)):
        yield f"loop of {n}", (in_program(partial(many, count), narrow[:n, :n]), 0.8)
    steps = partial(jm.solve_assignment, method="tree", steps_per_call=3)
    yield "steps", (in_program(steps, narrow), 0.3)
    batch = np.stack([cost[:1500, :1500] + k for k in range(60)])
    yield "batch", (lambda: jm.solve_assignment(batch), 0.2)
    yield "k best", (lambda: jm.k_best_assignments(cost[:600, :600], k=3000), 0.2)
    yield "bottleneck", (in_program(jm.bottleneck_assignment, narrow), 0.1)
    rule = Perturbed(0.5, 64)
    draw = partial(jm.assignment_matrix, estimator=rule, key=jax.random.key(0))
    yield "perturbed", (in_program(draw, narrow[:600, :600]), 0.2)


def between_points() -> Iterator[tuple[str, Case]]:
    x, y = points(20_000)
    yield "points", (in_program(jm.solve_assignment_points, x, y), 0.2)
    few = x[:3000], y[:3000]
    for method in ("core", "jonker_volgenant"):
        yield f"points by {method}", (
            partial(jm.solve_assignment_points, *few, method=method), 0.05
        )  # fmt: skip
    yield "radius", (
        lambda: jm.solve_assignment_points(x, y - [0, 0, 3], radius=1.5, unmatched_cost=1.0), 0.2
    )  # fmt: skip
    ones = np.ones((2, 3000), np.int32)
    yield "transport of points", (lambda: jm.solve_transport_points(*few, *ones), 0.2)


def transport() -> Iterator[tuple[str, Case]]:
    cost = clouds(4000)
    masses = np.ones((2, 4000), np.int32)
    yield "transport", (lambda: jm.solve_transport(cost, *masses), 0.3)
    room = np.full(1000, 4, np.int32)
    yield "capacities", (
        lambda: jm.solve_capacitated_assignment(cost[:, :1000], col_capacity=room), 0.1
    )  # fmt: skip
    many, few = drawn().random((4000, 2)), drawn().random((1000, 3))[:, 1:]
    yield "capacities of points", (
        lambda: jm.solve_capacitated_assignment_points(many, few, col_capacity=room), 0.1
    )  # fmt: skip
    tall = drawn().random((1_000_000, 8))
    demand = np.full(8, len(tall) // 8, np.int32)
    for after in (0.03, 0.1, 0.2, 0.4, 0.6):
        yield f"few columns after {after}", (
            lambda: jm.solve_transport(tall, np.ones(len(tall), np.int32), demand), after
        )  # fmt: skip


def graphs() -> Iterator[tuple[str, Case]]:
    known = graph(1_500_000, 4)
    for method in ("auto", "hopcroft_karp", "hkdw", "pothen_fan", "push_relabel", "p_pfp"):
        yield f"matching by {method}", (
            partial(jm.maximum_bipartite_matching, known, method=method), 0.03
        )  # fmt: skip
    weight = drawn().integers(0, 10**6, len(known.col_ind)).astype(np.int32)
    solve = partial(jm.solve_sparse_assignment, known, weight, cardinality="maximum")
    yield "sparse", (solve, 0.3)
    edges, capacity = network(1200)
    for method in ("auto", "augment", "pseudoflow"):
        yield f"flow by {method}", (
            partial(jm.maximum_flow, edges, capacity, 0, 1200**2 - 1, method=method), 0.05
        )  # fmt: skip
    yield "cut", (lambda: jm.minimum_cut(edges, capacity, 0, 1200**2 - 1), 0.05)
    for arcs in (4, 8):
        grid = image(1500, arcs)
        yield f"grid cut of {arcs}", (partial(jm.grid_cut, *grid, connectivity=arcs), 0.2)


def in_another_thread() -> None:
    """Ctrl-C while the main thread waits for a solve in another one."""
    cost = clouds(4000)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(jm.solve_assignment, cost)
        sender = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        sender.start()
        try:
            future.result()
        except KeyboardInterrupt:
            pass
        try:
            how = f"status {future.result(60).status}"
        except RuntimeError as error:
            how = f"RuntimeError: {error}"
    print(f"thread: {how}, 0 ms", flush=True)


def main() -> None:
    chosen = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    for cases in (assignments, between_points, transport, graphs):
        for name, (solve, after) in cases():
            if chosen.search(name):
                interrupt(name, solve, after)
    if chosen.search("thread"):
        in_another_thread()
    signal.signal(signal.SIGINT, lambda *_: None)
    cost = clouds(2000)
    interrupt("own handler", lambda: jm.solve_assignment(cost), 0.05)
    res = jm.solve_assignment(narrow_clouds(50))
    print(f"afterwards: status {res.status}, 0 ms")


if __name__ == "__main__":
    sys.exit(main())
