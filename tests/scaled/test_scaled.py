"""Every solver at every power of two near the ends of its dtype, and at some between: the error is
within the proved gap, and statuses are as documented. `make scaled` takes all powers and the twins,
and prints a table."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy, x64

import jaxmatch as jm
from scaled.__main__ import main
from scaled.problems import bases, scale
from scaled.solvers import SOLVERS
from scaled.subjects import SUBJECTS
from scaled.sweep import Judge, Row, sweep


TESTS = Path(__file__).parents[1]
STEP = 8
NATIVE = [name for name, solver in SOLVERS.items() if not solver.compiled]
# A program each. All dtypes of all metrics are left to `make scaled`.
PROGRAMS = [
    ("points/sqeuclidean/auto", "float64"),
    ("points/euclidean/core", "float32"),
    ("points/l1/auto", "float32"),
    ("bottleneck", "float32"),
]
JUDGES: dict[str, Judge] = {}  # which remember optima from one solver to the next


def assert_right(row: Row) -> None:
    print(row)
    assert not row.wrong, "\n".join(row.wrong[:5])
    assert row.ratio <= 1


@pytest.mark.parametrize("name", NATIVE)
def test_native(name):
    for dtype in SOLVERS[name].dtypes:
        assert_right(sweep(name, dtype, JUDGES, STEP))


@pytest.mark.parametrize("name, dtype", PROGRAMS)
def test_programs(name, dtype):
    assert_right(sweep(name, dtype, JUDGES, STEP))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cosine_has_no_scale(dtype):
    """The same bits at each power at which no number is denormal."""
    info = np.finfo(dtype)
    x, y = (bases(k, 2, seed=2)[1] for k in (8, 9))
    with x64(dtype == "float64"):
        found = [
            to_numpy(jm.solve_assignment_points(*(scale(z, dtype, int(e)) for z in (x, y)),
                                                metric="cosine"))
            for e in (0, *range(info.minexp + 10, info.maxexp + 1, STEP), info.maxexp)
        ]  # fmt: skip
    assert found[0].status == jm.Status.OPTIMAL
    for res in found[1:]:
        assert_same_bits(res, found[0])


def spoilt(name, spoil):
    """What is found of a solver with something else as its results."""
    solver = SOLVERS[name]
    subject = SUBJECTS[solver.subject]
    row = Row(name, "float32")
    (batch, *_) = subject.draw("float32", np.arange(-4, 4))
    Judge(subject).add(row, solver, batch, spoil(solver.solve(batch)))
    return row


def at_place(k, change):
    """Changes one entry of arrays."""

    def changed(x):
        x = x.copy()
        x[k] = change(x[k])
        return x

    return changed


SPOILT = {
    "other pairs": {"col4row": lambda x: x[::-1], "row4col": lambda x: x[::-1]},
    "value": {"cost": lambda x: x * np.float32(1 + 1e-6)},
    "status": {"status": lambda _: 3},
    "no gap": {"gap": lambda _: np.nan},
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_wrong_result_is_found(what):
    assert not spoilt("assignment", lambda res: res).wrong
    row = spoilt("assignment", lambda res: dataclasses.replace(
        res, **{name: at_place(9, of)(np.asarray(getattr(res, name)))
                for name, of in SPOILT[what].items()}))  # fmt: skip
    assert [line.split(":")[0] for line in row.wrong] == ["2^-3, place 9"]


def test_a_gap_that_is_too_small_is_found():
    """Where numbers are far apart, one of the least counts."""
    solver = SOLVERS["k best"]
    subject = SUBJECTS[solver.subject]
    (batch, *_) = subject.draw("float64", np.arange(-4, 4))
    with jax.enable_x64(True):
        res = solver.solve(batch)
    row = Row("k best", "float64")
    Judge(subject).add(row, solver, batch, res)
    assert not row.wrong and 0 < row.ratio <= 1
    row = Row("k best", "float64")
    Judge(subject).add(row, solver, batch, res.replace(gap=res.gap * row.ratio))
    assert row.wrong and row.ratio > 1


def command(*words):
    """`python -m scaled`, with no folder of the tests on the path but the current one."""
    env = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    words = [sys.executable, "-m", "scaled", *words]
    return subprocess.run(words, cwd=TESTS, env=env, capture_output=True, text=True)


def test_the_command_runs():
    found = command("--solver", "assignment", "--dtype", "float32", "--step", "64")
    assert found.returncode == 0, found.stderr
    assert "assignment " in found.stdout and "0 wrong" in found.stdout


WRONG = {
    "--solver nosuch": "--solver must match one of assignment",
    "--solver assignment --dtype nosuch": "no --dtype of these solvers matches 'nosuch'",
    "--step 0": "must be a whole number of at least 1, got '0'",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scaled", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert WRONG[words] in capsys.readouterr().err
