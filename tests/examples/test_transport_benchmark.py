"""The benchmark of transport: its problems are balanced, its peers agree, a quick run reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.transport import peers, problems, solve  # noqa: E402


@pytest.mark.parametrize("weights", problems.WEIGHTS)
def test_masses_are_balanced(weights: str) -> None:
    for given in (problems.problem("plane", weights, 40), problems.rectangle(9000, 3, weights)):
        assert given.supply.shape + given.demand.shape == given.cost.shape
        np.testing.assert_allclose(given.supply.sum(), given.demand.sum(), rtol=1e-12)
        assert (given.supply >= 0).all()
        assert (given.supply.dtype == np.int32) == (weights == "integers")
        cost, supply, demand, _ = problems.as_integers(given)
        assert {x.dtype for x in (cost, supply, demand)} == {np.dtype(np.int64)}
        assert supply.sum() == demand.sum()


@pytest.mark.parametrize("name", ["POT", "LEMON", "ortools", "HiGHS"])
def test_peers_find_the_optimum(name: str) -> None:
    if name not in peers.known():
        pytest.skip(f"{name} is not installed")
    cost = np.random.default_rng(0).normal(size=(15, 15))
    rows, cols = linear_sum_assignment(cost)
    masses = np.append(np.full(15, 2.0), 0.0)  # with a row and a column that have none
    given = problems.Problem(np.pad(cost, (0, 1), constant_values=-9.0), masses, masses)
    value, ms = peers.measure(peers.known()[name], given)
    np.testing.assert_allclose(value, 2 * cost[rows, cols].sum(), rtol=1e-6)
    assert ms > 0


def test_bounds_as_a_transport_problem() -> None:
    """The same as copies of columns: some must be taken, the others may."""
    given = problems.clusters(60, 4, 2, slack=0.2)
    never = np.full((given.most * 4 - 60, 4), 1e6)
    least = np.vstack([given.cost, never]).repeat(given.least, 1)
    others = np.vstack([given.cost, 0 * never]).repeat(given.most - given.least, 1)
    copies = np.hstack([least, others])
    best = copies[linear_sum_assignment(copies)].sum()
    value, _ = peers.by_highs(problems.as_transport(given))
    np.testing.assert_allclose(value, best, rtol=1e-9)
    for warm in (False, True):
        assert solve.our_clusters(given, best, np.float64, warm) > 0


def test_wrong_answers_are_noticed() -> None:
    given = problems.problem("uniform", "Dirichlet", 12)
    with jax.enable_x64(True):
        res = solve.solve(*solve.on_device(given, np.float64))
    solve.check(given, float(res.cost), res, 1e-9)
    with pytest.raises(AssertionError):
        solve.check(given, 1.001 * float(res.cost), res, 1e-9)


def test_a_quick_run_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if "POT" not in peers.known():
        pytest.skip("POT is not installed")
    monkeypatch.setattr(solve, "SIZES", [12, 16])
    monkeypatch.setattr(solve, "QUICK_RECTANGLE", (150, 4))
    monkeypatch.setattr(solve, "has_gpu", lambda: False)
    monkeypatch.setattr(solve.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["solve", "--quick", "--out", str(tmp_path)])
    solve.main()
    found = json.loads((tmp_path / "transport_cpu.json").read_text())
    assert len(found["rows"]) == 2 * len(solve.FEW) * len(problems.WEIGHTS) + 3 + 4
    assert all(row["POT/ours"] > 0 for row in found["rows"])
    assert not [key for row in found["rows"] for key in row if key.endswith("_ms")]
    assert {"cpu", "versions", "commit"} <= set(found)
    assert (tmp_path / "transport_cpu.png").exists()
