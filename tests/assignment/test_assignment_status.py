"""Every input has a defined result: what comes back for bad ones, and what is refused up front."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_failed, assert_proved, assert_same_bits, numpy_dtype, problem, x64

import jaxmatch as jm
from jaxmatch import Status


nan, inf = np.nan, np.inf

# Costs to minimise, and what becomes of them.
BAD = {
    "one NaN": ([[1, nan, 3], [4, 5, 6], [7, 8, 9]], Status.INVALID_COST),
    "NaN on a forbidden pair's row": ([[inf, nan, 3], [4, 5, 6], [7, 8, 9]], Status.INVALID_COST),
    "all NaN": ([[nan] * 3] * 3, Status.INVALID_COST),
    "one -inf": ([[1, -inf, 3], [4, 5, 6], [7, 8, 9]], Status.INVALID_COST),
    "all -inf": ([[-inf] * 3] * 3, Status.INVALID_COST),
    "inf and -inf": ([[inf, -inf, 3], [4, 5, 6], [7, 8, 9]], Status.INVALID_COST),
    "infeasible and invalid": ([[inf, inf, inf], [4, nan, 6], [7, 8, 9]], Status.INVALID_COST),
    "one inf": ([[1, inf, 3], [4, 5, 6], [7, 8, 9]], Status.OPTIMAL),
    "all inf": ([[inf] * 3] * 3, Status.INFEASIBLE),
    "a row of inf": ([[1, 2, 3], [inf, inf, inf], [7, 8, 9]], Status.INFEASIBLE),
    "a column of inf": ([[1, inf, 3], [4, inf, 6], [7, inf, 9]], Status.INFEASIBLE),
    "two rows for one column": ([[1, inf, inf], [4, inf, inf], [7, 8, 9]], Status.INFEASIBLE),
    "three rows for two columns": ([[1, 2, inf], [4, 1, inf], [7, 8, inf]], Status.INFEASIBLE),
    "a wide row of inf": ([[1, 2, 3], [inf, inf, inf]], Status.INFEASIBLE),
    "a wide column of inf": ([[1, inf, 3], [4, inf, 6]], Status.OPTIMAL),
    "a tall row of inf": ([[1, 2], [inf, inf], [7, 8]], Status.OPTIMAL),
    "a tall column of inf": ([[1, inf], [4, inf], [7, inf]], Status.INFEASIBLE),
    "one entry, NaN": ([[nan]], Status.INVALID_COST),
    "one entry, inf": ([[inf]], Status.INFEASIBLE),
    "one entry, -inf": ([[-inf]], Status.INVALID_COST),
}


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_bad_costs(dtype, maximize):
    for name, (costs, status) in BAD.items():
        costs = (-1 if maximize else 1) * np.array([costs]).astype(numpy_dtype(dtype))
        with x64(dtype == "float64"):
            res = jm.solve_assignment(costs, maximize=maximize)
        assert res.status[0] == status, name
        if status == Status.OPTIMAL:
            assert_proved(costs, res, maximize=maximize)
        else:
            assert_failed(res, status)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_bad_problems_leave_their_neighbours_alone(method):
    """One call for all; the good ones come back as if they were alone, to the last bit."""
    rng = np.random.default_rng(0)
    bad = [c for c, status in BAD.values() if np.shape(c) == (3, 3) and status != Status.OPTIMAL]
    expected = [s for c, s in BAD.values() if np.shape(c) == (3, 3) and s != Status.OPTIMAL]
    good = rng.random((len(bad), 3, 3)).astype(np.float32)
    mixed = np.stack([np.array(bad, np.float32), good], 1).reshape(-1, 3, 3)
    res = jm.solve_assignment(mixed, method=method)
    np.testing.assert_array_equal(res.status[::2], expected)
    assert_failed(problem(res, slice(0, None, 2)), np.array(expected).reshape(-1))
    assert_same_bits(problem(res, slice(1, None, 2)), jm.solve_assignment(good, method=method))


def test_bad_unmatched_costs():
    costs = np.array([[1.0, inf], [2.0, inf], [3.0, 4.0]], np.float32)
    must, may = inf, 9.0
    expected = {
        (must, must, must): Status.INFEASIBLE,  # three rows for two columns
        (must, must, may): Status.INFEASIBLE,  # two rows for one column
        (must, may, must): Status.OPTIMAL,
        (may, may, may): Status.OPTIMAL,
        (may, nan, may): Status.INVALID_COST,
        (may, may, -inf): Status.INVALID_COST,
        (must, -inf, may): Status.INVALID_COST,
    }
    r = np.array(list(expected), np.float32)
    batch = np.broadcast_to(costs, (len(r), 3, 2))
    status = np.array(list(expected.values()))
    for sign in (1, -1):
        res = jm.solve_assignment(sign * batch, unmatched_cost=sign * r, maximize=sign < 0)
        np.testing.assert_array_equal(res.status, status)
        solved = status == Status.OPTIMAL
        kept = problem((sign * batch, res), solved)
        assert_proved(*kept, maximize=sign < 0, unmatched_cost=sign * r[solved])
    # Where a row does not exist, nobody looks.
    rows = ~np.isnan(r)
    res = jm.solve_assignment(batch, unmatched_cost=r, row_mask=rows)
    assert res.status[4] == Status.OPTIMAL


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_beyond_the_largest_float(dtype):
    """The pairs are right, though their sum is not a float any more."""
    fractions = np.array([[1, 0.5, 0.25], [0.5, 1, 1], [1, 0.5, 0.5]])
    with x64(dtype == "float64"):
        costs = fractions.astype(dtype) * np.finfo(dtype).max
        for maximize, best in ((False, 1.25), (True, 2.5)):
            res = jm.solve_assignment(costs, maximize=maximize)
            assert res.status == Status.OPTIMAL
            assert fractions[range(3), np.asarray(res.col4row)].sum() == best
            assert res.cost == inf


def test_int64_overflow_of_an_unmatched_cost():
    with x64(True):
        costs = np.zeros((2, 2, 2), np.int64)
        r = np.array([[2**60, 0], [2**60 - 1, 0]])
        res = jm.solve_assignment(costs, unmatched_cost=r)
        np.testing.assert_array_equal(res.status, [Status.OVERFLOW, Status.OPTIMAL])


def test_status_of_everyone_has_advice():
    for status in Status:
        assert status.advice.endswith(".")


def test_status_of_a_batch_is_a_list():
    codes = np.array([0, 9])
    for several in (codes, jnp.asarray(codes)):
        with pytest.raises(TypeError, match=r"shape \(2,\).*tolist"):
            Status(several)
        assert [Status(code) for code in several.tolist()] == [Status.OPTIMAL, Status.TIME_LIMIT]
    assert Status(codes[0]) is Status(jnp.int32(0)) is Status.OPTIMAL


# ---------------------------------------------------------------------------------------------
# What is known before anything runs is an exception, which names the argument


COSTS = np.ones((2, 3, 4), np.float32)

MISUSE = {
    "a vector": (ValueError, r"`cost`.*\[\.\.\., n, m\].*\(3,\)", [np.ones(3)], {}),
    "a scalar": (ValueError, r"`cost`.*\(\)", [1.0], {}),
    "complex": (TypeError, r"`cost`.*complex64.*cast", [COSTS.astype(np.complex64)], {}),
    "row mask": (
        ValueError,
        r"`row_mask` has shape \(4,\).*\(2, 3\)",
        [COSTS],
        {"row_mask": np.ones(4, bool)},
    ),
    "row mask rank": (
        ValueError,
        r"`row_mask` has shape \(1, 2, 3\)",
        [COSTS],
        {"row_mask": np.ones((1, 2, 3), bool)},
    ),
    "col mask": (
        ValueError,
        r"`col_mask` has shape \(3, 4\).*\(2, 4\)",
        [COSTS],
        {"col_mask": np.ones((3, 4), bool)},
    ),
    "mask of numbers": (TypeError, r"`row_mask`.*boolean", [COSTS], {"row_mask": np.ones(3)}),
    "mask of indices": (TypeError, r"`col_mask`.*boolean", [COSTS], {"col_mask": np.ones(4, int)}),
    "unmatched cost": (
        ValueError,
        r"`unmatched_cost` has shape \(4,\).*\(2, 3\)",
        [COSTS],
        {"unmatched_cost": np.ones(4)},
    ),
    "complex unmatched": (TypeError, "`unmatched_cost`.*real", [COSTS], {"unmatched_cost": 1j}),
    "start": (
        ValueError,
        r"`warm_start` has shape \(3,\).*\(2, 4\)",
        [COSTS],
        {"warm_start": np.ones(3)},
    ),
    "start of one column": (
        ValueError,
        r"`warm_start` has shape \(1,\).*\(2, 4\)",
        [COSTS],
        {"warm_start": np.ones(1), "unmatched_cost": 1.0},
    ),
    "start of another shape": (
        ValueError,
        r"`warm_start` has shape \(2, 5\)",
        [COSTS],
        {"warm_start": jm.Assignment.empty((2, 3, 5))},
    ),
    "complex start": (TypeError, "`warm_start`.*real", [COSTS], {"warm_start": np.ones(4) * 1j}),
    "method": (ValueError, "`method`.*auto.*'hungarian'", [COSTS], {"method": "hungarian"}),
}


@pytest.mark.parametrize("kind, message, args, given", MISUSE.values(), ids=MISUSE)
def test_misuse(kind, message, args, given):
    with pytest.raises(kind, match=message):
        jm.solve_assignment(*args, **given)
    with pytest.raises(kind, match=message):
        jax.jit(lambda c: jm.solve_assignment(c, **given))(*args)


def test_integers_that_do_not_fit_are_not_solved_in_silence():
    """NumPy's default integers have 64 bits, and without x64 JAX would cut off the upper half."""
    costs = np.array([[2**40, 1], [2, 2**40]])
    with x64(False):
        try:
            res = jm.solve_assignment(costs)
        except (ValueError, TypeError, OverflowError):
            return
        assert int(res.status) != Status.OPTIMAL or float(res.cost) == 3.0


def test_arguments_may_be_lists_and_scalars():
    costs = [[4, 1, 3], [2, 0, 5], [3, 2, 2]]
    res = jm.solve_assignment(costs, unmatched_cost=1, row_mask=[True] * 3)
    assert float(res.cost) == 2.0
    assert res.cost.dtype == np.float64  # of long integers
