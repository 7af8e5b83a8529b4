"""A matching by native calls of a few steps each, in a `while_loop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxmatch._common.result import Matching
from jaxmatch._ffi.steps import until_done
from jaxmatch._matching import native


if TYPE_CHECKING:
    from jaxtyping import Array, Int

    from jaxmatch._matching.graph import BipartiteGraph


def solve_in_steps(
    graph: BipartiteGraph,
    start: Int[Array, "... n"] | None = None,
    *,
    method: str,
    init: str,
    choice: int,
    k: float,
    steps: int,
) -> Matching:
    """Native calls of so many steps on CUDA, until all graphs are done."""

    how: dict[str, Any] = {"method": method, "init": init, "choice": choice, "k": k}
    how |= {"rounds": steps, "platform": "cuda"}
    return until_done(
        lambda state: native.matching(graph, start, state=state, **how),
        native.empty_matching_buffers(graph, start),
    )
