"""The check accepts what is right, from anybody, and nothing else."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import x64
from min_cost_flow_helpers import Problem, prove, random_problem, scaled

import jaxmatch as jm
from jaxmatch import Status


def solved(seed, **options):
    """A problem with an optimum, and its result."""
    rng = np.random.default_rng(seed)
    while True:
        problem = random_problem(rng, 6, 18, **options)
        res = problem.solve()
        if res.status == Status.OPTIMAL:
            return problem, res


@pytest.mark.parametrize("kind", ["integers", "floats"])
@pytest.mark.parametrize("seed", range(6))
def test_wrong_flows(seed, kind):
    problem, res = solved(seed, lower=seed % 2 == 0)
    if kind == "floats":
        problem = scaled(problem, 0.1, 0.7)
        res = problem.solve()
    assert problem.check(res).optimal
    loop = np.asarray(problem.network.senders) == np.asarray(problem.network.receivers)
    for k in range(18):
        for step in (-1, 1):
            flow = res.flow.copy()
            flow[k] += step if kind == "integers" else 1e-8 * step
            check = problem.check(res.replace(flow=flow))
            assert not check.optimal or (loop[k] and problem.cost[k] == 0)
            assert not check.valid or loop[k]
    for bad in (np.nan, np.inf):
        if kind == "floats":
            flow = res.flow.copy()
            flow[3] = bad
            assert not problem.check(res.replace(flow=flow)).valid


@pytest.mark.parametrize("seed", range(6))
def test_other_potentials(seed):
    """They prove what they prove: exactly the gap of rational arithmetic, rounded upwards."""
    problem, res = solved(seed, endless=0.2)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        other = res.replace(potential=res.potential + rng.integers(-2, 3, 6))
        check, (_, gap) = problem.check(other), prove(problem, other)
        y, (tail, head) = other.potential, (problem.network.senders, problem.network.receivers)
        endless = problem.capacity == np.iinfo(problem.capacity.dtype).max
        pays = problem.cost - y[np.asarray(tail)] + y[np.asarray(head)] < 0
        if (endless & pays).any() and (endless & (problem.cost < 0)).any():
            assert check.gap == np.inf  # perhaps a cycle of such edges pays
            continue
        assert check.valid and check.optimal == (gap == 0)
        assert gap <= Fraction(check.gap.item()) <= gap * Fraction(1 + 1e-9)
    nan = scaled(problem, 1, 1)
    check = nan.check(nan.solve().replace(potential=np.full(6, np.nan)))
    assert check.valid and not check.optimal and check.gap == np.inf


def test_a_constant_does_not_count():
    problem, res = solved(1)
    assert problem.check(res.replace(potential=res.potential + 10**6)).optimal


def test_cuts():
    network = jm.FlowNetwork.from_edges([0, 0, 1, 2], [1, 2, 3, 3], 4)
    problem = Problem(network, np.array([3, 2, 2, 9]), np.ones(4, int), np.array([5, 0, 0, -5]))
    res = problem.solve()
    assert res.status == Status.INFEASIBLE and problem.check(res).infeasible
    for side in ([1, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]):
        cut = res.replace(source_side=np.array(side, bool))
        assert problem.check(cut).infeasible == (side == [1, 1, 0, 0])
    enough = problem._replace(capacity=np.array([3, 2, 3, 9]))
    assert not enough.check(res.replace(source_side=np.array([1, 1, 0, 0], bool))).infeasible


def test_cycles():
    most = np.iinfo(np.int64).max
    network = jm.FlowNetwork.from_edges([0, 1, 2, 1], [1, 2, 0, 0], 3)
    problem = Problem(network, np.full(4, most), np.array([1, 1, -3, 5]), np.zeros(3, int))
    res = problem.solve()
    assert res.status == Status.UNBOUNDED and res.cycle.tolist() == [True] * 3 + [False]
    assert problem.check(res).unbounded
    for edges in ([1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]):
        assert not problem.check(res.replace(cycle=np.array(edges, bool))).unbounded
    free = problem._replace(cost=np.array([1, 1, -2, 5]))
    assert not free.check(res).unbounded
    limited = problem._replace(capacity=np.array([most, 10**15, most, most]))
    assert not limited.check(res).unbounded


@pytest.mark.parametrize("kind", ["integers", "floats"])
def test_in_a_trace(kind):
    """As in NumPy, for a batch with wrong results among right ones."""
    rng = np.random.default_rng(3)
    network = random_problem(rng, 6, 18).network
    batch = [random_problem(rng, 6, 18, endless=0.1)._replace(network=network) for _ in range(12)]
    if kind == "floats":
        batch = [scaled(x, 0.1, 0.7) for x in batch]
    arrays = [np.stack(x) for x in list(zip(*batch, strict=True))[1:4]]
    res = jm.minimum_cost_flow(network, *arrays)
    wrong = res.flow.copy()
    wrong[::3, 0] += 1
    res = res.replace(flow=wrong)
    here = jm.check_minimum_cost_flow(network, *arrays, res)
    with x64(True):
        there = jax.jit(jm.check_minimum_cost_flow)(network, *map(jnp.asarray, arrays), res)
        mapped = jax.vmap(jm.check_minimum_cost_flow, (None, 0, 0, 0, 0))
        mapped = mapped(network, *map(jnp.asarray, arrays), res)
    for name in ("valid", "optimal", "infeasible", "unbounded"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
        np.testing.assert_array_equal(getattr(here, name), getattr(mapped, name))
    np.testing.assert_allclose(here.gap, there.gap, rtol=1e-6, atol=1e-12)
    assert here.optimal.any() and not here.optimal.all()


def test_sums_beyond_64_bits():
    """Flows that are conserved modulo 2^64 alone are not."""
    network = jm.FlowNetwork.from_edges([0, 0, 0, 0], [1, 1, 1, 1], 2)
    big = np.full(4, 2**62)
    problem = Problem(network, big, np.zeros(4, int), np.zeros(2, int))
    res = problem.solve().replace(flow=big)
    assert not problem.check(res).valid


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masses_out_of_balance(dtype):
    """No flow is valid if the sums of supplies and demands differ by more than roundings."""
    network = jm.FlowNetwork.from_edges([0, 0], [1, 2], num_nodes=3)
    capacity, cost = np.full(2, np.inf, dtype), np.array([1, 2], dtype)
    supply = np.array([0.5, -0.6, -0.5], dtype)
    res = jm.minimum_cost_flow(network, capacity, cost, supply)
    assert res.status == Status.UNBALANCED
    for flow in ([0, 0], [0.5, 0], [0.6, 0.5]):
        claim = res.replace(flow=np.array(flow, dtype), potential=np.zeros(3, dtype))
        check = jm.check_minimum_cost_flow(network, capacity, cost, supply, claim)
        assert not check.valid
        assert not check.optimal
