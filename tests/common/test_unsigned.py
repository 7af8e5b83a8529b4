"""Numbers in dtypes that JAX lacks or others take: unsigned, nullable, in the other byte order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


RNG = np.random.default_rng(0)
C = RNG.integers(0, 250, (5, 6))
SUPPLY, DEMAND = np.array([6, 6, 6, 6, 6]), np.full(6, 5)
GRAPH = jm.BipartiteGraph.from_dense(np.ones((5, 6)))
NETWORK = jm.FlowNetwork.from_edges([0, 0, 1, 2], [1, 2, 3, 3], 4)
EYE = jm.estimators.Identity()

# (function of the numbers, the numbers)
CALLS = {
    "linear_sum_assignment": (jm.linear_sum_assignment, C),
    "solve_assignment": (jm.solve_assignment, C),
    "xla": (lambda c: jm.solve_assignment(c, method="xla"), C),
    "unmatched_cost": (
        lambda r: jm.solve_assignment(np.int32(C), unmatched_cost=r),
        C[:, 0],
    ),
    "col_capacity": (
        lambda k: jm.solve_capacitated_assignment(np.int32(C), col_capacity=k),
        C[0] % 3,
    ),
    "capacities": (lambda c: jm.solve_capacitated_assignment(c, col_capacity=2), C),
    "points": (jm.solve_assignment_points, C[:, :2], C[:, 2:4]),
    "bottleneck": (jm.bottleneck_assignment, C),
    "k_best": (lambda c: jm.k_best_assignments(c, 3), C),
    "solve_transport": (jm.solve_transport, C, SUPPLY, DEMAND),
    "partial": (lambda c, a, b, t: jm.solve_transport(c, a, b, partial=t), C, SUPPLY, DEMAND, 7),
    "solve_transport_points": (jm.solve_transport_points, C[:, :2], C.T[:, :2], SUPPLY, DEMAND),
    "solve_sparse_assignment": (lambda c: jm.solve_sparse_assignment(GRAPH, c), C.ravel()),
    "maximum_flow": (lambda c: jm.maximum_flow(NETWORK, c, 0, 3), C[0, :4]),
    "minimum_cut": (lambda c: jm.minimum_cut(NETWORK, c, 0, 3, nearest="sink"), C[0, :4]),
    "grid_cut": (jm.grid_cut, C, C[::-1], np.stack([C, C[:, ::-1]])),
    "check_assignment": (lambda c: jm.check_assignment(c, jm.solve_assignment(c)), C),
    "check_transport": (
        lambda c, a, b: jm.check_transport(c, a, b, jm.solve_transport(c, a, b)),
        *(C, SUPPLY, DEMAND),
    ),
    "assignment_matrix": (lambda c: jm.assignment_matrix(c, estimator=EYE), C),
}
# What each is the same as.
DTYPES = {
    **dict.fromkeys(("uint8", "uint16", ">i4"), "int32"),
    **dict.fromkeys(("uint32", "uint64", "object", "pandas"), "int64"),
    **dict.fromkeys((">f8", "longdouble"), "float64"),
}


def converted(x, dtype):
    if dtype != "pandas":
        return np.asarray(x).astype(dtype)
    pandas = pytest.importorskip("pandas")
    kind = {1: pandas.Series, 2: pandas.DataFrame}.get(np.ndim(x))
    return kind(x).astype("Int64") if kind else x


def assert_equal(got, want):
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", CALLS)
def test_outside_of_a_trace(name):
    call, *numbers = CALLS[name]
    for dtype, same in DTYPES.items():
        if name != "col_capacity" or same != "float64":  # which takes integers alone
            want = call(*(np.asarray(x, same) for x in numbers))
            assert_equal(call(*(converted(x, dtype) for x in numbers)), want)
    want = call(*(jnp.asarray(x, jnp.int32) for x in numbers))
    for dtype in (jnp.uint8, jnp.uint32):
        assert_equal(call(*(jnp.asarray(x, dtype) for x in numbers)), want)


@pytest.mark.parametrize("name", CALLS)
def test_in_a_trace(name):
    call, *numbers = CALLS[name]
    want = call(*(np.int32(x) for x in numbers))
    assert_equal(jax.jit(call)(*(jnp.asarray(x, jnp.uint32) for x in numbers)), want)


def test_64_bits():
    big = C.astype(np.uint64) + np.uint64(2**40)
    best = linear_sum_assignment(C)
    for c in (big, big.astype(object), (big - np.uint64(2**40) + np.uint64(2**31)).astype("u4")):
        assert_equal(jm.linear_sum_assignment(c), best)
    with jax.enable_x64(True):
        for c in (jnp.asarray(big), jnp.asarray(C, jnp.uint32) + jnp.uint32(2**31)):
            for solve in (jm.linear_sum_assignment, jax.jit(jm.linear_sum_assignment)):
                assert_equal(solve(c), best)
    with pytest.raises(ValueError, match=r"^`cost` holds integers that do not fit int32"):
        jm.solve_assignment(jnp.asarray(C, jnp.uint32) + jnp.uint32(2**31))


@pytest.mark.parametrize("name", [*CALLS][:-4])
def test_beyond_63_bits(name):
    call, *numbers = CALLS[name]
    for k in range(len(numbers)):
        given = [np.asarray(x, np.uint64) for x in numbers]
        given[k] = given[k] + np.uint64(2**63)
        if "points" in name and k < 2 or name == "col_capacity":
            continue  # coordinates may be any; capacities saturate
        with pytest.raises(ValueError, match=r"^`\w+` holds \d+, and integers must be below 2\^63"):
            call(*given)


def test_what_is_missing_is_nan():
    pandas = pytest.importorskip("pandas")
    for dtype in ("Int64", "Float64"):
        table = pandas.DataFrame(C).astype(dtype)
        table.iloc[1, 2] = pandas.NA
        assert jm.solve_assignment(table).status == jm.Status.INVALID_COST
        with pytest.raises(ValueError, match="invalid numeric entries"):
            jm.linear_sum_assignment(table)


def test_extended_precision_is_not_rounded():
    with pytest.raises(TypeError, match=r"^`cost` must .*, got float128; cast it\.$"):
        jm.solve_assignment(np.full((2, 2), np.longdouble(1) / 3))
