"""Large assignments step by step: `init`, then `step` until `state.done`, then `state.result`.

The solvers below take `steps_per_call`, the number of steps in each native call. One step is:

| solver | method | step |
| --- | --- | --- |
| `solve_assignment` | `"core"`, `"auction"` | a search and its augmentations, or an auction scale |
| | `"classical"`, `"tree"` | a search and its augmentations |
| | all others | an error |
| `maximum_bipartite_matching`, on CUDA | `"push_relabel"` | a round of pushes |
| | `"hopcroft_karp"`, `"hkdw"`, `"apsb"`, `"apfb"` | a level of breadth-first search |
| | `"auto"` | a search with all its levels |
| | all others | `steps_per_call` is ignored: one call |
| `maximum_flow`, on CUDA | all but `"xla"` | a global relabelling and the pushes after it |
"""

from jaxmatch._assignment.stepping import AssignmentState as AssignmentState
from jaxmatch._assignment.stepping import init as init
from jaxmatch._assignment.stepping import step as step


__all__ = [
    "AssignmentState",
    "init",
    "step",
]
