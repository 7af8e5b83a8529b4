"""Faults of a machine: few threads, forks, and a disk or a device that is full."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


_PROBLEMS = """
import os, sys, threading
import numpy as np, jaxmatch as jm
rng = np.random.default_rng(0)
costs = rng.random((200, 12, 12))
edges = rng.integers(0, 300, (2, 2000))
network = jm.FlowNetwork.from_edges(*edges, num_nodes=300)
capacity = rng.random((8, 2000))
def results():
    return [
        jm.solve_assignment(costs),
        jm.solve_assignment(costs[0], method="core"),
        jm.k_best_assignments(costs, 3),
        jm.solve_transport(costs, np.ones((200, 12)), np.ones((200, 12))),
        jm.maximum_flow(network, capacity, 0, 1),
        jm.grid_cut(costs, costs[::-1], np.ones((200, 2, 12, 12))),
    ]
def bits():
    return [np.asarray(x).tobytes() for res in results() for x in vars(res).values()]
"""

_THREADS = """
import jax
def traced():
    res = jax.jit(jm.solve_assignment)(costs.astype(np.float32))
    return [np.asarray(x).tobytes() for x in vars(res).values()]
expected = bits() + traced()
found = [None] * 16
def work(k):
    found[k] = [bits() + traced() for _ in range(3)]
threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
for x in threads: x.start()
for x in threads: x.join()
assert all(each == expected for of_thread in found for each in of_thread)
"""

_FORK_FIRST = """
child = os.fork()
if child == 0:  # traced calls are JAX's own affair: it says that forks are not for them
    bits()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
bits()
"""

_FORK_AFTER = """
import jax, warnings
expected = bits()
jax.block_until_ready(jax.jit(jm.solve_assignment)(costs.astype(np.float32)))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    child = os.fork()
if child == 0:  # which has none of the threads of its parent
    os._exit(0 if bits() == expected else 1)
assert any("os.fork()" in str(x.message) for x in told), told  # JAX's own
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert bits() == expected
"""

_WITHOUT_DISK = """
import resource, signal
import jax
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
for k in range(2):
    res = jax.jit(jm.solve_assignment)(costs.astype(np.float32))
    assert (np.asarray(res.status) == 0).all()
    jax.clear_caches()
try:
    open(sys.argv[1] + "/file", "w").write("x" * 10_000)
except OSError:
    sys.exit(0)
sys.exit("the disk is not full")
"""

_FULL_DEVICE = """
import jax, jax.numpy as jnp
small = jnp.asarray(costs[0], jnp.float32)
expected = jm.solve_assignment(small).cost
limit = jax.devices()[0].memory_stats()["bytes_limit"]
try:
    # The costs take four fifths of the memory, candidate sets 1.5 KB a row or nearly half as much.
    cost = jnp.zeros((limit * 4 // 5 // 2**22, 1024, 1024), jnp.float32)
    jax.block_until_ready(jm.solve_assignment(cost, method="core"))
except jax.errors.JaxRuntimeError as error:
    assert "RESOURCE_EXHAUSTED" in str(error), error
else:
    sys.exit("the device had room")
del cost
assert jm.solve_assignment(small).cost == expected
"""


def run(code: str, *words: str, **environment: str) -> None:
    environment = {"JAX_PLATFORMS": "cpu"} | environment
    done = subprocess.run(
        [sys.executable, "-c", _PROBLEMS + code, *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_sixteen_threads_on_one_core():
    """One core is a pool of one, for JAX and for us: no call waits for a thread that it needs."""
    run("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})" + _THREADS, XLA_FLAGS="")


def test_a_fork_before_first_use():
    run(_FORK_FIRST)


def test_a_fork_after_use():
    """JAX itself may hang in the child, and says so; calls on NumPy arrays go on."""
    run(_FORK_AFTER)


def test_a_compilation_cache_without_room(tmp_path: Path):
    """Programs cannot be kept, but are solved."""
    cache = tmp_path / "cache"
    cache.mkdir()
    run(_WITHOUT_DISK, str(tmp_path), JAX_COMPILATION_CACHE_DIR=str(cache),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")  # fmt: skip
    assert not any(file.stat().st_size for file in cache.rglob("*") if file.is_file())


def test_a_compilation_cache_that_is_no_folder(tmp_path: Path):
    (tmp_path / "cache").write_text("a file")
    run(
        "import jax\nres = jax.jit(jm.solve_assignment)(costs.astype(np.float32))\n"
        "assert (np.asarray(res.status) == 0).all()",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"),
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )


@pytest.mark.gpu
def test_a_device_that_is_full():
    run(
        _FULL_DEVICE,
        JAX_PLATFORMS="cuda",
        XLA_PYTHON_CLIENT_MEM_FRACTION="0.01",
        XLA_PYTHON_CLIENT_PREALLOCATE="true",
    )
