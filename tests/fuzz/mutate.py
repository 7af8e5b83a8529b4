"""Mutations of a call. Shapes agree with the memory of arrays, as with XLA; nothing else does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from fuzz.calls import Call


Rng = np.random.Generator

_DTYPES = [np.dtype(x) for x in ("bool", "int32", "int64", "uint32", "float16", "float32",
                                 "float64", ml_dtypes.bfloat16)]  # fmt: skip
_MOST_ENTRIES = 1 << 16
_INTEGERS = [0, 1, -1, 2, 3, 7, 64, 2**15, 2**16, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62,
             2**63 - 1, -(2**63)]  # fmt: skip
_REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, float("inf"), -float("inf"), float("nan")]


def mutated(call: Call, rng: Rng) -> Call:
    """A copy with some mutations; a call of which all operands are gone keeps one."""
    call = copy.deepcopy(call)
    call.operands = [np.array(x) for x in call.operands]
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice([*_MUTATIONS], p=_SHARES)
        _MUTATIONS[name](call, rng)
    return call


def _at(rng: Rng, items: Any) -> int:
    return int(rng.integers(len(items)))


def _resize(call: Call, at: int, shape: tuple[int, ...]) -> None:
    """Operand `at`, or result, with these dimensions, if that is not too much."""
    if np.prod(shape, dtype=float) > _MOST_ENTRIES:
        return
    count = len(call.operands)
    if at < count:
        x = call.operands[at]
        empty = x.size == 0 or 0 in shape
        call.operands[at] = np.zeros(shape, x.dtype) if empty else np.resize(x, shape)
    for k in range(len(call.results)):
        if k == at - count or (at < count and call.aliases.get(at) == k):
            call.results[k] = (shape, call.results[k][1])


def _shapes(call: Call) -> list[tuple[int, ...]]:
    return [x.shape for x in call.operands] + [shape for shape, _ in call.results]


def _changed(size: int, rng: Rng) -> int:
    return int(rng.choice([0, 1, max(size - 1, 0), size + 1, 2 * size, 3, 17]))


def one_dimension(call: Call, rng: Rng) -> None:
    """Of one array only."""
    shapes = _shapes(call)
    at = _at(rng, shapes)
    if shapes[at]:
        shape = [*shapes[at]]
        axis = _at(rng, shape)
        shape[axis] = _changed(shape[axis], rng)
        _resize(call, at, tuple(shape))


def every_dimension(call: Call, rng: Rng) -> None:
    """Of all arrays that have one as long: other sides, another batch."""
    sizes = sorted({size for shape in _shapes(call) for size in shape})
    if sizes:
        old = sizes[_at(rng, sizes)]
        new = _changed(old, rng)
        for at, shape in enumerate(_shapes(call)):
            if old in shape:
                _resize(call, at, tuple(new if size == old else size for size in shape))


def rank(call: Call, rng: Rng) -> None:
    shapes = _shapes(call)
    at = _at(rng, shapes)
    shape = shapes[at]
    how = rng.integers(4)
    other = [(1, *shape), (*shape, 1), shape[1:], ()][how]
    _resize(call, at, other)


def dtype(call: Call, rng: Rng) -> None:
    """Of one array. Numbers that do not fit become others."""
    at = _at(rng, _shapes(call))
    new = _DTYPES[_at(rng, _DTYPES)]
    if at < len(call.operands):
        with np.errstate(all="ignore"):
            call.operands[at] = call.operands[at].astype(new)
        at = len(call.operands) + call.aliases.get(at, len(call.results))
    if (k := at - len(call.operands)) < len(call.results):
        call.results[k] = (call.results[k][0], new)
        for a, b in call.aliases.items():
            if b == k:
                call.operands[a] = call.operands[a].astype(new)


def order(call: Call, rng: Rng) -> None:
    """An operand or a result is missing, there twice, or elsewhere."""
    if call.aliases:
        return
    many: list[Any] = call.operands if rng.random() < 0.6 else call.results
    if not many:
        return
    at, how = _at(rng, many), rng.integers(4)
    if how == 0 and (many is not call.operands or len(many) > 1):
        del many[at]
    elif how == 1:
        many.insert(_at(rng, many), copy.deepcopy(many[at]))
    elif how == 2:
        other = _at(rng, many)
        many[at], many[other] = many[other], many[at]
    elif how == 3 and (many is not call.operands or at > 0):
        del many[at:]


def numbers(call: Call, rng: Rng) -> None:
    """A few entries of one operand."""
    free = [k for k in range(len(call.operands)) if k not in call.fixed]
    if not free:
        return
    x = call.operands[free[_at(rng, free)]]
    if x.size == 0:
        return
    where = rng.integers(x.size, size=rng.choice([1, 1, 2, 5]))
    flat = x.reshape(-1)
    if x.dtype == bool:
        flat[where] = rng.random(where.shape) < 0.5
    elif x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        near = [int(flat[0]) + 1, int(flat[-1]) - 1, x.size, x.size + 1, *_INTEGERS]
        flat[where] = [info.min + (near[_at(rng, near)] - info.min) % 2**info.bits for _ in where]
    else:
        with np.errstate(all="ignore"):
            info = ml_dtypes.finfo(x.dtype)
            values = [*_REALS, float(info.max), float(info.smallest_subnormal), -float(info.max)]
            flat[where] = rng.choice(values, where.shape).astype(x.dtype)


def attribute(call: Call, rng: Rng) -> None:
    """Missing, of another type, of another value."""
    if not call.attributes:
        return
    name = sorted(call.attributes)[_at(rng, call.attributes)]
    value, how = call.attributes[name], rng.random()
    if how < 0.1:
        del call.attributes[name]
    elif how < 0.2:
        call.attributes[name] = [True, 3, 0.5, "auto"][rng.integers(4)]
    elif isinstance(value, bool):
        call.attributes[name] = not value
    elif isinstance(value, int):
        call.attributes[name] = _INTEGERS[1 + _at(rng, _INTEGERS[2:])]
        if rng.random() < 0.3:
            call.attributes[name] = value + int(rng.choice([-1, 1]))
    elif isinstance(value, float):
        call.attributes[name] = float(rng.choice(_REALS))
    else:
        call.attributes[name] = _text(value, rng)


_WORDS = ["state", "start", "row_mask", "col_mask", "unmatched_cost", "warm_start", "col_points",
          "other_points", "device", "cores", "lists", "reduction", "partial", "radius", "core",
          "auction", "classical", "tree", "auto", "push_relabel", "k=nan", "=", "x="]  # fmt: skip


def _text(text: str, rng: Rng) -> str:
    """A word is missing, new, or another; a number after `=` is another; or a letter is."""
    words, how = text.split(" "), rng.integers(6)
    at, new = _at(rng, words), _WORDS[_at(rng, _WORDS)]
    if how == 0:
        del words[at]
    elif how == 1:
        words.insert(at, new)
    elif how == 2:
        words[at] = new
    elif how == 3:
        other = _at(rng, words)
        words[at], words[other] = words[other], words[at]
    elif how == 4 and "=" in words[at]:
        values = [*_INTEGERS, *_REALS, "", "1e999", "-", "0x10", " 1"]
        words[at] = f"{words[at].split('=')[0]}={values[_at(rng, values)]}"
    elif words[at]:
        k = _at(rng, words[at])
        words[at] = words[at][:k] + chr(rng.integers(1, 127)) + words[at][k + 1 :]
    return " ".join(words)


_MUTATIONS: dict[str, Callable[[Call, Rng], None]] = {
    "one dimension": one_dimension,
    "every dimension": every_dimension,
    "rank": rank,
    "dtype": dtype,
    "order": order,
    "numbers": numbers,
    "attribute": attribute,
}
_SHARES = [0.2, 0.15, 0.07, 0.1, 0.1, 0.23, 0.15]
