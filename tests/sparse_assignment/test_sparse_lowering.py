"""Which targets sparse assignments ask for on CUDA; a GPU is not needed to see it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import native_calls, x64

import jaxmatch as jm
from jaxmatch._library import libraries


def targets(monkeypatch, solve, *arguments):
    """The names of the native calls in the program for CUDA, and their attributes."""
    monkeypatch.setattr(libraries, "has_cuda_library", lambda: True)
    text = jax.jit(solve).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    lines = [x for x in text.splitlines() if "custom_call @jaxmatch_" in x]
    names = [x.split("custom_call @jaxmatch_")[1].split("(")[0] for x in lines]
    return names, native_calls(text)


def problem(side, dtype=np.float32):
    rows = np.arange(side)
    graph = jm.BipartiteGraph.from_edges(rows, rows, (side, side + 1))
    return graph, jnp.asarray(rows, dtype)


DENSE, SPARSE = ["assignment"], ["sparse_assignment"]


@pytest.mark.parametrize(
    "side, dtype, options, wide, expected",
    [
        (70, np.float32, {}, False, DENSE),
        (70, np.float32, {"unmatched_cost": 1.0}, False, DENSE),
        (70, np.float32, {"unmatched_cost": 1.0, "unmatched_col_cost": 2.0}, False, SPARSE),
        (70, np.int32, {}, False, SPARSE),
        (70, np.int32, {}, True, DENSE),
        (70, np.int32, {"unmatched_cost": np.int64(3)}, True, SPARSE),
        (70, np.int64, {}, True, SPARSE),
        (150, np.float32, {}, False, SPARSE),
    ],
)
def test_on_cuda(side, dtype, options, wide, expected, monkeypatch):
    with x64(wide):
        solve = partial(jm.solve_sparse_assignment, **options)
        names, calls = targets(monkeypatch, solve, *problem(side, dtype))
    assert names == expected
    if expected == SPARSE:
        (call,) = calls
        assert call["present"].split()[:2] == ["col_ptr", "row_ind"]
        assert ("unmatched_cost" in call["present"]) == ("unmatched_cost" in options)


@pytest.mark.parametrize("side, kind", [(70, DENSE), (150, SPARSE)])
def test_maximum_on_cuda(side, kind, monkeypatch):
    """A matching, of the whole graph or of what is allowed, and the two parts that it leaves."""
    solve = partial(jm.solve_sparse_assignment, cardinality="maximum")
    names, _ = targets(monkeypatch, solve, *problem(side, np.float32))
    assert names == ["matching", "matching", *kind, *kind]


def test_points_within_a_radius_on_cuda(monkeypatch):
    x, y = jnp.zeros((61, 2)), jnp.ones((62, 2))
    solve = partial(jm.solve_assignment_points, radius=0.5, unmatched_cost=1.0)
    names, calls = targets(monkeypatch, solve, x, y)
    assert names == ["near_pairs", "near_pairs", "sparse_assignment"]
    assert [call.get("present") for call in calls[:2]] == ["", "row_ptr"]
    assert all(call["metric"] == "sqeuclidean" for call in calls[:2])
    names, _ = targets(monkeypatch, partial(solve, method="xla"), x, y)
    assert "near_pairs" not in names


@pytest.mark.parametrize(
    "shape, k, native", [((60, 61), 5, True), ((4097, 3), 5, False), ((60, 61), 16_385, False)]
)
def test_k_best_on_cuda(shape, k, native, monkeypatch):
    names, _ = targets(monkeypatch, partial(jm.k_best_assignments, k=k), jnp.zeros(shape))
    assert names == ["k_best"] if native else "k_best" not in names
