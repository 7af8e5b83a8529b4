"""The CUDA kernels on the CPU: compiles tests/emulation and calls it as `solve_assignment`."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np

import jaxmatch as jm
from jaxmatch._common import limits
from jaxmatch._ffi.sizes import size


ROOT = Path(__file__).parents[2]
_DTYPES = ["bfloat16", "float16", "float32", "float64", "int32", "int64"]
_OPTIONAL = ["row_mask", "col_mask", "unmatched_cost"]
_ptr, _byte, _long = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_int64


class _Operands(ctypes.Structure):
    """As in ffi/assignment/operands.h."""

    _fields_ = [
        *((name, _long) for name in ("batch", "n", "m")),
        ("cost", _ptr),
        ("cost_dtype", _byte),
        ("maximize", ctypes.c_bool),
        *((name, _ptr) for name in ("row_mask", "col_mask", "unmatched_cost")),
        ("unmatched_dtype", _byte),
        ("start_dual", _ptr),
        ("result_dtype", _byte),
        *((name, _ptr) for name in ("col4row", "row4col", "value", "row_dual", "col_dual", "gap")),
        ("status", _ptr),
    ]


def compiler() -> str | None:
    return shutil.which("g++")


@cache
def library(name: str) -> ctypes.CDLL:
    """`tests/emulation/NAME_emulated.cc`, compiled once for all processes and test runs.

    It is kept in `build/emulation` with the hash of all files that the compiler has read for it.
    """
    folder = ROOT / "build" / "emulation"
    folder.mkdir(parents=True, exist_ok=True)
    built, used, key = (folder / f"{name}.{end}" for end in ("so", "d", "hash"))
    command = [compiler(), "-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-ffp-contract=off"]
    command += ["-U_FORTIFY_SOURCE"]  # which forbids jumps between stacks
    command += [f"-DJAXMATCH_STATUS_{status.name}={int(status)}" for status in jm.Status]
    numbers = {name: x for name, x in vars(limits).items() if name.isupper()}
    command += [f"-DJAXMATCH_LIMIT_{name}={number}" for name, number in numbers.items()]
    include = ["tests/emulation", "tests/emulation/include", "ffi"]
    command += [*(f"-I{ROOT / folder}" for folder in include), f"-I{jax.ffi.include_dir()}"]
    command += [str(ROOT / f"tests/emulation/{name}_emulated.cc")]
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not (built.exists() and key.exists() and key.read_text() == _hash(command, used)):
            key.unlink(missing_ok=True)
            built.unlink(missing_ok=True)  # a process may have loaded it: never written over
            done = subprocess.run(
                [*command, "-MD", "-MF", used, "-o", built], capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            key.write_text(_hash(command, used))
    return ctypes.CDLL(str(built))


def _hash(command: list[Any], used: Path) -> str:
    """Of a command and the files that a rule of make's, which the compiler wrote, names."""
    found = hashlib.sha256("\n".join(map(str, command)).encode())
    names = re.findall(r"(?:\\ |\S)+", used.read_text().replace("\\\n", ""))
    for name in sorted(name.replace("\\ ", " ") for name in names[1:]):
        found.update(Path(name).read_bytes() if os.path.exists(name) else b"is gone")
    return found.hexdigest()


