"""Ctrl-C ends a native solve on the CPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxmatch as jm
from jaxmatch._library.libraries import has_cpu_library


PROGRAM = Path(__file__).parent / "programs/interrupted.py"

# From the signal to the end, in milliseconds; the promise is about half of it.
_MOST_MS = 200


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
def test_each_solver():
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(.*?): (.*), (\S+) ms$", done.stdout, re.M)
    ends = {name: how for name, how, _ in lines}
    times = {name: float(ms) for name, _, ms in lines}
    assert ends.pop("own handler") == ends.pop("afterwards") == "status 0"
    assert ends.pop("thread").startswith("RuntimeError: Ctrl-C ended")
    del times["own handler"]
    assert len(ends) >= 40
    assert {*ends.values()} == {"interrupted"}, ends
    assert max(times.values()) < _MOST_MS, times


def test_what_an_interrupted_call_fills_in():
    status = jm.Status(-1)
    assert status == jm.Status.INTERRUPTED and str(status) == "INTERRUPTED"
    assert "Ctrl-C" in status.advice
