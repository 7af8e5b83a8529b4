"""The benchmark of quadratic problems: its instances, and a quick run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


pytest.importorskip("matplotlib")
pytest.importorskip("ot")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.quadratic import plots, problems  # noqa: E402


def test_instances():
    known = pytest.importorskip("scipy.optimize.tests.test_quadratic_assignment").chr12c()
    _, a, b, maximize, optimum = problems.chr12c()
    np.testing.assert_array_equal(a, known[0])
    np.testing.assert_array_equal(b, known[1])
    assert not maximize and optimum == 11156
    _, a, b, maximize, hidden = problems.graphs(60)
    assert maximize and a.sum() > hidden > 0.5 * a.sum() and (b == b.T).all()
    starts = problems.starts(9, 4)
    np.testing.assert_allclose(starts.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(starts.sum(-2), 1, atol=1e-6)
    assert (starts[0] == 1 / 9).all()


def test_quick_run(tmp_path):
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.quadratic", "--quick", "--out", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "quadratic_cpu.json").read_text())
    assert found["cores"] == 1 and found["versions"].keys() >= {"jax", "scipy", "pot"}
    assert [row["starts"] for row in found["quadratic"]] == [1, 4]
    assert all(row["same"] == 1 and row["scipy/jit"] > 0 for row in found["quadratic"])
    assert all(abs(row["value - pot"]) < 1e-9 for row in found["gromov"])
    picture = plots.draw(found["quadratic"], found["gromov"], tmp_path / "quadratic_cpu.png")
    assert picture.stat().st_size > 10_000
