"""`res.cost` differentiates to the permutation matrix, also beside masks and bad problems."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

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
