"""Earth mover's distances of clouds, against permutations, POT and finite differences."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distance_helpers import assert_gradient, compiled, in_x64
from scipy.optimize import linear_sum_assignment

import jaxmatch as jm
from jaxmatch.losses import earth_mover_distance


METRICS = ("sqeuclidean", "euclidean", "l1", "cosine")


def clouds(seed, n=6, m=9, d=3, batch=()):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(*batch, n, d)), rng.normal(size=(*batch, m, d)) + 0.5
    return x, y, rng.dirichlet(np.ones(n), batch), rng.dirichlet(np.ones(m), batch)


def distances(x, y, metric):
    if metric == "l1":
        return np.abs(x[:, None] - y).sum(-1)
    if metric == "cosine":
        x, y = (p / np.linalg.norm(p, axis=-1, keepdims=True) for p in (x, y))
        return 1 - x @ y.T
    squares = ((x[:, None] - y) ** 2).sum(-1)
    return squares if metric == "sqeuclidean" else np.sqrt(squares)


# ---------------------------------------------------------------------------------------------
# Clouds of points: values


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_clouds_of_equal_size_are_the_best_of_all_permutations(n, metric):
    x, y, *_ = clouds(n, n, n)
    cost = distances(x, y, metric)
    best = min(cost[range(n), p].mean() for p in itertools.permutations(range(n)))
    np.testing.assert_allclose(in_x64(earth_mover_distance, x, y, metric=metric), best, rtol=1e-12)


@pytest.mark.parametrize("n, m", [(6, 9), (4, 12), (5, 7), (1, 6), (8, 3)])
def test_clouds_of_other_sizes_are_assignments_of_copies(n, m):
    x, y, *_ = clouds(1, n, m)
    size = np.lcm(n, m)
    cost = distances(x, y, "euclidean").repeat(size // n, 0).repeat(size // m, 1)
    best = cost[linear_sum_assignment(cost)].mean()
    got = in_x64(earth_mover_distance, x, y, metric="euclidean")
    np.testing.assert_allclose(got, best, rtol=1e-12)


def test_equal_sizes_are_an_assignment_and_whatever_else_is_not(monkeypatch):
    called = []
    for name in ("solve_assignment", "solve_transport_points"):

        def spy(*args, name=name, **kwargs):
            called.append(name)
            return getattr(jm, name)(*args, **kwargs)

        monkeypatch.setattr(f"jaxmatch.losses.transport.{name}", spy)
    x, y, a, _ = clouds(2, 5, 5)
    given = [{}, {"x_weight": a}, {"y_mask": np.ones(5, bool)}, {"method": "network_simplex"}]
    values = [earth_mover_distance(x, y, **options) for options in given]
    assert called == ["solve_assignment"] + 3 * ["solve_transport_points"]
    np.testing.assert_allclose(values[2:], [values[0]] * 2, rtol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", ["both", "x", "y", "neither"])
def test_weights_as_pot(weighted, metric):
    ot = pytest.importorskip("ot")
    x, y, a, b = clouds(3)
    cost = distances(x, y, metric)
    a = a if weighted in ("both", "x") else None
    b = b if weighted in ("both", "y") else None
    expected = ot.emd2([] if a is None else a, [] if b is None else b, cost)
    got = in_x64(earth_mover_distance, x, y, a, b, metric=metric)
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    of_any_sum = [None if w is None else 7 * w for w in (a, b)]
    got = in_x64(earth_mover_distance, x, y, *of_any_sum, metric=metric)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_points_of_weight_0_do_not_count_and_copies_add_up():
    x, y, a, b = clouds(4)
    expected = in_x64(earth_mover_distance, x, y, a, b)
    more = np.concatenate([x, [[50.0, 0, 0]], x[:2]])
    weight = np.concatenate([a, [0], a[:2] / 2])
    weight[:2] /= 2
    np.testing.assert_allclose(in_x64(earth_mover_distance, more, y, weight, b), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_in_float32_and_on_the_twin(weighted):
    x, y, a, b = clouds(5)
    weights = (a, b) if weighted else (None, None)
    expected = in_x64(earth_mover_distance, x, y, *weights)
    x, y = jnp.asarray(x), jnp.asarray(y)
    for method in ("auto", "network_simplex", "xla"):
        got = compiled(earth_mover_distance, method=method)(x, y, *weights)
        assert got.dtype == jnp.float32 and got.shape == ()
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_half_precision_is_computed_in_float32():
    x, y, a, b = (jnp.asarray(z, jnp.bfloat16) for z in clouds(6))
    got = earth_mover_distance(x, y, a, b)
    expected = earth_mover_distance(*(z.astype(jnp.float32) for z in (x, y, a, b)))
    assert got.dtype == jnp.float32 and got == expected
    x, y = jnp.array([[0], [3]]), jnp.array([[4], [2]])
    assert earth_mover_distance(x, y, metric="euclidean") == 1.5


# ---------------------------------------------------------------------------------------------
# Batches, masks, problems without a distance


@pytest.mark.parametrize("n, m, weighted", [(6, 6, False), (6, 9, False), (6, 9, True)])
def test_batches_against_loops(n, m, weighted):
    x, y, a, b = clouds(7, n, m, batch=(3, 2))
    a, b = (a, b) if weighted else (None, None)
    one = jax.jit(earth_mover_distance)
    got = one(x, y, a, b)
    assert got.shape == (3, 2)
    axes = (0, 0, None, None) if a is None else 0
    twice = jax.jit(jax.vmap(jax.vmap(earth_mover_distance, axes), axes))
    np.testing.assert_allclose(twice(x, y, a, b), got, rtol=1e-6)
    for k in np.ndindex(3, 2):
        weights = (None, None) if a is None else (a[k], b[k])
        np.testing.assert_allclose(one(x[k], y[k], *weights), got[k], rtol=1e-6)


def test_leading_axes_broadcast():
    x, y, a, b = clouds(8, batch=(4,))
    expected = [earth_mover_distance(x[k], y[0], a[k], b[k]) for k in range(4)]
    np.testing.assert_allclose(earth_mover_distance(x, y[0], a, b), expected, rtol=1e-6)
    expected = [earth_mover_distance(x[0], y[0], y_weight=b[k]) for k in range(4)]
    got, grad = jax.value_and_grad(
        lambda x: earth_mover_distance(x, y[0], y_weight=b).sum(), allow_int=True
    )(jnp.asarray(x[0]))
    np.testing.assert_allclose(got, np.sum(expected), rtol=1e-6)
    assert grad.shape == x[0].shape


@pytest.mark.parametrize("weighted, metric", [(k % 2 > 0, x) for k, x in enumerate(METRICS)])
def test_masks_leave_out_padding_that_may_hold_anything(weighted, metric):
    x, y, a, b = clouds(9, 7, 8, batch=(4,))
    rng = np.random.default_rng(10)
    x_mask, y_mask = rng.random((4, 7)) < 0.6, rng.random((4, 8)) < 0.6
    x_mask[:, 0], y_mask[:, 0] = True, True
    masked = [z.copy() for z in (x, y, a, b)]
    for z, mask in zip(masked, (x_mask, y_mask) * 2, strict=True):
        z[~mask] = np.nan

    def loss(x, y, a, b):
        weights = (a, b) if weighted else ()
        given = {"x_mask": x_mask, "y_mask": y_mask, "metric": metric}
        return (lambda v: (v.sum(), v))(earth_mover_distance(x, y, *weights, **given))

    grad_of = jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True)
    (_, values), grads = in_x64(grad_of, *masked)
    for k in range(4):
        cost = distances(x[k][x_mask[k]], y[k][y_mask[k]], metric)
        of_x, of_y = (
            w[k][mask[k]] if weighted else np.ones(mask[k].sum())
            for w, mask in ((a, x_mask), (b, y_mask))
        )
        one = jm.solve_transport(cost, of_x / of_x.sum(), of_y / of_y.sum()).cost
        np.testing.assert_allclose(values[k], one, rtol=1e-12)
    for grad, mask in zip(grads, (x_mask, y_mask) * 2, strict=True):
        assert np.isfinite(grad).all() and not grad[~mask].any()


def test_masks_broadcast():
    x, y, *_ = clouds(11, batch=(3,))
    mask = np.arange(9) < 5
    got = earth_mover_distance(x, y, y_mask=mask, x_mask=np.array([True]))
    np.testing.assert_allclose(got, earth_mover_distance(x, y[:, :5]), rtol=1e-6)
    alone = earth_mover_distance(x[0], y[0], y_mask=np.stack([mask, ~mask]))
    expected = [earth_mover_distance(x[0], y[0, :5]), earth_mover_distance(x[0], y[0, 5:])]
    np.testing.assert_allclose(alone, expected, rtol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_problems_without_a_distance_leave_the_others_alone(metric):
    """NaN, infinities, weights that are negative, no number or all 0, and nothing that exists."""
    x, y, a, b = clouds(12, batch=(8,))
    expected = in_x64(earth_mover_distance, x, y, a, b, metric=metric)
    x[1, 2, 0], x[2, 2, 0] = np.nan, np.inf
    b[3, 4], b[4, 4], a[5] = -0.1, np.nan, 0
    mask = np.arange(8)[:, None] != 6

    def loss(x, y, a, b, mask):
        values = earth_mover_distance(x, y, a, b, y_mask=mask, metric=metric)
        return jnp.where(jnp.isnan(values), 0, values).sum(), values

    (_, got), grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))(
        *map(jnp.asarray, (x, y, a, b)), mask
    )
    assert_alone(got, expected, grads, [0, 7])


@pytest.mark.parametrize("metric", METRICS)
def test_problems_of_equal_sizes_without_a_distance(metric):
    x, y, *_ = clouds(12, 6, 6, batch=(4,))
    expected = in_x64(earth_mover_distance, x, y, metric=metric)
    x[1, 2, 0], y[2, 3, 1] = np.nan, np.inf

    def loss(x, y):
        values = earth_mover_distance(x, y, metric=metric)
        return jnp.where(jnp.isnan(values), 0, values).sum(), values

    (_, got), grads = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(
        jnp.asarray(x), jnp.asarray(y)
    )
    assert_alone(got, expected, grads, [0, 3])


def assert_alone(got, expected, grads, good):
    """Values and gradients of the good ones; NaN and zeros of the others."""
    bad = np.setdiff1d(np.arange(len(got)), good)
    assert np.isnan(got[bad]).all()
    np.testing.assert_allclose(got[np.array(good)], expected[good], rtol=1e-6)
    for grad in map(np.asarray, grads):
        assert np.isfinite(grad).all() and not grad[bad].any()
        assert all(grad[k].any() for k in good)


# ---------------------------------------------------------------------------------------------
# Gradients


@pytest.mark.parametrize("n, m, metric", [*((6, 6, x) for x in METRICS), (6, 9, "euclidean")])
def test_gradient_without_weights(n, m, metric):
    x, y, *_ = clouds(13, n, m, batch=(2,))
    scale = np.array([1.0, -2.0])
    assert_gradient(lambda x, y: (earth_mover_distance(x, y, metric=metric) * scale).sum(), (x, y))


@pytest.mark.parametrize("metric", METRICS)
def test_gradient_to_points_and_weights(metric):
    problem = clouds(14, batch=(2,))
    assert_gradient(lambda *z: earth_mover_distance(*z, metric=metric).sum(), problem)
    x, y, _, b = problem
    assert_gradient(lambda x, y, b: earth_mover_distance(x, y, None, b).sum(), (x, y, b))


def test_gradient_of_a_learnt_metric():
    x, y, a, b = clouds(15)
    weight = np.random.default_rng(16).normal(size=(3, 2))

    def loss(weight, x, y):
        def metric(x, y):
            x, y = (jnp.tanh(jnp.matmul(z, weight)) for z in (x, y))
            return jnp.abs(x[..., :, None, :] - y[..., None, :, :]).sum(-1)

        return earth_mover_distance(x, y, a, b, metric=metric)

    assert_gradient(loss, (weight, x, y))


def test_a_function_is_the_metric_of_its_name():
    def squares(x, y):
        return ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)

    for n, m in ((6, 9), (9, 9)):
        x, y, *weights = clouds(17, n, m, batch=(2,))
        weights = [] if n == m else weights
        f = jax.value_and_grad(lambda x, m, y=y, w=weights: earth_mover_distance(
            x, y, *w, metric=m
        ).sum())  # fmt: skip
        f = jax.jit(f, static_argnums=1)
        got, expected = f(jnp.asarray(x), squares), f(jnp.asarray(x), "sqeuclidean")
        for i, j in zip(got, expected, strict=True):
            np.testing.assert_allclose(i, j, rtol=1e-6, atol=1e-7)


def test_second_derivatives_at_a_fixed_plan():
    """Squared distances to matched points: the Hessian is diagonal."""
    x, y, *_ = clouds(18, 4, 4)
    hessian = in_x64(jax.hessian(earth_mover_distance), x, y).reshape(12, 12)
    np.testing.assert_allclose(hessian, np.eye(12) * 2 / 4, atol=1e-12)


@pytest.mark.parametrize(
    "weighted, metric", [(True, "sqeuclidean"), (False, "euclidean"), (True, "euclidean")]
)
def test_coincident_points_have_a_finite_gradient(weighted, metric):
    x, _, a, _ = clouds(19)
    weights = (a, a) if weighted else ()
    loss = partial(earth_mover_distance, metric=metric)
    both = jax.jit(jax.value_and_grad(lambda x, y: loss(x, y, *weights), argnums=(0, 1)))
    for y in (x, np.concatenate([x[:3], x[:3] + 1]), np.zeros_like(x)):
        value, grads = both(jnp.asarray(x), jnp.asarray(y))
        assert np.isfinite(value) and all(np.isfinite(g).all() for g in grads)
        if y is x:
            assert value == 0 and not any(g.any() for g in grads)
    zeros = jnp.zeros((5, 3))  # all at one place
    value, grad = jax.jit(jax.value_and_grad(loss))(zeros, zeros[:3])
    assert value == 0 and not grad.any()


@pytest.mark.parametrize("weighted", [False, True])
def test_order_of_points_does_not_matter(weighted):
    x, y, a, b = clouds(20)
    rng = np.random.default_rng(21)
    p, q = rng.permutation(6), rng.permutation(9)

    def loss(x, y, a, b):
        return earth_mover_distance(x, y, *((a, b) if weighted else ()))

    grad_of = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    value, grads = in_x64(grad_of, x, y, a, b)
    other, other_grads = in_x64(grad_of, x[p], y[q], a[p], b[q])
    np.testing.assert_allclose(other, value, rtol=1e-12)
    for grad, other, order in zip(grads, other_grads, (p, q, p, q), strict=True):
        np.testing.assert_allclose(other, grad[order], rtol=1e-9, atol=1e-12)


def test_a_point_at_the_origin_has_no_cosine():
    x, y, a, b = clouds(23, batch=(2,))
    x[0, 1] = 0
    value, grad = jax.jit(
        jax.vmap(jax.value_and_grad(partial(earth_mover_distance, metric="cosine")))
    )(x, y, a, b)
    assert np.isnan(value[0]) and not grad[0].any()
    assert np.isfinite(value[1]) and np.isfinite(grad[1]).all() and grad[1].any()


def test_it_is_a_metric_that_moves_with_the_points():
    x, y, a, b = clouds(22)
    z, _, c, _ = clouds(23)
    distance = partial(in_x64, earth_mover_distance, metric="euclidean")
    assert distance(x, z, a, c) <= distance(x, y, a, b) + distance(y, z, b, c)
    np.testing.assert_allclose(distance(x, y, a, b), distance(y, x, b, a), rtol=1e-12)
    shift = np.array([3.0, 0, -4])
    np.testing.assert_allclose(distance(x, x + shift, a, a), 5, rtol=1e-12)
    apart = in_x64(earth_mover_distance, x, x + shift)
    np.testing.assert_allclose(apart, 25, rtol=1e-12)


def test_descent_brings_one_cloud_onto_the_other():
    x, y, *_ = clouds(24, 8, 8, 2)
    step = jax.jit(lambda x: x - 2.0 * jax.grad(earth_mover_distance)(x, jnp.asarray(y)))
    x = jnp.asarray(x)
    for _ in range(40):
        x = step(x)
    assert earth_mover_distance(x, y) < 1e-6


def test_misuse_of_clouds():
    x, y, a, _ = clouds(25)
    with pytest.raises(ValueError, match=r"`x` must have shape \[..., n, d\]"):
        earth_mover_distance(x[0], y)
    with pytest.raises(ValueError, match="must have shape"):
        earth_mover_distance(x, y[:, :2])
    with pytest.raises(ValueError, match="n, m >= 1"):
        earth_mover_distance(x[:0], y)
    with pytest.raises(ValueError, match="`y_weight` must have shape"):
        earth_mover_distance(x, y, a, a)
    with pytest.raises(ValueError, match="`x_mask` must have shape"):
        earth_mover_distance(x, y, x_mask=np.ones(5, bool))
    with pytest.raises(TypeError, match="`x_mask` must be bool"):
        earth_mover_distance(x, y, x_mask=np.ones(6))
    with pytest.raises(ValueError, match="`metric`.*cosine.*function of x and y.*got 'l2'"):
        earth_mover_distance(x, y, metric="l2")
    with pytest.raises(ValueError, match="`metric` must return"):
        earth_mover_distance(x, y, metric=lambda x, y: jnp.zeros((3, 3)))
    with pytest.raises(ValueError, match="method"):
        earth_mover_distance(x, x, method="sinkhorn")
    with pytest.raises(ValueError, match="broadcast"):
        earth_mover_distance(np.stack([x, x]), np.stack([y, y, y]))
