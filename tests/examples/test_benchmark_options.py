"""Options that benchmarks share: the choice of rows, and the folder of results."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest


sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common import options  # noqa: E402
from benchmarks.common.lanes import Store, chosen  # noqa: E402
from benchmarks.common.record import RESULTS  # noqa: E402
from benchmarks.common.workers import Job, Measured  # noqa: E402


DOC = "Some benchmark.\n\n    python -m benchmarks.some [--quick]\n"


def parsed(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["some", *arguments])
    return options.parse(options.parser(DOC, "fewer rows", selects=True))


@pytest.mark.parametrize(
    "arguments, complete, folder",
    [
        ([], True, RESULTS),
        (["--quick"], True, RESULTS / "quick"),
        (["--no-peers"], False, RESULTS / "quick"),
        (["--rows", "auto"], False, RESULTS / "quick"),
        (["--rows", "auto", "--out", "here"], False, Path("here")),
    ],
)
def test_incomplete_results_do_not_replace_complete_ones(monkeypatch, arguments, complete, folder):
    args = parsed(monkeypatch, *arguments)
    assert args.complete == complete and args.out == folder


def test_rows_by_name():
    jobs = [Job("net", "auto"), Job("net", "push", (("k", 2),)), Job("mesh", "auto")]
    plan = {"gpu": [jobs[:2], jobs[2:]], "one": [jobs]}
    args = SimpleNamespace(rows=re.compile("gpu: (auto|push 2) on net"))
    assert chosen(plan, args) == {"gpu": [jobs[:2]], "one": []}


def test_solvers_must_agree_on_a_value():
    store = Store({"net": 7})
    store.add("gpu", Job("net", "auto"), Measured(1.0, value=7))
    store.add("one", Job("net", "auto"), Measured(5.0, over=True))
    store.add("one", Job("net", "push"), Measured(9.0, value=7))
    assert not store.failures and store.fastest("net", "one", ("auto", "push")) == (9.0, "push")
    assert store.relative("net", "auto", 2.0) == ">2.5"
    store.add("one", Job("mesh", "push"), Measured(1.0, value=3))
    store.add("gpu", Job("mesh", "auto"), Measured(1.0, value=4))
    assert store.failures == ["gpu: auto on mesh: 4, 3 expected"]
