"""Calls of handlers as XLA makes them: their description, the stored ones, and how to make one."""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import functools
import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 (names bfloat16 to NumPy)
import numpy as np

from jaxmatch._ffi.host_call import plan_of
from jaxmatch._ffi.sizes import size
from jaxmatch._library.libraries import cpu_library


CALLS = Path(__file__).with_name("calls.json")
# What the devices of a sharded problem have written for each other; the operands begin with costs.
_GATHERED = {"device", "cores", "lists", "packed", "reduction"}
# Results in which a handler keeps what it needs itself: control and scratch.
_SCRATCH = {"jaxmatch_assignment_core": {7, 8}, "jaxmatch_assignment_sharded": {7, 8}}
_SOLUTION = {*range(7)}  # results that a sharded problem has once it is solved
_FILLS = 0xA5, 0x5A
_LIBC = ctypes.CDLL(None)
_LIBC.malloc.restype = ctypes.c_void_p
_LIBC.malloc.argtypes = [ctypes.c_size_t]
_LIBC.free.argtypes = [ctypes.c_void_p]


@dataclasses.dataclass
class Call:
    target: str
    operands: list[np.ndarray]
    results: list[tuple[tuple[int, ...], np.dtype]]
    aliases: dict[int, int]  # from operands to results in the same memory
    attributes: dict[str, Any]

    @property
    def fixed(self) -> set[int]:
        """Operands whose numbers the library itself has written: a handler may trust them."""
        names = str(self.attributes.get("present", "")).split()
        gathered = {1 + k for k, name in enumerate(names) if name in _GATHERED}
        return {*self.aliases, *gathered}

    def types(self) -> str:
        """The dtypes and shapes of all arrays, and the attributes, in a line."""
        arrays = [(x.shape, x.dtype) for x in self.operands]
        words = [[f"{dtype}{[*shape]}" for shape, dtype in x] for x in (arrays, self.results)]
        return f"{self.target}({', '.join(words[0])}) -> {', '.join(words[1])}; {self.attributes}"


class NotWrittenError(Exception):
    """A handler has returned no error, and left a result as it was."""


def run(call: Call) -> tuple[int, str]:
    """XLA's code of the error, and its message; 0 without error, after which results are read.

    Sanitizers do not see what a handler leaves out. So results are filled with a byte first, and
    where it is still there, with another one in a second call.
    """
    code, message, first = _run(call, _FILLS[0])
    left = [x == _FILLS[0] for x in first]
    if code or not any(x.any() for x in left):
        return code, message
    second = _run(call, _FILLS[1])[2]
    free = _may_be_left(call, first)
    for k, (x, y) in enumerate(zip(left, second, strict=True)):
        of_number = (x & (y == _FILLS[1])).reshape(-1, call.results[k][1].itemsize)
        missing = np.flatnonzero(of_number.all(1))
        if missing.size and k not in free:
            what = f"{missing.size} numbers of result {k}, the first at {missing[0]}"
            raise NotWrittenError(f"{what}, are not written: {call.types()}")
    return code, message


def _may_be_left(call: Call, results: list[np.ndarray]) -> set[int]:
    """The results that the handler need not write."""
    free = {*call.aliases.values(), *_SCRATCH.get(call.target, ())}
    if call.target == "jaxmatch_assignment_sharded":
        stage = results[7].view(np.int32)[size("large.control.stage")]
        free |= _SOLUTION if stage != size("large.stage.done") else set()
    return free


def _run(call: Call, fill: int) -> tuple[int, str, list[np.ndarray]]:
    """As run(); and the bytes of the results, which were `fill` before the call.

    Each array has memory of its own that ends where it does, so that the sanitizer of addresses
    sees one number too many.
    """
    types = tuple((x.shape, x.dtype) for x in call.operands)
    first = (0, call.operands[0].ndim)  # no batch: results have their full shapes
    attributes = tuple(sorted(call.attributes.items()))
    plan = plan_of.__wrapped__(call.target, types, tuple(call.results), first, attributes)
    memory = [_filled(np.ascontiguousarray(x)) for x in call.operands]
    lengths = [math.prod(shape) * dtype.itemsize for shape, dtype in call.results]
    for k, length in enumerate(lengths):
        alias = [a for a, b in call.aliases.items() if b == k]
        memory.append(memory[alias[0]] if alias else _filled(np.full(length, fill, np.uint8)))
    message = ctypes.create_string_buffer(256)
    code = plan.run(plan.handler, plan.words, plan.pack(*memory), message, len(message))
    results = memory[len(call.operands) :]
    # The memory of an operand may be shorter than the result that has it, if one was changed.
    has = {b: call.operands[a].nbytes for a, b in call.aliases.items()}
    read = [
        ctypes.string_at(x, min(n, has.get(k, n)))
        for k, (x, n) in enumerate(zip(results, lengths, strict=True))
    ]
    for address in set(memory):
        _LIBC.free(address)
    text = message.value.decode(errors="replace") if code else ""
    return code, text, [np.frombuffer(x, np.uint8) for x in read]


def _filled(x: np.ndarray) -> int:
    address = _LIBC.malloc(max(x.nbytes, 1))
    ctypes.memmove(address, x.ctypes.data, x.nbytes)
    return address


def targets() -> Sequence[str]:
    from jaxmatch._library import libraries

    return libraries._TARGETS["cpu"]


def has_library() -> bool:
    try:
        return bool(cpu_library())
    except KeyError:
        return False


def to_json(call: Call) -> dict[str, Any]:
    return {
        "target": call.target,
        "attributes": call.attributes,
        "aliases": [*call.aliases.items()],
        "operands": [[x.dtype.name, x.shape, _packed(x)] for x in call.operands],
        "results": [[dtype.name, shape] for shape, dtype in call.results],
    }


def _packed(x: np.ndarray) -> str:
    data = np.ascontiguousarray(x).tobytes()
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpacked(name: str, shape: list[int], text: str) -> np.ndarray:
    data = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(data, np.dtype(name)).reshape(shape)


@functools.lru_cache
def stored() -> list[Call]:
    """The valid calls of the corpus."""
    return [
        Call(
            x["target"],
            [_unpacked(*operand) for operand in x["operands"]],
            [(tuple(shape), np.dtype(name)) for name, shape in x["results"]],
            {a: b for a, b in x["aliases"]},
            x["attributes"],
        )
        for x in json.loads(CALLS.read_text())
    ]
