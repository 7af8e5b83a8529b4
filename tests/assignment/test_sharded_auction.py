"""One assignment with structure whose costs are sharded: an auction keeps exchanges few."""

import jax
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64
from sharded_helpers import SIDES, mesh_of, place, sharded
from test_core_structured import KINDS, assert_optimal, costs

import jaxmatch as jm
from benchmarks.assignment.families import (
    FAMILIES,
    MISLEADING,
    sphere_and_shape,
    squared_distances,
    two_clusterings,
)
from jaxmatch._assignment.partition import Partition


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
# Without an auction, shifted clouds took 9,000 exchanges of this size, and products 17,600.
STRUCTURED = ["sphere to shape", "shifted clouds", "20 clusters", "outer product"]
SIDE, MOST_EXCHANGES = 600, 600
TEN_CLUSTERS = "ten clusters"  # where prices exceed horizons: see test_core_structured.py


def family(name, n=SIDE):
    if name == TEN_CLUSTERS:
        return squared_distances(*two_clusterings(n, 4, 10, 0.02)).astype(np.float32)
    return (FAMILIES | MISLEADING)[name](n, 1).astype(np.float32)


@pytest.fixture
def exchanges(monkeypatch):
    """The number of words of each block that device 0 has sent; candidates are two blocks."""
    sizes = []
    gather = Partition.gather

    def counted(self, x):
        jax.debug.callback(
            lambda device: sizes.append(x.size) if device == 0 else None, self.shard_index()
        )
        return gather(self, x)

    monkeypatch.setattr(Partition, "gather", counted)
    return sizes


@pytest.mark.parametrize("rows", [SIDE, 400, 580])
def test_exchanges_are_few(exchanges, rows):
    """With 400 and 580 rows, dummy rows bid for the columns that stay. Without their bids, shifted
    clouds took 6,500 exchanges for 400 rows."""
    with x64(True):
        for name in STRUCTURED:  # in one program
            exchanges.clear()
            cost = family(name)[:rows]
            res = sharded(cost, "row_axis", 2, method="core")
            jax.block_until_ready(res)
            jax.effects_barrier()
            assert 20 < len(exchanges) < MOST_EXCHANGES, (name, len(exchanges))
            assert_optimal(cost, res)


def test_prices_exceed_horizons(exchanges):
    """250 exchanges where only half of the rows might."""
    cost = family(TEN_CLUSTERS, 240)
    with x64(True):
        res = jax.block_until_ready(sharded(cost, "row_axis", 2, method="core"))
        jax.effects_barrier()
        assert len(exchanges) < 200
        assert_optimal(cost, res)


@pytest.mark.parametrize("by", SIDES)
@pytest.mark.parametrize("shape", [(240, 240), (160, 240), (240, 220)])
@pytest.mark.parametrize("name", [*STRUCTURED, TEN_CLUSTERS])
def test_same_bits_on_any_number_of_devices(name, shape, by):
    cost = family(name, 240)[: shape[0], : shape[1]]
    with x64(True):
        alone, *others = (to_numpy(sharded(cost, by, count)) for count in (1, 2, 4))
        assert_optimal(cost, alone)
        for res in others:
            # Where the longer side is divided, candidates depend on the division.
            if shape[by == "col_axis"] == max(shape) > min(shape):
                assert_optimal(cost, res)
            else:
                assert_same_bits(res, alone)


@pytest.mark.parametrize("by", SIDES)
@pytest.mark.parametrize("rows", [240, 210])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_costs(kind, rows, by):
    """Equal rows and columns, between which bids decide nothing."""
    cost = costs(kind, rows, 240)
    with x64(True):
        assert_optimal(cost, sharded(cost, by, 3))


def test_points():
    x, y = (p.astype(np.float32) for p in sphere_and_shape(SIDE, 2))
    alone = jm.solve_assignment_points(x, y, method="core")
    for count in (1, 2, 4):
        rows = place(x, "row_axis", mesh_of(count))
        res = jm.solve_assignment_points(rows, y, row_axis="x")
        assert int(res.status) == jm.Status.OPTIMAL
        np.testing.assert_array_equal(res.col4row, alone.col4row)
        gap = jm.check_assignment_points(x, y, res).gap
        assert float(gap) <= 1e-4 * float(res.cost)


@pytest.mark.parametrize("absent", [40, 60])
@pytest.mark.parametrize("maximize", [False, True])
def test_masks_and_forbidden_pairs(maximize, absent):
    """As many rows as columns behind the masks, or fewer, and a third of all pairs forbidden."""
    random = np.random.default_rng(4)
    cost = family("shifted clouds", 240) * (-1 if maximize else 1)
    cost[random.random(cost.shape) < 1 / 3] = -np.inf if maximize else np.inf
    row_mask, col_mask = np.ones((2, 240), bool)
    row_mask[random.permutation(240)[:absent]] = col_mask[random.permutation(240)[:40]] = False
    masks = {"row_mask": row_mask, "col_mask": col_mask}
    with x64(True):
        res = sharded(cost, "row_axis", 4, maximize=maximize, **masks)
        alone = jm.solve_assignment(cost, maximize=maximize, **masks)
        assert int(res.status) == jm.Status.OPTIMAL
        np.testing.assert_allclose(float(res.cost), float(alone.cost), rtol=1e-12)
        check = jm.check_assignment(cost, res, maximize=maximize, **masks)
        assert float(check.gap) <= 1e-9 * abs(float(res.cost))


def test_infeasible():
    """Rows with too few columns between them bid until the auction is given up."""
    cost = family("shifted clouds", 240)
    cost[:121, 120:] = np.inf
    res = sharded(cost, "row_axis", 4)
    assert int(res.status) == jm.Status.INFEASIBLE
