"""The version of the interface between these Python files and the native handlers.

Increase it whenever an operand, a result, an attribute or its values, or the meaning of a size
changes. CMake reads it from here. A library with another version is rejected.
"""

ABI = 17
