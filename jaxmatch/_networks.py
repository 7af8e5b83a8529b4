"""Flow networks as the solvers take them: paired arcs in CSR, checked once when they are built."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.core
import numpy as np


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Int


LAYOUTS = ("csr", "rcsr", "bcsr")

_MOST_NODES = (1 << 30) - 1
MOST_EDGES = (1 << 30) - 1025  # two arcs for each; kernels step beyond the last in 32 bits
_MOST_LEVELS = 1024  # that a search for the depth looks at
_LOOP = (1 << 63) - 1  # sorts self-loops behind all arcs

# The arrays of every network, by how their last dimension is counted, and those of some layouts.
_CORE = ("senders", "receivers", "arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge")
_FORWARD = ("out_ptr", "out_head", "forward_arc")
_REVERSED = ("in_ptr", "in_tail", "in_flow")
_OF_LAYOUT = {"csr": _FORWARD, "rcsr": _FORWARD + _REVERSED, "bcsr": ()}


class NetworkStatistics(NamedTuple):
    """What `method="auto"` knows of a topology when it chooses: powers of four, rounded up.

    They are static, so networks of one shape that are alike share a compiled program.

    - `max_degree`: the most arcs at a node.
    - `depth`: the levels of a breadth-first search from the node of most arcs, 1024 at most.
    """

    max_degree: int
    depth: int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FlowNetwork:
    """A directed network of n nodes and e edges, without capacities.

    Built on the host by [`from_edges`][jaxmatch.FlowNetwork.from_edges] or `from_scipy`, which
    check everything. From then on it is a pytree of device arrays that passes through `jit`,
    `vmap` and `shard_map`. Capacities come with each call, so they change without a rebuild, and a
    batch of them shares one network.

    >>> import jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1, 2], [1, 2, 2, 1], num_nodes=3)
    >>> network
    FlowNetwork(num_nodes=3, num_edges=4, layout='rcsr')
    >>> network.arc_ptr, network.arc_head
    (Array([0, 2, 4, 6], dtype=int32), Array([1, 2, 0, 2, 0, 1], dtype=int32))

    Two nodes that any edge joins are a pair, with an arc each way; parallel and antiparallel edges
    share it. What a solver moves is the net flow of a pair. All arrays are int32; leading `...`,
    usually absent, is batch.

    - `senders`, `receivers`: `[..., e]`, the edges as they were given.
    - `arc_ptr`: `[..., n + 1]`, where the arcs of each node begin; `arc_head`: `[..., a]`, where
      they lead, in increasing order; `arc_partner`: `[..., a]`, the same arc the other way.
    - `edge_ptr`: `[..., a + 1]`, where the edges of each arc begin in `arc_edge` `[..., e]`, which
      holds their numbers in increasing order. Behind all others are the self-loops.
    - `layout`: what GPU kernels walk along, see `from_edges`. The arrays of a layout are None in
      the others. `out_ptr` `[..., n + 1]` and `out_head` `[..., f]`: the arcs with an edge, by
      tail; `forward_arc` `[..., f]`: their numbers among all arcs. `in_ptr` `[..., n + 1]` and
      `in_tail` `[..., f]`: the same arcs by head; `in_flow` `[..., f]`: their places by tail.
    - `statistics`: [`NetworkStatistics`][jaxmatch.NetworkStatistics], or None if nothing is known.

    A network whose arrays were put together or changed by hand is safe to solve as well: where they
    make no sense, the result's status is `INVALID_GRAPH`.
    """

    senders: Int[Array, "... e"]
    receivers: Int[Array, "... e"]
    arc_ptr: Int[Array, "... n+1"]
    arc_head: Int[Array, "... a"]
    arc_partner: Int[Array, "... a"]
    edge_ptr: Int[Array, "... a+1"]
    arc_edge: Int[Array, "... e"]
    out_ptr: Int[Array, "... n+1"] | None = None
    out_head: Int[Array, "... f"] | None = None
    forward_arc: Int[Array, "... f"] | None = None
    in_ptr: Int[Array, "... n+1"] | None = None
    in_tail: Int[Array, "... f"] | None = None
    in_flow: Int[Array, "... f"] | None = None
    layout: str = dataclasses.field(default="bcsr", metadata={"static": True})
    statistics: NetworkStatistics | None = dataclasses.field(
        default=None, metadata={"static": True}
    )

    @staticmethod
    def from_edges(
        senders: ArrayLike, receivers: ArrayLike, num_nodes: int, *, layout: str = "rcsr"
    ) -> FlowNetwork:
        """The network in which edge k leads from node `senders[k]` to node `receivers[k]`.

        Edges keep their order and number: capacities and flows have one entry for each. Parallel
        edges, antiparallel edges and self-loops are allowed; a self-loop never carries flow. Takes
        a few seconds for ten million edges.

        >>> import jaxmatch as jm
        >>> jm.FlowNetwork.from_edges([0, 1, 1], [1, 2, 2], num_nodes=3, layout="bcsr")
        FlowNetwork(num_nodes=3, num_edges=3, layout='bcsr')

        **Arguments:**

        - `senders`, `receivers`: integers of one length, from 0 to `num_nodes` − 1.
        - `num_nodes`: n, below 2^30.
        - `layout`: the order in which the GPU methods `"thread_centric"` and `"two_level"` walk
          over a node's neighbours, with the names of their paper. `"csr"`: edges out of it alone,
          back arcs found in the pairs. `"rcsr"`: edges out of it, then edges into it, each with the
          place of its flow. `"bcsr"`: both in one list sorted by neighbour, back arcs found by
          binary search, nothing stored beside the pairs. Results do not depend on it, nor do the
          other methods.

        **Raises:** `ValueError` for nodes out of range, with the first such edge; for lengths that
        differ, numbers that are no integers, an unknown layout, a number of nodes that is negative
        or too large, and 2^30 edges or more. `TypeError` for traced arrays: networks are built on
        the host.
        """
        n = _as_size(num_nodes)
        if layout not in LAYOUTS:
            raise ValueError(f"`layout` must be one of {[*LAYOUTS]}, got {layout!r}.")
        tail, head = _as_nodes("senders", senders, n), _as_nodes("receivers", receivers, n)
        if len(tail) != len(head):
            raise ValueError(
                "`senders` and `receivers` must have one entry for each edge, got lengths "
                f"{len(tail)} and {len(head)}."
            )
        if len(tail) > MOST_EDGES:
            raise ValueError(f"A network has at most {MOST_EDGES} edges, got {len(tail)}.")
        arrays, statistics = _build(tail, head, n, layout)
        return FlowNetwork(**jax.device_put(arrays), layout=layout, statistics=statistics)

    @staticmethod
    def from_scipy(matrix: Any, *, layout: str = "rcsr") -> tuple[FlowNetwork, np.ndarray]:
        """The network of a square `scipy.sparse` matrix or array, and its capacities.

        As for `scipy.sparse.csgraph.maximum_flow`: entry (u, v) is the capacity of an edge from u
        to v. Edges are the stored entries of `matrix.tocsr()` in their order, explicit zeros and
        entries that are stored twice included.

        >>> import jaxmatch as jm, scipy.sparse as sp
        >>> network, capacity = jm.FlowNetwork.from_scipy(sp.csr_array([[0, 7], [0, 0]]))
        >>> network, capacity.tolist()
        (FlowNetwork(num_nodes=2, num_edges=1, layout='rcsr'), [7])

        **Returns:** the network, and the entries as a NumPy array `[e]` of the matrix's dtype.

        **Raises:** `TypeError` for anything else; `ValueError` for a matrix that is not square or
        whose pointers make no sense, and as [`from_edges`][jaxmatch.FlowNetwork.from_edges] does.
        """
        if not hasattr(matrix, "tocsr"):
            raise TypeError(
                f"`matrix` must be a scipy.sparse matrix or array, got {type(matrix).__name__}; "
                "`from_edges` takes lists of edges."
            )
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                "`matrix` must be square, the capacity from each node to each node, got shape "
                f"{matrix.shape}."
            )
        csr = matrix.tocsr()
        counts = np.diff(csr.indptr)
        if csr.indptr[0] != 0 or (counts < 0).any() or csr.indptr[-1] > len(csr.indices):
            raise ValueError(
                "`matrix.indptr` must rise from 0 to at most the number of stored entries; "
                "`matrix.check_format()` says what is wrong."
            )
        senders = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), counts)
        receivers = csr.indices[: len(senders)]
        network = FlowNetwork.from_edges(senders, receivers, matrix.shape[0], layout=layout)
        return network, csr.data[: len(senders)].copy()

    @property
    def num_nodes(self) -> int:
        return self.arc_ptr.shape[-1] - 1

    @property
    def num_edges(self) -> int:
        return self.senders.shape[-1]

    @property
    def num_arcs(self) -> int:
        """Two for each pair of nodes that an edge joins."""
        return self.arc_head.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.arc_ptr.shape[:-1]

    def __repr__(self) -> str:
        if not all(hasattr(x, "shape") for x in jax.tree.leaves(self)):
            return f"FlowNetwork(layout={self.layout!r})"  # inside of JAX: leaves are anything
        sizes: dict[str, Any] = {"batch_shape": self.batch_shape} if self.batch_shape else {}
        sizes |= {"num_nodes": self.num_nodes, "num_edges": self.num_edges, "layout": self.layout}
        return f"FlowNetwork({', '.join(f'{name}={x!r}' for name, x in sizes.items())})"


def check_network(network: FlowNetwork) -> None:
    """Shapes and dtypes of a network as an argument; the values are checked where they are used."""
    if not isinstance(network, FlowNetwork):
        raise TypeError(
            f"`network` must be a FlowNetwork, got {type(network).__name__}; build one with "
            "`FlowNetwork.from_edges` or `from_scipy`."
        )
    if network.layout not in LAYOUTS:
        raise ValueError(f"`network.layout` must be one of {[*LAYOUTS]}, got {network.layout!r}.")
    for name in (*_CORE, *_OF_LAYOUT[network.layout]):
        x = getattr(network, name)
        if x is None:
            raise ValueError(
                f"`network.{name}` must be an array in layout {network.layout!r}, got None."
            )
        if x.dtype != np.int32:
            raise TypeError(f"`network.{name}` must be int32, got {x.dtype}.")
        if x.ndim == 0 or x.shape[:-1] != network.arc_ptr.shape[:-1]:
            raise ValueError(
                f"`network.{name}` must have the batch dimensions of `network.arc_ptr` "
                f"{network.arc_ptr.shape[:-1]} and one more, got shape {x.shape}."
            )
    if network.arc_ptr.shape[-1] == 0:
        raise ValueError("`network.arc_ptr` must hold at least one pointer.")
    lengths = {
        "receivers": network.num_edges,
        "arc_edge": network.num_edges,
        "arc_partner": network.num_arcs,
        "edge_ptr": network.num_arcs + 1,
    }
    for name, length in lengths.items():
        got = getattr(network, name).shape[-1]
        if got != length:
            raise ValueError(
                f"`network.{name}` must have {length} entries to go with the other arrays, "
                f"got {got}."
            )


# ---------------------------------------------------------------------------------------------
# On the host


def _as_size(num_nodes: Any) -> int:
    try:
        n = operator.index(num_nodes)
    except TypeError:
        raise ValueError(
            f"`num_nodes` must be an integer, the number of nodes, got {num_nodes!r}."
        ) from None
    if not 0 <= n <= _MOST_NODES:
        raise ValueError(f"`num_nodes` must be from 0 to 2^30 - 1, got {n}.")
    return n


def _as_nodes(name: str, x: Any, n: int) -> np.ndarray:
    if isinstance(x, jax.core.Tracer):
        raise TypeError(
            f"`{name}` is traced by `jit`, `vmap` or `grad`, but networks are built on the host. "
            "Build the network outside and pass it in: a FlowNetwork is a pytree of arrays."
        )
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension, got shape {x.shape}.")
    if x.size == 0:
        return np.zeros(0, np.int64)  # an empty list has no dtype to speak of
    if x.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must hold integers, got {x.dtype}; cast it.")
    if x.min() < 0 or x.max() >= n:
        first = int(np.argmax((x < 0) | (x >= n)))
        raise ValueError(
            f"`{name}` holds {x[first]} for edge {first}, where {n} nodes leave 0 <= node < {n}. "
            "Drop the edge, or enlarge `num_nodes`."
        )
    return x.astype(np.int64)


def _build(
    tail: np.ndarray, head: np.ndarray, n: int, layout: str
) -> tuple[dict[str, np.ndarray], NetworkStatistics]:
    # An arc is one 64-bit integer with the tail on top: plain integers sort by (tail, head).
    key = np.where(tail != head, tail << 32 | head, _LOOP)
    by_arc = np.argsort(key, kind="stable")
    forward, count = _runs(key[by_arc][: np.count_nonzero(tail != head)])
    arcs, _ = _runs(np.sort(np.concatenate([forward, _turned(forward)])))
    forward_arc = np.searchsorted(arcs, forward)
    edges_of_arc = np.zeros(len(arcs), np.int64)
    edges_of_arc[forward_arc] = count
    arc_ptr, arc_head = _pointers(np.bincount(arcs >> 32, minlength=n)), arcs & 0xFFFFFFFF
    arrays = {
        "senders": tail,
        "receivers": head,
        "arc_ptr": arc_ptr,
        "arc_head": arc_head,
        # Sorted by (head, tail), the arcs are their partners in the order of the arcs.
        "arc_partner": np.argsort(_turned(arcs)),
        "edge_ptr": _pointers(edges_of_arc),
        "arc_edge": by_arc,
    }
    if layout != "bcsr":
        arrays["out_ptr"] = _pointers(np.bincount(forward >> 32, minlength=n))
        arrays["out_head"] = forward & 0xFFFFFFFF
        arrays["forward_arc"] = forward_arc
    if layout == "rcsr":
        by_head = np.argsort(_turned(forward))
        arrays["in_ptr"] = _pointers(np.bincount(forward & 0xFFFFFFFF, minlength=n))
        arrays["in_tail"] = forward[by_head] >> 32
        arrays["in_flow"] = by_head
    statistics = _statistics(arc_ptr, arc_head)
    return {name: x.astype(np.int32) for name, x in arrays.items()}, statistics


def _turned(arcs: np.ndarray) -> np.ndarray:
    return (arcs & 0xFFFFFFFF) << 32 | arcs >> 32


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of sorted keys, and how often each is there."""
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.diff(first, append=len(keys))


