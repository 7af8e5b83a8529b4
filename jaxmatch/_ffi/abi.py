"""What calls look like, from these Python files to the handlers, as a number.

Raise it whenever an operand, a result, an attribute, a number that stands for a name, or the size
of a buffer changes. CMake reads it from here, and a library of another one is refused.
"""

ABI = 2
