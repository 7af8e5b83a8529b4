"""Numbers that stand for "no limit" give what +inf gives, in seeds and in arcs between cells."""

import numpy as np
import pytest
from grid_cut_helpers import assert_minimum, crowded_cell
from helpers import to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")

LARGE = {
    "float32": [1e6, 2.0**60, 1e20, 1e38],
    "float64": [1e6, 1e13, 2.0**63, 1e100, 1e307],
}


def unlimited_grid(rng, dtype):
    """Seeds, and some arcs that no cut may use."""
    shape = (8, 9)
    source, sink = rng.random((2, *shape)) * 3
    arcs = rng.random((4, *shape))
    seeds = rng.permutation(source.size)
    source.ravel()[seeds[:8]] = sink.ravel()[seeds[8:16]] = np.inf
    arcs[rng.random(arcs.shape) < 0.1] = np.inf
    return tuple(x.astype(dtype) for x in (source, sink, arcs))


@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize("method", ["auto", "xla"])
def test_floats(method, dtype):
    rng = np.random.default_rng(3)
    with x64(True):
        for _ in range(3):
            given = unlimited_grid(rng, dtype)
            unlimited = jm.grid_cut(*given, method=method)
            assert unlimited.value < np.inf
            for large in LARGE[dtype]:
                finite = [np.where(x == np.inf, large, x).astype(dtype) for x in given]
                cut = jm.grid_cut(*finite, method=method)
                np.testing.assert_array_equal(cut.source_side, unlimited.source_side)
                np.testing.assert_allclose(cut.value, unlimited.value, rtol=1e-6)
                assert jm.check_grid_cut(*finite, cut).optimal


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_integers_do_not_overflow(method):
    """A row of cells whose ends are seeds and whose arcs but one have no limit."""
    with x64(True):
        for large in (2**59, 2**61, 2**63 - 1):
            source, sink = np.zeros((2, 1, 5), np.int64)
            source[0, 0] = sink[0, 4] = large
            arcs = np.full((2, 1, 5), large)
            arcs[0, 0, 2] = 7
            cut = jm.grid_cut(source, sink, arcs, method=method)
            assert cut.status == jm.Status.OPTIMAL and cut.value == 7
            assert cut.source_side.tolist() == [[True, True, True, False, False]]
            assert jm.check_grid_cut(source, sink, arcs, cut).optimal


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_large_seed_on_one_side_does_not_wrap_around(method, reverse):
    """What arrives in one cell does not fit int64 together with its seed."""
    source = np.array([[2**21, 2**55], [2**58, 2**55]])
    sink = np.array([[2**31, 3], [2**59, 2**63 - 1]])
    pairwise = np.array([[[2**25, 0], [2**58, 0]], [[2**31, 2**21], [0, 0]]])
    given = (sink, source, pairwise) if reverse else (source, sink, pairwise)
    with x64(True):
        res = to_numpy(jm.grid_cut(*given, method=method))
        assert_minimum(res, *given, 4)


def test_what_flows_through_single_cells_is_proved():
    source = np.array([[2**62 - 1, 2**59], [2**59, 2**59]])
    sink = np.full((2, 2), 2**63 - 1)
    pairwise = np.array([[[2**63 - 1, 0], [2**62, 0]], [[2**63 - 1, 2**62], [0, 0]]])
    with x64(True):
        res = jm.grid_cut(source, sink, pairwise)
        assert res.value == 2**62 - 1 + 3 * 2**59
        assert jm.check_grid_cut(source, sink, pairwise, res).optimal
        less = res.replace(value=res.value - 1)
        assert not jm.check_grid_cut(source, sink, pairwise, less).valid
        all_on = res.replace(source_side=np.ones((2, 2), bool))
        assert not jm.check_grid_cut(source, sink, pairwise, all_on).optimal


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("connectivity, most", [(6, 2**59), (18, 2**58), (26, 2**58)])
def test_sums_at_one_cell_do_not_wrap_around(connectivity, most, method):
    with x64(True):
        given = crowded_cell(connectivity, most - 1)
        res = to_numpy(jm.grid_cut(*given, connectivity=connectivity, method=method))
        assert_minimum(res, *given, connectivity)
        given = crowded_cell(connectivity, most)
        res = jm.grid_cut(*given, connectivity=connectivity, method=method)
        assert (res.value, res.status) == (-1, jm.Status.OVERFLOW)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_large_seeds_prove_no_larger_cut(dtype):
    source, sink = np.zeros((2, 4, 6), dtype)
    source[:, 0] = sink[:, -1] = 1e13
    arcs = np.ones((2, 4, 6), dtype)
    arcs[0, :, 2] = 0.5
    cut = jm.grid_cut(source, sink, arcs)
    assert cut.value == 2 and jm.check_grid_cut(source, sink, arcs, cut).optimal
    side = np.zeros((4, 6), bool)
    side[:, :2] = True
    other = cut.replace(value=np.array(4, dtype), source_side=side)
    check = jm.check_grid_cut(source, sink, arcs, other)
    assert check.valid and not check.optimal
