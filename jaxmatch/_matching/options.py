"""The options of the GPU kernels for matchings."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from jaxmatch._common.arguments import as_options, choices_of


class MatchingOptions(TypedDict, total=False):
    """Options of [`maximum_bipartite_matching`][jaxmatch.maximum_bipartite_matching] on a GPU.

    A plain dict; each method takes some of the keys, see [Methods][matching-methods].

    >>> import jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0], shape=(2, 2))
    >>> options: jm.MatchingOptions = {"variant": "active", "k": 0.5}
    >>> res = jm.maximum_bipartite_matching(graph, method="push_relabel", options=options)
    >>> int(res.cardinality)
    2

    **Options:**

    - `variant`: for `"push_relabel"`, which vertices a kernel launch visits.
    - `relabel`, `k`: for `"push_relabel"`, how often labels are set to exact distances.
    - `kernel`, `threads`: for `"apsb"` and `"apfb"`, the search kernel and its number of threads.
    - `alternate`: for `"apsb"` and `"apfb"`, whether all paths found are flipped, or one per root.
    """

    variant: Literal["first", "active", "shrink"]
    relabel: Literal["adaptive", "fixed"]
    k: float
    kernel: Literal["gpubfs", "gpubfs_wr"]
    threads: Literal["ct", "mt"]
    alternate: Literal["paths", "roots"]


_CHOICES = choices_of(MatchingOptions)
# The options of GPU solvers, with the values that are best in their papers as defaults.
_DEFAULTS: dict[str, MatchingOptions] = {
    "push_relabel": {"variant": "shrink", "relabel": "adaptive", "k": 0.7},
    "apsb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "roots"},
    "apfb": {"kernel": "gpubfs_wr", "threads": "ct", "alternate": "paths"},
}
# Defaults that depend on another option.
_DEPENDENT_DEFAULTS: dict[tuple[str, Any], MatchingOptions] = {
    ("relabel", "fixed"): {"k": 10.0},
    ("kernel", "gpubfs"): {"alternate": "paths"},
}


def checked(method: str, options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """The options of a method as a hashable tuple."""
    found = as_options(method, options, _DEFAULTS.get(method, {}), _CHOICES, _as_positive)
    if {("kernel", "gpubfs"), ("alternate", "roots")} <= {*found}:
        raise ValueError(
            "`options`: alternate='roots' needs kernel='gpubfs_wr', the one that knows the roots, "
            "got kernel='gpubfs'."
        )
    return found


def with_defaults(solver: str, options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The options of a GPU solver, with defaults for those that are not given."""
    defaults: dict[str, Any] = dict(_DEFAULTS.get(solver, {}))
    for item in options:
        defaults |= _DEPENDENT_DEFAULTS.get(item, {})
    return defaults | dict(options)


def _as_positive(name: str, x: Any) -> float:
    if not (isinstance(x, numbers.Real) and 0 < float(x) < math.inf):
        raise ValueError(f"`{name}` must be a positive finite number, got {x!r}.")
    return float(x)
