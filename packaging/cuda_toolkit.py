"""Assembles a CUDA toolkit from packages, so that every build of a wheel has the same compiler."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


# CUDA 13: all of it is on PyPI, and lies in one folder there.
_CUDA13 = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-culibos==13.0.85",
)

# CUDA 12: PyPI has headers, the assembler and the static runtime, but no nvcc. Debian has one, in
# non-free. Headers and nvcc are of one version; the assembler and the runtime may be newer. So may
# be fatbinary, of which that of CUDA 13 compresses twice as well. Drivers since 550.54 (CUDA 12.4)
# read what it writes.
_CUDA12_HEADERS = (
    "nvidia-cuda-nvcc-cu12==12.4.131",
    "nvidia-cuda-runtime-cu12==12.4.127",
    "nvidia-cuda-cccl-cu12==12.4.127.post1",
)
_CUDA12_NEWER = ("nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79")
_CUDA12_FATBINARY = ("nvidia-cuda-nvcc==13.0.88",)
_CUDA12_DEBIAN = "nvidia-cuda-toolkit=12.4.131~12.4.1-2"
_DEBIAN_SOURCE = (
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    " http://deb.debian.org/debian trixie non-free\n"
)
_PROFILE = """
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
"""


def assemble(major: int, folder: Path) -> Path:
    """The path of `nvcc` in a toolkit below the folder, which is assembled at the first call."""
    toolkit = folder.resolve() / f"cuda{major}"
    if not (toolkit / "complete").exists():
        shutil.rmtree(toolkit, ignore_errors=True)
        {12: _assemble_12, 13: _assemble_13}[major](toolkit)
        shutil.rmtree(toolkit / "parts")
        (toolkit / "complete").touch()
    return toolkit / "bin" / "nvcc"


def library_options(nvcc: str) -> str:
    """The options `-L…` with which a compiler links what it has compiled."""
    command = [nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    (line,) = re.findall(r"^#\$ LIBRARIES=(.*)$", told, re.MULTILINE)
    return " ".join(shlex.split(line))


def _assemble_13(toolkit: Path) -> None:
    parts = toolkit / "parts"
    _install(parts, _CUDA13)
    for part in (parts / "nvidia" / "cu13").iterdir():
        part.rename(toolkit / part.name)
    (toolkit / "lib64").symlink_to("lib")


def _assemble_12(toolkit: Path) -> None:
    parts = toolkit / "parts"
    _install(parts / "headers", _CUDA12_HEADERS)
    _install(parts / "newer", _CUDA12_NEWER)
    _install(parts / "fatbinary", _CUDA12_FATBINARY)
    debian = _unpack_debian(parts)
    ours = debian / "usr" / "lib" / "nvidia-cuda-toolkit"
    headers, newer = (parts / name / "nvidia" for name in ("headers", "newer"))
    for source, target in (
        (headers / "cuda_runtime" / "include", "include"),
        (headers / "cuda_nvcc" / "include", "include"),
        (headers / "cuda_cccl" / "include", "include"),
        (newer / "cuda_runtime" / "lib", "lib64"),
        (newer / "cuda_nvcc" / "bin", "bin"),
        (ours / "bin" / "crt", "bin/crt"),
        (ours / "libdevice", "nvvm/libdevice"),
    ):
        shutil.copytree(source, toolkit / target, dirs_exist_ok=True)
    # nvlink refuses the newer one. It is for kernels that start kernels, and there are none: empty.
    (toolkit / "lib64" / "libcudadevrt.a").write_bytes(b"!<arch>\n")
    (toolkit / "nvvm" / "bin").mkdir()
    shutil.copy(ours / "bin" / "cicc", toolkit / "nvvm" / "bin")
    shutil.copy(ours / "bin" / "nvcc", toolkit / "bin")
    for name in ("cudafe++", "nvlink", "bin2c", "__nvcc_device_query"):
        shutil.copy(debian / "usr" / "bin" / name, toolkit / "bin")
    shutil.copy(parts / "fatbinary" / "nvidia" / "cu13" / "bin" / "fatbinary", toolkit / "bin")
    (toolkit / "bin" / "nvcc.profile").write_text(_PROFILE)


def _unpack_debian(parts: Path) -> Path:
    """Downloads and unpacks Debian's package; nothing is installed."""
    apt = parts / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(_DEBIAN_SOURCE)
    (apt / "status").touch()
    options = {
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "",
        "APT::Architecture": "amd64",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*command, "update"], check=True)
    subprocess.run([*command, "download", _CUDA12_DEBIAN], check=True, cwd=apt)
    (package,) = apt.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, parts / "debian"], check=True)
    return parts / "debian"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    subprocess.run([*pip, *packages], check=True)
