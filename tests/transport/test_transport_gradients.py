"""Gradients of `solve_transport`, against differences of optima in rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distance_helpers import assert_gradient
from helpers import to_numpy, x64
from transport_truth import Truth

import jaxmatch as jm


METHODS = ("network_simplex", "xla")
KINDS = ("all", "partial", "unmatched")
OPTION = {"partial": "partial", "unmatched": "unmatched_cost"}
N, M = 4, 5


def problem_of(seed: int, kind: str, maximize: bool) -> dict[str, np.ndarray]:
    """Of which all optima are unique, as its numbers are random."""
    rng = np.random.default_rng(seed)
    sign = -1 if maximize else 1
    given = {"cost": rng.normal(size=(N, M)), "supply": rng.dirichlet(np.ones(N))}
    given["demand"] = rng.dirichlet(np.ones(M)) * (1 if kind == "all" else 1.3)
    if kind == "partial":
        given["partial"] = np.array(0.6)
    if kind == "unmatched":
        given["unmatched_cost"] = sign * rng.normal(size=N) * 0.5
    return given


def value_of(kind: str, **options: Any) -> Any:
    def value(cost: Any, supply: Any, demand: Any, *more: Any) -> Any:
        given = {OPTION[kind]: more[0]} if more else {}
        return jm.solve_transport(cost, supply, demand, **given, **options).cost

    return value


def exact_slope(given: dict[str, Any], way: dict[str, Any], maximize: bool) -> float:
    """The derivative along a direction: optima are piecewise linear, and have no rounding here."""
    step = Fraction(1, 2**24)

    def optimum(at: Fraction) -> Fraction:
        truth = Truth(**given, maximize=maximize)
        cost = way["cost"]
        truth.cost = [
            [x + truth.sign * at * Fraction(cost[i, j]) for j, x in enumerate(row) if x is not None]
            for i, row in enumerate(truth.cost)
        ]
        for name in ("supply", "demand"):
            moved = [x + at * Fraction(y) for x, y in zip(given_of(name), way[name], strict=True)]
            setattr(truth, name, moved)
        if truth.moved is not None:
            truth.moved = Fraction(float(given["partial"])) + at * Fraction(float(way["partial"]))
        if truth.unmatched is not None:
            truth.unmatched = [
                x + truth.sign * at * Fraction(y)
                for x, y in zip(truth.unmatched, way["unmatched_cost"], strict=True)
                if x is not None
            ]
        best = truth.optimum()
        assert best is not None
        return best

    def given_of(name: str) -> list[Fraction]:
        masses = [Fraction(float(x)) for x in given[name]]
        if set(given) & {"partial", "unmatched_cost"} or name == "supply":
            return masses
        rate = sum(Fraction(float(x)) for x in given["supply"]) / sum(masses)
        return [x * rate for x in masses]

    up, here, down = optimum(step), optimum(Fraction(0)), optimum(-step)
    # The optimum of costs is concave and that of masses convex, so this says it is differentiable,
    # but for the product of both directions.
    assert abs(up - 2 * here + down) < 8 * step**2 * 100
    return float((up - down) / (2 * step))


def directions(rng: Any, given: dict[str, Any], only: str | None = None) -> dict[str, np.ndarray]:
    """Random; of masses along which sums still agree, and in multiples of 2^-20."""
    way = {name: rng.integers(-(2**20), 2**20, np.shape(x)) / 2**20 for name, x in given.items()}
    if not set(given) & {"partial", "unmatched_cost"}:
        for name in ("supply", "demand"):
            way[name][0] -= way[name].sum()
    return {k: x if only in (None, k) else np.zeros_like(x) for k, x in way.items()}


SLOPES = [(kind, maximize, METHODS[0]) for kind in KINDS for maximize in (False, True)]
SLOPES += [("all", True, "xla"), ("partial", False, "xla")]


@pytest.mark.parametrize("kind, maximize, method", SLOPES)
def test_slopes_in_rational_arithmetic(kind, maximize, method, platform):
    """Along each argument, and along all of them; in reverse, forward, and compiled."""
    rng = np.random.default_rng(0)
    for seed in range(3):
        given = problem_of(seed, kind, maximize)
        value = value_of(kind, maximize=maximize, method=method)
        with x64(True):
            arrays = [jnp.asarray(x) for x in given.values()]
            every = tuple(range(len(arrays)))
            grads = to_numpy(jax.jit(jax.grad(value, every))(*arrays))
            for only in (*given, None):
                way = directions(rng, given, only)
                expected = exact_slope(given, way, maximize)
                slope = sum((g * w).sum() for g, w in zip(grads, way.values(), strict=True))
                np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-7, err_msg=str(only))
                ways = [jnp.asarray(x) for x in way.values()]
                _, forward = jax.jvp(jax.jit(value), arrays, ways)
                np.testing.assert_allclose(forward, slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_plan_and_duals(kind):
    """As documented: the plan, what stays, the duals and the cost of the last unit."""
    given = problem_of(3, kind, False)
    with x64(True):
        arrays = [jnp.asarray(x) for x in given.values()]
        grads = to_numpy(jax.grad(value_of(kind), tuple(range(len(arrays))))(*arrays))
        res = to_numpy(jm.solve_transport(**dict(zip(given, arrays, strict=True))))
    plan = res.todense()
    np.testing.assert_array_equal(grads[0], plan)
    u, v = res.row_dual, res.col_dual
    a, b, cost = given["supply"], given["demand"], given["cost"]
    if kind == "all":
        paid = grads[1] @ a, grads[2] @ b
        np.testing.assert_allclose(paid, [res.cost / 2] * 2, rtol=1e-12)
        np.testing.assert_allclose(np.ptp(grads[1] - u), 0, atol=1e-14)
        np.testing.assert_allclose(np.ptp(grads[2] - v), 0, atol=1e-14)
        np.testing.assert_allclose((grads[1] - u)[0], -(grads[2] - v)[0], atol=1e-14)
    else:
        np.testing.assert_allclose(grads[1], u, atol=1e-14)
        np.testing.assert_allclose(grads[2], v, atol=1e-14)
    if kind == "partial":
        t = grads[3]
        np.testing.assert_allclose(a @ u + b @ v + t * given["partial"], res.cost, rtol=1e-9)
        assert (u[:, None] + v + t <= cost + 1e-9).all() and (u <= 0).all() and (v <= 0).all()
        assert np.abs((u[:, None] + v + t - cost)[plan > 0]).max() < 1e-9
    if kind == "unmatched":
        np.testing.assert_allclose(grads[3], a - plan.sum(1), atol=1e-14)
        assert (u <= given["unmatched_cost"] + 1e-9).all() and (v <= 0).all()


@pytest.mark.parametrize("kind", ["all", "partial"])
def test_batches_of_gradients(kind, platform):
    """A batch, `vmap`, `jit`, and one problem for which all share the costs."""
    many = [problem_of(seed, kind, False) for seed in range(4)]
    with x64(True):
        arrays = [jnp.asarray(np.stack([x[name] for x in many])) for name in many[0]]
        every, value = tuple(range(len(arrays))), value_of(kind)
        weight = jnp.array([1.0, -2, 0, 3])
        batch = jax.grad(lambda *x: (weight * value(*x)).sum(), every)(*arrays)
        mapped = jax.jit(jax.vmap(jax.grad(value, every)))(*arrays)
        for x, y in zip(batch, mapped, strict=True):
            scale = weight.reshape(-1, *[1] * (x.ndim - 1))
            np.testing.assert_allclose(x, y * scale, rtol=1e-12, atol=1e-15)
        for k in range(4):
            one = jax.grad(value, every)(*(x[k] for x in arrays))
            for x, y in zip(mapped, one, strict=True):
                np.testing.assert_allclose(x[k], y, rtol=1e-12, atol=1e-15)
        shared = jax.grad(lambda c: value(c, *arrays[1:]).sum())(arrays[0][0])
        each = [jax.grad(value)(arrays[0][0], *(x[k] for x in arrays[1:])) for k in range(4)]
        np.testing.assert_allclose(shared, sum(each), rtol=1e-12, atol=1e-15)
        jacobian = jax.jacrev(value)(*arrays)
        assert jacobian.shape == (4, 4, N, M)
        np.testing.assert_array_equal(jacobian[np.arange(4), np.arange(4)], mapped[0])
        np.testing.assert_allclose(jax.jacfwd(value)(*arrays), jacobian, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_entries_have_no_gradient(kind, platform):
    """Also where they hold NaN, and costs elsewhere are forbidden."""
    given = problem_of(4, kind, False)
    rows, cols = np.arange(N + 2) < N, np.arange(M + 1) < M
    wide = {
        "cost": np.full((N + 2, M + 1), np.nan),
        "supply": np.full(N + 2, np.nan),
        "demand": np.full(M + 1, -1.0),
        "unmatched_cost": np.full(N + 2, -np.inf),
    }
    wide["cost"][:N, :M] = given["cost"]
    for name, size in (("supply", N), ("demand", M), ("unmatched_cost", N)):
        if name in given:
            wide[name][:size] = given[name]
    with x64(True):
        small = [jnp.asarray(x) for x in given.values()]
        large = [jnp.asarray(wide.get(name, given[name])) for name in given]
        every = tuple(range(len(small)))
        expected = jax.grad(value_of(kind), every)(*small)
        masks = {"row_mask": jnp.asarray(rows), "col_mask": jnp.asarray(cols)}
        grads = jax.grad(value_of(kind, **masks), every)(*large)
        for x, y in zip(grads, expected, strict=True):
            part = tuple(slice(k) for k in y.shape)
            np.testing.assert_allclose(x[part], y, rtol=1e-9, atol=1e-12)
            assert np.abs(x).sum() == np.abs(x[part]).sum()
        # Forbidden pairs have gradient 0, and do not disturb others.
        cost = small[0].at[0, 1:3].set(jnp.inf)
        value, grad = jax.value_and_grad(value_of(kind))(cost, *small[1:])
        assert np.isfinite(value) and np.isfinite(grad).all() and (grad[0, 1:3] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_failed_problems_have_no_gradient(kind, platform):
    """Whatever cotangent their NaN costs bring back; others in the batch keep theirs."""
    bad = ("cost", "supply", "demand")
    given = [problem_of(5, kind, False) for _ in range(4)]
    for k, name in enumerate(bad):
        given[k + 1][name].flat[0] = -1 if name == "supply" else np.nan
    with x64(True):
        arrays = [jnp.asarray(np.stack([x[name] for x in given])) for name in given[0]]
        every = tuple(range(len(arrays)))
        for total in (jnp.sum, jnp.nansum, lambda x: (x**2).sum()):
            grads = jax.jit(jax.grad(lambda *x: total(value_of(kind)(*x)), every))(*arrays)  # noqa: B023
            for grad in grads:
                assert np.isfinite(grad).all() and not grad[1:].any() and grad[0].any()


def test_second_derivatives_are_zero():
    given = problem_of(6, "partial", False)
    with x64(True):
        arrays = [jnp.asarray(x) for x in given.values()]
        for k in (0, 2):
            hessian = jax.jacfwd(jax.grad(value_of("partial"), k), k)(*arrays)
            assert not np.asarray(hessian).any()
        # Of costs that depend on something, the product rule holds.
        value, x = value_of("partial"), jnp.asarray(0.3)
        curve = jax.grad(jax.grad(lambda x: value(arrays[0] + x**2, *arrays[1:])))(x)
        np.testing.assert_allclose(curve, 2 * 0.6, rtol=1e-12)


def of_points(x: Any, supply: Any, demand: Any) -> Any:
    return jm.solve_transport_points(x, jnp.ones((M, 2)), supply, demand).cost


def distance(x: Any, x_weight: Any, y_weight: Any) -> Any:
    return jm.losses.earth_mover_distance(x, jnp.ones((M, 2)), x_weight, y_weight)


@pytest.mark.parametrize("kind", [*KINDS, "points", "distance"])
def test_second_derivatives_across_costs_and_masses_are_errors(kind):
    """In traces, as they stand before anything is compiled, and for one pair in a call."""
    given = problem_of(6, kind if kind in KINDS else "all", False)
    value = {"points": of_points, "distance": distance}.get(kind) or value_of(kind)
    with x64(True):
        arguments = [jnp.asarray(x) for x in given.values()]
        if kind not in KINDS:
            arguments[0] = arguments[0][:, :2]
        costs, masses = (0, 3) if kind == "unmatched" else (0,), (1, 2)
        if kind == "partial":
            masses = (1, 2, 3)
        # All together have a first derivative, each alone a second one.
        every = (*costs, *masses)
        both = jax.jit(jax.grad(value, every))(*arguments)
        for at, together in zip(every, both, strict=True):
            alone = jax.grad(value, at)
            np.testing.assert_array_equal(jax.jit(alone)(*arguments), together)
            jax.eval_shape(jax.jacfwd(alone, at), *arguments)
        pairs = itertools.product(costs, masses)
        for first, second in [x for pair in pairs for x in (pair, pair[::-1])]:
            gradient = jax.grad(value, first)
            for twice in (jax.jacfwd(gradient, second), jax.jacrev(gradient, second)):
                with pytest.raises(TypeError, match="across costs"):
                    jax.eval_shape(twice, *arguments)
        with pytest.raises(TypeError, match="across costs"):
            jax.jacrev(jax.grad(value, 0), 1)(*arguments)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gradients_have_the_dtype_of_their_argument(dtype, platform):
    given = {k: np.round(8 * x) for k, x in problem_of(8, "all", False).items()}
    cost, a = jnp.asarray(given["cost"]).astype(dtype), jnp.array([5.0, 1, 4, 5])
    b = jnp.full(M, 3.0)
    grads = jax.grad(value_of("all"), (0, 1, 2))(cost, a, b)
    assert [x.dtype for x in grads] == [jnp.dtype(dtype), jnp.float32, jnp.float32]
    np.testing.assert_array_equal(grads[0], jm.solve_transport(cost, a, b).todense().astype(dtype))
    whole = jax.grad(value_of("all"))(cost, a.astype(int), b.astype(int))
    assert whole.dtype == jnp.dtype(dtype) and whole.sum() == 15


@pytest.mark.parametrize("method", METHODS)
def test_supergradients_where_optima_are_several(method, platform):
    """The optimum is concave in the costs and convex in the masses: exact in small integers."""
    rng = np.random.default_rng(9)
    cost = rng.integers(0, 3, (16, N, M)).astype(np.float32)
    a = np.full((16, N), 5, np.float32)
    b = np.full((16, M), 4, np.float32)
    value = jax.jit(value_of("all", method=method))
    arrays = [jnp.asarray(x) for x in (cost, a, b)]
    here = value(*arrays)
    grads = jax.grad(lambda *x: value(*x).sum(), (0, 1, 2))(*arrays)
    for _ in range(5):
        way = rng.integers(-2, 3, cost.shape).astype(np.float32)
        most = here + (grads[0] * way).sum((1, 2))
        assert (value(cost + way, a, b) <= most).all()
        moves = rng.permuted(np.array([[1, -1, 2, -2]] * 16), axis=1).astype(np.float32)
        other = rng.permuted(np.array([[1, -1, 3, -3, 0]] * 16), axis=1).astype(np.float32)
        least = here + (grads[1] * moves).sum(1) + (grads[2] * other).sum(1)
        assert (value(cost, a + moves, b + other) >= least - 1e-4).all()


@pytest.mark.parametrize("kind", KINDS)
def test_through_points(kind):
    """Costs that are distances of points, and masses that are a softmax."""
    rng = np.random.default_rng(10)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)) + 1

    def loss(x: Any, y: Any, of_row: Any, of_col: Any, more: Any) -> Any:
        cost = jnp.sqrt(((x[:, None] - y[None, :]) ** 2).sum(-1))
        a, b = jax.nn.softmax(of_row), jax.nn.softmax(of_col)
        b = b if kind == "all" else 1.5 * b
        given = {
            "partial": {"partial": jax.nn.sigmoid(more)},
            "unmatched": {"unmatched_cost": more},
        }
        return jm.solve_transport(cost, a, b, **given.get(kind, {})).cost

    more = np.array(0.4) if kind == "partial" else 1.5 + 0.1 * rng.normal(size=6)
    assert_gradient(loss, (x, y, rng.normal(size=6), rng.normal(size=5), more))


def test_traces_of_more_than_2_to_the_31_costs():
    cost = jax.ShapeDtypeStruct((50_000, 50_000), jnp.bfloat16)
    mass = jax.ShapeDtypeStruct((50_000,), jnp.float32)
    slope = jax.grad(lambda c, a: jm.solve_transport(c, a, a).cost)
    assert jax.eval_shape(slope, cost, mass) == cost
    slope = jax.grad(lambda c: jm.bottleneck_assignment(c).bottleneck)
    assert jax.eval_shape(slope, cost) == cost
