"""`solve_transport_points` against `solve_transport` on the matrix of distances.

On the CPU both run one algorithm on the same numbers, so results agree to the bit.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits, x64
from jax.test_util import check_grads
from point_costs import distances

import jaxmatch as jm


METRICS = ("sqeuclidean", "euclidean", "l1")
KINDS = ("all", "partial", "unmatched")


def problem(seed, n, m, *, d=3, dtype=np.float64, kind="all", whole=True, batch=()):
    """Points, masses of which some are 0, and the options of a kind."""
    rng = np.random.default_rng(seed)
    x, y = (rng.normal(size=(*batch, k, d)).astype(dtype) for k in (n, m))
    supply = rng.integers(0, 5, (*batch, n))
    supply[..., 0] += 1
    demand = rng.integers(0, 4, (*batch, m))
    if kind == "all":
        share = np.ones(m) / m
        demand = np.apply_along_axis(lambda a: rng.multinomial(a.sum(), share), -1, supply)
    moved = np.minimum(supply.sum(-1), demand.sum(-1)) // 2
    options = {
        "all": {},
        "partial": {"partial": moved if whole else moved / 7.0},
        "unmatched": {"unmatched_cost": rng.normal(size=(*batch, n)).astype(dtype) + 1},
    }[kind]
    if not whole:
        supply, demand = supply / 7.0, demand / 7.0
    return x, y, supply, demand, options


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_as_on_a_matrix(kind, metric):
    """Tall, wide and square; both dtypes; integer and float masses; both directions."""
    for k, (n, m) in enumerate([(60, 41), (33, 50), (40, 40), (1, 9), (7, 1)]):
        dtype, whole = (np.float32, np.float64)[k % 2], k % 3 != 0
        x, y, a, b, options = problem(k, n, m, dtype=dtype, kind=kind, whole=whole)
        options |= {"maximize": k % 2 == 1}
        res = jm.solve_transport_points(x, y, a, b, metric=metric, **options)
        assert res.status == jm.Status.OPTIMAL
        assert_same_bits(res, jm.solve_transport(distances(x, y, metric), a, b, **options))


def test_rows_beyond_the_cache():
    """More rows than the cache of computed ones has slots; canonical rows are columns here."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(700, 2)), rng.normal(size=(4500, 2)) + 0.3
    a, b = rng.dirichlet(np.ones(700)), rng.dirichlet(np.ones(4500))
    res = jm.solve_transport_points(x, y, a, b)
    assert_same_bits(res, jm.solve_transport(distances(x, y, "sqeuclidean"), a, b))


def test_cosine():
    x, y, a, b, _ = problem(2, 9, 8)
    unit = [p / np.linalg.norm(p, axis=-1, keepdims=True) for p in (x, y)]
    res = jm.solve_transport_points(x, y, a, b, metric="cosine")
    expected = jm.solve_transport(distances(*unit, "cosine"), a, b).cost
    np.testing.assert_allclose(res.cost, expected, rtol=1e-12)
    x[0] = 0
    res = jm.solve_transport_points(x, y, a, b, metric="cosine")
    assert res.status == jm.Status.INVALID_COST


