"""Outside of `jit`, checks compile nothing for a new shape: time and memory do not grow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


def flow(n, array):
    rng = np.random.default_rng(n)
    network = jm.FlowNetwork.from_edges(*rng.integers(0, n, (2, 4 * n)), n)
    given = network, array(rng.random(4 * n)), 0, n - 1
    yield jm.check_flow, (*given, jm.maximum_flow(*given))
    yield jm.check_minimum_cut, (*given, jm.minimum_cut(*given))


def grid(n, array):
    rng = np.random.default_rng(n)
    given = tuple(array(rng.random(shape)) for shape in ((n, 3), (n, 3), (2, n, 3)))
    yield jm.check_grid_cut, (*given, jm.grid_cut(*given))


def matching(n, array):
    ends = np.random.default_rng(n).integers(0, n, (2, 2 * n))
    graph = jm.BipartiteGraph.from_edges(*ends, (n, n))
    yield jm.check_matching, (graph, jm.maximum_bipartite_matching(graph))


@pytest.mark.cpu
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("problems", [flow, grid, matching])
def test_nothing_is_compiled(problems, array):
    for n in (5, 7, 8):
        for check, given in problems(n, array):
            compiled = []
            listener = lambda name, *_, **__: compiled.append(name)  # noqa: B023, E731
            jax.monitoring.register_event_duration_secs_listener(listener)
            try:
                found = check(*given)
            finally:
                jax.monitoring.unregister_event_duration_listener(listener)
            # The first problem compiles the way of three numbers to JAX.
            assert n == 5 or not [x for x in compiled if "compile" in x]
            assert found.valid and found.optimal
            kind = jax.Array if array is jnp.asarray or problems is matching else np.ndarray
            assert isinstance(found.optimal, kind)
