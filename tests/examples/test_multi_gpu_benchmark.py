"""The benchmark of several GPUs: its costs are those of every division, its proofs hold."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmatch as jm


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.assignment.sharded import (
    parts,  # noqa: E402
    problems,  # noqa: E402
)
from benchmarks.common.costs import uniform_integers  # noqa: E402


N = 30  # does not divide by four


def solved(kind, count):
    """A problem of N rows over so many devices, and what is known to be its optimum."""
    mesh = problems.mesh_of(count)
    cost = problems.make_costs(N, kind, mesh)
    real = np.arange(len(cost)) < N
    with jax.enable_x64(True):
        res = jm.solve_assignment(np.asarray(cost), row_mask=real, col_mask=real)
    return (cost,), jax.tree.map(np.asarray, res), N, mesh


@pytest.mark.parametrize("count", [1, 2, 4])
def test_costs_do_not_depend_on_the_division(count):
    mesh = problems.mesh_of(count)
    side = problems.padded(N, count)
    for kind, greatest in problems.INTEGERS.items():
        integers = problems.make_costs(N, kind, mesh)
        assert integers.shape == (side, side)
        wanted = uniform_integers(N, N, greatest(N), seed=1)[0]
        if kind == "eight rows":
            wanted = wanted[np.arange(N) % 8]
        np.testing.assert_array_equal(np.asarray(integers)[:N, :N], wanted)
    for kind, points in problems.POINTS.items():
        x, y = points(N, 1)
        wanted = ((x[:, None] - y) ** 2).sum(-1)
        found = np.asarray(problems.make_costs(N, kind, mesh))[:N, :N]
        np.testing.assert_allclose(found, wanted, rtol=2.0**-23)
        alone = problems.make_costs(N, kind, problems.mesh_of(1))
        np.testing.assert_array_equal(found, np.asarray(alone)[:N, :N])
    floats = problems.make_costs(N, "uniform", mesh)
    assert {s.data.shape for s in floats.addressable_shards} == {(side // count, side)}
    alone = problems.make_costs(N, "uniform", problems.mesh_of(1))
    np.testing.assert_array_equal(np.asarray(floats)[:N, :N], alone)
    assert 0.45 < np.asarray(alone).mean() < 0.55 and 0 <= alone.min() <= alone.max() < 1


@pytest.mark.parametrize("kind", ["10n", "uniform"])
@pytest.mark.parametrize("count", [1, 4])
def test_proofs_of_optima(kind, count, monkeypatch):
    optimize = pytest.importorskip("scipy.optimize")
    problem, res, n, mesh = solved(kind, count)
    cost = np.asarray(problem[0], np.float64)[:n, :n]
    monkeypatch.setattr(problems, "_BLOCK_BYTES", 8 * 3 * len(problem[0]))  # three rows at a time
    row = problems.prove(problem, res, n, mesh)
    best = cost[optimize.linear_sum_assignment(cost)].sum()
    assert row["value"] == pytest.approx(best, rel=1e-14)
    assert row["proved_gap"] == pytest.approx(0, abs=1e-12)


def swapped(res):
    """Two rows have each other's columns."""
    col4row, row4col = res.col4row.copy(), res.row4col.copy()
    col4row[[0, 1]] = col4row[[1, 0]]
    row4col[col4row[[0, 1]]] = 0, 1
    return res.replace(col4row=col4row, row4col=row4col)


def moved(name, at, by=1.0):
    def change(res):
        dual = getattr(res, name).copy()
        dual[at] += by
        return res.replace(**{name: dual})

    return change


WRONG = {
    "worse pairs": swapped,
    "a row twice": lambda res: res.replace(col4row=np.full_like(res.col4row, 3)),
    "row4col of another": lambda res: res.replace(row4col=np.roll(res.row4col, 1)),
    "value": lambda res: res.replace(cost=res.cost + 1),
    "a column dual too high": moved("col_dual", 5),
    "a column dual too low": moved("col_dual", N - 1, -1.0),
    "a row dual": moved("row_dual", N - 1),
    "status": lambda res: res.replace(status=np.int32(jm.Status.INFEASIBLE)),
}


@pytest.mark.parametrize("kind", ["10n", "uniform"])
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(kind, what):
    problem, res, n, mesh = solved(kind, 4)
    with pytest.raises(AssertionError):
        problems.prove(problem, WRONG[what](res), n, mesh)


def test_proof_where_columns_stay():
    problem, _, n, mesh = solved("uniform", 4)
    rows = np.arange(len(problem[0]))
    with jax.enable_x64(True):
        res = jm.solve_assignment(np.asarray(problem[0]), row_mask=rows < 20, col_mask=rows < n)
    res = jax.tree.map(np.asarray, res)
    row = problems.prove(problem, res, n, mesh, 20)
    assert row["value"] == float(res.cost) and row["proved_gap"] == pytest.approx(0, abs=1e-12)
    for wrong in (swapped, moved("col_dual", 5), moved("row_dual", 19)):
        with pytest.raises(AssertionError):
            problems.prove(problem, wrong(res), n, mesh, 20)


def test_proof_of_points():
    n, mesh = 32, problems.mesh_of(4)
    x, y = problems.make_points(n, mesh)
    a, b = (np.asarray(p, np.float64) for p in (x, y))
    with jax.enable_x64(True):
        res = jm.solve_assignment(((a[:, None] - b) ** 2).sum(-1))
    row = problems.prove((x, y), res, n, mesh)
    assert abs(row["proved_gap"]) < 1e-12
    assert row["value"] == pytest.approx(float(res.cost), rel=1e-12)
    worse = problems.prove((x, y), swapped(jax.tree.map(np.asarray, res)), n, mesh)
    assert worse["proved_gap"] > 1e-4


def test_efficiencies_of_the_paper():
    """Tables 4 and 5 of Date and Nagi print these."""

    def row(form, devices, n, ms):
        fixed = {"costs": "10n", "method": "tree", "value": n}
        return fixed | {"form": form, "devices": devices, "n": n, "ms": ms}

    sides = {1: 10000, 2: 14142, 4: 20000}
    weak = parts.weak_table(
        [row("plain", 1, 10000, 3.0), *(row("divided", p, n, 4.0 * p) for p, n in sides.items())]
    )
    assert [round(r["paper_efficiency"], 2) for r in weak[1:]] == [1, 0.8, 0.61]
    assert [r["efficiency_by_divided"] for r in weak[1:]] == [1, 0.5, 0.25]
    assert [r["efficiency_by_plain"] for r in weak[1:]] == [0.75, 0.375, 0.1875]
    strong = parts.strong_table([row("divided", p, 14142, 4.0 / p) for p in sides])
    assert [round(r["paper_efficiency"], 2) for r in strong] == [1, 0.59, 0.29]
    assert [r["efficiency_by_divided"] for r in strong] == [1, 1, 1]
    with pytest.raises(AssertionError):
        parts.strong_table(
            [row("divided", 1, 200, 1.0), row("divided", 1, 200, 1.0) | {"value": 7}]
        )
