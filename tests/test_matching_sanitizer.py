"""compute-sanitizer finds nothing to complain about in the CUDA kernels for matchings.

Only memcheck: the kernels race by design, which is all that racecheck would report.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sweep_matching_gpu


@pytest.mark.gpu
@pytest.mark.parametrize("part", sweep_matching_gpu.PARTS)
def test_sweep_is_clean(part: str):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        pytest.skip("needs compute-sanitizer, of the CUDA toolkit")
    sweep = Path(__file__).parent / "sweep_matching_gpu.py"
    done = subprocess.run(
        [sanitizer, "--tool", "memcheck", "--error-exitcode=1", sys.executable, str(sweep), part],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "0 errors" in done.stdout and "solved" in done.stdout
