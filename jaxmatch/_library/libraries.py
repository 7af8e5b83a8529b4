"""Loads the native libraries, checks their versions, and registers their FFI targets with XLA."""

import ctypes
import os
import re
import struct
import warnings
from importlib import metadata
from pathlib import Path

import jax

from jaxmatch._library.abi import ABI
from jaxmatch._library.find import LIBRARIES, NO_LIBRARIES, find_library, how_to_install


# FFI targets in both libraries. The C symbol that exports a target has the name of the target.
_IN_BOTH = (
    "jaxmatch_assignment",
    "jaxmatch_assignment_core",
    "jaxmatch_assignment_sharded",
    "jaxmatch_flow",
    "jaxmatch_grid_cut",
    "jaxmatch_k_best",
    "jaxmatch_matching",
    "jaxmatch_min_cost_flow",
    "jaxmatch_nearest",
    "jaxmatch_noop",
    "jaxmatch_perturbed_assignment",
    "jaxmatch_perturbed_jvp",
    "jaxmatch_sparse_assignment",
    "jaxmatch_transport",
    "jaxmatch_transport_points",
)

# Targets in the CPU library alone. On a GPU, XLA generates noise just as fast. There are no kernels
# yet for `jaxmatch_assignment_points`, `jaxmatch_grid_cut_warm` and `jaxmatch_near_assignment`. The
# targets for capacities and `jaxmatch_stencil_flow` are called on the host only, outside of
# compiled programs.
_ON_CPU = (
    "jaxmatch_assignment_points",
    "jaxmatch_capacities",
    "jaxmatch_capacities_points",
    "jaxmatch_grid_cut_warm",
    "jaxmatch_near_assignment",
    "jaxmatch_noise",
    "jaxmatch_stencil_flow",
)
_ON_CUDA = ("jaxmatch_near_pairs",)
_TARGETS = {"cpu": (*_IN_BOTH, *_ON_CPU), "CUDA": (*_IN_BOTH, *_ON_CUDA)}

# Exported functions that are not targets.
_ABOUT = ("jaxmatch_ffi_api_minor", "jaxmatch_abi", "jaxmatch_build", "jaxmatch_size")
_FUNCTIONS = {"cpu": (*_ABOUT, "jaxmatch_host_call"), "CUDA": _ABOUT}

_WORD = "(?:warp|block|all-search|auction|no-auction|cluster-[12]|)"

# Environment variables that select kernels: a pattern for the allowed values, and a description of
# these values for the error message.
_CHOICES = {
    "JAXMATCH_ISA": ("portable|avx2|avx512", "portable, avx2 or avx512"),
    "JAXMATCH_CUDA_KERNEL": (
        rf"{_WORD}(?:,{_WORD})*",
        "warp, block, all-search, auction, no-auction, cluster-1, cluster-2, or some of them with "
        "commas",
    ),
}

_loaded: dict[str, ctypes.CDLL] = {}  # by platform; never unloaded: XLA keeps pointers into them


def all_targets() -> tuple[str, ...]:
    """The names of the targets of all platforms, without duplicates."""
    return tuple(sorted({name for targets in _TARGETS.values() for name in targets}))


def has_cpu_library() -> bool:
    """Whether the compiled CPU solvers are loaded. If not, pure-JAX solvers run instead."""
    return "cpu" in _loaded


def cpu_library() -> ctypes.CDLL:
    """The library with the CPU solvers, which must be loaded."""
    return _loaded["cpu"]


def any_library() -> ctypes.CDLL | None:
    """One of the loaded libraries (all have the same constants), or None."""
    return next(iter(_loaded.values()), None)


def loaded_libraries() -> dict[str, ctypes.CDLL]:
    """The loaded libraries by platform, `"cpu"` and `"CUDA"`."""
    return dict(_loaded)


def has_cuda_library() -> bool:
    """Whether the CUDA kernels are loaded. This does not imply that there is a GPU."""
    return "CUDA" in _loaded


def load() -> None:
    """Loads the installed libraries and registers their targets.

    If no library is found, this is an error only if `JAXMATCH_LIB_DIR` names a folder. A library
    that this jaxlib cannot run raises an `ImportError` before any target is registered. Without
    this check, XLA would abort the process.
    """
    for name, (pattern, expected) in _CHOICES.items():
        value = os.environ.get(name, "")
        if value and not re.fullmatch(pattern, value):
            raise ImportError(
                f"The environment variable `{name}` must be {expected}, got {value!r}; unset it."
            )
    paths = {platform: find_library(platform) for platform in LIBRARIES}
    libraries = {
        platform: _open(platform, path) for platform, path in paths.items() if path is not None
    }
    override = os.environ.get("JAXMATCH_LIB_DIR")
    if override and override != NO_LIBRARIES and not libraries:
        raise ImportError(
            f"The environment variable `JAXMATCH_LIB_DIR` must name the folder that holds "
            f"`{LIBRARIES['cpu']}`, got {override!r}, where there is none. Unset it, or set it to "
            f"{NO_LIBRARIES!r} to run without native libraries."
        )
    _check_builds({paths[name] or Path(): library for name, library in libraries.items()})
    for platform, library in libraries.items():
        _register(platform, library)
    if override != NO_LIBRARIES and not has_cpu_library():
        _warn("cpu", f"`{LIBRARIES['cpu']}` was not found")


