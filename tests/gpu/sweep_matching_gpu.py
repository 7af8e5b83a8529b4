"""Small graphs by every matching kernel on the GPU, for tools that watch memory:

    PYTHONPATH=tests/support compute-sanitizer --tool memcheck python \
        tests/gpu/sweep_matching_gpu.py [PART ...]

test_sanitizer.py runs it, a process for each of `PARTS`. Graphs are padded to few shapes:
compiling under such a tool takes longer than solving.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxmatch as jm


VARIANTS = [("auto", {}), ("init_only", {})]
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
# Graphs of middle size by every method, others by a few.
PARTS = ["auto", "push_relabel", "apsb", "apfb", "many", "large"]


def graphs() -> dict[str, list[jm.BipartiteGraph]]:
    """By the shape they are padded to."""
    rng = np.random.default_rng(0)

    def random(n: int, m: int, e: int) -> jm.BipartiteGraph:
        return jm.BipartiteGraph.from_edges(rng.integers(0, n, e), rng.integers(0, m, e), (n, m))

    def padded(graphs: list[jm.BipartiteGraph], n: int, m: int, e: int) -> list[jm.BipartiteGraph]:
        how = {"num_rows": n, "num_cols": m, "num_edges": e}
        return [jm.BipartiteGraph.stack([g], **how) for g in graphs]

    at, near = np.arange(700), np.arange(50)
    middle = [
        random(5, 7, 12),
        random(1100, 600, 3000),
        jm.BipartiteGraph.from_edges(np.r_[at, 0 * at], np.r_[0 * at, at], (700, 700)),  # two hubs
        jm.BipartiteGraph.from_edges(
            np.r_[near, near[1:]], np.r_[near, near[:-1]], (50, 50)
        ),  # path
        jm.BipartiteGraph.from_edges([], [], (3, 0)),
    ]
    return {
        "middle": padded(middle, 1100, 1000, 3000),
        "many": [jm.BipartiteGraph.stack([random(n, 65 - n, 100) for n in range(1, 65)])],
        "large": [random(5000, 4000, 12_000)],
    }


def damaged(graph: jm.BipartiteGraph) -> list[jm.BipartiteGraph]:
    """Pointers and indices that lead out of the arrays."""
    bad = []
    for name in ("row_ptr", "col_ind", "col_ptr", "row_ind"):
        array = getattr(graph, name)
        at = array.shape[-1] // 2 if name.endswith("ptr") else 0
        for value in (2**31 - 1, -(2**31)):
            wrong = array.at[..., at].set(jnp.int32(value))
            bad.append(jm.BipartiteGraph(**(vars(graph) | {name: wrong})))
    return bad


def checked(graph: jm.BipartiteGraph, res: jm.Matching) -> jm.MatchingCheck:
    """On the CPU: such a tool is to see our kernels and few others."""
    graph, res = jax.tree.map(np.asarray, (graph, res))
    with jax.default_device(jax.devices("cpu")[0]):
        return jm.check_matching(graph, res)


def solve(graph: jm.BipartiteGraph, variants: list, ways: list[dict]) -> int:
    for method, options in variants:
        given = {"method": method, "options": options}
        for more in ways:
            print(method, *options.values(), *more, flush=True)  # where it is, should it hang
            check = checked(graph, jm.maximum_bipartite_matching(graph, **given, **more))
            assert check.valid.all(), given
            assert method == "init_only" or check.optimal.all(), given
    return len(variants) * len(ways)


def refuse_damaged(graph: jm.BipartiteGraph) -> None:
    for bad in damaged(graph):
        res = jm.maximum_bipartite_matching(bad)
        assert (np.asarray(res.status) == jm.Status.INVALID_GRAPH).any()


def main(parts: list[str]) -> None:
    solved = 0
    for part in parts:
        few = part in ("many", "large")
        found = graphs()[part if few else "middle"]
        variants = [("auto", {}), ("apfb", {}), ("init_only", {})]
        if not few:
            variants = [
                v for v in VARIANTS if v[0] == part or (part, v[0]) == ("auto", "init_only")
            ]
        for which, graph in enumerate(found):
            start = np.arange(graph.shape[0]) % graph.shape[1] - 1
            ways = [{}, {"init": "none", "warm_start": start}]
            if which == 0:  # many short launches, each of which such a tool makes long
                ways.append({"steps_per_call": 3})
            solved += solve(graph, variants, ways)
        res = jm.maximum_bipartite_matching(found[-1], init="karp_sipser")
        assert checked(found[-1], res).optimal.all()
        if few or part == "auto":
            refuse_damaged(found[0] if few else found[1])
        print(f"{part}: solved {solved}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or PARTS)
