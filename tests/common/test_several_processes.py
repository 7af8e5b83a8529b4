"""Two processes of two devices each, on the loopback: the same bits as one process of four."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from processes import run_in_processes

import jaxmatch as jm


pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
PROGRAM = Path(__file__).parent / "programs" / "several_processes.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What one process found, and what each of two found."""
    run = partial(run_in_processes, PROGRAM, tmp_path_factory.mktemp("results"))
    with ThreadPoolExecutor() as pool:
        return [*pool.map(run, (1, 2))]


def test_same_bits_as_in_one_process(runs):
    (alone,), together = runs
    assert len(alone) > 50
    for found in together:
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            if not name.startswith("sums_"):
                assert found[name].dtype == expected.dtype, name
                assert found[name].tobytes() == expected.tobytes(), name


def test_sums_over_the_batch(runs):
    """Processes add them up in another order."""
    (alone,), together = runs
    sums = [name for name in alone if name.startswith("sums_")]
    assert sums
    for found in together:
        for name in sums:
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-6, err_msg=name)
