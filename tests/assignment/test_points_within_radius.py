"""`solve_assignment_points` with a radius: only near pairs exist. Against gated matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
from helpers import x64

import jaxmatch as jm


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


def gated(x: Any, y: Any, metric: str, radius: float) -> np.ndarray:
    """The matrix, in float64."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, y))
        cost = 1 - x @ y.T
    elif metric == "l1":
        cost = np.abs(x[:, None] - y).sum(-1)
    else:
        cost = ((x[:, None] - y) ** 2).sum(-1)
    cost = np.sqrt(cost) if metric == "euclidean" else cost
    return np.where(cost > (radius**2 if metric == "sqeuclidean" else radius), np.inf, cost)


NEAR = [(40, 60, 0.3), (60, 40, 0.1), (30, 30, 10.0), (25, 30, 1e-6)]

# The twin compiles a program for each shape and metric: metrics take turns with dimensions.
CASES = [("auto", metric, dims, NEAR) for metric in METRICS for dims in (1, 2, 3, 5)]
CASES += [
    ("xla", "sqeuclidean", 1, NEAR[:1]),
    ("xla", "euclidean", 2, NEAR[1:2]),
    ("xla", "l1", 3, NEAR[2:]),
    ("xla", "cosine", 5, NEAR[:2]),
]


@pytest.mark.parametrize("method, metric, dims, near", CASES)
def test_partial_assignments(method, metric, dims, near, platform):
    random = np.random.default_rng(dims)
    for n, m, radius in near:
        x, y = random.normal(size=(n, dims)), random.normal(size=(m, dims))
        if metric == "cosine":
            radius = min(radius, 0.7)
        price = random.random(n) * 0.2
        given: dict[str, Any] = {"metric": metric, "radius": radius, "unmatched_cost": price}
        with x64(True):
            res = jm.solve_assignment_points(x, y, method=method, **given)
            expected = jm.solve_assignment(gated(x, y, metric, radius), unmatched_cost=price)
            check = jm.check_assignment_points(x, y, res, **given)
        assert res.status == jm.Status.OPTIMAL and check.valid
        np.testing.assert_allclose(res.cost, expected.cost, rtol=1e-12, atol=1e-12)
        assert check.gap <= 1e-10


def test_all_must_be_matched():
    random = np.random.default_rng(0)
    x = random.random((200, 2))
    y = (x + 0.02 * random.normal(size=x.shape))[random.permutation(200)]
    cost = gated(x, y, "sqeuclidean", 0.2)
    res = jm.solve_assignment_points(x, y, radius=0.2)
    expected = jm.solve_assignment(cost)
    assert res.status == expected.status == jm.Status.OPTIMAL
    np.testing.assert_allclose(res.cost, expected.cost, rtol=1e-6)
    assert jm.solve_assignment_points(x, y, radius=1e-4).status == jm.Status.INFEASIBLE
    wide = jm.solve_assignment_points(x[:150], y, radius=0.2)
    np.testing.assert_allclose(wide.cost, jm.solve_assignment(cost[:150]).cost, rtol=1e-6)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_masks_and_points_that_are_not_finite(method):
    random = np.random.default_rng(1)
    x, y = random.random((30, 2)).astype(np.float32), random.random((40, 2)).astype(np.float32)
    masks = {"row_mask": random.random(30) < 0.8, "col_mask": random.random(40) < 0.8}
    x[~masks["row_mask"]] = np.nan
    y[~masks["col_mask"]] = np.inf
    given = {"radius": 0.3, "unmatched_cost": 0.02}
    res = jm.solve_assignment_points(x, y, method=method, **masks, **given)
    with np.errstate(invalid="ignore"):
        cost = gated(x, y, "sqeuclidean", 0.3)
    expected = jm.solve_assignment(cost.astype(np.float32), unmatched_cost=0.02, **masks)
    np.testing.assert_allclose(res.cost, expected.cost, rtol=1e-5)
    for wrong in (np.nan, np.inf):
        bad = x.copy()
        bad[np.flatnonzero(masks["row_mask"])[0], 1] = wrong
        res = jm.solve_assignment_points(bad, y, method=method, **masks, **given)
        assert res.status == jm.Status.INVALID_COST


