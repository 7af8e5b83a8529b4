"""What is thrown in native code, on whichever thread, is an error of the call: nothing ends the
process, and the next call is right again."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxmatch as jm
from jaxmatch._assignment import native_large
from jaxmatch._ffi.call import native_call
from jaxmatch._ffi.libraries import has_cpu_library


ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/common/programs"

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


def test_work_that_throws(tmp_path: Path) -> None:
    """On every item, with threads that take what comes; and pools that have no memory for tasks."""
    program = tmp_path / "throwing_work"
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-pthread", f"-I{ROOT / 'ffi'}"]
    command += ["-o", str(program), str(PROGRAMS / "throwing_work.cc")]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_handlers_without_memory(tmp_path: Path) -> None:
    """The first allocations of a handler succeed, the others fail: from none to all of them."""
    shim = tmp_path / "short_of_memory.so"
    command = ["gcc", "-O1", "-Wall", "-fPIC", "-shared", "-o", str(shim)]
    subprocess.run([*command, str(PROGRAMS / "short_of_memory.c"), "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "short_of_memory.py")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    failures = dict(line.split() for line in done.stdout.splitlines())
    assert int(failures["core"]) > 0  # a vector and a queue of its search
    assert int(failures["flows_auto"]) > 0 and int(failures["perturbed"]) > 0


@pytest.mark.skipif(not has_cpu_library(), reason="needs the CPU library")
def test_a_method_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler takes no name for granted."""
    call = partial(native_call, present="", maximize=False, steps=0, method="cores")
    monkeypatch.setattr(native_large, "native_call", lambda *args, **_: call(*args, core_dims=[2]))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="method=cores"):
        jax.block_until_ready(jm.solve_assignment(jnp.ones((5, 17)), method="core"))
