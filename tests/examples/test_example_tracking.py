"""The tracking example: its filter is Kalman's, its associations are the best, its scores known."""

import itertools
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")
pytest.importorskip("motmetrics")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
stats = pytest.importorskip("scipy.stats")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def run(sequences, name="jaxmatch", slots=None):
    from _tracking_associations import ASSOCIATIONS
    from _tracking_data import stacked
    from _tracking_filter import Detections, track

    boxes, mask = stacked(sequences)
    detections = Detections(jnp.asarray(boxes, jnp.float32), jnp.asarray(mask))
    slots = slots or 2 * mask.shape[-1]
    one = partial(track, associate=ASSOCIATIONS[name], slots=slots)
    return np.asarray(jax.jit(jax.vmap(one))(detections))


def of_boxes(frames):
    """A sequence of such detections."""
    from _tracking_data import Sequence, padded

    return Sequence("", (0, 0), *(None, None), *padded([np.reshape(x, (-1, 4)) for x in frames]))


# ---------------------------------------------------------------------------------------------
# The filter


class Kalman:
    """One track, by the textbook: eight numbers and full matrices."""

    def __init__(self, box, numbers):
        self.measured, self.acceleration, speed = numbers
        self.mean = np.concatenate([box, np.zeros(4)])
        speeds = np.full(4, (speed * box[3]) ** 2)
        self.covariance = np.diag(np.concatenate([self.noise(box[3]).diagonal(), speeds]))

    def noise(self, height):
        return np.diag((np.array(self.measured) * height) ** 2)

    def predict(self):
        move = np.kron([[1, 1], [0, 1]], np.eye(4))
        disturbed = np.kron([[0.25, 0.5], [0.5, 1]], np.eye(4))
        self.covariance = move @ self.covariance @ move.T
        self.covariance += (self.acceleration * self.mean[3]) ** 2 * disturbed
        self.mean = move @ self.mean

    def innovation(self):
        return self.covariance[:4, :4] + self.noise(self.mean[3])

    def update(self, box):
        gain = self.covariance[:, :4] @ np.linalg.inv(self.innovation())
        self.mean = self.mean + gain @ (box - self.mean[:4])
        self.covariance = self.covariance - gain @ self.covariance[:4]


