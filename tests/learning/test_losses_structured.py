"""Decision-focused losses against their formulas, by enumeration of all solutions in float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimator_helpers import best, matrices, numpy_noise, partial_matrices, slope
from helpers import x64
from jax.sharding import Mesh, PartitionSpec

import jaxmatch as jm
from jaxmatch import losses
from jaxmatch.estimators import (
    Blackbox,
    Identity,
    Perturbed,
    assignment_oracle,
    cut_oracle,
    labelling_oracle,
    oracle_of,
)
from jaxmatch.estimators._noise import NOISES


pytestmark = pytest.mark.usefixtures("platform")
KEY = jax.random.key(3)
SHAPES = [(3, 3), (4, 2)]
SIGMA, SAMPLES, BATCH = 0.6, 8, 6
each_shape = pytest.mark.parametrize("shape", SHAPES)


def fenchel_young(oracle, cost, target, **options):
    rule = Perturbed(SIGMA, SAMPLES, **options)
    return losses.fenchel_young_loss(oracle, cost, target, estimator=rule, key=KEY)


def of_solution(oracle, cost, true_cost):
    """As a function of two costs, as the others are."""
    return fenchel_young(oracle, cost, oracle.solve(jnp.asarray(true_cost)).y)


def regret(oracle, cost, true_cost, **others):
    result = losses.regret(oracle, cost, true_cost, **others)
    return losses.StructuredLoss(result.regret, result.used, result.num_unsolved)


LOSSES = {
    "fenchel_young": of_solution,
    "spo_plus": losses.spo_plus_loss,
    "perturbation_gradient": partial(losses.perturbation_gradient_loss, strength=0.7),
    "central": partial(losses.perturbation_gradient_loss, strength=0.7, central=True),
    "regret": partial(regret, estimator=Blackbox(2.0)),
    "perturbed_regret": partial(regret, estimator=Perturbed(SIGMA, SAMPLES), key=KEY),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


@partial(jax.jit, static_argnames="name")
def value_and_grad(name, cost, true_cost, oracle=None, weights=1.0):
    """The result, and the gradient of its weighted sum."""
    oracle = assignment_oracle() if oracle is None else oracle

    def total(cost):
        result = LOSSES[name](oracle, cost, true_cost)
        return (result.loss * weights).sum(), result

    return jax.grad(total, has_aux=True)(cost)[::-1]


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def optimum(points, cost):
    return dot(cost, best(points, cost))


def dot(cost, y):
    """Infinite costs of what is not chosen do not count."""
    return np.where(y != 0, np.asarray(cost, np.float64), 0).ravel() @ y.ravel()


# ---------------------------------------------------------------------------------------------
# Formulas


@each_shape
def test_spo_plus(shape):
    points = matrices(*shape)
    cost, true_cost = normal(0, BATCH, *shape), normal(1, BATCH, *shape)
    result, got = value_and_grad("spo_plus", cost, true_cost)
    assert result.used.all() and result.num_unsolved == 0
    targets = np.array([best(points, c) for c in true_cost])
    known = jax.jit(partial(losses.spo_plus_loss, assignment_oracle()))(
        cost, true_cost, true_solution=targets
    )
    np.testing.assert_allclose(known.loss, result.loss, rtol=1e-6)
    for k in range(BATCH):
        predicted, true = cost[k].astype(np.float64), true_cost[k].astype(np.float64)
        reflected = 2 * predicted - true
        expected = 2 * dot(predicted, targets[k]) - optimum(points, reflected)
        expected -= optimum(points, true)
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(got[k], 2 * (targets[k] - best(points, reflected)))


def test_spo_plus_bounds_regret_and_is_convex():
    points, true_cost = matrices(3, 4), normal(2, 1, 3, 4)
    ends = normal(3, 2, 50, 3, 4)
    share = np.linspace(0, 1, 5, dtype=np.float32)[:, None, None, None]
    line = (1 - share) * ends[0] + share * ends[1]
    result, subgradient = value_and_grad("spo_plus", line, true_cost)
    loss = np.asarray(result.loss, np.float64)
    lost = [[dot(true_cost[0], best(points, c)) for c in row] for row in line]
    lost = np.array(lost) - optimum(points, true_cost[0])
    assert (loss >= lost - 1e-5).all() and (lost >= 0).all() and (lost > 1).any()
    chord = (1 - share[..., 0, 0]) * loss[0] + share[..., 0, 0] * loss[-1]
    assert (loss <= chord + 1e-5).all()
    tangent = loss[0] + (np.asarray(subgradient[0]) * (line - line[0])).sum((-2, -1))
    assert (tangent <= loss + 1e-5).all()
    np.testing.assert_array_equal(value_and_grad("spo_plus", true_cost, true_cost)[0].loss, 0)


@each_shape
@pytest.mark.parametrize("noise", NOISES)
def test_fenchel_young(shape, noise):
    points = matrices(*shape)
    cost, target = normal(4, 2, *shape), np.array([best(points, c) for c in normal(5, 2, *shape)])
    f = lambda c: fenchel_young(assignment_oracle(), c, target, noise=noise).loss  # noqa: E731
    both = lambda c, d: (f(c), jax.vjp(f, c)[1](d)[0])  # noqa: E731
    loss, got = jax.jit(both)(cost, jnp.array([1.0, 3.0]))
    z = [numpy_noise(KEY, s, cost.shape, noise) for s in range(SAMPLES)]
    z = SIGMA * np.array(z, np.float64)
    for k in range(2):
        noisy = cost[k] + z[:, k]
        y = np.array([best(points, c) for c in noisy])
        smoothed = np.mean([optimum(points, c) for c in noisy])
        np.testing.assert_allclose(loss[k], dot(cost[k], target[k]) - smoothed, rtol=1e-5)
        np.testing.assert_allclose(got[k], (1, 3)[k] * (target[k] - y.mean(0)), atol=1e-6)
        # What it lacks is at most <noise, target> in the mean.
        assert loss[k] + (z[:, k].mean(0) * target[k]).sum() >= -1e-5


def test_fenchel_young_has_a_second_derivative():
    points, cost = matrices(3, 3), normal(6, 3, 3)
    f = lambda c: fenchel_young(assignment_oracle(), c, jnp.eye(3)).loss  # noqa: E731
    got = jax.jit(jax.hessian(f))(cost)
    z = [numpy_noise(KEY, s, (3, 3), "normal") for s in range(SAMPLES)]
    z = np.array(z, np.float64)
    y = np.array([best(points, c) for c in cost + SIGMA * z])
    y = (y - y.mean(0)) * SAMPLES / (SAMPLES - 1)  # without the mean of the others
    expected = -np.einsum("sij,skl->ijkl", y, z) / (SAMPLES * SIGMA)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_fenchel_young_against_finite_differences():
    with x64(True):
        cost, direction = normal(7, 3, 4).astype(np.float64), normal(8, 3, 4).astype(np.float64)
        target = np.eye(3, 4)
        f = jax.jit(lambda c: fenchel_young(assignment_oracle(), c, target).loss)
        step = 1e-6
        change = (f(cost + step * direction) - f(cost - step * direction)) / (2 * step)
        got = (jax.grad(f)(cost) * direction).sum()
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, change, rtol=1e-6)


def test_targets_may_be_means():
    cost, target = normal(9, 3, 3), np.full((3, 3), 1 / 3, np.float32)
    f = lambda c, y: fenchel_young(assignment_oracle(), c, y).loss  # noqa: E731
    by_cost, by_target = jax.jit(jax.grad(f, (0, 1)))(cost, target)
    np.testing.assert_allclose(by_cost.sum(0), 0, atol=1e-6)
    np.testing.assert_array_equal(by_target, 0)


@each_shape
@pytest.mark.parametrize("central", [False, True])
def test_perturbation_gradient(shape, central):
    points, strength = matrices(*shape), np.linspace(0.2, 2, BATCH)
    cost, true_cost = normal(10, BATCH, *shape), normal(11, BATCH, *shape)
    f = partial(losses.perturbation_gradient_loss, assignment_oracle(), central=central)
    total = lambda c, s: f(c, true_cost, strength=s).loss  # noqa: E731
    both = lambda *given: (total(*given), *jax.vjp(total, *given)[1](jnp.ones(BATCH)))  # noqa: E731
    loss, got, by_strength = jax.jit(both)(cost, strength.astype(np.float32))
    np.testing.assert_array_equal(by_strength, 0)
    for k, sigma in enumerate(strength):
        predicted, true = cost[k].astype(np.float64), true_cost[k].astype(np.float64)
        ahead = predicted + sigma * true if central else predicted
        behind, width = predicted - sigma * true, 2 * sigma if central else sigma
        expected = (optimum(points, ahead) - optimum(points, behind)) / width
        np.testing.assert_allclose(loss[k], expected, rtol=1e-5, atol=1e-5)
        slope = (best(points, ahead) - best(points, behind)) / width
        np.testing.assert_allclose(got[k], slope, rtol=1e-6)
        if not central:
            assert loss[k] >= dot(true, best(points, predicted)) - 1e-5


def test_perturbation_gradient_of_small_and_bad_strengths():
    points, cost, true_cost = matrices(3, 3), normal(12, 4, 3, 3), normal(13, 4, 3, 3)
    f = jax.jit(partial(losses.perturbation_gradient_loss, assignment_oracle()))
    decided = [dot(t, best(points, c)) for c, t in zip(cost, true_cost, strict=True)]
    np.testing.assert_allclose(f(cost, true_cost, strength=1e-6).loss, decided, rtol=1e-5)
    result = f(cost, true_cost, strength=jnp.array([1.0, 0.0, -1.0, jnp.nan]))
    assert result.used.tolist() == [True, False, False, False] and result.num_unsolved == 3
    assert (result.loss[1:] == 0).all()
    # Of problems whose solutions are all as good, none is better elsewhere.
    zero = jnp.zeros((4, 4))
    g = jax.jit(jax.grad(lambda c: f(c, zero, strength=0.5).loss))(zero)
    np.testing.assert_array_equal(g, 0)


@each_shape
def test_regret(shape):
    points = matrices(*shape)
    cost, true_cost = normal(14, BATCH, *shape), normal(15, BATCH, *shape)
    plain = jax.jit(partial(losses.regret, assignment_oracle()))(cost, true_cost)
    result, got = value_and_grad("regret", cost, true_cost)
    np.testing.assert_array_equal(plain.regret, result.loss)
    perturbed, _ = value_and_grad("perturbed_regret", cost, true_cost)
    z = [numpy_noise(KEY, s, cost.shape, "normal") for s in range(SAMPLES)]
    for k in range(BATCH):
        least = optimum(points, true_cost[k])
        np.testing.assert_allclose(plain.optimum[k], least, rtol=1e-6)
        lost = dot(true_cost[k], best(points, cost[k])) - least
        np.testing.assert_allclose(plain.regret[k], lost, rtol=1e-5, atol=1e-6)
        expected = slope(points, cost[k], true_cost[k], 2.0, False)
        np.testing.assert_allclose(got[k], expected, atol=1e-6)
        mean = np.mean([best(points, cost[k] + SIGMA * np.asarray(one[k])) for one in z], 0)
        np.testing.assert_allclose(
            perturbed.loss[k], dot(true_cost[k], mean) - least, rtol=1e-5, atol=1e-5
        )
    assert (plain.regret >= 0).all() and (plain.regret > 0).any()


def test_regret_without_an_estimator_has_no_gradient():
    f = lambda c: losses.regret(assignment_oracle(), c, normal(15, 3, 3)).regret  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.grad(f))(normal(14, 3, 3)), 0)


def test_true_costs_have_no_gradient():
    cost, true_cost = normal(16, 3, 3), normal(17, 3, 3)
    f = lambda c: sum(loss(assignment_oracle(), cost, c).loss for loss in LOSSES.values())  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.grad(f))(true_cost), 0)


# ---------------------------------------------------------------------------------------------
# Modes and transformations


@each_loss
def test_forward_is_the_transpose_of_reverse(name):
    if name == "regret":
        pytest.skip("The blackbox rule has reverse mode alone.")
    cost, true_cost, along = normal(18, 2, 3, 3), normal(19, 2, 3, 3), normal(20, 2, 3, 3)
    weights = jnp.array([1.0, -2.0])
    result, gradient = value_and_grad(name, cost, true_cost, weights=weights)
    f = lambda c: LOSSES[name](assignment_oracle(), c, true_cost).loss  # noqa: E731
    loss, tangent = jax.jit(lambda c, t: jax.jvp(f, (c,), (t,)))(cost, along)
    np.testing.assert_array_equal(loss, result.loss)
    np.testing.assert_allclose(
        (tangent * weights).sum(), (gradient * along).sum(), rtol=1e-4, atol=1e-5
    )


@each_loss
def test_second_derivatives_are_errors(name):
    if name == "fenchel_young":
        return  # It has one.
    cost, true_cost = normal(21, 3, 3), normal(22, 3, 3)
    f = lambda c: LOSSES[name](assignment_oracle(), c, true_cost).loss  # noqa: E731
    for gradient in (jax.grad(f), jax.jit(jax.grad(f))):
        with pytest.raises(TypeError, match="no derivative of its own"):
            jax.make_jaxpr(jax.grad(lambda c, g=gradient: (g(c) ** 2).sum()))(cost)


@each_loss
def test_batches(name):
    cost, true_cost = normal(23, 2, 3, 3, 4), normal(24, 2, 3, 3, 4)
    f = partial(value_and_grad, name)
    each = [f(cost[k], true_cost[k]) for k in np.ndindex(2, 3)]
    alone = jax.tree.map(lambda *x: np.array(x).reshape(2, 3, *x[0].shape), *each)
    over = lambda _, x: (None, jax.vmap(f)(*x))  # noqa: E731
    mapped = jax.jit(lambda *x: jax.lax.scan(over, None, x)[1])(cost, true_cost)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), mapped, alone)
    result, gradient = f(cost, true_cost)
    assert result.loss.shape == result.used.shape == (2, 3) and result.num_unsolved.shape == ()
    if name not in ("fenchel_young", "perturbed_regret"):  # one key draws for the whole batch
        np.testing.assert_allclose(result.loss, alone[0].loss, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient, alone[1], atol=1e-6)
    else:
        other = np.stack([cost[0], normal(42, 3, 3, 4)])
        np.testing.assert_array_equal(f(other, true_cost)[1][0], gradient[0])


@pytest.mark.parametrize("name", ["spo_plus", "regret"])
def test_shard_map(name, platform):
    devices = jax.devices(platform)
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh, spec = Mesh(np.array(devices[:2]), ("batch",)), PartitionSpec("batch")
    cost, true_cost = normal(43, 4, 3, 3), normal(44, 4, 3, 3)

    def f(*costs):
        result, gradient = value_and_grad(name, *costs)
        return result.loss, gradient

    shards = jax.shard_map(f, mesh=mesh, in_specs=(spec, spec), out_specs=(spec, spec))
    for got, expected in zip(jax.jit(shards)(cost, true_cost), f(cost, true_cost), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_batches_broadcast():
    cost, true_cost = normal(23, 2, 3, 3, 4), normal(24, 3, 3, 4)
    one, _ = value_and_grad("spo_plus", cost, true_cost)
    each, _ = value_and_grad("spo_plus", cost, np.stack([true_cost, true_cost]))
    np.testing.assert_array_equal(one.loss, each.loss)
    one, of_one = value_and_grad("spo_plus", true_cost[0], cost)
    each, of_each = value_and_grad("spo_plus", np.broadcast_to(true_cost[0], cost.shape), cost)
    np.testing.assert_array_equal(one.loss, each.loss)
    np.testing.assert_array_equal(of_one, of_each.sum((0, 1)))


def test_solves_are_counted_once(platform):
    """A native call that is there twice is done once: the gradient has no solves of its own."""
    if platform == "cpu" and not jm.has_cpu_library():
        pytest.skip("needs the native library")
    cost, true_cost = normal(25, 2, 3, 3), normal(26, 2, 3, 3)
    given = partial(losses.spo_plus_loss, true_solution=jnp.broadcast_to(jnp.eye(3), (2, 3, 3)))
    target = partial(fenchel_young, target=jnp.eye(3)[None])
    for loss, calls in (
        (lambda o, c, t: target(o, c), 1),
        (given, 1),
        (LOSSES["spo_plus"], 2),
        (LOSSES["perturbation_gradient"], 2),
        (LOSSES["central"], 2),
        (LOSSES["regret"], 3),  # the third is the blackbox rule's backward
    ):
        f = lambda c, t, loss=loss: loss(assignment_oracle(), c, t).loss.sum()  # noqa: E731
        program = jax.jit(jax.value_and_grad(f)).lower(cost, true_cost).compile().as_text()
        assert program is not None and program.count('custom_call_target="jaxmatch') == calls


# ---------------------------------------------------------------------------------------------
# Failures, masks, dtypes


@each_loss
@pytest.mark.parametrize("which", ["cost", "true_cost"])
def test_bad_problems_are_left_out_and_counted(name, which):
    if name == "fenchel_young" and which == "true_cost":
        pytest.skip("It has none; see the next test.")
    good = {"cost": normal(27, 5, 3, 3), "true_cost": normal(28, 5, 3, 3)}
    bad = {**good, which: good[which].copy()}
    bad[which][1, 0, 0], bad[which][2, 1], bad[which][4, 2, 2] = np.nan, np.inf, -np.inf
    result, gradient = value_and_grad(name, **bad, weights=jnp.arange(1.0, 6.0))
    expected, of_good = value_and_grad(name, **good, weights=jnp.arange(1.0, 6.0))
    assert result.used.tolist() == [True, False, False, True, False]
    assert result.num_unsolved == 3
    for k in (1, 2, 4):
        assert result.loss[k] == 0
        np.testing.assert_array_equal(gradient[k], 0)
    np.testing.assert_array_equal(result.loss[::3], expected.loss[::3])
    np.testing.assert_array_equal(gradient[::3], of_good[::3])


def test_bad_targets_are_left_out_and_counted():
    cost, target = normal(29, 4, 3, 3), np.broadcast_to(np.eye(3, dtype=np.float32), (4, 3, 3))
    cost, target = cost.copy(), target.copy()
    target[1, 0, 1], target[2, 2, 2], cost[3, 1, 1] = np.nan, np.inf, np.inf
    true_cost = normal(30, 4, 3, 3)
    spo_plus = lambda o, c: losses.spo_plus_loss(o, c, true_cost, true_solution=target)  # noqa: E731
    for loss in (partial(fenchel_young, target=target), spo_plus):

        def total(cost, loss=loss):
            result = loss(assignment_oracle(), cost)
            return result.loss.sum(), result

        gradient, result = jax.jit(jax.grad(total, has_aux=True))(cost)
        assert result.used.tolist() == [True, False, False, False] and result.num_unsolved == 3
        assert gradient[0].any() and (gradient[1:] == 0).all() and (result.loss[1:] == 0).all()


@each_loss
def test_forbidden_pairs(name):
    """Forbidden in one of the two costs or in both: as if they were no solutions."""
    cost, true_cost = normal(31, 2, 3, 3), normal(32, 2, 3, 3)
    big_cost, big_true_cost = cost.copy(), true_cost.copy()
    for k, i, j in ((0, 0, 0), (0, 2, 1), (1, 1, 1), (1, 0, 2)):
        big_cost[k, i, j] = big_true_cost[k, i, j] = 1e3
    forbid = lambda x: np.where(x == 1e3, np.inf, x)  # noqa: E731
    expected, of_big = value_and_grad(name, big_cost, big_true_cost)
    pairs = [(forbid(big_cost), forbid(big_true_cost))]
    if name != "fenchel_young":
        pairs += [(cost, forbid(big_true_cost)), (forbid(big_cost), true_cost)]
    for pair in pairs:
        result, gradient = value_and_grad(name, *pair)
        assert result.used.all()
        np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-4, atol=1e-4)
        of_allowed = np.where(big_cost == 1e3, 0, of_big)
        np.testing.assert_allclose(gradient, of_allowed, atol=1e-6)


@each_loss
def test_masks_cut_out_a_problem(name):
    rows, cols = np.array([1, 0, 1, 1], bool), np.array([1, 1, 0, 1, 1], bool)
    cost, true_cost = normal(33, 4, 5), normal(34, 4, 5)
    exists = rows[:, None] & cols
    oracle = assignment_oracle(row_mask=rows, col_mask=cols)
    dirty = (np.where(exists, x, np.nan) for x in (cost, true_cost))
    result, gradient = value_and_grad(name, *dirty, oracle)
    clean, of_clean = value_and_grad(name, cost, true_cost, oracle)
    assert result.used and np.isfinite(result.loss) and (gradient[~exists] == 0).all()
    np.testing.assert_array_equal(result.loss, clean.loss)
    np.testing.assert_array_equal(gradient, of_clean)
    if name not in ("fenchel_young", "perturbed_regret"):  # noise is by place
        small, of_small = value_and_grad(name, cost[rows][:, cols], true_cost[rows][:, cols])
        np.testing.assert_allclose(result.loss, small.loss, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient[rows][:, cols], of_small, atol=1e-6)


def test_targets_may_hold_anything_where_masked():
    oracle = assignment_oracle(row_mask=jnp.array([True, False]))
    target = jnp.array([[1.0, 0.0], [jnp.nan, jnp.nan]])
    cost = jnp.array([[0.5, 0.1], [jnp.nan, 1.0]])
    assert jax.jit(fenchel_young)(oracle, cost, target).used
    true_cost = jnp.zeros((2, 2))
    assert losses.spo_plus_loss(oracle, cost, true_cost, true_solution=target).loss > 0


@each_loss
def test_bfloat16(name):
    check_dtype(name, "bfloat16")


@pytest.mark.parametrize("name", ["fenchel_young", "spo_plus"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes(name, dtype):
    check_dtype(name, dtype)


def check_dtype(name, dtype):
    with x64(dtype == "float64"):
        cost, true_cost = (jnp.asarray(normal(s, 2, 3, 3), dtype) for s in (35, 36))
        result, gradient = value_and_grad(name, cost, true_cost)
        assert result.loss.dtype == ("float64" if dtype == "float64" else "float32")
        assert gradient.dtype == dtype
        wide = (x.astype(jnp.float32) for x in (cost, true_cost))
        expected, of_wide = value_and_grad(name, *wide)
        np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gradient.astype(jnp.float32), of_wide, rtol=1e-2)


def test_integers():
    cost, true_cost = np.array([[1, 2], [2, 4]]), np.array([[3, 1], [2, 3]])
    result = losses.spo_plus_loss(assignment_oracle(), cost, true_cost)
    # 2 cost - true_cost = [[-1, 3], [2, 5]], of optimum 4; y(C) costs 5 there.
    assert result.loss.dtype == jnp.float32 and result.loss == 1
    assert losses.regret(assignment_oracle(), cost, true_cost).regret == 0
    wide = losses.regret(assignment_oracle(), cost.astype(np.float16), true_cost.astype(np.float32))
    assert wide.regret.dtype == jnp.float32


@each_loss
def test_no_problems(name):
    check_nothing(name, (0, 3, 3))


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 0)])
def test_empty_problems(shape):
    check_nothing("spo_plus", shape)


def check_nothing(name, shape):
    result, gradient = value_and_grad(name, np.zeros(shape), np.zeros(shape))
    assert result.loss.shape == shape[:-2] and gradient.shape == shape
    assert (result.loss == 0).all() and result.used.all() and result.num_unsolved == 0


# ---------------------------------------------------------------------------------------------
# Other oracles


def test_unmatched_costs():
    points, oracle = partial_matrices(3, 3), assignment_oracle(may_stay_unmatched=True)
    cost, true_cost = normal(37, 5, 3, 4), normal(38, 5, 3, 4)
    result, gradient = value_and_grad("spo_plus", cost, true_cost, oracle)
    for k in range(5):
        reflected = 2 * cost[k].astype(np.float64) - true_cost[k]
        target = best(points, true_cost[k])
        expected = dot(reflected, target) - optimum(points, reflected)
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(gradient[k], 2 * (target - best(points, reflected)))


def test_cuts():
    senders, receivers = [0, 0, 1, 2, 1], [1, 2, 3, 3, 2]
    network = jm.FlowNetwork.from_edges(senders, receivers, num_nodes=4)
    sides = np.array([[1, a, b, 0] for a in (0, 1) for b in (0, 1)])
    cuts = np.array([s[senders] * (1 - s[receivers]) for s in sides], np.float64)
    cost, true_cost = np.abs(normal(39, 6, 5)) + 0.1, np.abs(normal(40, 6, 5)) + 0.1
    result = jax.jit(partial(losses.regret, cut_oracle(network, 0, 3)))(cost, true_cost)
    for k in range(6):
        least = optimum(cuts, true_cost[k])
        lost = dot(true_cost[k], best(cuts, cost[k])) - least
        np.testing.assert_allclose(result.regret[k], lost, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result.optimum[k], least, rtol=1e-6)


LABELS = np.array(np.meshgrid(*[[0.0, 1.0]] * 6)).reshape(6, -1).T.reshape(-1, 2, 3)
PAIRWISE = np.abs(normal(45, 2, 2, 3))  # to the right, and down


def smoothness(labels):
    right = np.abs(np.diff(labels, axis=-1)) * PAIRWISE[0, :, :-1]
    down = np.abs(np.diff(labels, axis=-2)) * PAIRWISE[1, :-1]
    return right.sum((-2, -1)) + down.sum((-2, -1))


def best_labels(cost):
    """The labelling and what it costs, smoothness and all."""
    total = (LABELS * np.asarray(cost, np.float64)).sum((1, 2)) + smoothness(LABELS)
    return LABELS[total.argmin()], total.min()


def objective(cost, y):
    return (np.asarray(cost, np.float64) * y).sum() + smoothness(y)


@each_loss
def test_labellings(name):
    """Values have the smoothness in them; gradients are differences of labellings."""
    cost, true_cost = normal(46, BATCH, 2, 3), normal(47, BATCH, 2, 3)
    result, gradient = value_and_grad(name, cost, true_cost, labelling_oracle(PAIRWISE))
    assert result.used.all()
    z = [numpy_noise(KEY, s, cost.shape, "normal") for s in range(SAMPLES)]
    noisy, changed = cost + SIGMA * np.array(z, np.float64), 0
    for k in range(BATCH):
        target, least = best_labels(true_cost[k])
        mean = np.mean([best_labels(c)[0] for c in noisy[:, k]], 0)
        slope = None
        if name == "fenchel_young":
            smoothed = np.mean([best_labels(c)[1] for c in noisy[:, k]])
            expected, slope = objective(cost[k], target) - smoothed, target - mean
        elif name == "spo_plus":
            y, reflected = best_labels(2 * cost[k] - true_cost[k])
            expected = -reflected + 2 * objective(cost[k], target) - least
            slope = 2 * (target - y)
            lost = objective(true_cost[k], best_labels(cost[k])[0]) - least
            assert expected >= lost - 1e-5
        elif name in ("perturbation_gradient", "central"):
            ahead = 0.7 if name == "central" else 0.0
            (y, first), (far, last) = (
                best_labels(cost[k] + step * true_cost[k]) for step in (ahead, -0.7)
            )
            expected, slope = (first - last) / (ahead + 0.7), (y - far) / (ahead + 0.7)
        elif name == "regret":
            expected = objective(true_cost[k], best_labels(cost[k])[0]) - least
        else:
            linear = (true_cost[k] * mean).sum()
            expected = max(linear + smoothness((mean > 0.5) * 1.0) - least, 0)
        np.testing.assert_allclose(result.loss[k], expected, rtol=1e-4, atol=1e-5)
        if slope is not None:
            np.testing.assert_allclose(gradient[k], slope, atol=1e-5)
            changed += slope.any()
    assert changed > 1 or name in ("regret", "perturbed_regret")


def test_smoothness_has_no_gradient():
    """What belongs to an oracle carries none."""
    cost, true_cost = normal(48, 2, 3), normal(49, 2, 3)

    def total(pairwise):
        oracle = labelling_oracle(pairwise)
        return sum(loss(oracle, cost, true_cost).loss for loss in LOSSES.values())

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(PAIRWISE), 0)
    optimum = jax.jit(lambda p: losses.regret(labelling_oracle(p), cost, true_cost).optimum)
    np.testing.assert_allclose(optimum(PAIRWISE), best_labels(true_cost)[1], rtol=1e-5)


def test_identity_passes_true_costs_on():
    """Unprojected, also where nothing is lost."""
    cost = normal(50, 3, 3)
    f = lambda c: losses.regret(assignment_oracle(), c, cost, estimator=Identity("none")).regret  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.grad(f))(cost), -cost)


@each_loss
def test_a_users_solver_may_refer_to_what_is_differentiated(name):
    cost, true_cost = jnp.array([0.5, 1.0, 0.1]), jnp.array([0.2, 3.0, 1.0])

    def loss(cost, scale):
        choose = oracle_of(lambda c: jax.nn.one_hot((c * scale).argmin(-1), 3), 1)
        return LOSSES[name](choose, cost, true_cost).loss

    plain = oracle_of(lambda c: jax.nn.one_hot(c.argmin(-1), 3), 1)
    expected = value_and_grad(name, cost, true_cost, plain)
    value, (gradient, by_scale) = jax.jit(jax.value_and_grad(loss, (0, 1)))(cost, 1.0)
    np.testing.assert_allclose(value, expected[0].loss, rtol=1e-6)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-6)
    assert by_scale == 0
    if name == "spo_plus":
        assert jax.grad(loss, 1)(cost, 1.0) == 0


def test_a_users_solver_that_fails():
    choose = oracle_of(
        lambda c: jnp.where(c[..., :1] > 0, jax.nn.one_hot(c.argmin(-1), 3), jnp.nan), 1
    )
    cost = jnp.array([[0.5, 1.0, 0.1], [-0.5, 1.0, 0.1]])
    true_cost = jnp.array([[0.7, 0.3, 0.9], [0.7, 0.3, 0.9]])
    result, gradient = value_and_grad("regret", cost, true_cost, choose)
    assert result.used.tolist() == [True, False] and (gradient[1] == 0).all()
    np.testing.assert_allclose(result.loss, [0.6, 0.0], rtol=1e-6)


# ---------------------------------------------------------------------------------------------
# What they are for


@pytest.mark.parametrize("name", ["fenchel_young", "spo_plus", "perturbation_gradient"])
def test_a_model_learns_to_decide(name):
    """Costs are a linear function of features; learnt from few problems, it decides for others."""
    rng = np.random.default_rng(41)
    features = rng.normal(size=(60, 4, 4, 3)).astype(np.float32)
    true_cost = features @ np.array([1.0, -2.0, 0.5], np.float32)
    learn = slice(0, 40)

    def step(weights, _):
        def total(weights):
            cost = features[learn] @ weights
            return LOSSES[name](assignment_oracle(), cost, true_cost[learn]).loss.mean()

        return weights - 0.1 * jax.grad(total)(weights), None

    weights, _ = jax.lax.scan(step, jnp.ones(3), length=60)
    before, after = (
        losses.regret(assignment_oracle(), features[40:] @ w, true_cost[40:])
        for w in (jnp.ones(3), weights)
    )
    assert after.regret.sum() < 0.05 * before.regret.sum()


# ---------------------------------------------------------------------------------------------
# Arguments


def test_arguments_are_checked():
    oracle, cost = assignment_oracle(), np.eye(3, dtype=np.float32)
    with pytest.raises(TypeError, match="`estimator` must have a smoothed `value`, got Blackbox"):
        losses.fenchel_young_loss(oracle, cost, cost, estimator=Blackbox())
    with pytest.raises(ValueError, match="Perturbed draws noise: pass `key`"):
        losses.fenchel_young_loss(oracle, cost, cost, estimator=Perturbed())
    with pytest.raises(TypeError, match="`estimator` must be one of jaxmatch.estimators"):
        losses.regret(oracle, cost, cost, estimator="blackbox")  # pyright: ignore
    with pytest.raises(ValueError, match=r"`strength` must be a number .* \(2,\), got \(3,\)"):
        losses.perturbation_gradient_loss(oracle, np.zeros((2, 3, 3)), cost, strength=np.ones(3))
    for f in (losses.spo_plus_loss, losses.regret):
        with pytest.raises(TypeError, match="`oracle` must be a LinearOracle, got function"):
            f(lambda c: c, cost, cost)  # pyright: ignore
        with pytest.raises(ValueError, match=r"`cost` \(3, 3\), `true_cost` \(3, 2\)"):
            f(oracle, cost, cost[:, :2])
        with pytest.raises(ValueError, match=r"`true_cost` \(1, 3\)"):
            f(oracle, cost, cost[:1])
        with pytest.raises(ValueError, match="must broadcast"):
            f(oracle, np.zeros((2, 3, 3)), np.zeros((3, 3, 3)))
        with pytest.raises(ValueError, match="`cost` must have at least 2 dimensions"):
            f(oracle, cost[0], cost[0])
    assert losses.regret(oracle, cost, cost, estimator=Identity()).regret == 0
