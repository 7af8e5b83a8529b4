"""The benchmark of minimum-cost flow: its networks have flows, peers agree, a quick run reports."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.min_cost_flow import batches, peers, problems, solve  # noqa: E402
from benchmarks.min_cost_flow.problems import Problem  # noqa: E402


def solved(given: Problem) -> jm.MinimumCostFlow:
    network = jm.FlowNetwork.from_edges(given.tail, given.head, given.nodes)
    arrays = given.capacity, given.cost, given.supply
    with jax.enable_x64(True):
        res = jm.minimum_cost_flow(network, *arrays)
        assert jm.check_minimum_cost_flow(network, *arrays, res).optimal
    return res


@pytest.mark.parametrize("name", problems.FAMILIES)
def test_networks(name: str) -> None:
    for arcs in (600, 2500):
        given = problems.problem(name, arcs)
        assert 0.3 * arcs < given.arcs < 1.2 * arcs and given.supply.sum() == 0
        assert (given.capacity > 0).all() and (given.tail != given.head).all()
        assert len(np.unique(given.tail * given.nodes + given.head)) == given.arcs
        again = problems.problem(name, arcs)
        assert all((x == y).all() for x, y in zip(given, again, strict=True))
        assert solved(given).status == jm.Status.OPTIMAL


def test_sizes() -> None:
    """From about 1000 to 200,000 arcs, and 1000 frames of 50 detections."""
    assert max(problems.sizes("tracking")) == 2 * problems.NEAREST * problems.DETECTIONS * 1000
    assert {problems.sizes(name)[0] for name in problems.FAMILIES} == {1500}


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_find_the_optimum(name: str) -> None:
    if name not in peers.known():
        pytest.skip(f"{name} is not installed")
    make = peers.known()[name]
    for family in ("GOTO, degree 8", "tracking", "floats, 10^±3"):
        given = problems.problem(family, 300)
        assert peers.takes(name, given)
        np.testing.assert_allclose(make(given)(), float(solved(given).cost), rtol=1e-9)
    wide = problems.problem("floats, 10^±12", 300)
    assert peers.takes(name, wide) == (name == "networkx")
    if name == "networkx":
        np.testing.assert_allclose(make(wide)(), float(solved(wide).cost), rtol=1e-12)


def test_wrong_answers_are_noticed() -> None:
    given = problems.problem("road", 300)
    res = solved(given)
    network = jm.FlowNetwork.from_edges(given.tail, given.head, given.nodes)
    with jax.enable_x64(True):
        solve.check(given, network, {"auto": res, "peer": float(res.cost)})
        other = res.replace(flow=res.flow + 1)
        for wrong in ({"auto": res, "peer": float(res.cost) + 1}, {"auto": other}):
            with pytest.raises(AssertionError):
                solve.check(given, network, wrong)


@pytest.mark.parametrize(
    "case", [batches.Case(5, 20, 60, "int32"), batches.Case(1, 9, 30, "float32")]
)
def test_cases_of_a_gpu_without_one(case: batches.Case) -> None:
    """They solve what they say and find what the core does; here on the CPU."""
    row = batches.measure(case, True)
    assert row["ms"] > 0 and row["core_ms"] > 0
    network, arrays = batches.drawn(case)
    batch = (case.problems,) if case.problems > 1 else ()
    assert network.senders.shape == (*batch, case.arcs) and network.num_nodes == case.nodes
    assert [x.dtype for x in arrays] == 3 * [case.dtype]


def test_a_run_on_a_gpu_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Here it is the CPU."""
    monkeypatch.setattr(batches, "QUICK", [(3, 20, 60)])
    monkeypatch.setattr(solve.record, "gpu", lambda: {"gpu": "none", "driver": "none"})
    solve.on_gpu(Namespace(quick=True, rows=re.compile("int32"), peers=True, out=tmp_path))
    found = json.loads((tmp_path / "min_cost_flow_gpu.json").read_text())
    assert [row["row"] for row in found["rows"]] == ["3 x (20 nodes, 60 arcs), int32"]
    assert found["gpu"] == "none" and found["rows"][0]["core/gpu"] > 0


def test_a_quick_run_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not {"ortools", "LEMON"} <= set(peers.known()):
        pytest.skip("or-tools or pylmcf is not installed")
    monkeypatch.setattr(problems, "SIZES", [300, 600, 1200])
    monkeypatch.setattr(solve, "MOST_RUNS", 3)
    monkeypatch.setattr(sys, "argv", ["solve", "--quick", "--out", str(tmp_path)])
    solve.main()
    found = json.loads((tmp_path / "min_cost_flow_cpu.json").read_text())
    assert len(found["rows"]) == 2 * len(problems.FAMILIES)
    for row in found["rows"]:
        assert (row["ours/fastest"] is None) == (row["family"] == "floats, 10^±12")
        assert row["cost_scaling/ours"] > 0
    assert not [key for row in found["rows"] for key in row if key.endswith("_ms")]
    assert {"cpu", "versions", "commit", "summary"} <= set(found)
    assert (tmp_path / "min_cost_flow_cpu.png").exists()
