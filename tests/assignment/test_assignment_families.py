"""Families of costs that break solvers, in every dtype, each result proved in exact arithmetic."""

from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    DTYPES,
    assert_checked,
    assert_failed,
    assert_proved,
    exact_optimum,
    numpy_dtype,
    x64,
)

import jaxmatch as jm


Generator = Callable[[np.random.Generator, int, int], np.ndarray]


def index(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(1, n + 1)[:, None] + 0.0, np.arange(1, m + 1)[None, :] + 0.0


def points(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    a, b = rng.random((n, 1, 2)), rng.random((1, m, 2))
    return ((a - b) ** 2).sum(-1)


def forbid(rng: np.random.Generator, costs: np.ndarray, share: float) -> np.ndarray:
    """Forbids a share of the pairs, but leaves an assignment."""
    n, m = costs.shape
    keep = rng.random((n, m)) >= share
    k = min(n, m)
    keep[rng.permutation(n)[:k], rng.permutation(m)[:k]] = True
    return np.where(keep, costs, np.inf)


# Non-zero magnitudes within a factor of 2^28/n: solved without rounding, in every narrow dtype.
MODERATE: dict[str, Generator] = {
    "ties": lambda g, n, m: g.integers(0, 3, (n, m)) + 0.0,
    "uniform": lambda g, n, m: g.random((n, m)),
    "normal": lambda g, n, m: g.normal(size=(n, m)).round(3),
    "all equal": lambda g, n, m: np.full((n, m), 0.1),
    "all zero": lambda g, n, m: np.zeros((n, m)),
    "mostly forbidden": lambda g, n, m: forbid(g, g.random((n, m)), 0.8),
    "forbidden ties": lambda g, n, m: forbid(g, g.integers(0, 2, (n, m)) + 0.0, 0.5),
    "one assignment": lambda g, n, m: forbid(g, g.random((n, m)), 1.0),
    "Machol-Wien": lambda g, n, m: index(n, m)[0] * index(n, m)[1],
    "rank one": lambda g, n, m: g.integers(1, 40, (n, 1)) * g.integers(-40, 0, (1, m)) + 0.0,
    "points": points,
    "near the diagonal": lambda g, n, m: abs(index(n, m)[0] - index(n, m)[1]) + g.random((n, m)),
    "a large offset": lambda g, n, m: 1e4 + g.random((n, m)),
    "rows and columns": lambda g, n, m: 64 * g.integers(0, 9, (n, 1)) + g.integers(0, 9, (1, m)),
}

# Floats beyond that: only what the gap says is promised.
SPREAD: dict[str, Generator] = {
    "1e30 and 1e-30": lambda g, n, m: g.choice([1e-30, 1e30], (n, m)) * g.random((n, m)),
    "1e30 as a wall": lambda g, n, m: np.where(g.random((n, m)) < 0.7, 1e30, g.random((n, m))),
    "all magnitudes": lambda g, n, m: 10.0 ** g.uniform(-30, 30, (n, m)),
    "both signs": lambda g, n, m: g.normal(size=(n, m)) * 10.0 ** g.integers(-9, 9, (n, m)),
}

INTEGERS: dict[str, Generator] = {
    "2^24 + 1": lambda g, n, m: g.integers(2**24, 2**24 + 4, (n, m)),
    "all of int32": lambda g, n, m: g.integers(-(2**31), 2**31, (n, m)),
    "ends of int32": lambda g, n, m: g.choice([-(2**31), 2**31 - 1, 0], (n, m)),
}

LONG: dict[str, Generator] = {
    "2^53 + 1": lambda g, n, m: g.integers(2**53, 2**53 + 4, (n, m)),
    "about 2^45": lambda g, n, m: g.integers(-(2**45) - 2, -(2**45) + 2, (n, m)),
    "largest sums": lambda g, n, m: g.integers(-limit(n, m), limit(n, m) + 1, (n, m)),
    "ends": lambda g, n, m: g.choice([-limit(n, m), limit(n, m)], (n, m)),
    "long and short": lambda g, n, m: g.integers(0, 2 ** g.integers(1, 55, (n, m))),
}


def limit(n: int, m: int) -> int:
    """The greatest |cost| that is not an overflow."""
    return (2**61 - 1) // min(n, m)


def families(dtype: str) -> tuple[dict[str, Generator], dict[str, Generator]]:
    """Those that `dtype` must solve without a gap, and those where it may report one."""
    if dtype.startswith("int"):
        exact = {name: f for name, f in MODERATE.items() if "forbidden" not in name}
        exact.pop("one assignment")
        return exact | INTEGERS | (LONG if dtype == "int64" else {}), {}
    least = float(jnp.finfo(dtype).smallest_subnormal)
    denormal = {"denormals": lambda g, n, m: least * g.integers(0, 9, (n, m))}
    if dtype == "float16":
        return MODERATE | denormal, {}
    if dtype == "float64":
        huge = {
            "1e300 and 1e-300": lambda g, n, m: (
                g.choice([1e-300, 1e300], (n, m)) * g.random((n, m))
            ),
            "1e300": lambda g, n, m: 1e300 * g.normal(size=(n, m)),
        }
        return {}, MODERATE | denormal | SPREAD | INTEGERS | huge
    large = {"1e30": lambda g, n, m: 1e30 * g.random((n, m))}
    return MODERATE | denormal | large, SPREAD


def batch(
    family: dict[str, Generator], dtype: str, shape: tuple[int, int], maximize: bool
) -> np.ndarray:
    costs = []
    for k, generate in enumerate(family.values()):
        c = generate(np.random.default_rng([*shape, k]), *shape)
        if dtype.startswith("int"):
            c = np.round(c * (1 if (np.round(c) == c).all() else 1000)).astype(np.int64)
        costs.append((-c if maximize else c).astype(numpy_dtype(dtype)))
    return np.stack(costs)


def few_roundings(costs: np.ndarray) -> np.ndarray:
    """How large a gap is acceptable: some roundings of the largest cost per row, in float64."""
    costs = costs.astype(np.float64)
    largest = np.abs(np.where(np.isfinite(costs), costs, 0)).max((1, 2))
    return 8 * min(costs.shape[1:]) * 2.0**-53 * largest


def hidden(costs: np.ndarray, wide: bool) -> np.ndarray:
    """What `check_assignment` adds where XLA may have read a denormal number as zero."""
    magnitude = np.abs(costs.astype(np.float64))
    least = np.where(magnitude > 0, magnitude, 1).min((1, 2))
    narrow = costs.dtype.itemsize < 8
    limit = 1e-30 if not wide else float(jnp.finfo("float32").tiny) if narrow else 1e-290
    return (least < limit) * (1e-36 if narrow else 1e-305) * sum(costs.shape[1:])


SHAPES = [(40, 40), (24, 50), (50, 24)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, wide", DTYPES)
def test_family(dtype, wide, shape):
    maximize = (DTYPES.index((dtype, wide)) + wide + SHAPES.index(shape)) % 2 == 1
    exact, spread = families(dtype)
    for family, is_exact in ((exact, True), (spread, False)):
        if not family:
            continue
        costs = batch(family, dtype, shape, maximize)
        # The longer duals that prove optimality without a gap are returned under x64 only.
        provable = is_exact and wide and dtype != "int64"
        with x64(wide):
            res = jm.solve_assignment(costs, maximize=maximize)
            assert res.cost.dtype == (np.float64 if wide else np.float32)
            assert_proved(costs, res, exact=provable, maximize=maximize)
            most = 0 if is_exact else few_roundings(costs)
            claimed = dict(zip(family, np.asarray(res.gap), strict=True))
            assert (np.asarray(res.gap) <= most).all(), claimed
            most = most + hidden(costs, wide)
            if not provable:
                duals = abs(res.col_dual).max(-1) + abs(res.row_dual).max(-1)
                most += np.asarray(4 * sum(shape) * jnp.finfo(duals.dtype).eps * duals)
            assert_checked(costs, res, 50, most=most, block=24, maximize=maximize)


@pytest.mark.parametrize("shape", [(300, 300), (120, 300), (300, 120)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_family_of_larger_problems(dtype, shape):
    exact, _ = families(dtype)
    costs = batch(exact or MODERATE, dtype, shape, False)
    most = few_roundings(costs) if dtype == "float64" else 0
    with x64(True):
        res = jm.solve_assignment(costs)
        assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
        assert (np.asarray(res.gap) <= most).all()
        check = jm.check_assignment(costs, res)
        assert np.asarray(check.valid).all()
        assert (np.asarray(check.gap) <= most + hidden(costs, True)).all()


def test_exact_optimum_knows_the_closed_forms():
    """The yardstick itself: sums of products are least in opposite order (Machol and Wien)."""
    n = 9
    i, j = index(n, n)
    expected = sum((k + 1) * (n - k) for k in range(n))
    assert exact_optimum(i * j) == expected
    assert exact_optimum(i * j, maximize=True) == sum((k + 1) ** 2 for k in range(n))
    assert exact_optimum(np.where(i + j == n + 1, i * j, np.inf)) == expected
    assert exact_optimum(np.where(i + j < n + 1, i * j, np.inf)) is None
    assert exact_optimum(np.full((2, 3), 5e-324)) == 2 * Fraction(5e-324)


@pytest.mark.parametrize("k, most", [(1, 2**61), (2, 2**60), (3, -(-(2**61) // 3)), (8, 2**58)])
def test_int64_overflow_begins_where_it_is_documented(k, most):
    with x64(True):
        for sign in (1, -1):
            for shape in ((k, k), (k, k + 2), (k + 2, k)):
                costs = np.zeros((2, *shape), np.int64)
                costs[0, -1, -1], costs[1, -1, -1] = sign * most, sign * (most - 1)
                for maximize in (False, True):
                    res = jm.solve_assignment(costs, maximize=maximize)
                    assert_failed(jax.tree.map(lambda x: x[:1], res), jm.Status.OVERFLOW)
                    last = jax.tree.map(lambda x: x[1:], res)
                    assert_proved(costs[1:], last, exact=False, maximize=maximize)
        res = jm.solve_assignment(np.full((1, 2, 2), -(2**63)))
        assert_failed(res, jm.Status.OVERFLOW)
        # Masked entries do not count, and neither do the rows they stand in.
        costs = np.array([[2**63 - 1, 1], [-(2**63), 2**61 - 1]])
        res = jm.solve_assignment(costs, col_mask=[False, True], row_mask=[False, True])
        assert (int(res.status), float(res.cost)) == (jm.Status.OPTIMAL, 2.0**61)


@pytest.mark.large
def test_more_entries_than_32_bits_count():
    """n*m > 2^31; each row's best pair stands where an index of 32 bits would have wrapped."""
    n, m = 1100, 2_000_000
    first = m - 1 - 7 * jnp.arange(n)  # the best column of each row, at the far end

    @jax.jit
    def make():  # one fused loop, nothing of this size but the result
        i = jax.lax.broadcasted_iota(jnp.uint32, (n, m), 0)
        j = jax.lax.broadcasted_iota(jnp.uint32, (n, m), 1)
        noise = (i * 40503 + j * 30011) >> 16 & 127
        return jnp.where(j == first.astype(jnp.uint32)[:, None], 1, 2 + noise).astype(jnp.bfloat16)

    costs = make()
    assert costs.size > 2**31
    res = jax.jit(jm.solve_assignment)(costs)
    assert int(res.status) == jm.Status.OPTIMAL
    np.testing.assert_array_equal(res.col4row, first)
    assert float(res.cost) == n and float(res.gap) == 0

    slack = jax.jit(lambda c, u, v: (c.astype(jnp.float32) - u[:, None] - v[None]).min())
    assert slack(costs, res.row_dual, res.col_dual) >= 0
    assert float(res.row_dual.sum() + res.col_dual.sum()) == n
