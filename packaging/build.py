"""Builds the distributions of a release into a folder: `python packaging/build.py --help`.

Every wheel is linked against glibc 2.28, and gets the tag that says so once auditwheel has read
which versions of symbols its library needs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import cuda_toolkit


ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "wheels"
GLIBC = (2, 28)  # the oldest that the wheels run on

# A wheel of more bytes is an error.
LIMITS = {"cpu": 10_000_000, "aarch64": 10_000_000, "cuda12": 30_000_000, "cuda13": 30_000_000}

# GPU generations as CMake names them; the last is also there as PTX, from which drivers compile for
# those to come. For CUDA 12 Blackwell is one of these: nvcc 12.4 does not know it.
ARCHITECTURES = {"cuda12": "80-real;90", "cuda13": "80-real;90-real;100-real;120"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = ["sdist", *LIMITS]
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(every)}; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--nvcc", help="of a toolkit of yours, for cuda12 or cuda13")
    arguments = parser.parse_args()
    if unknown := {*arguments.what} - {*every}:
        parser.error(f"WHAT must be of {', '.join(every)}, got {', '.join(sorted(unknown))}")
    for what in arguments.what or every:
        if what == "sdist":
            command = [sys.executable, "-m", "build", "--sdist", "--outdir", arguments.out, ROOT]
            subprocess.run(command, check=True)
        else:
            build_wheel(what, arguments.out, arguments.nvcc)


def build_wheel(what: str, out: Path, nvcc: str | None) -> None:
    machine = "aarch64" if what == "aarch64" else "x86_64"
    compiler = HERE / "toolchain" / f"{machine}-c++"
    # Linked without symbols (-s): strip would have to know the other machine.
    defines = {"CMAKE_CXX_COMPILER": str(compiler), "CMAKE_MODULE_LINKER_FLAGS": "-s"}
    environment = os.environ | {"ZIG": str(zig())}
    source = ROOT
    if what.startswith("cuda"):
        major = what.removeprefix("cuda")
        nvcc = nvcc or str(cuda_toolkit.assemble(int(major), ROOT / "build" / "toolkits"))
        source = write_cuda_package(major)
        environment.setdefault("CUDAARCHS", ARCHITECTURES[what])
        defines |= {"CMAKE_CUDA_COMPILER": nvcc, "CMAKE_CUDA_HOST_COMPILER": str(compiler)}
        # CMake does not learn from our linker where the runtime of CUDA is.
        defines["CMAKE_MODULE_LINKER_FLAGS"] += f" {cuda_toolkit.library_options(nvcc)}"
        if major == "12":  # nvcc 12.4 does not know this option of a newer fatbinary
            defines["CMAKE_CUDA_FLAGS"] = "-Xfatbin=--compress-mode=size"
    else:
        defines["JAXMATCH_CUDA"] = "OFF"
    if machine != "x86_64":
        defines |= {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": machine}
    settings = {f"cmake.define.{name}": value for name, value in defines.items()}
    settings |= {"build-dir": BUILD / what / "objects", "install.strip": "false"}
    made = BUILD / what / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--wheel-dir", made]
    command += [part for name, value in settings.items() for part in ("-C", f"{name}={value}")]
    subprocess.run(command, check=True, env=environment)
    (wheel,) = made.glob("*.whl")
    tag_and_check(retag(wheel, f"linux_{machine}"), machine, out, LIMITS[what])


def zig() -> Path:
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        sys.exit("The package `ziglang` is missing: `make wheels` installs what is needed.")
    return Path(spec.origin).with_name("zig")


def write_cuda_package(major: str) -> Path:
    """The project of `jaxmatch-cuda12` or `jaxmatch-cuda13`: the library alone, and a licence."""
    folder = BUILD / f"cuda{major}" / "project"
    package = folder / f"jaxmatch_cuda{major}"
    package.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    fields = {"MAJOR": major, "VERSION": project["version"], "SOURCES": str(ROOT / "ffi")}
    fields["REPOSITORY"] = project["urls"]["Repository"]
    for name in ("pyproject.toml", "README.md"):
        text = (HERE / "cuda" / name).read_text()
        for field, value in fields.items():
            text = text.replace(field, value)
        (folder / name).write_text(text)
    (package / "__init__.py").write_text(f'"""The CUDA {major} kernels of jaxmatch."""\n')
    shutil.copy(ROOT / "LICENSE", folder)
    return folder


def retag(wheel: Path, platform: str) -> Path:
    """The wheel under another platform tag, in its place."""
    command = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", platform]
    done = subprocess.run([*command, wheel], check=True, stdout=subprocess.PIPE, text=True)
    return wheel.with_name(done.stdout.split()[-1])


def tag_and_check(wheel: Path, machine: str, out: Path, limit: int) -> None:
    """Moves a wheel into the folder, under a tag that says which systems it runs on."""
    show = [sys.executable, "-m", "auditwheel", "show", "--json", wheel]
    done = subprocess.run(show, check=True, stdout=subprocess.PIPE, text=True)
    needs = json.loads(done.stdout)["overall_tag"]
    glibc = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", needs)
    if glibc is None or tuple(map(int, glibc.groups())) > GLIBC:
        sys.exit(f"{wheel.name} runs on {needs}; glibc {GLIBC[0]}.{GLIBC[1]} must be enough.")
    wheel = retag(wheel, "manylinux_{}_{}_{}".format(*GLIBC, machine))
    out.mkdir(parents=True, exist_ok=True)
    size = wheel.stat().st_size
    print(f"{wheel.name}: needs {needs}, {size / 1e6:.1f} MB")
    if size > limit:
        sys.exit(f"{wheel.name} has {size} bytes; at most {limit} are expected.")
    shutil.move(wheel, out / wheel.name)


if __name__ == "__main__":
    main()
