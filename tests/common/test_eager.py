"""Calls outside of `jit`: their precision, what they compile, and what a small one takes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from helpers import assert_same_bits, x64
from scipy.stats import wasserstein_distance

import jaxmatch as jm
from jaxmatch import estimators, losses
from jaxmatch._common import place


RNG = np.random.default_rng(0)


def uniform(*shape):
    return np.random.default_rng(sum(shape)).random(shape)


def boxes(*shape):
    low = uniform(*shape, 2)
    return np.concatenate([low, low + 0.5 + uniform(*shape, 3)[..., :2]], -1)


def apart(o, t):
    return jnp.square(o[..., :, None, :] - t[..., None, :, :]).sum(-1)


def paired(o, t):
    return jnp.square(o - t).sum(-1)


LABELS = np.array([[0, 1], [1, 2]])
ORACLE = estimators.assignment_oracle()

# All losses and estimators, as calls on NumPy's float64.
CALLS = {
    "box_area": lambda: losses.box_area(boxes(5)),
    "box_cxcywh_to_xyxy": lambda: losses.box_cxcywh_to_xyxy(boxes(5)),
    "box_xyxy_to_cxcywh": lambda: losses.box_xyxy_to_cxcywh(boxes(5)),
    "box_iou": lambda: losses.box_iou(boxes(5), boxes(4)),
    "generalized_box_iou": lambda: losses.generalized_box_iou(boxes(5), boxes(4)),
    "elementwise_box_iou": lambda: losses.elementwise_box_iou(boxes(4), boxes(4) + 0.1),
    "elementwise_generalized_box_iou": lambda: losses.elementwise_generalized_box_iou(
        boxes(4), boxes(4) + 0.1
    ),
    "DetectionCriterion": lambda: (
        losses.DetectionCriterion()(
            uniform(2, 5, 4), uniform(2, 5, 4), LABELS, uniform(2, 2, 4)
        ).total
    ),
    "sigmoid_focal_loss": lambda: losses.sigmoid_focal_loss(uniform(4), uniform(4) > 0.5),
    "sigmoid_mask_cost": lambda: losses.sigmoid_mask_cost(uniform(3, 9), uniform(2, 9) > 0.5),
    "dice_cost": lambda: losses.dice_cost(uniform(3, 9), uniform(2, 9) > 0.5),
    "sigmoid_mask_loss": lambda: losses.sigmoid_mask_loss(uniform(3, 9), uniform(3, 9) > 0.5),
    "dice_loss": lambda: losses.dice_loss(uniform(3, 9), uniform(3, 9) > 0.5),
    "one_to_many": lambda: losses.one_to_many((uniform(2, 6, 4),), 3),
    "split_groups": lambda: losses.split_groups((uniform(2, 6, 4),), 3),
    "gather_matched": lambda: losses.gather_matched(uniform(4, 3), np.array([0, -1, 2])),
    "hungarian_matching": lambda: losses.hungarian_matching(uniform(4, 3)).cost,
    "hungarian_loss": lambda: (
        losses.hungarian_loss(
            uniform(4, 3), uniform(2, 3), matching_cost=apart, pair_loss=paired
        ).loss
    ),
    "matched_loss": lambda: (
        losses.matched_loss(
            uniform(4, 3), uniform(2, 3), jm.solve_assignment(uniform(4, 2)), pair_loss=paired
        ).loss
    ),
    "permutation_invariant_loss": lambda: (
        losses.permutation_invariant_loss(
            uniform(3, 20), uniform(2, 20), pair_cost=losses.negative_si_snr
        ).loss
    ),
    "negative_si_snr": lambda: losses.negative_si_snr(uniform(3, 20), uniform(2, 20)),
    "wasserstein_1d": lambda: losses.wasserstein_1d(uniform(5), uniform(4)),
    "histogram_distance": lambda: losses.histogram_distance(uniform(5), uniform(5) + 1),
    "earth_mover_distance": lambda: losses.earth_mover_distance(uniform(5, 2), uniform(4, 2)),
    "fenchel_young_loss": lambda: (
        losses.fenchel_young_loss(
            ORACLE, uniform(3, 3), np.eye(3), estimator=estimators.Entropic(0.5)
        ).loss
    ),
    "spo_plus_loss": lambda: losses.spo_plus_loss(ORACLE, uniform(3, 3), uniform(3, 3).T).loss,
    "perturbation_gradient_loss": lambda: (
        losses.perturbation_gradient_loss(ORACLE, uniform(3, 3), uniform(3, 3).T, strength=0.5).loss
    ),
    "regret": lambda: losses.regret(ORACLE, uniform(3, 3), uniform(3, 3).T).optimum,
    "assignment_matrix": lambda: jm.assignment_matrix(
        uniform(3, 3), estimator=estimators.Entropic(0.5)
    ),
}
RESULTS = {"DetectionLoss", "HungarianLoss", "Regret", "StructuredLoss"}


def test_every_loss_is_here():
    assert {*losses.__all__} <= CALLS.keys() | RESULTS


@pytest.mark.parametrize("name", CALLS)
def test_float64_of_numpy_is_computed_in_64_bits(name):
    """With the numbers that `jax_enable_x64` gives, and as NumPy arrays."""
    got = jax.tree.leaves(CALLS[name]())
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    with x64(True):
        expected = jax.tree.leaves(CALLS[name]())
    for x, y in zip(got, expected, strict=True):
        assert isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.writeable
        np.testing.assert_array_equal(x, y)


def test_integers_of_64_bits_in_losses():
    x, y = np.array([2**53 - 1, 2**53 - 3]), np.array([2**53 - 2, 2**53 - 8])
    assert losses.wasserstein_1d(x, y) == 3
    assert losses.earth_mover_distance(x[:, None], y[:, None], metric="l1") == 3
    cost = np.array([[2**25 + 1, 2**25], [2**25, 2**25]])
    matrix = jm.assignment_matrix(cost, estimator=estimators.Identity())
    assert matrix.dtype == np.float32 and matrix.tolist() == [[0, 1], [1, 0]]
    small = np.array([[1, 2], [2, 4]])
    loss = losses.spo_plus_loss(ORACLE, small, cost).loss
    assert loss.dtype == np.float32 and loss == losses.spo_plus_loss(ORACLE, small + 0.0, cost).loss


@pytest.mark.cpu
def test_the_first_array_decides_the_kind():
    x, y = uniform(5), uniform(4)
    assert isinstance(losses.wasserstein_1d(x.astype(np.float32), y), np.ndarray)
    got = losses.wasserstein_1d(jnp.asarray(x), y)
    assert isinstance(got, jax.Array) and got.dtype == jnp.float32
    there = jax.device_put(jnp.asarray(x), jax.devices()[1])
    assert losses.wasserstein_1d(there, y).devices() == {jax.devices()[1]}


def test_functions_of_the_caller_see_the_precision_and_may_close_over_what_is_traced():
    x, y = 1e8 + uniform(6, 2), 1e8 + uniform(4, 2)
    seen = []

    def metric(scale, x, y):
        seen.append(x.dtype)
        return scale * apart(x, y)

    expected = losses.earth_mover_distance(x, y)
    got = losses.earth_mover_distance(x, y, metric=partial(metric, 1.0))
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert {*seen} == {np.dtype(np.float64)}
    x, y = x - 1e8, y - 1e8

    def scaled(scale):
        return losses.earth_mover_distance(x, y, metric=partial(metric, scale))

    for slope in (jax.grad(scaled)(2.0), jax.jit(jax.grad(scaled))(2.0)):
        np.testing.assert_allclose(slope, losses.earth_mover_distance(x, y), rtol=1e-5)


def test_within_a_trace_numpy_arrays_are_constants():
    t = 1.7e9 + uniform(30)
    expected = wasserstein_distance(t, t[:20])
    got = jax.jit(lambda x: x * losses.wasserstein_1d(t, t[:20]))(1.0)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    cost = losses.sigmoid_mask_cost(uniform(3, 9), uniform(2, 9))
    got = jax.jit(lambda x: x * losses.sigmoid_mask_cost(uniform(3, 9), uniform(2, 9)))(1.0)
    np.testing.assert_allclose(got, cost, rtol=1e-6)


def test_errors_name_the_argument():
    with pytest.raises(TypeError, match="`labels` must hold integers, the classes, got float64"):
        losses.DetectionCriterion()(uniform(5, 4), uniform(5, 4), np.ones(2), uniform(2, 4))
    with pytest.raises(TypeError, match="`index` must hold integers"):
        losses.gather_matched(uniform(4), np.ones(2))
    with pytest.raises(TypeError, match="`y` must hold numbers, got strings"):
        losses.wasserstein_1d([1.0], ["a"])
    for x in (np.array([1j]), jnp.array([1j])):
        with pytest.raises(TypeError, match="`x` must hold real numbers, got complex"):
            losses.wasserstein_1d(x, [1.0])
    with pytest.raises(TypeError, match="`boxes1` must be an array, got None"):
        losses.box_iou(None, boxes(2))
    with pytest.raises(TypeError, match="argument: 'y'"):
        losses.wasserstein_1d([1.0])
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        losses.wasserstein_1d([1.0], [1.0], x=[1.0])


@pytest.mark.parametrize("name", ["wasserstein_1d", "box_iou", "sigmoid_mask_cost"])
def test_the_other_byte_order(name):
    x, y = boxes(5), boxes(3)
    function = getattr(losses, name)
    if name == "wasserstein_1d":
        x, y = x[:, 0], y[:, 0]
    assert_same_bits(function(x.astype(">f8"), y.astype(">f8")), function(x, y))


# ---------------------------------------------------------------------------------------------
# What is compiled


@pytest.fixture
def compilations():
    """The number of programs compiled so far, or taken from the cache of programs."""
    events = []

    def count(name, duration, **_):
        if name.endswith("backend_compile_duration"):
            events.append(duration)

    jax.monitoring.register_event_duration_secs_listener(count)
    yield lambda: len(events)
    jax.monitoring.unregister_event_duration_listener(count)


X, Y = uniform(130, 130), uniform(131, 131)
NEW_SHAPES = {
    "wasserstein_1d": lambda n, m: losses.wasserstein_1d(X[:n, 0], X[:m, 1], X[:n, 2]),
    "histogram_distance": lambda n, m: losses.histogram_distance(X[:n, 0], X[:n, 1]),
    "earth_mover_distance": lambda n, m: losses.earth_mover_distance(X[:n, :2], X[:m, 2:4]),
    "box_iou": lambda n, m: losses.box_iou(X[:n, :4], X[:m, 4:8]),
    "linear_sum_assignment": lambda n, m: jm.linear_sum_assignment(X[:n, :m]),
    "solve_transport": lambda n, m: jm.solve_transport(X[:n, :m], X[:n, 0], X[:m, 0], partial=0.5),
    "solve_transport_points": lambda n, m: jm.solve_transport_points(
        X[:n, :2], X[:m, 2:4], X[:n, 0], X[:m, 0], unmatched_cost=X[:n, 1]
    ),
    "jax_arrays": lambda n, m: losses.wasserstein_1d(jax.device_put(X[:n, 0]), X[:m, 1]),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", NEW_SHAPES)
def test_new_shapes_compile_nothing(name, compilations):
    call = NEW_SHAPES[name]
    call(5, 6)
    before = compilations()
    for n, m in ((7, 9), (9, 7), (8, 8), (20, 3)):
        call(n, m)
    assert compilations() == before


def test_a_loss_is_one_program_for_each_shape(compilations):
    for n in (11, 12):
        before = compilations()
        losses.sigmoid_mask_cost(X[:n, :9], X[:7, :9])
        assert compilations() <= before + 1
        before = compilations()
        losses.sigmoid_mask_cost(X[:n, :9] + 1, X[:7, :9])
        assert compilations() == before


# ---------------------------------------------------------------------------------------------
# One matrix


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (0, 0), (0, 3), (3, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_one_matrix_as_by_the_general_way(shape, dtype, monkeypatch):
    costs = (100 * RNG.random(shape)).astype(dtype)
    frozen = costs.copy()
    frozen.flags.writeable = False
    given = [costs, frozen, np.asfortranarray(costs), np.repeat(costs, 2, 1)[:, ::2]]
    for maximize in (False, True):
        got = [jm.linear_sum_assignment(x, maximize) for x in given]
        with monkeypatch.context() as patch:
            patch.setattr("jaxmatch._assignment.solve.pairs_of_matrix", lambda *_: None)
            expected = jm.linear_sum_assignment(costs, maximize)
        for pairs in got:
            assert_same_bits(pairs, expected)
        if dtype in ("float32", "int32"):
            pairs = jm.linear_sum_assignment(jnp.asarray(costs), maximize)
            assert all(isinstance(x, jax.Array) for x in pairs)
            assert_same_bits(pairs, expected)
        ours = costs[got[0]].sum()
        theirs = costs[scipy.optimize.linear_sum_assignment(costs, maximize)].sum()
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_indices_of_one_matrix_are_the_callers():
    costs = uniform(4, 4)
    rows, cols = jm.linear_sum_assignment(costs)
    rows[:], cols[:] = 9, 9
    assert jm.linear_sum_assignment(costs)[0].tolist() == [0, 1, 2, 3]
    assert rows.base is None and cols.base is None


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_errors_of_one_matrix(bad):
    costs = np.full((3, 3), bad)
    with pytest.raises(ValueError, match="infeasible" if bad == np.inf else "invalid"):
        jm.linear_sum_assignment(costs)
    with pytest.raises(ValueError, match="infeasible" if bad == np.inf else "invalid"):
        scipy.optimize.linear_sum_assignment(costs)


@pytest.mark.cpu
@pytest.mark.parametrize("often", [0, 2, 14])
def test_jax_arrays_of_a_type_that_comes_often(often, monkeypatch):
    """They lie where the first ones do, and are the same."""
    monkeypatch.setattr(place, "_calls", {})
    monkeypatch.setattr(place, "_CALLS_BEFORE_IDENTITY", often)
    costs = jnp.asarray(uniform(5, 6))
    for given in (costs, jax.device_put(costs, jax.devices()[1])):
        results = [jm.solve_assignment(given) for _ in range(4)]
        for x in results:
            assert_same_bits(x, results[0])
            for leaf in jax.tree.leaves((x, jm.linear_sum_assignment(given))):
                assert isinstance(leaf, jax.Array) and leaf.devices() == given.devices()
                assert leaf.committed == given.committed


# ---------------------------------------------------------------------------------------------
# Calls of one signature, again and again


@pytest.mark.cpu
def test_a_repeated_call_runs_the_native_call_alone(monkeypatch):
    costs, mass = uniform(5, 6), np.full(5, 0.2)
    more = np.full(6, 1 / 6)
    first = jm.solve_assignment(costs), jm.solve_transport(costs, mass, more)
    monkeypatch.setattr("jaxmatch._assignment.solve.as_problem", None)
    monkeypatch.setattr("jaxmatch._transport.solve.as_problem", None)
    again = jm.solve_assignment(costs.copy()), jm.solve_transport(costs.copy(), mass, more)
    assert_same_bits(again, first)
    again[0].col4row[:] = 9  # results are the caller's
    assert_same_bits(jm.solve_assignment(costs), first[0])
    with pytest.raises(TypeError):  # another dtype is another signature
        jm.solve_assignment(costs.astype(np.float32))


@pytest.mark.cpu
def test_one_array_for_two_arguments(monkeypatch):
    """The native call that is repeated has an operand for each."""
    costs, mass = uniform(5, 5), np.full(5, 0.2)
    other = np.array([0.1, 0.3, 0.2, 0.2, 0.2])
    expected = jm.solve_transport(costs.tolist(), mass, other)
    jm.solve_transport(costs, mass, mass)
    monkeypatch.setattr("jaxmatch._transport.solve.as_problem", None)
    assert_same_bits(jm.solve_transport(costs, mass, other), expected)


def test_precision_is_part_of_a_signature():
    costs = uniform(5, 5).astype(np.float32)
    for wide in (False, True, False):
        with x64(wide):
            assert jm.solve_assignment(costs).cost.dtype == (np.float64 if wide else np.float32)
