"""Users of PyMaxflow and igraph take either side of tied cuts; `grid_cut` gave the one nearest to
the source alone."""

import numpy as np

import jaxmatch as jm


def test_cut_nearest_to_the_sink():
    """A row of five cells, whose arcs are alike: any of the four may be cut."""
    source, sink, arcs = np.zeros((1, 5)), np.zeros((1, 5)), np.ones((2, 1, 5))
    source[0, 0] = sink[0, 4] = 9
    for nearest, cells in (("source", 1), ("sink", 4)):
        cut = jm.grid_cut(source, sink, arcs, nearest=nearest)
        assert cut.value == 1
        assert cut.source_side.tolist() == [[k < cells for k in range(5)]]
