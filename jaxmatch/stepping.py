"""Large assignments step by step: `init`, then `step` until `state.done`, then `state.result`."""

from jaxmatch._large import AssignmentState as AssignmentState
from jaxmatch._large import init as init
from jaxmatch._large import step as step


__all__ = [
    "AssignmentState",
    "init",
    "step",
]
