"""Slopes of optima, in every mode of differentiation, for arguments of each float dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import numpy_dtype, x64
from subjects import BATCH, METHODS, SUBJECTS


SMOOTH = [name for name, row in SUBJECTS.items() if row.numbers and row.smooth]
OTHERS = [(name, method) for name, method in METHODS if method != "auto" and name in SMOOTH]
FLOATS = [(name, dtype) for name in SMOOTH for dtype in SUBJECTS[name].dtypes if "float" in dtype]

# Of each problem, some number that no other derivative is a multiple of.
WEIGHTS = np.arange(1, BATCH + 1) * 0.75 - 1.25


def varied(row, dtype, seed=1):
    """Numbers of which no two sums are alike: the optimum has a derivative."""
    rng = np.random.default_rng(seed)
    given = list(row.instance(dtype))
    for at in row.numbers:
        noise = rng.uniform(0, 2**-12, given[at].shape)
        given[at] = jnp.asarray((given[at] + noise).astype(given[at].dtype))
    return jax.tree.map(jnp.asarray, tuple(given))


def total_of(row, solve):
    """A function of the numbers alone: weighted values of the problems of a batch."""

    def total(given, *numbers):
        given = list(given)
        for at, x in zip(row.numbers, numbers, strict=True):
            given[at] = x
        value = getattr(solve(*given), row.value)
        weights = WEIGHTS.reshape(BATCH, *[1] * (value.ndim - 1))
        return (jnp.asarray(weights, value.dtype) * value).sum()

    return total


def numbers_of(row, given):
    return [given[at] for at in row.numbers]


def slopes(row, solve, given):
    every = tuple(range(1, len(row.numbers) + 1))
    return jax.jit(jax.grad(total_of(row, solve), every))(given, *numbers_of(row, given))


def along(grads, ways):
    return sum(float((np.asarray(g) * w).sum()) for g, w in zip(grads, ways, strict=True))


def directions(row, given, seed):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=x.shape), x.dtype) for x in numbers_of(row, given)]


@pytest.mark.parametrize("name", SMOOTH)
def test_differences(name, platform):
    """Optima are linear between ties, or quadratic in points: central differences are exact."""
    row = SUBJECTS[name]
    with x64(True):
        given = varied(row, "float64")
        total, grads = jax.jit(total_of(row, row.call())), slopes(row, row.call(), given)
        for seed in range(3):
            ways, step = directions(row, given, seed), 2**-20
            up, down = (
                total(
                    given, *(x + s * w for x, w in zip(numbers_of(row, given), ways, strict=True))
                )
                for s in (step, -step)
            )
            np.testing.assert_allclose(along(grads, ways), (up - down) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_forward_is_reverse(name):
    """Also through a function of the values, and linearised."""
    row = SUBJECTS[name]
    given = varied(row, "float32")
    total, ways = total_of(row, row.call()), directions(row, given, 0)

    def curved(*numbers):
        return jnp.sin(total(given, *numbers) / 64)

    numbers = numbers_of(row, given)
    reverse = jax.grad(curved, tuple(range(len(numbers))))(*numbers)
    _, forward = jax.jvp(curved, numbers, ways)
    _, pushed = jax.linearize(curved, *numbers)
    np.testing.assert_allclose(forward, along(reverse, ways), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pushed(*ways), forward, rtol=1e-5)


@pytest.mark.parametrize("name", SMOOTH)
def test_transformed(name):
    """By `vmap`, in a scan, under `checkpoint`: the slopes of a batch."""
    row, given = SUBJECTS[name], varied(SUBJECTS[name], "float32")
    expected, one = slopes(row, row.call(), given), row.one()
    shared, own = given[: row.shared], given[row.shared :]
    at = tuple(k - row.shared for k in row.numbers)

    def value(weight, *problem):
        return (weight * getattr(one(*shared, *problem), row.value)).sum()

    weights = jnp.asarray(WEIGHTS, jnp.float32)
    slope = jax.grad(value, tuple(k + 1 for k in at))
    again = jax.grad(jax.checkpoint(value), tuple(k + 1 for k in at))
    ways = {
        "vmap": jax.vmap(slope)(weights, *own),
        "scan": jax.lax.map(lambda x: slope(*x), (weights, *own)),
        "checkpoint": jax.jit(jax.vmap(again))(weights, *own),
    }
    for way, found in ways.items():
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("name, method", OTHERS)
def test_of_every_method(name, method):
    row, given = SUBJECTS[name], varied(SUBJECTS[name], "float32")
    found = slopes(row, row.call(method), given)
    for x, y in zip(found, slopes(row, row.call(), given), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name, dtype", FLOATS)
def test_dtypes(name, dtype):
    """A slope has the dtype of its argument."""
    row = SUBJECTS[name]
    with x64(dtype == "float64"):
        given = jax.tree.map(jnp.asarray, row.instance(dtype))
        for x, slope in zip(numbers_of(row, given), slopes(row, row.call(), given), strict=True):
            assert (slope.dtype, slope.shape) == (numpy_dtype(dtype), x.shape)
            assert np.isfinite(slope.astype(float)).all() and slope.astype(bool).any()


@pytest.mark.parametrize("name", SMOOTH)
def test_failures(name):
    """Nothing flows back to a problem without a value, not even NaN; others keep their slopes."""
    row, given, bad = SUBJECTS[name], varied(SUBJECTS[name], "float32"), 2

    def values(*numbers):
        problem = dict(enumerate(given)) | dict(zip(row.numbers, numbers, strict=True))
        return getattr(row.call()(*problem.values()), row.value)

    numbers = numbers_of(row, given)
    value, pull = jax.vjp(values, *numbers)
    expected = pull(jnp.ones_like(value))
    numbers[0] = numbers[0].at[bad].set(jnp.nan)
    value, pull = jax.vjp(values, *numbers)
    assert np.isnan(value[bad]).all()
    found = pull(jnp.ones_like(value).at[bad].set(jnp.nan))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y.at[bad].set(0))


@pytest.mark.parametrize("name", SMOOTH)
def test_other_fields(name):
    """Duals, plans, flows and gaps have no slope, and integers stop none that others have."""
    row, given = SUBJECTS[name], varied(SUBJECTS[name], "float32")
    problem, at = [*row.problem(given, 0)], row.numbers[0]

    def fields(x):
        problem[at] = x
        res = row.one()(*problem)
        own = [getattr(res, x) for x in vars(res) if x != row.value]
        floats = [x for x in jax.tree.leaves(own) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum((x.astype(jnp.float32).sum() for x in floats), start=jnp.float32(0))

    x = problem[at]
    assert not np.asarray(jax.grad(fields)(x)).any()
    if "int32" in row.dtypes:
        whole = row.problem(row.instance("int32"), 0)
        value_of = lambda: jnp.asarray(getattr(row.one()(*whole), row.value), jnp.float32)  # noqa: E731
        slope = jax.grad(lambda w: (w * value_of()).sum())(2.0)
        assert slope == value_of().sum()


@pytest.mark.parametrize("name", [name for name in SMOOTH if "points" not in name])
def test_second_derivatives(name):
    """Those of the value are 0: between ties it is linear. Its square has others."""
    row, given = SUBJECTS[name], varied(SUBJECTS[name], "float32")
    problem, at = [*row.problem(given, 0)], row.numbers[0]

    def value(x):
        problem[at] = x
        return getattr(row.one()(*problem), row.value).sum()

    x = problem[at]
    (way,) = directions(row, [x], 0) if row.numbers == (0,) else [jnp.ones_like(x)]
    slope = jax.grad(value)(x)
    for twice in (lambda f: jax.jvp(jax.grad(f), (x,), (way,))[1],
                  lambda f: jax.grad(lambda y: (jax.grad(f)(y) * way).sum())(x)):  # fmt: skip
        assert not np.asarray(twice(value)).any()
        expected = 2 * slope * (slope * way).sum()
        np.testing.assert_allclose(twice(lambda x: value(x) ** 2), expected, rtol=1e-5)
