"""Programs that run in several processes of `jax.distributed` on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


ROOT = Path(__file__).parents[2]
DEVICES = 4  # of all processes together


def run_in_processes(
    program: Path, folder: Path, processes: int, timeout: float = 500
) -> list[dict[str, np.ndarray]]:
    """The arrays that each process wrote. The first failure, or the time, ends all of them.

    They must come to a first exchange within half a minute of each other: gloo waits no longer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = f"--xla_force_host_platform_device_count={DEVICES // processes}"
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
    env |= {"XLA_FLAGS": flags, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    results = [folder / f"{processes}_{k}.npz" for k in range(processes)]
    started = []
    try:
        for k, result in enumerate(results):
            distributed = [address, str(processes), str(k)] if processes > 1 else []
            run = [sys.executable, str(program), str(result), *distributed]
            with result.with_suffix(".log").open("w") as log:
                started.append(subprocess.Popen(run, env=env, stdout=log, stderr=log))
        codes = _wait(started, time.monotonic() + timeout)
    finally:
        for process in started:
            process.kill()
            process.wait()
    logs = "\n".join(result.with_suffix(".log").read_text()[-5000:] for result in results)
    assert codes == [0] * processes, f"exit codes {codes}, None after {timeout} s\n{logs}"
    return [dict(np.load(result)) for result in results]


def _wait(started: list[subprocess.Popen], until: float) -> list[int | None]:
    """The exit codes, once all have ended, one has failed, or it is time."""
    while True:
        codes = [process.poll() for process in started]
        if None not in codes or any(codes) or time.monotonic() > until:
            return codes
        time.sleep(0.05)
