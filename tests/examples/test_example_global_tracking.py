"""The example of global tracking: its scores are those of motmetrics, its tracks are the best."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxmatch as jm


pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def import_from_examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


def test_it_runs(tmp_path):
    command = [sys.executable, EXAMPLES / "global_tracking.py", "--quick", "--out", tmp_path]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "global_tracking.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "global_tracking.json").read_text())["scores"]
    assert scores["one flow"]["mota"] > scores["frame by frame"]["mota"] > 0.6
    assert scores["one flow"]["switches"] < scores["frame by frame"]["switches"]


def test_scores():
    pytest.importorskip("motmetrics")
    from _global_tracking_scores import by_hand, by_motmetrics
    from global_tracking import by_flow, frame_by_frame, simulate

    for seed in range(3):
        sequence = simulate(seed, 25, 12, 0.2, 3.0)
        for names in (by_flow(sequence)[0], frame_by_frame(sequence)[0]):
            ours, theirs = (
                f(sequence.truth, sequence.found, names) for f in (by_hand, by_motmetrics)
            )
            np.testing.assert_allclose(ours.mota, theirs.mota)
            assert (ours.misses, ours.false) == (theirs.misses, theirs.false)
            assert sorted(ours.switches.tolist()) == sorted(theirs.switches.tolist())


def test_tracks_cost_what_the_flow_says():
    from global_tracking import GAIN, PRICE, by_flow, link_cost, simulate

    sequence = simulate(1, 20, 6, 0.2, 2.0)
    names, _, res = by_flow(sequence)
    total = 0.0
    for name in np.unique(np.concatenate(names)):
        if name < 0:
            continue
        at = [(t, sequence.found[t][x == name]) for t, x in enumerate(names) if (x == name).any()]
        assert all(len(place) == 1 for _, place in at)
        total += 2 * PRICE - GAIN * len(at)
        for (t, before), (u, after) in zip(at, at[1:], strict=False):
            total += link_cost(before, after, np.array(u - t))[0, 0]
    np.testing.assert_allclose(total, float(res.cost), rtol=1e-5)


def test_perfect_detections_are_tracked():
    from _global_tracking_scores import score
    from global_tracking import by_flow, simulate

    sequence = simulate(0, 30, 4, 0.0, 0.0)
    found = score(sequence.truth, sequence.found, by_flow(sequence)[0])
    assert found.mota > 0.95
