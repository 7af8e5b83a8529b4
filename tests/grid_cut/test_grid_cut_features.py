"""Grid cuts inside everything that JAX does: gradients, batches, jit, meshes, dtypes, errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grid_cut_helpers import CONNECTIVITIES, STEPS, arcs_of, is_solid, random_grid
from grid_cut_hostile import all_cuts
from helpers import assert_same_bits, x64

import jaxmatch as jm


pytestmark = pytest.mark.usefixtures("platform")


METHODS = ["auto", "xla"]
each_connectivity = pytest.mark.parametrize("connectivity", CONNECTIVITIES)
each_method = pytest.mark.parametrize("method", METHODS)


def shape_of(connectivity):
    return (2, 3, 4) if is_solid(connectivity) else (4, 5)


def real_grid(rng, connectivity, directed, dtype=np.float64):
    """No two cuts have the same capacity."""
    shape = shape_of(connectivity)
    arcs = connectivity if directed else connectivity // 2
    return tuple(rng.random(s).astype(dtype) for s in (shape, shape, (arcs, *shape)))


# ---------------------------------------------------------------------------------------------
# Gradients


@each_connectivity
@each_method
def test_gradient_is_the_cut(method, connectivity):
    rng = np.random.default_rng(connectivity)
    ways = [False, True] if method != "xla" else [connectivity != 4]  # the twin compiles slowly
    for directed in ways:
        given = random_grid(
            rng, shape_of(connectivity), connectivity, dtype=np.float32, directed=directed
        )
        solve = partial(jm.grid_cut, connectivity=connectivity, method=method)
        side = np.asarray(solve(*given).source_side)
        got = jax.jit(jax.grad(lambda *x, s=solve: s(*x).value, argnums=(0, 1, 2)))(*given)
        expected = np.zeros(given[2].size)
        tail, head, _, entry = arcs_of(given[2], connectivity)
        np.add.at(expected, entry[side.ravel()[tail] & ~side.ravel()[head]], 1)
        np.testing.assert_array_equal(got[0], ~side)
        np.testing.assert_array_equal(got[1], side)
        np.testing.assert_array_equal(np.ravel(got[2]), expected)
        # Forward mode says the same, and the value is linear along the cut.
        tangent = tuple(rng.normal(size=x.shape).astype(np.float32) for x in given)
        _, dot = jax.jvp(lambda *x, s=solve: s(*x).value, given, tangent)
        along = sum(float((g * t).sum()) for g, t in zip(got, tangent, strict=True))
        np.testing.assert_allclose(dot, along, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------
# Batches


@each_connectivity
def test_vmap_is_a_loop(connectivity):
    rng = np.random.default_rng(connectivity)
    shape = shape_of(connectivity)
    problems = [random_grid(rng, shape, connectivity, directed=True) for _ in range(6)]
    batch = [np.stack(x).reshape(2, 3, *x[0].shape) for x in zip(*problems, strict=True)]
    solve = partial(jm.grid_cut, connectivity=connectivity)
    loop = [solve(*p) for p in problems]
    expected = jax.tree.map(lambda *x: np.stack(x).reshape(2, 3, *x[0].shape), *loop)
    assert_same_bits(solve(*batch), expected)
    assert_same_bits(jax.vmap(jax.vmap(solve))(*batch), expected)
    # One source for all, or one sink, or one set of arcs, by broadcasting and by vmap.
    for at in range(3):
        mixed = [x[0, 0] if k == at else x[0] for k, x in enumerate(batch)]
        axes = tuple(None if k == at else 0 for k in range(3))
        assert_same_bits(solve(*mixed), jax.vmap(solve, in_axes=axes)(*mixed))


def test_which_dimensions_are_the_grid():
    """A volume with 4 neighbours is a batch of images; the connectivity decides."""
    rng = np.random.default_rng(0)
    volume, arcs = rng.integers(0, 9, (2, 3, 4, 5)), rng.integers(0, 9, (3, 4, 4, 5))
    res = jm.grid_cut(*volume, arcs)
    assert res.value.shape == (3,) and res.source_side.shape == (3, 4, 5)
    res = jm.grid_cut(*volume, arcs, connectivity=8)  # four entries: half of eight directions
    assert res.value.shape == (3,)
    res = jm.grid_cut(*volume, rng.integers(0, 9, (6, 3, 4, 5)), connectivity=6)
    assert res.value.shape == () and res.source_side.shape == (3, 4, 5)


@each_connectivity
def test_directions(connectivity):
    """One arc at a time: it joins exactly the two cells that the documentation says."""
    shape = (3, 3, 3) if is_solid(connectivity) else (3, 3)
    centre = (1,) * len(shape)
    for k, step in enumerate(STEPS[connectivity]):
        there = tuple(np.add(centre, step))
        source, sink = np.zeros((2, *shape), np.int32)
        arcs = np.zeros((connectivity, *shape), np.int32)
        source[centre], sink[there], arcs[(k, *centre)] = 5, 5, 3
        assert jm.grid_cut(source, sink, arcs, connectivity=connectivity).value == 3
        assert jm.grid_cut(sink, source, arcs, connectivity=connectivity).value == 0
        half = connectivity // 2
        if k < half:
            for pair in ((source, sink), (sink, source)):
                res = jm.grid_cut(*pair, arcs[:half], connectivity=connectivity)
                assert res.value == 3


# ---------------------------------------------------------------------------------------------
# Dtypes and errors


@pytest.mark.parametrize("on", [False, True], ids=["32 bits", "x64"])
@each_method
def test_dtypes(method, on):
    rng = np.random.default_rng(0)
    given = random_grid(rng, (3, 4), 4)
    with x64(on):
        value = {"int32": "int64" if on else "int32", "uint8": "int64" if on else "int32"}
        value |= {"float32": "float32", "bfloat16": "float32", "float16": "float32"}
        value |= {"int64": "int64", "float64": "float64"} if on else {}
        expected = jm.grid_cut(*given)
        few = ("uint8", "float64" if on else "float32")  # the twin compiles for seconds
        for dtype, result in value.items():
            if method == "xla" and dtype not in few:
                continue
            wanted = [jnp.asarray(np.clip(x, 0, 100)).astype(dtype) for x in given]
            res = jm.grid_cut(*wanted, method=method)
            assert res.value.dtype == result and float(res.value) == float(expected.value)
            assert res.source_side.dtype == bool and res.status.dtype == np.int32
        mixed = jm.grid_cut(given[0].astype(np.float32), *given[1:])
        assert mixed.value.dtype == np.float32  # as JAX promotes
        assert float(mixed.value) == float(expected.value)


def test_what_is_refused():
    cells, arcs = np.ones((3, 4), np.float32), np.ones((2, 3, 4), np.float32)
    with pytest.raises(ValueError, match="connectivity"):
        jm.grid_cut(cells, cells, arcs, connectivity=5)
    with pytest.raises(ValueError, match="method"):
        jm.grid_cut(cells, cells, arcs, method="nonsense")
    with pytest.raises(ValueError, match=r"pairwise.*\(3, 3, 4\).*connectivity=6"):
        jm.grid_cut(cells, cells, np.ones((3, 3, 4)))
    with pytest.raises(ValueError, match="sink_capacity.*grid"):
        jm.grid_cut(cells, cells[:, 1:], arcs)
    with pytest.raises(ValueError, match=r"source_capacity.*\[..., D, H, W\]"):
        jm.grid_cut(cells, cells, arcs, connectivity=6)
    with pytest.raises(ValueError, match="batch"):
        jm.grid_cut(np.stack([cells] * 2), np.stack([cells] * 3), arcs)
    with pytest.raises(TypeError, match="complex64"):
        jm.grid_cut(cells.astype(np.complex64), cells, arcs)


def test_scan_and_checkpoint():
    rng = np.random.default_rng(0)
    source, sink, pairwise = real_grid(rng, 4, False, np.float32)

    def step(weight, _):
        res = jm.grid_cut(source, sink, weight * pairwise)
        return weight * 0.5, res.value

    _, values = jax.lax.scan(step, jnp.float32(1), length=4)
    for k, value in enumerate(values):
        res = jm.grid_cut(source, sink, np.float32(0.5**k) * pairwise)
        np.testing.assert_allclose(value, res.value, rtol=1e-6)

    def value_of(w):
        return jm.grid_cut(source, sink, w * pairwise).value

    assert jax.grad(jax.checkpoint(value_of))(1.0) == jax.grad(value_of)(1.0)


@pytest.mark.parametrize("method", ["auto", "xla"])
@pytest.mark.parametrize(
    ("connectivity", "directed"),
    [(4, True), (8, True), (6, True), (18, True), (26, True), (4, False), (26, False)],
)
def test_the_cut_nearest_to_the_sink(method, connectivity, directed):
    rng = np.random.default_rng(connectivity)
    shape = (2, 3, 2) if is_solid(connectivity) else (3, 4)
    arcs = connectivity if directed else connectivity // 2
    source, sink = rng.integers(0, 3, (2, 20, *shape)).astype(np.int32)
    pairwise = rng.integers(0, 3, (20, arcs, *shape)).astype(np.int32)
    if connectivity > 8:  # with all of their arcs, few cells would be worth cutting off
        pairwise *= rng.random(pairwise.shape) < 0.2
    options = {"connectivity": connectivity, "method": method}
    near = jm.grid_cut(source, sink, pairwise, **options)
    far = jm.grid_cut(source, sink, pairwise, nearest="sink", **options)
    np.testing.assert_array_equal(near.value, far.value)
    assert (near.source_side != far.source_side).any()
    for k in range(20):
        total, _, part = all_cuts(source[k], sink[k], pairwise[k], connectivity)
        best = np.flatnonzero(total == total.min())
        for cut, sides in ((near, np.bitwise_and), (far, np.bitwise_or)):
            found = int(sum(1 << i for i in np.flatnonzero(np.ravel(cut.source_side[k])).tolist()))
            assert found == sides.reduce(best)


def test_the_gradient_of_the_cut_nearest_to_the_sink():
    source, sink = jnp.array([[2.0, 0, 0]]), jnp.array([[0, 0, 2.0]])
    arcs = jnp.ones((2, 1, 3))
    for nearest, place in (("source", 0), ("sink", 1)):
        slope = jax.grad(lambda x: jm.grid_cut(source, sink, x, nearest=nearest).value)(arcs)  # noqa: B023
        assert slope.ravel().tolist() == [float(k == place) for k in range(6)]
    with pytest.raises(ValueError, match="nearest"):
        jm.grid_cut(source, sink, arcs, nearest="middle")
