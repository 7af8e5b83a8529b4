"""The version of the interface between these Python files and the native handlers.

Increase it whenever the operands, results, attributes or attribute values of a handler change, or
the meaning of a constant that `jaxmatch._ffi.sizes` looks up. CMake reads the version from this
file. Python rejects a library with another version.
"""

ABI = 21
