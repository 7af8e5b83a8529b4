"""scipy matched rows to columns that they have no edge to, in a 20 x 25 graph made of two copies of
one (scipy/scipy#11458)."""

import numpy as np
import scipy.sparse as sp
from matching_helpers import assert_maximum, by_networkx

import jaxmatch as jm


HALF = [
    [11, 12, 19, 22, 23],
    [5, 22],
    [3, 8, 10],
    [],
    [5, 6, 11, 12, 13],
    [5, 13, 14, 20, 22],
    [3, 15],
    [],
    [3],
    [13, 14],
]


def test_two_copies_of_a_graph():
    rows = 2 * HALF
    ends = np.concatenate([[0], np.cumsum([len(x) for x in rows])])
    matrix = sp.csr_array((np.ones(ends[-1]), sum(rows, []), ends), shape=(20, 25))
    graph = jm.BipartiteGraph.from_scipy(matrix)
    res = jm.maximum_bipartite_matching(graph)
    assert res.cardinality == by_networkx(graph)
    assert_maximum(graph, res)
