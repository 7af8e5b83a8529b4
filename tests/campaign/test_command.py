"""The command of the campaign: a line repeats its batch, wrong arguments are errors."""

import collections
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.__main__ import main
from campaign.plan import SHARES, choose, kinds
from campaign.solvers import SOLVERS
from campaign.workers import supervised


def command(*words):
    run = [sys.executable, "-m", "campaign", *words]
    return subprocess.run(run, cwd=Path(__file__).parents[1], capture_output=True, text=True)


def test_the_line_runs():
    words = (
        "--solver assignment --family small --dtype int32 --seed 1 --size 20 --problem 3".split()
    )
    found = command(*words)
    assert found.returncode == 0, found.stderr
    assert "cost = " in found.stdout and "result.status = 0" in found.stdout


def test_workers_share_the_problems():
    found = command("--solver", "sparse", "--family", "small", "--dtype", "int32",
                    "--problems", "4001", "--workers", "2", "--seed", "9")  # fmt: skip
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == "seed 9, 4001 problems, 1 solvers"
    done, wrong = (int(x.split()[0]) for x in lines[-2].split(", "))
    assert 4001 <= done < 6001 and wrong == 0
    assert lines[-1].startswith("seed 9, ")


def test_a_worker_that_dies_is_an_anomaly(capfd):
    """As one whose arguments are wrong, before its first batch."""
    tally = supervised(["--solver", "nosuch"], 1, 100)
    assert tally.lines == ["# worker 0, before its first batch  # ended the process, status 2"]
    assert tally.lines[0] in capfd.readouterr().out


ONE = "--solver assignment --family small --dtype int32 --seed 1"
WRONG = {
    "--solver nosuch --problems 100": "--solver must match one of assignment",
    "--solver points --dtype int32": "no problems of --family any and --dtype int32 for points",
    "--family digits --solver matching/auto --dtype float32": "no problems of --family digits",
    "--family nosuch": "invalid choice: 'nosuch'",
    "--problems many": "must be a whole number of at least 0, got 'many'",
    "--workers 0": "must be a whole number of at least 1, got '0'",
    "--seed -1": "must be a whole number of at least 0, got '-1'",
    "--problem 3": "they need --solver, --family, --dtype and --seed",
    f"--size 20 {ONE} --dtype int*": "they need --solver",
    f"--size 20 {ONE} --solver flow/*": "they need --solver",
    "--size 20 --solver assignment --family small --dtype int32": "they need --solver",
    f"--size 0 {ONE}": "must be a whole number of at least 1",
    f"--size 20 {ONE} --solver points": "no problems of --family small and --dtype int32",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["campaign", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert WRONG[words] in capsys.readouterr().err


def test_a_problem_beyond_the_batch(monkeypatch, capfd):
    words = f"{ONE} --size 20 --problem 20".split()
    monkeypatch.setattr(sys, "argv", ["campaign", *words])
    assert main() == 2
    assert "problem 20 is not of this batch, which has 20" in capfd.readouterr().out


def drawn(choice, count=300):
    return [kind for kind, _ in zip(kinds(1, choice), range(count), strict=False)]


def test_families_and_dtypes_are_chosen():
    found = drawn(choose([*SOLVERS], "denormal", "*16"))
    assert {kind.family for kind in found} == {"denormal"}
    assert {kind.dtype for kind in found} == {"bfloat16", "float16"}
    assert {"assignment", "sparse"} <= {kind.solver for kind in found}


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="at least one solver"):
        next(kinds(1, {}))


def test_kinds_follow_from_the_seed():
    choice = choose([*SOLVERS])
    assert drawn(choice) == drawn(choice)


def test_subjects_have_their_shares():
    counts, solvers = collections.Counter(), collections.Counter()
    for kind in drawn(choose([*SOLVERS]), 8000):
        counts[SOLVERS[kind.solver].subject] += kind.size
        solvers[kind.solver] += 1
    assert counts.keys() == SHARES.keys() and sum(SHARES.values()) == 100
    for subject, count in counts.items():
        assert abs(count / counts.total() - SHARES[subject] / 100) < 0.01
    assert solvers.keys() == SOLVERS.keys()


def test_native_solvers_come_first():
    native = [name for name, solver in SOLVERS.items() if not solver.compiled]
    found = drawn(choose([*SOLVERS]), len(native))
    assert sorted(kind.solver for kind in found) == sorted(native)


def test_matchings_have_no_families_of_numbers():
    choice = choose(["matching/auto"])
    assert [*choice["matching/auto"]] == ["small", "empty", "malformed"]
    assert choose(["matching/auto"], "greatest")  # a line of an older campaign
