"""Each fault of `tests/mutations.py` can be put into its file."""

import runpy
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
FAULTS = runpy.run_path(str(ROOT / "tests/mutations.py"))["FAULTS"]


@pytest.mark.parametrize("name", FAULTS)
def test_stands_there_once(name):
    fault = FAULTS[name]
    assert (ROOT / fault.file).read_text().count(fault.old) == 1
    assert fault.old != fault.new
    for test in fault.tests.split():
        assert (ROOT / test.partition("::")[0]).is_file()
