"""A test imported the package inside `mock.patch.dict(sys.modules)`, which forgets it after
that, as notebooks do that purge modules: the second import failed."""

import subprocess
import sys


PROGRAM = """
import importlib, sys
from unittest import mock

import jax, jax.numpy as jnp, numpy as np

with mock.patch.dict(sys.modules):
    import jaxmatch as first
import jaxmatch as second

assert first.Assignment is not second.Assignment
C = np.eye(3)
for a, b in ((first, second), (second, first)):
    res = a.solve_assignment(C)
    assert b.solve_assignment(C, warm_start=res).cost == 0 and b.check_assignment(C, res).optimal
    assert jax.jit(b.solve_assignment)(C, warm_start=res).cost == 0
    assert jax.grad(lambda c: b.solve_assignment(c).cost)(jnp.eye(3)).sum() == 3
    graph = a.BipartiteGraph.from_dense(C)
    matching = a.maximum_bipartite_matching(graph)
    assert b.maximum_bipartite_matching(graph, warm_start=matching).cardinality == 3
    assert b.solve_sparse_assignment(graph, np.ones(3)).cost == 3
    assert b.BipartiteGraph.stack([graph, graph]).batch_shape == (2,)
    network = a.FlowNetwork.from_edges([0, 1], [1, 2], 3)
    flow = a.maximum_flow(network, [2, 3], 0, 2)
    assert b.maximum_flow(network, [2, 3], 0, 2).value == 2
    assert b.check_flow(network, [2, 3], 0, 2, flow).optimal
    rule, oracle = a.estimators.Blackbox(1.0), a.estimators.assignment_oracle()
    assert b.assignment_matrix(jnp.eye(3), estimator=rule).sum() == 3
    assert b.losses.spo_plus_loss(oracle, jnp.eye(3), jnp.eye(3)).loss == 0

for name in ("", ".losses", "._common.result", "._library.libraries"):
    name = "jaxmatch" + name
    importlib.reload(sys.modules[name])
assert second.solve_assignment(C).cost == 0 and jax.jit(second.solve_assignment)(C).cost == 0
"""


def test_imported_twice():
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], check=True)