@cache
def _assignment() -> Any:
    loaded = library("assignment")
    loaded.emulate_assignment.restype = loaded.plan_assignment.restype = _long
    return loaded


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy with an unreadable page right behind it, aligned as XLA aligns if its size allows."""
    page = mmap.PAGESIZE
    pages = -(-max(array.nbytes, 1) // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(_ptr(start + pages * page), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(memory, np.uint8)[pages * page - array.nbytes : pages * page]
    copy[:] = array.reshape(-1).view(np.uint8)
    return copy.view(array.dtype).reshape(array.shape)


def plan(shape: tuple[int, int], most_bytes: int, *, dtype: str, given: list[str]) -> int:
    """Bytes of shared memory that one problem of this shape asks for on such a GPU."""
    n, m = shape
    here = _ptr(64)  # given, but never looked at
    operands = _Operands(batch=1, n=n, m=m, cost_dtype=_DTYPES.index(dtype))
    for name in given:
        setattr(operands, name, here)
    there = [name in given for name in _OPTIONAL]
    words = size("assignment.workspace", n, m, np.dtype(dtype).itemsize, *there)
    words //= 2 if np.dtype(dtype).itemsize == 8 else 1
    return _assignment().plan_assignment(ctypes.byref(operands), _long(words), most_bytes)


def solve(
    costs: Any, *, kernel: str = "", seed: int = 0, wide: bool = False, **given: Any
) -> jm.Assignment:
    """Solves a batch `[b, n, m]` with `kernel` ("block", or "" as on a GPU)."""
    costs = guarded(np.ascontiguousarray(costs))
    b, n, m = costs.shape
    real = np.float64 if wide else np.float32
    keep: list[np.ndarray] = []  # alive until the call is over

    def pointer(array: Any, shape: tuple[int, ...], dtype: Any = None) -> int | None:
        if array is None:
            return None
        keep.append(np.ascontiguousarray(np.broadcast_to(array, shape), dtype))
        return keep[-1].ctypes.data

    def result(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.full(shape, 0x55, dtype)  # poison

    unmatched = given.pop("unmatched_cost", None)
    if unmatched is not None:
        unmatched = np.asarray(unmatched)
        whole = unmatched.dtype.kind in "iu"
        integral = np.dtype(costs.dtype).kind == "i"
        longest = np.int64 if wide else np.int32
        unmatched = unmatched.astype(longest if whole and integral else real)
    start = given.pop("warm_start", None)
    results = {
        "col4row": result((b, n), np.int32),
        "row4col": result((b, m), np.int32),
        "value": result((b,), real),
        "row_dual": result((b, n), real),
        "col_dual": result((b, m), real),
        "gap": result((b,), real),
        "status": result((b,), np.int32),
    }
    operands = _Operands(
        batch=b,
        n=n,
        m=m,
        cost=pointer(costs, costs.shape),
        cost_dtype=_DTYPES.index(costs.dtype.name),
        maximize=given.pop("maximize", False),
        row_mask=pointer(given.pop("row_mask", None), (b, n), np.uint8),
        col_mask=pointer(given.pop("col_mask", None), (b, m), np.uint8),
        unmatched_cost=pointer(unmatched, (b, n)),
        unmatched_dtype=0 if unmatched is None else _DTYPES.index(unmatched.dtype.name),
        start_dual=pointer(start, (b, m), real),
        result_dtype=_DTYPES.index(np.dtype(real).name),
        **{name: x.ctypes.data for name, x in results.items()},
    )
    in_workspace = given.pop("in_workspace", False)
    assert not given
    wide_side = m if unmatched is not None else max(n, m)
    words = (n if unmatched is not None else min(n, m)) * -(-wide_side // 4) * 4
    words = words if in_workspace else 0
    size = 8 if costs.dtype.itemsize == 8 else 4
    # A pattern tells of writes beyond it.
    workspace = np.full(b * words * size + 64, 0xAB, np.uint8)
    at = workspace.ctypes.data
    aligned = at + (-at) % 16
    done = _assignment().emulate_assignment(
        ctypes.byref(operands), _ptr(aligned), _long(words), kernel.encode() or None, seed
    )
    assert done >= 0, "too little shared memory"
    end = aligned - at + b * words * size
    assert (workspace[end:] == 0xAB).all(), "written beyond the workspace"
    results["cost"] = results.pop("value")
    return jm.Assignment(**results)


def auction(
    costs: np.ndarray,
    seed: int = 0,
    unmatched_cost: np.ndarray | None = None,
    always: bool = True,
    pairs: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The prices `[b, k]` of a batch `[b, n, m]`, and its numbers `[b, 2]` of rounds and scans, or
    with `pairs` the column of each row.

    Prices are those of the columns, or of the rows where there are more and all must be matched.
    They are NaN where no auction ran; with `always` it runs wherever it can.
    """
    costs = guarded(np.ascontiguousarray(costs))
    b, n, m = costs.shape
    k = m if unmatched_cost is not None else max(n, m)
    counts = np.zeros((b, 2), np.int32)
    results = np.empty((b, (8 + n + m + 1) // 2), np.float64)  # ffi/assignment/cuda/batch.h
    dtype = _DTYPES.index(costs.dtype.name)
    operands = _Operands(batch=b, n=n, m=m, cost=costs.ctypes.data, cost_dtype=dtype)
    if unmatched_cost is not None:
        unmatched_cost = np.ascontiguousarray(unmatched_cost, np.float32)
        operands.unmatched_cost = unmatched_cost.ctypes.data
        operands.unmatched_dtype = _DTYPES.index("float32")
    words = (n if unmatched_cost is not None else min(n, m)) * -(-k // 4) * 4
    workspace = np.zeros((b, words), np.float64)
    _assignment().emulate_auction(
        ctypes.byref(operands),
        _ptr(workspace.ctypes.data),
        _long(words),
        _ptr(results.ctypes.data),
        _ptr(counts.ctypes.data),
        seed,
        always,
    )
    ends = [8 + k, 8 + k + (n + m - k)]
    prices = results.view(np.float32)[:, 8 : ends[0]]
    return prices, results.view(np.int32)[:, ends[0] : ends[1]] if pairs else counts


assert ml_dtypes.bfloat16  # gives numpy the name
