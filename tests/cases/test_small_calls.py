"""Trackers that call scipy for each frame, as motmetrics and TrackEval, took 1.3 to 4.8 times as
long by the overhead of calls alone: 41 to 130 us at 20 x 20, where scipy takes 4 to 12."""

import time

import numpy as np
import pytest
import scipy.optimize

import jaxmatch as jm


def least_seconds(call, calls=300):
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.cpu
@pytest.mark.parametrize("n", [5, 20])
def test_small_calls(n):
    """Here 5 to 15 times: most of it is the call, of which each takes some microseconds."""
    costs, masses = np.random.default_rng(0).random((n, n)), np.full(n, 1 / n)
    least = least_seconds(lambda: scipy.optimize.linear_sum_assignment(costs))
    least = max(least, 1e-6)
    assert least_seconds(lambda: jm.linear_sum_assignment(costs)) <= 40 * least
    assert least_seconds(lambda: jm.solve_assignment(costs)) <= 90 * least
    assert least_seconds(lambda: jm.solve_transport(costs, masses, masses)) <= 150 * least
