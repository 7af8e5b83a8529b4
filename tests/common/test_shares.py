"""Shares of the slow tests: together all of them, each about as long as the others."""

from __future__ import annotations

import collections
import datetime

import pytest
import shares
from conftest import ROOT


COUNT = 64  # as CI has it


def test_shares_are_even():
    """Long functions have cases of 20 seconds here; there are few that have longer ones."""
    seconds = shares.read_seconds()
    items = [
        _Item(f"{name}[{case}]")
        for name, total in seconds.items()
        for case in range(max(1, int(total / 20)))
    ]
    divided = shares.divided(seconds, items)
    place = shares.shares(divided, COUNT)
    assert place.keys() == divided.keys() and {*place.values()} == {*range(1, COUNT + 1)}
    total = collections.Counter()
    for name, share in place.items():
        total[share] += divided[name]
    assert max(total.values()) <= 1.1 * sum(seconds.values()) / COUNT


class _Item:
    def __init__(self, nodeid, *, gpu=False):
        self.nodeid, self.gpu = nodeid, gpu

    def get_closest_marker(self, name):
        return name if self.gpu else None


def test_long_functions_are_divided():
    """By their cases on the CPU."""
    items = [_Item(f"a.py::long[{k}]", gpu=k == 3) for k in range(4)]
    items += [_Item(f"a.py::short[{k}]") for k in range(3)]
    found = shares.divided({"a.py::long": 90, "a.py::short": 60, "b.py::elsewhere": 99}, items)
    assert found == {
        **{f"a.py::long[{k}]": 30 for k in range(3)}, "a.py::short": 60, "b.py::elsewhere": 99,
    }  # fmt: skip


def test_every_slow_test_exists():
    for name in shares.read_seconds():
        path, _, function = name.partition("::")
        source = (ROOT / path).read_text()
        assert function.startswith("jaxmatch.") or f"def {function.split('::')[-1]}(" in source, (
            name
        )


def test_what_every_solver_promises_is_in_every_share(tmp_path, monkeypatch):
    """Even if a measurement has listed it among the slow tests."""
    listed = tmp_path / "seconds.txt"
    listed.write_text("    9.0 tests/conformance/test_a.py::test_b\n    2.0 tests/flow/c.py::d\n")
    monkeypatch.setattr(shares, "SECONDS", listed)
    assert shares.read_seconds() == {"tests/flow/c.py::d": 2.0}


def test_choice():
    assert shares.parse("1") == (1, 1)
    assert shares.parse("3/8") == (3, 8)
    today = datetime.date.today().toordinal()
    assert shares.parse("8") in {((today + day) % 8 + 1, 8) for day in (0, 1)}
    for words in ("0/8", "9/8"):
        with pytest.raises(pytest.UsageError, match="1 <= K <= N"):
            shares.parse(words)


def test_functions_of_parametrised_tests():
    assert shares.function_of("tests/a.py::test_b[c-d::e]") == "tests/a.py::test_b"
