"""`FlowNetwork`: a directed network as pairs of opposite arcs in CSR form."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.given import INTEGERS, require, typed
from jaxmatch._common.indices import as_indices, existing, rows_of_csr
from jaxmatch._common.limits import MOST_NETWORK_EDGES, MOST_VERTICES
from jaxmatch._common.networkx_like import arcs_with_capacity, require_networkx
from jaxmatch._common.registered import registered
from jaxmatch._common.stacking import padded_size, to_stack
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, ArrayLike, Int


LAYOUTS = ("csr", "rcsr", "bcsr")

_LOOP = (1 << 63) - 1  # a key that sorts self-loops after all arcs

_ARRAYS = ("senders", "receivers", "arc_ptr", "arc_head", "arc_partner", "edge_ptr", "arc_edge")


@registered
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FlowNetwork:
    """A directed network of n nodes and e edges, without capacities.

    Built and checked on the host by [`from_edges`][jaxmatch.FlowNetwork.from_edges] or
    `from_scipy`. It is a pytree of device arrays, for `jit`, `vmap` and `shard_map`. Capacities are
    passed with each call: they can change without a rebuild, and a batch of them can share one
    network.

    >>> import jaxmatch as jm
    >>> network = jm.FlowNetwork.from_edges([0, 0, 1, 2], [1, 2, 2, 1], num_nodes=3)
    >>> network
    FlowNetwork(num_nodes=3, num_edges=4, layout='rcsr')
    >>> network.arc_ptr, network.arc_head
    (Array([0, 2, 4, 6], dtype=int32), Array([1, 2, 0, 2, 0, 1], dtype=int32))

    Any two adjacent nodes have a pair of opposite arcs, shared by all parallel and antiparallel
    edges between them. Solvers compute the net flow of each pair. All arrays are int32; leading
    `...`, usually absent, is batch.

    - `senders`, `receivers`: `[..., e]`, the ends of the edges in the given order.
    - `arc_ptr`: `[..., n + 1]`, where the arcs of each node begin; `arc_head`: `[..., a]`, their
      heads, in increasing order; `arc_partner`: `[..., a]`, the index of the opposite arc.
    - `edge_ptr`: `[..., a + 1]`, where the edges of each arc begin in `arc_edge`.
    - `arc_edge`: `[..., e]`, the edge numbers of each arc, in increasing order. Self-loops, which
      have no arc, come last.
    - `layout`: how GPU methods find the opposite arc, see `from_edges`.

    A network whose arrays were built or changed by hand is safe to solve, too: if they are
    inconsistent, the status of the result is `INVALID_GRAPH`.
    """

    senders: Int[Array, "... e"]
    receivers: Int[Array, "... e"]
    arc_ptr: Int[Array, "... n+1"]
    arc_head: Int[Array, "... a"]
    arc_partner: Int[Array, "... a"]
    edge_ptr: Int[Array, "... a+1"]
    arc_edge: Int[Array, "... e"]
    layout: str = dataclasses.field(default="rcsr", metadata={"static": True})

    @staticmethod
    def from_edges(
        senders: ArrayLike, receivers: ArrayLike, num_nodes: int, *, layout: str = "rcsr"
    ) -> FlowNetwork:
        """Build the network in which edge k leads from node `senders[k]` to node `receivers[k]`.

        Edges keep their order: capacities and flows have one entry per edge. Parallel edges,
        antiparallel edges and self-loops are allowed; a self-loop never carries flow. Takes a few
        seconds for ten million edges.

        >>> import jaxmatch as jm
        >>> jm.FlowNetwork.from_edges([0, 1, 1], [1, 2, 2], num_nodes=3, layout="bcsr")
        FlowNetwork(num_nodes=3, num_edges=3, layout='bcsr')

        **Arguments:**

        - `senders`, `receivers`: integers of one length, from 0 to `num_nodes` − 1.
        - `num_nodes`: n, below 2^30.
        - `layout`: how the GPU methods `"thread_centric"` and `"two_level"` find the opposite arc,
          named as in their paper. `"rcsr"`: by a stored index; `"bcsr"`: by binary search among the
          arcs of the head; `"csr"`: by linear search among them. Other methods ignore the layout.
          Results do not depend on it.

        **Raises:** `ValueError` for nodes out of range (naming the first such edge), different
        lengths, numbers that are not integers, an unknown layout, a negative or too large number of
        nodes, and 2^30 edges or more. `TypeError` for traced arrays: networks are built on the
        host.
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
        return jax.device_put(network_on_host(tail, head, n, layout))

    @staticmethod
    def from_scipy(matrix: Any, *, layout: str = "rcsr") -> tuple[FlowNetwork, np.ndarray]:
        """Build the network of a square `scipy.sparse` matrix or array, and return its capacities.

        As for `scipy.sparse.csgraph.maximum_flow`: entry (u, v) is the capacity of an edge from u
        to v. Edges are the stored entries of `matrix.tocsr()` in their order, including explicit
        zeros and duplicate entries.

        >>> import jaxmatch as jm, scipy.sparse as sp
        >>> network, capacity = jm.FlowNetwork.from_scipy(sp.csr_array([[0, 7], [0, 0]]))
        >>> network, capacity.tolist()
        (FlowNetwork(num_nodes=2, num_edges=1, layout='rcsr'), [7])

        **Returns:** the network, and the entries as a NumPy array `[e]` of the matrix's dtype.

        **Raises:** `TypeError` for other objects; `ValueError` for a matrix that is not square or
        has invalid pointers, and as [`from_edges`][jaxmatch.FlowNetwork.from_edges] does.
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
        senders = rows_of_csr("matrix", csr)
        receivers = csr.indices[: len(senders)]
        network = FlowNetwork.from_edges(senders, receivers, matrix.shape[0], layout=layout)
        return network, csr.data[: len(senders)].copy()

    @staticmethod
    def from_networkx(
        graph: Any, capacity: str = "capacity", *, layout: str = "rcsr"
    ) -> tuple[FlowNetwork, np.ndarray, list[Any]]:
        """Build the network of a networkx graph, and return its capacities and nodes.

        As for `networkx.maximum_flow`: an undirected edge is two edges of the network, and an edge
        without the attribute has capacity +inf. Edges are those of `graph.edges` in their order.
        For an undirected graph, the reversed edges follow in the same order.

        >>> import jaxmatch as jm, networkx as nx
        >>> graph = nx.DiGraph()
        >>> graph.add_edge("s", "a", capacity=3)
        >>> graph.add_edge("a", "t", capacity=2)
        >>> network, capacity, nodes = jm.FlowNetwork.from_networkx(graph)
        >>> jm.maximum_flow(network, capacity, nodes.index("s"), nodes.index("t")).value
        array(2)

        **Arguments:** `graph`; `capacity`, the name of the edge attribute that holds capacities;
        and `layout`, as for [`from_edges`][jaxmatch.FlowNetwork.from_edges].

        **Returns:** the network, capacities as a NumPy array `[e]`, and the list of nodes: node k
        of the network is `nodes[k]`.

        **Raises:** `TypeError` for any other object, `ValueError` for non-numeric capacities.
        """
        require_networkx(graph, "`from_edges` takes lists of edges")
        tail, head, capacities = arcs_with_capacity(graph, capacity)
        nodes = list(graph.nodes)
        return FlowNetwork.from_edges(tail, head, len(nodes), layout=layout), capacities, nodes

    @staticmethod
    def stack(
        networks: Sequence[FlowNetwork],
        *,
        num_nodes: int | None = None,
        num_edges: int | None = None,
        num_arcs: int | None = None,
    ) -> FlowNetwork:
        """Stack networks along a new leading dimension, padded to one size.

        Padding adds isolated nodes, self-loops at node 0 after a network's own edges, and arcs
        without edges. None of these ever carries flow. The added self-loops are edges and need a
        valid capacity, for instance 0.

        >>> import jax.numpy as jnp, jaxmatch as jm
        >>> small = jm.FlowNetwork.from_edges([0], [1], num_nodes=2)
        >>> large = jm.FlowNetwork.from_edges([0, 0, 1], [1, 2, 2], num_nodes=3)
        >>> batch = jm.FlowNetwork.stack([small, large])
        >>> batch
        FlowNetwork(batch_shape=(2,), num_nodes=3, num_edges=3, layout='rcsr')
        >>> jm.maximum_flow(batch, jnp.array([[5, 0, 0], [1, 2, 3]]), 0, jnp.array([1, 2])).value
        Array([5, 3], dtype=int32)

        **Arguments:**

        - `networks`: at least one, of one batch shape (usually none) and one layout.
        - `num_nodes`, `num_edges`, `num_arcs`: the sizes to pad to; by default the largest of
          `networks`. A few fixed sizes avoid a compilation for each batch.

        **Raises:** `ValueError` for an empty list, different batch shapes or layouts, and sizes
        that are too small or too large; `TypeError` for traced networks.
        """
        advice = "`from_edges` and `from_scipy` make one"
        networks = to_stack("networks", networks, FlowNetwork, "network", advice)
        layout = networks[0].layout
        if any(x.layout != layout for x in networks):
            raise ValueError(
                f"`networks` must have one layout, got {[x.layout for x in networks]}."
            )
        n = padded_size("num_nodes", num_nodes, [x.num_nodes for x in networks], MOST_VERTICES)
        most = MOST_NETWORK_EDGES if n else 0
        e = padded_size("num_edges", num_edges, [x.num_edges for x in networks], most)
        most = min(n * max(n - 1, 0), 2 * MOST_NETWORK_EDGES)
        a = padded_size("num_arcs", num_arcs, [x.num_arcs for x in networks], most)
        if a % 2:
            raise ValueError(f"`num_arcs` must be even, two for each pair of nodes, got {a}.")
        padded = [_padded(x, n, e, a // 2) for x in networks]
        arrays = {name: np.stack([x[name] for x in padded]) for name in _ARRAYS}
        return FlowNetwork(**jax.device_put(arrays), layout=layout)

    @property
    def num_nodes(self) -> int:
        return self.arc_ptr.shape[-1] - 1

    @property
    def num_edges(self) -> int:
        """The length of capacities and flows; includes padding by `stack`."""
        return self.senders.shape[-1]

    @property
    def num_arcs(self) -> int:
        """The number of arcs: two for each pair of adjacent nodes. Includes padding by `stack`."""
        return self.arc_head.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.arc_ptr.shape[:-1]

    def __repr__(self) -> str:
        if not all(hasattr(getattr(self, name), "shape") for name in _ARRAYS):
            return f"FlowNetwork(layout={self.layout!r})"  # JAX may replace arrays by other objects
        sizes: dict[str, Any] = {"batch_shape": self.batch_shape} if self.batch_shape else {}
        sizes |= {"num_nodes": self.num_nodes, "num_edges": self.num_edges, "layout": self.layout}
        return f"FlowNetwork({', '.join(f'{name}={x!r}' for name, x in sizes.items())})"


def check_network(network: FlowNetwork) -> None:
    """Checks shapes and dtypes of a network argument. Solvers check the values."""
    advice = "build one with `FlowNetwork.from_edges` or `from_scipy`"
    require("network", network, FlowNetwork, advice)
    if network.layout not in LAYOUTS:
        raise ValueError(f"`network.layout` must be one of {[*LAYOUTS]}, got {network.layout!r}.")
    for name in _ARRAYS:
        x = getattr(network, name)
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


def as_node(name: str, node: ArrayLike, network: FlowNetwork) -> Int[Array, "..."]:
    """Nodes as a NumPy or JAX array of int32.

    Invalid nodes of another dtype become -1, because a cast to int32 could make them valid.
    """
    x = typed(name, node, INTEGERS, "be the number of a node, an integer", "")
    return x if x.dtype == np.int32 else existing(x, network.num_nodes)


def reversed_network(network: FlowNetwork) -> FlowNetwork:
    """The network with all edges reversed, in the same order. Takes NumPy or JAX arrays.

    The arcs stay the same, but the edges of each arc move to its opposite arc. Invalid arrays stay
    invalid.
    """
    xp = np if isinstance(network.edge_ptr, np.ndarray) else jnp
    reverse = partial(_reversed_edges, xp=xp)
    types: dict[str, Any] = {"otypes": [np.int32] * 2} if xp is np else {}
    reverse = xp.vectorize(reverse, signature="(a),(p),(e)->(p),(e)", **types)
    edge_ptr, arc_edge = reverse(network.arc_partner, network.edge_ptr, network.arc_edge)
    return dataclasses.replace(
        network,
        senders=network.receivers,
        receivers=network.senders,
        edge_ptr=edge_ptr,
        arc_edge=arc_edge,
    )


def _reversed_edges(
    partner: Int[Array, " a"], edge_ptr: Int[Array, " a+1"], arc_edge: Int[Array, " e"], xp: Any
) -> tuple[Int[Array, " a+1"], Int[Array, " e"]]:
    a, e = partner.size, arc_edge.size
    if a == 0 or e == 0:
        return edge_ptr, arc_edge
    partner = partner.clip(0, a - 1)
    count = (edge_ptr[1:] - edge_ptr[:-1])[partner]
    reversed_ptr = xp.concatenate([edge_ptr[:1], edge_ptr[0] + xp.cumsum(count, dtype=np.int32)])
    # Each arc takes the edges of its opposite arc, in order. Self-loops stay last.
    place = xp.arange(e, dtype=np.int32)
    if is_symbolic((a,)):  # `searchsorted` needs a known size
        ends = jnp.zeros_like(place).at[reversed_ptr[1:]].add(1, mode="drop")
        arc = ends.cumsum(dtype=np.int32).clip(0, a - 1)
    else:
        arc = xp.searchsorted(reversed_ptr[1:], place, side="right").clip(0, a - 1)
    origin = edge_ptr[partner[arc]] + place - reversed_ptr[arc]
    origin = xp.where(place < edge_ptr[-1], origin, place)
    return reversed_ptr, arc_edge[origin.clip(0, e - 1)]


# ---------------------------------------------------------------------------------------------
# On the host


def _as_size(num_nodes: Any) -> int:
    try:
        n = operator.index(num_nodes)
    except TypeError:
        raise ValueError(
            f"`num_nodes` must be an integer, the number of nodes, got {num_nodes!r}."
        ) from None
    if not 0 <= n <= MOST_VERTICES:
        raise ValueError(f"`num_nodes` must be from 0 to {MOST_VERTICES}, got {n}.")
    return n


def _as_nodes(name: str, x: Any, n: int) -> np.ndarray:
    advice = "enlarge `num_nodes`"
    return as_indices(name, x, n, built="network", ends="nodes", advice=advice).astype(np.int64)


def network_on_host(
    tail: np.ndarray, head: np.ndarray, n: int, layout: str = "rcsr"
) -> FlowNetwork:
    """Builds a network of NumPy arrays. All nodes must be in range."""
    if len(tail) > MOST_NETWORK_EDGES:
        raise ValueError(f"A network has at most {MOST_NETWORK_EDGES} edges, got {len(tail)}.")
    arrays: dict[str, Any] = _build(tail, head, n)
    return FlowNetwork(**arrays, layout=layout)


def _padded(network: FlowNetwork, n: int, e: int, pairs: int) -> dict[str, np.ndarray]:
    """The arrays of a network, padded to the given numbers of nodes, edges and pairs of arcs."""
    if (network.num_nodes, network.num_edges, network.num_arcs) == (n, e, 2 * pairs):
        return {name: getattr(network, name) for name in _ARRAYS}
    if network.batch_shape:
        parts = [
            _padded(jax.tree.map(lambda x: x[k], network), n, e, pairs)  # noqa: B023
            for k in range(network.batch_shape[0])
        ]
        return {name: np.stack([part[name] for part in parts]) for name in _ARRAYS}
    loops = np.zeros(e - network.num_edges, np.int64)
    tail, head = (
        np.concatenate([_as_nodes(f"networks[...].{name}", getattr(network, name), n), loops])
        for name in ("senders", "receivers")
    )
    return _build(tail, head, n, pairs)


def _pairs_of_near_nodes(n: int, count: int) -> np.ndarray:
    """`count` arcs u -> v with u < v, spread evenly over the nodes, as keys (see `_build`)."""
    found, total = [np.zeros(0, np.int64)], 0
    for apart in range(1, n):
        if total >= count:
            break
        tail = np.arange(min(n - apart, count - total), dtype=np.int64)
        found.append(tail << 32 | tail + apart)
        total += len(tail)
    return np.concatenate(found)


def _build(
    tail: np.ndarray, head: np.ndarray, n: int, pairs: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays of a network. Arcs without edges pad it to `pairs` pairs of arcs, if given."""
    # An arc is a 64-bit key with the tail in the high bits, so keys sort by tail, then by head.
    key = np.where(tail != head, tail << 32 | head, _LOOP)
    by_arc = np.argsort(key, kind="stable")
    forward, count = _runs(key[by_arc][: np.count_nonzero(tail != head)])
    arcs, _ = _runs(np.sort(np.concatenate([forward, _opposite(forward)])))
    if pairs is not None and 2 * pairs > len(arcs):
        # The network has fewer than `pairs` pairs, so among `pairs` candidates enough are new.
        new = np.setdiff1d(_pairs_of_near_nodes(n, pairs), arcs)[: pairs - len(arcs) // 2]
        arcs = np.sort(np.concatenate([arcs, new, _opposite(new)]))
    edges_of_arc = np.zeros(len(arcs), np.int64)
    edges_of_arc[np.searchsorted(arcs, forward)] = count
    arrays = {
        "senders": tail,
        "receivers": head,
        "arc_ptr": _pointers(np.bincount(arcs >> 32, minlength=n)),
        "arc_head": arcs & 0xFFFFFFFF,
        # The k-th arc by (head, tail) is the opposite of the k-th arc by (tail, head).
        "arc_partner": np.argsort(_opposite(arcs)),
        "edge_ptr": _pointers(edges_of_arc),
        "arc_edge": by_arc,
    }
    return {name: x.astype(np.int32) for name, x in arrays.items()}


def _opposite(arcs: np.ndarray) -> np.ndarray:
    return (arcs & 0xFFFFFFFF) << 32 | arcs >> 32


def _runs(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unique values of sorted keys, and their counts."""
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.diff(first, append=len(keys))


def _pointers(counts: np.ndarray) -> np.ndarray:
    """The CSR pointers of segments with these counts."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
