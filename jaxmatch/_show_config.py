"""The versions, native libraries and devices of this installation, for bug reports."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib import metadata
from pathlib import Path

import jax
import numpy as np

from jaxmatch._library.abi import ABI
from jaxmatch._library.gpu_generations import gpu_generations
from jaxmatch._library.libraries import loaded_libraries


# Environment variables that change which code runs.
_VARIABLES = (
    *("JAXMATCH_LIB_DIR", "JAXMATCH_ISA", "JAXMATCH_CUDA_KERNEL"),
    *("JAX_PLATFORMS", "XLA_FLAGS", "CUDA_VISIBLE_DEVICES"),
)
_FILES = {"cpu": "libjaxmatch_cpu.so", "CUDA": "libjaxmatch_cuda.so"}


def show_config() -> None:
    """Prints versions, native libraries and devices, for a bug report.

    `python -m jaxmatch` does the same from a shell. Listing the devices starts JAX's backends.

    >>> import jaxmatch as jm
    >>> jm.show_config()  # doctest: +ELLIPSIS
    jaxmatch ...
    """
    for name, value in config().items():
        first, *others = value if isinstance(value, list) else [value]
        print(f"{name:16} {first}")
        for line in others:
            print(f"{'':16} {line}")


def config() -> dict[str, str | list[str]]:
    """The values that `show_config` prints, by name."""
    from jaxmatch import __version__

    return {
        "jaxmatch": __version__,
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "CPU library": _library("cpu"),
        "CUDA library": _library("CUDA"),
        "x64": "on" if jax.config.read("jax_enable_x64") else "off",
        "devices": _devices(),
        "environment": _environment(),
    }


def _library(name: str) -> list[str]:
    """The path, build and supported hardware of a library, or why it is not loaded."""
    library = loaded_libraries().get(name)
    if library is None:
        folder = os.environ.get("JAXMATCH_LIB_DIR")
        if folder == "none":
            return ["not loaded, as the environment variable JAXMATCH_LIB_DIR is 'none'"]
        where = f" in JAXMATCH_LIB_DIR={folder!r}" if folder else ""
        return [f"not loaded: {_FILES[name]} was not found{where}"]
    path = Path(library._name)
    lines = [str(path), f"build {_text(library, 'jaxmatch_build')}, ABI {ABI}"]
    if name == "cpu":
        lines.append(f"instruction set {_text(library, 'jaxmatch_instruction_set')}")
    else:
        generations = ", ".join(f"{x // 10}.{x % 10}" for x in gpu_generations(path))
        lines.append(f"compute capabilities {generations}")
    return lines


def _text(library: ctypes.CDLL, function: str) -> str:
    """The text that an exported function returns; "unknown" if the library lacks the function."""
    ask = getattr(library, function, None)
    if ask is None:
        return "unknown"
    ask.restype = ctypes.c_char_p
    return ask().decode()


def _devices() -> list[str]:
    try:
        devices = jax.devices()
    except RuntimeError as e:  # a backend failed to start
        return [f"none: {e}"]
    kinds = [x.device_kind for x in devices]
    return [f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds)]


def _environment() -> list[str]:
    found = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return found or ["none of the variables that change what runs"]