def warn_without_cuda() -> None:
    """Warns once if there is an NVIDIA GPU but no CUDA library."""
    global _looked_for_gpu
    if _looked_for_gpu or has_cuda_library():
        return
    _looked_for_gpu = True
    try:
        jax.devices("cuda")
    except RuntimeError:
        return
    if os.environ.get("JAXMATCH_LIB_DIR") != NO_LIBRARIES:
        _warn("CUDA", f"There is an NVIDIA GPU, but `{LIBRARIES['CUDA']}` was not found")


_looked_for_gpu = False


def _warn(platform: str, what: str) -> None:
    warnings.warn(
        f"{what}: the pure-JAX solvers run instead, which are right, but slow. "
        f"{how_to_install(platform)}",
        RuntimeWarning,
        stacklevel=2,
    )


def _open(platform: str, path: Path) -> ctypes.CDLL:
    """Checks the length of a library, loads it, and checks its symbols, FFI API version and ABI."""
    remedy = how_to_install(platform)
    _check_length(path, remedy)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise ImportError(f"`{path}` cannot be loaded: {e}. {remedy}") from e
    for symbol in [*_FUNCTIONS[platform], *_TARGETS[platform]]:
        if not hasattr(library, symbol):
            raise ImportError(f"`{path}` is of another version: it has no `{symbol}`. {remedy}")
    _check_api(platform, library.jaxmatch_ffi_api_minor(), _runtime_api_minor())
    if (abi := library.jaxmatch_abi()) != ABI:
        library.jaxmatch_build.restype = ctypes.c_char_p
        raise ImportError(
            f"`{path}` is of another version: build {library.jaxmatch_build().decode()} has the "
            f"ABI {abi}, these Python files need {ABI}. {remedy}"
        )
    return library


def _check_builds(libraries: dict[Path, ctypes.CDLL]) -> None:
    """Raises an error unless all libraries are from one build, so that their constants agree."""
    builds = {}
    for path, library in libraries.items():
        library.jaxmatch_build.restype = ctypes.c_char_p
        builds[path] = library.jaxmatch_build().decode()
    if len(set(builds.values())) > 1:
        listed = ", ".join(f"`{path}` of build {build}" for path, build in builds.items())
        raise ImportError(
            f"The native libraries are of different builds: {listed}. {how_to_install('CUDA')}"
        )


def _register(platform: str, library: ctypes.CDLL) -> None:
    for target in _TARGETS[platform]:
        capsule = jax.ffi.pycapsule(getattr(library, target))
        jax.ffi.register_ffi_target(target, capsule, platform=platform)
        jax.ffi.register_ffi_target_as_batch_partitionable(target)
    _loaded[platform] = library


def _check_length(path: Path, remedy: str) -> None:
    """Raises an error for a truncated file: loading it would end the process (SIGBUS)."""
    with path.open("rb") as file:
        header = file.read(64)
        length = file.seek(0, os.SEEK_END)
    if len(header) == 64 and header[:6] == b"\x7fELF\x02\x01":
        sections, size, count = (
            *struct.unpack_from("<Q", header, 40),
            *struct.unpack_from("<HH", header, 58),
        )
        if length < sections + size * count:
            raise ImportError(
                f"`{path}` cannot be loaded: it has {length} bytes of at least "
                f"{sections + size * count}. {remedy}"
            )


def _check_api(platform: str, built: int, runtime: int) -> None:
    if built > runtime:
        version = metadata.version("jaxlib")
        raise ImportError(
            f"`{LIBRARIES[platform]}` was compiled for XLA's FFI API 0.{built}, but the "
            f"installed jaxlib {version} offers 0.{runtime}. Upgrade jaxlib, or compile "
            f"jaxmatch against older headers. {how_to_install(platform)}"
        )


def _runtime_api_minor() -> int:
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    match = re.search(r"^#define XLA_FFI_API_MINOR (\d+)", header.read_text(), re.MULTILINE)
    if match is None:
        raise ImportError(f"`{header}` does not name the version of XLA's FFI API.")
    return int(match[1])
