"""Calls of native targets on NumPy arrays, without tracing or compilation."""

from __future__ import annotations

import contextlib
import ctypes
import math
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxmatch._library.libraries import cpu_library


_ALIGNMENT = 64  # of each result, in bytes, as in XLA
# Results share one block of memory if together they take at most `_SHARED` bytes. Otherwise only
# results of up to `_SHARED_BY_ONE` bytes share it. The limits are low because a caller who keeps
# one result keeps the whole block in memory.
_SHARED = 4096
_SHARED_BY_ONE = 512
_MESSAGE_BYTES = 256  # room for an error message
_INTERRUPTED = -1  # the code that a call returns after Ctrl-C


class Plan(NamedTuple):
    """A prepared call: everything but the addresses of its arrays."""

    target: str
    run: Callable[..., int]
    handler: ctypes.c_void_p
    words: bytes  # the encoded call, see ffi/common/cpu/host_call.cc
    pack: Callable[..., bytes]  # packs the addresses of all arrays
    # Of each result: shape, dtype, the index of its memory block, and its offset in that block.
    results: tuple[tuple[tuple[int, ...], np.dtype, int, int], ...]
    sizes: tuple[int, ...]  # bytes of each memory block; small results share the first


def host_call(
    target: str,
    operands: Sequence[np.ndarray],
    results: Sequence[tuple[tuple[int, ...], Any]],
    batch_operand: tuple[int, int],
    attributes: tuple[tuple[str, Any], ...],
) -> list[np.ndarray]:
    """Runs a native target on each problem of a batch, on this host.

    `batch_operand`: the index of an operand with batch dimensions, and the number of its core
    dimensions, which follow the batch dimensions.
    """
    types = tuple([(x.shape, x.dtype) for x in operands])
    plan = plan_of(target, types, tuple(results), batch_operand, attributes)
    memory = call_by_plan(plan, operands)
    out = [np.ndarray(shape, dtype, memory[k], offset) for shape, dtype, k, offset in plan.results]
    if _of_thread.recorded is not None:
        _of_thread.recorded.append((plan, operands, out))
    return out


@contextlib.contextmanager
def recorded_calls() -> Iterator[list[tuple[Plan, Sequence[np.ndarray], list[np.ndarray]]]]:
    """Collects what this thread runs by `host_call` in the `with` block: plans, operands, results.

    Such blocks nest: an inner block hides its calls from the outer one.
    """
    outer, _of_thread.recorded = _of_thread.recorded, []
    try:
        yield _of_thread.recorded
    finally:
        _of_thread.recorded = outer


