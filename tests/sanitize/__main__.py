"""`python -m sanitize address`, or `thread`, in `tests`: builds the CPU library so, and uses it.

`address` also finds undefined behaviour: hostile problems of every solver that needs no
compilation, larger ones, and wrong calls of each handler. `thread` finds data races: problems that
are solved by several threads.

The library alone has sanitizers; Python and JAX, which have none, preload their runtime. Nothing is
compiled by XLA, so that all threads are those of ffi/common/cpu/host_pool.h.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from command_line import seed_of_the_day


ROOT = Path(__file__).parents[2]
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
RUNTIMES = {"address": ("asan", "ubsan"), "thread": ("tsan",)}
OPTIONS = {
    # Python itself does not free all that it has.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
# Of a quick build: without optimisation, one instruction set, few costs of large problems.
QUICK = ["-DCMAKE_BUILD_TYPE=Debug", "-DJAXMATCH_VARIANTS=", "-DJAXMATCH_LARGE_COSTS=float;int32_t"]
FULL = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1"]


def build(kind: str, quick: bool) -> Path:
    """Returns the folder of the library."""
    folder = ROOT / "build" / f"sanitize-{kind}{'-quick' if quick else ''}"
    options = [f"-DJAXMATCH_SANITIZE={SANITIZERS[kind]}", "-DJAXMATCH_CUDA=OFF"]
    options += [f"-DPython_EXECUTABLE={sys.executable}", *(QUICK if quick else FULL)]
    for command in (
        ["cmake", "-S", ROOT / "ffi", "-B", folder, "-G", "Ninja", *options],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
    return folder


def environment(kind: str, library: Path) -> dict[str, str]:
    """What a Python with that library needs."""
    compiler = os.environ.get("CXX", "g++")
    found = [
        subprocess.run([compiler, f"-print-file-name=lib{name}.so"], capture_output=True, text=True)
        for name in (*RUNTIMES[kind], "stdc++")  # which must be there when exceptions are looked up
    ]
    return os.environ | OPTIONS | {
        "LD_PRELOAD": " ".join(x.stdout.strip() for x in found),
        "JAXMATCH_LIB_DIR": str(library),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests"))),
    }  # fmt: skip


def runs(kind: str, quick: bool, seed: int) -> list[list[str]]:
    """Modules to run, with their arguments."""
    if kind == "thread":
        return [["sanitize.larger", "--threads", *(["--quick"] if quick else [])],
                ["sanitize.hostile", "--problems", "1500" if quick else "20000",
                 "--seed", str(seed)]]  # fmt: skip
    return [
        ["sanitize.larger", *(["--quick"] if quick else [])],
        ["sanitize.hostile", "--problems", "1500" if quick else "50000", "--seed", str(seed)],
        ["fuzz", "--calls", "3000" if quick else "100000", "--seed", str(seed)],
    ]


def run(words: list[str], variables: dict[str, str]) -> int:
    """Prints each line behind the name of the module, as several run at a time."""
    name = words[0].rpartition(".")[2]
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT / "tests",
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            sys.stdout.write(f"{name}: {line}")
            sys.stdout.flush()
    return running.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sanitize", description=__doc__)
    parser.add_argument("kind", choices=SANITIZERS)
    parser.add_argument("--quick", action="store_true", help="a smaller library, fewer problems")
    parser.add_argument("--seed", type=int, help="today's date, if left out")
    parser.add_argument(
        "--environment", action="store_true", help="print the variables of a run, and end"
    )
    given = parser.parse_args()
    seed = seed_of_the_day() if given.seed is None else given.seed
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:4.0f} s  {what}", flush=True)

    library = build(given.kind, given.quick)
    if given.environment:
        names = (*OPTIONS, "LD_PRELOAD", "JAXMATCH_LIB_DIR", "JAX_PLATFORMS", "PYTHONPATH")
        print(*(shlex.quote(f"{x}={environment(given.kind, library)[x]}") for x in names))
        return 0
    say(f"{library / 'libjaxmatch_cpu.so'} is built")
    variables = environment(given.kind, library)

    def one(words: list[str]) -> bool:
        code = run(words, variables)
        say(f"python -m {' '.join(words)}: {f'failed, status {code}' if code else 'clean'}")
        return code == 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        clean = list(pool.map(one, runs(given.kind, given.quick, seed)))
    return int(not all(clean))


if __name__ == "__main__":
    sys.exit(main())
