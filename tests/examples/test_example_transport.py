"""The examples of transport run from start to end, and their plans are those of other solvers."""

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


pytest.importorskip("equinox")
pytest.importorskip("matplotlib")
pytest.importorskip("optax")
pytest.importorskip("PIL")
pytest.importorskip("sklearn")
optimize = pytest.importorskip("scipy.optimize")
sparse = pytest.importorskip("scipy.sparse")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def run(name, *options, out):
    command = [sys.executable, EXAMPLES / f"{name}.py", "--quick", *options, "--out", out]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("data", ["moons", "digits"])
def test_flow_matching_runs(tmp_path, data):
    stdout = run("flow_matching", "--data", data, "--couple", "4", out=tmp_path)
    assert (tmp_path / f"flow_matching_{data}.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / f"flow_matching_{data}.json").read_text())
    plain, ours, scipy = (result["couplings"][k] for k in ("independent", "jaxmatch", "scipy"))
    assert all(any(line.startswith(k) for line in stdout.splitlines()) for k in result["couplings"])

    # The same plan in each step, or another one that costs the same.
    assert result["largest_cost_difference"] < 1e-6
    assert ours["pair_cost"] < 0.9 * plain["pair_cost"]
    # Paths are the straighter for it, and even two steps follow them.
    assert ours["curvature"] < 0.6 * plain["curvature"]
    assert 1 <= ours["length_ratio"] < plain["length_ratio"]
    np.testing.assert_allclose(ours["curvature"], scipy["curvature"], rtol=0.2)
    if data == "moons":
        assert ours["curvature"] < 0.05
        assert ours["wasserstein"]["2"] < 0.7 * plain["wasserstein"]["2"]
    for fact in result["couplings"].values():
        assert fact["step_ms"] > 0 and 0 <= fact["coupling_share"] < 1
        assert fact["wasserstein"].keys() == {"2", "4", "8", "64"}


@pytest.mark.parametrize("name", ["jaxmatch", "scipy"])
@pytest.mark.parametrize("dim", [2, 64])
def test_couplings_cost_the_least(name, dim):
    from _flow_matching_couplings import COUPLINGS

    rng = np.random.default_rng(dim)
    x, y = (rng.normal(size=(96, dim)).astype(np.float32) for _ in range(2))
    partner = np.asarray(jax.jit(COUPLINGS[name])(x, y))
    assert sorted(partner) == list(range(96))
    cost = ((x[:, None].astype(float) - y[None]) ** 2).sum(-1)
    rows, cols = optimize.linear_sum_assignment(cost)
    least = cost[rows, cols].sum()
    np.testing.assert_allclose(cost[rows, partner].sum(), least, rtol=1e-6)
    assert cost.trace() > 1.05 * least


def test_straightness_of_known_paths():
    from _flow_matching_training import straightness

    start, end = np.random.default_rng(0).normal(size=(2, 30, 3))
    t = np.linspace(0, 1, 401)[:, None, None]
    straight = straightness(jnp.asarray(start + t * (end - start)))
    np.testing.assert_allclose(straight.curvature, 0, atol=1e-4)
    np.testing.assert_allclose(straight.length_ratio, 1, rtol=1e-4)
    # Along lines at speed 2t: the mean of (2t - 1)^2 is 1/3, and no path is longer.
    faster = straightness(jnp.asarray(start + t**2 * (end - start)))
    np.testing.assert_allclose(faster.curvature, 1 / 3, rtol=1e-3)
    np.testing.assert_allclose(faster.length_ratio, 1, rtol=1e-3)
    # Half circles of radius 1: speed pi, displacement 2, and (pi^2 - 4) / 4.
    half = np.concatenate([np.cos(np.pi * t), np.sin(np.pi * t)], -1)
    bent = straightness(jnp.asarray(half))
    np.testing.assert_allclose(bent.curvature, (np.pi**2 - 4) / 4, rtol=1e-3)
    np.testing.assert_allclose(bent.length_ratio, np.pi / 2, rtol=1e-3)


@pytest.mark.parametrize("name", ["moons", "checkerboard", "digits"])
def test_data_of_flow_matching(name):
    from _flow_matching_data import TASKS

    task = TASKS[name]()
    drawn = np.asarray(task.target(jax.random.key(3), 512))
    assert drawn.shape == (512, task.dim) and task.source(jax.random.key(3), 7).shape == (
        7,
        task.dim,
    )
    test = np.asarray(task.test)
    if name == "digits":
        assert len(test) == 449 and test.min() == -1 and test.max() == 1
        # Drawn without replacement, and none of them is held out.
        assert len(np.unique(drawn, axis=0)) == 512
        assert not {x.tobytes() for x in drawn} & {x.tobytes() for x in test}
    else:
        np.testing.assert_allclose(drawn.mean(0), test.mean(0), atol=0.5)
        np.testing.assert_allclose(drawn.std(0), test.std(0), rtol=0.1)
    if name == "checkerboard":
        assert np.abs(test).max() <= 4
        assert (np.floor(test / 2).sum(-1) % 2 == 0).all()


def test_color_transfer_runs(tmp_path):
    run("color_transfer", out=tmp_path)
    assert (tmp_path / "color_transfer.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "color_transfer.json").read_text())
    assert result["status"] == jm.Status.OPTIMAL and result["optimal"] and result["gap"] == 0

    source, target = (np.array(colors) for colors in result["colors"])
    supply, demand = (np.array(count) for count in result["counts"])
    assert supply.sum() == demand.sum() == 4096 and source.shape == target.shape == (64, 3)
    plan = np.zeros((64, 64), int)
    rows, cols, mass = (np.array(result["plan"][k]) for k in ("rows", "cols", "mass"))
    assert len(mass) < 128 and mass.min() > 0
    np.add.at(plan, (rows, cols), mass)
    np.testing.assert_array_equal(plan.sum(1), supply)
    np.testing.assert_array_equal(plan.sum(0), demand)
    cost = ((source[:, None] - target[None]) ** 2).sum(-1)
    assert (plan * cost).sum() == pytest.approx(result["cost"], rel=1e-6)
    np.testing.assert_allclose((plan * cost).sum(), least_cost(cost, supply, demand), rtol=1e-9)

    # Both directions: the means of where mass goes.
    there, back = (np.array(goals) for goals in result["goals"])
    np.testing.assert_allclose(
        there[supply > 0], (plan @ target / supply[:, None])[supply > 0], 1e-5
    )
    np.testing.assert_allclose(
        back[demand > 0], (plan.T @ source / demand[:, None])[demand > 0], 1e-5
    )


def least_cost(cost, supply, demand):
    """By the simplex method of HiGHS."""
    n, m = cost.shape
    of_row = sparse.kron(sparse.eye(n), np.ones(m))
    of_col = sparse.kron(np.ones(n), sparse.eye(m))
    found = optimize.linprog(
        cost.ravel(),
        A_eq=sparse.vstack([of_row, of_col]),
        b_eq=np.concatenate([supply, demand]),
        method="highs-ds",
    )
    assert found.success
    return found.fun


def test_recolor_moves_pixels_as_the_colours_near_to_them():
    from color_transfer import recolor

    colors = np.array([[0, 0, 0], [200, 200, 200]], np.int32)
    goals = np.array([[40, 0, 0], [200, 100, 200]], np.float32)
    pixels = np.array([[2, 3, 1], [198, 201, 199], [100, 100, 100], [250, 5, 0]], np.float32)
    pixels = np.concatenate([pixels] * 2000)  # several chunks, and a part of one
    moved = np.asarray(recolor(pixels, colors, goals, 100.0))
    assert moved.shape == pixels.shape
    np.testing.assert_allclose(moved[:2], [[42, 3, 1], [198, 101, 199]], atol=1e-3)
    np.testing.assert_allclose(moved[2], [120, 50, 100], atol=1e-3)  # as far from both
    np.testing.assert_allclose(moved[3], [255, 5, 0], atol=1e-3)  # no colour is brighter
    np.testing.assert_array_equal(moved[:4], moved[-4:])
