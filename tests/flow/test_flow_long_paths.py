"""Paths of many edges: augmenting one of them may detach every node of a tree at once."""

import time

import numpy as np
import pytest

import jaxmatch as jm


METHODS = ["auto", "augment", "pseudoflow"]


@pytest.mark.parametrize("method", METHODS)
def test_one_path_takes_linear_time(method):
    n = 100_000
    network = jm.FlowNetwork.from_edges(np.arange(n - 1), np.arange(1, n), n)
    start = time.perf_counter()
    res = jm.maximum_flow(network, np.ones(n - 1, np.int32), 0, n - 1, method=method)
    # Milliseconds; where nodes rise a level at a time, half a minute.
    assert time.perf_counter() - start < 5
    assert res.value == 1 and np.asarray(res.flow).all()


@pytest.mark.parametrize("width", [5, 8, 12])
def test_strips(width):
    """Long strips with edges back and forth: two methods, one flow value and one cut."""
    rng = np.random.default_rng(width)
    n = 1500 * width
    for most in (1, 3, 100):
        senders = rng.integers(0, n, 5 * n)
        receivers = np.clip(senders + rng.integers(-width, 2 * width + 1, 5 * n), 0, n - 1)
        network = jm.FlowNetwork.from_edges(senders, receivers, n)
        capacity = rng.integers(0, most + 1, 5 * n).astype(np.int32)
        ends = (capacity, 0, n - 1)
        res = jm.maximum_flow(network, *ends, method="augment")
        other = jm.maximum_flow(network, *ends, method="pseudoflow")
        assert res.value == other.value and (res.source_side == other.source_side).all()
        assert jm.check_flow(network, *ends, res).optimal
