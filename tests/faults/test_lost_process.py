"""A process with devices of a mesh is killed: the others end with an error, and do not hang."""

import time
from pathlib import Path

import pytest
from processes import logs, started

import jaxmatch as jm


PROGRAM = Path(__file__).parent / "programs" / "sharded_solves.py"
_SECONDS = 120  # to start, to compile, and for JAX to notice


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
def test_a_process_that_is_lost(tmp_path: Path):
    """Shards of one problem are solved in two processes, over and over, until one is killed."""
    until = time.monotonic() + _SECONDS
    with started(PROGRAM, tmp_path, 2) as (first, second):
        while "solved" not in logs(tmp_path, 2):
            assert first.poll() is None and second.poll() is None, logs(tmp_path, 2)
            assert time.monotonic() < until, logs(tmp_path, 2)
            time.sleep(0.05)
        second.kill()
        first.wait(max(until - time.monotonic(), 1))
    assert first.returncode not in (0, None), logs(tmp_path, 2)
    assert "Error" in logs(tmp_path, 2)
