"""The benchmark of sparse assignment: its problems are what they say, peers agree, runs report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.workers import Measured  # noqa: E402
from benchmarks.sparse_assignment import (  # noqa: E402
    batch,
    dense,
    faq,
    k_best,
    peers,
    problems,
    single,
    solve,
    workers,
)
from benchmarks.sparse_assignment.problems import Spec  # noqa: E402


FORMS = ["gated", "full", "rectangular"]
N = 60


def optimum(given: peers.Arrays) -> float:
    """By scipy's dense solver, on rows against columns and a column of its own for each row."""
    n, m, _ = given["size"]
    cost = np.full((n, m + n), 1e12)
    rows = np.repeat(np.arange(n), np.diff(given["row_ptr"]))
    cost[rows, given["col_ind"]] = given["cost"]
    if str(given["form"]) not in problems.FULL:
        cost[np.arange(n), m + np.arange(n)] = peers.price_of(given)
    elif n > m:
        cost[np.arange(n), m + np.arange(n)] = 0
    return cost[linear_sum_assignment(cost)].sum()


def drawn(form: str) -> peers.Arrays:
    return problems.arrays_of(Spec("near 2-D, 10", form, N))


def maximum() -> peers.Arrays:
    """Some vertices have no edge, and there are more rows than columns."""
    rng = np.random.default_rng(1)
    rows, cols = rng.integers(0, 30, (2, 45))
    cost = rng.integers(1, 100, 45).astype(np.int32)
    graph, cost = jm.BipartiteGraph.from_edges_with_cost(rows, cols, cost, (40, 32))
    arrays = {
        k: np.asarray(getattr(graph, k)) for k in ("row_ptr", "col_ind", "col_ptr", "row_ind")
    }
    size = np.array([40, 32, graph.max_edges])
    return arrays | {"cost": cost, "size": size, "form": np.array("maximum"), "gate": np.array(0.0)}


@pytest.mark.parametrize("family", [name for name in problems.FAMILIES if name != "cells"])
def test_families(family: str) -> None:
    """Full forms have a full matching; of gated ones some rows stay, and most do not."""
    forms = FORMS if family.startswith("near") else FORMS[:2]
    for form in forms:
        given = problems.arrays_of(Spec(family, form, 200))
        n, m, edges = given["size"]
        assert (n, m) == (140 if form == "rectangular" else 200, 200)
        assert edges == len(given["cost"]) == given["row_ptr"][-1] and given["cost"].min() > 0
        assert given["cost"].dtype == (np.int32 if family.startswith("random") else np.float64)
        graph = jm.BipartiteGraph(
            *(given[k] for k in ("row_ptr", "col_ind", "col_ptr", "row_ind")),
            np.int32(n),
            np.int32(m),
        )
        res = jm.solve_sparse_assignment(graph, given["cost"], **workers.options_of(given))
        assert res.status == jm.Status.OPTIMAL
        stay = int((np.asarray(res.col4row) < 0).sum())
        assert (0 if "ties" in family else 1) <= stay < n / 2 if form == "gated" else stay == 0


def test_cells() -> None:
    given = problems.arrays_of(Spec("cells", "gated", 300))
    x, y, radius = given["x"], given["y"], float(given["radius"])
    apart = np.sqrt(((x[:, None] - y) ** 2).sum(-1))
    assert (apart <= radius).sum() == given["size"][2]
    np.testing.assert_allclose(float(given["gate"]), radius**2)
    np.testing.assert_allclose(np.sort(given["cost"]), np.sort(apart[apart <= radius] ** 2))


@pytest.mark.parametrize("name", ["scipy", "kwok"])
def test_peers_find_the_optimum(name: str) -> None:
    if name not in peers.found():
        pytest.skip(f"{name} is not installed")
    integers = [problems.arrays_of(Spec("random, 10", form, N)) for form in ("gated", "full")]
    long = {**integers[1], "cost": integers[1]["cost"] + 10**9}  # with prices of more than 32 bits
    for given in (*(drawn(form) for form in FORMS), *integers, maximum(), long):
        value = peers.value_of(given, peers.PEERS[name](given)())
        np.testing.assert_allclose(value, optimum(given), rtol=1e-9)


@pytest.mark.parametrize("form", [*FORMS, "maximum"])
def test_our_solvers_find_the_optimum(form: str) -> None:
    given = maximum() if form == "maximum" else drawn(form)
    with jax.enable_x64(True):
        solvers = [workers._on_edges(given)]
        solvers += [workers._drop_in(given)] if form in problems.FULL else []
        for solver in solvers:
            found = solver.value_of(solver.solve(solver.build()))
            np.testing.assert_allclose(found.value, optimum(given), rtol=1e-9)
            assert found.gap <= 1e-12