def test_many_points_store_only_near_pairs(platform):
    """A matrix of these would take 40 GB."""
    n = 100_000
    random = np.random.default_rng(2)
    x = random.random((n, 2)).astype(np.float32)
    y = (x + 0.001 * random.normal(size=x.shape)).astype(np.float32)
    if platform == "cpu" and not jm.has_cpu_library():
        pytest.skip("needs the CPU library")
    res = jm.solve_assignment_points(x, y, radius=0.005, unmatched_cost=2.5e-5)
    assert res.status == jm.Status.OPTIMAL
    at = np.asarray(res.col4row)
    matched = at >= 0
    cost = ((x.astype(np.float64)[matched] - y[at[matched]]) ** 2).sum()
    np.testing.assert_allclose(res.cost, cost + 2.5e-5 * (~matched).sum(), rtol=1e-5)
    # The duals bound every pair within the radius; few others come near.
    u, v = np.asarray(res.row_dual, np.float64), np.asarray(res.col_dual, np.float64)
    assert u.max() <= 2.5e-5 * (1 + 1e-6) and v.max() <= 0
    np.testing.assert_allclose(u.sum() + v.sum(), res.cost, rtol=1e-4)


@pytest.mark.parametrize("metric", METRICS)
def test_pairs_on_a_gpu(metric, platform):
    """On a GPU so many pairs are not a matrix. NumPy counts them first; traced, there is room."""
    random = np.random.default_rng(5)
    n, m, wider = (2100, 2400, 1.0) if platform == "cuda" else (210, 240, 2.0)
    x, y = (random.random((k, 3)).astype(np.float32) - 0.5 for k in (n, m))
    radius = wider * (0.05 if metric == "cosine" else 0.15)
    price = (random.random(n) * radius).astype(np.float32)
    masks = {"row_mask": random.random(n) < 0.9, "col_mask": random.random(m) < 0.9}
    given: dict[str, Any] = {"metric": metric, "radius": radius, **masks}
    expected = jm.solve_assignment(
        gated(x, y, metric, np.float32(radius)).astype(np.float32), unmatched_cost=price,
        row_mask=masks["row_mask"], col_mask=masks["col_mask"],
    )  # fmt: skip

    def solve(x: Any, y: Any, **options: Any) -> Any:
        return jm.solve_assignment_points(x, y, unmatched_cost=price, **given, **options)

    res = solve(jnp.asarray(x), jnp.asarray(y))
    assert res.status == expected.status == jm.Status.OPTIMAL
    assert jm.check_assignment_points(x, y, res, unmatched_cost=price, **given).valid
    # The expected costs are those of unit vectors in float64.
    loose = 1e-4 if metric == "cosine" else 1e-5
    np.testing.assert_allclose(res.cost, expected.cost, rtol=loose)
    for solve_traced in (jax.jit(solve), jax.jit(lambda x, y: solve(x, y, max_pairs=200_000))):
        traced = solve_traced(x, y)
        np.testing.assert_array_equal(traced.col4row, res.col4row)
        if metric == "cosine":  # XLA rounds norms in another way if it fuses them: other duals
            proved = jm.check_assignment_points(x, y, traced, unmatched_cost=price, **given)
            assert proved.valid and proved.gap <= 1e-4 * res.cost
        else:
            np.testing.assert_array_equal(traced.row_dual, res.row_dual)
    both = jax.vmap(lambda x, y: solve(x, y))(np.stack([x, x * 2]), np.stack([y, y * 2]))
    np.testing.assert_array_equal(both.col4row[0], res.col4row)
    if platform == "cuda":
        few = jax.jit(lambda x, y: solve(x, y, max_pairs=1000))(x, y)
        assert few.status == jm.Status.OVERFLOW and np.isnan(few.cost)
        assert (few.col4row == -1).all() and np.isnan(few.gap)
        bad = x.copy()
        bad[np.flatnonzero(masks["row_mask"])[0]] = np.nan
        assert solve(bad, y).status == jm.Status.INVALID_COST


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150])
@pytest.mark.parametrize("n", [20, 1200])
def test_squares_out_of_range(n, scale, method, platform):
    """A square that rounds to 0 is not within a radius whose square rounds to 0."""
    if n > 20 and method == "xla":
        pytest.skip("slow")
    random = np.random.default_rng(6)
    x, y = random.random((2, n, 2)) * scale
    radius = 0.7 * scale / np.sqrt(n)
    near = np.hypot(*np.moveaxis(x[:, None] / scale - y / scale, -1, 0)) <= radius / scale
    with x64(True):
        given: dict[str, Any] = {"metric": "euclidean", "unmatched_cost": scale * 9}
        if scale < 1:  # their squares are costs of 0
            given = {"metric": "sqeuclidean", "unmatched_cost": 1.0}
        res = jm.solve_assignment_points(x, y, radius=radius, method=method, **given)
    matched = np.asarray(res.col4row) >= 0
    best = scipy.sparse.csgraph.maximum_bipartite_matching(scipy.sparse.csr_array(near))
    assert matched.sum() == (best >= 0).sum()
    assert near[matched, np.asarray(res.col4row)[matched]].all()


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_radii_that_are_no_numbers(method, platform):
    x, y = np.float32([[0, 0], [3e38, 0]]), np.float32([[1, 0], [-3e38, 0]])

    def solve(radius: float) -> Any:
        given: dict[str, Any] = {"metric": "l1", "unmatched_cost": 10.0, "method": method}
        return jm.solve_assignment_points(x, y, radius=radius, **given)

    for radius in (np.nan, -1.0, -np.inf):
        assert solve(radius).status == jm.Status.INVALID_COST
    # A distance beyond the range of floats is infinite, and forbids its pair.
    res = solve(np.inf)
    assert res.status == jm.Status.OPTIMAL and res.col4row.tolist() == [0, -1]


