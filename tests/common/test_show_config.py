"""What `show_config` and `python -m jaxmatch` print."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import jaxmatch as jm
from jaxmatch._library.gpu_generations import gpu_generations
from jaxmatch._show_config import config


def test_names(capsys):
    jm.show_config()
    lines = capsys.readouterr().out.splitlines()
    named = [line.split("  ")[0] for line in lines if line[0] != " "]
    assert named[:5] == ["jaxmatch", "jax", "jaxlib", "numpy", "Python"]
    assert lines[0].split() == ["jaxmatch", jm.__version__]
    assert {"CPU library", "CUDA library", "devices", "environment"} <= {*named}


def test_devices():
    count = len(jax.devices())
    assert config()["devices"][0].startswith(f"{count} × ")


@pytest.mark.skipif(not jm.has_cpu_library(), reason="needs the CPU library")
def test_cpu_library():
    path, build, instructions = config()["CPU library"]
    assert Path(path).is_file()
    assert build.startswith("build ") and "ABI" in build
    kind = instructions.removeprefix("instruction set ")
    assert kind in ("portable", "avx2", "avx512", "unknown")


def test_without_libraries():
    env = os.environ | {
        "JAXMATCH_LIB_DIR": "none",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(jm.__file__).parents[1]),  # the package under test
    }
    command = [sys.executable, "-m", "jaxmatch"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not loaded, as the environment variable JAXMATCH_LIB_DIR") == 2
    assert "JAXMATCH_LIB_DIR=none" in done.stdout


def test_gpu_generations(tmp_path):
    """Of two fat binaries in one file. PTX does not count."""

    def entry(kind, generation):
        header = struct.pack("<HHIQ12xI", kind, 0, 32, 8, generation)
        return header + bytes(8)

    def fat_binary(*entries):
        body = b"".join(entries)
        return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body

    library = tmp_path / "library.so"
    data = [fat_binary(entry(2, 90), entry(1, 120)), bytes(7), fat_binary(entry(2, 80))]
    library.write_bytes(b"\x7fELF" + b"".join(data))
    assert gpu_generations(library) == [80, 90]
    library.write_bytes(b"\x7fELF")
    assert gpu_generations(library) == []