def test_pot():
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(70, 4)), rng.normal(size=(90, 4))
    a, b = rng.dirichlet(np.ones(70)), rng.dirichlet(np.ones(90))
    for metric in ("sqeuclidean", "euclidean"):
        cost = ot.emd2(a, b, ot.dist(x, y, metric))
        np.testing.assert_allclose(
            jm.solve_transport_points(x, y, a, b, metric=metric).cost, cost, rtol=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
def test_twin_and_check(kind):
    x, y, a, b, options = problem(4, 9, 7, kind=kind)
    masks = {"row_mask": np.arange(9) != 3, "col_mask": np.arange(7) != 2}
    x[3], y[2] = np.nan, np.inf
    a[0] += b.sum() + 99
    if kind == "all":
        b[0] += (a * masks["row_mask"]).sum() - (b * masks["col_mask"]).sum()
    given = options | masks
    metrics = ("cosine", "sqeuclidean") if kind == "all" else METRICS[KINDS.index(kind) :][:1]
    for metric in metrics:  # the twin compiles for seconds
        ours, twin = (
            jm.solve_transport_points(x, y, a, b, metric=metric, method=method, **given)
            for method in ("auto", "xla")
        )
        assert ours.status == jm.Status.OPTIMAL
        np.testing.assert_allclose(twin.cost, ours.cost, rtol=1e-12)
        for res in (ours, twin):
            check = jm.check_transport_points(x, y, a, b, res, metric=metric, **given)
            assert check.valid and check.gap <= 1e-9
    # Other duals prove less, and what moves too much is no plan.
    given |= {"metric": metric}
    other = ours.replace(col_dual=ours.col_dual - 10.0 * (np.arange(7) == ours.cols[0]))
    assert jm.check_transport_points(x, y, a, b, other, **given).gap > 1
    other = ours.replace(mass=ours.mass + (np.arange(ours.mass.size) == 0))
    assert not jm.check_transport_points(x, y, a, b, other, **given).valid


def test_check_in_blocks(monkeypatch):
    """The bound of blocks of rows, of which the last overlaps, is that of the matrix."""
    monkeypatch.setattr("jaxmatch._common.blocks._ON_DEVICE", 3 * 14)
    x, y, a, b, _ = problem(5, 10, 6, batch=(2,), whole=False)
    x, y = np.rint(4 * x), np.rint(4 * y)  # whole distances have no roundings
    res = jm.solve_transport_points(x, y, a, b)
    other = res.replace(col_dual=res.col_dual + np.arange(6) / 8)
    for found in (res, other):
        ours = jm.check_transport_points(x, y, a, b, found)
        assert_same_bits(ours, jm.check_transport(distances(x, y, "sqeuclidean"), a, b, found))
    assert (ours.gap > 0.01).all()


@pytest.mark.parametrize("kind, metric", [
    ("all", "sqeuclidean"), ("all", "euclidean"), ("all", "l1"), ("partial", "euclidean"),
    ("unmatched", "l1"),
])  # fmt: skip
def test_gradient(kind, metric):
    """By finite differences; where sums must agree, along directions that keep them."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    a, b = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4)) * (1 + (kind != "all"))
    more = {"partial": 0.4, "unmatched": 1 + rng.normal(size=5)}.get(kind, 0.0)

    def value(x, y, a, b, more):
        if kind == "all":
            a, b, more = a / a.sum(), b / b.sum(), None
        name = {"partial": "partial", "unmatched": "unmatched_cost"}.get(kind)
        options = {} if name is None else {name: more}
        return jm.solve_transport_points(x, y, a, b, metric=metric, **options).cost

    with x64(True):
        args = tuple(jnp.asarray(p) for p in (x, y, a, b, more))
        check_grads(value, args, order=1, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


def test_gradient_is_finite_beside_nan():
    """Of masked points, of equal points, and of a problem that is not solved."""
    x, y = np.zeros((2, 3, 2), np.float32), np.zeros((2, 2, 2), np.float32)
    x[:, 2], x[1, 0] = np.nan, np.nan

    def value(x):
        mask = jnp.array([True, True, False])
        res = jm.solve_transport_points(
            x, y, jnp.array([1, 1, 7]), jnp.array([1, 1]), metric="euclidean", row_mask=mask
        )
        return jnp.where(res.status == jm.Status.OPTIMAL, res.cost, 0).sum()

    assert (jax.grad(value)(jnp.asarray(x)) == 0).all()


def test_leading_dimensions_broadcast():
    x, y, a, b, _ = problem(7, 12, 9, dtype=np.float32, batch=(2, 3))
    x = x[0, 0]
    res = jm.solve_transport_points(x, y, a, b)
    for k in np.ndindex(2, 3):
        assert_same_bits(res[k], jm.solve_transport_points(x, y[k], a[k], b[k]))
    assert jm.check_transport_points(x, y, a, b, res).valid.shape == (2, 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int32"])
def test_narrow_types_are_computed_in_float32(dtype):
    x, y, a, b, _ = problem(8, 8, 9, dtype=np.float32)
    x, y = (np.asarray(jnp.asarray(4 * p).astype(dtype)) for p in (x, y))
    res = jm.solve_transport_points(jnp.asarray(x), jnp.asarray(y), jnp.asarray(a), jnp.asarray(b))
    wide = (p.astype(np.float32) for p in (x, y))
    expected = jm.solve_transport(jnp.asarray(distances(*wide, "sqeuclidean")), a, b)
    assert_same_bits(res, expected)


def test_warm_start():
    x, y, a, b, _ = problem(9, 80, 60)
    res = jm.solve_transport_points(x, y, a, b)
    for start in (res, res.col_dual + 0.5, np.full(60, np.nan)):
        again = jm.solve_transport_points(x, y, a, b, warm_start=start)
        np.testing.assert_allclose(again.cost, res.cost, rtol=1e-12)
        dense = jm.solve_transport(distances(x, y, "sqeuclidean"), a, b, warm_start=start)
        assert_same_bits(again, dense)


def test_status():
    x, y, a, b, _ = problem(10, 4, 3)
    more = a + (np.arange(4) == 0)
    big = np.where(np.arange(4) == 1, 1e200, x.T).T

    def status(*args, **options):
        return jm.solve_transport_points(*args, **options).status

    assert status(x, y, more, b) == jm.Status.UNBALANCED
    assert status(x, y, a, b, partial=a.sum() + 1) == jm.Status.UNBALANCED
    assert status(x, y, -more, b) == jm.Status.INVALID_MASS
    assert status(x * np.nan, y, a, b) == jm.Status.INVALID_COST
    # An infinite distance forbids a pair, or is a score that cannot be.
    assert status(big, y, np.maximum(a, 1), b * 0, partial=0) == jm.Status.OPTIMAL
    assert status(big, y, np.array([0, 1, 0, 0]), np.array([1, 0, 0])) == jm.Status.INFEASIBLE
    assert status(big, y, a, b, maximize=True) == jm.Status.INVALID_COST


def test_a_forbidden_pair_stays_empty():
    x, y = np.array([[0.0], [1e200]]), np.array([[1.0], [1e200], [0.5]])
    a, b = np.array([3, 2]), np.array([1, 2, 2])
    for options in ({}, {"partial": 4}, {"unmatched_cost": 9.0}):
        res = jm.solve_transport_points(x, y, a, b, **options)
        with np.errstate(over="ignore"):
            dense = jm.solve_transport(distances(x, y, "sqeuclidean"), a, b, **options)
        assert res.status == jm.Status.OPTIMAL and np.isfinite(res.cost)
        assert_same_bits(res, dense)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_no_points(shape):
    n, m = shape
    x, y, a, b = np.ones((n, 2)), np.ones((m, 2)), np.zeros(n, int), np.zeros(m, int)
    for options in ({}, {"partial": 0}, {"unmatched_cost": 1.0}):
        res = jm.solve_transport_points(x, y, a, b, **options)
        assert res.status == jm.Status.OPTIMAL and res.cost == 0
        assert res.rows.shape == (max(n + m - 1, 0),)
        assert jm.check_transport_points(x, y, a, b, res, **options).optimal
    slope = jax.grad(lambda x: jm.solve_transport_points(x, y, a, b).cost)(jnp.asarray(x))
    assert slope.shape == x.shape and (slope == 0).all()
    a = a + 1
    if n:
        assert jm.solve_transport_points(x, y, a, b).status == jm.Status.UNBALANCED


def test_points_of_no_dimension_and_empty_batches():
    a, b = np.array([2, 1]), np.array([1, 1, 1])
    res = jm.solve_transport_points(np.ones((2, 0)), np.ones((3, 0)), a, b)
    assert res.status == jm.Status.OPTIMAL and res.cost == 0
    res = jm.solve_transport_points(np.ones((0, 2, 4)), np.ones((3, 4)), a, b)
    assert res.rows.shape == (0, 4)


MUCH = """
import jax, jax.numpy as jnp, jaxmatch as jm, numpy as np

n, m = 1 << 21, 1100
rng = np.random.default_rng(0)
x, y = (rng.normal(size=(k, 1)).astype(np.float32) for k in (n, m))
a, b = np.zeros(n, np.int32), np.zeros(m, np.int32)
a[::5000], b[::7] = 3, 8
a[0] += b.sum() - a.sum()
res = jm.solve_transport_points(x, y, a, b)
assert res.status == jm.Status.OPTIMAL
small = jm.solve_transport_points(x[a > 0], y[b > 0], a[a > 0], b[b > 0])
assert res.cost == small.cost
np.testing.assert_array_equal(res.mass[: small.mass.size], small.mass)
slope = jax.grad(lambda x: jm.solve_transport_points(x, y, a, b).cost)(jnp.asarray(x))
assert np.isfinite(slope).all() and (np.asarray(slope)[a == 0] == 0).all()
status = open("/proc/self/status").read()  # ru_maxrss would count the process that started this
assert int(status.split("VmHWM:")[1].split()[0]) < 3 << 20, "kilobytes"
"""


def test_more_pairs_than_a_matrix_could_hold():
    """2^21 times 1100 distances, 9 GB; in a process of its own, whose memory is its own."""
    subprocess.run([sys.executable, "-c", MUCH], check=True, timeout=500)


def test_errors():
    x, y, a, b, _ = problem(11, 4, 3)
    solve = jm.solve_transport_points
    for args, options, error, words in [
        ((x[0], y, a, b), {}, ValueError, r"`x` must be points \[..., n, d\]"),
        ((x, y[:, :2], a, b), {}, ValueError, "same dimension"),
        ((x, y, a[1:], b), {}, ValueError, "`supply` must have shape .* point of `x`"),
        ((x, y, a, b[:, None]), {}, ValueError, "`demand` must have shape .* point of `y`"),
        ((np.ones((2, 4, 3)), y, np.ones((3, 4)), b), {}, ValueError, "`x`, `y`, `supply` and"),
        ((x, y, a, b), {"metric": "cityblock"}, ValueError, "`metric` must be one of"),
        ((x, y, a, b), {"method": "sinkhorn"}, ValueError, "`method` must be one of"),
        ((x, y, a, b), {"partial": 1, "unmatched_cost": 1.0}, ValueError, "exclude each other"),
        ((x, y, a, b), {"unmatched_cost": np.ones(3)}, ValueError, "one entry per point of `x`"),
        ((x > 0, y, a, b), {}, TypeError, "`x` must hold real coordinates"),
    ]:
        with pytest.raises(error, match=words):
            solve(*args, **options)
    with pytest.raises(ValueError, match="to go with `x`, `y`, `supply`"):
        jm.check_transport_points(x, y, a, b, solve(y, x, b, a))
