"""Integer costs that are a pure function of seed and index."""

from __future__ import annotations

from typing import Any

import numpy as np


def splitmix64(index: Any, seed: int) -> Any:
    """64 random bits for each index, `u64` arrays of NumPy or of JAX under x64."""
    word = index.dtype.type
    with np.errstate(over="ignore"):
        z = index + word(seed * 0xD1342543DE82EF95 % 2**64) + word(0x9E3779B97F4A7C15)
        z = (z ^ (z >> word(30))) * word(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> word(27))) * word(0x94D049BB133111EB)
        return z ^ (z >> word(31))


def below(bits: Any, count: int) -> Any:
    """Uniform integers in `[0, count)`, from the upper half of 64 random bits."""
    word = bits.dtype.type
    return ((bits >> word(32)) * word(count)) >> word(32)


def uniform_integers(n: int, m: int, greatest: int, seed: int, batch: int = 1) -> np.ndarray:
    """Costs uniform on [0, greatest], `i64[batch, n, m]`.

    The ranges n/10, n and 10n are those of Date and Nagi 2016, Table 3.
    """
    size = max(n, m)
    bits = splitmix64(np.arange(batch * size * size, dtype=np.uint64), seed)
    square = below(bits, greatest + 1).astype(np.int64).reshape(batch, size, size)
    return np.ascontiguousarray(square[:, :n, :m])
