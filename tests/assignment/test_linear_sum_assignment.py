"""The drop-in function does what scipy and optax promise in public."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize
from helpers import x64

import jaxmatch as jm


DTYPES = ["bool", "int8", "int32", "int64", "float16", "float32", "float64"]
SIZES = list(itertools.product((0, 1, 2, 4), repeat=2))


def total(costs, pairs):
    rows, cols = (np.asarray(x)[..., None] for x in pairs)
    return np.take_along_axis(np.take_along_axis(costs, rows, -2), cols, -1).sum((-2, -1))


def assert_pairs(shape, pairs):
    """min(n, m) pairs of distinct rows, in increasing order, and distinct columns."""
    rows, cols = (np.asarray(x) for x in pairs)
    assert rows.shape[-1] == cols.shape[-1] == min(shape)
    for x, size in ((rows, shape[0]), (np.sort(cols), shape[1])):
        assert (np.diff(x) > 0).all() and ((x >= 0) & (x < size)).all()


# ---------------------------------------------------------------------------------------------
# scipy


@pytest.mark.parametrize("n", [1, 2, 3, 8, 30, 100])
def test_equal_costs_give_the_identity_on_the_cpu(n):
    """scipy's `test_constant_cost_matrix`."""
    with jax.default_device(jax.devices("cpu")[0]):
        for costs in (np.zeros((n, n)), np.ones((2, n, n)), np.full((n, n), -7, np.int32)):
            rows, cols = jm.linear_sum_assignment(costs)
            np.testing.assert_array_equal(rows, np.broadcast_to(np.arange(n), rows.shape))
            np.testing.assert_array_equal(cols, rows)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "costs, expected",
    [
        ([[400, 150, 400], [400, 450, 600], [300, 225, 300]], [150, 400, 300]),
        ([[400, 150, 400, 1], [400, 450, 600, 2], [300, 225, 300, 3]], [150, 2, 300]),
        ([[10, 10, 8], [9, 8, 1], [9, 7, 4]], [10, 1, 7]),
        ([[10, 10, 8, 11], [9, 8, 1, 1], [9, 7, 4, 10]], [10, 1, 4]),
        ([[10, np.inf, np.inf], [np.inf, np.inf, 1], [np.inf, 7, np.inf]], [10, 1, 7]),
        ([[0.25, 0.5]], [0.25]),
        (np.zeros((0, 0)), []),
        (np.zeros((1, 0)), []),
    ],
)
def test_scipy_documented_cases(costs, expected, sign):
    """scipy's own table, both ways round and transposed."""
    costs = sign * np.array(costs, float)
    for c in (costs, costs.T):
        rows, cols = jm.linear_sum_assignment(c, maximize=sign == -1)
        theirs = scipy.optimize.linear_sum_assignment(c, maximize=sign == -1)
        assert rows.dtype == cols.dtype == jnp.int32
        assert rows.shape == cols.shape == theirs[0].shape
        assert_pairs(c.shape, (rows, cols))
        assert c[rows, cols].sum() == c[theirs].sum() == sign * sum(expected)


def test_scipy_indices_where_the_optimum_is_unique():
    rng = np.random.default_rng(0)
    for shape in [(6, 6), (4, 9), (9, 4)]:
        for c in rng.random((20, *shape)).astype(np.float32):
            ours = jm.linear_sum_assignment(c)
            np.testing.assert_array_equal(ours, scipy.optimize.linear_sum_assignment(c))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_that_scipy_takes(dtype):
    costs = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]]).astype(dtype)
    with x64(True):
        rows, cols = jm.linear_sum_assignment(costs)
    assert costs[rows, cols].sum() == 0