def test_filter_is_that_of_kalman():
    import _tracking_filter as module

    rng = np.random.default_rng(0)
    boxes = np.array([[50.0, 40, 10, 20], [52, 41, 11, 21]])
    reference = [Kalman(x, (module.MEASURED, module.ACCELERATION, module.SPEED)) for x in boxes]
    none = jnp.full(3, -1, jnp.int32)
    empty = module.Tracks(
        jnp.ones((3, 4, 2)), jnp.ones((3, 4, 2, 2)), none, none, none, jnp.int32(5)
    )
    tracks, names = module._bear(empty, jnp.asarray(boxes, jnp.float32), jnp.ones(2, bool))
    np.testing.assert_array_equal(names, [5, 6])
    np.testing.assert_array_equal(tracks.name, [5, 6, -1])
    for k in range(12):
        tracks = module._predict(tracks)
        found = np.array([x.mean[:4] + [1.5, -1, 0, 0] for x in reference]) + rng.normal(
            size=(2, 4)
        )
        for x in reference:
            x.predict()
        costs = np.asarray(module._costs(tracks, jnp.asarray(found, jnp.float32)))[:, :2]
        for (i, box), (j, of_one) in itertools.product(enumerate(found), enumerate(reference)):
            variance = of_one.innovation()
            distance = (box - of_one.mean[:4]) @ np.linalg.inv(variance) @ (box - of_one.mean[:4])
            if distance < 0.99 * module.GATE:
                likely = stats.multivariate_normal(of_one.mean[:4], variance).logpdf(box)
                constant = np.linalg.slogdet(2 * np.pi * of_one.noise(of_one.mean[3]))[1]
                np.testing.assert_allclose(
                    costs[i, j], -2 * likely - constant, rtol=1e-3, atol=1e-3
                )
            elif distance > 1.01 * module.GATE:
                assert costs[i, j] == np.inf
        slot = jnp.array([0, 1] if k % 4 else [-1, 1])  # the first is missed now and then
        tracks = module._update(tracks, jnp.asarray(found, jnp.float32), slot)
        for x, box, seen in zip(reference, found, slot, strict=True):
            if seen >= 0:
                x.update(box)
        means = np.asarray(tracks.mean)[:2]
        expected = [x.mean.reshape(2, 4).T for x in reference]
        np.testing.assert_allclose(means, expected, rtol=1e-4, atol=1e-4)
        for one, covariance in zip(reference, tracks.covariance, strict=False):
            blocks = one.covariance.reshape(2, 4, 2, 4)[:, range(4), :, range(4)]
            np.testing.assert_allclose(covariance, blocks, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(tracks.seen[:2], [10, 13])


def test_tracks_are_born_and_die():
    import _tracking_filter as module

    here, there = [100.0, 100, 10, 20], [400.0, 100, 10, 20]
    gap = module.PATIENCE
    # Seen four times, missed as long as patience lasts, then once more; then it is lost.
    frames = [here] * 4 + [[]] * gap + [here] + [[]] * (gap + 1) + [here, there, here]
    names = run([of_boxes(frames)])[0, :, 0]
    expected = [0] * 4 + [-1] * gap + [0] + [-1] * (gap + 1) + [1, 2, 1]
    np.testing.assert_array_equal(names, expected)
    # What was seen twice only is given up sooner.
    gap = module.EARLY_PATIENCE
    frames = [here] * 2 + [[]] * gap + [here, here] + [here] + [[]] * (gap + 1) + [here]
    names = run([of_boxes(frames)])[0, :, 0]
    np.testing.assert_array_equal(names[names >= 0], [0] * 6)
    frames = [here] * 2 + [[]] * (gap + 1) + [here]
    names = run([of_boxes(frames)])[0, :, 0]
    np.testing.assert_array_equal(names[names >= 0], [0, 0, 1])


def test_slots_run_out():
    boxes = np.array([[100.0 * k, 50, 10, 20] for k in range(5)])
    names = run([of_boxes([boxes] * 3)], slots=3)[0]
    np.testing.assert_array_equal(names, [[0, 1, 2] + [-1] * 5] * 3)


def test_a_batch_is_its_sequences():
    from _tracking_data import moving_digits

    sequences = [moving_digits(k, 40, 20) for k in range(3)]
    together = run(sequences, slots=40)
    for names, sequence in zip(together, sequences, strict=True):
        width = sequence.mask.shape[1]
        np.testing.assert_array_equal(names[:, :width], run([sequence], slots=40)[0])
        assert ((names[:, :width] >= 0) == sequence.mask).all() and (names[:, width:] == -1).all()
        for row in names:
            assert len(set(row[row >= 0])) == (row >= 0).sum()


# ---------------------------------------------------------------------------------------------
# Associations


def draw_costs(seed, d=7, s=9):
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0, 24, (d, s)).astype(np.float32)
    cost[rng.random((d, s)) < 0.3] = np.inf
    return cost, rng.random(d) < 0.8, rng.random(s) < 0.8


@pytest.mark.parametrize("name", ["greedy", "jaxmatch", "scipy"])
def test_associations(name):
    from _tracking_associations import ASSOCIATIONS
    from _tracking_filter import UNMATCHED

    associate = jax.jit(ASSOCIATIONS[name])
    for seed in range(30):
        cost, rows, cols = draw_costs(seed)
        found = np.asarray(associate(cost, rows, cols))
        masked = np.where(rows[:, None] & cols, cost, np.inf)
        if name == "greedy":
            expected = np.full(len(cost), -1)
            for at in np.argsort(masked, axis=None):
                i, j = np.unravel_index(at, masked.shape)
                if masked[i, j] < UNMATCHED and expected[i] < 0 and j not in expected:
                    expected[i] = j
            np.testing.assert_array_equal(found, expected)
            continue
        used = np.flatnonzero(found >= 0)
        assert len(set(found[used])) == len(used)
        assert rows[used].all() and cols[found[used]].all()
        total = masked[used, found[used]].sum() + UNMATCHED * (rows.sum() - len(used))
        np.testing.assert_allclose(total, least(masked, rows, UNMATCHED), rtol=1e-5)


