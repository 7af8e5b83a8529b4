"""Graph matching: known optima, and values as those of scipy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
pytest.importorskip("scipy.optimize")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def value(a, b, q):
    return sum(a[i, j] * b[q[i], q[j]] for i in range(len(q)) for j in range(len(q)))


def test_starts_are_doubly_stochastic():
    from graph_matching import random_starts

    starts = random_starts(0, 20, 30)
    assert starts.shape == (20, 30, 30) and starts.min() > 0
    np.testing.assert_allclose(starts.sum(-1), 1, atol=1e-3)
    np.testing.assert_allclose(starts.sum(-2), 1, atol=1e-3)
    assert len(np.unique(starts[:, 0, 0])) == 20


@pytest.mark.parametrize("name", ["chr12c", "tai64c"])
def test_known_optima_are_reached(name):
    from _graph_matching_instances import BUILT_IN

    _, a, b, best_known = BUILT_IN[name]()
    key = jax.random.key(0)
    least = jm.quadratic_assignment(a, b, starts=256, steps=60, two_opt=True, key=key).value
    assert least == best_known == {"chr12c": 11156, "tai64c": 1855928}[name]


def test_chr12c_is_that_of_scipy():
    from _graph_matching_instances import chr12c

    known = pytest.importorskip("scipy.optimize.tests.test_quadratic_assignment").chr12c()
    _, a, b, best_known = chr12c()
    np.testing.assert_array_equal(a, known[0])
    np.testing.assert_array_equal(b, known[1])
    assert value(a, b, known[2]) == best_known


def test_files_of_qaplib(tmp_path):
    from _graph_matching_instances import load

    (tmp_path / "small.dat").write_text("2\n\n 0 1\n 2 0\n\n 0 5\n 7 0\n")
    name, a, b, best_known = load("small", tmp_path)
    assert name == "small" and best_known is None
    np.testing.assert_array_equal(a, [[0, 1], [2, 0]])
    np.testing.assert_array_equal(b, [[0, 5], [7, 0]])
    (tmp_path / "small.sln").write_text(" 2  17\n 2 1\n")
    assert load("small", tmp_path).best_known == 17 == value(a, b, [1, 0])
    with pytest.raises(FileNotFoundError, match="r-cran-qap"):
        load("large", tmp_path)


def test_pairs_of_graphs():
    from _graph_matching_graphs import draw_pair

    pair = draw_pair(0, 40, 0.0)
    q = pair.partner
    np.testing.assert_array_equal(pair.first, pair.second[np.ix_(q, q)])
    np.testing.assert_array_equal(pair.places[0], pair.places[1][q])
    assert (pair.first == pair.first.T).all() and not pair.first.diagonal().any()
    moved = draw_pair(0, 40, 0.2)
    np.testing.assert_array_equal(moved.first, pair.first)
    changed = moved.first != moved.second[np.ix_(q, q)]
    assert 0 < changed.sum() < pair.first.sum()


def test_example_runs(tmp_path):
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    command = [sys.executable, EXAMPLES / "graph_matching.py", "--quick", "--out", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "graph_matching.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "graph_matching.json").read_text())
    assert result["instances"].keys() == {"chr12c", "tai64c"}
    for name, fact in result["instances"].items():
        assert any(line.startswith(name) for line in done.stdout.splitlines())
        best, median = fact["best"], fact["median"]
        assert best["further"] == fact["best_known"] <= best["FAQ"]
        assert median["further"] < median["FAQ"]
        # The same starts, which end in the same places, or in others that are as good.
        assert median["FAQ"] == pytest.approx(median["scipy"], rel=0.05)
        assert fact["seconds"]["scipy"] > fact["seconds"]["FAQ"] > 0
    one, many, exchanged = result["recovered"].values()
    assert many[0] > 0.6 and exchanged[1] > one[1] + 0.1 and exchanged[-1] < 0.5
