"""Programs that run in several processes of `jax.distributed` on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np


ROOT = Path(__file__).parents[2]
DEVICES = 4  # of all processes together


def run_in_processes(
    program: Path, folder: Path, processes: int, timeout: float = 500, gpus: int = 0
) -> list[dict[str, np.ndarray]]:
    """The arrays that each process wrote. The first failure, or the time, ends all of them.

    Processes share `gpus` GPUs; if that is 0, they share `DEVICES` CPU devices.

    They must come to a first exchange within half a minute of each other: gloo waits no longer.
    """
    with started(program, folder, processes, gpus) as running:
        codes = _wait(running, time.monotonic() + timeout)
    assert codes == [0] * processes, (
        f"exit codes {codes}, None after {timeout} s\n{logs(folder, processes)}"
    )
    return [dict(np.load(_result(folder, processes, k))) for k in range(processes)]


@contextlib.contextmanager
def started(
    program: Path, folder: Path, processes: int, gpus: int = 0
) -> Iterator[list[subprocess.Popen]]:
    """Processes with their arguments: a file for results, and with more than one of them the
    address, their number and the index of each. They are killed in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    if gpus:
        env |= {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    else:
        flags = f"--xla_force_host_platform_device_count={DEVICES // processes}"
        env |= {"JAX_PLATFORMS": "cpu", "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}
        env |= {"XLA_FLAGS": flags}
    each = gpus // processes
    running = []
    try:
        for k in range(processes):
            result = _result(folder, processes, k)
            distributed = [address, str(processes), str(k)] if processes > 1 else []
            run = [sys.executable, str(program), str(result), *distributed]
            if gpus:
                its = range(k * each, (k + 1) * each)
                env |= {"CUDA_VISIBLE_DEVICES": ",".join(map(str, its))}
            with result.with_suffix(".log").open("w") as log:
                running.append(subprocess.Popen(run, env=env, stdout=log, stderr=log))
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def logs(folder: Path, processes: int) -> str:
    paths = [_result(folder, processes, k).with_suffix(".log") for k in range(processes)]
    return "\n".join(path.read_text()[-5000:] for path in paths)


def _result(folder: Path, processes: int, k: int) -> Path:
    return folder / f"{processes}_{k}.npz"


def _wait(running: list[subprocess.Popen], until: float) -> list[int | None]:
    """The exit codes, once all have ended, one has failed, or it is time."""
    while True:
        codes = [process.poll() for process in running]
        if None not in codes or any(codes) or time.monotonic() > until:
            return codes
        time.sleep(0.05)
