"""Quadratic assignment against enumeration and scipy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits
from scipy.optimize import quadratic_assignment

import jaxmatch as jm


KEY = jax.random.key(0)


def value_at(a, b, q, linear=None):
    rows = np.flatnonzero(q >= 0)
    own = q[rows]
    value = (a[np.ix_(rows, rows)] * b[np.ix_(own, own)]).sum()
    return value + (0 if linear is None else linear[rows, own].sum())


def enumerated(a, b, linear=None, maximize=False):
    """The best value of all that match the shorter side."""
    if len(a) > len(b):
        return enumerated(b, a, None if linear is None else linear.T, maximize)
    every = itertools.permutations(range(len(b)), len(a))
    found = [value_at(a, b, np.array(q, int), linear) for q in every]
    return max(found) if maximize else min(found)


def draw(seed, n, m=None, symmetric=False):
    rng = np.random.default_rng(seed)
    found = [rng.random((k, k)) for k in (n, n if m is None else m)]
    return [x + x.T for x in found] if symmetric else found


@pytest.mark.parametrize("seed", range(6))
def test_one_start_does_what_scipy_does(seed):
    a, b = draw(seed, 5 + 3 * seed, symmetric=seed % 2 == 0)
    expected = quadratic_assignment(a, b)
    res = jm.quadratic_assignment(a, b)
    assert res.col4row.tolist() == expected.col_ind.tolist()
    assert res.value == pytest.approx(expected.fun, rel=1e-12)
    assert res.steps.tolist() == [expected.nit] and res.agree == 1


def test_given_starts_do_what_scipy_does():
    a, b = draw(1, 12)
    starts = np.stack([np.eye(12)[np.random.default_rng(k).permutation(12)] for k in range(5)])
    starts = (starts + 1 / 12) / 2
    res = jm.quadratic_assignment(a, b, starts=starts, maximize=True)
    options = [{"P0": start, "maximize": True} for start in starts]
    expected = [quadratic_assignment(a, b, options=option) for option in options]
    np.testing.assert_allclose(res.values, [x.fun for x in expected], rtol=1e-12)
    assert res.start == np.argmax(res.values) and res.value == res.values.max()
    assert res.steps.tolist() == [x.nit for x in expected]


def test_seeds_do_what_scipy_does():
    a, b = draw(2, 14)
    seeds = np.array([[0, 3], [5, 1], [2, 9]])
    expected = quadratic_assignment(a, b, options={"partial_match": seeds})
    padded = np.concatenate([seeds, [[-1, -1]]])
    res = jm.quadratic_assignment(a, b, seeds=padded)
    assert res.value == pytest.approx(expected.fun, rel=1e-12)
    assert res.col4row.tolist() == expected.col_ind.tolist()
    many = jm.quadratic_assignment(a, b, seeds=seeds, starts=9, two_opt=True, key=KEY)
    assert (many.col4row[seeds[:, 0]] == seeds[:, 1]).all() and many.value <= res.value


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("sizes", [(7, 7), (4, 7), (7, 4)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_many_starts_find_the_optimum(sizes, maximize, symmetric):
    a, b = draw(3, *sizes, symmetric=symmetric)
    linear = np.random.default_rng(4).random(sizes)
    res = jm.quadratic_assignment(
        a, b, linear=linear, starts=64, two_opt=True, maximize=maximize, key=KEY
    )
    assert res.value == pytest.approx(enumerated(a, b, linear, maximize), rel=1e-12)
    assert res.value == pytest.approx(value_at(a, b, res.col4row, linear), rel=1e-12)
    assert (res.col4row >= 0).sum() == min(sizes) and res.agree >= 1


def test_no_exchange_improves_what_two_opt_leaves():
    a, b = draw(5, 9, 11)
    linear = np.random.default_rng(6).random((9, 11))
    starts = jm.quadratic_assignment(a, b, linear=linear, starts=4, key=KEY)
    res = jm.quadratic_assignment(a, b, linear=linear, starts=4, key=KEY, two_opt=True)
    assert (res.values <= starts.values + 1e-12).all()
    q = res.col4row
    left = np.setdiff1d(np.arange(11), q)
    for r in range(9):
        for s in range(r):
            other = q.copy()
            other[[r, s]] = q[[s, r]]
            assert value_at(a, b, other, linear) >= res.value - 1e-12
        for col in left:
            other = q.copy()
            other[r] = col
            assert value_at(a, b, other, linear) >= res.value - 1e-12


@pytest.mark.parametrize("traced", [False, True])
def test_sizes_in_one_batch(traced):
    sizes = [(5, 5), (4, 6), (6, 3), (1, 1), (0, 2)]
    problems = [draw(10 + k, *size) for k, size in enumerate(sizes)]
    a, b = np.full((2, len(sizes), 6, 6), np.nan)
    masks = np.zeros((2, len(sizes), 6), bool)
    for k, (n, m) in enumerate(sizes):
        masks[0, k, :n], masks[1, k, :m] = True, True
        a[k, :n, :n], b[k, :m, :m] = problems[k]

    def solve(a, b, rows, cols):
        return jm.quadratic_assignment(
            a, b, row_mask=rows, col_mask=cols, starts=32, two_opt=True, key=KEY
        )

    solve = jax.jit(solve) if traced else solve
    res = solve(a, b, *masks)
    assert (np.asarray(res.status) == jm.Status.OPTIMAL).all()
    for k, (n, m) in enumerate(sizes):
        q = np.asarray(res.col4row[k])
        assert (q[n:] == -1).all() and (q[:n] < m).all() and (q >= 0).sum() == min(n, m)
        expected = enumerated(*problems[k])
        assert res.value[k] == pytest.approx(expected, rel=1e-5 if traced else 1e-12)


@pytest.mark.parametrize("x64", [False, True])
def test_the_same_in_numpy_jax_and_vmap(x64):
    with jax.enable_x64(x64):
        dtype = np.float64 if x64 else np.float32
        a, b = (np.stack([x, x.T]).astype(dtype) for x in draw(7, 9))

        def solve(a, b):
            return jm.quadratic_assignment(a, b, starts=6, key=KEY)

        here, eager = solve(a, b), solve(jnp.asarray(a), jnp.asarray(b))
        assert isinstance(here.value, np.ndarray) and isinstance(eager.value, jax.Array)
        assert_same_bits(here, jax.tree.map(np.asarray, eager))
        compiled = jax.jit(solve)(a, b)
        assert compiled.value.dtype == dtype
        np.testing.assert_allclose(compiled.values, here.values, rtol=1e-5)
        one = solve(a[0], b[0])
        mapped = jax.jit(jax.vmap(solve))(a, b)
        np.testing.assert_allclose(mapped.value[0], one.value, rtol=1e-5)
        assert_same_bits(compiled, jax.jit(solve)(a, b))


def test_gradient_by_differences():
    a, b = draw(8, 6)
    linear = np.random.default_rng(9).random((6, 6))
    with jax.enable_x64(True):

        def value(a, b, linear):
            return jm.quadratic_assignment(a, b, linear=linear, starts=8, key=KEY).value

        given = [jnp.asarray(x) for x in (a, b, linear)]
        found = jax.grad(value, (0, 1, 2))(*given)
        step = 1e-6
        for k, gradient in enumerate(found):
            for at in [(0, 1), (3, 3), (5, 2)]:
                moved = [list(given), list(given)]
                for side, sign in zip(moved, (1, -1), strict=True):
                    side[k] = side[k].at[at].add(sign * step)
                difference = (value(*moved[0]) - value(*moved[1])) / (2 * step)
                assert gradient[at] == pytest.approx(float(difference), abs=1e-7)


def test_order_of_labels_says_nothing():
    """A graph and itself relabelled: order decides between ties only without a key."""
    rng = np.random.default_rng(11)
    a = (rng.random((20, 20)) < 0.3).astype(float)
    a = np.triu(a, 1) + np.triu(a, 1).T
    best = []
    for _ in range(3):
        q = rng.permutation(20)
        res = jm.quadratic_assignment(a, a[np.ix_(q, q)], maximize=True, starts=48, key=KEY)
        best.append(float(res.value))
    assert best == [a.sum()] * 3


def test_keys():
    a, b = draw(12, 10)
    res = [jm.quadratic_assignment(a, b, starts=5, key=jax.random.key(k)) for k in (0, 0, 1)]
    assert_same_bits(res[0], res[1])
    assert (res[0].values != res[2].values).any()
    assert jm.quadratic_assignment(a, b, key=KEY).values.shape == (1,)


def test_statuses():
    a, b = draw(13, 5)
    bad = a.copy()
    bad[1, 2] = np.nan
    res = jm.quadratic_assignment(np.stack([a, bad]), b)
    assert res.status.tolist() == [jm.Status.OPTIMAL, jm.Status.INVALID_COST]
    assert (res.col4row[1] == -1).all() and np.isnan(res.value[1]) and res.agree[1] == 0
    twice = jnp.array([[0, 1], [2, 1]])
    status = jax.jit(lambda seeds: jm.quadratic_assignment(a, b, seeds=seeds).status)(twice)
    assert status == jm.Status.INFEASIBLE


def test_nothing_to_match():
    res = jm.quadratic_assignment(np.zeros((0, 0)), np.zeros((3, 3)))
    assert res.value == 0 and res.col4row.shape == (0,) and res.status == jm.Status.OPTIMAL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.zeros((3, 4))}, "`a` must have shape"),
        ({"starts": 3}, "pass `key`"),
        ({"starts": np.zeros((2, 3, 4))}, "`starts` must be"),
        ({"seeds": [[0, 1], [1, 1]]}, "each column once"),
        ({"seeds": [[0, 7]]}, "columns below 4"),
        ({"seeds": [0, 1]}, "`seeds` must have shape"),
        ({"linear": np.zeros((3, 4))}, "`linear` must have shape"),
        ({"steps": 0}, "`steps` must be"),
        ({"tolerance": -1}, "`tolerance` must be"),
        ({"row_mask": np.ones(3, bool)}, "`row_mask`"),
    ],
)
def test_arguments_are_checked(change, message):
    given = {"a": np.zeros((4, 4)), "b": np.zeros((4, 4)), **change}
    with pytest.raises(ValueError, match=message):
        jm.quadratic_assignment(**given)
