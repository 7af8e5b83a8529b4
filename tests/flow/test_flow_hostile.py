"""Flows of capacities from both ends of their dtypes, against all cuts there are."""

import flow_hostile as hostile
import numpy as np
import pytest
from helpers import problem, to_numpy, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


@pytest.mark.parametrize(
    ("method", "dtype"),
    [(m, d) for m in ("auto", "pseudoflow") for d in ("float32", "float64", "int32", "int64")]
    + [("xla", "float32"), ("xla", "float64")],
)
def test_hostile_capacities(method, dtype):
    rng = np.random.default_rng(0)
    count = 30
    for n, e in ((4, 6), (6, 14))[method == "xla" :]:
        edges = hostile.hostile_edges(rng, n, e)
        network = jm.FlowNetwork.from_edges(*edges, n)
        capacity = np.stack([
            hostile.hostile_capacity(rng, e, dtype, denormal=method != "xla") for _ in range(count)
        ])  # fmt: skip
        with x64(True):
            res = to_numpy(jm.maximum_flow(network, capacity, 0, n - 1, method=method))
        for k in range(count):
            found = problem((res.value, res.flow, res.source_side, res.status), k)
            hostile.assert_right(*found, (*edges, capacity[k]), n)