def least(cost, rows, unmatched):
    """Row by row, over all sets of columns that are taken."""
    best = {frozenset(): 0.0}
    for i in np.flatnonzero(rows):
        onward = {}
        for taken, total in best.items():
            onward[taken] = min(onward.get(taken, np.inf), total + unmatched)
            for j in np.flatnonzero(np.isfinite(cost[i])):
                if j not in taken:
                    key = taken | {j}
                    onward[key] = min(onward.get(key, np.inf), total + cost[i, j])
        best = onward
    return min(best.values())


# ---------------------------------------------------------------------------------------------
# Data and scores


@pytest.mark.parametrize(
    "name, counts, mota, idf1",
    [("TUD-Campus", (359, 222), 0.526, 0.558), ("TUD-Stadtmitte", (1156, 749), 0.564, 0.645)],
)
def test_scores_are_those_of_motmetrics(name, counts, mota, idf1):
    """Numbers from its documentation, for the names that its test data has."""
    from _tracking_data import pedestrians
    from _tracking_metrics import score

    sequence = pedestrians(name)
    assert (sequence.present.sum(), sequence.mask.sum()) == counts
    facts = score([sequence], [sequence.given]).facts
    assert facts["mota"] == pytest.approx(mota, abs=5e-4)
    assert facts["idf1"] == pytest.approx(idf1, abs=5e-4)
    found = run([sequence])
    own = score([sequence], [found[0, :, : sequence.mask.shape[1]]]).facts
    assert own["mota"] >= facts["mota"] - 0.01 and own["idf1"] >= facts["idf1"] - 0.01


def test_moving_digits():
    from _tracking_data import moving_digits
    from _tracking_metrics import score

    sequence = moving_digits(1, 60, 20, missed=0.0, false=0.0, shake=0.0)
    np.testing.assert_array_equal(sequence.mask.sum(1), sequence.present.sum(1))
    low, high = (sequence.boxes[..., :2] + x * sequence.boxes[..., 2:] / 2 for x in (-1, 1))
    assert low.min() > -1e-9 and (high.max((0, 1)) <= np.array(sequence.size) + 1e-9).all()
    # Every detection is that of an object, and with true names there is no mistake.
    names = np.full(sequence.mask.shape, -1)
    for k in range(60):
        apart = np.abs(sequence.detected[k][:, None] - sequence.boxes[k]).max(-1)
        apart[:, ~sequence.present[k]] = np.inf
        names[k] = np.where(sequence.mask[k], apart.argmin(1), -1)
    facts = score([sequence], [names]).facts
    assert facts["mota"] > 0.97 and facts["idf1"] > 0.97

    missing = moving_digits(1, 60, 20, missed=0.5, false=2.0)
    steps = missing.camera[:, None] + sequence.boxes[..., :2]
    np.testing.assert_array_equal(missing.present, sequence.present)
    np.testing.assert_allclose(missing.boxes[..., :2], steps)
    expected = 0.5 * sequence.mask.sum() + 2 * 60
    assert missing.mask.sum() == pytest.approx(expected, rel=0.15)


def test_overlap_of_boxes():
    from _tracking_metrics import overlap

    one = np.array([[5.0, 5, 10, 10]])
    others = np.array([[5.0, 5, 10, 10], [10, 5, 10, 10], [15, 5, 10, 10], [5, 5, 5, 5]])
    np.testing.assert_allclose(overlap(one, others), [[1, 1 / 3, 0, 1 / 4]])


def test_example_runs(tmp_path):
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(Path(jm.__file__).parents[1]), *sys.path]),
    }
    command = [sys.executable, EXAMPLES / "tracking.py", "--quick", "--out", tmp_path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tracking.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "tracking.json").read_text())
    digits = result["data"]["digits"]
    assert digits["jaxmatch"]["mota"] > 0.8
    assert digits["jaxmatch"]["mota"] > digits["greedy"]["mota"] + 0.03
    assert digits["jaxmatch"]["idf1"] > digits["greedy"]["idf1"] + 0.03
    assert digits["jaxmatch"]["num_switches"] < 0.7 * digits["greedy"]["num_switches"]
    for name, by_name in result["data"].items():
        assert by_name["scipy"]["mota"] == pytest.approx(by_name["jaxmatch"]["mota"], abs=5e-3)
        assert result["same_names"][name] > 0.95
        assert any(line.startswith(f"{name:15} jaxmatch") for line in done.stdout.splitlines())
    assert result["us_per_frame"].keys() == {"1", "8"}
