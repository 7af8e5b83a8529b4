"""Shapes matched by inner distances: the program finds points again, and says how surely."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("scipy.sparse")

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_example_runs(tmp_path):
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    command = [sys.executable, EXAMPLES / "shapes_by_gw.py", "--quick", "--out", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shapes_by_gw.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "shapes_by_gw.json").read_text())
    assert 0 < result["bound"] < result["value"] <= result["of_first_start"]
    assert result["gap"] < 1e-9 and result["agree"] >= 1
    assert result["matched_exactly"] > 0.8 and result["mean_distance"] < 0.05
