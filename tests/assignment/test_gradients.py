"""`res.cost` differentiates to the permutation matrix, in every mode and transformation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, x64
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import jaxmatch as jm


RNG = np.random.default_rng(0)
COSTS = RNG.random((4, 5)).astype(np.float32)
BATCH = RNG.random((2, 3, 4, 5)).astype(np.float32)


def value(costs, unmatched_cost=None, **given):
    return jm.solve_assignment(costs, unmatched_cost=unmatched_cost, **given).cost


def matrix(res):
    """One-hot rows of the matched columns, zero rows where unmatched or not solved."""
    return jax.nn.one_hot(res.col4row, res.row4col.shape[-1])


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_reverse_and_forward_mode(transform, method):
    f = partial(value, method=method)
    expected = matrix(jm.solve_assignment(COSTS, method=method))
    np.testing.assert_array_equal(transform(jax.grad(f))(COSTS), expected)
    np.testing.assert_array_equal(transform(jax.jacfwd(f))(COSTS), expected)
    np.testing.assert_array_equal(transform(jax.jacrev(f))(COSTS), expected)
    out, dot = transform(lambda c, t: jax.jvp(f, (c,), (t,)))(COSTS, COSTS)
    assert out == value(COSTS)
    np.testing.assert_allclose(dot, (COSTS * expected).sum(), rtol=1e-6)
    linear = jax.linear_transpose(lambda t: jax.jvp(f, (COSTS,), (t,))[1], COSTS)
    np.testing.assert_array_equal(linear(jnp.float32(2))[0], 2 * expected)


def test_batches_vmap_scan_and_checkpoint():
    weights = jnp.arange(1.0, 7.0).reshape(2, 3)
    res = jm.solve_assignment(BATCH)
    expected = weights[..., None, None] * matrix(res)

    def scanned(costs):
        step = jax.checkpoint(lambda total, x: (total + x[1] @ value(x[0]), None))
        return jax.lax.scan(step, 0.0, (costs, weights))[0]

    losses = {
        "batch": lambda c: (weights * value(c)).sum(),
        "vmap": lambda c: (weights * jax.vmap(jax.vmap(value))(c)).sum(),
        "checkpoint": jax.checkpoint(lambda c: (weights * value(c)).sum()),
        "scan": scanned,
        "map": lambda c: (weights * jax.lax.map(value, c)).sum(),
    }
    for name, loss in losses.items():
        np.testing.assert_array_equal(jax.grad(loss)(BATCH), expected, err_msg=name)
        np.testing.assert_array_equal(jax.jit(jax.grad(loss))(BATCH), expected, err_msg=name)
    each = jax.vmap(jax.vmap(jax.grad(value)))(BATCH)
    np.testing.assert_array_equal(each, matrix(res))


def test_through_what_made_the_costs():
    """Points that are matched attract each other: the chain rule goes on behind the costs."""
    a, b = RNG.random((6, 2)), RNG.random((8, 2))

    def loss(a, b):
        return value(((a[:, None] - b[None]) ** 2).sum(-1))

    col = jm.solve_assignment(((a[:, None] - b[None]) ** 2).sum(-1)).col4row
    da, db = jax.jit(jax.grad(loss, argnums=(0, 1)))(a, b)
    np.testing.assert_allclose(da, 2 * (a - b[col]), rtol=1e-5)
    np.testing.assert_allclose(db[col], 2 * (b[col] - a), rtol=1e-5)
    assert (np.delete(db, col, 0) == 0).all()


def reverse_twice(f):
    return jax.jacrev(jax.jacrev(f))


def forward_then_reverse(f):
    return jax.jacrev(jax.jacfwd(f))


def test_hessian_is_zero():
    for hessian in (jax.hessian, reverse_twice, forward_then_reverse):
        np.testing.assert_array_equal(hessian(value)(COSTS), np.zeros((4, 5, 4, 5)))


def test_second_derivatives_of_a_function_of_the_value():
    """The value's own are zero, but d²(z²) = 2 dz dz."""
    p = matrix(jm.solve_assignment(COSTS))
    expected = 2 * jnp.tensordot(p, p, 0)
    for twice in (jax.hessian, reverse_twice, forward_then_reverse):
        np.testing.assert_array_equal(twice(lambda c: value(c) ** 2)(COSTS), expected)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("shape", [(5, 5), (4, 6), (6, 4)], ids=str)
