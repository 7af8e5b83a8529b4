"""Grid cuts of numbers from both ends of their dtypes: every solve ends, and with a minimum cut."""

import subprocess
import sys

import grid_cut_hostile as hostile
import jax.numpy as jnp
import numpy as np
import pytest
from grid_cut_helpers import CONNECTIVITIES, assert_minimum, exact_cut
from helpers import problem, to_numpy, x64

import jaxmatch as jm
from jaxmatch._grid_cut.xla import _sum_below


pytestmark = pytest.mark.usefixtures("platform")
each_connectivity = pytest.mark.parametrize("connectivity", CONNECTIVITIES)
each_method = pytest.mark.parametrize("method", ["auto", "xla"])


def check(shape, connectivity, dtype, *, method="auto", count, seed, bits=59, denormal=True):
    rng = np.random.default_rng(seed)
    problems = [
        hostile.hostile_grid(
            rng, shape, connectivity, dtype, directed=seed % 2 == 0, denormal=denormal
        )
        for _ in range(count)
    ]
    batch = tuple(np.stack(x) for x in zip(*problems, strict=True))
    res = to_numpy(jm.grid_cut(*batch, connectivity=connectivity, method=method))
    most = None if dtype.startswith("f") else np.iinfo(res.value.dtype).max
    for k, given in enumerate(problems):
        found = problem((res.value, res.source_side, res.status), k)
        hostile.assert_right(*found, given, connectivity, bits=bits, most=most)


@each_connectivity
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_native(dtype, connectivity, platform):
    # A GPU runs the twin, which takes denormal numbers for 0, where cells have many neighbours.
    denormal = platform == "cpu" or connectivity <= 8
    with x64(True):
        for seed, shape in enumerate(hostile.SHAPES[connectivity]):
            check(shape, connectivity, dtype, count=60, seed=seed, denormal=denormal)


@pytest.mark.parametrize(("connectivity", "wide"), [(4, True), (6, True), (4, False), (8, False)])
def test_twin(connectivity, wide):
    shape, dtype = hostile.SHAPES[connectivity][1], "float64" if wide else "float32"
    with x64(wide):
        check(shape, connectivity, dtype, method="xla", count=150, seed=connectivity,
              bits=59 if wide else 29, denormal=False)  # fmt: skip


@pytest.mark.parametrize("count, most", [(8_700_000, 511), (3, 2**31 - 1), (3, 2**30)])
def test_sums_of_the_twin_do_not_wrap_around(count, most):
    """Of as many numbers of 32 bits as large grids have."""
    terms = [np.full(count, most, np.int32), np.full(2, 3, np.int32)]
    exact, limit = sum(int(x.astype(object).sum()) for x in terms), 2**31
    total, fits = _sum_below([jnp.asarray(x) for x in terms], limit)
    assert bool(fits) == (exact < limit) and int(total) % 2**32 == exact % 2**32


@each_connectivity
def test_denormal_sources_alone(connectivity):
    """No sink takes anything: what sources reach over infinite arcs is on their side."""
    rng = np.random.default_rng(connectivity)
    shape = hostile.SHAPES[connectivity][-1]
    for dtype in ("float32", "float64"):
        least = np.finfo(dtype).smallest_subnormal
        source = (rng.integers(0, 4, (50, *shape)) * least).astype(dtype)
        pairwise = np.where(rng.random((50, connectivity, *shape)) < 0.5, np.inf, 0).astype(dtype)
        with x64(True):
            res = jm.grid_cut(source, 0 * source, pairwise, connectivity=connectivity)
        for k in range(50):
            one = (source[k], 0 * source[k], pairwise[k])
            assert_minimum(problem(to_numpy(res), k), *one, connectivity)


@each_method
def test_differences_beyond_the_dtype(method):
    """Capacities are integers, and what is left of two of them is one to the last bit."""
    for dtype in ("float32", "float64"):
        with x64(dtype == "float64"):
            for given in hostile.differences_beyond(dtype):
                res = jm.grid_cut(*given, method=method)
                value, side = exact_cut(*given, 4)
                assert res.value == np.dtype(dtype).type(float(value))
                np.testing.assert_array_equal(res.source_side, side)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_method
def test_finite_cuts_beyond_all_floats(method, dtype):
    most, inf = np.finfo(dtype).max, np.inf
    with x64(dtype == "float64"):
        arcs = jnp.zeros((2, 1, 2), dtype)
        # Cells on their own: the first costs `most` on either side.
        for second, value, status in (
            ([0, 0], most, jm.Status.OPTIMAL),
            ([most, inf], np.nan, jm.Status.OVERFLOW),
            ([inf, inf], inf, jm.Status.OPTIMAL),
        ):
            source = jnp.array([[most, second[0]]], dtype)
            sink = jnp.array([[most, second[1]]], dtype)
            res = jm.grid_cut(source, sink, arcs, method=method)
            np.testing.assert_array_equal(res.value, value)
            assert res.status == status
            assert status == jm.Status.OPTIMAL or not res.source_side.any()


# What did not end once must not stop the other tests, so another process solves it.
_ENDLESS = """
import jax, numpy as np
import jaxmatch as jm

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
X, inf = np.finfo(float).max, np.inf
s, t = np.array([[0, 1], [0, inf]]), np.array([[1, 0], [X, 0]])
p = np.zeros((4, 2, 2))
p[1, 0, 0] = p[2, 0, 1] = inf
p[3, 1, 1] = X
for dtype in (float, np.float32):
    s, t, p = (np.where(x == X, np.finfo(dtype).max, x).astype(dtype) for x in (s, t, p))
    res = jm.grid_cut(s, t, p)
    assert res.value == np.finfo(dtype).max and res.status == 0
    assert np.array_equal(res.source_side, [[False, False], [False, True]])

# A power of two is a change of units: the cut stays the same.
rng = np.random.default_rng(0)
for size, connectivity, exponent, seeds in ((64, 8, 1010, 0), (300, 4, 1007, 0), (64, 8, 1010, 1)):
    given = [rng.random(shape) for shape in 2 * [(size, size)] + [(connectivity, size, size)]]
    if seeds:
        given[0][:2], given[1][-2:], given[2][:, 8] = np.inf, np.inf, np.inf
    res = jm.grid_cut(*given, connectivity=connectivity)
    huge = jm.grid_cut(*(np.ldexp(x, exponent) for x in given), connectivity=connectivity)
    assert np.isfinite(res.value)
    value = np.ldexp(float(res.value), exponent)
    if np.isfinite(value):
        assert huge.value == value and np.array_equal(huge.source_side, res.source_side)
    else:
        assert huge.status == jm.Status.OVERFLOW
    tiny = jm.grid_cut(*(np.ldexp(x, -700) for x in given), connectivity=connectivity)
    assert np.array_equal(tiny.source_side, res.source_side)
"""


def test_greatest_doubles_beside_infinity():
    done = subprocess.run(
        [sys.executable, "-c", _ENDLESS], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
