"""Checks of grid cuts: right ones of every kind, and wrong ones."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_cut_helpers import (
    CONNECTIVITIES,
    capacity_of_cut,
    exact_cut,
    is_solid,
    random_grid,
    random_shape,
)
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform", "optimised")
each_connectivity = pytest.mark.parametrize("connectivity", CONNECTIVITIES)


# Each case is a program: dtypes have symmetric and directed arcs in turn.
DTYPES = [("int32", False), ("float32", False), ("float64", True)]
CASES = [(c, *DTYPES[(i + k) % 3], k == 1) for i, c in enumerate(CONNECTIVITIES) for k in range(2)]


@pytest.mark.parametrize("connectivity, dtype, wide, directed", CASES)
def test_cuts_and_others(connectivity, directed, dtype, wide):
    """A cell on the other side is another cut, and has another capacity or is as good."""
    rng = np.random.default_rng(connectivity)
    shape = (2, 2, 3) if is_solid(connectivity) else (3, 4)
    with x64(wide):
        given = random_grid(rng, shape, connectivity, directed=directed, dtype=dtype)
        cut = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
        check = jax.jit(partial(jm.check_grid_cut, connectivity=connectivity))
        found = check(*given, cut)
        assert found.valid and found.optimal
        for cell in np.ndindex(shape):
            side = cut.source_side.copy()
            side[cell] ^= True
            value = capacity_of_cut(*given, side, connectivity).astype(cut.value.dtype)
            for claim in (
                cut.replace(source_side=side),
                cut.replace(source_side=side, value=value),
            ):
                found = check(*given, claim)
                assert found.valid == (claim.value == value)
                assert found.optimal == (found.valid and value == cut.value)
        for more in (-1, 1):
            found = check(*given, cut.replace(value=cut.value + more))
            assert not found.valid and not found.optimal


@each_connectivity
def test_odd_shapes(connectivity):
    rng = np.random.default_rng(1)
    for _ in range(6):
        shape = random_shape(rng, connectivity, 3)
        given = random_grid(rng, shape, connectivity)
        value, side = exact_cut(*given, connectivity)
        cut = jm.MinimumCut(np.int32(value), side, np.int32(0))
        assert jm.check_grid_cut(*given, cut, connectivity=connectivity).optimal, shape
    empty = (0, 2, 3) if is_solid(connectivity) else (0, 3)
    given = (np.zeros(empty), np.zeros(empty), np.zeros((connectivity, *empty)))
    cut = jm.grid_cut(*given, connectivity=connectivity)
    assert jm.check_grid_cut(*given, cut, connectivity=connectivity).optimal


def test_seeds_and_no_finite_cut():
    inf = np.inf
    pairs = np.full((2, 1, 3), 2, np.float32)
    source = np.array([[[inf, 0, 0]], [[inf, 0, 0]], [[inf, inf, 0]]], np.float32)
    sink = np.array([[[0, 1, inf]], [[inf, 0, 0]], [[0, 0, 0]]], np.float32)
    cut = jm.grid_cut(source, sink, pairs)
    assert cut.value.tolist() == [2, inf, 0]
    check = jax.jit(jm.check_grid_cut)(source, sink, pairs, cut)
    assert check.valid.all() and check.optimal.all()
    worse = cut.replace(value=jnp.full(3, inf), source_side=jnp.zeros((3, 1, 3), bool))
    check = jm.check_grid_cut(source, sink, pairs, worse)
    assert check.valid.all() and check.optimal.tolist() == [False, True, False]


def test_capacities_that_are_none():
    cells, pairs = np.ones((2, 2), np.float32), np.ones((2, 2, 2), np.float32)
    cut = jm.grid_cut(cells, cells, pairs)
    assert jm.check_grid_cut(cells, cells, pairs, cut).optimal
    for bad in (np.nan, -1):
        wrong = pairs.copy()
        wrong[0, 0, 0] = bad
        assert not jm.check_grid_cut(cells, cells, wrong, cut).valid
        wrong = pairs.copy()
        wrong[0, 0, 1] = bad  # leads out of the grid
        assert jm.check_grid_cut(cells, cells, wrong, cut).optimal


@each_connectivity
def test_batches_and_transformations(connectivity):
    rng = np.random.default_rng(2)
    shape = (2, 2, 2) if is_solid(connectivity) else (3, 2)
    parts = [random_grid(rng, shape, connectivity, directed=True) for _ in range(4)]
    given = [np.stack(x) for x in zip(*parts, strict=True)]
    cut = to_numpy(jm.grid_cut(*given, connectivity=connectivity))
    check = partial(jm.check_grid_cut, connectivity=connectivity)
    expected = check(*given, cut)
    assert expected.batch_shape == (4,) and expected.optimal.all()
    assert_same_bits(to_numpy(jax.jit(jax.vmap(check))(*given, cut)), to_numpy(expected))


def test_one_program_with_and_without_x64():
    check = jax.jit(jm.check_grid_cut)
    for dtype in ("float32", "float64"):
        with x64(dtype == "float64"):
            given = np.ones((2, 2), dtype), np.ones((2, 2), dtype), np.ones((2, 2, 2), dtype)
            assert check(*given, jm.grid_cut(*given)).optimal


def test_arguments():
    cells, pairs = np.ones((2, 3), np.int32), np.ones((2, 2, 3), np.int32)
    cut = jm.grid_cut(cells, cells, pairs)
    with pytest.raises(ValueError, match="`connectivity` must be 4 or 8"):
        jm.check_grid_cut(cells, cells, pairs, cut, connectivity=5)
    with pytest.raises(ValueError, match=r"`cut.source_side` must have shape \(2, 3\)"):
        jm.check_grid_cut(cells, cells, pairs, cut.replace(source_side=np.ones((3, 2), bool)))
    with pytest.raises(TypeError, match="`cut.value` must be integers as `capacity` is"):
        jm.check_grid_cut(cells, cells, pairs, cut.replace(value=np.float32(1)))