def test_finite_differences(shape, maximize):
    """Central differences, for costs, and for unmatched costs as well, off the ties."""
    rng = np.random.default_rng(shape)
    with x64(True):
        costs, r = jnp.array(rng.random(shape)), jnp.array(rng.random(shape[0]))
        masks = {"row_mask": np.arange(shape[0]) != 1, "col_mask": np.arange(shape[1]) != 2}
        both = (costs,), (costs, r)
        for given, args in zip(({}, masks), both[::-1] if maximize else both, strict=True):
            f = partial(value, maximize=maximize, **given)
            check_grads(f, args, order=1, eps=1e-6, rtol=1e-6)


@pytest.mark.parametrize("maximize", [False, True])
def test_unmatched_cost(maximize):
    costs = RNG.normal(size=(3, 6, 4)).astype(np.float32)
    r = RNG.normal(size=(3, 6)).astype(np.float32) / 2
    f = partial(value, maximize=maximize)
    res = jm.solve_assignment(costs, unmatched_cost=r, maximize=maximize)
    alone = np.asarray(res.col4row) < 0
    assert alone.any() and not alone.all()
    dc, dr = jax.grad(lambda c, r: f(c, r).sum(), argnums=(0, 1))(costs, r)
    np.testing.assert_array_equal(dc, matrix(res))
    np.testing.assert_array_equal(dr, alone)
    np.testing.assert_array_equal(jax.grad(lambda r: f(costs, r).sum())(r), alone)
    forward = jax.jvp(lambda r: f(costs, r), (r,), (2 * jnp.ones_like(r),))[1]
    np.testing.assert_array_equal(forward, 2 * alone.sum(-1))
    # One number for all rows: as many as stay unmatched.
    res = jm.solve_assignment(costs, unmatched_cost=0.1, maximize=maximize)
    limit = jax.grad(lambda r: f(costs, r).sum())(jnp.float32(0.1))
    assert limit == int((res.col4row < 0).sum())


def test_masked_rows_have_no_gradient():
    """Not in the costs, where NaN may stand, and not in what leaving them would cost."""
    mask = np.array([True, False, True, True])
    costs = np.where(mask[:, None], COSTS, np.nan)
    r = np.where(mask, 0.3, np.nan).astype(np.float32)
    dc, dr = jax.grad(partial(value, row_mask=mask), argnums=(0, 1))(costs, r)
    res = jm.solve_assignment(costs, row_mask=mask, unmatched_cost=r)
    np.testing.assert_array_equal(dc, matrix(res))
    np.testing.assert_array_equal(dr, mask & (res.col4row < 0))


def test_integer_costs_beside_a_float_unmatched_cost():
    costs = np.array([[3, 5], [4, 9]], np.int32)
    out, gradient = jax.value_and_grad(lambda r: value(costs, r))(jnp.float32(3.5))
    assert (out, gradient) == (6.5, 1.0)
    # And the other way round: float costs, an integer limit.
    gradient = jax.grad(lambda c: value(c, 3))(costs.astype(np.float32))
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 0]])


def test_integers_have_no_gradient_but_do_not_stop_one():
    costs = np.array([[3, 5], [4, 9]], np.int32)
    assert jax.grad(lambda w: w * value(costs))(2.0) == 9.0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_gradient_has_the_dtype_of_the_costs(dtype):
    with x64(dtype == "float64"):
        costs = jnp.array(COSTS.astype(numpy_dtype(dtype)))
        gradient = jax.grad(value)(costs)
        assert gradient.dtype == costs.dtype
        np.testing.assert_array_equal(gradient.astype(float), matrix(jm.solve_assignment(costs)))
        dot = jax.jvp(value, (costs,), (jnp.ones_like(costs),))[1]
        assert (dot.dtype, dot) == (value(costs).dtype, 4)
        narrow = jax.grad(partial(value, jnp.float32(COSTS)))(jnp.full(4, 0.05, costs.dtype))
        assert narrow.dtype == costs.dtype


