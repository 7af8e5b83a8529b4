"""What calls look like, from these Python files to the handlers, as a number.

Raise it whenever an operand, a result, an attribute or its values, or the meaning of a size
changes. CMake reads it from here, and a library of another one is refused.
"""

ABI = 3
