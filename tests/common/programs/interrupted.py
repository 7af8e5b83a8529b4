"""Long solves and a Ctrl-C in the middle of each: prints how each ends, and after how long.

Started by tests/common/test_interrupt.py.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


rng = np.random.default_rng(0)


def clouds(n: int) -> np.ndarray:
    x, y = rng.normal(size=(2, n, 3)) + np.array([0, 3])[:, None, None]
    return ((x[:, None] - y) ** 2).sum(-1)


def interrupt(name: str, solve: Callable[[], Any], after: float = 0.2) -> None:
    """A line: the name, how the solve ended, and milliseconds from the signal to there."""
    sent = [float("nan")]

    def send() -> None:
        time.sleep(after)
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    how = "interrupted"
    try:
        how = f"status {np.asarray(solve().status).ravel()[0]}"
    except KeyboardInterrupt:
        pass
    took = time.perf_counter() - sent[0]
    while sender.is_alive():
        try:
            sender.join()
        except KeyboardInterrupt:  # the solve was faster than the signal
            how += " before"
    print(f"{name}: {how}, {1e3 * took:.0f} ms", flush=True)


def main() -> None:
    cost = clouds(4000)
    narrow = cost.astype(np.float32)
    interrupt("numpy", lambda: jm.solve_assignment(cost))
    for method in ("core", "auction", "classical", "tree"):
        interrupt(method, lambda m=method: jm.solve_assignment(narrow, method=m), 0.1)
    traced = jnp.asarray(narrow)
    compiled = jax.jit(jm.solve_assignment).lower(traced).compile()
    interrupt("jit", lambda: jax.block_until_ready(compiled(traced)))

    def many(cost: Any, count: int) -> Any:
        """Each solve is short; the loop is not."""
        res = jm.solve_assignment(cost)

        def solve(_: Any, last: Any) -> Any:
            return jm.solve_assignment(cost + jnp.where(jnp.isnan(last.cost), 0, last.cost * 0))

        return jax.lax.fori_loop(0, count, solve, res)

    for n, count in ((700, 400), (90, 10_000)):
        small = traced[:n, :n]
        loop = jax.jit(many, static_argnums=1).lower(small, count).compile()
        interrupt(f"loop of {n}", lambda s=small, f=loop: jax.block_until_ready(f(s)), 0.8)
    steps = jax.jit(lambda c: jm.solve_assignment(c, method="tree", steps_per_call=3))
    stepped = steps.lower(traced).compile()
    interrupt("steps", lambda: jax.block_until_ready(stepped(traced)), 0.3)
    batch = np.stack([cost[:1500, :1500] + k for k in range(60)])
    interrupt("batch", lambda: jm.solve_assignment(batch))
    points = rng.normal(size=(2, 20_000, 3)) + np.array([0, 3])[:, None, None]
    near = jax.jit(jm.solve_assignment_points).lower(*points.astype(np.float32)).compile()
    interrupt("points", lambda: jax.block_until_ready(near(*points.astype(np.float32))))
    interrupt("transport", lambda: jm.solve_transport(cost, *np.ones((2, 4000), np.int32)), 0.3)
    interrupt("k best", lambda: jm.k_best_assignments(cost[:600, :600], k=3000))
    n = 200_000
    graph = jm.BipartiteGraph.from_edges(
        np.repeat(np.arange(n), 8), rng.integers(0, n, 8 * n), (n, n)
    )
    weight = rng.integers(0, 10**6, len(graph.col_ind)).astype(np.int32)
    interrupt(
        "sparse", lambda: jm.solve_sparse_assignment(graph, weight, cardinality="maximum"), 0.3
    )
    size = 1500
    source, sink = rng.integers(0, 1000, (2, size, size)).astype(np.int32)
    edges = rng.integers(0, 400, (4, size, size)).astype(np.int32)
    interrupt("grid cut", lambda: jm.grid_cut(source, sink, edges), 0.3)
    signal.signal(signal.SIGINT, lambda *_: None)
    interrupt("own handler", lambda: jm.solve_assignment(cost[:2000, :2000]), 0.05)
    res = jm.solve_assignment(narrow[:50, :50])
    print(f"afterwards: status {res.status}, 0 ms")


if __name__ == "__main__":
    sys.exit(main())
