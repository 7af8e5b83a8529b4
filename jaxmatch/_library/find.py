"""Finds the native libraries."""

import os
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path


LIBRARIES = {"cpu": "libjaxmatch_cpu.so", "CUDA": "libjaxmatch_cuda.so"}
NO_LIBRARIES = "none"  # the value of JAXMATCH_LIB_DIR that loads no library

_CUDA_MAJORS = (12, 13)  # CUDA versions with a package: jaxmatch-cuda12 and jaxmatch-cuda13


def find_library(platform: str) -> Path | None:
    """The path of the first library found for the platform, `"cpu"` or `"CUDA"`.

    If `JAXMATCH_LIB_DIR` is set, only that folder is searched. Otherwise a library that was built
    with this package comes before the libraries of `jaxmatch-cuda12` and `jaxmatch-cuda13`.
    """
    override = os.environ.get("JAXMATCH_LIB_DIR")
    if override == NO_LIBRARIES:
        return None
    if override:
        folders = [Path(override)]
    else:
        folders = [Path(__file__).parents[1] / "_lib"]
        # An editable install has its Python files here and its libraries in site-packages.
        try:
            folders.append(
                Path(str(metadata.distribution("jaxmatch").locate_file("jaxmatch/_lib")))
            )
        except metadata.PackageNotFoundError:
            pass
        if platform == "CUDA":
            folders += _folders_of_cuda_packages()
    name = LIBRARIES[platform]
    return next((f / name for f in folders if (f / name).is_file()), None)


def how_to_install(platform: str) -> str:
    """Installation advice for error messages."""
    if platform == "CUDA":
        major = _cuda_majors()[0]
        return (
            f"`pip install --force-reinstall --no-deps jaxmatch jaxmatch-cuda{major}` (or "
            "`JAXMATCH_CUDA=ON pip install .` in a clone) puts matching libraries in place."
        )
    return (
        "`pip install --force-reinstall --no-deps jaxmatch` (or `pip install .` in a clone) puts a "
        "matching library in place."
    )


def _cuda_majors() -> list[int]:
    """The major versions of CUDA to try. The version of the installed JAX CUDA plugin comes first.

    Kernels that were built with another CUDA version may run, too: with an older version always,
    with a newer one if the driver supports it.
    """
    plugins = {m for m in _CUDA_MAJORS if find_spec(f"jax_cuda{m}_plugin")}
    return sorted(_CUDA_MAJORS, key=lambda m: (m not in plugins, -m))


def _folders_of_cuda_packages() -> list[Path]:
    specs = [find_spec(f"jaxmatch_cuda{major}") for major in _cuda_majors()]
    places = [place for s in specs if s for place in s.submodule_search_locations or ()]
    return [Path(place, "_lib") for place in places]
