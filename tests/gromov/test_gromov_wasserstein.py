"""Gromov-Wasserstein against POT, enumeration and the definitions of its bounds."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same_bits

import jaxmatch as jm


KEY = jax.random.key(0)


def distances(rng, n):
    x = rng.random((n, 2))
    return np.sqrt(((x[:, None] - x) ** 2).sum(-1))


def draw(seed, n, m, kind="distances", masses=True):
    rng = np.random.default_rng(seed)
    make = distances if kind == "distances" else lambda rng, n: rng.random((n, n))
    c1, c2 = make(rng, n), make(rng, m)
    p, q = (rng.random(k) + 0.1 if masses else np.ones(k) for k in (n, m))
    return c1, c2, p / p.sum(), q / q.sum()


def objective(c1, c2, plan, loss="square"):
    """The sum over four indices, as it stands."""
    a, b = c1[:, None, :, None], c2[None, :, None, :]
    terms = (a - b) ** 2 if loss == "square" else a * np.log((a + 1e-18) / (b + 1e-18)) - a + b
    return (terms * plan[:, :, None, None] * plan[None, None]).sum()


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("kind", ["distances", "not symmetric"])
@pytest.mark.parametrize("sizes", [(9, 9), (12, 7), (20, 31)])
def test_does_what_pot_does(sizes, kind, loss):
    ot = pytest.importorskip("ot")
    c1, c2, p, q = draw(sum(sizes), *sizes, kind)
    # Without symmetry the optima are in the interior of faces, which takes both very many steps.
    of_pot = {"loss_fun": f"{loss}_loss", "log": True, "max_iter": 20}
    ours = {"loss": loss, "steps": 20}
    _, log = ot.gromov.gromov_wasserstein(c1, c2, p, q, **of_pot)
    res = jm.gromov_wasserstein(c1, c2, p, q, **ours)
    assert res.value == pytest.approx(log["gw_dist"], abs=1e-9)
    features = np.random.default_rng(1).random(sizes)
    _, log = ot.gromov.fused_gromov_wasserstein(features, c1, c2, p, q, alpha=0.7, **of_pot)
    res = jm.gromov_wasserstein(c1, c2, p, q, feature_cost=features, alpha=0.7, **ours)
    assert res.value == pytest.approx(log["fgw_dist"], abs=1e-9)


def test_does_what_pot_does_from_given_plans():
    ot = pytest.importorskip("ot")
    c1, c2, p, q = draw(2, 15, 15, masses=False)
    rng = np.random.default_rng(0)
    starts = np.stack([np.eye(15)[rng.permutation(15)] / 15 for _ in range(4)])
    res = jm.gromov_wasserstein(c1, c2, starts=starts)
    expected = [ot.gromov.gromov_wasserstein(c1, c2, G0=x, log=True)[1]["gw_dist"] for x in starts]
    np.testing.assert_allclose(res.values, expected, atol=1e-9)


@pytest.mark.parametrize("loss", ["square", "kl"])
@pytest.mark.parametrize("masses", [False, True])
def test_value_gap_and_bounds_by_definition(loss, masses):
    c1, c2, p, q = draw(3, 7, 7 + masses, masses=masses)
    masses = (p, q) if masses else ()
    res = jm.gromov_wasserstein(
        c1, c2, *masses, loss=loss, starts=12, key=KEY, bounds=("first", "second", "third")
    )
    plan = res.plan
    assert res.value == pytest.approx(objective(c1, c2, plan, loss), rel=1e-9)
    assert plan.min() >= 0
    np.testing.assert_allclose(plan.sum(1), p, atol=1e-12)
    np.testing.assert_allclose(plan.sum(0), q, atol=1e-12)
    assert res.value == res.values.min() and res.start == res.values.argmin()

    # The linear part of the objective at the plan, by differences along the plans of an exact solve
    step = 1e-6
    gradient = np.zeros_like(plan)
    for at in np.ndindex(*plan.shape):
        moved = [plan.copy(), plan.copy()]
        for x, sign in zip(moved, (1, -1), strict=True):
            x[at] += sign * step
        ends = [objective(c1, c2, x, loss) for x in moved]
        gradient[at] = (ends[0] - ends[1]) / (2 * step)
    lowest = jm.solve_transport(gradient, p, q).cost
    assert res.gap == pytest.approx((gradient * plan).sum() - lowest, abs=1e-6)
    assert 0 <= res.bound <= res.value


def test_no_bound_exceeds_the_optimum():
    """Of equal masses on few points, a permutation is mostly best; a bound holds for all plans."""
    for seed in range(4):
        c1, c2, p, q = draw(seed, 5, 5, masses=False)
        best = min(
            objective(c1, c2, np.eye(5)[list(order)] / 5)
            for order in itertools.permutations(range(5))
        )
        found = {}
        for name in ("first", "second", "third"):
            res = jm.gromov_wasserstein(c1, c2, starts=16, key=KEY, bounds=(name,))
            given = jm.gromov_wasserstein(c1, c2, p, q, bounds=(name,))
            assert given.bound == pytest.approx(float(res.bound), rel=1e-9)
            assert 0 < res.bound <= res.value + 1e-12
            found[name] = res.bound
        assert found["first"] <= found["third"] + 1e-12
        assert max(found.values()) <= best + 1e-12


def test_bounds_of_known_spaces():
    """A space and itself: all bounds are 0. Two points and two farther ones: the difference."""
    c1, _, p, _ = draw(5, 8, 8)
    every = ("first", "second", "third")
    order = np.random.default_rng(0).permutation(8)
    same = jm.gromov_wasserstein(c1, c1[np.ix_(order, order)], p, p[order], bounds=every)
    assert same.bound == pytest.approx(0, abs=1e-12)
    near, far = np.array([[0.0, 1], [1, 0]]), np.array([[0.0, 3], [3, 0]])
    res = jm.gromov_wasserstein(near, far, bounds=every, starts=4, key=KEY)
    assert res.value == pytest.approx(2) and res.bound == pytest.approx(2)
    assert res.gap == pytest.approx(0, abs=1e-12)


def test_a_space_is_found_in_itself():
    c1, _, p, _ = draw(6, 30, 30)
    order = np.random.default_rng(1).permutation(30)
    res = jm.gromov_wasserstein(c1, c1[np.ix_(order, order)], p, p[order], starts=8, key=KEY)
    assert res.value == pytest.approx(0, abs=1e-12) and res.agree >= 1
    other = jm.gromov_wasserstein(3 * c1, 3 * c1, p, p)
    twice = jm.gromov_wasserstein(c1, c1, p, p)
    np.testing.assert_allclose(other.plan, twice.plan, atol=1e-12)


@pytest.mark.parametrize("traced", [False, True])
def test_sizes_in_one_batch(traced):
    sizes = [(6, 6), (4, 7), (7, 3), (1, 1)]
    c1, c2 = np.full((2, len(sizes), 7, 7), np.nan)
    features = np.full((len(sizes), 7, 7), np.nan)
    rows, cols = np.zeros((2, len(sizes), 7), bool)
    own = []
    for k, (n, m) in enumerate(sizes):
        a, b, *_ = draw(k, n, m)
        cost = np.random.default_rng(k).random((n, m))
        c1[k, :n, :n], c2[k, :m, :m], features[k, :n, :m] = a, b, cost
        rows[k, :n], cols[k, :m] = True, True
        own.append(jm.gromov_wasserstein(a, b, feature_cost=cost))

    def solve(c1, c2, features, rows, cols):
        return jm.gromov_wasserstein(c1, c2, feature_cost=features, row_mask=rows, col_mask=cols)

    with jax.enable_x64(True):
        res = (jax.jit(solve) if traced else solve)(c1, c2, features, rows, cols)
    for k, (n, m) in enumerate(sizes):
        assert res.value[k] == pytest.approx(float(own[k].value), rel=1e-9)
        assert res.bound[k] == pytest.approx(float(own[k].bound), abs=1e-9)
        np.testing.assert_allclose(res.plan[k, :n, :m], own[k].plan, atol=1e-9)
        assert np.asarray(res.plan[k]).sum() == pytest.approx(1)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("masses", [False, True])
def test_the_same_in_numpy_jax_and_vmap(x64, masses):
    with jax.enable_x64(x64):
        dtype = np.float64 if x64 else np.float32
        problems = [draw(k, 8, 8, masses=masses) for k in (7, 8)]
        c1, c2, p, q = (np.stack(x).astype(dtype) for x in zip(*problems, strict=True))
        given = (c1, c2, p, q) if masses else (c1, c2)

        def solve(*given):
            return jm.gromov_wasserstein(*given, starts=4, key=KEY)

        here, eager = solve(*given), solve(*map(jnp.asarray, given))
        assert isinstance(here.value, np.ndarray) and isinstance(eager.value, jax.Array)
        assert_same_bits(here, jax.tree.map(np.asarray, eager))
        compiled = jax.jit(solve)(*given)
        assert compiled.value.dtype == dtype
        np.testing.assert_allclose(compiled.value, here.value, atol=1e-9 if x64 else 1e-5)
        np.testing.assert_allclose(compiled.bound, here.bound, atol=1e-9 if x64 else 1e-4)
        assert_same_bits(compiled, jax.jit(solve)(*given))
        mapped = jax.jit(jax.vmap(solve))(*given)
        one = solve(*(x[0] for x in given))
        np.testing.assert_allclose(mapped.value[0], one.value, atol=1e-9 if x64 else 1e-5)


@pytest.mark.parametrize("loss", ["square", "kl"])
def test_gradient_by_differences(loss):
    c1, c2, p, q = draw(9, 6, 7)
    features = np.random.default_rng(0).random((6, 7))
    with jax.enable_x64(True):

        def value(c1, c2, features, alpha):
            return jm.gromov_wasserstein(
                c1, c2, p, q, feature_cost=features, alpha=alpha, loss=loss
            ).value

        given = [jnp.asarray(x) for x in (c1, c2, features, 0.6)]
        found = jax.grad(value, (0, 1, 2, 3))(*given)
        step = 1e-6
        for k, at in itertools.product(range(4), [(0, 1), (4, 2)]):
            at = at if k < 3 else ()
            moved = [list(given), list(given)]
            for side, sign in zip(moved, (1, -1), strict=True):
                side[k] = side[k].at[at].add(sign * step)
            difference = (value(*moved[0]) - value(*moved[1])) / (2 * step)
            assert found[k][at] == pytest.approx(float(difference), abs=1e-6)


def test_statuses():
    c1, c2, p, q = draw(10, 5, 6)
    bad = c1.copy()
    bad[0, 1] = np.nan
    res = jm.gromov_wasserstein(
        np.stack([c1, bad, c1]), c2, np.stack([p, p, 2 * p]), q, bounds=("first", "second")
    )
    assert res.status.tolist() == [
        jm.Status.OPTIMAL, jm.Status.INVALID_COST, jm.Status.UNBALANCED
    ]  # fmt: skip
    assert np.isnan(res.value[1:]).all() and (res.plan[1:] == 0).all()
    assert jm.gromov_wasserstein(-c1, c2, loss="kl").status == jm.Status.INVALID_COST


def test_keys():
    c1, c2, p, q = draw(11, 9, 9)
    res = [jm.gromov_wasserstein(c1, c2, p, q, starts=5, key=jax.random.key(k)) for k in (0, 0, 1)]
    assert_same_bits(res[0], res[1])
    assert (res[0].values != res[2].values).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c1": np.zeros((3, 4))}, "`c1` must have shape"),
        ({"p": np.ones(3)}, "`p` must have shape"),
        ({"starts": 3}, "pass `key`"),
        ({"starts": np.zeros((2, 3, 4))}, "`starts` must be"),
        ({"feature_cost": np.zeros((3, 4))}, "`feature_cost` must have shape"),
        ({"loss": "cosine"}, "`loss` must be"),
        ({"bounds": ("fourth",)}, "`bounds` must be"),
        ({"steps": 0}, "`steps` must be"),
    ],
)
def test_arguments_are_checked(change, message):
    given = {"c1": np.zeros((4, 4)), "c2": np.zeros((4, 4)), **change}
    with pytest.raises(ValueError, match=message):
        jm.gromov_wasserstein(**given)


def test_starts_that_are_no_plans():
    c1, c2, p, q = draw(6, 4, 4)
    for start in (np.zeros((1, 4, 4)), np.ones((1, 4, 4))):
        res = jm.gromov_wasserstein(c1, c2, p, q, starts=start)
        assert res.status == jm.Status.INVALID_MASS
    product = (p[:, None] * q)[None]
    assert jm.gromov_wasserstein(c1, c2, p, q, starts=product).status == jm.Status.OPTIMAL
