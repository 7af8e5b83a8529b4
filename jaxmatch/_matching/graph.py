"""`BipartiteGraph`: the edges in CSR form, by row and by column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxmatch._common.given import require
from jaxmatch._common.indices import rows_of_csr
from jaxmatch._common.limits import MOST_GRAPH_EDGES, MOST_VERTICES
from jaxmatch._common.networkx_like import pairs_between, require_networkx, sides
from jaxmatch._common.registered import registered
from jaxmatch._common.stacking import padded_size, to_stack
from jaxmatch._common.typing import Array, ArrayLike, Int
from jaxmatch._matching.host import (
    as_numbers,
    as_shape,
    as_vertices,
    best_of_parallel,
    csr_both_ways,
    pad_and_stack,
)


_BUILDERS = "`from_edges` and its siblings make one"


@registered
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class BipartiteGraph:
    """A bipartite graph of n rows and m columns, or a batch of them; leading `...` is batch.

    Built and checked on the host by [`from_edges`][jaxmatch.BipartiteGraph.from_edges],
    `from_scipy`, `from_dense` or `from_bcoo`; `stack` makes a batch. It is a pytree of device
    arrays, for `jit`, `vmap` and `shard_map`.

    >>> import jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 2, 2], shape=(2, 3))
    >>> graph
    BipartiteGraph(shape=(2, 3), num_edges=3)
    >>> graph.row_ptr, graph.col_ind
    (Array([0, 2, 3], dtype=int32), Array([0, 2, 2], dtype=int32))

    - `row_ptr`: `i32[..., n + 1]`, where the edges of each row begin in `col_ind`.
    - `col_ind`: `i32[..., e]`, the columns of each row, in increasing order.
    - `col_ptr`, `row_ind`: `i32[..., m + 1]`, `i32[..., e]`, the same for each column.
    - `num_rows`, `num_cols`: `i32[...]`, the numbers of rows and columns of each graph without
      padding: n and m unless the graph was stacked.

    Entries of `col_ind` and `row_ind` beyond the last pointer are padding. A graph whose arrays
    were built or changed by hand is safe to solve, too: if they are inconsistent, the status of the
    result is `INVALID_GRAPH`.
    """

    row_ptr: Int[Array, "... n+1"]
    col_ind: Int[Array, "... e"]
    col_ptr: Int[Array, "... m+1"]
    row_ind: Int[Array, "... e"]
    num_rows: Int[Array, "..."]
    num_cols: Int[Array, "..."]

    @staticmethod
    def from_edges(rows: ArrayLike, cols: ArrayLike, shape: tuple[int, int]) -> BipartiteGraph:
        """Build the graph of `shape` (n, m) with edges from row `rows[k]` to column `cols[k]`.

        Duplicate edges are merged. Takes about three seconds for 25 million edges, less if they are
        sorted.

        >>> import jaxmatch as jm
        >>> jm.BipartiteGraph.from_edges([1, 0, 1], [2, 0, 2], shape=(2, 3)).num_edges
        Array(2, dtype=int32)

        **Arguments:**

        - `rows`, `cols`: integers, of one length, from 0 to n − 1 and from 0 to m − 1.
        - `shape`: the number of rows and of columns, each below 2^30.

        **Raises:** `ValueError` for indices out of range (naming the first such edge), different
        lengths, numbers that are not integers, negative or too large shapes, and 2^31 - 2048 or
        more edges. `TypeError` for traced arrays: graphs are built on the host.
        """
        n, m = as_shape(shape)
        rows, cols = as_vertices("rows", rows, n), as_vertices("cols", cols, m)
        if len(rows) != len(cols):
            raise ValueError(
                "`rows` and `cols` must have one entry for each edge, got lengths "
                f"{len(rows)} and {len(cols)}."
            )
        return _build(rows, cols, n, m)

    @staticmethod
    def from_edges_with_cost(
        rows: ArrayLike,
        cols: ArrayLike,
        cost: ArrayLike,
        shape: tuple[int, int],
        *,
        maximize: bool = False,
    ) -> tuple[BipartiteGraph, Any]:
        """Build a graph as `from_edges` does, and bring costs into the order of its edges.

        Of parallel edges only the least cost is kept, or the greatest if `maximize`.

        >>> import jaxmatch as jm, numpy as np
        >>> cost = np.array([5, 4, 3, 6])
        >>> jm.BipartiteGraph.from_edges_with_cost([1, 0, 1, 1], [2, 0, 0, 2], cost, shape=(2, 3))
        (BipartiteGraph(shape=(2, 3), num_edges=3), array([4, 3, 5]))

        **Arguments:**

        - `rows`, `cols`, `shape`: as for [`from_edges`][jaxmatch.BipartiteGraph.from_edges].
        - `cost`: numbers `[..., k]`, one for each entry of `rows` and `cols`.
        - `maximize`: as for [`solve_sparse_assignment`][jaxmatch.solve_sparse_assignment].

        **Returns:**

        The graph, and costs `[..., e]` for
        [`solve_sparse_assignment`][jaxmatch.solve_sparse_assignment], in the dtype of `cost`: a
        NumPy array, or a JAX array if `cost` is one.

        **Raises:** as [`from_edges`][jaxmatch.BipartiteGraph.from_edges], and `ValueError` for
        costs of another length.
        """
        graph = BipartiteGraph.from_edges(rows, cols, shape)
        rows, cols = (np.asarray(x, np.int64) for x in (rows, cols))
        costs = as_numbers("cost", cost)
        if costs.ndim < 1 or costs.shape[-1] != len(rows):
            raise ValueError(
                f"`cost` must have shape [..., {len(rows)}], one number for each edge, got "
                f"{costs.shape}."
            )
        best = best_of_parallel(rows << 32 | cols, costs, maximize=bool(maximize))
        return graph, jax.numpy.asarray(best) if isinstance(cost, jax.Array) else best

    @staticmethod
    def from_scipy(A: Any) -> BipartiteGraph:
        """Build the graph of a `scipy.sparse` matrix or array of any format.

        As for `scipy.sparse.csgraph.maximum_bipartite_matching`, every stored entry of `A.tocsr()`
        is an edge, including explicit zeros; `A.eliminate_zeros()` removes those. Duplicate entries
        are merged.

        >>> import jaxmatch as jm, scipy.sparse as sp
        >>> jm.BipartiteGraph.from_scipy(sp.eye_array(4, 6))
        BipartiteGraph(shape=(4, 6), num_edges=4)

        **Raises:** `TypeError` for any other object; `ValueError` as
        [`from_edges`][jaxmatch.BipartiteGraph.from_edges] does.
        """
        if not hasattr(A, "tocsr"):
            raise TypeError(
                f"`A` must be a scipy.sparse matrix or array, got {type(A).__name__}; "
                "`from_dense` takes dense arrays, `from_bcoo` JAX's."
            )
        n, m = as_shape(A.shape, "A.shape")
        csr = A.tocsr()
        rows = rows_of_csr("A", csr)
        return _build(rows, as_vertices("A.indices", csr.indices[: len(rows)], m), n, m)

    @staticmethod
    def from_scipy_with_cost(A: Any, *, maximize: bool = False) -> tuple[BipartiteGraph, Any]:
        """Build the graph of a `scipy.sparse` matrix or array, with its entries as costs.

        Every stored entry is an edge, including explicit zeros. Of duplicate entries only the least
        is kept, or the greatest if `maximize`. To add them up instead, call `A.sum_duplicates()`.

        >>> import jaxmatch as jm, numpy as np, scipy.sparse as sp
        >>> jm.BipartiteGraph.from_scipy_with_cost(sp.csr_array(np.array([[0, 2], [3, 0]])))
        (BipartiteGraph(shape=(2, 2), num_edges=2), array([2, 3]))

        **Returns:** the graph and its costs `[e]`, a NumPy array in the order that
        [`from_edges_with_cost`][jaxmatch.BipartiteGraph.from_edges_with_cost] returns.

        **Raises:** `TypeError` for any other object; `ValueError` as
        [`from_edges`][jaxmatch.BipartiteGraph.from_edges] does.
        """
        if not hasattr(A, "tocoo"):
            raise TypeError(f"`A` must be a scipy.sparse matrix or array, got {type(A).__name__}.")
        if getattr(A, "format", None) in ("csr", "csc"):
            rows_of_csr("A", A)
        coo = A.tocoo()
        n, m = as_shape(A.shape, "A.shape")
        return BipartiteGraph.from_edges_with_cost(
            coo.row, coo.col, coo.data, (n, m), maximize=maximize
        )

    @staticmethod
    def from_dense(A: ArrayLike) -> BipartiteGraph:
        """Build the graph of a matrix `[n, m]` of any dtype: an edge for each entry that is not 0.

        >>> import jaxmatch as jm, numpy as np
        >>> jm.BipartiteGraph.from_dense(np.tri(3)).col_ind
        Array([0, 0, 1, 0, 1, 2], dtype=int32)

        **Raises:** `ValueError` for other than two dimensions, `TypeError` for traced arrays.
        """
        A = as_numbers("A", A)
        if A.ndim != 2:
            raise ValueError(
                f"`A` must have shape [n, m], got {A.shape}; "
                "`BipartiteGraph.stack` makes a batch of graphs."
            )
        n, m = as_shape(A.shape, "A.shape")
        rows, cols = np.nonzero(A)
        return _build(rows, cols, n, m)

    @staticmethod
    def from_bcoo(A: Any) -> BipartiteGraph:
        """Build the graph of a `jax.experimental.sparse.BCOO` matrix.

        Every stored entry is an edge, including explicit zeros. Entries out of range are BCOO's
        padding and are dropped.

        >>> import jax.numpy as jnp, jaxmatch as jm
        >>> from jax.experimental import sparse
        >>> jm.BipartiteGraph.from_bcoo(sparse.BCOO.fromdense(jnp.eye(3), nse=5))
        BipartiteGraph(shape=(3, 3), num_edges=3)

        **Raises:** `TypeError` for any other object and for traced arrays; `ValueError` for batched
        or dense dimensions, and as [`from_edges`][jaxmatch.BipartiteGraph.from_edges] does.
        """
        if not (hasattr(A, "indices") and hasattr(A, "n_sparse")):
            raise TypeError(
                f"`A` must be a jax.experimental.sparse.BCOO matrix, got {type(A).__name__}."
            )
        if len(A.shape) != 2 or A.n_sparse != 2:
            raise ValueError(
                f"`A` must have two dimensions, both sparse, got shape {A.shape} with "
                f"{A.n_batch} batched, {A.n_sparse} sparse and {A.n_dense} dense ones."
            )
        n, m = as_shape(A.shape, "A.shape")
        indices = as_numbers("A.indices", A.indices)
        indices = indices[(indices < (n, m)).all(-1)]
        rows = as_vertices("A.indices[:, 0]", indices[:, 0], n)
        return _build(rows, as_vertices("A.indices[:, 1]", indices[:, 1], m), n, m)

    @staticmethod
    def from_networkx(
        graph: Any, top_nodes: Iterable[Any] | None = None
    ) -> tuple[BipartiteGraph, list[Any], list[Any]]:
        """Build the graph of a bipartite networkx graph, and return the nodes of both sides.

        >>> import jaxmatch as jm, networkx as nx
        >>> graph, rows, cols = jm.BipartiteGraph.from_networkx(
        ...     nx.Graph([("a", 1), ("b", 1), ("b", 2)]), top_nodes=["a", "b"]
        ... )
        >>> res = jm.maximum_bipartite_matching(graph)
        >>> {rows[i]: cols[j] for i, j in enumerate(res.col4row) if j >= 0}
        {'a': 1, 'b': 2}

        **Arguments:**

        - `graph`: a networkx graph; the direction of edges is ignored.
        - `top_nodes`: the nodes that become rows; all others become columns. By default, if every
          node has the attribute `bipartite`, those where it is 0 become rows.

        **Returns:** the graph, and the lists of nodes that are its rows and its columns.

        **Raises:** `TypeError` for any other object. `ValueError` for an edge within a side, for
        `top_nodes` that are not in the graph, and if neither `top_nodes` nor attributes give the
        sides.
        """
        require_networkx(graph, "`from_edges` takes lists of edges")
        rows, cols = sides(graph, top_nodes)
        of_row, of_col = pairs_between(graph, rows, cols)
        shape = (len(rows), len(cols))
        return BipartiteGraph.from_edges(of_row, of_col, shape), rows, cols

    @staticmethod
    def stack(
        graphs: Sequence[BipartiteGraph],
        *,
        num_rows: int | None = None,
        num_cols: int | None = None,
        num_edges: int | None = None,
    ) -> BipartiteGraph:
        """Stack graphs along a new leading dimension, padded to one size.

        Padding consists of rows and columns without edges, which are never matched and never in a
        cover. `num_rows` and `num_cols` keep the sizes without padding.

        >>> import jaxmatch as jm
        >>> small = jm.BipartiteGraph.from_edges([0], [0], shape=(1, 2))
        >>> large = jm.BipartiteGraph.from_edges([0, 3], [1, 0], shape=(4, 2))
        >>> batch = jm.BipartiteGraph.stack([small, large])
        >>> batch
        BipartiteGraph(batch_shape=(2,), shape=(4, 2), max_edges=2)
        >>> batch.num_rows, batch.num_edges
        (Array([1, 4], dtype=int32), Array([1, 2], dtype=int32))

        Pad the costs of edges to `max_edges`, with any numbers:

        >>> import numpy as np
        >>> costs = [np.array([3.0]), np.array([1.0, 2.0])]
        >>> np.stack([np.pad(c, (0, batch.max_edges - len(c))) for c in costs])
        array([[3., 0.],
               [1., 2.]])

        **Arguments:**

        - `graphs`: at least one, of one batch shape (usually none).
        - `num_rows`, `num_cols`, `num_edges`: the sizes to pad to; by default the largest of
          `graphs`. A few fixed sizes avoid a compilation for each batch.

        **Raises:** `ValueError` for an empty list, different batch shapes, and sizes that are too
        small or too large; `TypeError` for traced graphs.
        """
        graphs = to_stack("graphs", graphs, BipartiteGraph, "graph", _BUILDERS)
        n = padded_size("num_rows", num_rows, [g.shape[0] for g in graphs], MOST_VERTICES)
        m = padded_size("num_cols", num_cols, [g.shape[1] for g in graphs], MOST_VERTICES)
        e = padded_size("num_edges", num_edges, [g.max_edges for g in graphs], MOST_GRAPH_EDGES)
        arrays = (
            pad_and_stack([g.row_ptr for g in graphs], n + 1, repeat_last=True),
            pad_and_stack([g.col_ind for g in graphs], e),
            pad_and_stack([g.col_ptr for g in graphs], m + 1, repeat_last=True),
            pad_and_stack([g.row_ind for g in graphs], e),
            np.stack([g.num_rows for g in graphs]).astype(np.int32),
            np.stack([g.num_cols for g in graphs]).astype(np.int32),
        )
        return BipartiteGraph(*jax.device_put(arrays))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m), including padding by `stack`."""
        return self.row_ptr.shape[-1] - 1, self.col_ptr.shape[-1] - 1

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.row_ptr.shape[:-1]

    @property
    def max_edges(self) -> int:
        """The length of `col_ind` and `row_ind`; includes padding."""
        return self.col_ind.shape[-1]

    @property
    def num_edges(self) -> Int[Array, "..."]:
        """The number of edges of each graph, without padding."""
        return self.row_ptr[..., -1]

    def __repr__(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if all(hasattr(x, "shape") for x in fields.values()):
            if self.batch_shape:
                sizes = {"batch_shape": self.batch_shape, "shape": self.shape}
                fields = sizes | {"max_edges": self.max_edges}
            else:
                fields = {"shape": self.shape, "num_edges": self.max_edges}
        return f"BipartiteGraph({', '.join(f'{name}={x!r}' for name, x in fields.items())})"


def check_graph(graph: BipartiteGraph) -> None:
    """Checks shapes and dtypes of a graph argument. Solvers check the values."""
    advice = "build one with `BipartiteGraph.from_edges`, `from_scipy`, `from_dense` or `from_bcoo`"
    require("graph", graph, BipartiteGraph, advice)
    for name in ("row_ptr", "col_ind", "col_ptr", "row_ind"):
        x = getattr(graph, name)
        if x.dtype != np.int32:
            raise TypeError(f"`graph.{name}` must be int32, got {x.dtype}.")
        if x.ndim == 0 or x.shape[:-1] != graph.row_ptr.shape[:-1]:
            raise ValueError(
                f"`graph.{name}` must have the batch dimensions of `graph.row_ptr` "
                f"{graph.row_ptr.shape[:-1]} and one more, got shape {x.shape}."
            )
    for name in ("num_rows", "num_cols"):
        if jax.numpy.shape(getattr(graph, name)) != graph.batch_shape:
            raise ValueError(
                f"`graph.{name}` must have the batch dimensions of `graph.row_ptr` "
                f"{graph.batch_shape}, got shape {jax.numpy.shape(getattr(graph, name))}."
            )
    if 0 in (graph.row_ptr.shape[-1], graph.col_ptr.shape[-1]):
        raise ValueError("`graph.row_ptr` and `graph.col_ptr` must hold at least one pointer.")
    if graph.row_ind.shape != graph.col_ind.shape:
        raise ValueError(
            "`graph.col_ind` and `graph.row_ind` must have one length, got shapes "
            f"{graph.col_ind.shape} and {graph.row_ind.shape}."
        )


def _build(rows: np.ndarray, cols: np.ndarray, n: int, m: int) -> BipartiteGraph:
    arrays = (*csr_both_ways(rows, cols, n, m), np.int32(n), np.int32(m))
    return BipartiteGraph(*jax.device_put(arrays))
