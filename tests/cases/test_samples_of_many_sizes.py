"""Distances of many pairs of samples or diagrams, each pair of other sizes (as in scipy/scipy#23801
and scikit-tda/persim#105): each new pair of sizes compiled 5 to 18 programs, whose memory stays."""

import jax
import numpy as np
import pytest

import jaxmatch as jm


X = np.random.default_rng(0).random((130, 130))
CALLS = {
    "wasserstein_1d": lambda n, m: jm.losses.wasserstein_1d(X[:n, 0], X[:m, 1]),
    "earth_mover_distance": lambda n, m: jm.losses.earth_mover_distance(X[:n, :2], X[:m, 2:4]),
    "bottleneck_assignment": lambda n, m: jm.bottleneck_assignment(X[:n, :m]),
    "check_assignment": lambda n, m: jm.check_assignment(X[:n, :m], jm.solve_assignment(X[:n, :m])),
    "points within a radius": lambda n, m: jm.solve_assignment_points(
        X[:n, :2], X[:m, 2:4], radius=0.1, unmatched_cost=1.0
    ),
    "solve_transport": lambda n, m: jm.solve_transport(
        X[:n, :m], np.full(n, 1 / n), np.full(m, 1 / m)
    ),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", CALLS)
def test_samples_of_many_sizes(name):
    CALLS[name](5, 6)
    compiled = []

    def count(event, _, **__):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        for n, m in np.random.default_rng(1).integers(20, 120, (6, 2)).tolist():
            CALLS[name](n, m)
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert not compiled
