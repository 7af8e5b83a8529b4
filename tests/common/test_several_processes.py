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
GUIDE = Path(__file__).parent / "programs" / "several_hosts_guide.py"


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


def test_program_of_the_guide(tmp_path):
    """Each process has a part of the problems, and can read the results that one device finds."""
    for processes in (1, 2):
        for found in run_in_processes(GUIDE, tmp_path, processes):
            assert found["cost"].shape == (8 * processes, 100, 100)
            assert found["rows"].shape == (400, 400)
            assert len(np.unique(found["rows"][:, 0])) == 400  # each process has its own
            batch = jm.solve_assignment(found["cost"])
            one = jm.solve_assignment(found["rows"])
            for name in ("col4row", "row4col", "cost", "status"):
                np.testing.assert_array_equal(found[f"batch_{name}"], getattr(batch, name))
            np.testing.assert_array_equal(found["one_col4row"], one.col4row)
            np.testing.assert_allclose(found["one_cost"], one.cost, rtol=1e-6)
            assert found["one_status"] == jm.Status.OPTIMAL