@pytest.mark.parametrize("metric, radius", [("l1", 0.3), ("l1", 0.5), ("euclidean", 0.5)])
def test_checks_of_pairs_at_the_radius(metric, radius, platform):
    """Roundings decide which pairs of such a lattice exist; the check takes those of the result."""
    random = np.random.default_rng(7)
    x, y = (random.integers(0, 12, (300, 2)).astype(np.float32) / 10 for _ in range(2))
    given: dict[str, Any] = {"metric": metric, "radius": radius, "unmatched_cost": 10.0}
    res = jm.solve_assignment_points(x, y, **given)
    check = jm.check_assignment_points(x, y, res, **given)
    assert check.valid and check.gap < 1e-3
    none = jm.solve_assignment_points(x, y, **(given | {"unmatched_cost": 0.0}))
    assert jm.check_assignment_points(x, y, none, **given).gap > 100


def test_max_pairs_is_checked():
    x = np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="`max_pairs` must be an integer"):
        jm.solve_assignment_points(x, x, radius=1.0, max_pairs=0)
    with pytest.raises(ValueError, match="goes with a `radius`"):
        jm.solve_assignment_points(x, x, max_pairs=10)


def test_gradients():
    random = np.random.default_rng(3)
    with x64(True):
        x, y = jnp.asarray(random.random((12, 2))), jnp.asarray(random.random((15, 2)))
        price = jnp.full(12, 0.05)

        def cost(x: Any, y: Any, price: Any) -> Any:
            return jm.solve_assignment_points(x, y, radius=0.25, unmatched_cost=price).cost

        slopes = jax.jit(jax.grad(cost, (0, 1, 2)))(x, y, price)
        for at, (given, slope) in enumerate(zip((x, y, price), slopes, strict=True)):
            move = random.normal(size=given.shape) * 1e-6
            ends = [
                cost(*(a + s * move if k == at else a for k, a in enumerate((x, y, price))))
                for s in (1, -1)
            ]
            np.testing.assert_allclose((slope * move).sum(), (ends[0] - ends[1]) / 2, rtol=1e-4)


def test_what_does_not_go_together():
    x = np.zeros((3, 2))
    with pytest.raises(ValueError, match="needs a `radius`"):
        jm.solve_assignment_points(x, x, unmatched_cost=1.0)
    with pytest.raises(ValueError, match="`maximize` does not go with `radius`"):
        jm.solve_assignment_points(x, x, radius=1.0, maximize=True)
    with pytest.raises(ValueError, match="`radius` must be one number"):
        jm.solve_assignment_points(x, x, radius=np.ones(3))
    with pytest.raises(ValueError, match="`unmatched_cost` must be a number or"):
        jm.solve_assignment_points(x, x, radius=1.0, unmatched_cost=np.ones(2))
    with pytest.raises(ValueError, match="method"):
        jm.solve_assignment_points(x, x, radius=1.0, method="core")


def test_cosine_at_small_radii(platform):
    """Unit vectors in float32 are off by their rounding, which counts beside a small radius."""
    x = np.array([[0.15341865, 0.98816127]], np.float32)
    y = np.array([[0.15287603, 0.98824537], [-1, 0], [1, 0]], np.float32)

    @partial(jax.jit, static_argnames="radius")
    def solve(x: Any, y: Any, radius: float | None = None) -> Any:
        return jm.solve_assignment_points(x, y, metric="cosine", radius=radius)

    # The first coordinates differ by more than the root of twice this radius.
    plain, near = solve(x, y), solve(x, y, radius=1.2e-7)
    assert float(plain.cost) < 1.2e-7
    assert near.status == jm.Status.OPTIMAL and near.cost == plain.cost
    # NumPy rounds norms in another way than XLA.
    here = jm.solve_assignment_points(x, y, metric="cosine", radius=1.2e-7)
    least = 1e-7 if platform == "cpu" else float(plain.cost)
    assert here.status == jm.Status.OPTIMAL and least <= here.cost < 1.2e-7
