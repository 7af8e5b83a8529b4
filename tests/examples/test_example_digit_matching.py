"""The digit matching example: its matchings are the best ones, its network's short cuts exact."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("tqdm")

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")


@pytest.fixture
def digits():
    """Blots of ink of up to 20x20 pixels anywhere, ten labels."""
    from _digit_matching_data import Digits

    rng = np.random.default_rng(0)
    images = np.zeros((60, 28, 28), np.float32)
    for image in images:
        height, width = rng.integers(5, 21, 2)
        y, x = rng.integers(0, 29 - height), rng.integers(0, 29 - width)
        image[y : y + height, x : x + width] = rng.random((height, width)) < 0.4
    return Digits(jnp.asarray(images), jnp.asarray(rng.integers(0, 10, 60)))


def neighbours(k):
    """Pairs of cells as one reads: right of it, below it."""
    cells = list(itertools.product(range(k), repeat=2))
    steps = [((y, x), (y + dy, x + dx)) for y, x in cells for dy, dx in ((0, 1), (1, 0))]
    return [(a, b) for a, b in steps if b in cells]


@pytest.mark.parametrize("whole", [True, False])
def test_matchings_are_those_of_networkx(whole):
    from _digit_matching_data import GridGraph

    graph = GridGraph(4)
    rng = np.random.default_rng(1)
    values = rng.integers(0, 10, (20, 4, 4)) if whole else rng.normal(size=(20, 4, 4))
    values = values.astype(np.float32)
    found = jax.jit(lambda v: graph.oracle().solve(graph.edge_cost(v)))(values)
    assert found.solved.all()
    for value, y in zip(values, np.asarray(found.y), strict=True):
        cost = {(a, b): 10 * float(value[a]) + float(value[b]) for a, b in neighbours(4)}
        nx_graph = nx.Graph()
        nx_graph.add_weighted_edges_from((a, b, c) for (a, b), c in cost.items())
        best = {tuple(sorted(pair)) for pair in nx.min_weight_matching(nx_graph)}
        edges = {
            (divmod(int(graph.first[e]), 4), divmod(int(graph.second[e]), 4))
            for e in np.flatnonzero(y)
        }
        assert len(best) == len(edges) == 8 and len({v for e in edges for v in e}) == 16
        assert edges <= set(cost)
        assert sum(cost[e] for e in edges) == pytest.approx(sum(cost[e] for e in best), abs=1e-4)
        if not whole:  # no ties
            assert edges == best


def all_matchings(graph):
    """Every perfect matching, as indicators of edges."""

    def extend(chosen, free):
        if not free:
            yield np.isin(np.arange(graph.num_edges), chosen).astype(np.float32)
            return
        for e in np.flatnonzero(graph.first == min(free)):
            if graph.second[e] in free:
                yield from extend([*chosen, e], free - {graph.first[e], graph.second[e]})

    return np.array(list(extend([], frozenset(range(graph.k**2)))))


def test_oracle_by_enumeration():
    from _digit_matching_data import GridGraph

    graph = GridGraph(4)
    matchings = all_matchings(graph)
    assert len(matchings) == 36  # domino tilings of 4x4
    cost = np.random.default_rng(2).normal(size=(30, graph.num_edges)).astype(np.float32)
    oracle = graph.oracle()
    best = matchings[(cost @ matchings.T).argmin(-1)]
    np.testing.assert_array_equal(oracle.solve(cost).y, best)
    # What the projection leaves out is worth the same in every matching; what it keeps is not.
    assert oracle.project is not None
    kept = np.asarray(oracle.project(oracle.data, cost))
    np.testing.assert_allclose(np.ptp((cost - kept) @ matchings.T, -1), 0, atol=1e-4)
    assert np.linalg.matrix_rank(kept, tol=1e-4) == np.linalg.matrix_rank(matchings - matchings[0])


def test_blackbox_on_edges_by_enumeration():
    from _digit_matching_data import GridGraph
    from _digit_matching_training import RULES, Target

    graph = GridGraph(4)
    matchings = all_matchings(graph)
    rng = np.random.default_rng(3)
    cost = rng.normal(size=(20, graph.num_edges)).astype(np.float32)
    wanted = matchings[rng.integers(0, 36, 20)]
    target, rule = Target(jnp.asarray(wanted), jnp.asarray(cost)), RULES["blackbox"]

    @jax.jit
    def gradient(cost):
        return jax.grad(lambda c: rule.loss(rule, graph.oracle(), c, target, None, None).mean())(
            cost
        )

    solve = lambda cost: matchings[(cost @ matchings.T).argmin(-1)]  # noqa: E731
    moved = solve(cost + 10 * (1 - 2 * wanted) / 20)
    np.testing.assert_allclose(gradient(cost), (moved - solve(cost)) / 10, atol=1e-6)
    assert np.abs(moved - solve(cost)).any()


@pytest.mark.parametrize("name", ["blackbox-central", "identity", "imle", "perturbed", "spo+"])
def test_rules_say_what_to_change(name):
    """From costs that prefer a wrong matching, against the gradient is towards the right one."""
    from _digit_matching_data import GridGraph
    from _digit_matching_training import RULES, Target

    graph = GridGraph(2)  # two matchings: both across or both down
    down = graph.second - graph.first == 2
    wanted = jnp.asarray(down, jnp.float32)[None]
    cost = jnp.asarray(np.where(down, 2.0, 1.9), jnp.float32)[None]
    target, rule = Target(wanted, 2 - wanted), RULES[name]

    def loss(cost, key):
        return rule.loss(rule, graph.oracle(), cost, target, key, None).mean()

    keys = jax.random.split(jax.random.key(0), 200)
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(loss), (None, 0)))(cost, keys)
    slope = slope.mean((0, 1))
    assert (value > 0).all()
    assert (slope[down] > 0).all() and (slope[~down] < 0).all()


def test_digits_with_a_frame(digits):
    from _digit_matching_data import compose, with_frame

    framed = np.asarray(with_frame(digits).images)
    frame = np.ones((28, 28), bool)
    frame[4:24, 4:24] = False
    assert not framed[:, frame].any()
    for image, moved in zip(np.asarray(digits.images), framed, strict=True):
        boxes = [x[np.ix_(x.any(1), x.any(0))] for x in (image, moved)]
        np.testing.assert_array_equal(*boxes)  # rows and columns without ink are left out
        if not image[frame].any():
            np.testing.assert_array_equal(image, moved)

    cells = np.random.default_rng(4).integers(0, 60, (3, 4, 4))
    picture = np.asarray(compose(digits.images, jnp.asarray(cells)))
    assert picture.shape == (3, 4 * 28 + 8, 4 * 28 + 8)
    for b, y, x in np.ndindex(cells.shape):
        cell = picture[b, 4 + 28 * y : 32 + 28 * y, 4 + 28 * x : 32 + 28 * x]
        np.testing.assert_array_equal(cell, digits.images[cells[b, y, x]])


def test_short_cuts_of_the_network_are_exact(digits):
    """Values and gradients: found by place, plainly, and by digit."""
    from _digit_matching_data import compose, with_frame
    from _digit_matching_model import cell_values, cell_values_plainly, digit_values, init

    params = init(jax.random.key(0), 4)
    rng = np.random.default_rng(5)
    cells = jnp.asarray(rng.integers(0, 60, (1, 2, 2)))
    weight = jnp.asarray(rng.normal(size=cells.shape), jnp.float32)
    framed = with_frame(digits).images

    def results(values):
        value, slope = jax.jit(jax.value_and_grad(lambda p: (weight * values(p)).sum()))(params)
        return [value, *jax.tree.leaves(slope)]

    def plainly(images):
        return results(lambda p: cell_values_plainly(p, compose(images, cells)))

    by_place = results(lambda p: cell_values(p, compose(digits.images, cells)))
    by_digit = results(lambda p: digit_values(p, framed)[cells])
    for got, expected in ((by_place, plainly(digits.images)), (by_digit, plainly(framed))):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)


def test_example_runs(tmp_path, digits):
    from _digit_matching_data import load_digits, save_digits

    save_digits(tmp_path / "digits.npz", digits)
    again = load_digits(tmp_path / "digits.npz")
    np.testing.assert_array_equal(again.images, digits.images)

    options = {
        "--digits": tmp_path / "digits.npz",
        "--train-digits": 30,
        "--train-grids": 140,
        "--batch-size": 70,
        "--test-grids": 20,
        "--epochs": 1,
        "--restarts": 2,
        "--out": tmp_path,
    }
    command = [sys.executable, ROOT / "examples/digit_matching.py"]
    command += [str(x) for option in options.items() for x in option]
    env = os.environ | {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # for two steps, compiling is what takes the time
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Optimal matchings" in done.stdout
    for picture in ("digit_matching.png", "digit_matching_training.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "digit_matching.json").read_text())
    assert len(result["test_accuracy"]) == 2 and 0 <= min(result["test_accuracy"]) <= 1