def call_by_plan(plan: Plan, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a prepared call. Returns the memory blocks that hold its results, see `Plan.results`."""
    memory = [np.empty(size, np.uint8) for size in plan.sizes]
    begins = [_address(x) for x in memory]
    operands = [
        x if (f := x.flags).c_contiguous and f.aligned else np.require(x, None, ["C", "A"])
        for x in operands
    ]
    addresses = [_address(x) for x in operands]
    addresses += [begins[k] + offset for _, _, k, offset in plan.results]
    message = _of_thread.message
    code = plan.run(plan.handler, plan.words, plan.pack(*addresses), message, _MESSAGE_BYTES)
    if code == _INTERRUPTED:  # on the main thread, Python has raised KeyboardInterrupt by now
        raise RuntimeError(
            f"Ctrl-C ended the call of {plan.target} in the thread "
            f"{threading.current_thread().name!r}. Python raises KeyboardInterrupt in the main "
            "thread."
        )
    if code:
        raise jax.errors.JaxRuntimeError(message.value.decode())
    return memory


def _address(x: np.ndarray) -> int:
    try:  # several times as fast as `x.ctypes.data`
        if x.flags.writeable:
            return ctypes.addressof(ctypes.c_char.from_buffer(x))  # type: ignore[arg-type]
        return _of_thread.view.address(x)
    except (BufferError, TypeError, ValueError):  # empty, or of a dtype that buffers cannot export
        return x.ctypes.data


class _View(ctypes.Structure):
    """`Py_buffer` of the stable ABI: what an object tells about its memory."""

    _fields_ = (
        ("address_", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("bytes", ctypes.c_ssize_t),
        ("item_bytes", ctypes.c_ssize_t),
        ("read_only", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )

    def address(self, x: np.ndarray) -> int:
        """The address of a contiguous array, which may be read-only."""
        here = ctypes.addressof(self)
        _get_buffer(x, here, 0)
        found = self.address_
        _release_buffer(here)
        return found or 0


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.c_void_p], None


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.view = _View()
        self.message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self.recorded: list[Any] | None = None


_of_thread = _OfThread()


@lru_cache(maxsize=4096)
def plan_of(
    target: str,
    operands: tuple[tuple[tuple[int, ...], np.dtype], ...],
    results: tuple[tuple[tuple[int, ...], Any], ...],
    batch_operand: tuple[int, int],
    attributes: tuple[tuple[str, Any], ...],
) -> Plan:
    run, handler = _entry(target)
    at, core = batch_operand
    shape = operands[at][0]
    batch = shape[: len(shape) - core]
    words = [len(operands), len(results), len(attributes)]
    for shape, dtype in operands:
        words += (ord(dtype.kind), dtype.itemsize, len(shape), *shape)
    types = [((*batch, *of_one), np.dtype(dtype)) for of_one, dtype in results]
    for shape, dtype in types:
        words += (ord(dtype.kind), dtype.itemsize, len(shape), *shape)
    laid_out, sizes = _laid_out(types)
    return Plan(
        target,
        run,
        handler,
        struct.pack(f"={len(words)}q", *words) + _attribute_words(attributes),
        struct.Struct(f"={len(operands) + len(results)}Q").pack,
        laid_out,
        sizes,
    )


def _laid_out(types: Sequence[tuple[tuple[int, ...], np.dtype]]) -> tuple[Any, tuple[int, ...]]:
    """`Plan.results` and `Plan.sizes` for these shapes and dtypes."""
    sizes = [-(-math.prod(s) * d.itemsize // _ALIGNMENT) * _ALIGNMENT for s, d in types]
    most = _SHARED if sum(sizes) <= _SHARED else _SHARED_BY_ONE
    laid_out, of_memory = [], [0]
    for (shape, dtype), size in zip(types, sizes, strict=True):
        if size <= most:
            laid_out.append((shape, dtype, 0, of_memory[0]))
            of_memory[0] += size
        else:
            laid_out.append((shape, dtype, len(of_memory), 0))
            of_memory.append(size)
    return tuple(laid_out), tuple(of_memory)


@lru_cache
def _entry(target: str) -> tuple[Callable[..., int], ctypes.c_void_p]:
    library = cpu_library()
    run = library.jaxmatch_host_call
    run.argtypes = [ctypes.c_void_p, *[ctypes.c_char_p] * 3, ctypes.c_int64]
    return run, ctypes.cast(getattr(library, target), ctypes.c_void_p)


@lru_cache
def _attribute_words(attributes: tuple[tuple[str, Any], ...]) -> bytes:
    words = b""
    for name, value in attributes:
        words += _text(name)
        if isinstance(value, str):
            words += struct.pack("=q", ord("s")) + _text(value)
        else:
            words += struct.pack("=3q", *_scalar(value))
    return words


def _text(text: str) -> bytes:
    letters = text.encode()
    return struct.pack("=q", len(letters)) + letters + bytes(-len(letters) % 8)


def _scalar(value: bool | int | float) -> tuple[int, int, int]:
    """The kind of a number, its size in bytes, and its bits as an integer."""
    if isinstance(value, bool):
        return ord("b"), 1, int(value)
    if isinstance(value, float):
        return ord("f"), 8, *struct.unpack("=q", struct.pack("=d", value))
    return ord("i"), 8, int(value)
