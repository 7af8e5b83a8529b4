"""Distances of clouds, samples and histograms: rational arithmetic, and what always holds."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distance_helpers import compiled, in_x64
from exact import as_fraction
from helpers import assert_same_bits, numpy_dtype, to_numpy, x64
from hypothesis import given, settings
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from transport_truth import Truth

from jaxmatch.losses import earth_mover_distance, histogram_distance, wasserstein_1d


# ---------------------------------------------------------------------------------------------
# Rational arithmetic


def shares(weight: Any, size: int) -> list[Fraction]:
    weight = [Fraction(1)] * size if weight is None else [as_fraction(x) for x in weight]
    return [x / sum(weight) for x in weight]


def cloud_distance(x: Any, y: Any, a: Any = None, b: Any = None) -> Fraction:
    """Of squared distances."""
    truth = Truth(np.zeros((len(x), len(y))), np.zeros(len(x)), np.zeros(len(y)))
    truth.cost = [
        [sum((as_fraction(s) - as_fraction(t)) ** 2 for s, t in zip(p, q, strict=True)) for q in y]
        for p in x
    ]
    truth.supply, truth.demand = shares(a, len(x)), shares(b, len(y))
    best = truth.optimum()
    assert best is not None
    return best


def line_distance(x: Any, y: Any, a: Any = None, b: Any = None, p: int = 1) -> Fraction:
    """The integral over quantiles, a step at a time."""
    sides = []
    for values, weight in ((x, a), (y, b)):
        side = zip([as_fraction(v) for v in values], shares(weight, len(values)), strict=True)
        sides.append([[v, w] for v, w in sorted(side) if w > 0])
    total = Fraction(0)
    (first, second), (i, j) = sides, (0, 0)
    while i < len(first) and j < len(second):
        width = min(first[i][1], second[j][1])
        total += width * abs(first[i][0] - second[j][0]) ** p
        for side, k in ((first, i), (second, j)):
            side[k][1] -= width
        i, j = i + (first[i][1] == 0), j + (second[j][1] == 0)
    return total


def weights(rng: Any, kind: str, n: int) -> Any:
    if kind == "none":
        return None
    return {
        "integers": rng.integers(0, 5, n) + np.eye(n, dtype=int)[0],
        "heavy": 1e-9 * rng.random(n) + np.eye(n)[n // 2],
        "ratios": 10.0 ** rng.integers(-12, 1, n),
        "one": np.eye(n)[-1],
        "huge": 1e300 * rng.random(n),
    }[kind] + 0.0  # fmt: skip


KINDS = ("none", "integers", "heavy", "ratios", "one", "huge")


@pytest.mark.parametrize("kind", KINDS)
def test_clouds_in_rational_arithmetic(kind):
    rng = np.random.default_rng(0)
    for n, m in ((3, 3), (4, 6), (1, 5)):
        x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 1
        for other in (kind, "none"):
            a, b = weights(rng, kind, n), weights(rng, other, m)
            expected = float(cloud_distance(x, y, a, b))
            got = in_x64(earth_mover_distance, x, y, a, b)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
            if kind == "huge":  # no float32
                continue
            floats = (z if z is None else z.astype(np.float32) for z in (x, y, a, b))
            narrow = compiled(earth_mover_distance)(*floats)
            np.testing.assert_allclose(narrow, expected, rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_and_histograms_in_rational_arithmetic(kind, p):
    rng = np.random.default_rng(1)
    for n, m in ((5, 5), (4, 7)):
        x, y = rng.normal(size=n), rng.integers(-2, 3, m) + 0.0
        for other in (kind, "none"):
            a, b = weights(rng, kind, n), weights(rng, other, m)
            expected = float(line_distance(x, y, a, b, p))
            got = in_x64(wasserstein_1d, x, y, a, b, p=p)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
        if kind != "none":
            a, b = weights(rng, kind, m), weights(rng, "integers", m)
            expected = float(line_distance(range(m), range(m), a, b, p))
            got = in_x64(histogram_distance, a, b, p=p)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
            expected = float(line_distance(y, y, a, b, p))
            np.testing.assert_allclose(
                in_x64(histogram_distance, a, b, y, p=p), expected, rtol=1e-12
            )


@pytest.mark.parametrize("loss", ["clouds", "line", "histograms"])
def test_slopes_to_weights_in_rational_arithmetic(loss):
    """Weights of any sum: differences of exact distances along directions that change the sum."""
    rng = np.random.default_rng(2)
    n, m = (5, 5) if loss == "histograms" else (4, 6)
    x, y = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    a, b = rng.integers(1, 9, n) + 0.0, rng.integers(1, 9, m) + 0.0
    way = [rng.integers(-8, 9, k) / 8 for k in (n, m)]
    exact = {
        "clouds": lambda a, b: cloud_distance(x, y, a, b),
        "line": lambda a, b: line_distance(x[:, 0], y[:, 0], a, b),
        "histograms": lambda a, b: line_distance(range(n), range(n), a, b),
    }[loss]
    ours = {
        "clouds": lambda a, b: earth_mover_distance(x, y, a, b),
        "line": lambda a, b: wasserstein_1d(x[:, 0], y[:, 0], a, b),
        "histograms": histogram_distance,
    }[loss]
    step = 2.0**-20
    ends = [exact(a + s * way[0], b + s * way[1]) for s in (step, -step)]
    expected = float((ends[0] - ends[1]) / Fraction(2 * step))
    with x64(True):
        grads = to_numpy(jax.jit(jax.grad(ours, (0, 1)))(jnp.asarray(a), jnp.asarray(b)))
    slope = sum((g * w).sum() for g, w in zip(grads, way, strict=True))
    np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)


def test_against_pot_beside_other_sizes():
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(3)
    for n, m in ((60, 45), (128, 128)):
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) + 1
        for kind in ("integers", "heavy", "ratios"):
            a, b = (w / w.sum() for w in (weights(rng, kind, k) for k in (n, m)))
            expected = ot.emd2(a, b, ot.dist(x, y), numItermax=10**6)
            got = in_x64(earth_mover_distance, x, y, a, b)
            np.testing.assert_allclose(got, expected, rtol=1e-7)
            expected = ot.emd2_1d(x[:, 0], y[:, 0], a, b, metric="cityblock")
            got = in_x64(wasserstein_1d, x[:, 0], y[:, 0], a, b)
            np.testing.assert_allclose(got, expected, rtol=1e-9)


# ---------------------------------------------------------------------------------------------
# Dtypes, repeats, batches, meshes

RNG = np.random.default_rng(4)
X, Y = RNG.integers(-8, 9, (4, 5, 2)) + 0.0, RNG.integers(-8, 9, (4, 7, 2)) + 0.0
A, B = RNG.integers(1, 9, (4, 5)) + 0.0, RNG.integers(1, 9, (4, 7)) + 0.0
LOSSES = {
    "equal sizes": (earth_mover_distance, X, Y[:, :5]),
    "clouds": (earth_mover_distance, X, Y),
    "euclidean": (partial(earth_mover_distance, metric="euclidean"), X, Y, A, B),
    "line": (wasserstein_1d, X[..., 0], Y[..., 0]),
    "weighted line": (partial(wasserstein_1d, p=2), X[..., 0], Y[..., 0], A, B),
    "histograms": (histogram_distance, A, B[:, :5]),
    "placed histograms": (partial(histogram_distance, p=2), A, B[:, :5], X[..., 0]),
}
SOME = ("clouds", "weighted line", "histograms")  # to compile less


def arrays_of(name: str, dtype: Any = np.float32) -> tuple[Any, list[Any]]:
    loss, *arrays = LOSSES[name]
    return loss, [jnp.asarray(x.astype(dtype)) for x in arrays]


@pytest.mark.parametrize("name", SOME)
def test_every_dtype(name, platform):
    """What holds small integers gives one distance, in float32 or float64."""
    expected = in_x64(*LOSSES[name])
    for on, dtypes in ((False, "int8 bfloat16 float32"), (True, "int32 float64")):
        for dtype in dtypes.split():
            with x64(on):
                loss, arrays = arrays_of(name, numpy_dtype(dtype))
                got, wide = loss(*arrays), on and (dtype == "float64" or "earth" in str(loss))
                assert got.shape == (4,)
                assert got.dtype == (jnp.float64 if wide else jnp.float32)
            np.testing.assert_allclose(got, expected, rtol=2e-6)


@pytest.mark.parametrize("name", SOME)
def test_the_same_bits_and_batches(name, platform):
    loss, arrays = arrays_of(name)
    every = tuple(range(len(arrays)))
    run, run_all = jax.jit(jax.value_and_grad(lambda *x: loss(*x).sum(), every)), jax.jit(loss)
    expected = run(*arrays)
    for _ in range(100):
        assert_same_bits(run(*arrays), expected)
    of_each = jax.value_and_grad(loss, every)
    value, grads = jax.jit(jax.vmap(of_each))(*arrays)
    np.testing.assert_allclose(value.sum(), expected[0], rtol=1e-6)
    for x, y in zip(grads, expected[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    # Over one argument alone, twice, and over another axis.
    for k in every:
        axes = [0 if i == k else None for i in every]
        some = [x if i == k else x[0] for i, x in enumerate(arrays)]
        got = jax.jit(jax.vmap(loss, axes))(*some)
        np.testing.assert_allclose(got[0], value[0], rtol=1e-6)
        repeated = [x if i == k else jnp.stack([x] * 4) for i, x in enumerate(some)]
        np.testing.assert_allclose(got, run_all(*repeated), rtol=1e-6)
    nested = [jnp.stack([x, x[::-1]], 1) for x in arrays]
    got = jax.jit(jax.vmap(jax.vmap(loss), 1))(*nested)
    np.testing.assert_allclose(got, np.stack([value, value[::-1]]), rtol=1e-6)


MESHES = [(name, AxisType.Auto) for name in LOSSES]
MESHES += [(name, AxisType.Explicit) for name in SOME[1:]]


@pytest.mark.parametrize("name, axis", MESHES, ids=str)
def test_meshes(name, axis, platform):
    devices = jax.devices(platform)[:4]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    loss, arrays = arrays_of(name)
    expected = jax.jit(loss)(*arrays)
    mesh = jax.make_mesh((len(devices),), ("batch",), axis_types=(axis,), devices=devices)
    over = NamedSharding(mesh, PartitionSpec("batch"))
    with jax.set_mesh(mesh):
        got = jax.jit(loss)(*(jax.device_put(x, over) for x in arrays))
        assert got.sharding.is_equivalent_to(over, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


# ---------------------------------------------------------------------------------------------
# What must hold for all

always_the_same = settings(derandomize=True, deadline=None, database=None, max_examples=40)
seeds = st.integers(0, 2**31)


@always_the_same
@given(seeds, st.sampled_from(["clouds", "line"]))
def test_distances_shift_scale_and_permute(seed, name):
    rng = np.random.default_rng(seed)
    loss, options = (earth_mover_distance, {}) if name == "clouds" else (wasserstein_1d, {"p": 2})
    shape = (2,) if name == "clouds" else ()
    x, y = rng.integers(-9, 10, (4, *shape)) + 0.0, rng.integers(-9, 10, (6, *shape)) + 0.0
    a, b = rng.integers(0, 4, 4) + 1.0, rng.integers(0, 4, 6) + 1.0
    run = partial(in_x64, loss, **options)
    d = run(x, y, a, b)
    p, q = rng.permutation(4), rng.permutation(6)
    near = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    near(run(x[p], y[q], a[p], b[q]), d)
    near(run(y, x, b, a), d)
    near(run(x + 5, y + 5, 3 * a, b / 7), d)
    near(run(-2 * x, -2 * y, a, b), 4 * d)
    near(run(x, x[p], a, a[p]), 0)
    # Of squares, a shift adds the square of the shift and the product with the means' distance.
    means = (b / b.sum()) @ y - (a / a.sum()) @ x
    near(run(x, y + 1, a, b), d + 2 * np.sum(means) + x[0].size)


@always_the_same
@given(seeds)
def test_histograms_are_clouds_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, 6) + 0.0, rng.integers(0, 4, 6) + 0.0
    a[0] += 1
    b[3] += 1
    t = np.arange(6.0)
    for p, metric in ((1, "euclidean"), (2, "sqeuclidean")):
        d = in_x64(histogram_distance, a, b, p=p)
        expected = in_x64(earth_mover_distance, t[:, None], t[:, None], a, b, metric=metric)
        np.testing.assert_allclose(d, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            in_x64(histogram_distance, a, b, t, p=p), d, rtol=1e-9, atol=1e-12
        )
