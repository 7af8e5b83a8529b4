"""Limits that the native libraries, the pure-JAX solvers and the host code check."""

from __future__ import annotations


# The build of the native libraries parses these lines.
MOST_VERTICES = 1_073_741_823  # 2^30 - 1; nodes of a network, or one side of a bipartite graph
MOST_GRAPH_EDGES = 2_147_481_599  # 2^31 - 2049; 32-bit loop counters run past the last edge
MOST_NETWORK_EDGES = 1_073_740_799  # 2^30 - 1025; the same for two arcs per edge
MOST_CELLS = 268_435_455  # 2^28 - 1; cells of a grid
