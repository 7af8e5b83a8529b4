"""Graph matching: known optima, values as those of scipy, and no exchange that would be better."""

import itertools
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
optimize = pytest.importorskip("scipy.optimize")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def draw(rng, n, kind):
    """Integers with a diagonal; both matrices are symmetric, or the second, or none."""
    a, b = rng.integers(-20, 100, (2, n, n))
    a = a + a.T if kind == "symmetric" else a
    return a, b if kind == "general" else b + b.T


KINDS = ["symmetric", "half", "general"]


def value(a, b, q):
    return sum(a[i, j] * b[q[i], q[j]] for i in range(len(q)) for j in range(len(q)))


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_the_product_with_the_gradient_is_the_value(kind):
    from _graph_matching_solver import _gradient_at, as_problem, values

    rng = np.random.default_rng(0)
    a, b = draw(rng, 7, kind)
    problem = as_problem(a, b)
    assert len(problem.left) == (2 if kind == "general" else 1)
    q = np.array([rng.permutation(7) for _ in range(5)])
    expected = [value(a, b, x) for x in q]
    np.testing.assert_array_equal(values(a, b, q), expected)
    gradient = np.asarray(_gradient_at(problem, np.argsort(q, -1)), np.float64)
    across = np.take_along_axis(gradient, q[..., None], -1).sum((-2, -1)) / 2
    scale = np.array(expected) / across  # powers of two, by which the matrices were divided
    np.testing.assert_allclose(scale, scale[0], rtol=1e-5)
    assert np.frexp(np.round(scale[0], 3))[0] == 0.5
    # Another permutation's product with it is that of the bilinear form.
    for x, y, g in zip(q, q[1:], gradient, strict=False):
        matrix_x, matrix_y = np.eye(7)[x], np.eye(7)[y]
        form = a @ matrix_x @ b.T + a.T @ matrix_x @ b
        np.testing.assert_allclose((g * matrix_y).sum() * scale[0], (form * matrix_y).sum(), 1e-5)


def test_starts_are_doubly_stochastic():
    from _graph_matching_solver import random_starts

    starts = np.asarray(random_starts(jax.random.key(0), 20, 30))
    assert starts.shape == (20, 30, 30) and starts.min() > 0
    np.testing.assert_allclose(starts.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(starts.sum(-2), 1, atol=1e-5)
    assert len(np.unique(starts[:, 0, 0])) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_starts_end_where_those_of_scipy_do(kind):
    from _graph_matching_solver import as_problem, frank_wolfe, random_starts, values

    rng = np.random.default_rng(1)
    a, b = rng.random((2, 15, 15))  # without ties
    a = a + a.T if kind == "symmetric" else a
    b = b if kind == "general" else b + b.T
    starts = random_starts(jax.random.key(1), 40, 15)
    ends, steps = map(np.asarray, frank_wolfe(as_problem(a, b), starts, 30))
    assert (np.sort(ends, -1) == np.arange(15)).all()
    found = [
        optimize.quadratic_assignment(a, b, options={"P0": x})
        for x in np.asarray(starts, np.float64)
    ]
    same = np.isclose(values(a, b, ends), [x.fun for x in found], rtol=1e-9)
    assert same.mean() >= 0.9
    assert (steps == [x.nit for x in found]).mean() >= 0.9
    assert steps.min() < steps.max()  # they stop one by one


def test_more_steps_lead_to_less():
    from _graph_matching_instances import grid100
    from _graph_matching_solver import as_problem, frank_wolfe, random_starts, values

    a, b = grid100()[1:3]
    problem, starts = as_problem(a, b), random_starts(jax.random.key(2), 4, 100)
    at_random = values(a, b, [np.random.default_rng(k).permutation(100) for k in range(4)]).mean()
    means = [values(a, b, frank_wolfe(problem, starts, k)[0]).mean() for k in (1, 4, 30)]
    assert at_random > means[0] > means[1] > means[2]


@pytest.mark.parametrize("kind", KINDS)
def test_no_exchange_is_left(kind):
    from _graph_matching_solver import as_problem, exchange, values

    rng = np.random.default_rng(3)
    a, b = draw(rng, 9, kind)
    given = np.array([rng.permutation(9) for _ in range(12)])
    found = np.asarray(exchange(as_problem(a, b), given))
    assert (np.sort(found, -1) == np.arange(9)).all()
    before, after = values(a, b, given), values(a, b, found)
    assert (after <= before).all() and (after < before).sum() > 8
    for q, least in zip(found, after, strict=True):
        for r, s in itertools.combinations(range(9), 2):
            other = q.copy()
            other[[r, s]] = other[[s, r]]
            assert value(a, b, other) >= least
    # What has no better exchange stays.
    np.testing.assert_array_equal(exchange(as_problem(a, b), found), found)


@pytest.mark.parametrize("name", ["chr12c", "tai64c"])
def test_known_optima_are_reached(name):
    from _graph_matching_instances import BUILT_IN
    from _graph_matching_solver import as_problem, exchange, frank_wolfe, random_starts, values

    _, a, b, best_known = BUILT_IN[name]()
    problem = as_problem(a, b)
    starts = random_starts(jax.random.key(0), 128, len(a))
    ends = frank_wolfe(problem, starts, 60)[0]
    least = values(a, b, exchange(problem, ends)).min()
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
