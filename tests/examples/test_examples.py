"""The examples run from start to end, and what they measure is measured rightly."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("equinox")
pytest.importorskip("matplotlib")
pytest.importorskip("optax")
scipy_optimize = pytest.importorskip("scipy.optimize")
scipy_sparse = pytest.importorskip("scipy.sparse")
sklearn_datasets = pytest.importorskip("sklearn.datasets")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def test_digits_detection_runs(tmp_path):
    command = [sys.executable, EXAMPLES / "digits_detection.py", "--steps", "10", "--out", tmp_path]
    env = os.environ | {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # for ten steps, compiling is what takes the time
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "AP50 0." in done.stdout and "held-out scenes" in done.stdout
    for matcher in ("jaxmatch", "optax", "scipy"):
        assert any(line.startswith(f"{matcher} ") for line in done.stdout.splitlines())
    for picture in ("detections.png", "training.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "result.json").read_text())
    assert 0 <= result["map"] <= result["ap50"] <= 1 and result["matcher"] == "jaxmatch"


def test_graph_cut_runs(tmp_path):
    command = [sys.executable, EXAMPLES / "graph_cut.py", "--every", "3", "--iterations", "2"]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(
        [*command, "--out", tmp_path], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "graph_cut.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "graph_cut.json").read_text())
    assert len(result["value"]) == 2 and result["value"][1] <= result["value"][0]
    assert 0.2 < result["share"][-1] < 0.3


def test_balanced_clusters_of_digits(tmp_path):
    command = [sys.executable, EXAMPLES / "balanced_clusters.py", "--quick", "--out", tmp_path]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "balanced_clusters.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "balanced_clusters.json").read_text())
    ours, plain = result["balanced"], result["plain k-means"]
    pixels, digits = sklearn_datasets.load_digits(return_X_y=True)
    smallest, largest = result["bounds"]
    assert (smallest, largest) == (170, 189)

    for name, method in (("balanced", ours), ("plain k-means", plain)):
        labels, centers = np.asarray(method["labels"]), np.asarray(method["centers"])
        sizes = np.bincount(labels, minlength=10)
        assert method["sizes"] == sizes.tolist() and sizes.sum() == len(digits) == 1797
        pure = sum(np.bincount(digits[labels == k]).max() for k in range(10)) / len(digits)
        np.testing.assert_allclose(method["purity"], pure)
        assert f"purity {pure:.3f}" in done.stdout
        distances = ((pixels[:, None] - centers) ** 2).sum(-1)
        total = distances[np.arange(len(labels)), labels].sum()
        np.testing.assert_allclose(method["sum_of_squares"][-1], total, rtol=1e-5)
        bounds = (smallest, largest) if name == "balanced" else (0, len(digits))
        best = least_sum(distances, *bounds)
        np.testing.assert_allclose(total, best, rtol=1e-5)
        sums = method["sum_of_squares"]
        assert all(b <= a * (1 + 1e-5) for a, b in zip(sums, sums[1:], strict=False))
        if name == "balanced":
            assert distances.min(-1).sum() < 0.9999 * total  # bounds that bind cost something

    assert smallest <= min(ours["sizes"]) and max(ours["sizes"]) <= largest
    assert min(plain["sizes"]) < smallest and max(plain["sizes"]) > largest
    assert ours["purity"] > 0.75 and np.mean(ours["purity_of_starts"]) > 0.75
    assert ours["sum_of_squares"][-1] >= plain["sum_of_squares"][-1]


def least_sum(cost, smallest, largest):
    """By linear programming: each row in one column, each column with so many rows."""
    n, k = cost.shape
    rows = scipy_sparse.kron(scipy_sparse.eye(n), np.ones((1, k)))
    columns = scipy_sparse.kron(np.ones((1, n)), scipy_sparse.eye(k))
    done = scipy_optimize.linprog(
        cost.ravel(),
        A_eq=rows,
        b_eq=np.ones(n),
        A_ub=scipy_sparse.vstack([columns, -columns]),
        b_ub=np.repeat([largest, -smallest], k),
    )
    assert done.success
    return done.fun


def test_training_and_test_scenes_share_no_digit():
    from _digits_scenes import load_split, make_scenes

    train, test = load_split()
    assert len(train.labels) + len(test.labels) == 1797
    scans = [{scan.tobytes() for scan in np.asarray(part.scans)} for part in (train, test)]
    assert not scans[0] & scans[1]
    assert set(np.asarray(test.labels)) == set(range(10))

    make = jax.jit(lambda key: make_scenes(test, key, 20))
    scenes = jax.tree.map(np.asarray, make(jax.random.key(0)))
    jax.tree.map(np.testing.assert_array_equal, scenes, make(jax.random.key(0)))
    counts = scenes.mask.sum(-1)
    assert 1 <= counts.min() and counts.max() <= 8 and len(set(counts.tolist())) > 3
    corners = np.asarray(jm.losses.box_cxcywh_to_xyxy(scenes.boxes))[scenes.mask]
    assert -1e-5 < corners.min() and corners.max() < 1 + 1e-5
    # The ink is where the boxes say: dark in the box, paper outside of all of them.
    for image, boxes, mask in zip(
        scenes.image, corners_in_pixels(scenes), scenes.mask, strict=True
    ):
        inside = np.zeros(image.shape, bool)
        for x0, y0, x1, y1 in boxes[mask]:
            inside[max(y0 - 6, 0) : y1 + 6, max(x0 - 6, 0) : x1 + 6] = True
            assert image[max(y0, 0) : y1, max(x0, 0) : x1].max() > 0.5
        assert image[~inside].max() < 0.4 + 5 * 0.05


def corners_in_pixels(scenes):
    corners = np.asarray(jm.losses.box_cxcywh_to_xyxy(scenes.boxes)) * scenes.image.shape[-1]
    return corners.round().astype(int)


@pytest.mark.parametrize("name", ["optax", "scipy"])
def test_matchers_agree(name):
    from _digits_matchers import MATCHERS

    rng = np.random.default_rng(0)
    cost = rng.normal(size=(2, 3, 6, 4)).astype(np.float32)
    mask = rng.random((3, 4)) < 0.6
    ours, other = (jax.jit(MATCHERS[k])(cost, mask) for k in ("jaxmatch", name))
    np.testing.assert_array_equal(ours.row4col, other.row4col)
    np.testing.assert_array_equal(ours.col4row, other.col4row)
    assert (other.status == jm.Status.OPTIMAL).all()


def average_precision_by_loops(scores, boxes, labels, target_boxes, mask, threshold):
    per_class = []
    for c in range(scores.shape[-1]):
        free = {at for at in np.ndindex(mask.shape) if mask[at] and labels[at] == c}
        if not (total := len(free)):
            continue
        found = []
        for s, q in sorted(np.ndindex(scores.shape[:2]), key=lambda at: -scores[at][c]):
            overlaps = {}
            for scene, j in free:
                if scene == s:
                    pair = (
                        jm.losses.box_cxcywh_to_xyxy(x) for x in (boxes[s, q], target_boxes[s, j])
                    )
                    overlaps[j] = float(jm.losses.elementwise_box_iou(*pair))
            best = max(overlaps, key=overlaps.get, default=None)
            hit = best is not None and overlaps[best] >= threshold
            free -= {(s, best)} if hit else set()
            found.append(hit)
        hits = np.cumsum(found)
        # Each hit raises recall by 1/total, at the best precision from there on.
        precision = hits / np.arange(1, len(found) + 1)
        per_class.append(sum(precision[k:].max() for k in np.flatnonzero(found)) / total)
    return np.mean(per_class)


def test_average_precision_by_loops():
    from _digits_metrics import COCO_THRESHOLDS, average_precision

    rng = np.random.default_rng(1)
    labels, mask = rng.integers(0, 3, (4, 3)), rng.random((4, 3)) < 0.7
    target_boxes = np.concatenate(
        [rng.uniform(0.3, 0.7, (4, 3, 2)), rng.uniform(0.2, 0.5, (4, 3, 2))], -1
    )
    # Two guesses near each target, so that thresholds and duplicates matter.
    boxes = np.repeat(target_boxes, 2, axis=1) + rng.normal(size=(4, 6, 4)) * 0.03
    right = np.eye(3)[np.repeat(labels, 2, axis=1)] * np.repeat(mask, 2, axis=1)[..., None]
    scores = 0.5 * right + rng.random((4, 6, 3))
    got = average_precision(scores, boxes, labels, target_boxes, mask)
    assert got.shape == COCO_THRESHOLDS.shape and got[0] > got[-1]
    for k in (0, 4, 8):
        expected = average_precision_by_loops(
            scores, boxes, labels, target_boxes, mask, COCO_THRESHOLDS[k]
        )
        np.testing.assert_allclose(got[k], expected, rtol=1e-6)
    perfect = average_precision(
        np.eye(3)[labels] * mask[..., None], target_boxes, labels, target_boxes, mask
    )
    np.testing.assert_allclose(perfect, 1)


def test_average_precision_by_hand():
    """Three targets of one class; hit, miss, hit: precision 1 and 2/3 at recall 1/3 and 2/3."""
    from _digits_metrics import average_precision

    targets = np.array([[[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.2, 0.2], [0.8, 0.8, 0.2, 0.2]]])
    boxes = np.array([[targets[0, 0], targets[0, 0], targets[0, 1]]])
    scores = np.array([[[0.9], [0.8], [0.7]]])
    labels, mask = np.zeros((1, 3), int), np.ones((1, 3), bool)
    got = average_precision(scores, boxes, labels, targets, mask)
    np.testing.assert_allclose(got, (1 + 2 / 3) / 3, rtol=1e-6)
