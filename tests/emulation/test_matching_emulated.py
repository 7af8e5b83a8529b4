"""The kernels for one large matching, emulated on the CPU: all blocks of a grid at once.

Warps take turns in a random order and at random speeds, and every look at shared memory may let
others go first. A warp-wide function that some lanes miss, or a barrier that not everybody reaches,
ends the process. Whatever the order: a maximum matching, and its cover.
"""

import ctypes

import emulated
import numpy as np
import pytest
from matching_helpers import assert_maximum, by_igraph, families, random_graph, two_stars

import jaxmatch as jm
from jaxmatch._ffi.call import as_text


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
_long, _int = ctypes.c_int64, ctypes.c_int


@pytest.fixture(scope="session")
def library():
    return emulated.library("matching")


def solve(library, graph, *, method="auto", init="auto", start=None, seed=0, grid=(3, 64),
          budget=0, narrow=1000, k=0.7, **options):  # fmt: skip
    n, m = graph.shape
    arrays = [np.asarray(getattr(graph, x)) for x in ("row_ptr", "col_ind", "col_ptr", "row_ind")]
    start = None if start is None else np.ascontiguousarray(start, np.int32)
    found = [np.full(count, -7, np.int32) for count in (n, m, 1)]
    found += [np.full(count, 7, np.uint8) for count in (n, m)] + [np.full(1, -7, np.int32)]

    def at(x):
        return ctypes.c_void_p(None if x is None else x.ctypes.data)

    defaults = {"variant": "shrink", "relabel": "adaptive", "k": k}
    defaults |= {"kernel": "gpubfs", "threads": "ct", "alternate": "paths"}
    text = as_text(defaults | options)
    library.emulate_matching(
        _int(n), _int(m), _long(graph.max_edges), *map(at, (*arrays, start)),
        method.encode(), init.encode(), text.encode(), _long(budget), _int(narrow),
        ctypes.c_uint(seed), ctypes.c_uint(grid[0]), _int(grid[1]), *map(at, found),
    )  # fmt: skip
    col4row, row4col, size, row_cover, col_cover, status = found
    covers = (row_cover.astype(bool), col_cover.astype(bool))
    return jm.Matching(col4row, row4col, size[0], *covers, status[0])


VARIANTS = [("auto", {})]
VARIANTS += [("push_relabel", {"variant": v}) for v in ("first", "active", "shrink")]
VARIANTS += [
    (method, {"kernel": kernel, "alternate": alternate})
    for method in ("apsb", "apfb")
    for kernel, alternate in (("gpubfs", "paths"), ("gpubfs_wr", "paths"), ("gpubfs_wr", "roots"))
]
each_variant = pytest.mark.parametrize(
    "method, options", VARIANTS, ids=["-".join((m, *o.values())) for m, o in VARIANTS]
)


@each_variant
def test_families(library, method, options):
    for seed, graph in enumerate(families(60).values()):
        res = solve(library, graph, method=method, init="cheap", seed=seed, **options)
        assert_maximum(graph, res)
        assert res.cardinality == by_igraph(graph)


def hubs(rng, n, count):
    """A sparse graph, some of whose rows and columns are joined to nearly all others."""
    rows, cols = rng.integers(0, n, 2 * n), rng.integers(0, n, 2 * n)
    at = rng.choice(n, (count, n // 2))
    hub = np.repeat(rng.choice(n, count), n // 2)
    more = np.concatenate([rows, hub, at.ravel()]), np.concatenate([cols, at.ravel(), hub])
    return jm.BipartiteGraph.from_edges(*more, (n, n))


@pytest.mark.parametrize("narrow", [0, 20, 1000], ids="narrow{}".format)
@pytest.mark.parametrize("init", ["none", "auto"])
@pytest.mark.parametrize("seed", range(1))
def test_auto(library, narrow, init, seed):
    """Searches that meet after each level, blocks on their own, and one warp alone."""
    rng = np.random.default_rng(seed)
    for graph in (
        random_graph(rng, 150, 130, 400),
        hubs(rng, 300, 6),
        two_stars(200),
        families(300)["strip"],
    ):
        expected = by_igraph(graph)
        for grid in ((3, 64), (1, 32), (5, 96)):
            res = solve(library, graph, init=init, narrow=narrow, seed=seed, grid=grid)
            assert_maximum(graph, res)
            assert res.cardinality == expected


@each_variant
@pytest.mark.parametrize("budget", [1, 4])
def test_steps_and_starts(library, method, options, budget):
    rng = np.random.default_rng(budget)
    graph = random_graph(rng, 60, 70, 200)
    start = rng.integers(-2, 72, 60)
    how = {"method": method, "init": "none", "start": start, "budget": budget}
    res = solve(library, graph, **how, **options)
    assert_maximum(graph, res)
    assert res.cardinality == by_igraph(graph)
