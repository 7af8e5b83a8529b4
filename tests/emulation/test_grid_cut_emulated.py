"""The CUDA kernel for grid cuts, emulated on the CPU: all blocks of a launch at once.

Tiles of a few cells, so that small grids have many; blocks that keep one each, and blocks that
take turns with several. Whatever the order of threads: the one source-most minimum cut.
"""

import ctypes

import emulated
import grid_cut_hostile
import numpy as np
import pytest
from grid_cut_helpers import (
    STEPS,
    assert_minimum,
    capacity_of_cut,
    exact_cut,
    random_grid,
    random_shape,
    scipy_cut,
)

import jaxmatch as jm
from jaxmatch._ffi.sizes import size


pytestmark = pytest.mark.skipif(emulated.compiler() is None, reason="needs g++")
each_connectivity = pytest.mark.parametrize("connectivity", (4, 8, 6))  # those of CUDA


@pytest.fixture(scope="session")
def library():
    loaded = emulated.library("grid_cut")
    loaded.plan_grid_cut.restype = ctypes.c_int64
    return loaded


def solve(library, source, sink, pairwise, connectivity, *, seed=0, teams=1, blocks=None,
          threads=32, tile=None, rounds=2, sweeps=2, exchanges=2, racing=None,
          early=None, relabellings=None):  # fmt: skip
    """The cut of a grid, or of each grid of a batch, by `teams` of `blocks` each.

    `blocks` None: one for each tile, which stays there. Some seeds race, some soon no more; some
    relabel exactly from the start. The numbers of relabellings are written to `relabellings`.
    """
    racing = (0, 1, 1000)[seed % 3] if racing is None else racing
    early = (8, 1, 0)[seed % 3] if early is None else early
    source, sink, pairwise = (np.ascontiguousarray(x) for x in (source, sink, pairwise))
    rank = 3 if connectivity == 6 else 2
    batch, grid = source.shape[:-rank], source.shape[-rank:]
    shape = np.array(grid if connectivity == 6 else (1, *grid), np.int32)
    tile = np.array(tile or ((1, 1, 2, 2) if connectivity == 6 else (2, 0, 3, 1)), np.int32)
    counts = [-(-int(shape[2]) // (1 << tile[0])), -(-int(shape[1]) // int(tile[2]))]
    counts.append(-(-int(shape[0]) // int(tile[3])))
    value_dtype = source.dtype if source.dtype.kind == "f" else np.int64
    value, status = np.full(batch, -7, value_dtype), np.full(batch, -7, np.int32)
    side = np.full(source.shape, 7, np.uint8)
    tuning = np.array([rounds, sweeps, exchanges, racing, early], np.int32)

    def at(x):
        return ctypes.c_void_p(x.ctypes.data)

    symmetric = pairwise.shape[-rank - 1] < connectivity
    none = np.empty(value.size, np.int32)
    relabellings = none if relabellings is None else relabellings
    library.emulate_grid_cut(
        ctypes.c_int64(value.size), connectivity, int(symmetric), source.dtype.name.encode(),
        at(shape), at(source), at(sink), at(pairwise), at(value), at(side), at(status),
        ctypes.c_uint(seed), teams, blocks or int(np.prod(counts)), threads, at(tile), at(tuning),
        at(relabellings),
    )  # fmt: skip
    assert set(np.unique(side)) <= {0, 1}
    return jm.MinimumCut(value[()], side.astype(bool), status[()])


@each_connectivity
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_small_grids(library, dtype, connectivity):
    rng = np.random.default_rng(connectivity)
    for seed in range(12):
        shape = random_shape(rng, connectivity, 5 if connectivity == 6 else 8)
        given = random_grid(rng, shape, connectivity, most=10 ** (1 + seed % 3), dtype=dtype)
        blocks = (None, 1, 2)[seed // 3 % 3]
        res = solve(library, *given, connectivity, seed=seed, blocks=blocks)
        assert_minimum(res, *given, connectivity)


@each_connectivity
def test_one_block_alone(library, connectivity):
    rng = np.random.default_rng(connectivity)
    tile = (2, 2, 4, 5) if connectivity == 6 else (4, 0, 9, 1)
    for seed in range(6):
        shape = random_shape(rng, connectivity, 4 if connectivity == 6 else 9)
        given = random_grid(rng, shape, connectivity)
        res = solve(library, *given, connectivity, seed=seed, tile=tile, threads=64)
        assert_minimum(res, *given, connectivity)


@each_connectivity
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_batches_by_teams(library, dtype, connectivity):
    """Teams of several blocks, tiles that the grids do not fill, and more problems than teams."""
    rng = np.random.default_rng(connectivity)
    shape = (3, 3, 5) if connectivity == 6 else (5, 7)
    for seed, (batch, teams, blocks) in enumerate(
        [(2, 2, None), (5, 2, None), (5, 3, 2), (4, 2, 1)]
    ):
        grids = [random_grid(rng, shape, connectivity, most=10 ** (1 + k % 3), dtype=dtype,
                             directed=True) for k in range(batch)]  # fmt: skip
        given = [np.stack(x) for x in zip(*grids, strict=True)]
        given[0][0, ..., 0] = -1  # its team goes on
        res = solve(library, *given, connectivity, seed=seed, teams=teams, blocks=blocks)
        assert res.status[0] == jm.Status.INVALID_CAPACITY and not res.source_side[0].any()
        for k in range(1, batch):
            one = jm.MinimumCut(res.value[k], res.source_side[k], res.status[k])
            assert_minimum(one, *grids[k], connectivity)


def test_noise_takes_few_relabellings(library):
    """Distances that stop at the first excess in reach would leave all other excess at rest."""
    source = np.random.default_rng(0).integers(0, 1000, (3, 24, 24))
    given = source, 1000 - source, np.full((3, 2, 24, 24), 2000)
    counts = [np.zeros(3, np.int32) for _ in range(2)]
    for early, count in zip((4, 1000), counts, strict=True):
        res = solve(library, *given, 4, tile=(2, 0, 6, 1), racing=1000, early=early,
                    relabellings=count)  # fmt: skip
        value, side = scipy_cut(*(x[0] for x in given), 4)
        assert res.value[0] == value
        np.testing.assert_array_equal(res.source_side[0].ravel(), side)
    assert 0 < 3 * counts[0].sum() < 2 * counts[1].sum(), counts


def test_teams_share_the_gpu(library):
    """Every team can hold its grid, all teams fit at once, and few blocks have nothing to do."""

    def teams(batch, tiles, blocks=132):
        found = np.zeros(2, np.int64)
        library.grid_cut_teams(
            ctypes.c_int64(batch), tiles, blocks, ctypes.c_void_p(found.ctypes.data)
        )
        return tuple(found.tolist())

    assert teams(1, 4) == (1, 132)
    assert teams(8, 4) == (8, 16)
    assert teams(32, 4) == (32, 4)
    assert teams(34, 4) == (17, 7)  # two turns of half of the grids, not 33 and one
    assert teams(4, 64) == (2, 66)
    assert teams(3, 500) == (1, 132)  # tiles take turns
    for batch in range(1, 300):
        for tiles in (1, 2, 3, 4, 9, 66, 67, 132, 133):
            count, blocks = teams(batch, tiles)
            assert 1 <= count <= batch and count * blocks <= 132
            assert blocks >= min(tiles, 132)


@each_connectivity
@pytest.mark.parametrize("blocks", [None, 3], ids=["resident", "turns"])
def test_long_ways(library, blocks, connectivity):
    """Everything goes over many borders, some of it in vain."""
    rng = np.random.default_rng(connectivity)
    shape = (3, 4, 9) if connectivity == 6 else (6, 17)
    source, sink, pairwise = random_grid(rng, shape, connectivity, most=50, directed=True)
    source, sink = np.zeros_like(source), np.zeros_like(sink)
    source[..., 0], sink[..., -1] = 1000, 1000
    value, side = scipy_cut(source, sink, pairwise, connectivity)
    for seed in range(3):
        res = solve(library, source, sink, pairwise, connectivity, seed=seed, blocks=blocks)
        assert res.value == value
        np.testing.assert_array_equal(np.ravel(res.source_side), side)


def test_numbers(library):
    """Wide integers, numbers that need all of their bits, seeds, and what is no capacity."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        shape = random_shape(rng, 4, 7)
        given = random_grid(rng, shape, 4, most=2**40, dtype=np.int64)
        assert_minimum(solve(library, *given, 4, seed=seed), *given, 4)
        source, sink, pairwise = (
            np.abs(x * rng.random(x.shape)) for x in random_grid(rng, shape, 4, dtype=np.float64)
        )
        res = solve(library, source, sink, pairwise, 4, seed=seed)
        value, side = exact_cut(source, sink, pairwise, 4)
        np.testing.assert_array_equal(res.source_side, side)
        np.testing.assert_allclose(res.value, float(value), rtol=1e-14)
        source[rng.random(shape) < 0.1] = np.inf
        sink[(rng.random(shape) < 0.1) & (source < np.inf)] = np.inf
        pairwise = np.where(rng.random(pairwise.shape) < 0.2, np.inf, pairwise)
        res = solve(library, source, sink, pairwise, 4, seed=seed)
        value, side = exact_cut(source, sink, pairwise, 4)
        assert res.status == jm.Status.OPTIMAL
        np.testing.assert_allclose(res.value, float(value), rtol=1e-14)
        if value < np.inf:
            np.testing.assert_array_equal(res.source_side, side)
            assert capacity_of_cut(source, sink, pairwise, side, 4) < np.inf
        for bad in (np.nan, -1.0):
            wrong = source.copy()
            wrong.ravel()[-1] = bad
            res = solve(library, wrong, sink, pairwise, 4)
            assert res.status == jm.Status.INVALID_CAPACITY and np.isnan(res.value)
    large, none = np.full((2, 2), 2**61), np.zeros((2, 2, 2), np.int64)
    res = solve(library, large - 1, large, none, 4)
    assert res.status == jm.Status.OPTIMAL and res.value == 2**63 - 4
    res = solve(library, large, large, none, 4)
    assert res.status == jm.Status.OVERFLOW and res.value == -1 and not res.source_side.any()


@each_connectivity
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_hostile_numbers(library, dtype, connectivity):
    """Both ends of the range, infinities, and sums that do not fit."""
    rng = np.random.default_rng(connectivity)
    shapes = grid_cut_hostile.SHAPES[connectivity]
    for seed in range(24):
        shape = shapes[seed % len(shapes)]
        directed = seed % 2 == 0
        given = grid_cut_hostile.hostile_grid(rng, shape, connectivity, dtype, directed=directed)
        res = solve(library, *given, connectivity, seed=seed, blocks=(None, 1, 2)[seed // 3 % 3])
        found = (res.value, res.source_side, res.status)
        grid_cut_hostile.assert_right(*found, given, connectivity, most=2**63 - 1)


@pytest.mark.parametrize("blocks", [1, None])
def test_integers_that_stand_for_no_limit(library, blocks):
    """A row of cells whose ends are seeds and whose arcs but one have no limit."""
    for large in (2**58, 2**59, 2**61, 2**63 - 1):
        source, sink = np.zeros((2, 1, 5), np.int64)
        source[0, 0] = sink[0, 4] = large
        arcs = np.full((2, 1, 5), large)
        arcs[0, 0, 2] = 7
        cut = solve(library, source, sink, arcs, 4, blocks=blocks)
        assert (cut.value, cut.status) == (7, jm.Status.OPTIMAL)
        assert cut.source_side.tolist() == [[True, True, True, False, False]]
        arcs[0, 0, 2] = 2**60
        cut = solve(library, source, sink, arcs, 4, blocks=blocks)
        if large >= 2**61:
            assert (cut.value, cut.status) == (-1, jm.Status.OVERFLOW)


def test_differences_beyond_a_double(library):
    for given in grid_cut_hostile.differences_beyond("float64"):
        assert_minimum(solve(library, *given, 4), *given, 4)


def test_values_do_not_depend_on_the_course(library):
    """Not even in the last bit: tiles take turns more often or less, and are added up alike."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        given = [rng.random(s) / rng.random(s) for s in ((8, 12), (8, 12), (4, 8, 12))]
        ways = [(rounds, seed) for rounds in (1, 2, 3) for seed in (2, 5)]
        results = [solve(library, *given, 4, seed=seed, blocks=2, sweeps=1, rounds=rounds)
                   for rounds, seed in ways]  # fmt: skip
        assert len({float(res.value).hex() for res in results}) == 1


def test_all_bits_are_in_use(library):
    """Infinite arcs out of a cell, and numbers that fill 30 bits but for less than one unit."""
    rng = np.random.default_rng(5)
    corners = [(0, 0), (2, 4), (1, 0), (0, 4)]
    for seed in range(32):
        pairwise = rng.integers(0, 4, (4, 3, 5)) * (rng.random((4, 3, 5)) < 0.6).astype(float)
        for k, (y, x) in enumerate(STEPS[4]):
            pairwise[(k + 2) % 4, 1 + y, 2 + x] = 0
        pairwise[:, 1, 2] = np.inf
        k = rng.integers(4)
        pairwise[(k + 2) % 4, 1 + STEPS[4][k][0], 2 + STEPS[4][k][1]] = 1
        corner = corners[seed % 4]
        source, sink = np.zeros((3, 5)), np.where(rng.random((3, 5)) < 0.8, 2.0**31, 0)
        source[corner] = pairwise[0 if corner[1] == 0 else 2][corner] = 17895697
        for y, x in [(0, 0), *STEPS[4]]:
            sink[1 + y, 2 + x] = 2.0**31
        sink[corner] = 0
        tile = [(4, 0, 3, 1), (2, 0, 1, 1), (2, 0, 3, 1)][seed % 3]
        sweeps = int(rng.integers(1, 9))
        res = solve(library, source, sink, pairwise, 4, seed=seed, tile=tile, sweeps=sweeps,
                    threads=64, racing=(1000, 0)[seed % 5 == 0])  # fmt: skip
        value, side = exact_cut(source, sink, pairwise, 4)
        assert res.value == value
        np.testing.assert_array_equal(np.ravel(res.source_side), np.ravel(side))


@each_connectivity
def test_scratch_is_large_enough(library, connectivity):
    """What Python sets aside is what the launch lays out, on GPUs large and small."""
    rng = np.random.default_rng(connectivity)
    rank = 3 if connectivity == 6 else 2
    shapes = [tuple(np.exp(rng.uniform(0, 5 if rank == 3 else 7, rank)).astype(int).tolist())
              for _ in range(300)]  # fmt: skip
    shapes += [tuple(s) for s in np.ndindex(*(12,) * rank) if min(s)]
    shapes += [(1,) * (rank - 1) + (5000,), (5000,) + (1,) * (rank - 1)]
    if rank == 3:  # long and thin: tiles do not fit them well
        shapes += [(8, 8, 2000), (8, 16, 1024), (8, 8, 800), (6, 8, 20000), (20000, 8, 6)]
    for grid in shapes:
        shape = np.array(grid if rank == 3 else (1, *grid), np.int32)
        words = size("grid_cut.scratch", *shape, connectivity)
        for blocks, shared in ((132, 227 << 10), (108, 163 << 10), (20, 99 << 10), (4, 227 << 10)):
            at = ctypes.c_void_p(shape.ctypes.data)
            needed = library.plan_grid_cut(connectivity, at, blocks, ctypes.c_int64(shared))
            assert 0 <= needed <= 4 * words // 16 * 16, (grid, blocks, shared)
