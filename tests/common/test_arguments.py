"""What a wrong argument is told: its name, what was got, what is expected, in words of our own."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental import sparse

import jaxmatch as jm
from jaxmatch import stepping


COST = np.eye(3, dtype=np.float32)
GRAPH = jm.BipartiteGraph.from_edges([0, 1], [0, 1], (2, 2))
NETWORK = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
CAPACITY = np.ones(2, np.float32)
POINTS = np.random.default_rng(0).random((3, 2), np.float32)
CELLS, ARCS = np.ones((2, 3), np.float32), np.ones((2, 2, 3), np.float32)


@pytest.fixture(scope="module")
def results():
    return {
        jm.Assignment: jm.solve_assignment(COST),
        jm.BottleneckAssignment: jm.bottleneck_assignment(COST),
        jm.Matching: jm.maximum_bipartite_matching(GRAPH),
        jm.Flow: jm.maximum_flow(NETWORK, CAPACITY, 0, 2),
        jm.MinimumCut: jm.minimum_cut(NETWORK, CAPACITY, 0, 2),
    }


def state():
    return stepping.init(COST)


RULE = jm.estimators.Identity()

# Of numbers: (function, its argument, whether that may be left out).
NUMBERS = {
    "solve_assignment": (lambda x, r: jm.solve_assignment(x), "cost"),
    "unmatched_cost": (lambda x, r: jm.solve_assignment(COST, unmatched_cost=x), "unmatched_cost"),
    "warm_start": (lambda x, r: jm.solve_assignment(COST, warm_start=x), "warm_start"),
    "linear_sum_assignment": (lambda x, r: jm.linear_sum_assignment(x), "cost_matrix"),
    "check_assignment": (lambda x, r: jm.check_assignment(x, r[jm.Assignment]), "cost"),
    "check_assignment by name": (
        lambda x, r: jm.check_assignment(result=r[jm.Assignment], cost=x),
        "cost",
    ),
    "bottleneck_assignment": (lambda x, r: jm.bottleneck_assignment(x), "cost"),
    "check_bottleneck": (
        lambda x, r: jm.check_bottleneck(x, r[jm.BottleneckAssignment]),
        "cost",
    ),
    "points": (lambda x, r: jm.solve_assignment_points(x, POINTS), "x"),
    "check points": (lambda x, r: jm.check_assignment_points(POINTS, x, r[jm.Assignment]), "y"),
    "maximum_flow": (lambda x, r: jm.maximum_flow(NETWORK, x, 0, 2), "capacity"),
    "minimum_cut": (lambda x, r: jm.minimum_cut(NETWORK, x, 0, 2, nearest="sink"), "capacity"),
    "check_flow": (lambda x, r: jm.check_flow(NETWORK, x, 0, 2, r[jm.Flow]), "capacity"),
    "check_minimum_cut": (
        lambda x, r: jm.check_minimum_cut(NETWORK, x, 0, 2, r[jm.MinimumCut]),
        "capacity",
    ),
    "check_grid_cut": (
        lambda x, r: jm.check_grid_cut(x, CELLS, ARCS, r[jm.MinimumCut]),
        "source_capacity",
    ),
    "solve_sparse": (lambda x, r: jm.solve_sparse_assignment(GRAPH, x), "cost"),
    "check_sparse": (
        lambda x, r: jm.check_sparse_assignment(GRAPH, x, r[jm.Assignment]),
        "cost",
    ),
    "sparse prices": (
        lambda x, r: jm.solve_sparse_assignment(
            GRAPH, CAPACITY, unmatched_cost=1, unmatched_col_cost=x
        ),
        "unmatched_col_cost",
    ),
    "grid_cut": (lambda x, r: jm.grid_cut(CELLS, x, ARCS), "sink_capacity"),
    "grid_cut arcs": (lambda x, r: jm.grid_cut(CELLS, CELLS, x), "pairwise"),
    "assignment_matrix": (lambda x, r: jm.assignment_matrix(x, estimator=RULE), "cost"),
    "labelling": (lambda x, r: jm.estimators.labelling_oracle(x), "pairwise"),
    "stepping.init": (lambda x, r: stepping.init(x), "cost"),
    "stepping.step": (lambda x, r: stepping.step(x, state()), "cost"),
    "from_dense": (lambda x, r: jm.BipartiteGraph.from_dense(x), "A"),
}
INDICES = {
    "start": (lambda x, r: jm.maximum_bipartite_matching(GRAPH, warm_start=x), "warm_start"),
    "source": (lambda x, r: jm.maximum_flow(NETWORK, CAPACITY, x, 2), "source"),
    "sink": (lambda x, r: jm.minimum_cut(NETWORK, CAPACITY, 0, x, nearest="sink"), "sink"),
    "check_flow": (lambda x, r: jm.check_flow(NETWORK, CAPACITY, x, 2, r[jm.Flow]), "source"),
    "rows": (lambda x, r: jm.BipartiteGraph.from_edges(x, [0], (2, 2)), "rows"),
    "receivers": (lambda x, r: jm.FlowNetwork.from_edges([0], x, 3), "receivers"),
    "col4row": (
        lambda x, r: jm.check_assignment(COST, r[jm.Assignment].replace(col4row=x)),
        "result.col4row",
    ),
    "row4col": (
        lambda x, r: jm.check_matching(GRAPH, r[jm.Matching].replace(row4col=x)),
        "result.row4col",
    ),
}
MASKS = {
    "row_mask": (lambda x, r: jm.solve_assignment(COST, row_mask=x), "row_mask"),
    "col_mask": (lambda x, r: jm.check_assignment(COST, r[jm.Assignment], col_mask=x), "col_mask"),
    "bottleneck": (lambda x, r: jm.bottleneck_assignment(COST, row_mask=x), "row_mask"),
    "row_cover": (
        lambda x, r: jm.check_bottleneck(COST, r[jm.BottleneckAssignment].replace(row_cover=x)),
        "result.row_cover",
    ),
    "points": (lambda x, r: jm.solve_assignment_points(POINTS, POINTS, row_mask=x), "row_mask"),
    "check points": (
        lambda x, r: jm.check_assignment_points(POINTS, POINTS, r[jm.Assignment], col_mask=x),
        "col_mask",
    ),
    "sparse": (lambda x, r: jm.solve_sparse_assignment(GRAPH, CAPACITY, row_mask=x), "row_mask"),
    "matrix": (
        lambda x, r: jm.assignment_matrix(COST, estimator=RULE, row_mask=x),
        "row_mask",
    ),
    "stepping": (lambda x, r: stepping.init(COST, col_mask=x), "col_mask"),
    "source_side": (
        lambda x, r: jm.check_flow(NETWORK, CAPACITY, 0, 2, r[jm.Flow].replace(source_side=x)),
        "result.source_side",
    ),
}
ARRAYS = {
    f"{kind}: {name}": case
    for kind, cases in {"numbers": NUMBERS, "indices": INDICES, "masks": MASKS}.items()
    for name, case in cases.items()
}
each_array = pytest.mark.parametrize("call, name", ARRAYS.values(), ids=[*ARRAYS])
each_number = pytest.mark.parametrize(
    "call, name", [x for x in NUMBERS.values() if x[1] != "A"], ids=[x for x in [*NUMBERS][:-1]]
)

# What no argument may be, and what is said of it.
NOTHING_WE_TAKE = {
    "sparse": (sp.eye_array(3).tocsr(), "must be a dense array, got a sparse csr_array"),
    "BCOO": (sparse.BCOO.fromdense(jnp.eye(3)), "must be a dense array, got a sparse BCOO"),
    "masked": (np.ma.masked_array(COST, mask=COST > 0), "must be without a mask, got a masked"),
    "masked rows": ([np.ma.masked_array([1.0, 2.0], mask=[True, False])] * 2, "without a mask"),
    "objects": (np.array([[1, None]] * 2, object), "got (Python objects|object)"),
    "beyond 64 bits": ([[2**70]], "got (Python objects|object)"),
    "text": ("cost", "got (strings|<U4)"),
    "texts": ([["1", "2"]], "got (strings|<U1)"),
    "dates": (np.zeros((3, 3), "M8[s]"), r"got datetime64\[s\]"),
    "ragged": ([[1, 2], [3]], "must be an array of one shape and dtype"),
    "dict": ({}, "must be an array, got dict"),
    "function": (len, "must be an array, got builtin_function_or_method"),
    "graph": (GRAPH, "must be an array, got BipartiteGraph; it seems to have changed places"),
    "key": (jax.random.key(0), "got key<fry>"),
}


@each_array
@pytest.mark.parametrize("what", NOTHING_WE_TAKE)
def test_nothing_we_take(call, name, what, results):
    x, message = NOTHING_WE_TAKE[what]
    if x is GRAPH and name in ("A",):
        message = "must be an array, got BipartiteGraph"
    where = rf"^`{re.escape(name)}` "
    if what in ("objects", "beyond 64 bits", "text", "texts", "dates") and name in (
        "rows", "receivers",
    ):  # fmt: skip  # whose shape is looked at first
        message = f"({message}|must have one dimension)"
    with pytest.raises((TypeError, ValueError), match=f"{where}.*{message}"):
        call(x, results)


@each_number
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_dtype_is_the_one_that_was_passed(call, name, dtype, results):
    """And not the one that JAX would have made of it."""
    got = np.dtype(dtype).name
    with pytest.raises(TypeError, match=rf"^`{name}` must .*, got {got}; cast it\.$"):
        call(np.ones((3, 3), dtype), results)


@each_array
def test_none(call, name, results):
    if name in ("unmatched_cost", "unmatched_col_cost", "warm_start", "row_mask", "col_mask"):
        call(None, results)
        return
    with pytest.raises(TypeError, match=rf"^`{re.escape(name)}` must be an array, got None\.$"):
        call(None, results)


@pytest.mark.parametrize("call, name", MASKS.values(), ids=[*MASKS])
@pytest.mark.parametrize("dtype", ["int64", "float64", "uint8"])
def test_masks_are_boolean(call, name, dtype, results):
    with pytest.raises(TypeError, match=rf"^`{re.escape(name)}` must be boolean.*, got {dtype}\.$"):
        call(np.ones(3, dtype), results)


@pytest.mark.parametrize("wrong", [(np.arange(3), np.arange(3)), COST, None, {}, GRAPH], ids=type)
def test_results_are_results(wrong, results):
    """Also a pair of arrays as scipy returns them, and arguments in another order."""
    checks = {
        jm.Assignment: (
            lambda r: jm.check_assignment(COST, r),
            lambda r: jm.check_assignment_points(POINTS, POINTS, r),
        ),
        jm.BottleneckAssignment: (lambda r: jm.check_bottleneck(COST, r),),
        jm.Matching: (lambda r: jm.check_matching(GRAPH, r),),
        jm.Flow: (lambda r: jm.check_flow(NETWORK, CAPACITY, 0, 2, r),),
        jm.MinimumCut: (
            lambda r: jm.check_minimum_cut(NETWORK, CAPACITY, 0, 2, r),
            lambda r: jm.check_grid_cut(CELLS, CELLS, ARCS, r),
        ),
    }
    kind = "None" if wrong is None else type(wrong).__name__
    for result, calls in checks.items():
        a = "an" if result is jm.Assignment else "a"
        name = "cut" if result is jm.MinimumCut else "result"
        for call in calls:
            expected = rf"^`{name}` must be {a} {result.__name__}, got {kind}; .* makes one"
            with pytest.raises(TypeError, match=expected):
                call(wrong)
            other = results[jm.Flow if result is jm.Matching else jm.Matching]
            with pytest.raises(TypeError, match=f"^`{name}` must be {a} {result.__name__}, got"):
                call(other)


def test_swapped_arguments(results):
    swapped = "seems to have changed places"
    with pytest.raises(TypeError, match=f"^`cost` must be an array, got Assignment; it {swapped}"):
        jm.check_assignment(results[jm.Assignment], COST)  # pyright: ignore
    with pytest.raises(TypeError, match="^`graph` must be a BipartiteGraph, got Matching"):
        jm.check_matching(results[jm.Matching], GRAPH)  # pyright: ignore
    with pytest.raises(TypeError, match="^`network` must be a FlowNetwork, got"):
        jm.maximum_flow(CAPACITY, NETWORK, 0, 2)  # pyright: ignore


def test_what_a_check_does_not_look_at_may_be_anything(results):
    res = results[jm.Assignment].replace(cost=None, row_dual="?", gap=None, status="OPTIMAL")
    assert jm.check_assignment(COST, res).optimal


@pytest.mark.parametrize("sides", [(0, 3), (3, 0), (0, 0)])
def test_empty_clouds(sides):
    x, y = (np.zeros((side, 2), np.float32) for side in sides)
    got = rf"got shapes \[{sides[0]}, 2\] and \[{sides[1]}, 2\]"
    for call in (
        lambda: jm.solve_assignment_points(x, y),
        lambda: jm.check_assignment_points(x, y, jm.Assignment.empty(sides)),
    ):
        with pytest.raises(ValueError, match=f"^`x` and `y` must have at least one point .* {got}"):
            call()


def test_dimensions_are_those_of_the_argument():
    with pytest.raises(ValueError, match=r"^`cost_matrix` must have shape \[..., n, m\], got \(3,"):
        jm.linear_sum_assignment([1, 2, 3])
    with pytest.raises(ValueError, match=r"^`cost` must have shape \[..., n, m\], got \(3,"):
        jm.solve_assignment([1, 2, 3])


def test_indices_are_not_cut():
    """Column 2^32 is no column, and not the first one."""
    graph = jm.BipartiteGraph.from_edges([0], [0], (1, 1))
    res = jm.maximum_bipartite_matching(graph)
    beyond = res.replace(col4row=np.array([2**32]))
    assert not jm.check_matching(graph, beyond).valid
    with pytest.raises(ValueError, match=r"^`result.col4row` holds integers that do not fit int32"):
        jax.jit(lambda graph: jm.check_matching(graph, beyond))(graph)
    flow = jm.maximum_flow(NETWORK, np.ones(2, np.int32), 0, 2)
    with pytest.raises(ValueError, match=r"^`capacity` holds integers that do not fit int32"):
        jax.jit(lambda flow: jm.check_flow(NETWORK, np.array([2**32, 1]), 0, 2, flow))(flow)
    assert not jm.check_flow(NETWORK, np.array([2**32, 0]), 0, 2, flow).valid


def test_lists_of_traced_numbers():
    def cost(a):
        return jm.solve_assignment([[a, 1.0], [1.0, a]]).cost

    assert jax.jit(cost)(0.25) == cost(0.25) == 0.5
    assert jax.grad(cost)(0.25) == 2


def test_other_arrays_of_numpy():
    """Buffers, numbers in the other byte order, views."""
    expected = jm.solve_assignment(COST)
    for given in (memoryview(COST), COST.astype(">f4"), COST[::-1][::-1]):
        jax.tree.map(np.testing.assert_array_equal, jm.solve_assignment(given), expected)


def test_methods_are_names():
    for call in (
        lambda x: jm.solve_assignment(COST, method=x),
        lambda x: jm.maximum_bipartite_matching(GRAPH, method=x),
        lambda x: jm.maximum_flow(NETWORK, CAPACITY, 0, 2, method=x),
        lambda x: jm.grid_cut(CELLS, CELLS, ARCS, method=x),
        lambda x: jm.solve_assignment_points(POINTS, POINTS, method=x),
    ):
        for wrong in ("nonsense", ["auto"], None, 3):
            with pytest.raises(
                ValueError, match=f"^`method` must be .*, got {re.escape(repr(wrong))}"
            ):
                call(wrong)


def test_a_status_is_a_name():
    """Where Python would print the number."""
    for status in jm.Status:
        assert str(status) == f"{status}" == status.name
        assert f"{status:d}" == str(int(status)) and f"{status:>20}".strip() == status.name
    assert f"{jm.Status(6)}" == "INVALID_CAPACITY" and repr(jm.Status(6)) == (
        "<Status.INVALID_CAPACITY: 6>"
    )
