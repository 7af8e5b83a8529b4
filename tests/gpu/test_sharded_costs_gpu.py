"""One assignment on a mesh of one GPU and of all: the same bits as on the CPU, and not sharded."""

import jax
import numpy as np
import pytest
from helpers import assert_same_bits, to_numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sharded_helpers import METHODS

import jaxmatch as jm


pytestmark = pytest.mark.gpu

KINDS = ["10n", "n/10", "uniform", "points", "product", "forbidden"]


def costs(kind, n, m):
    rng = np.random.default_rng(n * 1000 + m)
    if kind in ("10n", "n/10"):
        most = 10 * n if kind == "10n" else n // 10
        return rng.integers(0, most, (n, m), np.int32, endpoint=True)
    if kind == "points":
        x, y = rng.random((n, 1, 2)), rng.random((1, m, 2))
        return ((x - y) ** 2).sum(-1).astype(np.float32)
    if kind == "product":
        return np.outer(rng.normal(size=n), rng.normal(size=m)).astype(np.float32)
    cost = rng.random((n, m), np.float32)
    if kind == "forbidden":
        cost[rng.random((n, m)) < 0.9] = np.inf
    return cost


@pytest.fixture(params=["one", "all"])
def gpus(request):
    found = jax.devices("cuda")
    if request.param == "all" and len(found) < 2:
        pytest.skip("needs two GPUs")
    return found if request.param == "all" else found[:1]


def placed(x, devices, spec):
    """On as many of the devices as the rows divide over."""
    count = max(k for k in range(1, len(devices) + 1) if x.shape[0] % k == 0)
    mesh = Mesh(np.array(devices[:count]), ("i",))
    return jax.device_put(x, NamedSharding(mesh, spec))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, m", [(240, 240), (120, 400)])
def test_same_bits(kind, n, m, method, gpus):
    cost = costs(kind, n, m)
    rows = PartitionSpec("i")
    res = to_numpy(jm.solve_assignment(placed(cost, gpus, rows), row_axis="i", method=method))
    assert res.status in (jm.Status.OPTIMAL, jm.Status.INFEASIBLE)
    cpu = jm.solve_assignment(placed(cost, jax.devices("cpu"), rows), row_axis="i", method=method)
    assert_same_bits(res, to_numpy(cpu))
    alone = to_numpy(jm.solve_assignment(jax.device_put(cost, gpus[0]), method=method))
    if method == "core":  # a whole problem may have an auction: other pairs and duals where tied
        assert res.status == alone.status
        np.testing.assert_allclose(res.cost, alone.cost, rtol=1e-6)
    else:
        assert_same_bits(res, alone)


@pytest.mark.parametrize("kind", KINDS)
def test_by_columns(kind, gpus):
    cost = costs(kind, 240, 240)
    place = PartitionSpec(None, "i")
    res = to_numpy(jm.solve_assignment(placed(cost, gpus, place), col_axis="i"))
    alone = to_numpy(jm.solve_assignment(jax.device_put(cost, gpus[0])))
    assert res.status == alone.status
    if alone.status == jm.Status.OPTIMAL:
        np.testing.assert_allclose(res.cost, alone.cost, rtol=1e-6)
        assert jm.check_assignment(cost, res).valid


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "l1"])
@pytest.mark.parametrize("n, m", [(1200, 1200), (240, 700)])
def test_points(metric, n, m, gpus):
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 3), np.float32), rng.random((m, 3), np.float32)
    found = [
        jm.solve_assignment_points(
            placed(x, devices, PartitionSpec("i")),
            placed(y, devices, PartitionSpec()),
            metric=metric,
            row_axis="i",
        )
        for devices in (gpus, jax.devices("cpu"))
    ]
    assert found[0].status == jm.Status.OPTIMAL
    assert_same_bits(*map(to_numpy, found))
