"""Large assignments step by step: `init`, then `step` until `state.done`, then `state.result`."""

from jaxmatch._assignment.stepping import AssignmentState as AssignmentState
from jaxmatch._assignment.stepping import init as init
from jaxmatch._assignment.stepping import step as step


__all__ = [
    "AssignmentState",
    "init",
    "step",
]
