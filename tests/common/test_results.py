"""Results and checks of a batch, by problem; and what unpacks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


def batched(shape):
    """A result and a check of every kind, for a batch of this shape."""
    rng = np.random.default_rng(0)
    cost = rng.random((*shape, 3, 4), np.float32)
    assignment = jm.solve_assignment(cost)
    graph = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0], (3, 2))
    graph = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *x.shape)), graph)
    matching = jm.maximum_bipartite_matching(graph)
    square = cost[..., :, :1] + cost[..., None, :, 0]
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    capacity = rng.integers(1, 9, (*shape, 2)).astype(np.int32)
    flow = jm.maximum_flow(network, capacity, 0, 2)
    cells = rng.integers(0, 9, (2, *shape, 2, 3)).astype(np.int32)
    cut = jm.minimum_cut(network, capacity, 0, 2)
    return {
        "Assignment": assignment,
        "CapacitatedAssignment": jm.solve_capacitated_assignment(cost, col_capacity=2),
        "AssignmentCheck": jm.check_assignment(cost, assignment),
        "KBestAssignments": (k_best := jm.k_best_assignments(cost, 3)),
        "KBestCheck": jm.check_k_best(cost, k_best),
        "BottleneckAssignment": (bottleneck := jm.bottleneck_assignment(cost)),
        "BottleneckCheck": jm.check_bottleneck(cost, bottleneck),
        "Alignment": jm.solve_alignment(cost[..., :3], cost[..., 1:], starts=2),
        "QuadraticAssignment": jm.quadratic_assignment(square, square),
        "GromovWasserstein": jm.gromov_wasserstein(square, square),
        "Matching": matching,
        "MatchingCheck": jm.check_matching(graph, matching),
        "Flow": flow,
        "FlowCheck": jm.check_flow(network, capacity, 0, 2, flow),
        "MinimumCut": cut,
        "MinimumCutCheck": jm.check_minimum_cut(network, capacity, 0, 2, cut),
        "MinimumCut of a grid": jm.grid_cut(*cells, np.ones((2, 2, 3), np.int32)),
    }


@pytest.fixture(scope="module")
def results():
    return batched((2, 5))


INDICES = {
    "a problem": (1, 2),
    "the first dimension": 1,
    "from the end": -1,
    "slice": (slice(None), slice(1, 4)),
    "ellipsis": (..., 3),
    "ellipsis in front of nothing": (1, 2, ...),
    "new dimension": (None, 1, ..., None),
    "mask": np.arange(10).reshape(2, 5) % 3 == 0,
    "numbers": (slice(None), np.array([3, 0, 3])),
    "numpy integer": np.int64(1),
    "jax integer": jnp.int32(1),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=[*INDICES])
def test_an_index_is_of_the_batch(results, index):
    """As NumPy indexes the numbers of the problems; whole problems come out."""
    numbers = np.arange(10).reshape(2, 5)[index]
    for name, res in results.items():
        got = res[index]
        assert type(got) is type(res)
        assert got.batch_shape == numbers.shape, name
        flat = jax.tree.map(lambda x: x.reshape(10, *x.shape[2:])[numbers], res)  # noqa: B023
        jax.tree.map(np.testing.assert_array_equal, got, flat)


def test_traced_index(results):
    for res in results.values():
        got = jax.jit(lambda res, k: res[1, k])(res, 3)
        jax.tree.map(np.testing.assert_array_equal, got, res[1, 3])


def test_one_problem_has_no_index():
    for res in batched(()).values():
        name = type(res).__name__
        assert res.batch_shape == ()
        for index in (0, ..., slice(None), "cost"):
            with pytest.raises(IndexError, match=f"This {name} is one problem and has no batch"):
                res[index]


def test_index_out_of_range(results):
    for res in results.values():
        name = type(res).__name__
        for index in (2, -3, (0, 5), (0, 0, 0), (..., 5), np.array([0, 2]), "cost"):
            with pytest.raises(IndexError, match=rf"This {name} has the batch shape \(2, 5\): "):
                res[index]


def test_only_cuts_unpack(results):
    """Into their fields, all of them. Others are no sequence of problems and none of fields."""
    for res in results.values():
        if isinstance(res, jm.MinimumCut):
            value, source_side, status = res
            assert value is res.value and source_side is res.source_side and status is res.status
        else:
            with pytest.raises(TypeError, match="not iterable"):
                iter(res)


def result_types():
    """Every dataclass of arrays that a public function returns."""
    public = [*vars(jm).values(), *vars(jm.losses).values(), *vars(jm.stepping).values()]
    inputs = (jm.BipartiteGraph, jm.FlowNetwork)
    known = {x for x in public if isinstance(x, type) and dataclasses.is_dataclass(x)}
    returned = [jm.losses.HungarianLoss, jm.losses.DetectionLoss, jm.losses.StructuredLoss]
    assert known > {jm.Assignment, jm.AssignmentCheck, jm.stepping.AssignmentState, *returned}
    configurations = {jm.losses.DetectionCriterion}
    return sorted(known - configurations - {*inputs}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", result_types(), ids=lambda kind: kind.__name__)
def test_equality_is_identity(kind):
    fields = {field.name: jnp.arange(2) for field in dataclasses.fields(kind)}
    one, other = kind(**fields), kind(**fields)
    assert (one == one) is True and (one == other) is False and (one != other) is True
    assert len({one, other}) == 2


def test_raise_for_status(results):
    for res in results.values():
        if hasattr(res, "status"):
            assert res.raise_for_status() is res
            status = np.zeros((2, 5), np.int32)
            status[1, 3] = status[1, 4] = jm.Status.OVERFLOW
            status[1, 2] = jm.Status.INFEASIBLE
            for bad in (status, jnp.asarray(status)):
                with pytest.raises(
                    ValueError, match=r"^INFEASIBLE \(problem \(1, 2\) of the batch"
                ):
                    res.replace(status=bad).raise_for_status()
            with pytest.raises(ValueError, match=r"^OVERFLOW \(problem 0 of the batch\): .*\.$"):
                res.replace(status=status)[1, 3:].raise_for_status()
    alone = jm.Assignment.empty((3, 3))
    with pytest.raises(ValueError, match="^UNFINISHED: The solver was not asked to finish"):
        alone.raise_for_status()


def test_nothing_is_raised_under_a_trace():
    cost = jnp.eye(3)[None]
    solve = lambda cost: jm.solve_assignment(cost).raise_for_status().cost  # noqa: E731
    for traced in (jax.jit(solve), jax.vmap(solve)):
        with pytest.raises(TypeError, match="under `jit`, `vmap` or `grad`.*checkify"):
            traced(cost)
    assert jax.jit(jm.solve_assignment)(cost).raise_for_status().status == 0


def test_replace(results):
    for name, res in results.items():
        field = "status" if hasattr(res, "status") else "valid"
        changed = res.replace(**{field: 3})
        assert type(changed) is type(res) and getattr(changed, field) == 3, name
        assert getattr(res, field) is not changed
        with pytest.raises(TypeError, match="nonsense"):
            res.replace(nonsense=1)
