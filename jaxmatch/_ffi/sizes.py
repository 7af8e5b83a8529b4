"""Constants of the native libraries: sizes of buffers, words of a state, limits."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from jaxmatch._library.libraries import any_library


@lru_cache(maxsize=4096)
def size(name: str, *arguments: int) -> int:
    """Looks up a constant in a library. The `kSizes` tables of ffi/ list names and arguments.

    Sizes of buffers are in int32 words.
    """
    library = any_library()
    if library is None:
        raise RuntimeError(f"The size {name!r} is not known without a native library.")
    ask = library.jaxmatch_size
    ask.restype = ctypes.c_int64
    numbers = (ctypes.c_int64 * max(len(arguments), 1))(*map(int, arguments))
    answer = ask(name.encode(), numbers)
    if answer < 0:
        raise ValueError(f"The native library has no size {name!r}.")
    return answer


def most(name: str, *arguments: int) -> float:
    """A limit of the native solvers; infinite without a native library."""
    return float("inf") if any_library() is None else size(name, *arguments)
