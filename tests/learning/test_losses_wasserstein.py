"""Wasserstein distances on a line, against scipy, POT, solvers and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distance_helpers import assert_gradient, compiled, in_x64
from scipy.stats import wasserstein_distance

import jaxmatch as jm
from jaxmatch.losses import earth_mover_distance, histogram_distance, wasserstein_1d


def samples(seed, n=6, m=9, batch=()):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(*batch, n)), 2 * rng.normal(size=(*batch, m)) - 1
    return x, y, rng.dirichlet(np.ones(n), batch), rng.dirichlet(np.ones(m), batch)


@pytest.mark.parametrize("k", range(5))
def test_line_as_scipy(k):
    """Each size has weights on both sides, and one of the other combinations."""
    n, m = [(6, 9), (7, 7), (1, 5), (8, 4), (100, 33)][k]
    x, y, a, b = samples(30, n, m)
    one = [(None, None), (a, None), (None, b)][k % 3]
    for weights in ((a, b), (5 * a, b), one):
        got = in_x64(wasserstein_1d, x, y, *weights)
        np.testing.assert_allclose(got, wasserstein_distance(x, y, *weights), rtol=1e-12)
    got = compiled(wasserstein_1d)(jnp.asarray(x), jnp.asarray(y), *one)
    assert isinstance(got, jax.Array) and got.dtype == jnp.float32
    np.testing.assert_allclose(got, wasserstein_distance(x, y, *one), rtol=1e-5)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_line_as_pot(p):
    ot = pytest.importorskip("ot")
    x, y, a, b = samples(31)
    for weights in ((None, None), (a, None), (a, b)):
        got = in_x64(wasserstein_1d, x, y, *weights, p=p)
        np.testing.assert_allclose(got, ot.wasserstein_1d(x, y, *weights, p=p), rtol=1e-9)


@pytest.mark.parametrize("n, m", [(6, 9), (7, 7)])
def test_line_as_clouds_of_one_dimension(n, m):
    x, y, a, b = samples(32, n, m, (3,))
    for metric, p in (("euclidean", 1), ("sqeuclidean", 2)):
        for weights in ((), (a, b)):
            expected = in_x64(
                earth_mover_distance, x[..., None], y[..., None], *weights, metric=metric
            )
            np.testing.assert_allclose(in_x64(wasserstein_1d, x, y, *weights, p=p), expected)


def test_ties_on_a_line():
    rng = np.random.default_rng(33)
    for _ in range(20):
        x, y = rng.integers(0, 4, 6).astype(float), rng.integers(0, 4, 9).astype(float)
        a, b = rng.integers(0, 3, 6) + 0.0, rng.integers(0, 3, 9) + 0.0
        a[0], b[0] = 1, 1
        expected = wasserstein_distance(x, y, a, b)
        np.testing.assert_allclose(in_x64(wasserstein_1d, x, y, a, b), expected, atol=1e-14)


def test_many_samples_in_float32():
    rng = np.random.default_rng(34)
    x, y = rng.normal(size=100_000), rng.normal(size=70_001) + 0.1
    a = rng.random(100_000)
    for weight in (None, a):
        got, expected = wasserstein_1d(x, y, weight), wasserstein_distance(x, y, weight)
        np.testing.assert_allclose(got, expected, rtol=1e-4)


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_gradient_on_a_line(p):
    x, y, a, b = samples(35, batch=(2,))
    assert_gradient(lambda *z: wasserstein_1d(*z, p=p).sum(), (x, y, a, b))
    assert_gradient(lambda *z: wasserstein_1d(*z, p=p).sum(), (x, y))
    assert_gradient(lambda *z: wasserstein_1d(*z, p=p).sum(), (x, y[:, :6]))


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_gradient_at_the_minimum_is_zero(p):
    """Where the distance is 0, and at ties, of which the subgradients contain 0."""
    x = jnp.asarray([0.3, -1.0, 2.0, 2.0])
    assert not jax.grad(lambda x: wasserstein_1d(x, jnp.asarray(x), p=p))(x).any()
    assert not jax.grad(wasserstein_1d)(x, x, p=p).any()
    weight = jnp.asarray([0.25, 0.5, 0.125, 0.125])
    if p == 1:
        assert not jax.grad(histogram_distance)(weight, weight).any()


def test_line_batches_against_loops_and_coincident_samples():
    x, y, a, b = samples(36, batch=(3, 2))
    got = compiled(wasserstein_1d)(x, y, a, b[0, 0])
    for k in np.ndindex(3, 2):
        expected = compiled(wasserstein_1d)(x[k], y[k], a[k], b[0, 0])
        np.testing.assert_allclose(got[k], expected, rtol=1e-6)
    one = jax.vmap(lambda x, y, a: wasserstein_1d(x, y, a, b[0, 0]))
    mapped = jax.jit(jax.vmap(one))(x, y, a)
    np.testing.assert_allclose(mapped, got, rtol=1e-6)
    for p in (1, 1.5, 2):
        for weights in ((), (a, a)):
            value, grad = jax.jit(jax.value_and_grad(lambda x, w=weights, p=p: wasserstein_1d(
                x, x[0, :1], *w, p=p
            )[0, 0]))(jnp.asarray(x))  # fmt: skip
            assert value == 0 and np.isfinite(grad).all()


def test_line_without_a_distance():
    x, y, a, b = samples(37, batch=(5,))
    x[1, 0], x[2, 0], y[2, 0], a[3, 0], b[4] = np.nan, np.inf, np.inf, -1, 0

    def loss(x, y, a, b):
        values = wasserstein_1d(x, y, a, b)
        return jnp.where(jnp.isnan(values), 0, values).sum(), values

    grad_of = jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True)
    (_, values), grads = grad_of(*(jnp.asarray(z) for z in (x, y, a, b)))
    assert np.isnan(values).tolist() == [False] + [True] * 4
    assert all(np.isfinite(g).all() and g[0].any() and not g[1:].any() for g in grads)


def test_histograms_as_scipy():
    rng = np.random.default_rng(38)
    a, b, t = rng.random((3, 8)), rng.random((3, 8)), rng.normal(size=(3, 8))
    got, placed = in_x64(histogram_distance, a, b), in_x64(histogram_distance, a, b, t)
    for k in range(3):
        expected = wasserstein_distance(np.arange(8), np.arange(8), a[k], b[k])
        np.testing.assert_allclose(got[k], expected, rtol=1e-12)
        expected = wasserstein_distance(t[k], t[k], a[k], b[k])
        np.testing.assert_allclose(placed[k], expected, rtol=1e-12)
    np.testing.assert_allclose(in_x64(histogram_distance, a, b, t[0])[0], placed[0], rtol=1e-12)
    squares = ((t[0][:, None] - t[0]) ** 2)[None]
    masses = [z / z.sum(-1, keepdims=True) for z in (a, b)]
    expected = in_x64(lambda c, a, b: jm.solve_transport(c, a, b).cost, squares, *masses)
    np.testing.assert_allclose(in_x64(histogram_distance, a, b, t[0], p=2), expected, rtol=1e-9)


def test_gradient_of_histograms():
    rng = np.random.default_rng(39)
    a, b, t = rng.random((2, 8)), rng.random((2, 8)), rng.normal(size=8)
    for p in (1, 2):
        assert_gradient(lambda *z, p=p: histogram_distance(*z, p=p).sum(), (a, b, t))
    assert_gradient(lambda *z: histogram_distance(*z).sum(), (a, b))


def test_histograms_without_a_distance():
    a = jnp.array([[1.0, 2], [0, 0], [-1, 2], [jnp.nan, 1]])
    got, grad = jax.value_and_grad(lambda a: jnp.nansum(histogram_distance(a, a[:1] + 1)))(a)
    assert np.isnan(histogram_distance(a, a[:1])).tolist() == [False] + [True] * 3
    assert np.isfinite(got) and np.isfinite(grad).all() and not grad[1:].any()


def test_misuse_on_a_line():
    x, y, a, _ = samples(40)
    with pytest.raises(ValueError, match="`p` must be at least 1"):
        wasserstein_1d(x, y, p=0.5)
    with pytest.raises(ValueError, match="n, m >= 1"):
        wasserstein_1d(x, y[:0])
    with pytest.raises(ValueError, match="`y_weight` must have shape"):
        wasserstein_1d(x, y, a, a)
    with pytest.raises(ValueError, match="`a` and `b` must have shape"):
        histogram_distance(x, y)
    with pytest.raises(ValueError, match="`positions` must have shape"):
        histogram_distance(a, a, y)
    with pytest.raises(ValueError, match="`p` must be at least 1"):
        histogram_distance(a, a, p=0)
