"""The comparison of two runs of a benchmark: which times count, and when it fails."""

import json
import sys
from pathlib import Path

import pytest


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import compare  # noqa: E402


BATCHES = [
    {"shape": "8x8", "batch": 16, "costs": "uniform", "device_ms": 1.0, "scipy16_ms": 5.0},
    {"shape": "64x64", "batch": 4, "costs": "to 100", "device_ms": 2.0, "scipy16_ms": 9.0},
]
SOLVES = [
    {"lane": "gpu", "instance": "net", "method": "auto", "ms": 3.0, "device_ms": 2.5, "value": 7},
    {"lane": "one", "instance": "net", "method": "auto", "ms": 9.0, "value": 7},
    {"lane": "one", "instance": "net", "method": "scipy", "ms": 50.0, "value": 7},
]


def scaled(rows, *factors):
    return [
        {k: x * f if k.endswith("ms") else x for k, x in row.items()}
        for row, f in zip(rows, factors, strict=True)
    ]


def written(folder, name, **content):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"gpu": "H100", "cores": 2} | content))
    return path


def exit_code(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["compare", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        compare.main()
    return end.value.code


def test_times_of_ours_alone(tmp_path):
    batches = written(tmp_path, "assignment_gpu", batches=BATCHES, warm_start={"cold_ms": 4.0})
    assert compare.times_of(batches) == {
        ("assignment_gpu", "batches uniform 8x8 16", "device_ms"): 1.0,
        ("assignment_gpu", "batches to 100 64x64 4", "device_ms"): 2.0,
        ("assignment_gpu", "warm_start", "cold_ms"): 4.0,
    }
    solves = written(tmp_path, "flow", measurements=SOLVES, cpu=[{"instance": "a", "auto_ms": 1.0}])
    assert compare.times_of(solves) == {
        ("flow", "measurements net gpu auto", "ms"): 3.0,
        ("flow", "measurements net gpu auto", "device_ms"): 2.5,
        ("flow", "measurements net one auto", "ms"): 9.0,
    }


@pytest.mark.parametrize(
    "factors, options, code",
    [
        ((1.0, 1.0), [], 0),
        ((1.04, 0.97), [], 0),
        ((1.06, 0.95), [], 1),  # a row
        ((0.94, 1.05), [], 1),  # a row that became faster
        ((1.03, 1.03), [], 1),  # the mean
        ((1.06, 0.95), ["--row", "10"], 0),
        ((1.03, 1.03), ["--mean", "4"], 0),
        ((1.01, 1.01), ["--mean", "0.5"], 1),
    ],
)
def test_exit_code(tmp_path, monkeypatch, factors, options, code):
    before = written(tmp_path / "before", "assignment_gpu", batches=BATCHES)
    after = written(tmp_path / "after", "assignment_gpu", batches=scaled(BATCHES, *factors))
    assert exit_code(monkeypatch, before, after, *options) == code
    assert exit_code(monkeypatch, before.parent, after.parent, *options) == code


def test_report(tmp_path, monkeypatch, capsys):
    written(tmp_path / "before", "assignment_gpu", batches=BATCHES)
    written(tmp_path / "before", "flow", measurements=SOLVES)
    written(tmp_path / "before", "matching", measurements=SOLVES)
    written(tmp_path / "after", "assignment_gpu", batches=scaled(BATCHES[:1], 0.5))
    written(tmp_path / "after", "flow", measurements=scaled(SOLVES, 1.0, 2.0, 40.0))
    assert exit_code(monkeypatch, tmp_path / "before", tmp_path / "after") == 1
    text = capsys.readouterr().out
    assert "4 times, geometric mean of after / before: 1.0000" in text
    assert "worst: 0.5000, assignment_gpu: batches uniform 8x8 16 device_ms" in text
    assert "1 times are in" in text and "matching" not in text and "scipy" not in text


def test_nothing_in_common(tmp_path, monkeypatch):
    before = written(tmp_path / "before", "flow", measurements=SOLVES)
    after = written(tmp_path / "after", "assignment_gpu", batches=BATCHES)
    assert "no time in common" in exit_code(monkeypatch, before, after)
    assert "no time in common" in exit_code(monkeypatch, before.parent, after.parent)
    assert "two files or two folders" in exit_code(monkeypatch, before, tmp_path / "nowhere")