@pytest.mark.parametrize(
    "costs, maximize, message",
    [
        ([[1, 2], [3, np.nan]], False, "invalid numeric entries"),
        ([[1, 2], [3, -np.inf]], False, "invalid numeric entries"),
        ([[1, 2], [3, np.inf]], True, "invalid numeric entries"),
        ([[np.nan, np.nan]], False, "invalid numeric entries"),
        ([[np.inf, np.inf], [1, 2]], False, "infeasible"),
        ([[-np.inf, -np.inf], [1, 2]], True, "infeasible"),
        ([[np.inf, 1], [np.inf, 2]], False, "infeasible"),
        ([[1, np.inf], [2, np.inf], [3, np.inf]], False, "infeasible"),
    ],
)
def test_bad_costs_raise_as_in_scipy_but_not_inside_jit(costs, maximize, message):
    with pytest.raises(ValueError, match=message):
        scipy.optimize.linear_sum_assignment(costs, maximize)
    with pytest.raises(ValueError, match=message):
        jm.linear_sum_assignment(costs, maximize)
    traced = jax.jit(jm.linear_sum_assignment, static_argnums=1)(jnp.array(costs), maximize)
    np.testing.assert_array_equal(traced, np.full((2, min(np.shape(costs))), -1))


def test_one_bad_problem_of_a_batch():
    good = np.arange(12.0).reshape(1, 3, 4) % 5
    costs = np.concatenate([good, good * np.nan, good])
    with pytest.raises(ValueError, match="problem 1 of the batch"):
        jm.linear_sum_assignment(costs)
    for c in (costs, costs.transpose(0, 2, 1)):
        rows, cols = jax.jit(jm.linear_sum_assignment)(c)
        np.testing.assert_array_equal([rows[1], cols[1]], -1)
        alone = jm.linear_sum_assignment(c[0])
        for k in (0, 2):
            np.testing.assert_array_equal([rows[k], cols[k]], alone)


def test_overflow_raises():
    with x64(True), pytest.raises(ValueError, match="too large"):
        jm.linear_sum_assignment(np.full((2, 2), 2**60))


@pytest.mark.parametrize("costs", [[1.0, 2.0], 3.0])
def test_not_a_matrix(costs):
    with pytest.raises(ValueError, match="`cost_matrix`"):
        jm.linear_sum_assignment(np.array(costs))


# ---------------------------------------------------------------------------------------------
# optax


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_optax_sizes(size):
    """Shapes, dtype and cost of optax's function, plain, under jit and under vmap."""
    costs = np.random.default_rng([*size, 1]).random((3, *size)).astype(np.float32)
    specs = jax.eval_shape(optax.assignment.hungarian_algorithm, costs[0])
    for f in (jm.linear_sum_assignment, jax.jit(jm.linear_sum_assignment)):
        pairs = f(costs[0])
        assert [(x.shape, x.dtype) for x in pairs] == [(x.shape, x.dtype) for x in specs]
        assert_pairs(size, pairs)
        theirs = scipy.optimize.linear_sum_assignment(costs[0])
        assert total(costs[0], pairs) == total(costs[0], theirs)
    batched = jax.vmap(jm.linear_sum_assignment)(costs)
    assert_pairs(size, batched)
    np.testing.assert_array_equal(batched, jm.linear_sum_assignment(costs))
    none = jax.vmap(jm.linear_sum_assignment)(costs[:0])
    assert [x.shape for x in none] == [(0, *x.shape) for x in specs]


@pytest.mark.parametrize("shape", [(7, 5, 8), (7, 8, 5)], ids=str)
def test_costs_of_optax_under_vmap(shape):
    costs = np.random.default_rng(shape).integers(0, 9, shape).astype(np.float32)
    theirs = jax.jit(jax.vmap(optax.assignment.hungarian_algorithm))(costs)
    ours = jax.jit(jax.vmap(jm.linear_sum_assignment))(costs)
    assert_pairs(shape[1:], ours)
    np.testing.assert_array_equal(total(costs, ours), total(costs, theirs))


def test_the_gathered_cost_differentiates():
    """What optax's users do: gather along the indices and differentiate."""
    costs = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0]])

    def loss(c):
        return c[jm.linear_sum_assignment(c)].sum()

    np.testing.assert_array_equal(jax.grad(loss)(costs), [[0, 1, 0], [1, 0, 0]])
