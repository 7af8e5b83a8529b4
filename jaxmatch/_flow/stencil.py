"""Networks that the CPU has solved several times, in the form of cells with edges by direction.

The nodes of images and volumes are cells whose neighbours are at a few fixed distances in the
numbering. A call without this form spends most of its time on the arrays of the network: it checks
them, and finds the edges of each cell. But a network of JAX arrays does not change. So once it has
been solved, this need not be done again: the form is kept with the network, by weak reference.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import jax
import numpy as np

from jaxmatch._common.result import Flow
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Int
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._flow.network import FlowNetwork


_MOST_DISTANCES = 4
_FEWEST_NODES = 1000
# Finding the form takes about as long as it then saves in this number of calls. If it turns out not
# to help, `_PATIENCE` times as many calls come before the next attempt.
_CALLS_BEFORE = 8
_PATIENCE = 8


@dataclasses.dataclass(frozen=True)
class Stencil:
    """The form of a network; see `ffi/flow/cpu/stencil_handler.cc`."""

    edges: Int[np.ndarray, "k cells"]
    distances: Int[np.ndarray, " d"]
    about: Int[np.ndarray, " 3"]  # the source, the sink, and the number of arcs


@dataclasses.dataclass
class _Known:
    """What is known of a network of these arrays, for one source and sink."""

    arrays: tuple[jax.Array, ...]
    ends: tuple[int, int]
    calls_before: int = _CALLS_BEFORE  # the form is found
    calls: int = 0  # that have solved it
    stencil: Stencil | None = None
    was_tried: bool = False  # to find the form

    def forget(self) -> None:
        self.stencil, self.calls, self.was_tried = None, 0, False
        self.calls_before *= _PATIENCE


_known: weakref.WeakKeyDictionary[FlowNetwork, _Known] = weakref.WeakKeyDictionary()


def is_known(network: FlowNetwork) -> bool:
    """Whether calls on this network outside of a trace are best solved in its form."""
    known = _known.get(network)
    return known is not None and known.stencil is not None


def known_flow(network: FlowNetwork, capacity: Any, source: Array, sink: Array) -> Flow | None:
    """The maximum flow, if the network is known as a stencil, and the problem not too hard for it.

    `network` is the object that the caller passed. It is known by identity, and by that of its
    arrays. The other arguments are NumPy arrays.
    """
    known = _known.get(network) if capacity.ndim == 1 else None
    stencil = None if known is None else known.stencil  # another thread may forget it
    if known is None or stencil is None or capacity.dtype != np.int32:
        return None
    if known.ends != (int(source), int(sink)) or not _holds(network, known.arrays):
        return None
    res = stencil_flow(stencil, capacity)
    if res.status == Status.OPTIMAL:
        known.calls = min(known.calls + 1, 2 * known.calls_before)
        return res
    known.forget()
    return None


def stencil_flow(stencil: Stencil, capacity: np.ndarray) -> Flow:
    """Solves a problem in this form. The status is `UNFINISHED` if another solver must do it."""
    results = [
        Result((), jax.dtypes.canonicalize_dtype(int)),
        Result(capacity.shape, np.int32),
        Result((stencil.edges.shape[-1] + 2,), np.bool_),
        Result((), np.int32),
    ]
    operands: list[Any] = [stencil.edges, stencil.distances, stencil.about, capacity]
    target = "jaxmatch_stencil_flow"
    return Flow(*native_call(target, operands, results, core_dims=[2, 1, 1, 1], shared=range(3)))


def note_solved(
    network: FlowNetwork, capacity: Any, source: Array, sink: Array, status: Any
) -> None:
    """Notes that a call has solved this network. After several such calls, finds its form.

    A solver has found the arrays to be consistent, so the form can rely on them.
    """
    if capacity.ndim != 1 or capacity.dtype != np.int32 or network.num_nodes < _FEWEST_NODES:
        return
    arrays = tuple(jax.tree.leaves(network))
    if status != Status.OPTIMAL or not all(isinstance(x, jax.Array) for x in arrays):
        return
    ends = int(source), int(sink)
    known = _known.get(network)
    if known is not None and known.ends != ends and known.calls > 0:
        known.calls -= 1  # another source or sink: those that come most often are kept
        return
    if known is None or known.ends != ends or not _holds(network, known.arrays):
        known = _known[network] = _Known(arrays, ends)
    known.calls += 1
    if known.calls >= known.calls_before and not known.was_tried:
        known.was_tried = True
        known.stencil = stencil_of(jax.tree.map(np.asarray, network), *ends)


def _holds(network: FlowNetwork, arrays: tuple[Any, ...]) -> bool:
    """Whether these are the arrays of the network."""
    leaves = jax.tree.leaves(network)
    return all(x is y for x, y in zip(leaves, arrays, strict=True))


def stencil_of(network: FlowNetwork, source: int, sink: int) -> Stencil | None:
    """The form of a consistent network of NumPy arrays, or None if it is not of this kind.

    Only networks have a form that the target `jaxmatch_flow` solves as grids, too. Both then find
    the same flow.
    """
    tail = np.repeat(np.arange(network.num_nodes, dtype=np.int32), np.diff(network.arc_ptr))
    head, edges_of_arc = network.arc_head, np.diff(network.edge_ptr)
    rises = (head[1:] > head[:-1]) | (tail[1:] != tail[:-1])
    if edges_of_arc.max(initial=0) > 1 or not rises.all():
        return None
    distances = _distances(network, tail, source, sink)
    if distances is None:
        return None
    arc = np.flatnonzero(edges_of_arc)
    edge = network.arc_edge[network.edge_ptr[arc]]
    tail, head = tail[arc], head[arc]
    from_source, into_sink = tail == source, head == sink
    if (from_source & into_sink).any():
        return None
    inner = ~(from_source | into_sink | (tail == sink) | (head == source))
    cells, offset = _cells_and_offsets(tail[inner], head[inner], source, sink)
    direction = np.searchsorted(distances, np.abs(offset)) + len(distances) * (offset < 0)
    edges = np.full((2 * len(distances) + 2, network.num_nodes - 2), -1, np.int32)
    edges[direction, cells] = edge[inner]
    for row, node, chosen in ((-2, head, from_source), (-1, tail, into_sink)):
        edges[row, _cell(node[chosen], source, sink)] = edge[chosen]
    about = np.array([source, sink, network.num_arcs], np.int32)
    return Stencil(edges, distances.astype(np.int32), about)


def _cell(node: Any, source: int, sink: int) -> Any:
    """Cells are the nodes but source and sink, numbered in the order of nodes."""
    return node - (node > source) - (node > sink)


def _cells_and_offsets(
    tail: Any, head: Any, source: int, sink: int
) -> tuple[np.ndarray, np.ndarray]:
    cells = _cell(tail, source, sink)
    return cells, _cell(head, source, sink) - cells


def _distances(network: FlowNetwork, tail: np.ndarray, source: int, sink: int) -> np.ndarray | None:
    """The distances of neighbours, rising, if nodes at regular intervals show all of them.

    `guess_stencil` in `ffi/flow/cpu/stencil.h` looks at the same nodes.
    """
    head = network.arc_head
    is_inner = ~((tail == source) | (tail == sink) | (head == source) | (head == sink))
    _, offset = _cells_and_offsets(tail[is_inner], head[is_inner], source, sink)
    distances, in_sample = np.abs(offset), tail[is_inner] % max(network.num_nodes // 67, 1) == 0
    found = np.unique(distances)
    if not 1 <= len(found) <= _MOST_DISTANCES:
        return None
    return found if np.array_equal(found, np.unique(distances[in_sample])) else None
