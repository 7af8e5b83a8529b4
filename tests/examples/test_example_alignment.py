"""The example of molecules runs, and its alignments reach what made the copies."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaxmatch as jm


pytest.importorskip("ase")
pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_align_molecules_runs(tmp_path):
    command = [sys.executable, EXAMPLES / "align_molecules.py", "--quick", "--out", tmp_path]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "align_molecules.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "align_molecules.json").read_text())
    reached = result["reached"]
    assert len(result["molecules"]) == 12 and reached["solve_alignment"] == 1
    assert reached["as given"] < 0.6 and reached["axes of inertia"] < 0.9
    for ours, others in zip(
        result["rmsd"]["solve_alignment"], result["rmsd"]["axes of inertia"], strict=True
    ):
        assert ours <= others * (1 + 1e-4) + 1e-4
