"""`solve_assignment_points` with capacities, against `solve_assignment` on the matrix of distances.

On the CPU both solve the same transport problem, so results agree to the bit.
"""

import numpy as np
import pytest
from helpers import assert_same_bits
from point_costs import distances

import jaxmatch as jm


N, M = 11, 4

CAPACITIES = {
    "columns": {"col_capacity": np.array([3, 4, 2, 5])},
    "too few": {"col_capacity": np.array([3, 0, 2, 2])},
    "minima": {"col_capacity": np.array([9, 9, 3, 9]), "col_minimum": np.array([2, 0, 3, 1])},
    "both": {"row_capacity": np.arange(N) % 3, "col_capacity": np.array([3, 4, 2, 9])},
    "both, minima": {"row_capacity": 2, "col_capacity": 8, "col_minimum": np.array([1, 0, 8, 2])},
}


def points(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 3)).astype(dtype), rng.normal(size=(M, 3)).astype(dtype)


@pytest.mark.parametrize(
    "kind, metric",
    [*zip(CAPACITIES, ["sqeuclidean", "euclidean", "l1", "euclidean", "l1"], strict=True)],
)
def test_as_on_a_matrix(kind, metric):
    maximize = kind == "minima"
    given = CAPACITIES[kind] | {"maximize": maximize}
    if kind != "too few":
        given |= {"row_mask": np.arange(N) != 2, "col_mask": np.arange(M) != 1}
    x, y = points(1, np.float64 if metric == "l1" else np.float32)
    x[2], y[1] = (np.nan, np.nan) if "row_mask" in given else (x[2], y[1])
    res = jm.solve_capacitated_assignment_points(x, y, metric=metric, **given)
    assert_same_bits(res, jm.solve_capacitated_assignment(distances(x, y, metric), **given))
    assert res.status == jm.Status.OPTIMAL
    check = jm.check_capacitated_assignment_points(x, y, res, metric=metric, **given)
    assert check.valid and check.gap < 1e-5
    # Other duals of a column that is used prove less.
    used = res.cols[0] if "row_capacity" in given else np.argmax(res.col_count)
    lower = np.where(np.arange(M) == used, -10.0 if not maximize else 10.0, 0)
    other = res.replace(col_dual=res.col_dual + lower)
    assert jm.check_capacitated_assignment_points(x, y, other, metric=metric, **given).gap > 0.1


def test_pairs_beyond_a_capacity_are_not_valid():
    x, y = points(2)
    given = {"col_capacity": np.full(M, 4)}
    res = jm.solve_capacitated_assignment_points(x, y, **given)
    less = {"col_capacity": res.col_count - (np.arange(M) == np.argmax(res.col_count))}
    assert not jm.check_capacitated_assignment_points(x, y, res, **less).valid
    more = given | {"col_minimum": np.full(M, 4)}
    assert not jm.check_capacitated_assignment_points(x, y, res, **more).valid


def test_twin():
    x, y = points(3)
    for kind in ("columns", "both, minima"):
        given = CAPACITIES[kind]
        ours, twin = (
            jm.solve_capacitated_assignment_points(x, y, method=method, **given)
            for method in ("auto", "xla")
        )
        np.testing.assert_allclose(twin.cost, ours.cost, rtol=1e-12, err_msg=kind)
        assert jm.check_capacitated_assignment_points(x, y, twin, **given).gap < 1e-12


def test_status():
    x, y = points(5)
    for given, status in [
        ({"col_capacity": np.array([3, -1, 5, 5])}, jm.Status.INVALID_CAPACITY),
        ({"col_capacity": 2, "col_minimum": 3}, jm.Status.INFEASIBLE),
        ({"col_capacity": 9, "col_minimum": 4}, jm.Status.INFEASIBLE),
        ({"col_capacity": 2**30, "row_capacity": 2**30}, jm.Status.OVERFLOW),
    ]:
        assert jm.solve_capacitated_assignment_points(x, y, **given).status == status
    x[0] = np.nan
    assert (
        jm.solve_capacitated_assignment_points(x, y, col_capacity=3).status
        == jm.Status.INVALID_COST
    )


def test_errors():
    x, y = points(6)
    with pytest.raises(ValueError, match="`method` must be one of"):
        jm.solve_capacitated_assignment_points(x, y, col_capacity=3, method="core")
    with pytest.raises(ValueError, match="`col_capacity` has shape"):
        jm.solve_capacitated_assignment_points(x, y, col_capacity=np.ones(3, int))
    with pytest.raises(TypeError, match="CapacitatedAssignment"):
        jm.check_capacitated_assignment_points(x, y, jm.solve_assignment_points(x, y))  # pyright: ignore


def test_more_pairs_than_a_matrix_could_hold():
    """2^21 rows and 1100 columns, of which few are in a problem: some 9 GB as a matrix."""
    n, m = 1 << 21, 1100
    rng = np.random.default_rng(7)
    x, y = (rng.integers(0, 100, (k, 1)).astype(np.float32) for k in (n, m))
    rows, cols = np.arange(n) % 65536 == 5, np.arange(m) % 275 == 9
    given = {"col_capacity": np.full(m, 9), "row_mask": rows, "col_mask": cols}
    res = jm.solve_capacitated_assignment_points(x, y, **given)
    small = jm.solve_capacitated_assignment_points(x[rows], y[cols], col_capacity=9)
    assert res.status == jm.Status.OPTIMAL and res.cost == small.cost
    np.testing.assert_array_equal(res.col_count[cols], small.col_count)