LOSSES = {
    "sum": jnp.sum,
    "multiply": lambda v: (3 * v).sum(),
    "square": lambda v: (v**2).sum(),
    "exp": lambda v: jnp.exp(v).sum(),
    "log": lambda v: jnp.log(v).sum(),
    "where": lambda v: jnp.where(jnp.isnan(v), 0, v**2).sum(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_no_nan_reaches_a_parameter_behind_the_costs(loss):
    """The loss is NaN, and sends NaN back; what the good problems send on is all that arrives."""
    marks = np.ones((5, 4, 5))
    marks[1, 0, 0], marks[2, 1], marks[3, 2, 2] = np.nan, np.inf, -np.inf
    features = np.stack([COSTS] * 5)

    def f(parameters, features):
        costs = jnp.where(marks == 1, parameters[:, None, None] * features, marks)
        return loss(value(costs))

    dp, df = jax.jit(jax.grad(f, argnums=(0, 1)))(jnp.full(5, 2.0), features)
    good = np.array([0, 4])
    for gradient in (dp, df):
        np.testing.assert_array_equal(gradient[1:4], 0)
        assert np.isfinite(gradient).all() and gradient[good].any()
    out = value(2 * features[0])
    slope = jax.grad(lambda v: loss(v[None]))(out)
    np.testing.assert_allclose(dp[good], slope * out / 2, rtol=1e-6)


def test_gradients_of_bad_problems_are_zero_and_the_others_right():
    bad = np.stack([COSTS] * 4)
    bad[1, 0, 0], bad[2, 1], bad[3, 2, 2] = np.nan, np.inf, -np.inf
    good = matrix(jm.solve_assignment(COSTS))
    expected = np.stack([good, 0 * good, 0 * good, 0 * good])
    np.testing.assert_array_equal(jax.grad(lambda c: value(c).sum())(bad), expected)
    np.testing.assert_array_equal(jax.vmap(jax.grad(value))(bad), expected)
    np.testing.assert_array_equal(jax.vmap(jax.jacfwd(value))(bad), expected)
    r = jnp.array([[1.0] * 4, [jnp.nan] * 4])
    _, dr = jax.grad(lambda c, r: value(c, r).sum(), argnums=(0, 1))(bad[:2], r)
    assert (dr[1] == 0).all()


def test_other_fields_carry_no_gradient():
    def f(costs):
        res = jm.solve_assignment(costs)
        return res.row_dual.sum() + res.col_dual.sum() + res.gap

    np.testing.assert_array_equal(jax.grad(f)(COSTS), 0)
    np.testing.assert_array_equal(jax.jvp(f, (COSTS,), (COSTS,))[1], 0)


@pytest.mark.parametrize("method", ["auto", "xla"])
def test_shard_map_over_four_devices(method):
    devices = jax.devices("cpu")
    if len(devices) < 4:
        pytest.skip("needs --xla_force_host_platform_device_count=4")
    mesh = Mesh(np.array(devices[:4]), ("batch",))
    over, everywhere = PartitionSpec("batch"), PartitionSpec()
    shard = partial(jax.shard_map, mesh=mesh)
    rng = np.random.default_rng(1)
    costs = jnp.array(rng.random((8, 6, 7)), jnp.float32)
    r = jnp.array(rng.random((8, 6)), jnp.float32) / 3

    def loss(weight, costs, r):  # a sum over all devices, and a weight that all of them share
        return (value(weight * costs, r, method=method) ** 2).sum()

    def local_loss(weight, costs, r):
        return jax.lax.psum(loss(weight, costs, r), "batch")

    sharded = shard(local_loss, in_specs=(everywhere, over, over), out_specs=everywhere)
    ours, theirs = (
        jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2)))(jnp.float32(0.7), costs, r)
        for f in (sharded, loss)
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    each = shard(partial(value, method=method), in_specs=(over, over), out_specs=over)
    np.testing.assert_array_equal(jax.jit(each)(costs, r), value(costs, r, method=method))
