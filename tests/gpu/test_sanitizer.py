"""compute-sanitizer finds nothing to complain about in the CUDA kernels.

Best one at a time (`-n 0`): kernels that take the whole GPU wait for others' time slices. racecheck
where races are not by design: the kernels for matchings and flows race. Those for sharded costs
do not, but are the functions of large ones, which take racecheck long enough.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sweep_flow_gpu
import sweep_matching_gpu
import sweep_sharded_costs_gpu
import sweep_transport_gpu


METHODS = ("core", "auction", "classical", "tree")
# By "" the kernels of small problems and their derivatives take what the library takes. But
# racecheck does not follow blocks of which a part meets at a barrier of its own, see `asks_for` in
# ffi/assignment/cuda/plan.h.
SWEEPS = [
    ("memcheck", "assignment", ""),
    ("racecheck", "assignment", "all-search few"),
    *(("memcheck", "assignment_large", method) for method in METHODS),
    *(("racecheck", "assignment_large", f"{method} few") for method in METHODS),
    *(("memcheck", "sharded_costs", part) for part in sweep_sharded_costs_gpu.PARTS),
    ("memcheck", "perturbed", ""),
    ("racecheck", "perturbed", "all-search few"),
    ("memcheck", "k_best", ""),
    ("racecheck", "k_best", "few"),
    ("memcheck", "min_cost_flow", ""),
    ("racecheck", "min_cost_flow", "few"),
    ("memcheck", "sparse_assignment", ""),
    ("racecheck", "sparse_assignment", "few"),
    *(("memcheck", "transport", part) for part in sweep_transport_gpu.PARTS),
    *(("racecheck", "transport", f"{part} few") for part in sweep_transport_gpu.PARTS),
    *(("memcheck", "matching", part) for part in sweep_matching_gpu.PARTS),
    *(("memcheck", "flow", part) for part in sweep_flow_gpu.PARTS),
]


@pytest.mark.gpu
@pytest.mark.parametrize("tool, sweep, part", SWEEPS)
def test_sweep_is_clean(tool, sweep, part):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(sanitizer).exists():
        pytest.skip("needs compute-sanitizer, of the CUDA toolkit")
    script = Path(__file__).parent / f"sweep_{sweep}_gpu.py"
    # The tool itself (2025.3) crashes, and says nothing, where XLA compiles with several threads.
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_force_compilation_parallelism=1"
    ours = ["--kernel-regex", "kns=jaxmatch"] if tool == "racecheck" else []  # minutes less
    command = [sanitizer, "--tool", tool, *ours, "--error-exitcode=1", sys.executable, str(script)]
    done = subprocess.run(
        command + part.split(),
        env=os.environ
        | {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_FLAGS": flags,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"SUMMARY: 0 (errors|hazards)", done.stdout)
