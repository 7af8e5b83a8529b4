"""Gradients of `solve_sparse_transport`: masses, duals, and reduced costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from matching_helpers import edges_of
from sparse_transport_helpers import KINDS, by_highs, random_case

import jaxmatch as jm


OPTION = {"partial": "partial", "unmatched": "unmatched_cost"}


@pytest.fixture(scope="module", autouse=True)
def in_64_bits():
    with x64(True):
        yield


def problem_of(seed, kind):
    """A problem with one optimum and one set of duals, but for a shift of all."""
    rng = np.random.default_rng(seed)
    while True:
        case = random_case(rng, 4, 5, kind, density=0.8, whole=False)
        noise = lambda x, rng=rng: np.maximum(x + rng.uniform(0.01, 0.3, np.shape(x)), 0)  # noqa: E731
        case.options |= {k: noise(x) for k, x in case.options.items() if k != "unmatched_cost"}
        case.supply, case.demand = noise(case.supply), noise(case.demand)
        if kind == "all":
            case.demand *= case.supply.sum() / case.demand.sum()
        if by_highs(case) is not None and (case.solve().mass == case.limit).any():
            return case


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_differences(kind, seed):
    case = problem_of(seed, kind)
    names = ["limit"] + ([OPTION[kind]] if kind in OPTION else [])
    given = [case.cost, case.supply, case.demand, *(case.options[name] for name in names)]
    given = [jnp.asarray(x) for x in given]

    def value(*x):
        options = dict(zip(names, x[3:], strict=True))
        return jm.solve_sparse_transport(case.graph, *x[:3], **options).cost

    slopes = jax.grad(value, tuple(range(len(given))))(*given)
    res = case.solve()
    rows, cols = edges_of(case.graph)
    reduced = case.cost - res.row_dual[rows] - res.col_dual[cols]
    np.testing.assert_array_equal(slopes[0], res.mass)
    expected = np.where(res.mass == case.limit, np.minimum(reduced, 0), 0)
    np.testing.assert_allclose(slopes[3], expected, atol=1e-14)
    rng, step = np.random.default_rng(seed), 2.0**-24
    for k, slope in enumerate(slopes):
        for _ in range(3):
            ways = [jnp.zeros_like(x) for x in given]
            ways[k] = jnp.asarray(rng.normal(size=slope.shape))
            if kind == "all" and k in (1, 2):  # sums stay equal
                ways[k] -= ways[k].mean()
            up, down = (
                value(*(x + s * way for x, way in zip(given, ways, strict=True)))
                for s in (step, -step)
            )
            found = (slope * ways[k]).sum()
            np.testing.assert_allclose(found, (up - down) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_of_the_twin(kind):
    case = problem_of(5, kind)

    def slope(method):
        return jax.grad(
            lambda c: (
                jm.solve_sparse_transport(
                    case.graph, c, case.supply, case.demand, **case.options, method=method
                ).cost
            )
        )(jnp.asarray(case.cost))

    np.testing.assert_allclose(slope("xla"), slope("auto"), atol=1e-12)


def test_no_plan_and_forbidden_pairs():
    graph = jm.BipartiteGraph.from_edges([0, 0], [0, 1], (1, 2))
    value = lambda c, a, b, w: jm.solve_sparse_transport(graph, c, a, b, limit=w).cost  # noqa: E731
    every = jax.grad(value, (0, 1, 2, 3))
    costs, two = jnp.array([jnp.inf, 2.0]), jnp.array([1.0, 1.0])
    for slope in every(costs, jnp.array([2.0]), two, two):
        assert not slope.any()  # nothing moves to the first column
    slopes = every(costs, jnp.array([1.0]), jnp.array([0.0, 1.0]), 2 * two)
    assert all(jnp.isfinite(x).all() for x in slopes)
    assert slopes[0].tolist() == [0, 1] and not slopes[3].any()
