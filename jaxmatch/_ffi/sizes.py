"""Constants of the native libraries: sizes of buffers, positions of words in a state, limits."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from jaxmatch._library.libraries import any_library


@lru_cache(maxsize=4096)
def size(name: str, *arguments: int) -> int:
    """Looks up a constant in a native library. Sizes of buffers are in int32 words.

    The tables named `kSizes` in the C++ sources (ffi/) list the names and their arguments.
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
    """A limit of the native solvers, looked up by `size`; infinite without a native library."""
    return float("inf") if any_library() is None else size(name, *arguments)
