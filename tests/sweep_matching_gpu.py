"""Small graphs by every matching kernel on the GPU, for tools that watch memory:

    compute-sanitizer --tool memcheck python tests/sweep_matching_gpu.py

test_matching_sanitizer.py runs it.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


VARIANTS = [("auto", {}), ("none", {})]
VARIANTS += [
    ("push_relabel", {"variant": variant, "relabel": relabel})
    for variant in ("first", "active", "shrink")
    for relabel in ("adaptive", "fixed")
]
VARIANTS += [
    (method, {"kernel": kernel, "threads": threads, "alternate": alternate})
    for method in ("apsb", "apfb")
    for kernel, alternate in (("gpubfs", "paths"), ("gpubfs_wr", "paths"), ("gpubfs_wr", "roots"))
    for threads in ("ct", "mt")
]


def graphs() -> list[jm.BipartiteGraph]:
    rng = np.random.default_rng(0)

    def random(n: int, m: int, e: int) -> jm.BipartiteGraph:
        return jm.BipartiteGraph.from_edges(rng.integers(0, n, e), rng.integers(0, m, e), (n, m))

    at = np.arange(700)
    return [
        random(5, 7, 12),
        random(60, 64, 130),
        random(300, 200, 700),
        random(5000, 4000, 12_000),
        jm.BipartiteGraph.from_edges(np.r_[at, 0 * at], np.r_[0 * at, at], (700, 700)),  # two hubs
        jm.BipartiteGraph.from_edges(np.r_[at, at[1:]], np.r_[at, at[:-1]], (700, 700)),  # a path
        jm.BipartiteGraph.from_edges([], [], (3, 0)),
        jm.BipartiteGraph.stack([random(n, 65 - n, 100) for n in range(1, 65)]),
        jm.BipartiteGraph.stack([random(900, 1100, 3000) for _ in range(3)]),
    ]


def damaged(graph: jm.BipartiteGraph) -> list[jm.BipartiteGraph]:
    """Pointers and indices that lead out of the arrays."""
    bad = []
    for name in ("row_ptr", "col_ind", "col_ptr", "row_ind"):
        array = getattr(graph, name)
        at = array.shape[-1] // 2 if name.endswith("ptr") else 0
        for value in (2**31 - 1, -(2**31)) if array.shape[-1] else ():
            wrong = array.at[..., at].set(jnp.int32(value))
            bad.append(jm.BipartiteGraph(**(vars(graph) | {name: wrong})))
    return bad


def main() -> None:
    solved = 0
    for graph in graphs():
        start = np.arange(graph.shape[0]) % max(graph.shape[1], 1) - 1
        for method, options in VARIANTS:
            given = {"method": method, "options": options}
            for more in ({}, {"init": "none", "warm_start": start}, {"rounds_per_call": 3}):
                res = jm.maximum_bipartite_matching(graph, **given, **more)
                check = jm.check_matching(graph, res)
                assert check.valid.all() and (method == "none" or check.maximum.all()), given
                solved += res.status.size
        for method in ("auto", "push_relabel", "apfb"):
            for init in ("cheap", "karp_sipser"):
                res = jm.maximum_bipartite_matching(graph, method=method, init=init)
                assert jm.check_matching(graph, res).maximum.all(), (method, init)
            for bad in damaged(graph):
                res = jm.maximum_bipartite_matching(bad, method=method, warm_start=start)
                assert (np.asarray(res.status) == jm.Status.INVALID_GRAPH).all()
    jax.effects_barrier()
    print(f"solved {solved} graphs")


if __name__ == "__main__":
    main()