def test_pairs_from_points() -> None:
    given = problems.arrays_of(Spec("cells", "gated", 80))
    with jax.enable_x64(True):
        solver = workers._from_points(given)
        ours = solver.value_of(solver.solve(solver.build())).value
    theirs = peers.value_of(given, peers.from_points(given)())
    np.testing.assert_allclose([ours, theirs], optimum(given), rtol=1e-9)


def test_wrong_matchings_are_noticed() -> None:
    given = drawn("full")
    right = peers.by_scipy(given)()
    for wrong in (np.full(N, right[0]), np.where(np.arange(N) == 3, -1, right), np.roll(right, 1)):
        with pytest.raises(AssertionError):
            peers.value_of(given, wrong)
    assert peers.value_of(drawn("gated"), np.full(N, -1)) == pytest.approx(
        N * float(drawn("gated")["gate"])
    )


def test_ratios_of_what_was_stopped() -> None:
    ours, over = Measured(2.0), Measured(500.0, over=True)
    assert single.relative(Measured(3.0), ours) == 1.5
    assert single.relative(over, ours) == ">250"
    assert single.relative(ours, over) == "<0.004"
    assert single.relative(over, over) is single.relative(None, ours) is None
    of_all = solve.summary([{"a/b": 2.0}, {"a/b": ">8"}, {"a/b": None}])
    expected = {"rows": 2, "stopped": 1, "ours stopped": 0}
    expected |= {"mean": 4.0, "least": 2.0, "greatest": 8.0}
    assert of_all == pytest.approx({f"a/b, {k}": x for k, x in expected.items()})


@pytest.mark.parametrize("case", [*batch.cases(True, True), *dense.cases(True)], ids=str)
def test_cases_of_a_gpu_without_one(case: Any) -> None:
    """They solve what they say and find what scipy does; here on the CPU."""
    row = case.row(0.01)
    assert all(x is None or x == x for x in row.values())
    assert {"shared", "own", "uniform", "sphere to shape", "20 clusters"} & set(row.values())


def test_lists_on_a_core_and_in_a_batch() -> None:
    assert k_best.Batch("plane", 3, 8, 4).row(0.01)["call_ms"] > 0
    if not k_best.has_peer():
        pytest.skip("fastlap is not installed")
    for name in k_best.NAMES:
        with jax.enable_x64(True):
            assert k_best.OneCore(name, 8, 4).row(0.01)["fastlap/ours"] > 0


def test_starts_beside_scipy() -> None:
    # Examples are written as most code is.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        row = faq.Case("chr12c", 4, 4, on_gpu=False).row(0.01)
    assert row["scipy/ours"] > 0 and not [key for key in row if "_ms" in key]
    assert row["median"] == pytest.approx(row["scipy, median"], rel=0.2)


def test_a_quick_run_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(problems, "SIZES", [150])
    monkeypatch.setattr(problems, "CELLS", 150)
    given = ["solve", "--quick", "--out", str(tmp_path), "--most", "150", "--limit", "30"]
    monkeypatch.setattr(sys, "argv", [*given, "cpu", "dense", "k_best"])
    monkeypatch.setattr(solve, "has_gpu", lambda: False)
    solve.main()
    found = json.loads((tmp_path / "sparse_assignment_cpu.json").read_text())
    assert not found["failures"] and len(found["rows"]) == 4 * 3 + 2 * 2 + 2
    assert all(row["scipy/ours"] > 0 for row in found["rows"])
    assert not [key for row in found["rows"] for key in row if key.endswith("_ms")]
    assert {"cpu", "versions", "commit", "limit_s", "summary"} <= set(found)
    assert (tmp_path / "sparse_assignment_cpu.png").exists()
    assert not (tmp_path / "sparse_assignment_dense.json").exists()


@pytest.mark.parametrize("spare", [0, 2])
def test_rows_of_a_gpu_beside_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spare: int
) -> None:
    """Here all is the CPU."""
    monkeypatch.setattr(problems, "SIZES", [150])
    monkeypatch.setattr(single, "spare_cores", lambda: single.one_core() * spare)
    given = ["solve", "--quick", "--out", str(tmp_path), "--rows", "near", "gpu"]
    monkeypatch.setattr(sys, "argv", given)
    monkeypatch.setattr(solve, "has_gpu", lambda: True)
    monkeypatch.setattr(solve.record, "gpu", lambda: {"gpu": "none", "driver": "none"})
    solve.main()
    found = json.loads((tmp_path / "sparse_assignment_gpu.json").read_text())
    assert not found["failures"] and len(found["rows"]) == 4 * 3
    assert all(row["cpu/gpu"] > 0 and row["gap"] <= 1e-6 for row in found["rows"])
    solve.plot_gpu(found["rows"], tmp_path / "sparse_assignment_gpu.png", "one GPU")
    assert (tmp_path / "sparse_assignment_gpu.png").exists()
