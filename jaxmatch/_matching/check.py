"""`check_matching`: verifies a maximum matching by its vertex cover.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._common.arguments import as_result
from jaxmatch._common.given import require
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import add_at, module_of, over_problems
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, Matching
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool, Int
from jaxmatch._matching.graph import BipartiteGraph, check_graph


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class MatchingCheck(Check):
    """The result of [`check_matching`][jaxmatch.check_matching]; leading `...` is batch.

    - `valid`: `bool[...]`, the result is a matching of the graph.
    - `optimal`: `bool[...]`, its cover proves that no matching has more pairs.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]


@unchecked
def check_matching(graph: BipartiteGraph, result: Matching) -> MatchingCheck:
    """Verify a result of `maximum_bipartite_matching`, in jit or out of it.

    Makes a few passes over the edges. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> graph = jm.BipartiteGraph.from_edges([0, 0, 1], [0, 1, 0], shape=(2, 2))
    >>> res = jm.maximum_bipartite_matching(graph)
    >>> jm.check_matching(graph, res)
    MatchingCheck(valid=Array(True, dtype=bool), optimal=Array(True, dtype=bool))
    >>> jm.check_matching(graph, res.replace(row_cover=jnp.array([True, False])))
    MatchingCheck(valid=Array(True, dtype=bool), optimal=Array(False, dtype=bool))

    **Arguments:**

    - `graph`: as it was passed to the solver.
    - `result`: the solver's result; `status` is ignored.

    **Returns:**

    A [`MatchingCheck`][jaxmatch.MatchingCheck].

    - `valid`: `col4row` and `row4col` describe the same matching, its pairs are edges of the graph,
      and `cardinality` is their number. False if the arrays of the graph are inconsistent.
    - `optimal`: the matching is `valid`, every edge has its row in `row_cover` or its column in
      `col_cover`, and the two covers contain `cardinality` vertices in total. A cover needs a
      separate vertex for each pair of a matching, so no matching has more pairs (Kőnig).

    The edges are read from `row_ptr` and `col_ind`. Of `col_ptr` and `row_ind` only the ranges are
    checked.

    **Time and memory:** O(n + m + e) operations and a few temporary arrays of e numbers.

    **Raises:** `ValueError` for shapes that do not fit; `TypeError` if `graph` is not a
    `BipartiteGraph`, a cover is not boolean or another field not an integer.
    """
    check_graph(graph)
    advice = "of pairs from elsewhere `Matching.empty(shape).replace(...)` makes one"
    require("result", result, Matching, advice)
    return _check_in_place(result.col4row, graph, result)


@in_full_precision("col4row", on_host=True)
def _check_in_place(col4row: ArrayLike, graph: BipartiteGraph, result: Matching) -> MatchingCheck:
    """Checks shapes and the proof. Returns NumPy or JAX arrays, whichever `col4row` is."""
    place, (n, m) = current_place(), graph.shape
    batch, rows, cols = graph.batch_shape, (*graph.batch_shape, n), (*graph.batch_shape, m)
    shapes = {"col4row": rows, "row4col": cols, "cardinality": batch}
    shapes |= {"row_cover": rows, "col_cover": cols}
    result = as_result(result, Matching, shapes, "`graph`", "", place=place)
    if place.native:
        return over_problems(_check_one, batch, graph, result)
    return _check(graph, result)


@compiled()
def _check(graph: BipartiteGraph, result: Matching) -> MatchingCheck:
    def check(graph: BipartiteGraph, result: Matching) -> MatchingCheck:
        one = _check_one
        for _ in graph.batch_shape:
            one = jax.vmap(one)
        return one(graph, result)

    return over_batch_shards(apart(check), graph, result, core_dims=1)


def _check_one(graph: BipartiteGraph, result: Matching) -> MatchingCheck:
    n, m = graph.shape
    col4row, row4col = result.col4row, result.row4col
    num_edges = graph.row_ptr[-1]
    xp = module_of(col4row)
    k = xp.arange(graph.max_edges, dtype=np.int32)
    exists = k < num_edges
    sane = _makes_sense(graph.row_ptr, graph.col_ind, m)
    sane &= _makes_sense(graph.col_ptr, graph.row_ind, n) & (num_edges == graph.col_ptr[-1])

    size = (col4row >= 0).sum(dtype=jnp.int32)
    valid = sane & _leads_back(col4row, row4col) & _leads_back(row4col, col4row)
    valid &= result.cardinality == size
    touched = xp.ones_like(exists)
    if graph.max_edges and n and m:
        row = _row_of_edge(graph.row_ptr, graph.max_edges)
        col = graph.col_ind.clip(0, m - 1)
        # Whether the matched pair of each row is an edge.
        joined = add_at(n, row, (exists & (col4row[row] == col)).astype(np.int32)) > 0
        valid &= (joined | (col4row < 0)).all()
        touched = ~exists | result.row_cover[row] | result.col_cover[col]
    else:
        valid &= size == 0
    cover = result.row_cover.sum(dtype=jnp.int32) + result.col_cover.sum(dtype=jnp.int32)
    return MatchingCheck(valid, valid & touched.all() & (cover == result.cardinality))


def _row_of_edge(row_ptr: Int[Array, " n+1"], edges: int) -> Int[Array, " e"]:
    """The row of each edge; in range even if the pointers are inconsistent."""
    n = row_ptr.shape[0] - 1
    if module_of(row_ptr) is np:
        place = np.arange(edges, dtype=np.int32)
        return np.searchsorted(row_ptr[1:], place, side="right").clip(0, n - 1)  # type: ignore[return-value]
    rows, degrees = jnp.arange(n, dtype=jnp.int32), row_ptr[1:] - row_ptr[:-1]
    return jnp.repeat(rows, degrees, total_repeat_length=edges)


def _makes_sense(ptr: Int[Array, " k+1"], ind: Int[Array, " e"], size: int) -> Bool[Array, ""]:
    wrong = ((ind < 0) | (ind >= size)) & (
        module_of(ind).arange(ind.shape[0], dtype=np.int32) < ptr[-1]
    )
    return (ptr[0] == 0) & (ptr[:-1] <= ptr[1:]).all() & (ptr[-1] <= ind.shape[0]) & ~wrong.any()


def _leads_back(there: Int[Array, " k"], back: Int[Array, " l"]) -> Bool[Array, ""]:
    """Whether every index is −1 or leads to an entry that leads back."""
    if back.shape[0] == 0:
        return (there == -1).all()
    in_range = (there >= -1) & (there < back.shape[0])
    returns = back[there.clip(0, back.shape[0] - 1)] == module_of(there).arange(
        there.shape[0], dtype=there.dtype
    )
    return (in_range & ((there == -1) | returns)).all()
