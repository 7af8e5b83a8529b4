"""The shortest-path example: its paths are shortest, its data PyEPO's, its runs start to end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("tqdm")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def all_paths(arcs):
    """The 70 ways from node 0 to node 24, as rows of 0 and 1."""

    def onward(node, path):
        if node == 24:
            return [path]
        steps = [k for k, (u, _) in enumerate(arcs) if u == node]
        return [found for k in steps for found in onward(arcs[k][1], [*path, k])]

    paths = np.zeros((70, len(arcs)))
    for row, path in zip(paths, onward(0, []), strict=True):
        row[path] = 1
    return paths


def shortest(paths, cost):
    return paths[(np.asarray(cost, np.float64) @ paths.T).argmin(-1)]


def test_paths_are_the_shortest():
    from _shortest_path_problem import ARCS, PATHS

    rng = np.random.default_rng(0)
    cost = rng.normal(size=(3, 50, 40)).astype(np.float32)  # of either sign
    paths = all_paths(ARCS)
    found = jax.jit(PATHS.solve)(cost)
    assert found.solved.all()
    np.testing.assert_array_equal(found.y, shortest(paths, cost))
    moved = cost + 0.3 * rng.normal(size=cost.shape).astype(np.float32)
    again = jax.jit(PATHS.solve)(moved, found.warm_start)
    np.testing.assert_array_equal(again.y, shortest(paths, moved))

    cost[0, 0, 7] = np.nan
    found = jax.jit(PATHS.solve)(cost)
    assert found.solved.sum() == 149 and not found.solved[0, 0] and (found.y[0, 0] == 0).all()


def test_rules_step_on_arcs():
    """As through the matrix, where the rule is without noise."""
    from _shortest_path_problem import ARCS, PATHS, RECEIVERS, SENDERS, as_assignment

    rng = np.random.default_rng(1)
    cost, d = rng.normal(size=(2, 30, 40)).astype(np.float32)
    rule = jm.estimators.Blackbox(2.0)

    def of_arcs(cost):
        return (d * rule.solution(PATHS, cost)).sum()

    def of_matrix(cost):
        matrix = jm.assignment_matrix(as_assignment(cost), estimator=rule)
        return (d * matrix[..., SENDERS, RECEIVERS - 1]).sum()

    paths = all_paths(ARCS)
    expected = (shortest(paths, cost + 2 * d) - shortest(paths, cost)) / 2
    assert (expected != 0).any(-1).sum() > 10
    np.testing.assert_allclose(jax.jit(jax.grad(of_arcs))(cost), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(of_matrix))(cost), expected, atol=1e-6)


def test_what_is_projected_away_changes_no_path():
    from _shortest_path_problem import ARCS, PATHS

    direction = np.random.default_rng(2).normal(size=(5, 40)).astype(np.float32)
    left = direction - PATHS.project(PATHS.data, jnp.asarray(direction))
    by_path = left @ all_paths(ARCS).T
    np.testing.assert_allclose(by_path, by_path[:, :1].repeat(70, 1), atol=1e-5)
    assert np.abs(left).max() > 0.5
    np.testing.assert_allclose(PATHS.project(PATHS.data, left), 0, atol=1e-5)


def test_data_is_that_of_pyepo():
    """Numbers from `pyepo.data.shortestpath.genData(2000, 5, (5, 5), 4, 0.5, seed=42)`."""
    from _shortest_path_problem import ARCS, make_examples, make_split

    features, cost = make_examples(42, 2000)
    assert ARCS[:6] == [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (1, 6)]
    np.testing.assert_allclose(features[0, :3], [-0.68002472, 0.2322537, 0.29307247], rtol=1e-6)
    np.testing.assert_allclose(
        cost[[0, 0, 1999], [0, 39, 20]], [0.3539176, 1.6998817, 0.05352249], rtol=1e-6
    )

    split = jax.tree.map(np.asarray, make_split(42, 60, 40))
    assert split.train.cost.shape == (60, 40) and split.test.features.shape == (40, 5)
    both = np.concatenate([split.train.cost, split.test.cost])
    np.testing.assert_array_equal(np.sort(both, 0), np.sort(make_examples(42, 100)[1], 0))
    paths = all_paths(ARCS)
    np.testing.assert_array_equal(split.test.path, shortest(paths, split.test.cost))
    np.testing.assert_allclose(split.test.value, (split.test.cost @ paths.T).min(-1), rtol=1e-6)


def test_a_run_lowers_regret():
    from _shortest_path_problem import ARCS, make_split
    from _shortest_path_training import METHODS, train

    split = make_split(3, 200, 100)
    run = train(split, jax.random.key(0), METHODS["SPO+"], 5)
    model, test = jax.tree.map(np.asarray, (run.model, split.test))
    chosen = shortest(all_paths(ARCS), test.features @ model.weight + model.bias)
    regret = (test.cost * chosen).sum() / test.value.sum() - 1
    np.testing.assert_allclose(run.regret[-1], regret, rtol=1e-3)
    assert run.regret.shape == (6,) and regret < 0.5 * run.regret[0]


def test_rounding_teaches_nothing():
    from _shortest_path_training import absolute

    x = jnp.array([-1.0, -1e-7, 0.0, 3e-8, 2.0])
    np.testing.assert_array_equal(jax.vmap(jax.grad(absolute))(x), [-1, 0, 0, 0, 1])
    np.testing.assert_array_equal(absolute(x), [1, 0, 0, 0, 2])


def test_example_runs(tmp_path):
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    command = [sys.executable, EXAMPLES / "shortest_path.py", "--quick", "--out", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shortest_path.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "shortest_path.json").read_text())
    assert [row["method"] for row in result["methods"]] == ["SPO+", "blackbox"]
    for row in result["methods"]:
        assert len(row["regret"]) == 21 and 0 < row["regret"][-1] < 0.5 * row["regret"][0]
        assert any(line.startswith(row["method"]) for line in done.stdout.splitlines())
