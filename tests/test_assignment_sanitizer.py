"""compute-sanitizer finds nothing to complain about in the CUDA kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


# What the library does; but racecheck does not follow blocks of which a part meets at a barrier of
# its own, see `asks_for` in ffi/cuda/assignment_plan.h.
ASKED = {"memcheck": "", "racecheck": "all-search"}


@pytest.mark.gpu
@pytest.mark.parametrize("tool", ASKED)
def test_sweep_is_clean(tool):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        pytest.skip("needs compute-sanitizer, of the CUDA toolkit")
    sweep = Path(__file__).parent / "sweep_gpu.py"
    command = [sanitizer, "--tool", tool, "--error-exitcode=1"]
    done = subprocess.run(
        [*command, sys.executable, str(sweep), ASKED[tool]],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "0 errors" in done.stdout or "0 hazards" in done.stdout
