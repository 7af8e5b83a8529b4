"""What the table of methods of a solver says of each."""

from typing import NamedTuple


class Method(NamedTuple):
    """The native solver that a method runs on each platform; None: the pure-JAX twin."""

    cpu: str | None
    cuda: str | None
