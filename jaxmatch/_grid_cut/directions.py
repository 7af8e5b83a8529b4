"""The neighbours of a cell, in the order of `pairwise`."""

from __future__ import annotations


_FACES = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
_EDGES = [(0, 1, 1), (0, 1, -1), (1, 0, 1), (1, 0, -1), (1, 1, 0), (1, -1, 0)]
_CORNERS = [(1, 1, 1), (1, 1, -1), (1, -1, 1), (1, -1, -1)]
_FIRST_HALF: dict[int, list[tuple[int, ...]]] = {
    4: [(0, 1), (1, 0)],
    8: [(0, 1), (1, 0), (1, 1), (1, -1)],
    6: _FACES,
    18: _FACES + _EDGES,
    26: _FACES + _EDGES + _CORNERS,
}
CONNECTIVITIES = tuple(_FIRST_HALF)


def steps(connectivity: int) -> list[tuple[int, ...]]:
    """The steps to the neighbours."""
    half = _FIRST_HALF[connectivity]
    return half + [tuple(-d for d in step) for step in half]


def rank_of(connectivity: int) -> int:
    """The number of dimensions of the grid."""
    return len(_FIRST_HALF[connectivity][0])