def _pointers(counts: np.ndarray) -> np.ndarray:
    """Where the entries of each place begin."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _statistics(arc_ptr: np.ndarray, arc_head: np.ndarray) -> NetworkStatistics:
    degree = np.diff(arc_ptr)
    most = int(degree.max(initial=0))
    return NetworkStatistics(_power_of_four(most), _power_of_four(_depth(arc_ptr, arc_head)))


def _depth(arc_ptr: np.ndarray, arc_head: np.ndarray) -> int:
    """The levels that a breadth-first search from a node of most arcs has; not all of many."""
    degree = np.diff(arc_ptr)
    if len(arc_head) == 0:
        return 0
    seen = np.zeros(len(degree), bool)
    frontier = np.array([np.argmax(degree)])
    seen[frontier] = True
    for level in range(1, _MOST_LEVELS):
        counts = degree[frontier]
        first = np.repeat(arc_ptr[frontier] - np.cumsum(counts) + counts, counts)
        reached = arc_head[first + np.arange(len(first))]
        frontier = np.unique(reached[~seen[reached]])
        if len(frontier) == 0:
            return level
        seen[frontier] = True
    return _MOST_LEVELS


def _power_of_four(x: int) -> int:
    return 0 if x == 0 else 1 << 2 * -(-(x - 1).bit_length() // 2)
