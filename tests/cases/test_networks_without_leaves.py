"""The gradient of a model that holds a network has None in place of its arrays; `repr` of it, in an
error or a log, raised an error of its own."""

import jax
import numpy as np

import jaxmatch as jm


def test_networks_without_leaves():
    network = jm.FlowNetwork.from_edges([0, 1], [1, 2], num_nodes=3)
    trees = [network, jm.FlowNetwork.stack([network] * 2), jm.BipartiteGraph.from_dense(np.eye(2))]
    for leaf in (None, 0, object()):
        for tree in trees:
            text = repr(jax.tree.map(lambda _: leaf, tree))  # noqa: B023
            assert text.startswith(type(tree).__name__)
