"""Prints the GPU generations that a CUDA library has code for, such as 90, one a line."""

import struct
import sys


def generations(data: bytes) -> set[int]:
    """Of the entries of all fat binaries in a file, which nvcc may have compressed."""
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
    return found


with open(sys.argv[1], "rb") as file:
    print(*sorted(generations(file.read())), sep="\n")
