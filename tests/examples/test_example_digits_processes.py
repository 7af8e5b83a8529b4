"""The detection example in two processes: the matchings of one process, and sums up to rounding."""

from pathlib import Path

import numpy as np
import pytest
from processes import run_in_processes

import jaxmatch as jm


for package in ("equinox", "matplotlib", "optax", "sklearn", "tqdm"):
    pytest.importorskip(package)

pytestmark = pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the native library")
PROGRAM = Path(__file__).parents[1] / "common" / "programs" / "detector_step.py"


def test_two_processes_train_as_one(tmp_path):
    (alone,), together = (run_in_processes(PROGRAM, tmp_path, count) for count in (1, 2))
    assert {"first_costs", "first_matching_col4row", "parameter_0"} <= alone.keys()
    for found in together:
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            if name.startswith("first"):  # before any sum over processes
                assert found[name].tobytes() == expected.tobytes(), name
            else:
                np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)
