"""The GPU generations that a CUDA library has machine code for.

`python jaxmatch/_library/gpu_generations.py LIBRARY` prints one per line, for example 90 for
compute capability 9.0.
"""

import struct
import sys
from pathlib import Path


def gpu_generations(library: Path) -> list[int]:
    """The compute capabilities in the headers of all fat binaries in a file, as integers.

    Only headers are read, because nvcc may have compressed the machine code.
    """
    data = library.read_bytes()
    found, magic = set(), struct.pack("<IH", 0xBA55ED50, 1)
    start = data.find(magic)
    while start >= 0:
        header, size = struct.unpack_from("<HQ", data, start + 6)
        at, end = start + header, start + header + size
        while at < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, at)
            if kind == 2:  # machine code; 1 is PTX
                found.add(struct.unpack_from("<I", data, at + 28)[0])
            at += entry_header + entry_size
        start = data.find(magic, end)
    return sorted(found)


if __name__ == "__main__":
    print(*gpu_generations(Path(sys.argv[1])), sep="\n")
