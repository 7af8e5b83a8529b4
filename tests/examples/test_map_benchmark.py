"""The map of all solvers: its draws depend on the seed alone, and a quick run reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.map import __main__ as map_of_solvers  # noqa: E402
from benchmarks.map.draws import DRAW, draw  # noqa: E402


def test_a_longer_list_begins_with_the_same_problems() -> None:
    for one, other in zip(draw(7, 3), draw(7, 9)[:3], strict=True):
        first, again = one(), other()
        assert (first.solver, first.what) == (again.solver, again.what)
        for x, y in zip(jax.tree.leaves(first.arrays), jax.tree.leaves(again.arrays), strict=True):
            np.testing.assert_array_equal(x, y)


def test_every_solver_is_drawn() -> None:
    assert {made.func for made in draw(1, 90)} == {*DRAW.values()}


@pytest.mark.cpu
def test_a_quick_run(monkeypatch, tmp_path: Path) -> None:
    """Answers are checked and compared with those of peers."""
    arguments = ["--quick", "--rows", "flow|2000 x 8|matching power law 10000"]
    monkeypatch.setattr(sys, "argv", ["map", *arguments, "--out", str(tmp_path)])
    map_of_solvers.main()
    found = json.loads((tmp_path / "map_cpu.json").read_text())
    assert {row["solver"] for row in found["rows"]} >= {"flow", "matching", "capacities"}
    assert all(row["core_ms"] > 0 for row in found["rows"])
    assert all(row["core/peer"] for row in found["rows"] if row["solver"] == "flow")
